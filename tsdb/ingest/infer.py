"""A table for files that have none yet: column names and types from their heads, the same for all files together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tsdb.catalog.table import build_schema
from tsdb.exec.kernels import text_value
from tsdb.ingest.csv_layout import CsvLayout, read_layout
from tsdb.ingest.file_plan import TimeOptions, csv_options, escaped_path
from tsdb.ingest.instant import TimeReading
from tsdb.ingest.source import Source
from tsdb.quoting import quoted_text
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import Schema
from tsdb_format.types import TIMESTAMP_NS, TIMESTAMP_US, Role
from tsdb_format.vector import Pool

#: Files that are looked into; of more, these many are taken evenly.
FILES_MAX = 256
#: Rows by which DuckDB judges a CSV column.
SNIFF_ROWS = 40_960
#: Names by which a time column is recognised, the surest first.
TIME_NAMES = ("time", "timestamp", "ts", "datetime", "date_time", "event_time", "_time", "date", "epoch", "t")

#: Inferred kinds from narrow to wide: two files that differ get the wider one, or STRING.
_WIDER = {
    ("INT32", "INT64"): "INT64",
    ("INT32", "DOUBLE"): "DOUBLE",
    ("INT64", "DOUBLE"): "DOUBLE",
    ("INT32", "FLOAT"): "DOUBLE",
    ("INT64", "FLOAT"): "DOUBLE",
    ("FLOAT", "DOUBLE"): "DOUBLE",
    ("DATE", "TIMESTAMP_NS"): "TIMESTAMP_NS",
}
_FROM_DUCKDB = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "INT32", "SMALLINT": "INT32", "INTEGER": "INT32", "UTINYINT": "INT32", "USMALLINT": "INT32",
    "BIGINT": "INT64", "UINTEGER": "INT64", "UBIGINT": "INT64", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "HUGEINT": "DOUBLE",
    "DATE": "DATE", "BLOB": "BLOB",
}  # fmt: skip


class _Guess:
    """What is known of one column over all files: its kind, None while only blanks were seen, and some of its values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: str | None = None
        self.values: list[Any] = []

    def add(self, kind: str | None, values: list[Any]) -> None:
        self.values += values[:1000]
        if kind is None or kind == self.kind:
            return
        if self.kind is None:
            self.kind = kind
        else:
            self.kind = _WIDER.get((self.kind, kind)) or _WIDER.get((kind, self.kind)) or "STRING"


def infer_schema(connection: Any, sources: Sequence[Source], tags: Sequence[str], options: TimeOptions) -> Schema:
    """The schema that fits the files: time first, then tags from the path, the given tags, and all else as fields."""
    step = -(-len(sources) // FILES_MAX)
    guesses: dict[str, _Guess] = {}
    for source in sources[::step]:
        known = {*tags, *([options.time] if options.time else ()), *TIME_NAMES}
        columns = _columns(connection, source, known)
        names = [name.lower() for name, *_ in columns]
        for name, kind, values in columns:
            if names.count(name.lower()) > 1:
                raise InvalidInput(f"{source.path} has two columns {name!r}")
            guesses.setdefault(name.lower(), _Guess(name)).add(kind, values)
    if not guesses:
        raise InvalidInput(f"{sources[0].path} holds no columns to make a table of")
    time = _time_column(guesses, options.time)
    path_tags = list(dict.fromkeys(name for source in sources for name in source.path_tags))
    for name in tags:
        if name.lower() not in guesses and name not in path_tags:
            raise NotFound(f"no file has a column {name!r} to be a tag; there are: {', '.join(g.name for g in guesses.values())}")
    tag_guesses = [guesses[name.lower()] for name in tags if name.lower() in guesses]
    declared = [(time.name, _time_type(time), Role.TIME)]
    declared += [(name, "STRING", Role.TAG) for name in path_tags]
    declared += [(guess.name, _tag_type(guess), Role.TAG) for guess in tag_guesses]
    rest = [guess for guess in guesses.values() if guess is not time and guess not in tag_guesses and guess.name not in path_tags]
    declared += [(guess.name, guess.kind or "STRING", Role.FIELD) for guess in rest]
    return build_schema(declared)


def table_name(sources: Sequence[Source]) -> str:
    """A name for a table made of these files: the stem of the first."""
    stem = Path(sources[0].path).name.partition(".")[0]
    return re.sub(r"\W+", "_", stem).strip("_").lower() or "data"


def _columns(connection: Any, source: Source, known: set[str]) -> list[tuple[str, str | None, list[Any]]]:
    """(name, kind, sample) of each column of a file that is not blank in name."""
    import duckdb

    try:
        if source.format == "parquet":
            found = connection.execute(f"FROM read_parquet([{quoted_text(escaped_path(source.path))}]) LIMIT 256")
            described = [(each[0], _kind_of(str(each[1]))) for each in found.description]
            rows = found.fetchall()
            samples = [[row[index] for row in rows if row[index] is not None] for index in range(len(described))]
            return [(name, _text_kind(kind, values), values) for (name, kind), values in zip(described, samples, strict=True)]
        layout = read_layout(source, known)
        if layout is None:
            return []
        return _csv_columns(connection, source, layout)
    except duckdb.Error as error:
        raise InvalidInput(f"{source.path} cannot be read: {str(error).strip().splitlines()[0]}") from None


def _csv_columns(connection: Any, source: Source, layout: CsvLayout) -> list[tuple[str, str | None, list[Any]]]:
    kinds = _sniffed(connection, source, layout)
    out: list[tuple[str, str | None, list[Any]]] = []
    for index, name in enumerate(layout.names):
        cells = [row[index] for row in layout.sample if index < len(row)]
        filled = [cell for cell in cells if cell.strip()]
        if not name:
            continue
        kind = kinds[index] if index < len(kinds) else "STRING"
        out.append((name, _text_kind(kind, filled), filled))
    return out


def _text_kind(kind: str, values: Sequence[Any]) -> str | None:
    """The kind of a column whose values may be text: what we read as times are times; None where there is no value yet."""
    if not values:
        return None if kind == "STRING" else kind
    if not isinstance(values[0], str) or kind == "DATE":
        return kind
    if _share_of_times(values) == 1.0:
        return "TIMESTAMP_NS"
    return "STRING" if kind == "TIMESTAMP_NS" else kind


def _sniffed(connection: Any, source: Source, layout: CsvLayout) -> list[str]:
    """Kinds by DuckDB's judgement; all STRING where it finds the file too irregular."""
    import duckdb

    path = quoted_text(escaped_path(source.path))
    query = f"SELECT Columns FROM sniff_csv({path}, {csv_options(source, layout)}, sample_size={SNIFF_ROWS}, ignore_errors=true)"
    try:
        [[found]] = connection.execute(query).fetchall()
    except duckdb.Error:
        return ["STRING"] * layout.width
    return [_kind_of(column["type"]) for column in found]


def _kind_of(duckdb_type: str) -> str:
    if duckdb_type.startswith("TIMESTAMP"):
        return "TIMESTAMP_NS"
    if duckdb_type.startswith("DECIMAL"):
        return "DOUBLE"
    vector = re.fullmatch(r"FLOAT\[(\d+)\]", duckdb_type)
    return f"VECTOR({vector[1]})" if vector else _FROM_DUCKDB.get(duckdb_type, "STRING")


def _share_of_times(texts: Sequence[str], *, numbers: bool = False) -> float:
    """How many of the texts, of all, are times as they are read here; one finer than the unit tried here is a time too."""
    pool = Pool.of([text.encode() for text in texts])
    _, status = TimeReading().text(TIMESTAMP_US, pool.offsets, pool.data, None, numbers=numbers)
    return float(((status == text_value.ABSOLUTE) | (status == text_value.FINER)).mean())


def _time_column(guesses: dict[str, _Guess], wanted: str | None) -> _Guess:
    """The column that holds the time. Raises NotFound, InvalidInput."""
    names = ", ".join(guess.name for guess in guesses.values())
    if wanted is not None:
        found = guesses.get(wanted.lower())
        if found is None:
            raise NotFound(f"no file has a column {wanted!r}; there are: {names}")
        if found.kind in ("TIMESTAMP_NS", "DATE", "INT32", "INT64", "DOUBLE", None):
            return found
        texts = [value for value in found.values if isinstance(value, str)]
        if texts and max(_share_of_times(texts), _share_of_times(texts, numbers=True)) > 0.5:
            found.kind = "TIMESTAMP_NS"
            return found
        raise InvalidInput(f"column {wanted!r} holds no times that can be read, such as {str(found.values[0])[:60]!r}")
    moments = [guess for guess in guesses.values() if guess.kind in ("TIMESTAMP_NS", "DATE")]
    for name in TIME_NAMES:
        found = guesses.get(name)
        if found is not None and (found in moments or found.kind in ("INT32", "INT64", "DOUBLE")):
            return found
    if moments:
        return moments[0]
    raise InvalidInput(f"none of the columns is recognisably the time: {names}; say which one it is")


def _time_type(guess: _Guess) -> str:
    """Nanoseconds, or microseconds where some year does not fit them."""
    texts = [str(value) for value in guess.values if value is not None]
    years = [int(text[:4]) for text in texts if guess.kind in ("TIMESTAMP_NS", "DATE") and text[:4].isdigit()]
    return str(TIMESTAMP_US if years and not (min(years) >= 1678 and max(years) <= 2261) else TIMESTAMP_NS)


def _tag_type(guess: _Guess) -> str:
    """Whole numbers and truth values stay what they are if they are written in the one way; all else is text."""
    written = (str(value).strip() for value in guess.values if value is not None)
    if guess.kind in ("INT32", "INT64") and all(text == str(int(text)) for text in written):
        return guess.kind
    if guess.kind == "BOOLEAN" and not all(isinstance(value, str) for value in guess.values):
        return guess.kind
    return "STRING"
