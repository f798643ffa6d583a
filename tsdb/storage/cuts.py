"""Where merged files end: what keeps versions in order comes first, then what keeps later merges small, then the size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tsdb_format.vector import IntArray

#: Rows in free time, as a part of a full file, from which they get files of their own.
FREE_SHARE = 16


@dataclass(frozen=True, slots=True)
class Cuts:
    """Times for files to end before. Files are made of whole instants, so that a cut is the first time of a file.

    No file may span a ``required`` one: have rows before and from it on. ``free`` are stretches of time, bounds inclusive, that no
    other file overlaps: rows there, if they are many, get files of their own, which later merges of what overlaps can leave alone.
    Rows that are too many for one file are parted at ``preferred`` times where that is possible: where others end.
    """

    required: tuple[int, ...] = ()
    free: tuple[tuple[int, int], ...] = ()
    preferred: tuple[int, ...] = ()

    def place(self, times: IntArray, rows: float, rows_max: int) -> list[int]:
        """First times of all files but the first, ascending, so that each has about ``rows_max`` rows at most.

        ``times`` is an ascending sample of the rows' times, each of which stands for ``rows`` rows. Where a file would have too
        many it is parted in its middle half, at the roundest time that there is: files made of other rows are then parted alike.
        """
        if not len(times):
            return list(self.required)
        found = set(self.required)
        for low, high in self.free:
            held = int(np.searchsorted(times, high, "right") - np.searchsorted(times, low, "left"))
            if held * rows * FREE_SHARE >= rows_max:
                found.update(each for each in (low, high + 1) if times[0] < each <= times[-1])
        edges = [0, *(int(np.searchsorted(times, cut, "left")) for cut in sorted(found)), len(times)]
        preferred = np.array(sorted(self.preferred), np.int64)
        pending = list(zip(edges[:-1], edges[1:], strict=True))
        while pending:
            first, stop = pending.pop()
            if (stop - first) * rows > rows_max and times[first] < times[stop - 1]:
                cut = _parted(times[first:stop], preferred)
                at = int(np.searchsorted(times, cut, "left"))
                found.add(cut)
                pending += [(first, at), (at, stop)]
        return sorted(found)


def _parted(times: IntArray, preferred: IntArray) -> int:
    """A time after the first and not after the last, if possible in the middle half of the ascending times."""
    quarter = len(times) // 4
    middle = int(times[len(times) // 2])
    low, high = max(int(times[quarter]), int(times[0]) + 1), max(int(times[-1 - quarter]), int(times[0]) + 1)
    inside = preferred[np.searchsorted(preferred, low, "left") : np.searchsorted(preferred, high, "right")].tolist()
    return min(inside, key=lambda each: (abs(each - middle), each)) if inside else roundest(low, high)


def roundest(low: int, high: int) -> int:
    """The number in [low, high] that the highest power of two divides; 0 before all others."""
    if low <= 0 <= high:
        return 0
    step = 1
    while -(-low // (2 * step)) * 2 * step <= high:
        step *= 2
    return -(-low // step) * step


def free_times(taken: Iterable[tuple[int, int]], low: int, high: int) -> tuple[tuple[int, int], ...]:
    """What ranges of time leave of [low, high]; all bounds inclusive."""
    found: list[tuple[int, int]] = []
    at = low
    for first, last in sorted(taken):
        if first > high:
            break
        if first > at:
            found.append((at, first - 1))
        at = max(at, last + 1)
    if at <= high:
        found.append((at, high))
    return tuple(found)
