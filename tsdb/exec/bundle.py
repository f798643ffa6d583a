"""Bundles: the runs of one device that must be read together, as arrays; and which runs and bundles are in another one by now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.row_range import rows_in
from tsdb_format.vector import BoolArray, IntArray

Int32Array = NDArray[np.int32]

#: Share of taken runs from which an order without them is worth keeping.
_DENSE = 0.25


class Taken:
    """Marks of runs (or bundles) that a bundle elsewhere holds."""

    __slots__ = ("_orders", "count", "marks")

    def __init__(self, marks: BoolArray) -> None:
        self.marks = marks
        self.count = int(np.count_nonzero(marks))
        self._orders: dict[bool, Int32Array] = {}

    def thinned(self, order: Int32Array, descending: bool) -> Int32Array:
        """A best-first order of the runs without those that are taken, as far as leaving them out once is cheaper."""
        if self.count < _DENSE * len(self.marks):
            return order
        found = self._orders.get(descending)
        if found is None:
            found = self._orders[descending] = order[~self.marks[order]]
        return found


@dataclass(frozen=True, eq=False)
class Bundles:
    """Bundles of different devices, in tag order. Bundle i consists of the rows start:stop of ``file`` of the entries
    first[i]:first[i+1], which ascend by file.

    ``certain``: no tombstone touches them, so that there surely are rows at ``min_time`` and ``max_time``.
    """

    device: Int32Array
    min_time: IntArray
    max_time: IntArray
    first: IntArray
    file: IntArray
    start: IntArray
    stop: IntArray
    certain: bool

    @cached_property
    def first_time(self) -> int:
        """The first time of all."""
        return int(self.min_time.min())

    @cached_property
    def last_time(self) -> int:
        """The last time of all."""
        return int(self.max_time.max())

    @cached_property
    def by_max_time(self) -> Int32Array:
        """Bundles by max time descending; ties in tag order."""
        return np.argsort(~self.max_time, kind="stable").astype(np.int32)

    @cached_property
    def by_min_time(self) -> Int32Array:
        """Bundles by min time ascending; ties in tag order."""
        return np.argsort(self.min_time, kind="stable").astype(np.int32)

    def entries(self, bundles: IntArray) -> tuple[IntArray, IntArray]:
        """The entries of some bundles, and how many each has."""
        first, stop = self.first[bundles], self.first[bundles + 1]
        return rows_in(first, stop), stop - first


class Entries(NamedTuple):
    """Row ranges of devices, as bundles hold them, with bounds of their times; ``certain`` where no tombstone touches them."""

    device: Int32Array
    low: IntArray
    high: IntArray
    file: IntArray
    start: IntArray
    stop: IntArray
    certain: BoolArray

    def select(self, chosen: NDArray[Any]) -> Entries:
        """Some of the entries, by mask or index."""
        return Entries._make(column[chosen] for column in self)


def bundles_of(entries: Entries, rank: Int32Array, certain: bool) -> Bundles:
    """One bundle per device. ``rank`` is each device's place in tag order."""
    order = np.lexsort((entries.file, rank[entries.device]))
    entries = entries.select(order)
    new = np.ones(len(order), np.bool_)
    new[1:] = entries.device[1:] != entries.device[:-1]
    first = np.flatnonzero(new)
    low, high = np.minimum.reduceat(entries.low, first), np.maximum.reduceat(entries.high, first)
    bounds = np.append(first, len(order))
    return Bundles(entries.device[first], low, high, bounds, entries.file, entries.start, entries.stop, certain)
