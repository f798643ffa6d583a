"""The watermark: up to where rows are taken to be complete, by the greatest time seen and not by the clock on the wall.

It goes by commit: a row is late where commits before its own had brought the watermark beyond its windows. So which rows are late,
and what a window has when it is over, are the same whoever follows and however many commits he finds at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tsdb.stream.window.span import Windows
from tsdb_format.vector import IntArray

#: A time before all times.
NEVER = -(2**62)


@dataclass(slots=True)
class Watermark:
    """``delay`` and ``lateness`` in microseconds; ``seen`` is the greatest time so far, ``floor`` what silence has set it to."""

    windows: Windows
    delay: int = 0
    lateness: int = 0
    seen: int = NEVER
    floor: int = NEVER

    @property
    def over(self) -> int:
        """The number of the last window that is over."""
        return self._over(max(self.seen - self.delay, self.floor))

    @property
    def gone(self) -> int:
        """The number of the last window that takes no more rows: the allowed lateness has passed, too."""
        return self._over(max(self.seen - self.delay - self.lateness, self.floor))

    def _over(self, time: int) -> int:
        return NEVER if time <= NEVER // 2 else int(self.windows.over(np.array([time], np.int64))[0])

    def release(self, number: int) -> None:
        """Every window up to ``number`` is over and takes no more rows."""
        self.floor = max(self.floor, int(self.windows.ends(np.array([number], np.int64))[0]))

    def turns(self, sequence: IntArray, times: IntArray) -> list[tuple[int, int]]:
        """(commit, greatest time so far) of the commits with which a window is over; rows ascend by commit ``sequence``."""
        if not len(times):
            return []
        greatest = np.maximum(np.maximum.accumulate(times), self.seen)
        ends = np.append(np.flatnonzero(sequence[1:] != sequence[:-1]), len(sequence) - 1)
        greatest, commits = greatest[ends], sequence[ends]
        moved = np.zeros(len(ends), np.bool_)
        for allowed, before in ((self.delay, self.over), (self.delay + self.lateness, self.gone)):
            over = self.windows.over(greatest - allowed)
            moved |= np.diff(over, prepend=before) > 0
        return list(zip(commits[moved].tolist(), greatest[moved].tolist(), strict=True))

    def to_json(self) -> list[int]:
        """Its state as plain JSON values."""
        return [self.seen, self.floor]

    def set(self, state: Any) -> None:
        """Go back to a state that ``to_json`` gave."""
        self.seen, self.floor = (int(value) for value in state)
