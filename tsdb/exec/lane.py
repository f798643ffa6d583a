"""Lanes: the device runs of a table snapshot, arranged so that every row is read once and as its newest version.

A *run* is one device's rows in one file, in time order. Runs that share no instant with another run of their device are
*clean*: each file's clean runs form a ``FileLane``, read in place. Runs that overlap are *merged*: together they form the
``MergeLane``, whose runs are per device and span files. Which runs overlap is a fact of the snapshot, found once and kept with
it.
"""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import runs as run_kernels
from tsdb.exec.rows import MergedRows, merge_rows
from tsdb_format.vector import IntArray

if TYPE_CHECKING:
    from tsdb.exec.source import ScanSources
    from tsdb.storage.snapshot import TableSnapshot

Int32Array = NDArray[np.int32]
_NO_MASK = np.empty(0, np.bool_)


class FileLane:
    """The clean runs of one file. ``merged`` marks the file's other devices, None where there are none."""

    def __init__(self, table: TableSnapshot, index: int, merged: NDArray[np.bool_] | None) -> None:
        self.files = (index,)
        self.merged = merged
        self._open_file = table.files[index]
        self._ranks = table.devices.rank

    @property
    def device(self) -> Int32Array:
        """Table-wide device of each run."""
        return self._open_file.device_number

    @property
    def min_time(self) -> IntArray:
        """Each run's first time."""
        return self._open_file.file.resource.min_time

    @property
    def max_time(self) -> IntArray:
        """Each run's last time."""
        return self._open_file.file.resource.max_time

    @cached_property
    def rank(self) -> IntArray:
        """Each run's device's position in tag order."""
        return self._ranks[self.device].astype(np.int64)

    def order(self, descending: bool) -> Int32Array:
        """Runs by their best time: newest first, or oldest first; ties in tag order."""
        return self._newest_first if descending else self._oldest_first

    @cached_property
    def _newest_first(self) -> Int32Array:
        return self._clean(self._open_file.file.resource.by_max_time)

    @cached_property
    def _oldest_first(self) -> Int32Array:
        return self._clean(self._open_file.file.resource.by_min_time)

    def _clean(self, order: Int32Array) -> Int32Array:
        return order if self.merged is None else order[~self.merged[order]]

    def bounds(self, runs: IntArray) -> tuple[IntArray, IntArray]:
        """Row ranges of runs, as (n, 1) starts and stops."""
        row_start = self._open_file.file.row_start
        return row_start[runs].reshape(-1, 1), row_start[runs + 1].reshape(-1, 1)


class MergeLane:
    """The overlapping runs of a table: per device (in tag order) one row range in each of ``files``, empty where it has none."""

    merged = None

    def __init__(
        self, files: tuple[int, ...], ranks: Int32Array, device: Int32Array, min_time: IntArray, max_time: IntArray,
        starts: IntArray, stops: IntArray,
    ) -> None:  # fmt: skip
        self.files = files
        self._ranks = ranks
        self.device = device
        self.min_time = min_time
        self.max_time = max_time
        self._starts = starts
        self._stops = stops

    @cached_property
    def rank(self) -> IntArray:
        """Each run's device's position in tag order."""
        return self._ranks[self.device].astype(np.int64)

    def order(self, descending: bool) -> Int32Array:
        """Runs by their best time: newest first, or oldest first; ties in tag order."""
        return self._newest_first if descending else self._oldest_first

    @cached_property
    def _newest_first(self) -> Int32Array:
        return np.argsort(~self.max_time, kind="stable").astype(np.int32)

    @cached_property
    def _oldest_first(self) -> Int32Array:
        return np.argsort(self.min_time, kind="stable").astype(np.int32)

    def bounds(self, runs: IntArray) -> tuple[IntArray, IntArray]:
        """Row ranges of runs, as (n, files) starts and stops."""
        return self._starts[runs], self._stops[runs]

    def rows(self, sources: ScanSources, starts: IntArray, stops: IntArray) -> MergedRows:
        """The rows of (n, files) ranges, versions brought together."""
        parts = []
        for column in range(len(self.files)):
            first, last = starts[:, column], stops[:, column]
            some = first < last
            parts.append((np.ascontiguousarray(first[some]), np.ascontiguousarray(last[some])))
        return merge_rows([sources[index] for index in self.files], parts)


Lane: TypeAlias = FileLane | MergeLane

_LANES: weakref.WeakKeyDictionary[TableSnapshot, tuple[Lane, ...]] = weakref.WeakKeyDictionary()


def lanes_of(table: TableSnapshot) -> tuple[Lane, ...]:
    """The lanes of a snapshot: one per file, in file order, then the merge lane if any runs overlap. Found once per snapshot."""
    found = _LANES.get(table)
    if found is None:
        found = _LANES[table] = _find_lanes(table)
    return found


def _find_lanes(table: TableSnapshot) -> tuple[Lane, ...]:
    candidates = _overlapping_files(table) if table.table.options.mode == "table" else []
    if not candidates:
        return tuple(FileLane(table, index, None) for index in range(len(table.files)))
    device = np.concatenate([table.files[i].device_number for i in candidates])
    low = np.concatenate([table.files[i].file.resource.min_time for i in candidates])
    high = np.concatenate([table.files[i].file.resource.max_time for i in candidates])
    order = np.lexsort((low, device))
    marks = np.empty(len(order), np.bool_)
    count = run_kernels.overlapping(device[order], low[order], high[order], marks)
    dirty = np.empty(len(order), np.bool_)
    dirty[order] = marks
    merged: dict[int, NDArray[np.bool_]] = {}
    at = 0
    for index in candidates:
        size = len(table.files[index].device_number)
        if dirty[at : at + size].any():
            merged[index] = dirty[at : at + size]
        at += size
    file_lanes: list[Lane] = [FileLane(table, index, merged.get(index)) for index in range(len(table.files))]
    return (*file_lanes, _merge_lane(table, merged)) if count else tuple(file_lanes)


def _overlapping_files(table: TableSnapshot) -> list[int]:
    """Files whose whole time range meets another's: only they can hold overlapping runs."""
    low = np.array([file.min_time for file in table.files], np.int64)
    high = np.array([file.max_time for file in table.files], np.int64)
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    meets = np.zeros(len(order), np.bool_)
    meets[1:] = low[1:] <= np.maximum.accumulate(high)[:-1]  # some file that begins before
    meets[:-1] |= low[1:] <= high[:-1]  # the next one to begin
    return sorted(order[meets].tolist())


def _merge_lane(table: TableSnapshot, merged: dict[int, NDArray[np.bool_]]) -> MergeLane:
    files = tuple(sorted(merged))
    numbers = np.unique(np.concatenate([table.files[i].device_number[merged[i]] for i in files]))
    device = numbers[np.argsort(table.devices.rank[numbers], kind="stable")].astype(np.int32)
    place = np.full(table.devices.count, -1, np.int64)
    place[device] = np.arange(len(device))
    low = np.full(len(device), np.iinfo(np.int64).max)
    high = np.full(len(device), np.iinfo(np.int64).min)
    starts = np.zeros((len(device), len(files)), np.int64)
    stops = np.zeros((len(device), len(files)), np.int64)
    for column, index in enumerate(files):
        of = table.files[index]
        runs = np.flatnonzero(merged[index])
        at = place[of.device_number[runs]]
        starts[at, column] = of.file.row_start[runs]
        stops[at, column] = of.file.row_start[runs + 1]
        low[at] = np.minimum(low[at], of.file.resource.min_time[runs])
        high[at] = np.maximum(high[at], of.file.resource.max_time[runs])
    return MergeLane(files, table.devices.rank, device, low, high, starts, stops)
