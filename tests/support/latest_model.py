"""The reference of a live LATEST JOIN in plain Python: events with commit numbers, one bound, and the rule of phases.

R(≤ bound) → L(≤ bound) → all later rows of both sides by commit, right before left. What a side shows is decided by its table's
mode; rows that a group of commits wrote and took back, or wrote twice, are delivered as they are at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A stored row: its commit, time, tag (one, an integer), and the other values by column."""

    sequence: int
    time: int
    tag: int
    values: dict[str, Any] = field(hash=False)

    @property
    def arrival(self) -> tuple[int, int, int]:
        """What orders arrivals: commit, then time, then storage."""
        return self.sequence, self.time, self.tag


@dataclass(frozen=True, slots=True)
class Gone:
    """A delete: of which rows, and the number of its commit."""

    sequence: int
    covers: Callable[[Row], bool]


class ModelTable:
    """One table: every row that was ever written, every delete."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.rows: list[Row] = []
        self.deletes: list[Gone] = []

    def write(self, rows: Iterable[Row]) -> None:
        """Rows of one commit."""
        self.rows += rows

    def delete(self, sequence: int, covers: Callable[[Row], bool]) -> None:
        """Take rows away that were written before."""
        self.deletes.append(Gone(sequence, covers))
        self.rows = [row for row in self.rows if not covers(row)]

    def identity(self, row: Row) -> Any:
        """What a later row of the same identity replaces; None in a stream that keeps all."""
        return {"append": None, "versioned_kv": row.tag, "table": (row.tag, row.time)}[self.mode]

    def shown(self) -> list[Row]:
        """What a query sees now."""
        if self.mode == "append":
            return list(self.rows)
        found: dict[Any, Row] = {}
        for row in sorted(self.rows, key=lambda row: row.arrival):
            old = found.get(self.identity(row))
            values = row.values
            if self.mode == "table" and old is not None:  # NULL does not overwrite
                values = {name: old.values[name] if value is None else value for name, value in row.values.items()}
            found[self.identity(row)] = replace(row, values=values)
        return list(found.values())

    def delivered(self, after: int) -> list[Row]:
        """What a live query is handed of later commits: every version, or in a table each row as it is now."""
        rows = self.rows if self.mode == "versioned_kv" else self.shown()
        return sorted((row for row in rows if row.sequence > after), key=lambda row: row.arrival)


@dataclass
class Model:
    """The join: ``left_key`` and ``right_key`` give a row's key, None where a value is NULL; ``counts`` is the right WHERE."""

    left: ModelTable
    right: ModelTable
    left_key: Callable[[Row], Key | None]
    right_key: Callable[[Row], Key | None]
    counts: Callable[[Row], bool]
    kind: str
    live_right: bool = True
    #: Of an ASOF JOIN whether a right row fits a left one, and what orders the right rows: the greatest that fits is joined.
    fits: Callable[[Row, Row], bool] | None = None
    order: Callable[[Row], Any] | None = None
    keep: int = 0

    def __post_init__(self) -> None:
        self.latest: dict[Key, Row] = {}
        #: Of an ASOF JOIN the right rows that are there.
        self.versions: list[Row] = []
        self.known: dict[Any, tuple[Row, Key | None]] = {}
        self.at = 0

    def start(self, bound: int, *, history: bool, versions: bool = True) -> list[tuple[Row, Row | None]]:
        """Load the right side, and give the left history; of rows with ``versions`` each of them."""
        self.at = bound
        every = self.fits is not None and self.right.mode == "versioned_kv" and self.live_right
        for row in sorted(self.right.rows if every else self.right.shown(), key=lambda row: row.arrival):
            if self.counts(row):
                self._arrive(row)
        self.known = {self.right.identity(row): (row, key) for key, row in self.latest.items()}
        if not history:
            return []
        rows = self.left.rows if versions and self.left.mode == "versioned_kv" else self.left.shown()
        return list(self._joined(sorted(rows, key=lambda row: (row.tag, row.time, row.sequence))))

    def go_on(self, upto: int) -> list[tuple[Row, Row | None]]:
        """What the commits since give."""
        rights = self.right.delivered(self.at) if self.live_right else []
        gone = [each for each in self.right.deletes if each.sequence > self.at] if self.live_right else []
        events: list[tuple[tuple[Any, ...], int, Any]] = [((row.sequence, 0, *row.arrival), 0, row) for row in rights]
        events += [((each.sequence, -1), 1, each) for each in gone]
        events += [((row.sequence, 1, row.tag, row.time), 2, row) for row in self.left.delivered(self.at)]
        made: list[tuple[Row, Row | None]] = []
        for _, what, event in sorted(events, key=lambda event: event[0]):
            if what == 0:
                self._arrive(event)
            elif what == 1:
                self.latest = {
                    key: row for key, row in self.latest.items() if row.sequence > event.sequence or not event.covers(row)
                }
                self.versions = [row for row in self.versions if row.sequence > event.sequence or not event.covers(row)]
            else:
                made += self._joined([event])
        self.at = upto
        return made

    def _arrive(self, row: Row) -> None:
        key = self.right_key(row) if self.counts(row) else None
        identity = self.right.identity(row)
        if identity is not None:
            old, old_key = self.known.get(identity, (None, None))
            if old_key is not None and old_key != key and self.latest.get(old_key) is old:
                del self.latest[old_key]
            self.known[identity] = row, key
        if self.right.mode == "table":
            self.versions = [other for other in self.versions if self.right.identity(other) != identity]
        if key is not None:
            self.latest[key] = row
            self.versions.append(row)

    def _joined(self, rows: Iterable[Row]) -> Iterator[tuple[Row, Row | None]]:
        for row in rows:
            key = self.left_key(row)
            found = None if key is None else self.latest.get(key) if self.fits is None else self._nearest(row, key)
            if found is not None or self.kind == "LEFT":
                yield row, found

    def _nearest(self, row: Row, key: Key) -> Row | None:
        assert self.fits is not None
        assert self.order is not None
        rows = [other for other in self.versions if self.right_key(other) == key]
        rows.sort(key=lambda other: (self.order(other), other.arrival))  # type: ignore[misc]
        fitting = [other for other in rows[-self.keep :] if self.fits(row, other)]
        return fitting[-1] if fitting else None


def comparable(value: Any) -> Any:
    """A value so that Python's equality is the join's: NaN is NaN, −0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
