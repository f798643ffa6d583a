"""Segments: the rows of a batch that fall into one cell, a group of devices and a bucket of time. Rows of a cell are neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.aggregate.bucket import Buckets
from tsdb.exec.device_group import Groups
from tsdb.exec.evaluate import evaluate
from tsdb.exec.kernels import bucket as kernels
from tsdb.exec.kernels.aggregate import count_rows
from tsdb.exec.rows import FileRows, RowSet
from tsdb.plan.predicate import compared_columns
from tsdb_format.vector import BoolArray, IntArray, Vector

if TYPE_CHECKING:
    from tsdb.exec.source import FileSource
    from tsdb.plan.predicate import Predicate
    from tsdb_format.encoding.fold import StoredFold

ALL = np.empty(0, np.bool_)
_NO_TIMES = np.empty(0, np.int64)


class Segments:
    """Segment k is the rows up to ``stop[k]`` of a batch, of ``group[k]`` and the bucket named ``start[k]`` (0 without buckets).

    ``sizes`` are the rows of each.
    """

    __slots__ = ("group", "sizes", "start", "stop")

    def __init__(self, stop: IntArray, group: IntArray, start: IntArray) -> None:
        self.stop = stop
        self.group = group
        self.start = start
        self.sizes = stop.copy()
        self.sizes[1:] -= stop[:-1]

    def __len__(self) -> int:
        return len(self.stop)


class DeviceRows(NamedTuple):
    """How many ``rows`` each ``device`` has in each ``segment`` of a batch, in their order; none may be."""

    segment: IntArray
    device: IntArray
    rows: IntArray


class RowBatch:
    """A row set with what was read of it: columns and conditions that several functions share are read and decided once."""

    def __init__(self, rows: RowSet, time: str, wants: Mapping[str, int]) -> None:
        """``wants``: what is folded of columns that nothing reads, in bits of ``kernels.fold``."""
        self.rows = rows
        self.time_name = time
        self._wants = wants
        self._columns: dict[str, Vector] = {}
        self._folded: dict[str, StoredFold | None] | None = None
        self._masks: dict[Predicate, BoolArray] = {}

    def read(self, name: str) -> Vector:
        """A column's values."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self.rows.read(name)
        return found

    def cells(self, name: str) -> Vector:
        """As ``read``, but of blobs outside of pages only where they are."""
        found = self._columns.get(name)
        if found is None:
            found = self.rows.read_cells(name)
            if found.pool is None or found.pool.kinds is None:
                self._columns[name] = found
        return found

    def folded(self, name: str, segments: Segments) -> StoredFold | None:
        """A column's sums and bounds by segment; None where it is to be read."""
        rows = self.rows
        if not self._wants or not isinstance(rows, FileRows):
            return None
        if self._folded is None:
            self._folded = rows.source.fold(self._wants, rows.starts, rows.stops, segments.stop)
        return self._folded.get(name)

    def time(self) -> IntArray:
        """Every row's time."""
        return self.read(self.time_name).values

    def by_device(self, segments: Segments, condition: Predicate | None) -> DeviceRows:
        """The rows that satisfy a condition, counted by segment and device: no row's own device is looked at."""
        stop, device = self._devices()
        ends = np.union1d(stop, segments.stop)
        rows = np.diff(ends, prepend=0)
        mask = self.mask(condition)
        if len(mask):
            rows = np.empty(len(ends), np.int64)
            count_rows(mask, ends, rows)
        return DeviceRows(segments.stop.searchsorted(ends), device[stop.searchsorted(ends)], rows)

    def _devices(self) -> tuple[IntArray, IntArray]:
        """Where each device's rows end, and its number."""
        rows = self.rows
        if isinstance(rows, FileRows):
            stop, run = _pieces(rows)
            return stop, rows.source.open_file.device_number[run].astype(np.int64)
        device = rows.device()
        ends = _changes(device)
        return ends, device[ends - 1].astype(np.int64)

    def mask(self, condition: Predicate | None) -> BoolArray:
        """Rows that satisfy a condition; empty: all."""
        if condition is None:
            return ALL
        found = self._masks.get(condition)
        if found is None:
            compared = compared_columns(condition)
            found = self._masks[condition] = evaluate(
                condition, lambda name: self.read(name) if name in compared else self.cells(name), self.rows.count
            )
        return found

    def taken(self, name: str, at: IntArray) -> Vector:
        """A column's values of some rows (ascending); where nothing has read the column, of no others. Blobs as ``cells`` are."""
        if name in self._columns:
            return self._columns[name].take(at)
        mask = np.zeros(self.rows.count, np.bool_)
        mask[at] = True
        return self.rows.select(mask).read_cells(name)


def both(one: BoolArray, other: BoolArray | None) -> BoolArray:
    """The conjunction of two masks, of which either may say nothing."""
    if other is None or not len(other):
        return one
    return other if not len(one) else one & other


class Segmenter:
    """Finds the segments of batches.

    With ``indexed``, the time index says in which bucket a device's rows are where that is one: their times are not read.
    """

    def __init__(self, groups: Groups, buckets: Buckets, *, indexed: bool) -> None:
        self.groups = groups
        self.buckets = buckets
        self._indexed = indexed and len(buckets) > 0
        self._of_runs: dict[int, IntArray] = {}

    def of_runs(self, source: FileSource) -> IntArray:
        """The group of each of a file's devices; of those that are not wanted it may be any."""
        found = self._of_runs.get(source.index)
        if found is None:
            devices = source.open_file.device_number
            found = np.zeros(len(devices), np.int64) if self.groups.count == 1 else self.groups.of_device[devices]
            self._of_runs[source.index] = found
        return found

    def segments(self, batch: RowBatch) -> Segments:
        """The segments of a batch that has rows."""
        rows = batch.rows
        if self.groups.count == 1 and not len(self.buckets):
            return Segments(np.array([rows.count]), np.zeros(1, np.int64), np.zeros(1, np.int64))
        if isinstance(rows, FileRows):
            piece_stop, piece_group, known = self._indexed_segments(rows)
            if known is not None:
                return Segments(piece_stop, piece_group, known)
        else:
            device = rows.device()
            piece_stop = _changes(device)
            piece_group = self.groups.of_device[device[piece_stop - 1]]
        times = batch.time() if len(self.buckets) else _NO_TIMES
        stop, group, start = _room(rows.count if len(self.buckets) else len(piece_stop))
        count = kernels.segments(piece_stop, piece_group, times, self.buckets.described, stop, group, start)
        return Segments(stop[:count], group[:count], start[:count])

    def _indexed_segments(self, rows: FileRows) -> tuple[IntArray, IntArray, IntArray | None]:
        """The segments that the time index knows; where a device's rows are in several buckets its pieces, without these."""
        file = rows.source.file
        row_start, index = file.row_start, file.resource
        first, last = (index.min_time, index.max_time) if self._indexed else (_NO_TIMES, _NO_TIMES)
        stop, group, start = _room(min(rows.count, len(rows.starts) + len(row_start)))
        count = kernels.indexed_segments(
            row_start, rows.source.open_file.device_number, self.groups.of_device, first, last, self.buckets.described,
            rows.starts, rows.stops, stop, group, start,
        )  # fmt: skip
        return stop[: abs(count)], group[: abs(count)], start[:count] if count >= 0 else None


def _room(count: int) -> tuple[IntArray, IntArray, IntArray]:
    return np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)


def _pieces(rows: FileRows) -> tuple[IntArray, IntArray]:
    """Where the rows of each of a file's devices end, and the number that this has in the file."""
    row_start = rows.source.file.row_start
    room = min(rows.count, len(rows.starts) + len(row_start))
    stop, found = np.empty(room, np.int64), np.empty(room, np.int64)
    count = kernels.pieces(row_start, rows.starts, rows.stops, _numbers(len(row_start) - 1), stop, found)
    return stop[:count], found[:count]


@lru_cache(maxsize=8)
def _numbers(count: int) -> IntArray:
    """0 to ``count`` - 1: for questions about few of a file's devices, what all of them have is not made."""
    return np.arange(count)


def _changes(device: NDArray[np.int32]) -> IntArray:
    """Where runs of rows of one device end."""
    return np.append(np.flatnonzero(device[1:] != device[:-1]) + 1, len(device))
