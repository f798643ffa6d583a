"""Rows of windows that are not over: batches as they came, each row with the numbers of its windows.

Where many are held and the query allows it, they are reduced: to one row for each group of each window, with what its aggregates
have come to so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.row_range import rows_in
from tsdb.stream.window.span import Windows
from tsdb_format.types import TIMESTAMP_US
from tsdb_format.vector import IntArray, Vector

#: The table of the rows of windows, as a live query's text names it, and the columns that it has besides those of the data.
HELD = "rows of windows"
WINDOW_START, WINDOW_END = "window_start", "window_end"
#: Batches that are kept apart; more are made one, so that a window of many commits costs no more per row than one of few.
_PARTS_MAX = 64
#: Rows that are held as they came; more are reduced.
HELD_ROWS_MAX = 262_144


class Reducer(Protocol):
    """What makes fewer rows of many, each with a window of its own."""

    def reduce(self, rows: Batch) -> Batch:
        """Rows with their windows, reduced to one for each group."""

    def combine(self, rows: Batch) -> Batch:
        """Reduced rows, of which several may be of one group, to one for each."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows whose windows are ``first`` to ``last``."""

    rows: Batch
    first: IntArray
    last: IntArray

    def after(self, gone: int) -> _Part:
        """The rows that are also in windows after ``gone``."""
        stays = self.last > gone
        if stays.all():
            return self
        at = np.flatnonzero(stays)
        return _Part(self.rows.take(at), self.first[at], self.last[at])


@dataclass(slots=True)
class _Begun:
    """The windows that have rows, by number (ascending), and the places after which the first of these came."""

    numbers: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    at: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    places: dict[int, Any] = field(default_factory=dict)
    _next: int = 0

    def add(self, numbers: IntArray, place: Any) -> None:
        """Rows of these windows came after a place."""
        new = np.setdiff1d(numbers, self.numbers, assume_unique=True)
        if len(new):
            self.places[self._next] = place
            order = np.argsort(both := np.concatenate([self.numbers, new]))
            self.at = np.concatenate([self.at, np.full(len(new), self._next, np.int64)])[order]
            self.numbers = both[order]
            self._next += 1

    def drop(self, gone: int) -> None:
        """Forget the windows up to ``gone``."""
        number = int(np.searchsorted(self.numbers, gone, side="right"))
        if number:
            self.numbers, self.at = self.numbers[number:], self.at[number:]
            self.places = {key: self.places[key] for key in np.unique(self.at).tolist()}


@dataclass(slots=True)
class HeldRows:
    """``changed`` are the numbers of the windows that got rows since they were emitted, ascending."""

    windows: Windows
    reducer: Reducer | None = None
    changed: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    _begun: _Begun = field(default_factory=_Begun)
    _parts: list[_Part] = field(default_factory=list)
    _reduced: list[_Part] = field(default_factory=list)
    #: Rows that are held, and above which they are reduced next.
    _rows: int = 0
    _rows_max: int = -1

    @property
    def count(self) -> int:
        """How many rows are held, reduced ones included."""
        return sum(part.rows.row_count for part in (*self._parts, *self._reduced))

    @property
    def since(self) -> Any:
        """The place after which the first of the rows came; None where none is held."""
        return self._begun.places[int(self._begun.at.min())] if len(self._begun.at) else None

    @property
    def newest(self) -> int | None:
        """The number of the last window with rows."""
        return int(self._begun.numbers[-1]) if len(self._begun.numbers) else None

    def oldest_start(self) -> int | None:
        """Where the first window with rows starts, in microseconds."""
        return int(self.windows.starts(self._begun.numbers[:1])[0]) if len(self._begun.numbers) else None

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
        if rows.row_count:
            numbers = _numbers(first, last)
            self.changed = np.union1d(self.changed, numbers)
            self._begun.add(numbers, since)
            self._parts.append(_Part(rows, first, last))
            self._rows += rows.row_count
            if len(self._parts) > _PARTS_MAX:
                self._parts = [_merged(self._parts)]
            if self.reducer is not None and self._rows > max(HELD_ROWS_MAX, self._rows_max):
                self._reduce(self.reducer)
        return late_rows

    def take_changed(self, upto: int | None) -> IntArray:
        """The numbers of the changed windows, up to ``upto`` where that is given, which are changed no more."""
        number = len(self.changed) if upto is None else int(np.searchsorted(self.changed, upto, side="right"))
        found, self.changed = self.changed[:number], self.changed[number:]
        return found

    def rows_of(self, numbers: IntArray) -> tuple[Batch, bool]:
        """The rows of some windows (ascending numbers), each once a window, and whether they are reduced."""
        reduced = self._spread(self._reduced, numbers)
        plain = self._spread(self._parts, numbers)
        if self.reducer is None or not reduced.row_count:
            return plain, False
        return concat_batches([reduced, self.reducer.reduce(plain)] if plain.row_count else [reduced]), True

    def drop(self, gone: int) -> None:
        """Let go of the rows all of whose windows are among those up to ``gone``."""
        if not len(self._begun.numbers) or self._begun.numbers[0] > gone:
            return
        self._begun.drop(gone)
        self._parts = [part for part in (each.after(gone) for each in self._parts) if part.rows.row_count]
        self._reduced = [part for part in (each.after(gone) for each in self._reduced) if part.rows.row_count]
        self._rows = self.count

    def _spread(self, parts: list[_Part], numbers: IntArray) -> Batch:
        """The rows of some windows, with where their windows start and end."""
        made = []
        for part in parts:
            low, high = np.searchsorted(numbers, part.first), np.searchsorted(numbers, part.last, side="right")
            times = np.maximum(high - low, 0)
            at = np.repeat(np.arange(len(times), dtype=np.int64), times)
            if not len(at):
                continue
            window = numbers[rows_in(low, low + times)]
            rows = part.rows if len(at) == len(times) and bool((times == 1).all()) else part.rows.take(at)
            bounds = {WINDOW_START: self.windows.starts(window), WINDOW_END: self.windows.ends(window)}
            vectors = {**rows.vectors, **{name: Vector(TIMESTAMP_US, values) for name, values in bounds.items()}}
            made.append(Batch(vectors, len(at)))
        return concat_batches(made) if made else Batch({}, 0)

    def _reduce(self, reducer: Reducer) -> None:
        """Make one row of each group of all windows; where that helps little, more rows are held before it is tried again."""
        numbers = self._begun.numbers
        reduced, plain = self._spread(self._reduced, numbers), self._spread(self._parts, numbers)
        rows = reducer.reduce(plain)
        if reduced.row_count:
            rows = reducer.combine(concat_batches([reduced, rows]))
        of = self.windows.last(rows.vectors[WINDOW_START].values)
        kept = {name: vector for name, vector in rows.vectors.items() if name not in (WINDOW_START, WINDOW_END)}
        self._parts, self._reduced = [], [_Part(Batch(kept, rows.row_count), of, of)]
        self._rows, self._rows_max = rows.row_count, 2 * rows.row_count


def _numbers(first: IntArray, last: IntArray) -> IntArray:
    """The distinct numbers in some ranges, ascending."""
    if (first == last).all():
        return np.unique(first)
    ranges = np.unique(np.stack([first, last], axis=1), axis=0)
    return np.unique(rows_in(np.ascontiguousarray(ranges[:, 0]), ranges[:, 1] + 1))


def _merged(parts: list[_Part]) -> _Part:
    return _Part(
        concat_batches([part.rows for part in parts]),
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.last for part in parts]),
    )
