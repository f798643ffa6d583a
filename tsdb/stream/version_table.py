"""The versions that a live ASOF JOIN looks among: all right rows of a key, or its greatest few, by the compared column.

A left row gets the row of its key with the greatest value that is not above (or is below) its own, among those that have come by
its commit and have not gone; of equal ones the last to arrive. Rows go with deletes, and in a table where they are written again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsdb.catalog.device import DeviceTable
from tsdb.exec.batch import Batch
from tsdb.exec.join_key import KeyNumbers
from tsdb.exec.order import ascending
from tsdb.storage.tombstone import Tombstones
from tsdb.stream.arrivals import Arrivals, joined
from tsdb.stream.join_table import order_of_arrival, places_of
from tsdb_format.types import ColumnType
from tsdb_format.vector import BoolArray, IntArray, Vector

_NONE = np.empty(0, np.int64)
_EVER = np.int64(2**63 - 1)
#: Rows of which half have gone, or are too old, before they are let go.
_DEAD_MIN = 65_536


class VersionTable:
    """The right rows of a live ASOF JOIN. First ``load`` and ``loaded``, then windows: ``advance``, ``settle``."""

    def __init__(self, keys: Sequence[str], value: str, mode: str, *, inclusive: bool, keep: int) -> None:
        """``value`` is the compared column, ``inclusive`` for >=; of a key the ``keep`` greatest values count, 0 is all."""
        self._keys = tuple(keys)
        self._value = value
        self._is_table = mode == "table"
        self._inclusive = inclusive
        self._keep = keep
        self._parts: list[Arrivals] = []
        self._rows: Arrivals | None = None
        self._until = _NONE  # of each row the commit by which it had gone
        self._numbers = KeyNumbers(len(self._keys))
        self._number = self._values = self._came = self._sorted = _NONE
        self.has_null = False

    def load(self, rows: Arrivals, present: BoolArray | None, devices: DeviceTable) -> None:
        """Take in rows of the history, in any order."""
        del devices
        self._parts.append(rows if present is None else rows.select(present))

    def loaded(self, devices: DeviceTable) -> None:
        """The history has ended."""
        parts = [part for part in self._parts if part.count]
        self._parts = []
        if parts:
            self._append(joined(parts))
            self._sort(devices)
            self.settle(devices)

    # ------------------------------------------------------------------------------------------------ what it holds

    def __len__(self) -> int:
        """How many keys have a row."""
        return len(np.unique(self._number[self._until == _EVER])) if self._rows is not None else 0

    @property
    def batch(self) -> Batch:
        """The rows, by the places that ``places`` gives."""
        return Batch({}, 0) if self._rows is None else self._rows.batch

    def keys(self) -> list[Vector]:
        """The key columns of one row of each key."""
        if self._rows is None:
            return []
        alive = np.flatnonzero(self._until == _EVER)
        _, first = np.unique(self._number[alive], return_index=True)
        return [self._rows.batch.vectors[name].take(alive[first]) for name in self._keys]

    def least_value(self) -> int | None:
        """The least compared value of all rows, as an ordered integer; None where there is none."""
        return int(self._values.min()) if len(self._values) else None

    @property
    def value_type(self) -> ColumnType | None:
        """The compared column's type."""
        return None if self._rows is None else self._rows.batch.vectors[self._value].type

    def places(self, keys: Sequence[Vector], value: Vector, sequence: IntArray | None) -> IntArray:
        """The place of each left row's right row, −1 for none; ``sequence`` None: every row has come."""
        found = np.full(len(value), -1, np.int64)
        number = self._numbers.numbers(keys, add=False).astype(np.int64)
        asked = np.flatnonzero((number >= 0) & value.valid())
        if not len(asked) or not len(self._sorted):
            return found
        number, wanted = number[asked], ascending(value.values[asked])
        commit = np.full(len(asked), _EVER - 1) if sequence is None else sequence[asked]
        group, values = self._number[self._sorted], self._values[self._sorted]
        start, at = np.searchsorted(group, number), np.searchsorted(group, number, "right") - 1
        if not self._keep:
            at = self._last_within(group, values, number, wanted)
        counted = np.zeros(len(asked), np.int64)
        open_ = np.flatnonzero(at >= start)
        while len(open_):  # one step towards smaller values for all that have found nothing yet
            row = self._sorted[at[open_]]
            there = (self._came[row] <= commit[open_]) & (self._until[row] > commit[open_])
            fits = values[at[open_]] <= wanted[open_] if self._inclusive else values[at[open_]] < wanted[open_]
            counted[open_] += there
            kept = (counted[open_] <= self._keep) if self._keep else np.ones(len(open_), np.bool_)
            hit = there & fits & kept
            found[asked[open_[hit]]] = row[hit]
            open_ = open_[~hit & kept]
            at[open_] -= 1
            open_ = open_[at[open_] >= start[open_]]
        return found

    def _last_within(self, group: IntArray, values: IntArray, number: IntArray, wanted: IntArray) -> IntArray:
        """The last sorted place of each key whose value fits, or one before the key's first."""
        distinct = np.unique(values)
        width = len(distinct) + 1
        held = group * width + np.searchsorted(distinct, values, "right")
        rank = np.searchsorted(distinct, wanted, "right" if self._inclusive else "left")
        found: IntArray = np.searchsorted(held, number * width + rank, "right") - 1
        return found

    # ------------------------------------------------------------------------------------------------ windows

    def advance(self, rows: Arrivals | None, present: BoolArray | None, deletes: Tombstones, devices: DeviceTable) -> None:
        """Take in a window's rows and deletes."""
        if self._rows is not None and len(deletes):
            device, time = self._rows.device, self._rows.time
            for commit in np.unique(deletes.sequence):
                some = deletes.select(deletes.sequence == commit).index.sequence_at(device, time) > 0
                self._go(np.flatnonzero(some & (self._came < commit)), int(commit))
        if rows is None or not rows.count:
            return
        if self._is_table and self._rows is not None:
            self._replace(rows)
        arriving = rows if present is None else rows.select(present)
        if arriving.count:
            self._append(arriving)
            self._sort(devices)

    def settle(self, devices: DeviceTable) -> None:
        """The window is over: rows that have gone, or are too many, are let go once they are half of all."""
        if self._rows is None:
            return
        held = self._until[self._sorted] == _EVER
        if self._keep:
            number = self._number[self._sorted]
            after = np.cumsum(held[::-1])[::-1]  # alive ones from here on, this one included
            last = np.searchsorted(number, number, "right")
            beyond = np.append(after, 0)[last]
            held &= after - beyond <= self._keep
        if len(held) - np.count_nonzero(held) > max(_DEAD_MIN, len(held) // 2):
            rows = self._rows.take(np.sort(self._sorted[held]))
            self._rows, self._until, self._numbers = None, _NONE, KeyNumbers(len(self._keys))
            self._append(rows)
            self._sort(devices)

    def keep(self, visible: Arrivals | None, deletes: Tombstones) -> None:
        """Let go of the rows that are not among those of a later state, those left out that a known delete covers."""
        if self._rows is None:
            return
        alive = np.flatnonzero(self._until == _EVER)
        if len(deletes):
            alive = alive[deletes.index.sequence_at(self._rows.device[alive], self._rows.time[alive]) == 0]
        width = 2 if self._is_table else 0
        mine = places_of(self._rows.take(alive), width)
        known = KeyNumbers(len(mine))
        if visible is not None:
            known.numbers(places_of(visible, width), add=True)
        self._until[alive[known.numbers(mine, add=False) < 0]] = 0

    def _append(self, rows: Arrivals) -> None:
        """More rows; those without a key or a value are nobody's."""
        number = self._numbers.numbers([rows.batch.vectors[name] for name in self._keys], add=True).astype(np.int64)
        self.has_null |= bool((number < 0).any())
        counts = (number >= 0) & rows.batch.vectors[self._value].valid()
        rows, number = rows.select(counts), number[counts]
        until = np.full(rows.count, _EVER)
        if self._rows is None:
            self._rows, self._number, self._until = rows, number, until
        elif rows.count:
            self._rows = joined([self._rows, rows])
            self._number = np.concatenate((self._number, number))
            self._until = np.concatenate((self._until, until))
        self._came = self._rows.sequence
        held = self._rows.batch.vectors.get(self._value)
        self._values = _NONE if held is None else ascending(held.values)

    def _sort(self, devices: DeviceTable) -> None:
        if self._rows is not None:
            order = order_of_arrival(self._rows, devices)
            self._sorted = np.lexsort((order, self._came, self._values, self._number))

    def _replace(self, rows: Arrivals) -> None:
        """Rows of a table that are written again are what they were no more."""
        assert self._rows is not None
        known = KeyNumbers(2)
        fresh = known.numbers(places_of(rows, 2), add=True)
        commit = np.zeros(len(known), np.int64)
        commit[fresh] = rows.sequence
        mine = known.numbers(places_of(self._rows, 2), add=False)
        row = np.flatnonzero(mine >= 0)
        self._until[row] = np.minimum(self._until[row], commit[mine[row]])

    def _go(self, rows: IntArray, commit: int) -> None:
        self._until[rows] = np.minimum(self._until[rows], commit)
