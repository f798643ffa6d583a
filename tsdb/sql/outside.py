"""Names in FROM that no table of the catalog has: frames of data in the caller's variables, as DuckDB finds them.

The variables are those of the functions that led here, innermost first: local, then global, those of tsdb and of the libraries that
call it left out. A table of that name always wins. Files and what DuckDB has by itself are named to DuckDB, which looks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import Frame
from tsdb.plan.schema import duckdb_name
from tsdb.quoting import quoted_name
from tsdb.sql.select import plain_table
from tsdb.sql.series.bounded import is_bounded
from tsdb.sql.statement import Query
from tsdb.sql.token import Token
from tsdb.sql.tree import is_local, span
from tsdb.suggestion import hint
from tsdb_format.errors import NotFound

#: Inputs are named so in DuckDB's text; users' names cannot collide with them by accident.
INPUT_PREFIX = "__tsdb_"
#: Tables that DuckDB has by itself.
_BUILT_IN = ("duckdb_", "pg_", "sqlite_", "pragma_", "information_schema")
#: What lists tables and columns.
_CATALOGS = ("information_schema", "duckdb_tables", "duckdb_columns", "duckdb_schemas", "duckdb_databases", "pg_", "sqlite_master")
#: Libraries between a user and us, whose variables are not the user's.
_LIBRARIES = frozenset({"tsdb", "tsdb_format", "tsdb_cli", "sqlalchemy", "pandas", "polars", "duckdb", "importlib", "contextlib"})
#: Words of a query that a table's name follows.
_BEFORE_TABLE = frozenset({"FROM", "JOIN", "PIVOT", "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER", "TABLE", "SUMMARIZE", "DESCRIBE"})


def frames_named_by(query: Query, tree: exp.Query, tables: Mapping[str, Table]) -> list[Frame]:
    """The frames that a query names; raises NotFound, with the nearest name, for what nothing has."""
    found: dict[str, Frame] = {}
    for node in tree.find_all(exp.Table):
        name = node.name
        schema = node.args.get("db")
        if not isinstance(node.this, exp.Identifier) or is_local(node) or (schema is not None and schema.name.lower() != "main"):
            continue
        if name in found or name.lower() in tables or name.lower().startswith(_BUILT_IN) or _is_file(name):
            continue
        value = _variable(name) if schema is None else None
        if value is not None:
            found[name] = Frame(name, value)
        elif plain_table(node) is not None and not any(cte.alias.lower() == name.lower() for cte in tree.find_all(exp.CTE)):
            at = span(node.this)
            raise not_found(name, tables, f" ({query.place(at[0])})" if at is not None and query.source else "")
    return list(found.values())


def frames_maybe_named(tokens: Sequence[Token], tables: Mapping[str, Table]) -> list[Frame]:
    """The frames that may be meant by a text whose tree is not known."""
    found: dict[str, Frame] = {}
    for before, token in zip(tokens, tokens[1:], strict=False):
        follows = before.upper in _BEFORE_TABLE or before.is_symbol(",", "(")
        if follows and token.is_name and token.text.lower() not in tables and token.text not in found:
            value = _variable(token.text)
            if value is not None:
                found[token.text] = Frame(token.text, value, certain=False)
    return list(found.values())


def catalog_read_by(tokens: Sequence[Token], tables: Mapping[str, Table]) -> tuple[str, ...]:
    """The statements that make DuckDB's catalog show our tables, for a query that names that catalog; else nothing."""
    if not any(token.is_name and token.text.lower().startswith(_CATALOGS) for token in tokens):
        return ()
    made = []
    for table in tables.values():
        columns = ", ".join(f"{quoted_name(column.name)} {duckdb_name(column.type)}" for column in table.schema)
        made.append(f"CREATE TABLE {quoted_name(table.name)} ({columns})")
    return tuple(made)


def not_found(name: str, tables: Mapping[str, Table], where: str = "") -> NotFound:
    """The error for a name that neither a table nor a frame has."""
    value = _found(name, lambda value: hasattr(value, "__len__") and not isinstance(value, type))
    if value is not None:
        library, kind = type(value).__module__.partition(".")[0], type(value).__name__
        return NotFound(
            f"no table {name!r}{where}, and the variable {name!r} is a {kind if library == 'builtins' else f'{library}.{kind}'}: "
            "a data frame, Arrow data or a dict of arrays or lists stands in FROM"
        )
    known = [table.name for table in tables.values() if not table.name.startswith(INPUT_PREFIX) and not is_bounded(table.name)]
    return NotFound(
        f"no table {name!r}{where}; {hint(name, dict.fromkeys([*known, *_visible_frames()]), 'the database has no tables')}"
    )


def _is_file(name: str) -> bool:
    """Whether DuckDB would take a name for a file or a pattern of files."""
    return any(mark in name for mark in "./*?\\")


def _variable(name: str) -> Any:
    """The frame of that name around the caller, or None."""
    return _found(name, _is_frame)


def _found(name: str, wanted: Callable[[Any], bool]) -> Any:
    """The innermost value of that name around the caller that is wanted, or None."""
    for caller in _callers():
        code = caller.f_code
        optimized = code.co_flags & CO_OPTIMIZED
        if not optimized or name in code.co_varnames or name in code.co_cellvars or name in code.co_freevars:
            # only then: in a function, Python 3.12 and older keep what ``f_locals`` shows until it returns
            value = caller.f_locals.get(name)
            if wanted(value):
                return value
        value = caller.f_globals.get(name)
        if wanted(value):
            return value
    return None


def _visible_frames() -> Iterator[str]:
    for caller in _callers():
        for names in (caller.f_locals, caller.f_globals):
            yield from (name for name, value in list(names.items()) if _is_frame(value))


def _callers() -> Iterator[FrameType]:
    """The functions that led here, innermost first."""
    caller: FrameType | None = sys._getframe(1)
    while caller is not None:
        if str(caller.f_globals.get("__name__", "")).partition(".")[0] not in _LIBRARIES:
            yield caller
        caller = caller.f_back


def _is_frame(value: Any) -> bool:
    """Whether a value is read as a table; nothing is imported to find out."""
    if isinstance(value, type):
        return False
    if isinstance(value, dict):
        return bool(value) and all(
            isinstance(name, str) and (isinstance(column, list | tuple) or type(column).__module__ == "numpy")
            for name, column in value.items()
        )
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    if kinds & {
        ("pandas", "DataFrame"),
        ("polars", "DataFrame"),
        ("polars", "LazyFrame"),
        ("pyarrow", "Dataset"),
        ("pyarrow", "Scanner"),
    }:
        return True
    return hasattr(value, "__arrow_c_stream__") and not any(
        name in ("Series", "ChunkedArray", "DuckDBPyRelation") for _, name in kinds
    )
