"""Rows of windows that are not over: batches as they came, each row with the numbers of its windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tsdb.exec.batch import Batch, concat_batches
from tsdb.stream.window.span import Windows
from tsdb_format.types import TIMESTAMP_US
from tsdb_format.vector import IntArray, Vector

#: The table of the rows of windows, as a live query's text names it, and the columns that it has besides those of the data.
HELD = "__tsdb_windows"
WINDOW_START, WINDOW_END = "window_start", "window_end"
#: Batches that are kept apart; more are made one, so that a window of many commits costs no more per row than one of few.
_PARTS_MAX = 64


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows whose windows are ``first`` to ``last``; they came after the place ``since``."""

    rows: Batch
    first: IntArray
    last: IntArray
    since: Any


@dataclass(slots=True)
class HeldRows:
    """``changed`` are the numbers of the windows that got rows since they were emitted, ascending."""

    windows: Windows
    changed: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    _parts: list[_Part] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many rows are held."""
        return sum(part.rows.row_count for part in self._parts)

    @property
    def since(self) -> Any:
        """The place after which the first of the rows came; None where none is held."""
        return self._parts[0].since if self._parts else None

    @property
    def newest(self) -> int | None:
        """The number of the last window with rows."""
        return max((int(part.last.max()) for part in self._parts), default=None)

    def oldest_start(self) -> int | None:
        """Where the first window with rows starts, in microseconds."""
        first = min((int(part.first.min()) for part in self._parts), default=None)
        return None if first is None else int(self.windows.starts(np.array([first], np.int64))[0])

    def add(self, rows: Batch, times: IntArray, gone: int, since: Any, wanted: np.ndarray[Any, Any] | None) -> int:
        """Take rows in, how many of which are late: their windows, up to ``gone``, take no more. Only ``wanted`` ones are held."""
        last = self.windows.last(times)
        first = np.maximum(self.windows.first(times), np.int64(gone + 1))
        late = last <= gone
        late_rows = int(np.count_nonzero(late))
        kept = ~late & (first <= last)
        if wanted is not None:
            kept &= wanted
        if not kept.all():
            at = np.flatnonzero(kept)
            rows, first, last = rows.take(at), first[at], last[at]
        if not rows.row_count:
            return late_rows
        self.changed = np.union1d(self.changed, _numbers(first, last))
        self._parts.append(_Part(rows, first, last, since))
        if len(self._parts) > _PARTS_MAX:
            self._parts = [_merged(self._parts)]
        return late_rows

    def take_changed(self, upto: int | None) -> IntArray:
        """The numbers of the changed windows, up to ``upto`` where that is given, which are changed no more."""
        number = len(self.changed) if upto is None else int(np.searchsorted(self.changed, upto, side="right"))
        found, self.changed = self.changed[:number], self.changed[number:]
        return found

    def rows_of(self, numbers: IntArray) -> Batch:
        """The rows of some windows (ascending numbers), each once a window, with where that starts and ends."""
        made = []
        for part in self._parts:
            low, high = np.searchsorted(numbers, part.first), np.searchsorted(numbers, part.last, side="right")
            times = np.maximum(high - low, 0)
            at = np.repeat(np.arange(len(times), dtype=np.int64), times)
            if not len(at):
                continue
            nth = np.arange(len(at), dtype=np.int64) - np.repeat(np.cumsum(times) - times, times)
            window = numbers[low[at] + nth]
            rows = part.rows if len(at) == len(times) and bool((times == 1).all()) else part.rows.take(at)
            bounds = {WINDOW_START: self.windows.starts(window), WINDOW_END: self.windows.ends(window)}
            vectors = {**rows.vectors, **{name: Vector(TIMESTAMP_US, values) for name, values in bounds.items()}}
            made.append(Batch(vectors, len(at)))
        return concat_batches(made) if made else Batch({}, 0)

    def drop(self, gone: int) -> None:
        """Let go of the rows all of whose windows are among those up to ``gone``."""
        kept = []
        for part in self._parts:
            stays = part.last > gone
            if stays.all():
                kept.append(part)
            elif stays.any():
                at = np.flatnonzero(stays)
                kept.append(_Part(part.rows.take(at), part.first[at], part.last[at], part.since))
        self._parts = kept


def _numbers(first: IntArray, last: IntArray) -> IntArray:
    """The distinct numbers in some ranges, ascending."""
    if (first == last).all():
        return np.unique(first)
    ranges = np.unique(np.stack([first, last], axis=1), axis=0)
    lengths = ranges[:, 1] - ranges[:, 0] + 1
    nth = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.unique(np.repeat(ranges[:, 0], lengths) + nth)


def _merged(parts: list[_Part]) -> _Part:
    return _Part(
        concat_batches([part.rows for part in parts]),
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.last for part in parts]),
        parts[0].since,
    )
