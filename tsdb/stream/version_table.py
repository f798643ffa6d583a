"""The versions that a live ASOF JOIN looks among: all right rows of a key, or its greatest few, by the compared column.

A left row gets the row of its key with the greatest value that is not above (or is below) its own, among those that have come by
its commit and have not gone; of equal ones the last to arrive. Rows go with deletes, and in a table where they are written again.
The rows of each window are sorted by themselves and merged with earlier ones in tiers, as a memtable's runs are: a look-up goes
through few tiers, and what a window costs does not grow with what is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tsdb.catalog.device import DeviceTable
from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.join_key import KeyNumbers
from tsdb.exec.order import ascending
from tsdb.storage.tombstone import Tombstones
from tsdb.stream.arrivals import Arrivals, joined
from tsdb.stream.join_table import places_of
from tsdb.stream.version_tier import EVER, VersionTier, lean, merged_tier, sorted_tier
from tsdb_format.types import ColumnType
from tsdb_format.vector import BoolArray, IntArray, Vector, concat

#: Rows that have gone, or may be too old, before those are let go, if they are also half of all.
_DEAD_MIN = 65_536
#: A tier of fewer rows is merged with whatever comes.
_SMALL_ROWS = 1024


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
        self._tiers: list[VersionTier] = []
        self._numbers = KeyNumbers(len(self._keys))
        self._loose = 0  # rows that have gone since the last trimming, and those that may have put another beyond ``keep``
        self.has_null = False
        #: Rows sorted, merged and trimmed so far, each as often as that happened to it.
        self.rows_arranged = 0

    def load(self, rows: Arrivals, present: BoolArray | None, devices: DeviceTable) -> None:
        """Take in rows of the history, in any order."""
        del devices
        self._parts.append(rows if present is None else rows.select(present))

    def loaded(self, devices: DeviceTable) -> None:
        """The history has ended."""
        parts = [part for part in self._parts if part.count]
        self._parts = []
        if parts:
            self._append(joined(parts), devices)
            self.settle()

    # ------------------------------------------------------------------------------------------------ what it holds

    @property
    def row_count(self) -> int:
        """How many rows are held, gone ones that are not let go yet among them."""
        return sum(tier.count for tier in self._tiers)

    @property
    def tier_count(self) -> int:
        """How many tiers a look-up goes through."""
        return len(self._tiers)

    def __len__(self) -> int:
        """How many keys have a row."""
        numbers = [tier.number[tier.alive] for tier in self._tiers]
        return len(np.unique(np.concatenate(numbers))) if numbers else 0

    def keys(self) -> list[Vector]:
        """The key columns of one row of each key."""
        if not self._tiers:
            return []
        alive = [np.flatnonzero(tier.alive) for tier in self._tiers]
        numbers = np.concatenate([tier.number[rows] for tier, rows in zip(self._tiers, alive, strict=True)])
        _, first = np.unique(numbers, return_index=True)
        held = [(tier.rows.batch.vectors, rows) for tier, rows in zip(self._tiers, alive, strict=True)]
        return [concat([vectors[name].take(rows) for vectors, rows in held]).take(first) for name in self._keys]

    def least_value(self) -> int | None:
        """The least compared value of all rows, as an ordered integer; None where there is none."""
        return min((int(tier.values.min()) for tier in self._tiers), default=None)

    @property
    def value_type(self) -> ColumnType | None:
        """The compared column's type."""
        return self._tiers[0].rows.batch.vectors[self._value].type if self._tiers else None

    def shown(self, places: IntArray) -> tuple[Batch, IntArray]:
        """A batch with the rows at ``places``, and where each is in it; −1 stays."""
        first = self._first_places()
        distinct, index = np.unique(places[places >= 0], return_inverse=True)
        ends = np.searchsorted(distinct, first)
        used = [at for at in range(len(self._tiers)) if ends[at] < ends[at + 1]]
        if len(used) <= 1:
            only = used[0] if used else None
            return (Batch({}, 0), places) if only is None else (self._tiers[only].rows.batch, np.maximum(places - first[only], -1))
        parts = [lean(self._tiers[at].rows.batch.take(distinct[ends[at] : ends[at + 1]] - first[at])) for at in used]
        moved = places.copy()
        moved[places >= 0] = index
        return concat_batches(parts), moved

    def places(self, keys: Sequence[Vector], value: Vector, sequence: IntArray | None) -> IntArray:
        """The place of each left row's right row, −1 for none; ``sequence`` None: every row has come."""
        found = np.full(len(value), -1, np.int64)
        number = self._numbers.numbers(keys, add=False).astype(np.int64)
        asked = np.flatnonzero((number >= 0) & value.valid())
        if not len(asked) or not self._tiers:
            return found
        number, wanted = number[asked], ascending(value.values[asked])
        commit = np.full(len(asked), EVER - 1) if sequence is None else sequence[asked]
        start = np.stack([np.searchsorted(tier.number, number) for tier in self._tiers])
        at = self._last_places(number, wanted)
        first, counted = self._first_places(), np.zeros(len(asked), np.int64)
        open_ = np.flatnonzero((at >= start).any(axis=0))
        while len(open_):  # one step towards smaller values for all that have found nothing yet
            tier, values, there = self._greatest(at[:, open_], start[:, open_], commit[open_])
            fits = values <= wanted[open_] if self._inclusive else values < wanted[open_]
            counted[open_] += there
            kept = (counted[open_] <= self._keep) if self._keep else np.ones(len(open_), np.bool_)
            hit = there & fits & kept
            found[asked[open_[hit]]] = first[tier[hit]] + at[tier[hit], open_[hit]]
            goes_on = ~hit & kept
            open_ = open_[goes_on]
            at[tier[goes_on], open_] -= 1
            open_ = open_[(at[:, open_] >= start[:, open_]).any(axis=0)]
        return found

    def _first_places(self) -> IntArray:
        """The first place of each tier, and the end."""
        return np.concatenate(([0], np.cumsum([tier.count for tier in self._tiers], dtype=np.int64)))

    def _last_places(self, number: IntArray, wanted: IntArray) -> IntArray:
        """By tier the last row of each key, and where all versions count the last whose value fits; before its first one: none."""
        if self._keep:
            return np.stack([np.searchsorted(tier.number, number, "right") - 1 for tier in self._tiers])
        side: Literal["left", "right"] = "right" if self._inclusive else "left"
        return np.stack([tier.fitting(number, wanted, side) - 1 for tier in self._tiers])

    def _greatest(self, at: IntArray, start: IntArray, commit: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        """Of the rows ``at`` of the tiers the greatest, of equal ones the last: its tier, its value, and whether it is there."""
        chosen, values, there = np.full(len(commit), -1), np.zeros(len(commit), np.int64), np.zeros(len(commit), np.bool_)
        for number, tier in enumerate(self._tiers):
            asked = np.flatnonzero(at[number] >= start[number])
            row = at[number, asked]
            greater = (chosen[asked] < 0) | (tier.values[row] >= values[asked])
            asked, row = asked[greater], row[greater]
            chosen[asked], values[asked] = number, tier.values[row]
            there[asked] = (tier.rows.sequence[row] <= commit[asked]) & (tier.until[row] > commit[asked])
        return chosen, values, there

    # ------------------------------------------------------------------------------------------------ windows

    def advance(self, rows: Arrivals | None, present: BoolArray | None, deletes: Tombstones, devices: DeviceTable) -> None:
        """Take in a window's rows and deletes."""
        for commit in np.unique(deletes.sequence) if len(deletes) else ():
            index = deletes.select(deletes.sequence == commit).index
            for tier in self._tiers:
                covered = index.sequence_at(tier.rows.device, tier.rows.time) > 0
                self._loose += tier.go(np.flatnonzero(covered & (tier.rows.sequence < commit)), int(commit))
        if rows is None or not rows.count:
            return
        if self._is_table:  # rows of a table that are written again are what they were no more
            for tier in self._tiers:
                self._loose += tier.replace(rows.device, rows.time, rows.sequence)
        arriving = rows if present is None else rows.select(present)
        if arriving.count:
            self._append(arriving, devices)

    def settle(self) -> None:
        """The window is over: tiers are merged without what has gone; what is too much is let go once it may be half of all."""
        if self._loose > max(_DEAD_MIN, self.row_count // 2):
            self._trim()
            return
        last, count = len(self._tiers) - 1, self._tiers[-1].count if self._tiers else 0
        while last > 0 and self._tiers[last - 1].count <= max(_SMALL_ROWS, 2 * count):
            last -= 1
            count += self._tiers[last].count
        self._merge(max(last, 0))

    def keep(self, visible: Arrivals | None, deletes: Tombstones) -> None:
        """Let go of the rows that are not among those of a later state, those left out that a known delete covers."""
        width = 2 if self._is_table else 0
        known: KeyNumbers | None = None
        for tier in self._tiers:
            alive = np.flatnonzero(tier.alive)
            if len(deletes):
                alive = alive[deletes.index.sequence_at(tier.rows.device[alive], tier.rows.time[alive]) == 0]
            mine = places_of(tier.rows.take(alive), width)
            if known is None:
                known = KeyNumbers(len(mine))
                if visible is not None:
                    known.numbers(places_of(visible, width), add=True)
            self._loose += tier.go(alive[known.numbers(mine, add=False) < 0], 0)

    def _append(self, rows: Arrivals, devices: DeviceTable) -> None:
        """More rows, as a tier of their own; those without a key or a value are nobody's."""
        number = self._numbers.numbers([rows.batch.vectors[name] for name in self._keys], add=True).astype(np.int64)
        self.has_null |= bool((number < 0).any())
        value = rows.batch.vectors[self._value]
        counts = (number >= 0) & value.valid()
        if counts.any():
            values, rows = ascending(value.values)[counts], rows.select(counts)
            self._tiers.append(sorted_tier(rows, number[counts], values, devices, by_place=self._is_table))
            self.rows_arranged += rows.count
            self._loose += rows.count if self._keep else 0

    def _merge(self, first: int) -> None:
        """Make the tiers from ``first`` on one, the smallest neighbours before others."""
        while len(self._tiers) > first + 1:
            counts = np.array([tier.count for tier in self._tiers[first:]])
            at = first + int(np.argmin(counts[:-1] + counts[1:]))
            self.rows_arranged += self._tiers[at].count + self._tiers[at + 1].count
            made = merged_tier(self._tiers[at], self._tiers[at + 1])
            self._tiers[at : at + 2] = [made]
            if not made.count:
                del self._tiers[at]

    def _trim(self) -> None:
        """Let go of what has gone or is beyond ``keep``, and of keys without rows."""
        self._merge(0)
        held, self._tiers, self._loose = self._tiers, [], 0
        self._numbers = KeyNumbers(len(self._keys))
        for tier in held:
            self.rows_arranged += tier.count
            alive = tier.selected(tier.alive)
            if self._keep:
                end = np.searchsorted(alive.number, alive.number, "right")
                alive = alive.selected(end - np.arange(alive.count) <= self._keep)
            if alive.count:  # numbers go by the order of the rows, and so keep it
                keys = [alive.rows.batch.vectors[name] for name in self._keys]
                alive.number = self._numbers.numbers(keys, add=True).astype(np.int64)
                self._tiers.append(alive)
