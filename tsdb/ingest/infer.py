"""A table for files that have none yet: column names and types from their heads, the same for all files together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsdb.catalog.table import build_schema
from tsdb.exec.kernels import csv_split, text_value
from tsdb.ingest.cells import Cells, read_cells
from tsdb.ingest.csv_layout import read_layout
from tsdb.ingest.csv_text import read_pieces
from tsdb.ingest.file_plan import TimeOptions, parquet_relation
from tsdb.ingest.instant import TimeReading
from tsdb.ingest.source import Source
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import Column, Schema
from tsdb_format.types import TIMESTAMP_US, Role, parse_type

#: Files that are looked into; of more, these many are taken evenly.
FILES_MAX = 256
#: Values of a column that are kept to look at.
SAMPLE_VALUES = 1000
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
    ("DATE", "TIMESTAMP_US"): "TIMESTAMP_US",
    ("TIMESTAMP_NS", "TIMESTAMP_US"): "TIMESTAMP_US",
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
        self.values += values[:SAMPLE_VALUES]
        if kind is None or kind == self.kind:
            return
        if self.kind is None:
            self.kind = kind
        else:
            self.kind = _WIDER.get((self.kind, kind)) or _WIDER.get((kind, self.kind)) or "STRING"


def infer_schema(
    connection: Callable[[], Any], sources: Sequence[Source], tags: Sequence[str], options: TimeOptions, blobs: Mapping[str, str]
) -> Schema:
    """The schema that fits the files: time first, then tags from the path, the given tags, and all else as fields.

    ``blobs`` are BLOB columns that take the places of the files' columns that name what is in them.
    """
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
    named = {paths.lower() for paths in blobs.values()}
    if named - {guess.name.lower() for guess in rest}:
        raise NotFound(f"no file has a column {min(named - {g.name.lower() for g in rest})!r} that could name files")
    declared += [(guess.name, guess.kind or "STRING", Role.FIELD) for guess in rest if guess.name.lower() not in named]
    return build_schema([*declared, *((name, "BLOB", Role.FIELD) for name in blobs)])


def table_name(sources: Sequence[Source]) -> str:
    """A name for a table made of these files: the stem of the first."""
    stem = Path(sources[0].path).name.partition(".")[0]
    return re.sub(r"\W+", "_", stem).strip("_").lower() or "data"


def _columns(connection: Callable[[], Any], source: Source, known: set[str]) -> list[tuple[str, str | None, list[Any]]]:
    """(name, kind, sample) of each column of a file that is not blank in name."""
    if source.format == "parquet":
        return _parquet_columns(connection(), source)
    layout = read_layout(source, known)
    if layout is None:
        return []
    found = [(name, _kind_of_cells(Cells.of([])), Cells.of([])) for name in layout.names]
    for piece in read_pieces(source, layout, list(range(layout.width))):
        sound = np.flatnonzero(piece.verdict == csv_split.FINE)
        cells = [piece.cells(index).take(sound) for index in range(layout.width)]
        found = [(name, _kind_of_cells(each), each) for name, each in zip(layout.names, cells, strict=True)]
        break
    return [(name, kind, [cells.text(row) for row in _filled(cells)]) for name, kind, cells in found if name]


def _filled(cells: Cells) -> list[int]:
    rows: list[int] = np.flatnonzero(cells.stops > cells.starts)[:SAMPLE_VALUES].tolist()
    return rows


def _kind_of_cells(cells: Cells) -> str | None:
    """The narrowest kind that reads every cell; None where all are blank."""
    if not (cells.stops > cells.starts).any():
        return None
    plain = not np.isin(cells.pool().data, np.frombuffer(b".eE", np.uint8)).any()  # 1.0 says that 1.5 may follow
    kinds = ["INT64"] if plain else []
    kinds += ["DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP_NS", "TIMESTAMP_US"]
    for kind in kinds:
        column = Column("", parse_type(kind), Role.FIELD, 1)
        if read_cells(cells, column, TimeReading(), numbers=False).refused() is None:
            return kind
    return "STRING"


def _parquet_columns(connection: Any, source: Source) -> list[tuple[str, str | None, list[Any]]]:
    import duckdb

    try:
        found = connection.execute(f"FROM {parquet_relation(source)} LIMIT {SAMPLE_VALUES}")
        described = [(each[0], _kind_of(str(each[1]))) for each in found.description]
        rows = found.fetchall()
    except duckdb.Error as error:
        raise InvalidInput(f"{source.path} cannot be read: {str(error).strip().splitlines()[0]}") from None
    samples = [[row[index] for row in rows if row[index] is not None] for index in range(len(described))]
    return [(name, _text_kind(kind, values), values) for (name, kind), values in zip(described, samples, strict=True)]


def _text_kind(kind: str, values: Sequence[Any]) -> str | None:
    """The kind of a Parquet column: texts that are times are times; None where there is no value yet."""
    if kind != "STRING" or not values or not isinstance(values[0], str):
        return kind if values or kind != "STRING" else None
    return "TIMESTAMP_NS" if _share_of_times(values) == 1.0 else kind


def _kind_of(duckdb_type: str) -> str:
    if duckdb_type.startswith("TIMESTAMP"):
        return "TIMESTAMP_NS"
    if duckdb_type.startswith("DECIMAL"):
        return "DOUBLE"
    vector = re.fullmatch(r"FLOAT\[(\d+)\]", duckdb_type)
    return f"VECTOR({vector[1]})" if vector else _FROM_DUCKDB.get(duckdb_type, "STRING")


def _share_of_times(texts: Sequence[str], *, numbers: bool = False) -> float:
    """How many of the texts are times as they are read here, of all."""
    cells = Cells.of(list(texts))
    _, status = TimeReading().text(TIMESTAMP_US, cells.starts, cells.stops, cells.data, numbers=numbers)
    return float(((status == text_value.ABSOLUTE) | (status == text_value.FINER)).mean())


def _time_column(guesses: dict[str, _Guess], wanted: str | None) -> _Guess:
    """The column that holds the time. Raises NotFound, InvalidInput."""
    names = ", ".join(guess.name for guess in guesses.values())
    if wanted is not None:
        found = guesses.get(wanted.lower())
        if found is None:
            raise NotFound(f"no file has a column {wanted!r}; there are: {names}")
        if found.kind in ("TIMESTAMP_NS", "TIMESTAMP_US", "DATE", "INT32", "INT64", "DOUBLE", None):
            return found
        texts = [value for value in found.values if isinstance(value, str)]
        if texts and max(_share_of_times(texts), _share_of_times(texts, numbers=True)) > 0.5:
            found.kind = "TIMESTAMP_NS"
            return found
        raise InvalidInput(f"column {wanted!r} holds no times that can be read, such as {str(found.values[0])[:60]!r}")
    moments = [guess for guess in guesses.values() if guess.kind in ("TIMESTAMP_NS", "TIMESTAMP_US", "DATE")]
    for name in TIME_NAMES:
        found = guesses.get(name)
        if found is not None and (found in moments or found.kind in ("INT32", "INT64", "DOUBLE")):
            return found
    if moments:
        return moments[0]
    raise InvalidInput(f"none of the columns is recognisably the time: {names}; time=… (--time) says which one it is")


def _time_type(guess: _Guess) -> str:
    """Nanoseconds, or microseconds where some year does not fit them."""
    years = [int(str(value)[:4]) for value in guess.values if guess.kind == "DATE" and str(value)[:4].isdigit()]
    wide = guess.kind == "TIMESTAMP_US" or (years and not (min(years) >= 1678 and max(years) <= 2261))
    return "TIMESTAMP_US" if wide else "TIMESTAMP_NS"


def _tag_type(guess: _Guess) -> str:
    """Whole numbers and truth values stay what they are if they are written in the one way; all else is text."""
    written = (str(value).strip() for value in guess.values if value is not None)
    if guess.kind in ("INT32", "INT64") and all(text == str(int(text)) for text in written):
        return guess.kind
    if guess.kind == "BOOLEAN" and not all(isinstance(value, str) for value in guess.values):
        return guess.kind
    return "STRING"
