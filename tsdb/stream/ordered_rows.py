"""Rows of several row sets in the order of storage (tags, time, commit), without reading what says so.

In each row set the rows of a device are a *run*, in order. The time index bounds each run's times, and its file the commits: where
the runs of a device follow each other by these, runs are put in order, and nothing is read. Else times and commits of the rows are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.shard import shards_of
from tsdb.exec.kernels import pieces as piece_kernels
from tsdb.exec.kernels import ranges
from tsdb.exec.rows import FileRows, MergedRows, RowSet, device_values
from tsdb.exec.source import FileSource
from tsdb.exec.stats import ScanStats
from tsdb.storage.snapshot import OpenFile, TableSnapshot
from tsdb.stream.storage_order import Runs
from tsdb_format.recycling import recycled
from tsdb_format.schema import SEQUENCE_NAME, Column
from tsdb_format.types import INT64, Role
from tsdb_format.vector import IntArray, Vector, concat, concat_pools

Int32Array = NDArray[np.int32]
#: What is known by that name are the times, whatever their column is called.
_TIME = "time"
_INT64_MAX = 2**63 - 1


class Pieces(NamedTuple):
    """Pieces of row sets, end to end: ``length`` rows of ``part`` from ``start`` on each, all of one device."""

    part: IntArray
    start: IntArray
    length: IntArray
    device: Int32Array

    def cut(self, ends: IntArray, first: int, last: int) -> Pieces:
        """The pieces of the rows ``first`` up to ``last``; ``ends`` are behind the last row of each piece."""
        some = slice(int(np.searchsorted(ends, first, "right")), int(np.searchsorted(ends, last, "left")) + 1)
        begins = ends[some] - self.length[some]
        skipped, stop = np.maximum(first - begins, 0), np.minimum(ends[some], last) - begins
        return Pieces(self.part[some], self.start[some] + skipped, stop - skipped, self.device[some])


class Blocks(NamedTuple):
    """Columns of row sets as they were read: a block has those of several sets, end to end.

    By row set, ``block`` is the number of its block and ``offset`` its first row there. ``columns`` has each column's blocks.
    """

    block: IntArray
    offset: IntArray
    columns: list[list[Vector]]

    @classmethod
    def of(cls, counts: Sequence[Sequence[int]], blocks: Sequence[Sequence[Vector]]) -> Blocks:
        """``counts`` are the rows of each set by block, ``blocks`` the columns of each."""
        block = np.repeat(np.arange(len(counts)), [len(each) for each in counts])
        offset = np.concatenate([np.cumsum(each) - each for each in counts])
        return cls(block, offset, [_with_one_pool(vectors) for vectors in zip(*blocks, strict=True)])


class OrderedRows:
    """Pieces of row sets as rows in one order, whose times and commits are read when they are asked for."""

    def __init__(
        self, parts: Sequence[RowSet], pieces: Pieces, devices: DeviceTable, known: Mapping[str, IntArray] | None = None
    ) -> None:
        """``known`` are columns of these rows that were read already, by name; ``pieces`` are not empty."""
        self._parts = parts
        self._pieces = pieces
        self._devices = devices
        self._known = dict(known or {})
        self._ends = np.cumsum(pieces.length)
        self.count = int(self._ends[-1])

    @property
    def sequence(self) -> IntArray:
        """The commit of every row."""
        return self._column(SEQUENCE_NAME)

    @property
    def time(self) -> IntArray:
        """Every row's time."""
        return self._column(_TIME)

    @property
    def device(self) -> Int32Array:
        """The table-wide device of every row."""
        return np.repeat(self._pieces.device, self._pieces.length)

    @property
    def is_of_one_device(self) -> bool:
        """Whether the first and the last row have the same device."""
        return bool(self._pieces.device[0] == self._pieces.device[-1])

    def slice(self, first: int, last: int) -> OrderedRows:
        """The rows ``first`` up to ``last``, of which there are some."""
        if first == 0 and last == self.count:
            return self
        known = {name: values[first:last] for name, values in self._known.items()}
        return OrderedRows(self._parts, self._pieces.cut(self._ends, first, last), self._devices, known)

    def of_commit(self, number: int) -> OrderedRows:
        """The same rows, of which it is known that one commit wrote them all."""
        return OrderedRows(self._parts, self._pieces, self._devices, {**self._known, SEQUENCE_NAME: np.full(self.count, number)})

    def uncounted(self) -> OrderedRows:
        """The same rows, of which nothing that is read is counted, and no lock wanted: whoever asks may hold it, interrupted."""
        return OrderedRows([_apart(rows) for rows in self._parts], self._pieces, self._devices, self._known)

    def tags(self, column: Column) -> Vector:
        """A tag or attribute of every row."""
        found, lengths = device_values(self._devices, column, self._pieces.device), self._pieces.length
        validity = None if found.validity is None else np.repeat(found.validity, lengths)
        return Vector(found.type, np.repeat(found.values, lengths, axis=0), validity, found.pool)

    def gathered(self, blocks: Blocks) -> list[Vector]:
        """Columns in this order, of their values for all rows of each row set."""
        pieces = self._pieces
        block, start = blocks.block[pieces.part], pieces.start + blocks.offset[pieces.part]
        if block[0] == block[-1] and bool((start[1:] == (start + pieces.length)[:-1]).all()) and bool((block == block[0]).all()):
            whole = slice(int(start[0]), int(start[0]) + self.count)
            return [vectors[block[0]].take(whole) for vectors in blocks.columns]
        order = np.argsort(block, kind="stable")
        moves = start[order], pieces.length[order], (self._ends - pieces.length)[order]
        bounds = np.searchsorted(block[order], np.arange(int(block.max()) + 2)).tolist()
        used = [
            (number, slice(*ends)) for number, ends in enumerate(zip(bounds[:-1], bounds[1:], strict=True)) if ends[0] < ends[1]
        ]
        made = []
        for vectors in blocks.columns:
            some = [(vectors[number], part) for number, part in used]
            validity = None
            if any(vector.validity is not None for vector, _ in some):
                validity = _moved(self.count, [(vector.valid(), part) for vector, part in some], moves).view(np.bool_)
            values = _moved(self.count, [(vector.values, part) for vector, part in some], moves)
            made.append(Vector(vectors[0].type, values, validity, vectors[0].pool))
        return made

    def _column(self, name: str) -> IntArray:
        """The times or commits; only of the rows in the pieces is anything read."""
        found = self._known.get(name)
        if found is None:
            own = self._own()
            columns = [Vector(INT64, rows.time()) if name == _TIME else rows.read(name) for rows in own._parts]
            apart = Blocks(np.arange(len(columns)), np.zeros(len(columns), np.int64), [columns])
            found = self._known[name] = own.gathered(apart)[0].values
        return found

    def _own(self) -> OrderedRows:
        """The same rows, of parts without those before and after all of them."""
        pieces = self._pieces
        used, part = np.unique(pieces.part, return_inverse=True)
        begins, ends = np.full(len(used), _INT64_MAX), np.zeros(len(used), np.int64)
        np.minimum.at(begins, part, pieces.start)
        np.maximum.at(ends, part, pieces.start + pieces.length)
        bounds = zip(used.tolist(), begins.tolist(), ends.tolist(), strict=True)
        parts = [_between(self._parts[at], first, last) for at, first, last in bounds]
        return OrderedRows(parts, pieces._replace(part=part, start=pieces.start - begins[part]), self._devices)


def in_storage_order(parts: Sequence[RowSet], lanes: Sequence[int], runs: Runs, table: TableSnapshot) -> OrderedRows:
    """The rows of row sets, at least one and none empty, which ascend by their ``lanes``; ``runs`` are those that they are of.

    Rows of one commit that are alike in tags and time are in the order of their shards, in files and in memory; those of one shard
    as they came.
    """
    devices = table.devices
    shard_by = table.table.options.shard_by
    by_field = any(table.table.schema.column(name).role is Role.FIELD for name in shard_by)
    if by_field and any(_shard_of(rows) is None for rows in parts):
        return _by_rows(parts, table, shard_by)
    part, start, length, run = _pieces_of(parts, lanes, runs, table)
    device = runs.device[run].astype(np.int32)
    if len(parts) == 1:
        return OrderedRows(parts, Pieces(part, start, length, device), devices)
    order = np.lexsort([column[run] for column in (runs.first, runs.high, runs.low, runs.rank)])
    columns = runs.lane, runs.rank, runs.low, runs.high, runs.first, runs.last
    lane, rank, low, high, first, last = (column[run[order]] for column in columns)
    later = first[1:] > last[:-1]
    if not by_field:
        later |= (first[1:] == last[:-1]) & (lane[1:] > lane[:-1])
    follows = (low[1:] > high[:-1]) | ((low[1:] == high[:-1]) & later)
    follows |= (lane[1:] == lane[:-1]) | (rank[1:] != rank[:-1])  # a run in two row sets; another device
    if not follows.all():
        return _by_rows(parts, table, shard_by if by_field else ())
    return OrderedRows(parts, Pieces(part[order], start[order], length[order], device[order]), devices)


def _shard_of(rows: RowSet) -> int | None:
    """The shard of all of the rows; None where they may have several."""
    held = rows.source.open_file if isinstance(rows, FileRows) else None
    return held.shard if isinstance(held, OpenFile) else None


def _by_rows(parts: Sequence[RowSet], table: TableSnapshot, shard_by: Sequence[str]) -> OrderedRows:
    """The rows of parts whose runs lie in each other; those alike in all else by the shards that ``shard_by`` gives."""
    devices = table.devices
    time = np.concatenate([rows.time() for rows in parts])
    sequence = np.concatenate([rows.read(SEQUENCE_NAME).values for rows in parts])
    device = np.concatenate([rows.device() for rows in parts])
    counts = np.array([rows.count for rows in parts])
    keys = [sequence, time, devices.ranks_of(device)[0]]
    if shard_by:
        shards = table.table.options.shards
        keys.insert(0, np.concatenate([shards_of([rows.read(name) for name in shard_by], shards) for rows in parts]))
    order = np.lexsort(keys)
    part = np.repeat(np.arange(len(parts)), counts)[order]
    device = device[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (order[1:] != order[:-1] + 1) | (part[1:] != part[:-1]) | (device[1:] != device[:-1])
    starts = np.flatnonzero(begins)
    part = part[starts]
    pieces = Pieces(
        part, order[starts] - (np.cumsum(counts) - counts)[part], np.diff(np.append(starts, len(order))), device[starts]
    )
    return OrderedRows(parts, pieces, devices, {_TIME: time[order], SEQUENCE_NAME: sequence[order]})


def _pieces_of(
    parts: Sequence[RowSet], lanes: Sequence[int], runs: Runs, table: TableSnapshot
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The pieces of row sets, in their order: row set, first row in it, number of rows, and the number of the run.

    Those of all files are found at once, the files' rows being numbered as if the files lay end to end.
    """
    count = sum(isinstance(rows, FileRows) for rows in parts)  # lanes of files come before those that span files
    files = [rows for rows in parts[:count] if isinstance(rows, FileRows)]
    found: list[tuple[IntArray, ...]] = []
    if files:
        own = np.searchsorted(runs.lane, lanes[:count])  # the first run of each one's lane
        shifts = np.repeat((runs.place - runs.start)[own], [len(rows.starts) for rows in files])
        starts, stops = (np.concatenate([getattr(rows, name) for rows in files]) + shifts for name in ("starts", "stops"))
        bounds = np.append(runs.place[: np.searchsorted(runs.lane, lanes[count - 1], "right")], _INT64_MAX)
        pieces, ends, run = np.empty((3, len(starts) + len(bounds)), np.int64)
        made = ranges.split_at(starts, stops, bounds, pieces, ends, run)
        pieces, ends, run = pieces[:made], ends[:made], run[:made]
        first_rows = np.cumsum([0] + [rows.count for rows in files])
        begin = np.cumsum(ends - pieces) - (ends - pieces)
        part = np.searchsorted(first_rows, begin, "right") - 1
        joined = np.flatnonzero(np.append(True, (run[1:] != run[:-1]) | (part[1:] != part[:-1])))
        begin = begin[joined]
        found.append((part[joined], begin - first_rows[part[joined]], np.diff(np.append(begin, first_rows[-1])), run[joined]))
    for number, (rows, lane) in enumerate(zip(parts[count:], lanes[count:], strict=True), count):
        device = rows.device()
        stop = _ends(device)
        start = np.append(0, stop[:-1])
        same = slice(*np.searchsorted(runs.lane, (lane, lane + 1)).tolist())
        run = same.start + np.searchsorted(runs.rank[same], table.devices.rank[device[start]])
        found.append((np.full(len(start), number), start, stop - start, run))
    return tuple(np.concatenate(columns) for columns in zip(*found, strict=True))  # type: ignore[return-value]


def _ends(values: NDArray[np.generic]) -> IntArray:
    """Where stretches of equal neighbours end."""
    return np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))


def _apart(rows: RowSet) -> RowSet:
    """The same rows from sources of their own."""
    if isinstance(rows, FileRows):
        return FileRows(_apart_source(rows.source), rows.starts, rows.stops, rows.count)
    sources = [_apart_source(source) for source in rows.sources]
    return MergedRows(sources, rows.entry_source, rows.entry_row, rows.groups, rows.device(), rows.time(), rows.stored_rows)


def _apart_source(source: FileSource) -> FileSource:
    return FileSource(source.table, source.open_file, source.index, ScanStats(source.stats.table), source.computed)


def _between(rows: RowSet, first: int, last: int) -> RowSet:
    """The rows ``first`` up to ``last`` of a row set."""
    if first == 0 and last == rows.count:
        return rows
    if not isinstance(rows, FileRows):
        place = np.arange(rows.count)
        return rows.select((place >= first) & (place < last))
    ends = np.cumsum(rows.stops - rows.starts)
    some = slice(int(np.searchsorted(ends, first, "right")), int(np.searchsorted(ends, last, "left")) + 1)
    starts, stops = rows.starts[some].copy(), rows.stops[some].copy()
    stops[-1] -= ends[some][-1] - last
    starts[0] = rows.stops[some.start] - (ends[some.start] - first)
    return FileRows(rows.source, starts, stops, last - first)


def _moved(count: int, blocks: list[tuple[NDArray[np.generic], slice]], moves: tuple[IntArray, IntArray, IntArray]) -> NDArray[Any]:
    """``count`` rows of some blocks, given with their part of the moves: from where, how many, and where to."""
    first = blocks[0][0]
    items = int(np.prod(first.shape[1:]))
    out = recycled(count * items, first.dtype).reshape((count, *first.shape[1:]))
    width = first.itemsize * items
    starts, lengths, places = (each * width for each in moves)
    stops, target = starts + lengths, out.reshape(-1).view(np.uint8)
    for held, part in blocks:
        source = np.ascontiguousarray(held).reshape(-1).view(np.uint8)
        piece_kernels.move(source, starts[part], stops[part], places[part], target)
    return out


def end_to_end(vectors: Sequence[Vector]) -> Vector:
    """Vectors of one type joined, in memory that is used again where they are numbers."""
    first = vectors[0]
    if len(vectors) == 1 or first.values.ndim > 1 or any(each.pool is not None or each.validity is not None for each in vectors):
        return concat(vectors)
    out = recycled(sum(map(len, vectors)), first.values.dtype)
    return Vector(first.type, np.concatenate([each.values for each in vectors], out=out))


def _with_one_pool(vectors: Sequence[Vector]) -> list[Vector]:
    """The vectors, as codes of one pool where they have any."""
    pools = [vector.pool for vector in vectors if vector.pool is not None]
    if not pools or all(pool is pools[0] for pool in pools):
        return list(vectors)
    pool, shifts = concat_pools(pools)
    return [
        Vector(vector.type, vector.values + np.int32(shift), vector.validity, pool)
        for vector, shift in zip(vectors, shifts, strict=True)
    ]
