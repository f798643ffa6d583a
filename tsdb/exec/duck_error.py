"""DuckDB's errors as ours: one line, the place in the statement as it was written, and the nearest name where one is unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import duckdb

from tsdb.sql.series.width import UNITS
from tsdb.suggestion import nearest
from tsdb_format.errors import Error, InvalidInput, NotFound

#: Has DuckDB write its errors so that ``details`` reads them; a setting of a connection.
DETAILED = "SET SESSION errors_as_json = true"
_UNKNOWN_COLUMN = re.compile(r'(?:Referenced column|does not have a column named) "([^"]+)"')
_START = '{"exception_type"'
_MISSING = ("No files found", 'Referenced column "', 'Referenced table "', "does not have a column named")
_FUNCTIONS = ("Scalar Function", "Table Function", "Aggregate Function", "Macro Function", "Table Macro Function")
_GUESS = re.compile(r'Did you mean "([^"]+)"')
_NEAR = re.compile(r'syntax error at or near "([^"]+)"')
#: Types that one may mean; DuckDB's own guesses are odd.
_TYPES = (
    "BIGINT", "BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "INT", "INTEGER", "INTERVAL", "SMALLINT",
    "STRING", "TEXT", "TIME", "TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP_S", "TIMESTAMPTZ", "TINYINT", "UBIGINT",
    "UUID", "VARCHAR",
)  # fmt: skip


def details(error: Exception) -> Mapping[str, Any]:
    """What DuckDB says about an error: ``exception_message``, ``position`` and more; nothing where it was not asked to."""
    text = str(error)
    at = text.find(_START)
    if at >= 0:
        with suppress(ValueError):
            found, _ = json.JSONDecoder().raw_decode(text[at:])
            return dict(found)
    return {}


def translate(
    error: Exception,
    tables: Mapping[str, str],
    columns: Iterable[str] = (),
    place: Callable[[int], str] | None = None,
    text: bytes = b"",
) -> Error:
    """An error of DuckDB's as one of our kinds, with the first line of its message.

    ``tables`` are those read, by the names of inputs, and ``columns`` what they have. ``place`` says, for people, where a byte of
    the text that DuckDB read, ``text``, stands in the statement.
    """
    known = details(error)
    said = f"{known['exception_type']} Error: {known['exception_message']}" if known else str(error)
    said = said.replace("Error Error:", "Error:")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    message = lines[0].replace('Values list "', 'table "') if lines else type(error).__name__
    for name in sorted(tables, key=len, reverse=True):
        message = message.replace(name, tables[name])
    hint = _hint(known, message, lines, columns)
    position = str(known.get("position", ""))
    if position.isdigit() and text[: int(position)][-1:].isdigit():
        hint = hint or _width(message)
    where = f" ({place(int(position))})" if place is not None and position.isdigit() else ""
    message = f"{message}{hint}{where}"
    if isinstance(error, duckdb.CatalogException) or any(words in message for words in _MISSING):
        return NotFound(message)
    if isinstance(error, duckdb.IOException | duckdb.InternalException | duckdb.InterruptException | duckdb.OutOfMemoryException):
        return Error(message)
    return InvalidInput(message)


def _hint(known: Mapping[str, Any], message: str, lines: list[str], columns: Iterable[str]) -> str:
    """What was probably meant."""
    name = str(known.get("name", ""))
    unknown = _UNKNOWN_COLUMN.search(message)
    if unknown is not None:
        close = nearest(unknown[1], columns)
        if close is not None:
            return f' Did you mean "{close}"?'
    if known.get("type") == "Type":
        close = nearest(name, _TYPES)
        return f' Did you mean "{close}"?' if close is not None else ""
    if known.get("type") in _FUNCTIONS:
        from tsdb.sql.series.word import WORDS

        guess = _GUESS.search(" ".join(lines[1:]) or str(known.get("candidates", "")))
        close = nearest(name, [word.lower() for word in WORDS] + ([guess[1]] if guess is not None else []))
        return f' Did you mean "{close}"?' if close is not None else ""
    more = next((line for line in lines[1:] if line.startswith(("Candidate bindings", "Candidate tables", "Did you mean"))), "")
    return f" {more}" if more else ""


def _width(message: str) -> str:
    """How a width such as ``2y`` is written where an expression stands."""
    found = _NEAR.search(message)
    unit = UNITS.get(found[1]) if found is not None else None
    return f": a width in an expression is INTERVAL '1 {unit.removesuffix('s')}'" if unit is not None else ""
