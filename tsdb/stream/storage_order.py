"""A table's history in the order of storage (tags, time, commit), whatever files and runs in memory it lies in.

The rows of a selection are parted into groups that follow each other in that order: some devices together, or, where one device has
many rows in several files, a stretch of its time. A group of one file is in order as it is; one of several is small enough to be
sorted in memory. So the first rows come at once, and an order of millions of rows costs no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.lane import FileLane, Lane, Ranges
from tsdb.exec.rows import RowSet
from tsdb.exec.selection import INT64_MAX, INT64_MIN, MERGED_RUNS_MAX, Selection
from tsdb_format.vector import BoolArray, IntArray

if TYPE_CHECKING:
    from tsdb.exec.source import FileSource

#: Rows of any group of one device alone, about, and of the first group, which somebody waits for.
GROUP_ROWS, _FIRST_ROWS = 65_536, 16_384
#: Later groups have so many rows of each lane, about, since every lane is read for every group; at most so many first ones.
_LANE_ROWS, _GROUPS_MAX = 16_384, 16


@dataclass(frozen=True, slots=True)
class _LaneRuns:
    """The wanted runs of one lane in tag order: which, whose times leave the bounds, their devices' ranks and how many rows."""

    lane: Lane
    found: IntArray
    partial: BoolArray
    rank: IntArray
    rows: IntArray

    def between(self, first: int, last: int) -> slice:
        """The runs of the devices with ranks first … last."""
        return slice(int(np.searchsorted(self.rank, first)), int(np.searchsorted(self.rank, last, "right")))


def groups(selection: Selection, first_rank: int = 0) -> Iterator[list[RowSet]]:
    """The selected rows of devices from ``first_rank`` on; value filters not yet applied. Only several row sets need sorting."""
    lanes = [runs for lane in selection.lanes() if len((runs := _runs_of(selection, lane, first_rank)).found)]
    for first, last in _stretches(lanes):
        parts = [(runs, part) for runs in lanes if (part := runs.between(first, last)).start < part.stop]
        selection.count_runs(sum(part.stop - part.start for _, part in parts))
        if len(parts) == 1:
            for rows in _rows(selection, *parts[0]):
                yield [rows]
        elif first == last and sum(int(runs.rows[part].sum()) for runs, part in parts) > 2 * GROUP_ROWS:
            yield from _by_time(selection, parts)
        else:
            yield [rows for runs, part in parts for rows in _rows(selection, runs, part)]
    selection.completed = True


def _runs_of(selection: Selection, lane: Lane, first_rank: int) -> _LaneRuns:
    found, partial = selection.wanted_runs(lane)
    rank = selection.table.devices.rank[lane.device[found]].astype(np.int64)
    at = int(np.searchsorted(rank, first_rank))
    found, partial, rank = found[at:], partial[at:], rank[at:]
    pieces = []
    for start in range(0, len(found), MERGED_RUNS_MAX):
        held = lane.bounds(found[start : start + MERGED_RUNS_MAX])
        pieces.append((held.stops - held.starts).sum(axis=1))
    return _LaneRuns(lane, found, partial, rank, np.concatenate(pieces) if pieces else np.empty(0, np.int64))


def _stretches(lanes: list[_LaneRuns]) -> Iterator[tuple[int, int]]:
    """Ranges of ranks, both ends included, with about so many rows; a device with more is alone."""
    if not lanes:
        return
    ranks, place = np.unique(np.concatenate([runs.rank for runs in lanes]), return_inverse=True)
    rows = np.zeros(len(ranks), np.int64)
    np.add.at(rows, place, np.concatenate([runs.rows for runs in lanes]))
    later = min(max(len(lanes) * _LANE_ROWS, GROUP_ROWS), _GROUPS_MAX * GROUP_ROWS)
    number = np.maximum(np.cumsum(rows) - rows - _FIRST_ROWS + later, 0) // later
    large = rows > GROUP_ROWS
    begins = np.ones(len(ranks), np.bool_)
    begins[1:] = (number[1:] != number[:-1]) | large[1:] | large[:-1]
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], len(ranks))
    yield from zip(ranks[starts].tolist(), ranks[stops - 1].tolist(), strict=True)


def _rows(selection: Selection, runs: _LaneRuns, part: slice) -> Iterator[RowSet]:
    """The rows of some runs of one lane, in order."""
    step = part.stop - part.start if isinstance(runs.lane, FileLane) else MERGED_RUNS_MAX
    for start in range(part.start, part.stop, step):
        some = slice(start, min(start + step, part.stop))
        yield from selection.rows_of_runs(runs.lane, *selection.cut_runs(runs.lane, runs.found[some], runs.partial[some]))


def _by_time(selection: Selection, parts: list[tuple[_LaneRuns, slice]]) -> Iterator[list[RowSet]]:
    """The rows of one device with many of them, by stretches of time."""
    held = [(runs.lane, selection.cut_runs(runs.lane, runs.found[part], runs.partial[part])) for runs, part in parts]
    every = np.ones(1, np.bool_)
    low = INT64_MIN
    for cut in (*_cuts(selection, [ranges for _, ranges in held]), None):
        high = INT64_MAX if cut is None else cut - 1
        yield [
            rows for lane, ranges in held for rows in selection.rows_of_runs(lane, *selection.cut_ranges(ranges, every, low, high))
        ]
        low = high + 1 if cut is not None else low


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
