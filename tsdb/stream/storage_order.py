"""A table's history in the order of storage (tags, time, commit), whatever files and runs in memory it lies in.

The rows of a selection are parted into groups that follow each other in that order: some devices together, or, where one device has
many rows in several files, a stretch of its time. A group of one file is in order as it is; one of several is small enough to be
sorted in memory. So the first rows come at once, and an order of millions of rows costs no memory.

The wanted runs of all files are found together, as arrays; of a file nothing is asked but these and, later, its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import pieces as piece_kernels
from tsdb.exec.lane import FileLane, Lane, Ranges
from tsdb.exec.rows import FileRows, RowSet
from tsdb.exec.selection import INT64_MAX, INT64_MIN, MERGED_RUNS_MAX, Selection
from tsdb_format.vector import IntArray

if TYPE_CHECKING:
    from tsdb.exec.source import FileSource

#: Rows of any group of one device alone, about, and of the first group, which somebody waits for.
GROUP_ROWS, _FIRST_ROWS = 65_536, 16_384
#: Later groups have so many rows of each lane, about, since every lane is read for every group; at most so many first ones.
_LANE_ROWS, _GROUPS_MAX = 16_384, 16
#: Runs that are found together, about, unless one device has more.
_RUNS_MAX = 262_144
_NO_ROWS = np.empty(0, np.int64)
_NO_MASK = np.empty(0, np.bool_)


class Runs(NamedTuple):
    """Wanted runs, lane by lane, those of one in tag order: the lane's number, the run's in it, and its device with its rank.

    ``low`` and ``high`` bound its times, ``first`` and ``last`` its commits. Its rows are ``start`` to ``stop`` of a file; where a
    lane spans files, they are only counted. ``place`` numbers the first row as if the files lay end to end.
    """

    lane: IntArray
    run: IntArray
    device: IntArray
    rank: IntArray
    low: IntArray
    high: IntArray
    start: IntArray
    stop: IntArray
    first: IntArray
    last: IntArray
    place: IntArray

    def take(self, chosen: IntArray | slice) -> Runs:
        """Some of the runs, in the same order."""
        return Runs._make(column[chosen] for column in self)


class Group(NamedTuple):
    """Rows that follow those of the groups before: row sets that are each in order, lane by lane, and the runs that they are of.

    ``lanes`` has the number of each row set's lane. Only several row sets need sorting.
    """

    parts: list[RowSet]
    lanes: list[int]
    runs: Runs


class StorageOrder:
    """The selected rows in the order of storage; value filters not yet applied."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._lanes = selection.lanes()
        self._files = [selection.table.files[lane.files[0]] if isinstance(lane, FileLane) else None for lane in self._lanes]
        self._first = np.array([INT64_MIN if file is None else file.min_sequence for file in self._files], np.int64)
        self._last = np.array([INT64_MAX if file is None else file.max_sequence for file in self._files], np.int64)
        sizes = np.array([0 if file is None else file.row_count for file in self._files], np.int64)
        self._base = np.cumsum(sizes) - sizes

    def groups(self, first_rank: int = 0) -> Iterator[Group]:
        """The rows of devices from ``first_rank`` on."""
        first_rows = _FIRST_ROWS
        for runs in self._windows(first_rank):
            by_rank = np.argsort(runs.rank, kind="stable")
            rows = (runs.stop - runs.start)[by_rank]
            for begin, end in _stretches(runs.rank[by_rank], rows, len(self._lanes), first_rows):
                yield from self._groups_of(runs.take(np.sort(by_rank[begin:end])))
            first_rows = 0
        self._selection.completed = True

    def whole(self) -> Group:
        """All rows as one group."""
        parts: list[RowSet] = []
        lanes: list[int] = []
        runs = Runs(*(np.empty(0, np.int64) for _ in Runs._fields))
        for runs in self._windows(0, parted=False):
            self._selection.count_runs(len(runs.lane))
            for lane, rows in self._parts(runs):
                parts.append(rows)
                lanes.append(lane)
        self._selection.completed = True
        return Group(parts, lanes, runs)

    def _windows(self, first_rank: int, *, parted: bool = True) -> Iterator[Runs]:
        """The wanted runs of some devices after others', about so many each time as are found together; or, not ``parted``, all."""
        lanes, devices, mask = self._lanes, self._selection.table.devices, self._selection.device_mask
        if not lanes:
            return
        ranks: Sequence[int] | NDArray[np.int32] = range(first_rank, devices.count)
        if len(mask):
            ranks = np.sort(devices.rank[np.flatnonzero(mask)])
            ranks = ranks[np.searchsorted(ranks, first_rank) :]
        runs = min(sum(len(lane.device) for lane in lanes), len(ranks) * len(lanes))
        step = max(len(ranks) * _RUNS_MAX // max(runs, 1), 1) if parted else max(len(ranks), 1)
        for at in range(0, len(ranks), step):
            some = ranks[at : at + step]
            found = self._runs_of(int(some[0]), int(some[-1]), sum(min(len(some), len(lane.device)) for lane in lanes))
            if len(found.lane):
                yield found

    def _runs_of(self, first: int, last: int, room: int) -> Runs:
        """The wanted runs of the devices with ranks first … last, at most ``room``."""
        selection, rank, mask = self._selection, self._selection.table.devices.rank, self._selection.device_mask
        found = np.empty((7, room), np.int64)
        limits = np.array([selection.time_low, selection.time_high, first, last, 0], np.int64)
        ends = np.zeros(len(self._lanes) + 1, np.int64)
        end = 0
        for number, (lane, file) in enumerate(zip(self._lanes, self._files, strict=True)):
            begin = limits[4] = end
            skip = _NO_MASK if lane.merged is None else lane.merged
            row_start = _NO_ROWS if file is None else file.file.row_start
            end = piece_kernels.wanted(lane.min_time, lane.max_time, lane.device, skip, mask, rank, row_start, limits, found)
            ends[number + 1] = end
            if not isinstance(lane, FileLane):
                for at in range(begin, end, MERGED_RUNS_MAX):
                    some = slice(at, min(at + MERGED_RUNS_MAX, end))
                    held = lane.bounds(found[0, some])
                    found[6, some] = (held.stops - held.starts).sum(axis=1)
        lanes = np.repeat(np.arange(len(self._lanes)), np.diff(ends))
        found = found[:, :end]
        return Runs._make((lanes, *found, self._first[lanes], self._last[lanes], self._base[lanes] + found[5]))

    def _groups_of(self, runs: Runs) -> Iterator[Group]:
        """The groups that the rows of some devices make."""
        self._selection.count_runs(len(runs.lane))
        if runs.lane[0] == runs.lane[-1]:
            for lane, rows in self._parts(runs):
                yield Group([rows], [lane], runs)
        elif bool((runs.rank == runs.rank[0]).all()) and int((runs.stop - runs.start).sum()) > 2 * GROUP_ROWS:
            yield from self._by_time(runs)
        else:
            parts = list(self._parts(runs))
            yield Group([rows for _, rows in parts], [lane for lane, _ in parts], runs)

    def _parts(self, runs: Runs) -> Iterator[tuple[int, RowSet]]:
        """Row sets of some runs, lane by lane."""
        selection = self._selection
        starts, stops = runs.start, runs.stop
        partial = (runs.low < selection.time_low) | (runs.high > selection.time_high)
        any_partial = bool(partial.any())
        begins = np.flatnonzero(np.append(True, runs.lane[1:] != runs.lane[:-1]))
        counts = np.add.reduceat(stops - starts, begins).tolist()
        bounds = begins.tolist()
        for number, begin, end, count in zip(runs.lane[begins].tolist(), bounds, [*bounds[1:], len(starts)], counts, strict=True):
            lane = self._lanes[number]
            some = slice(begin, end)
            if not isinstance(lane, FileLane) or (any_partial and partial[some].any()):
                yield from ((number, rows) for rows in self._cut_parts(lane, runs.run[some], partial[some]))
                continue
            source = selection.sources[lane.files[0]]
            if count <= selection.batch_rows and selection.page_verdicts(source) is None:
                yield number, FileRows(source, starts[some], stops[some], count)
            else:
                held = Ranges(lane.files, starts[some].reshape(-1, 1), stops[some].reshape(-1, 1))
                yield from ((number, rows) for rows in selection.rows_of_runs(lane, *held))

    def _cut_parts(self, lane: Lane, runs: IntArray, partial: NDArray[np.bool_]) -> Iterator[RowSet]:
        """Row sets of some runs of one lane, whose rows may lie in several files, or leave the time bounds."""
        step = len(runs) if isinstance(lane, FileLane) else MERGED_RUNS_MAX
        for at in range(0, len(runs), step):
            some = slice(at, at + step)
            yield from self._selection.rows_of_runs(lane, *self._selection.cut_runs(lane, runs[some], partial[some]))

    def _by_time(self, runs: Runs) -> Iterator[Group]:
        """The rows of one device with many of them, by stretches of time."""
        selection = self._selection
        numbers = runs.lane.tolist()
        partial = (runs.low < selection.time_low) | (runs.high > selection.time_high)
        each = [slice(at, at + 1) for at in range(len(numbers))]
        held = [
            selection.cut_runs(self._lanes[number], runs.run[at], partial[at]) for number, at in zip(numbers, each, strict=True)
        ]
        every = np.ones(1, np.bool_)
        low = INT64_MIN
        for cut in (*_cuts(selection, held), None):
            high = INT64_MAX if cut is None else cut - 1
            parts = [
                (number, rows)
                for number, ranges in zip(numbers, held, strict=True)
                for rows in selection.rows_of_runs(self._lanes[number], *selection.cut_ranges(ranges, every, low, high))
            ]
            yield Group([rows for _, rows in parts], [number for number, _ in parts], runs)
            low = high + 1 if cut is not None else low


def _stretches(rank: IntArray, rows: IntArray, lanes: int, first_rows: int) -> Iterator[tuple[int, int]]:
    """Where stretches of runs, given by ascending rank, begin and end: with about so many rows; a device with more is alone.

    The first has about ``first_rows``, where that is not 0.
    """
    devices = np.flatnonzero(np.append(True, rank[1:] != rank[:-1]))
    rows = np.add.reduceat(rows, devices)
    later = min(max(lanes * _LANE_ROWS, GROUP_ROWS), _GROUPS_MAX * GROUP_ROWS)
    before = np.cumsum(rows) - rows
    number = (before if not first_rows else np.maximum(before - first_rows + later, 0)) // later
    large = rows > GROUP_ROWS
    begins = np.ones(len(devices), np.bool_)
    begins[1:] = (number[1:] != number[:-1]) | large[1:] | large[:-1]
    starts = devices[begins]
    yield from zip(starts.tolist(), [*starts[1:].tolist(), len(rank)], strict=True)


def _cuts(selection: Selection, held: list[Ranges]) -> list[int]:
    """Times between which one device has about so many rows, from every n-th time of each file."""
    time = selection.table.table.schema.time
    sampled: list[NDArray[np.int64]] = []
    for ranges in held:
        for column, index in enumerate(ranges.files):
            source: FileSource = selection.sources[index]
            at = np.arange(int(ranges.starts[0, column]) + GROUP_ROWS, int(ranges.stops[0, column]), GROUP_ROWS)
            if len(at):
                sampled.append(source.read(time, at, at + 1).values)
    if not sampled:
        return []
    times = np.sort(np.concatenate(sampled))
    return [int(cut) for cut in np.unique(times[:: len(sampled)])]
