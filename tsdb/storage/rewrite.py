"""Rewriting: the rows that are left of some files of a table, in the order of one, a bounded part of time after the other.

What was overwritten, deleted or has expired is not in them any more. Everything goes by device runs: of each file the parts of runs
in a slice of time are read, the runs of a device are merged by time (one kernel for all devices), and each column is then put in
that order; versions of one row become its newest. Of the inputs one column of one file is in memory at a time, and the times.

The files may be data files or rows in memory, and must be a closed set (see ``layout``) in order of age.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tsdb.catalog.device import Int32Array
from tsdb.exec.kernels import runs as run_kernels
from tsdb.exec.kernels import sorting
from tsdb.exec.kernels.compaction import merge_runs, number_rows
from tsdb.exec.rows import coalesce
from tsdb.storage.arrange import SortedRows
from tsdb.storage.compaction import ttl_bound
from tsdb.storage.cuts import Cuts
from tsdb.storage.snapshot import TableFile, TableSnapshot
from tsdb.storage.tombstone import Tombstones, least_unapplied
from tsdb_format.errors import Corruption, Error, NotFound, UnsupportedFormat
from tsdb_format.pool import take_strings
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME, Column
from tsdb_format.vector import BoolArray, IntArray, Pool, Vector, concat_pools, null_vector

INT64_MAX = 2**63 - 1
#: Times of all inputs that are looked at to place the cuts between outputs.
_SAMPLE = 65_536
#: Times read at once when runs are cut.
_CUT_ROWS = 1 << 20
#: Rows of one output: positions are int32.
_ROWS_MAX = 2**31 - 1
NO_CUTS = Cuts()


class UnreadableInput(Error):
    """A file cannot be rewritten; ``name`` is the file's in the manifest, and the cause says what is wrong with it."""

    def __init__(self, name: str, cause: Exception) -> None:
        super().__init__(f"{name} cannot be read: {cause}")
        self.name = name


def rewrite(inputs: TableSnapshot, *, rows_max: int, cuts: Cuts = NO_CUTS) -> Iterator[SortedRows]:
    """The rows that are visible of a snapshot of just the files to rewrite, ascending in time: each yield is to become one file.

    Yields have about ``rows_max`` rows at most (rows of one instant stay together), end at ``cuts`` and cross no partition. Columns
    are the TIME column, ``_sn``, and the FIELDs that an input has. Raises UnreadableInput for damaged and missing files.
    """
    files = [_Input(inputs, number) for number in range(len(inputs.files))]
    total = sum(file.rows_left for file in files)
    highs = [INT64_MAX]
    if total > rows_max or cuts.required or cuts.free:
        step = max(1, total // _SAMPLE)
        highs = [cut - 1 for cut in cuts.place(_sampled(files, step), float(step), min(rows_max, _ROWS_MAX))] + highs
    options, kind = inputs.table.options, inputs.table.schema.time.type
    for high in highs:
        rows = _merged(inputs, [part for part in (file.take(high) for file in files) if len(part.starts)])
        if rows is None:
            continue
        if options.partition_ns is None:
            yield rows
        else:
            yield from _partitioned(
                rows, inputs.table.schema.time.name, max(1, options.partition_ns * kind.units_per_second // 10**9)
            )


class _Input:
    """One file, and the rows of each of its devices that are still to be taken."""

    def __init__(self, table: TableSnapshot, number: int) -> None:
        self.held: TableFile = table.files[number]
        self.time = table.table.schema.time
        with self.reading():
            self.file = self.held.file
            self.device = self.held.device_number
            self.min_time, self.max_time = self.file.resource.min_time, self.file.resource.max_time
            self._at, self._stop = self.file.row_start[:-1].copy(), self.file.row_start[1:]
            self._names = {column.id: column.name for column in self.file.schema}
        bound = ttl_bound(table.table.options, self.time.type, table.now_ns())
        if bound is not None and self.held.min_time < bound:
            self._at = self._first_above(bound - 1)

    @property
    def rows_left(self) -> int:
        """Rows still to be taken."""
        return int((self._stop - self._at).sum())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Names the file in errors that its content raises."""
        try:
            yield
        except (Corruption, NotFound, UnsupportedFormat) as error:
            raise UnreadableInput(self.held.name, error) from error

    def take(self, high: int) -> _Part:
        """The rows up to and with time ``high`` that were not taken yet."""
        starts = self._at
        stops = self._at = self._stop if self.held.max_time <= high else self._first_above(high)
        runs = np.flatnonzero(starts < stops)
        return _Part(self, runs, starts[runs], stops[runs])

    def stored_name(self, column: Column) -> str | None:
        """The file's name for a column of the table; None where it has none."""
        return SEQUENCE_NAME if column is SEQUENCE_COLUMN else self._names.get(column.id)

    def times_at(self, positions: IntArray) -> IntArray:
        """Times of some of the rows still to be taken; ``positions`` among them, ascending and distinct."""
        with self.reading():
            ends = np.cumsum(self._stop - self._at)
            run = np.searchsorted(ends, positions, "right")
            return self.file.read(self._names[self.time.id], *coalesce(positions + (self._stop - ends)[run])).values

    def _first_above(self, high: int) -> IntArray:
        """Per device the first row to be taken later than ``high``; some devices at a time."""
        found = np.where(self.max_time <= high, self._stop, self._at)
        cut = np.flatnonzero((self.min_time <= high) & (self.max_time > high) & (self._at < self._stop))
        starts, stops = self._at[cut], self._stop[cut]
        name = self._names[self.time.id]
        with self.reading():
            if int((stops - starts).sum()) >= self.file.searched_rows_min * len(cut):
                found[cut] = self.file.search(name, starts, stops, high, True)
                return found
            ends = np.cumsum(stops - starts)
            at = 0
            while at < len(cut):
                until = max(at + 1, int(np.searchsorted(ends, (ends[at - 1] if at else 0) + _CUT_ROWS, "right")))
                first, last = starts[at:until], stops[at:until]
                within = np.empty(len(first), np.int64)
                keys = np.full(len(first), high, np.int64)
                run_kernels.search(self.file.read(name, first, last).values, first, last, keys, 1, within)
                found[cut[at:until]] = within
                at = until
        return found


class _Part:
    """The rows of one file in one slice of time: a row range of each of some devices (``runs``, by number in the file)."""

    __slots__ = ("runs", "source", "starts", "stops")

    def __init__(self, source: _Input, runs: IntArray, starts: IntArray, stops: IntArray) -> None:
        self.source = source
        self.runs = runs
        self.starts = starts
        self.stops = stops

    def read(self, column: Column, runs: BoolArray | None = None) -> Vector:
        """A column's values in the ranges (or some of them), end to end; NULLs where the file does not have it."""
        starts, stops = self.starts, self.stops
        if runs is not None:
            starts, stops = starts[runs], stops[runs]
        name = self.source.stored_name(column)
        if name is None:
            return null_vector(column.type, int((stops - starts).sum()))
        first = np.append(True, starts[1:] != stops[:-1])  # a file taken whole is one range, not one for each device
        with self.source.reading():
            return self.source.file.read_cells(name, starts[first], stops[np.append(first[1:], True)])

    def alive(self, tombstones: Tombstones, times: IntArray) -> BoolArray | None:
        """Which rows no delete took, given their times; None for all."""
        source, least = self.source, least_unapplied(self.source.held)
        if not len(tombstones) or tombstones.index.last < least:
            return None
        device = source.device[self.runs]
        touched = tombstones.index.touches(device, source.min_time[self.runs], source.max_time[self.runs], least)
        if not touched.any():
            return None
        sizes = self.stops - self.starts
        some = np.repeat(touched, sizes)
        deleted = tombstones.index.sequence_at(np.repeat(device[touched], sizes[touched]), times[some])
        found = np.ones(len(times), np.bool_)
        found[some] = self.read(SEQUENCE_COLUMN, touched).values > deleted
        return None if found.all() else found


def _sampled(files: list[_Input], step: int) -> IntArray:
    """Every ``step``-th time of all rows to be taken, in order of time."""
    first = step // 2
    parts: list[IntArray] = []
    for file in files:
        positions = np.arange(first, file.rows_left, step)
        first += len(positions) * step - file.rows_left
        if len(positions):
            parts.append(file.times_at(positions))
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def _merged(table: TableSnapshot, parts: list[_Part]) -> SortedRows | None:
    """The rows of some parts of files, oldest file first, as one file holds them; None where none is left."""
    if not parts:
        return None
    schema = table.table.schema
    order = _ordered(table, parts)
    if order is None:
        return None
    columns = {schema.time.name: Vector(schema.time.type, order.times)}
    for column in (*schema.fields, SEQUENCE_COLUMN):
        if any(part.source.stored_name(column) is not None for part in parts):
            columns[column.name] = _placed(column, parts, order)
    return SortedRows(order.numbers, order.row_start, columns, order.overlaid)


@dataclass(frozen=True, slots=True)
class _Order:
    """How the rows of some parts become those of a file.

    ``numbers`` are the devices in tag order, device i has the rows row_start[i]:row_start[i+1], of the ``times``. Each part's rows
    have ``positions`` there, versions of a row the same one. ``alive``: which rows of a part have a position, None for all.
    """

    numbers: Int32Array
    row_start: IntArray
    times: IntArray
    positions: list[Int32Array]
    alive: list[BoolArray | None]
    overlaid: int


def _ordered(table: TableSnapshot, parts: list[_Part]) -> _Order | None:
    """Merge the runs of all parts by device in tag order and by time, without deleted rows; None where none is left."""
    times = [part.read(table.table.schema.time).values for part in parts]
    alive = [part.alive(table.tombstones, each) for part, each in zip(parts, times, strict=True)]
    sizes, devices = [], []
    for number, (part, mask) in enumerate(zip(parts, alive, strict=True)):
        size, device = part.stops - part.starts, part.source.device[part.runs]
        if mask is not None:
            size = np.add.reduceat(mask, np.cumsum(size) - size, dtype=np.int64)
            times[number], device, size = times[number][mask], device[size > 0], size[size > 0]
        sizes.append(size)
        devices.append(device)
    counts = [len(each) for each in times]
    joined, size, device = np.concatenate(times), np.concatenate(sizes), np.concatenate(devices)
    times.clear()
    if not len(joined):
        return None
    rank = table.devices.rank[device]
    by_rank = np.argsort(rank, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(rank[by_rank]) != 0))
    runs = np.append(first, len(by_rank))
    merged, order = np.empty(len(joined), np.int64), np.empty(len(joined), np.int32)
    edges = np.empty(int(np.diff(runs).max()) + 1, np.int64)
    scratch = len(joined) if len(edges) > 2 else 0
    stops = np.cumsum(size)
    merge_runs(
        joined, (stops - size)[by_rank], stops[by_rank], runs, edges, merged, order,
        np.empty(scratch, np.int64), np.empty(scratch, np.int32),
    )  # fmt: skip
    bounds = np.concatenate([[0], np.cumsum(np.add.reduceat(size[by_rank], first))])
    row_start, position = np.empty_like(bounds), np.empty(len(joined), np.int32)
    places = number_rows(merged, order, bounds, int(table.table.options.overlays), row_start, position)
    positions = np.split(position, np.cumsum(counts)[:-1])
    return _Order(device[by_rank[first]], row_start, merged[:places], positions, alive, len(joined) - places)


def _placed(column: Column, parts: list[_Part], order: _Order) -> Vector:
    """A column of all parts in order, part by part, oldest first: a value that is not NULL takes the place of an older one."""
    kind, count = column.type, len(order.times)
    shape = (count, kind.width) if kind.width else (count,)
    values, validity = np.empty(shape, kind.physical), np.zeros(count, np.bool_)
    pools: list[Pool] = []
    for part, position, alive in zip(parts, order.positions, order.alive, strict=True):
        if part.source.stored_name(column) is None:
            continue
        read = part.read(column)
        given = alive
        if read.validity is not None:
            given = read.validity if alive is None else read.validity & alive
            position = position[read.validity if alive is None else read.validity[alive]]
        taken = read.values if given is None else read.values[given]
        if read.pool is not None:
            taken = taken + np.int32(sum(len(pool) for pool in pools))
            pools.append(read.pool)
        sorting.scatter(taken, position, values)
        validity[position] = True
    if not validity.all():
        values[~validity] = 0
    made = Vector(kind, values, None if validity.all() else validity)
    return made if not pools else _with_used_strings(made, concat_pools(pools)[0])


def _with_used_strings(vector: Vector, pool: Pool) -> Vector:
    """The vector with its pool, or with one of only the strings it uses where the pool is large for it."""
    codes = vector.values
    if len(pool) > len(codes) // 2:
        used = np.zeros(len(pool), np.bool_)
        used[codes] = True
        codes = (np.cumsum(used, dtype=np.int32) - np.int32(1))[codes]
        pool = take_strings(pool, np.flatnonzero(used))
    return Vector(vector.type, codes, vector.validity, pool)


def _partitioned(rows: SortedRows, time: str, ticks: int) -> Iterator[SortedRows]:
    """The rows of each partition, ascending."""
    part = rows.columns[time].values // ticks
    if part.min() == part.max():
        yield rows
        return
    for number in np.unique(part).tolist():
        mask: BoolArray = part == number
        counts = np.add.reduceat(mask, rows.row_start[:-1], dtype=np.int64)
        row_start = np.concatenate([[0], np.cumsum(counts[counts > 0])])
        columns = {name: vector.take(mask) for name, vector in rows.columns.items()}
        yield SortedRows(rows.numbers[counts > 0], row_start, columns, rows.overlaid)
        rows.overlaid = 0
