"""A table for files that have none yet: column names and types from their heads, the same for all files together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tsdb.catalog.table import build_schema
from tsdb.exec.kernels import csv_split, text_value
from tsdb.ingest.cells import NULL_WORDS, Cells, read_cells
from tsdb.ingest.csv_layout import read_layout
from tsdb.ingest.csv_text import read_pieces
from tsdb.ingest.file_plan import TimeOptions, parquet_relation
from tsdb.ingest.instant import TimeReading
from tsdb.ingest.source import Source
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import Column, Schema
from tsdb_format.types import TIMESTAMP_US, Role, parse_type
from tsdb_format.vector import BoolArray

#: Files that are looked into; of more, these many are taken evenly.
FILES_MAX = 256
#: Values of a column that are kept to look at.
SAMPLE_VALUES = 1000
#: Of a column's values that are not NULL, the part that must be numbers, or times, for it to be of that type: the rest is rejected.
MAJORITY = 0.9
#: The part from which it is told that a column is STRING for the sake of the others.
DOUBTFUL = 0.5
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
#: Kinds that nearly all of a column's values may be of, while some are not.
_NUMBERS_AND_TIMES = ("DOUBLE", "TIMESTAMP_NS", "TIMESTAMP_US")
_FROM_DUCKDB = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "INT32", "SMALLINT": "INT32", "INTEGER": "INT32", "UTINYINT": "INT32", "USMALLINT": "INT32",
    "BIGINT": "INT64", "UINTEGER": "INT64", "UBIGINT": "INT64", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "HUGEINT": "DOUBLE",
    "DATE": "DATE", "BLOB": "BLOB",
}  # fmt: skip


@dataclass(slots=True)
class _Doubt:
    """Values that are not what most of a column's are: how many, of how many that are not NULL, and one of them."""

    refused: int
    valued: int
    example: str

    def plus(self, other: _Doubt | None) -> _Doubt:
        return self if other is None else _Doubt(self.refused + other.refused, self.valued + other.valued, self.example)


@dataclass(slots=True)
class _Seen:
    """What one file's column looks like: its kind, None where all is NULL, and some of its values."""

    name: str
    kind: str | None
    values: list[Any]
    doubt: _Doubt | None = None


class _Guess:
    """What is known of one column over all files: its kind, None while only NULL was seen, and some of its values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: str | None = None
        self.values: list[Any] = []
        self.doubt: _Doubt | None = None
        self.mixed: tuple[str, str] | None = None

    def add(self, seen: _Seen) -> None:
        """Take a further file's column into account."""
        self.values += seen.values[:SAMPLE_VALUES]
        if seen.doubt is not None:
            self.doubt = seen.doubt.plus(self.doubt)
        if seen.kind is None or seen.kind == self.kind:
            return
        if self.kind is None:
            self.kind = seen.kind
            return
        wider = _WIDER.get((self.kind, seen.kind)) or _WIDER.get((seen.kind, self.kind))
        if wider is None and self.mixed is None:
            self.mixed = self.kind, seen.kind
        self.kind = wider or "STRING"

    def note(self, kind: str) -> str | None:
        """What is worth saying about the column, which became one of a kind; None where nothing is."""
        if kind == "STRING" and self.mixed is not None:
            return f"column {self.name!r} is STRING: some files have {self.mixed[0]} in it and others {self.mixed[1]}"
        if self.doubt is None:
            return None
        found = f"{self.doubt.refused:,} of {self.doubt.valued:,} values looked at are"
        if kind == "STRING":
            return f"column {self.name!r} is STRING: {found} unlike the others, such as {self.doubt.example[:60]!r}"
        return f"column {self.name!r} is {kind}: {found} not, such as {self.doubt.example[:60]!r}; such rows are rejected"


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
        names = [seen.name.lower() for seen in columns]
        for seen in columns:
            if names.count(seen.name.lower()) > 1:
                raise InvalidInput(f"{source.path} has two columns {seen.name!r}")
            guesses.setdefault(seen.name.lower(), _Guess(seen.name)).add(seen)
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
    noted = [guesses[name.lower()].note(kind) for name, kind, _ in declared if name.lower() in guesses and name not in path_tags]
    options.notes += filter(None, noted)
    return build_schema([*declared, *((name, "BLOB", Role.FIELD) for name in blobs)])


def table_name(sources: Sequence[Source]) -> str:
    """A name for a table made of these files: the stem of the first."""
    stem = Path(sources[0].path).name.partition(".")[0]
    return re.sub(r"\W+", "_", stem).strip("_").lower() or "data"


def _columns(connection: Callable[[], Any], source: Source, known: set[str]) -> list[_Seen]:
    """The columns of a file that are not blank in name."""
    if source.format == "parquet":
        return _parquet_columns(connection(), source)
    layout = read_layout(source, known)
    if layout is None:
        return []
    cells = [Cells.of([]) for _ in layout.names]
    for piece in read_pieces(source, layout, list(range(layout.width))):
        sound = np.flatnonzero(piece.verdict == csv_split.FINE)
        cells = [piece.cells(index).take(sound) for index in range(layout.width)]
        break
    return [_seen(name, each) for name, each in zip(layout.names, cells, strict=True) if name]


def _filled(cells: Cells) -> list[int]:
    rows: list[int] = np.flatnonzero(cells.stops > cells.starts)[:SAMPLE_VALUES].tolist()
    return rows


def _seen(name: str, cells: Cells) -> _Seen:
    """What a column's cells look like: all of one kind, nearly all numbers or times, or text."""
    values = [cells.text(row) for row in _filled(cells)]
    kind = _kind_of_cells(cells)
    if kind != "STRING":
        return _Seen(name, kind, values)
    refused, valued = min((_refused(cells, kind) for kind in _NUMBERS_AND_TIMES), key=lambda found: int(found[0].sum()))
    share = 1 - refused.sum() / valued
    if share < DOUBTFUL:
        return _Seen(name, "STRING", values)
    doubt = _Doubt(int(refused.sum()), valued, cells.text(int(refused.argmax())))
    kind = _kind_of_cells(cells.take(np.flatnonzero(~refused))) if share >= MAJORITY else "STRING"
    return _Seen(name, kind, values, doubt)


def _refused(cells: Cells, kind: str) -> tuple[BoolArray, int]:
    """Which cells are not of a kind, and how many are not NULL."""
    converted = read_cells(cells, Column("", parse_type(kind), Role.FIELD, 1), TimeReading(), numbers=False)
    refused, validity = converted.refused(), converted.vector.validity
    valued = len(cells) if validity is None else int(validity.sum())
    return np.zeros(len(cells), np.bool_) if refused is None else refused, valued


def _kind_of_cells(cells: Cells) -> str | None:
    """The narrowest kind that reads every cell; None where all are NULL."""
    if not (cells.stops > cells.starts).any():
        return None
    numbers = read_cells(cells, Column("", parse_type("DOUBLE"), Role.FIELD, 1), TimeReading(), numbers=False).vector
    filled = cells if numbers.validity is None else cells.take(np.flatnonzero(numbers.validity))
    whole = not np.isin(filled.pool().data, np.frombuffer(b".eE", np.uint8)).any()  # 1.0 says that 1.5 may follow
    plain = whole and not np.isnan(numbers.values).any()
    kinds = ["INT64"] if plain else []
    kinds += ["DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP_NS", "TIMESTAMP_US"]
    for kind in kinds:
        refused, valued = _refused(cells, kind)
        if not refused.any():
            return kind if valued else None
    return "STRING"


def _parquet_columns(connection: Any, source: Source) -> list[_Seen]:
    import duckdb

    try:
        found = connection.execute(f"FROM {parquet_relation(source)} LIMIT {SAMPLE_VALUES}")
        described = [(each[0], _kind_of(str(each[1]))) for each in found.description]
        rows = found.fetchall()
    except duckdb.Error as error:
        raise InvalidInput(f"{source.path} cannot be read: {str(error).strip().splitlines()[0]}") from None
    samples = [[row[index] for row in rows if row[index] is not None] for index in range(len(described))]
    return [_typed(name, kind, values) for (name, kind), values in zip(described, samples, strict=True)]


def _typed(name: str, kind: str, values: list[Any]) -> _Seen:
    """A Parquet column: texts that are times are times; of no kind where there is no value yet."""
    if kind != "STRING" or not values or not isinstance(values[0], str):
        return _Seen(name, kind if values or kind != "STRING" else None, values)
    seen = _seen(name, Cells.of(values))
    return seen if seen.kind in ("DATE", "TIMESTAMP_NS", "TIMESTAMP_US") else _Seen(name, "STRING", values)


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
        if _mostly_times(found):
            found.kind = "TIMESTAMP_NS"
            return found
        raise InvalidInput(f"column {wanted!r} holds no times that can be read, such as {str(found.values[0])[:60]!r}")
    moments = [guess for guess in guesses.values() if guess.kind in ("TIMESTAMP_NS", "TIMESTAMP_US", "DATE")]
    for name in TIME_NAMES:
        found = guesses.get(name)
        if found is not None and (found in moments or found.kind in ("INT32", "INT64", "DOUBLE")):
            return found
        if found is not None and found.kind == "STRING" and _mostly_times(found):
            found.kind = "TIMESTAMP_NS"
            return found
    if moments:
        return moments[0]
    unseen = [guesses[name] for name in TIME_NAMES if name in guesses and guesses[name].kind is None]
    if unseen:
        return unseen[0]
    raise InvalidInput(f"none of the columns is recognisably the time: {names}; time=… (--time) says which one it is")


def _mostly_times(guess: _Guess) -> bool:
    """Whether more than half of the texts of a column are times, or counts of them."""
    texts = [value for value in guess.values if isinstance(value, str)]
    return bool(texts) and max(_share_of_times(texts), _share_of_times(texts, numbers=True)) > 0.5


def _time_type(guess: _Guess) -> str:
    """Nanoseconds, or microseconds where some year does not fit them."""
    years = [int(str(value)[:4]) for value in guess.values if guess.kind == "DATE" and str(value)[:4].isdigit()]
    wide = guess.kind == "TIMESTAMP_US" or (years and not (min(years) >= 1678 and max(years) <= 2261))
    return "TIMESTAMP_US" if wide else "TIMESTAMP_NS"


def _tag_type(guess: _Guess) -> str:
    """Whole numbers and truth values stay what they are if all are, and are written in the one way; all else is text."""
    if guess.doubt is not None:
        return "STRING"
    nulls = {word.decode() for word in NULL_WORDS}
    written = (str(value).strip() for value in guess.values if value is not None)
    if guess.kind in ("INT32", "INT64") and all(text == str(int(text)) for text in written if text not in nulls):
        return guess.kind
    if guess.kind == "BOOLEAN" and not all(isinstance(value, str) for value in guess.values):
        return guess.kind
    return "STRING"
