"""Tags and attributes under aggregate functions: which devices have rows in a cell says it all, so that no page is read.

Values are ranks: ``least``, ``greatest`` or ``all`` different ones are kept of every cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tsdb.exec.aggregate.segment import ALL, RowBatch, Segments
from tsdb.exec.order import device_ranks
from tsdb.plan.predicate import Predicate
from tsdb_format.types import INT64
from tsdb_format.vector import BoolArray, IntArray, Vector, null_vector

if TYPE_CHECKING:
    from tsdb.exec.aggregate.unit import Units
    from tsdb.storage.snapshot import TableSnapshot

#: Pairs that wait to be joined with those that are kept.
_WAITING_MIN = 1 << 17
Kept = Literal["least", "greatest", "all"]


class Pairs(NamedTuple):
    """Segments, later slots, and the rank of a value that each has: ascending by both, none twice."""

    slot: IntArray
    rank: IntArray


class TagValues:
    """The values of a tag or attribute in the rows of each cell that satisfy a condition; NULLs are none."""

    def __init__(self, table: TableSnapshot, name: str, condition: Predicate | None, kept: Kept) -> None:
        self.name = name
        self.condition = condition
        self._kept = kept
        self._ranks = device_ranks(table.devices, name)
        self._values = table.devices.values(name)
        self._held = Pairs(np.empty(0, np.int64), np.empty(0, np.int64))
        self._waiting: list[Pairs] = []
        self._waiting_count = 0

    def part(self, batch: RowBatch, segments: Segments) -> Pairs:
        """What each segment has."""
        segment = np.repeat(np.arange(len(segments)), segments.sizes)
        rank = self._ranks[batch.rows.device()]
        chosen = batch.mask(self.condition)
        if chosen is not ALL and len(chosen):
            segment, rank = segment[chosen], rank[chosen]
        fresh = rank >= 0
        fresh[1:] &= (rank[1:] != rank[:-1]) | (segment[1:] != segment[:-1])  # a device's rows are neighbours
        return self._distinct(segment[fresh], rank[fresh])

    def summary(self, units: Units) -> tuple[tuple[IntArray], BoolArray]:
        """The rank of each unit that is of one device, -1 for none."""
        device = units.devices()
        known = device >= 0
        rank = np.where(known, self._ranks[device], -1)
        every, none = units.chosen(self.condition)
        if every is not None and none is not None:
            rank[none] = -1
            known = (known & every) | none
        return (rank,), known

    def merge(self, slots: IntArray, part: Pairs | tuple[IntArray]) -> None:
        """Let a part wait: pairs of its segments, or a rank of each."""
        if isinstance(part, Pairs):
            found = Pairs(slots[part.slot], part.rank)
        else:
            some = part[0] >= 0
            found = Pairs(slots[some], part[0][some])
        self._waiting.append(found)
        self._waiting_count += len(found.slot)
        if self._waiting_count > max(_WAITING_MIN, 2 * len(self._held.slot)):
            self._settle()

    def resize(self, moved: IntArray, count: int) -> None:
        """Have ``count`` slots, of which moved[i] is what slot i was."""
        del count
        self._settle()
        self._held = Pairs(moved[self._held.slot], self._held.rank)

    def _settle(self) -> None:
        if self._waiting:
            parts = [self._held, *self._waiting]
            self._held = self._distinct(
                np.concatenate([each.slot for each in parts]), np.concatenate([each.rank for each in parts])
            )
            self._waiting, self._waiting_count = [], 0

    def _distinct(self, slot: IntArray, rank: IntArray) -> Pairs:
        """Of each slot the ranks that are kept."""
        order = np.lexsort((rank, slot))
        slot, rank = slot[order], rank[order]
        kept = np.ones(len(slot), np.bool_)
        edge = slot[1:] != slot[:-1]
        match self._kept:
            case "least":
                kept[1:] = edge
            case "greatest":
                kept[:-1] = edge
            case "all":
                kept[1:] = edge | (rank[1:] != rank[:-1])
        return Pairs(slot[kept], rank[kept])

    def values(self, slots: IntArray) -> Vector:
        """The value of each slot, NULL where it has none."""
        self._settle()
        if not len(self._held.slot):
            return null_vector(self._values.type, len(slots))
        place = np.searchsorted(self._held.slot, slots)
        valid = np.zeros(len(slots), np.bool_)
        inside = place < len(self._held.slot)
        valid[inside] = self._held.slot[place[inside]] == slots[inside]
        device = np.zeros(int(self._ranks.max(initial=-1)) + 1, np.int64)  # one that has the value
        device[self._ranks[self._ranks >= 0]] = np.flatnonzero(self._ranks >= 0)
        chosen = np.zeros(len(slots), np.int64)
        chosen[valid] = device[self._held.rank[place[valid]]]
        found = self._values.take(chosen)
        return Vector(found.type, found.values, None if valid.all() else valid, found.pool)

    def counts(self, slots: IntArray) -> Vector:
        """How many different values each slot has."""
        self._settle()
        ends = np.searchsorted(self._held.slot, slots, "right")
        return Vector(INT64, ends - np.searchsorted(self._held.slot, slots))
