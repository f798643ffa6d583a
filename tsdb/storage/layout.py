"""Where the files of a table lie: their ranges of time and of sequence numbers, and which of them can be merged without the others.

Files that overlap in time have disjoint ranges of sequence numbers; which is newer decides whose fields a reader sees. Merging some
files keeps that only if no file that is left out lies *between* them: overlaps one of them that is older than it and one that is
newer. A set without such a file is *closed*. What is left out beside it is kept apart by cuts in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tsdb.storage.cuts import Cuts, free_times
from tsdb_format.vector import BoolArray, IntArray

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
#: Elements of the matrices of files against files, or against segments of time.
_MATRIX_MAX = 1 << 20

FloatArray = NDArray[np.float64]


class Placed(Protocol):
    """What the manifest, and an open file, tell of a file's rows. Times are in the time column's unit, bounds inclusive."""

    @property
    def min_time(self) -> int:
        """The first time."""

    @property
    def max_time(self) -> int:
        """The last time."""

    @property
    def min_sequence(self) -> int:
        """The lowest sequence number."""

    @property
    def max_sequence(self) -> int:
        """The highest sequence number."""


class Layout:
    """Files as arrays, numbered by first time (``low``), then last (``high``); ``order[i]`` is file i's place in what was given."""

    def __init__(self, files: Sequence[Placed], rows: Sequence[int]) -> None:
        self.order: IntArray = np.array(sorted(range(len(files)), key=lambda i: (files[i].min_time, files[i].max_time)), np.int64)
        self.low, self.high = self._column(files, "min_time"), self._column(files, "max_time")
        self.oldest, self.newest = self._column(files, "min_sequence"), self._column(files, "max_sequence")
        self.rows: IntArray = np.array(rows, np.int64)[self.order]
        #: Rows per unit of time, as if they were spread evenly.
        self.density: FloatArray = self.rows / spans(self.low, self.high)

    def _column(self, files: Sequence[Placed], name: str) -> IntArray:
        return np.array([getattr(file, name) for file in files], np.int64)[self.order]

    def __len__(self) -> int:
        return len(self.order)

    def hull(self, chosen: IntArray) -> tuple[int, int]:
        """First and last time of a set of files."""
        return int(self.low[chosen].min()), int(self.high[chosen].max())

    def components(self, numbers: IntArray) -> Iterator[IntArray]:
        """Ascending files as groups that are connected by overlaps in time; the groups ascend in time."""
        if len(numbers):
            reach = np.maximum.accumulate(self.high[numbers])
            yield from np.split(numbers, np.flatnonzero(self.low[numbers[1:]] > reach[:-1]) + 1)

    def stacks(self) -> Iterator[list[int]]:
        """The files that hold one instant, oldest first; for every instant at which a file begins beside others."""
        active: list[int] = []
        low, high, newest = self.low.tolist(), self.high.tolist(), self.newest.tolist()
        for number, start in enumerate(low):
            active = [each for each in active if high[each] >= start]
            place = len(active)
            while place and newest[active[place - 1]] > newest[number]:
                place -= 1
            active.insert(place, number)
            if len(active) > 1 and (number + 1 == len(low) or low[number + 1] > start):
                yield active.copy()

    # ------------------------------------------------------------------------------------------------ closed sets

    def closure(self, chosen: IntArray) -> IntArray:
        """The smallest closed set of files with the chosen ones, ascending."""
        inside = np.zeros(len(self), np.bool_)
        inside[chosen] = True
        while True:
            mine = np.flatnonzero(inside)
            others = self._beside(mine)
            step = max(1, _MATRIX_MAX // len(mine))
            parts = [self._between(mine, others[at : at + step]) for at in range(0, len(others), step)]
            between = np.concatenate(parts) if parts else np.empty(0, np.bool_)
            if not between.any():
                return mine
            inside[others[between]] = True

    def gathered(self, least: IntArray) -> IntArray:
        """A closed set with the files that cuts would have to keep apart from ``least``, as far as that no more than doubles it."""
        budget = 2 * int(self.rows[least].sum())
        found = least
        while True:
            mixed = self._mixed(found)
            mixed = mixed[np.argsort(self.rows[mixed], kind="stable")]
            added = mixed[np.cumsum(self.rows[mixed]) <= budget - int(self.rows[found].sum())]
            wider = self.closure(np.concatenate([found, added])) if len(added) else found
            if len(wider) == len(found) or int(self.rows[wider].sum()) > budget:
                return found
            found = wider

    def filled(self, chosen: IntArray) -> IntArray:
        """A closed set with the files inside the time range of the chosen that are not larger than the largest, nor older."""
        low, high = self.hull(chosen)
        more = (self.low >= low) & (self.high <= high) & (self.oldest > self.oldest[chosen].min())
        more &= self.rows <= self.rows[chosen].max()
        return self.closure(np.union1d(chosen, np.flatnonzero(more)))

    def is_lowest(self, chosen: IntArray) -> bool:
        """Whether no other file that overlaps one of the set is older than it."""
        others = self._beside(chosen)
        step = max(1, _MATRIX_MAX // len(chosen))
        for at in range(0, len(others), step):
            some = others[at : at + step, None]
            meets = (self.low[chosen] <= self.high[some]) & (self.high[chosen] >= self.low[some])
            if (meets & (self.newest[some] < self.oldest[chosen])).any():
                return False
        return True

    def overlap(self, chosen: IntArray) -> tuple[float, float]:
        """(overlapping, base) rows as if spread evenly: base is the largest file's at every instant, the rest overlaps it."""
        low, high, density = self.low[chosen], self.high[chosen], self.density[chosen]
        starts = np.unique(np.concatenate([low, high[high < INT64_MAX] + 1]))
        lengths = spans(starts, np.append(starts[1:] - 1, max(int(high.max()), int(starts[-1]))))
        whole = base = 0.0
        step = max(1, _MATRIX_MAX // len(chosen))
        for at in range(0, len(starts), step):
            part, length = starts[at : at + step, None], lengths[at : at + step]
            held = np.where((low <= part) & (high >= part), density, 0.0)
            whole += float(held.sum(axis=1) @ length)
            base += float(held.max(axis=1) @ length)
        return whole - base, base

    def _between(self, mine: IntArray, others: IntArray) -> BoolArray:
        """Which of the others overlap an older file and a newer one of mine. Where sequences overlap a file counts as both."""
        meets = (self.low[mine] <= self.high[others][:, None]) & (self.high[mine] >= self.low[others][:, None])
        older = (meets & (self.oldest[mine] <= self.newest[others][:, None])).any(axis=1)
        newer = (meets & (self.newest[mine] >= self.oldest[others][:, None])).any(axis=1)
        return np.logical_and(older, newer)

    def _beside(self, chosen: IntArray) -> IntArray:
        """The other files that lie in the time range of a set of files."""
        low, high = self.hull(chosen)
        beside = (self.low <= high) & (self.high >= low)
        beside[chosen] = False
        return np.flatnonzero(beside)

    def _mixed(self, chosen: IntArray) -> IntArray:
        """The files beside a set that are neither older nor newer than all of it."""
        others = self._beside(chosen)
        apart: BoolArray = (self.newest[others] < self.oldest[chosen].min()) | (self.oldest[others] > self.newest[chosen].max())
        return others[~apart]

    # ------------------------------------------------------------------------------------------------ cuts

    def cuts(self, chosen: IntArray, rows_large: int) -> Cuts:
        """Where the merged files of a closed set have to end, and where they had better: beside files of ``rows_large`` rows."""
        beside = self._beside(chosen)
        low, high = self.hull(chosen)
        free = free_times(((int(self.low[i]), int(self.high[i])) for i in beside), low, high)
        preferred = self._bounds(beside[self.rows[beside] >= rows_large], low, high)
        return Cuts(self.required_cuts(chosen), free, tuple(preferred))

    def required_cuts(self, chosen: IntArray) -> tuple[int, ...]:
        """Times that no merged file of a closed set may span: have rows before and from it on. As few as going left to right finds.

        They keep each merged file from overlapping a file beside the set that is neither older nor newer than all of its rows.
        """
        mixed = self._mixed(chosen)
        low, high = self.hull(chosen)
        edges = [low, *self._bounds(mixed, low, high)]
        found: list[int] = []
        start, oldest, newest = low, INT64_MAX, INT64_MIN
        for first, last in zip(edges, [*(edge - 1 for edge in edges[1:]), high], strict=True):
            inputs = chosen[(self.low[chosen] <= last) & (self.high[chosen] >= first)]
            if not len(inputs):
                continue
            lower, upper = min(oldest, int(self.oldest[inputs].min())), max(newest, int(self.newest[inputs].max()))
            met = mixed[(self.low[mixed] <= last) & (self.high[mixed] >= start)]
            if ((self.newest[met] >= lower) & (self.oldest[met] <= upper)).any():
                found.append(first)
                start, lower, upper = first, int(self.oldest[inputs].min()), int(self.newest[inputs].max())
            oldest, newest = lower, upper
        return tuple(found)

    def _bounds(self, others: IntArray, low: int, high: int) -> list[int]:
        """Where files begin, and where they have just ended, in (low, high]; ascending."""
        found = {*self.low[others].tolist(), *(each + 1 for each in self.high[others].tolist())}
        return sorted(each for each in found if low < each <= high)


def spans(low: IntArray, high: IntArray) -> FloatArray:
    """How many instants [low, high] has, as float64 and also where int64 overflows; low ≤ high."""
    return (_as_words(high) - _as_words(low)).astype(np.float64) + 1.0


def union(low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
    """Ranges with bounds inclusive, joined where they overlap; ``low`` ascends."""
    if not len(low):
        return low, high
    reach = np.maximum.accumulate(high)
    starts = np.flatnonzero(np.append(True, low[1:] > reach[:-1]))
    return low[starts], reach[np.append(starts[1:], len(low)) - 1]


def covered(first: IntArray, last: IntArray, low: IntArray, high: IntArray) -> FloatArray:
    """How many instants of each range [low, high] the ascending, separate ranges [first, last] cover."""
    if not len(first):
        return np.zeros(len(low), np.float64)
    ends = np.append(np.uint64(0), np.cumsum(_as_words(last) - _as_words(first) + np.uint64(1)))  # modulo 2^64: see below

    def before(time: IntArray) -> NDArray[np.uint64]:
        """Covered instants before each time."""
        place = np.searchsorted(first, time, "left")
        inside = np.maximum(place - 1, 0)
        reach = np.minimum(time, last[inside])
        return np.where(place > 0, ends[inside] + (_as_words(reach) - _as_words(first[inside])) + (time > reach), np.uint64(0))

    place = np.searchsorted(first, high, "right") - 1
    ends_inside = (place >= 0) & (last[np.maximum(place, 0)] >= high)
    return (before(high) - before(low)).astype(np.float64) + ends_inside  # the difference is below 2^64


def _as_words(values: IntArray) -> NDArray[np.uint64]:
    return np.ascontiguousarray(values, np.int64).view(np.uint64)


def as_numbers(chosen: Iterable[int]) -> IntArray:
    """File numbers as an array."""
    return np.fromiter(chosen, np.int64)
