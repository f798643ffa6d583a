"""How one file's columns become a table's: decided before any row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tsdb.ingest.cells import Cells, read_cells
from tsdb.ingest.convert import reason
from tsdb.ingest.csv_layout import CsvLayout, read_layout
from tsdb.ingest.instant import UNITS, TimeReading, guess_unit
from tsdb.ingest.source import Source
from tsdb.quoting import quoted_name, quoted_text
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import Column, Schema
from tsdb_format.types import STRING, Role
from tsdb_format.vector import Vector

#: Columns of the table whose blobs are in files, and the columns that name these.
Blobs: TypeAlias = Mapping[str, str]
NO_BLOBS: Blobs = {}


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Column ``index`` of the file is ``column`` of the table. ``numbers``: its texts are numbers, for a time column epochs."""

    index: int
    name: str
    column: Column
    reading: TimeReading
    numbers: bool


@dataclass(slots=True)
class TimeOptions:
    """What the caller says about times, and what was found out on the way (``notes``), for all files of one ingest.

    With ``table_gives``, rows need none: they get the moment of their commit.
    """

    time: str | None = None
    time_unit: str | None = None
    timezone: str | None = None
    table_gives: bool = False
    notes: list[str] = field(default_factory=list)
    _readings: dict[str, TimeReading] = field(default_factory=dict)

    def reading(self, column: str, sample: Sequence[Any]) -> tuple[TimeReading, bool]:
        """How to read a time column, and whether its values are numbers; the first file that has it decides on the unit."""
        numbers = [number for number in map(_number, sample) if number is not None]
        filled = [value for value in sample if value is not None and str(value).strip()]
        numeric = bool(filled) and len(numbers) * 2 > len(filled)
        reading = self._readings.setdefault(column, TimeReading.of(self.time_unit, self.timezone))
        if numeric and reading.unit is None:
            unit = guess_unit(sorted(numbers, key=abs)[len(numbers) // 2])
            reading.unit = UNITS[unit]
            self.notes.append(f"column {column!r}: numbers were read as epoch times in {unit}")
        return reading, numeric

    def finish(self) -> list[str]:
        """Everything worth saying of what was found out."""
        out = list(self.notes)
        for name, reading in self._readings.items():
            if reading.ambiguous:
                zone = reading.zone.name if reading.zone else ""
                out.append(
                    f"column {name!r}: {reading.ambiguous:,} times that clocks in {zone} showed twice were read as the first"
                )
        return out


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A source with what its columns become. ``layout`` is None for Parquet; ``ignored`` are columns the table does not have.

    ``row_count`` is known of Parquet files only.
    """

    source: Source
    layout: CsvLayout | None
    columns: tuple[ColumnPlan, ...]
    ignored: tuple[str, ...]
    row_count: int = 0

    def row_estimate(self) -> float:
        """About how many rows the file has, for progress."""
        if self.layout is None:
            return self.row_count
        return self.source.bytes / self.layout.row_bytes * (4 if self.source.compressed else 1)

    def query(self) -> str:
        """The SELECT that delivers a Parquet file's columns in the plan's order."""
        selected = ", ".join(quoted_name(each.name) for each in self.columns)
        return f"SELECT {selected} FROM {parquet_relation(self.source)}"

    def constants(self, schema: Schema) -> dict[str, Vector]:
        """The tags that the path gives, as vectors of one row; raises InvalidInput where one is not of its column's type."""
        out: dict[str, Vector] = {}
        for name, text in self.source.path_tags.items():
            column = schema.column(name)
            converted = read_cells(Cells.of([text]), column, TimeReading(), numbers=True)
            if converted.status is not None:
                raise InvalidInput(f"tag {name!r} from the path: {reason(converted.status[0], column, text)}")
            out[name] = converted.vector
        return out


def plan_csv(source: Source, schema: Schema, options: TimeOptions, blobs: Blobs = NO_BLOBS) -> FilePlan | None:
    """The plan for a CSV file; None where it holds nothing. Raises NotFound, InvalidInput."""
    known = {column.name for column in schema} | ({options.time} if options.time else set()) | set(blobs.values())
    layout = read_layout(source, known)
    if layout is None:
        return None
    wanted = [column for column in schema if column.name not in source.path_tags]
    if layout.header is None:
        if layout.width != len(wanted):
            raise InvalidInput(
                f"{source.path} has no header and {layout.width} columns; without names they must be the table's: "
                + ", ".join(column.name for column in wanted)
            )
        matched = dict(enumerate(wanted))
    else:
        matched = match_header(source, layout.header, schema, options, blobs)
    plans: list[ColumnPlan] = []
    for index, column in matched.items():
        cells = [row[index] for row in layout.sample if index < len(row)]
        reading, numbers = options.reading(column.name, cells) if column.type.is_time else (TimeReading(), True)
        plans.append(ColumnPlan(index, layout.names[index], column, reading, numbers))
    last = layout.width - 1  # an unnamed last column is what a trailing delimiter makes
    left_out = (index for index in range(layout.width) if index not in matched)
    ignored = tuple(
        layout.names[index] or f"the unnamed column {index + 1}" for index in left_out if layout.names[index] or index < last
    )
    return FilePlan(source, layout, tuple(plans), ignored)


def plan_parquet(connection: Any, source: Source, schema: Schema, options: TimeOptions, blobs: Blobs = NO_BLOBS) -> FilePlan:
    """The plan for a Parquet file. Raises NotFound, InvalidInput."""
    import duckdb

    metadata = parquet_relation(source, "parquet_file_metadata")
    try:
        found = connection.execute(f"FROM {parquet_relation(source)} LIMIT 64")
        names = tuple(each[0] for each in found.description)
        sample = found.fetchall()
        [[rows]] = connection.execute(f"SELECT sum(num_rows) FROM {metadata}").fetchall()
    except duckdb.Error as error:
        raise InvalidInput(f"{source.path} cannot be read: {str(error).strip().splitlines()[0]}") from None
    matched = match_header(source, names, schema, options, blobs)
    plans: list[ColumnPlan] = []
    for index, column in matched.items():
        cells = [row[index] for row in sample]
        reading, numbers = options.reading(column.name, cells) if column.type.is_time else (TimeReading(), False)
        plans.append(ColumnPlan(index, names[index], column, reading, numbers))
    ignored = tuple(name for index, name in enumerate(names) if index not in matched)
    return FilePlan(source, None, tuple(plans), ignored, int(rows))


def match_header(
    source: Source, names: Sequence[str], schema: Schema, times: TimeOptions, blobs: Blobs = NO_BLOBS
) -> dict[int, Column]:
    """Which column of the table each of the file's is; those that the table does not have are left out.

    ``blobs`` are columns of the table by the file's columns that name their files: these come as texts.
    """
    by_name: Mapping[str, Column] = {column.name.lower(): column for column in schema if column.name not in blobs}
    time = times.time
    for column_name, path_name in blobs.items():
        if path_name.lower() not in {name.lower() for name in names}:
            raise NotFound(f"{source.path} has no column {path_name!r}; it has: {', '.join(names)}")
        by_name = {**by_name, path_name.lower(): replace(schema.column(column_name), type=STRING)}
    if time is not None:
        if time.lower() not in {name.lower() for name in names}:
            raise NotFound(f"{source.path} has no column {time!r}; it has: {', '.join(names)}")
        by_name = {**by_name, time.lower(): schema.time}
    matched: dict[int, Column] = {}
    for index, name in enumerate(names):
        column = by_name.get(name.lower())
        if column is None or (time is not None and column is schema.time and name.lower() != time.lower()):
            continue
        if column in matched.values():
            raise InvalidInput(f"{source.path} has two columns {name!r}")
        if column.name in source.path_tags:
            raise InvalidInput(f"{source.path} has a column {name!r}, and its path gives that tag too")
        matched[index] = column
    if schema.time not in matched.values() and not times.table_gives:
        raise NotFound(
            f"{source.path} has no column {schema.time.name!r} for the time; it has: {', '.join(names)} (say which one it is)"
        )
    shared = any(column is not schema.time for column in matched.values())
    if not shared and (not matched or (len(names) > 1 and any(column.role is Role.FIELD for column in schema))):
        raise NotFound(f"{source.path} shares no column but the time with the table; it has: {', '.join(names)}")
    return matched


def parquet_relation(source: Source, function: str = "read_parquet") -> str:
    """DuckDB's table function over the file under its literal name, which is not to be taken for a glob."""
    path = "".join(f"[{char}]" if char in "*?[" else char for char in source.path)
    return f"{function}([{quoted_text(path)}])"


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
