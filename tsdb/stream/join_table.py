"""The join table: of every join key the right row that arrived last, and within a window of commits which one that was at each.

Rows are kept as columns, found by the number of their key. A window is worked on as arrays of *events*: a row that arrives becomes
the last of its key; a row that goes takes its key along if it was the last, and no older row comes back. A row goes when a delete
covers it, or when what identifies it (nothing in mode append, the primary key in versioned_kv, tags and time in a table)
arrives again with another key.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable
from tsdb.exec.batch import Batch
from tsdb.exec.join_key import KeyNumbers
from tsdb.storage.tombstone import Tombstones
from tsdb.stream.arrivals import Arrivals, joined
from tsdb_format.types import INT64
from tsdb_format.vector import BoolArray, IntArray, Vector

#: Rows that no key leads to any more, from which the table is made anew, if they are also half of all.
_DEAD_MIN = 65_536
_NONE = np.empty(0, np.int64)
#: What identifies a row, by the mode of its table: columns of (device, time).
_IDENTITY = {"append": 0, "versioned_kv": 1, "table": 2}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The last row of each key throughout a window. Events ascend by (key number, sequence); ``row`` −1: the key is gone."""

    number: IntArray
    sequence: IntArray
    row: IntArray
    before: IntArray

    @classmethod
    def none(cls) -> Timeline:
        """That of a window in which no key is looked up here."""
        return cls(_NONE, _NONE, _NONE, _NONE)

    def rows_at(self, number: IntArray, sequence: IntArray) -> IntArray:
        """The last row of each key (−1: none, and for number −1) when a commit was made; rows of that commit have arrived."""
        known = np.flatnonzero(number >= 0)
        found = np.full(len(number), -1, np.int64)
        found[known] = self.before[number[known]]
        if not len(self.number) or not len(known):
            return found
        commits = np.unique(self.sequence)
        width = len(commits) + 1
        events = self.number * width + np.searchsorted(commits, self.sequence, "right")
        asked = number[known] * width + np.searchsorted(commits, sequence[known], "right")
        at = np.searchsorted(events, asked, "right") - 1
        told = (at >= 0) & (self.number[at] == number[known])
        found[known[told]] = self.row[at[told]]
        return found


@dataclass(slots=True)
class _Events:
    """Events as they are found: those with a ``target`` (else −1) take their key along where it was that row's."""

    number: list[IntArray]
    sequence: list[IntArray]
    order: list[IntArray]
    row: list[IntArray]
    target: list[IntArray]

    def add(self, number: IntArray, sequence: IntArray, order: IntArray, row: IntArray | None, target: IntArray | None) -> None:
        """Rows that arrive (``row``), or that go (``target``)."""
        nothing = np.full(len(number), -1, np.int64)
        self.number.append(number)
        self.sequence.append(sequence)
        self.order.append(order)
        self.row.append(nothing if row is None else row)
        self.target.append(nothing if target is None else target)


class JoinTable:
    """The last arrived right row of every key. First ``load`` and ``loaded``, then windows: ``advance``, ``settle``."""

    def __init__(self, keys: Sequence[str], mode: str) -> None:
        """``keys`` are the columns of the rows that are the join key, ``mode`` that of the right side's table."""
        self._keys = tuple(keys)
        self._identity_width = _IDENTITY[mode]
        self._waiting: list[tuple[Arrivals, BoolArray]] = []
        self._waiting_rows = 0
        self._rows: Arrivals | None = None
        self._present = np.empty(0, np.bool_)
        self._start_anew()
        #: Whether a row of the history had a NULL among its keys.
        self.has_null = False

    def _start_anew(self) -> None:
        self._numbers = KeyNumbers(len(self._keys))
        self._number_of = _NONE  # of each row its key's number
        self._row_of = _NONE  # of each key its last row
        self._identities = KeyNumbers(max(self._identity_width, 1))
        self._last_of = _NONE  # of each identity its last row

    def copy(self) -> JoinTable:
        """The same rows in a table of its own."""
        made = copy(self)
        made._numbers, made._identities = deepcopy(self._numbers), deepcopy(self._identities)
        made._row_of, made._last_of, made._waiting = self._row_of.copy(), self._last_of.copy(), []
        return made

    # ------------------------------------------------------------------------------------------------ history

    def load(self, rows: Arrivals, present: BoolArray | None, devices: DeviceTable) -> None:
        """Take in rows of the history, in any order; those that are not ``present`` as in ``advance``."""
        self._waiting.append((rows, np.ones(rows.count, np.bool_) if present is None else present))
        self._waiting_rows += rows.count
        if self._waiting_rows >= max(_DEAD_MIN, 0 if self._rows is None else self._rows.count):
            self._reduce(devices)

    def loaded(self, devices: DeviceTable) -> None:
        """The history has ended."""
        self._reduce(devices)
        if self._rows is not None:
            self._adopt(self._rows.select(self._present))

    def _reduce(self, devices: DeviceTable) -> None:
        """Keep the last row of each key; where rows have versions, of those that are the last of theirs, present or not."""
        parts = self._waiting if self._rows is None else [(self._rows, self._present), *self._waiting]
        self._waiting, self._waiting_rows = [], 0
        if not parts:
            return
        rows, present = joined([rows for rows, _ in parts]), np.concatenate([mask for _, mask in parts])
        order = np.lexsort((order_of_arrival(rows, devices), rows.sequence))
        if self._identity_width == 1:
            order = _last_of_each(rows.device[order], order)
        number = self._key_numbers(KeyNumbers(len(self._keys)), rows.batch, add=True)
        self.has_null |= bool((number[present] < 0).any())
        present = present & (number >= 0)
        shown = order[present[order]]
        kept = _last_of_each(number[shown], shown)
        if self._identity_width == 1:  # what is not shown still says that an earlier version is not, either
            present[:] = False
            present[kept] = True
            kept = order
        kept = np.sort(kept)
        self._rows, self._present = rows.take(kept), present[kept]

    def _adopt(self, rows: Arrivals) -> None:
        """Rows that are each the last of their key become the whole table."""
        self._start_anew()
        self._rows = rows
        self._number_of = self._key_numbers(self._numbers, rows.batch, add=True)
        self._row_of = np.empty(len(self._numbers), np.int64)
        self._row_of[self._number_of] = np.arange(rows.count)
        if self._identity_width:
            identity = self._identify(rows)
            self._last_of = np.empty(len(self._identities), np.int64)
            self._last_of[identity] = np.arange(rows.count)

    # ------------------------------------------------------------------------------------------------ what it holds

    def __len__(self) -> int:
        """How many keys have a row."""
        return int(np.count_nonzero(self._row_of >= 0))

    @property
    def batch(self) -> Batch:
        """The rows, by the places that ``rows_of`` and ``Timeline.rows_at`` give."""
        return Batch({}, 0) if self._rows is None else self._rows.batch

    def shown(self, places: IntArray) -> tuple[Batch, IntArray]:
        """A batch with the rows at ``places``, and where each is in it; −1 stays."""
        return self.batch, places

    def keys(self) -> list[Vector]:
        """The key columns of the rows that are the last of their key."""
        return [] if self._rows is None else [self._rows.batch.vectors[name].take(self._held()) for name in self._keys]

    def held(self) -> Arrivals | None:
        """The rows that are the last of their key."""
        return None if self._rows is None else self._rows.take(self._held())

    def _held(self) -> IntArray:
        return np.sort(self._row_of[self._row_of >= 0])

    def numbers_of(self, keys: Sequence[Vector]) -> IntArray:
        """The number of the key of each left row; −1 for one that no right row has had."""
        return self._numbers.numbers(keys, add=False).astype(np.int64)

    def rows_of(self, keys: Sequence[Vector]) -> IntArray:
        """The place of each left row's right row as the table is now; −1 where there is none."""
        number = self._numbers.numbers(keys, add=False)
        known = number >= 0
        if known.all():
            return self._row_of[number]
        found = np.full(len(number), -1, np.int64)
        found[known] = self._row_of[number[known]]
        return found

    # ------------------------------------------------------------------------------------------------ windows

    def advance(self, rows: Arrivals | None, present: BoolArray | None, deletes: Tombstones, devices: DeviceTable) -> Timeline:
        """What a window's rows and deletes change. Rows that are not ``present`` only tell that they are not what they were."""
        events = _Events([], [], [], [], [])
        base = self._rows
        self._delete(events, deletes)
        if rows is not None and rows.count:
            first = 0 if base is None else base.count
            self._rows = rows if base is None else joined([base, rows])
            number = self._key_numbers(self._numbers, rows.batch, add=True)
            if present is not None:
                number[~present] = -1
            self._number_of = np.concatenate((self._number_of, number))
            self._row_of = np.concatenate((self._row_of, np.full(len(self._numbers) - len(self._row_of), -1, np.int64)))
            order = np.empty(rows.count, np.int64)
            order[np.lexsort((order_of_arrival(rows, devices), rows.sequence))] = np.arange(1, rows.count + 1)
            arrive = np.flatnonzero(number >= 0)
            events.add(number[arrive], rows.sequence[arrive], order[arrive], first + arrive, None)
            if self._identity_width:
                self._move(events, rows, order, first)
        return self._timeline(events)

    def settle(self, timeline: Timeline) -> None:
        """The window is over: the table is as it is at its end."""
        if len(timeline.number):
            last = np.ones(len(timeline.number), np.bool_)
            last[:-1] = timeline.number[1:] != timeline.number[:-1]
            self._row_of[timeline.number[last]] = timeline.row[last]
        if self._rows is not None:
            dead = self._rows.count - len(self)
            if dead > max(_DEAD_MIN, self._rows.count // 2):
                self._adopt(self._rows.take(self._held()))

    def _delete(self, events: _Events, deletes: Tombstones) -> None:
        """Held rows that deletes cover go with the first of them."""
        held = self._held() if self._rows is not None else _NONE
        if not len(deletes) or self._rows is None or not len(held):
            return
        device, time = self._rows.device[held], self._rows.time[held]
        covered = deletes.index.sequence_at(device, time) > 0
        for commit in np.unique(deletes.sequence) if covered.any() else ():
            now = np.flatnonzero(covered)
            gone = now[deletes.select(deletes.sequence == commit).index.sequence_at(device[now], time[now]) > 0]
            self._go(events, held[gone], int(commit))
            covered[gone] = False

    def _go(self, events: _Events, rows: IntArray, commit: int) -> None:
        count = len(rows)
        events.add(self._number_of[rows], np.full(count, commit), np.zeros(count, np.int64), None, rows)

    def _move(self, events: _Events, rows: Arrivals, order: IntArray, first: int) -> None:
        """What arrives again with another key leaves the one it had."""
        known = len(self._last_of)
        identity = self._identify(rows).astype(np.int64)
        self._last_of = np.concatenate((self._last_of, np.full(len(self._identities) - known, -1, np.int64)))
        by_identity = np.lexsort((order, identity))
        same = np.zeros(len(identity), np.bool_)
        same[1:] = identity[by_identity[1:]] == identity[by_identity[:-1]]
        before = self._last_of[identity[by_identity]]
        before[same] = first + by_identity[:-1][same[1:]]
        here = first + by_identity
        old = np.where(before >= 0, self._number_of[np.maximum(before, 0)], -1)
        moved = (old >= 0) & (old != self._number_of[here])
        at = by_identity[moved]
        events.add(old[moved], rows.sequence[at], order[at], None, before[moved])
        self._last_of[identity[by_identity]] = here  # of equal ones the last assignment stays

    def unchanged(self) -> Timeline:
        """A window in which nothing comes or goes."""
        return Timeline(_NONE, _NONE, _NONE, self._row_of)

    def keep(self, visible: Arrivals | None, deletes: Tombstones) -> None:
        """Let go of the held rows that are not among those of a later state, those left out that a known delete covers."""
        held = self._held() if self._rows is not None else _NONE
        if self._rows is None or not len(held):
            return
        if len(deletes):
            held = held[deletes.index.sequence_at(self._rows.device[held], self._rows.time[held]) == 0]
        mine = places_of(self._rows.take(held), self._identity_width)
        places = KeyNumbers(len(mine))
        if visible is not None:
            places.numbers(places_of(visible, self._identity_width), add=True)
        gone = held[places.numbers(mine, add=False) < 0]
        self._row_of[self._number_of[gone]] = -1

    def _timeline(self, events: _Events) -> Timeline:
        if not events.number:
            return self.unchanged()
        number, sequence, order, row, target = (
            np.concatenate(parts) for parts in (events.number, events.sequence, events.order, events.row, events.target)
        )
        sort = np.lexsort((order, sequence, number))
        number, sequence, row, target = number[sort], sequence[sort], row[sort], target[sort]
        begins = np.ones(len(number), np.bool_)
        begins[1:] = number[1:] != number[:-1]
        place = np.arange(len(number))
        start = np.maximum.accumulate(np.where(begins, place, 0))
        arrived = np.maximum.accumulate(np.where(row >= 0, place, -1))
        last = np.where(arrived >= start, row[np.maximum(arrived, 0)], self._row_of[number])
        counts = (row >= 0) | (last == target)
        return Timeline(number[counts], sequence[counts], row[counts], self._row_of)

    def _key_numbers(self, numbers: KeyNumbers, batch: Batch, *, add: bool) -> IntArray:
        return numbers.numbers([batch.vectors[name] for name in self._keys], add=add).astype(np.int64)

    def _identify(self, rows: Arrivals) -> IntArray:
        return self._identities.numbers(places_of(rows, self._identity_width), add=True).astype(np.int64)


def places_of(rows: Arrivals, identity_width: int) -> list[Vector]:
    """What identifies rows: device and time as far as these do, and the commit too where nothing does."""
    return [_vector(values) for values in (rows.device, rows.time, rows.sequence)[: identity_width or 3]]


def _vector(values: NDArray[np.int64] | NDArray[np.int32]) -> Vector:
    return Vector(INT64, values.astype(np.int64))


def _last_of_each(group: NDArray[np.int64] | NDArray[np.int32], rows: IntArray) -> IntArray:
    """Of rows in the order of their arrival the last one of each group."""
    by_group = np.argsort(group, kind="stable")
    ends = np.ones(len(rows), np.bool_)
    ends[:-1] = group[by_group[1:]] != group[by_group[:-1]]
    return rows[np.sort(by_group[ends])]


def order_of_arrival(rows: Arrivals, devices: DeviceTable) -> IntArray:
    """Rows of one commit arrive in the order of time, then of storage."""
    order = np.empty(rows.count, np.int64)
    order[np.lexsort((devices.ranks_of(rows.device)[0], rows.time))] = np.arange(rows.count)
    return order
