"""A tier of the versions of a live ASOF JOIN: right rows that were sorted once, and are merged with their neighbours' as they are.

Tiers hold rows of commits that follow one another, those of one commit in one tier, so that of rows alike in key and value those of
the later tier are the last to arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tsdb.catalog.device import DeviceTable, compacted
from tsdb.exec.batch import Batch
from tsdb.stream.arrivals import Arrivals, Int32Array, joined
from tsdb.stream.join_table import order_of_arrival
from tsdb_format.vector import BoolArray, IntArray

#: The commit by which a row that is still there has gone.
EVER = np.int64(2**63 - 1)
_NONE = np.empty(0, np.int64)
_ENDS: tuple[Literal["left"], Literal["right"]] = ("left", "right")
_Pairs = tuple[IntArray | Int32Array, IntArray]


@dataclass(slots=True)
class VersionTier:
    """Rows by ``number`` (of their key), ``values`` (the compared column in ascending integers), commit and arrival.

    ``until`` is of each row the commit by which it had gone. ``by_place`` are the rows by device and time, each pair once among
    those that are there; empty where nothing is looked up by it.
    """

    rows: Arrivals
    number: IntArray
    values: IntArray
    until: IntArray
    by_place: IntArray

    @property
    def count(self) -> int:
        """How many rows there are, gone ones too."""
        return len(self.number)

    @property
    def alive(self) -> BoolArray:
        """Which rows have not gone."""
        there: BoolArray = self.until == EVER
        return there

    def fitting(self, number: IntArray, values: IntArray, side: Literal["left", "right"]) -> IntArray:
        """How many rows are before each pair of number and value, with ``side`` 'right' those that are equal to it too."""
        return _ranks((self.number, self.values), (number, values), side)

    def selected(self, mask: BoolArray) -> VersionTier:
        """The rows whose mask is set."""
        if mask.all():
            return self
        moved = np.cumsum(mask) - 1
        by_place = moved[self.by_place[mask[self.by_place]]]
        rows = _lean(self.rows.select(mask))
        return VersionTier(rows, self.number[mask], self.values[mask], self.until[mask], by_place)

    def replace(self, device: Int32Array, time: IntArray, commit: IntArray) -> int:
        """Rows at these places go with the commits at which they are written again; how many had been there."""
        at = _ranks((self.rows.device, self.rows.time), (device, time), "left", self.by_place)
        row = self.by_place[np.minimum(at, self.count - 1)]
        same = (self.rows.device[row] == device) & (self.rows.time[row] == time)
        return self.go(row[same], commit[same])

    def go(self, rows: IntArray, commit: IntArray | int) -> int:
        """Rows go with a commit; how many of them had been there."""
        count = int(np.count_nonzero(self.until[rows] == EVER))
        self.until[rows] = np.minimum(self.until[rows], commit)
        return count

    def _places(self) -> _Pairs:
        return self.rows.device[self.by_place], self.rows.time[self.by_place]


def sorted_tier(rows: Arrivals, number: IntArray, values: IntArray, devices: DeviceTable, *, by_place: bool) -> VersionTier:
    """Rows in any order as a tier."""
    order = np.lexsort((order_of_arrival(rows, devices), rows.sequence, values, number))
    rows = _lean(rows.take(order))
    places = np.lexsort((rows.time, rows.device)) if by_place else _NONE
    return VersionTier(rows, number[order], values[order], np.full(rows.count, EVER), places)


def merged_tier(first: VersionTier, second: VersionTier) -> VersionTier:
    """The rows of two neighbours that have not gone, as one tier; ``second`` has the later commits."""
    order = _merged((first.number, first.values), (second.number, second.values))
    alive = np.concatenate((first.alive, second.alive))
    order = order[alive[order]]
    by_place = _NONE
    if len(first.by_place):
        moved = np.full(len(alive), -1, np.int64)
        moved[order] = np.arange(len(order))
        held = np.concatenate((first.by_place, first.count + second.by_place))
        by_place = moved[held[_merged(first._places(), second._places())]]
        by_place = by_place[by_place >= 0]
    number, values = np.concatenate((first.number, second.number)), np.concatenate((first.values, second.values))
    rows = _lean(joined([first.rows, second.rows]).take(order))
    return VersionTier(rows, number[order], values[order], np.full(len(order), EVER), by_place)


def lean(batch: Batch) -> Batch:
    """The same rows, of which no pool has more strings than there are rows: pools do not add up when batches are joined."""
    vectors = {
        name: compacted(vector) if vector.pool is not None and len(vector.pool) > len(vector) else vector
        for name, vector in batch.vectors.items()
    }
    return Batch(vectors, batch.row_count)


def _lean(rows: Arrivals) -> Arrivals:
    return Arrivals(lean(rows.batch), rows.places)


def _merged(first: _Pairs, second: _Pairs) -> IntArray:
    """The order that sorts two sorted lists of pairs end to end; of equal pairs those of ``first`` come first."""
    begin, count = len(first[0]), len(second[0])
    order = np.empty(begin + count, np.int64)
    later = np.zeros(begin + count, np.bool_)
    later[_ranks(first, second, "right") + np.arange(count)] = True
    order[later] = begin + np.arange(count)
    order[~later] = np.arange(begin)
    return order


def _ranks(held: _Pairs, asked: _Pairs, side: Literal["left", "right"], order: IntArray | None = None) -> IntArray:
    """How many of the pairs ``held``, sorted or by ``order``, are before each pair asked for, or with 'right' not behind it."""
    major, minor = held
    low, high = (np.searchsorted(major, asked[0], end, sorter=order) for end in _ENDS)
    open_ = np.flatnonzero(low < high)
    while len(open_):  # halve what is left of each
        middle = (low[open_] + high[open_]) >> 1
        found, wanted = minor[middle if order is None else order[middle]], asked[1][open_]
        before = found <= wanted if side == "right" else found < wanted
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]
        open_ = open_[low[open_] < high[open_]]
    return low
