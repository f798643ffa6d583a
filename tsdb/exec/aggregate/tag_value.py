"""Tags and attributes under aggregate functions: which devices have rows in a cell, and how many, says it all; no page is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.aggregate.fold import Arrays, FloatSum, IntegerSum, NullCount, Summary, wide
from tsdb.exec.aggregate.segment import RowBatch, Segments
from tsdb.exec.kernels import aggregate as kernels
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


class TagNulls(NullCount):
    """How many rows have no value of a tag or attribute."""

    _null: IntArray

    def of(self, table: TableSnapshot) -> Self:
        """The same, with what devices lack."""
        made = type(self)(self.name, self.kind, self.condition)
        made._null = (~table.devices.values(self.name).valid()).astype(np.int64)
        return made

    def part(self, batch: RowBatch, segments: Segments) -> Arrays | None:
        """The rows of each segment; None: there is none."""
        if not self._null.any():
            return None
        found = batch.by_device(segments, self.condition)
        count = np.zeros(len(segments), np.int64)
        kernels.add_integers(found.segment, found.rows * self._null[found.device], count)
        return (count,)

    def summary(self, units: Units) -> Summary | None:
        """The rows of each unit that is of one device."""
        device = units.devices()
        return self.limited(units, (units.rows * self._null[device],), device >= 0)


class TagFloatSum(FloatSum):
    """The sum over rows of an attribute of FLOATs or DOUBLEs."""

    _values: NDArray[Any]

    def of(self, table: TableSnapshot) -> Self:
        """The same, with the devices' numbers."""
        made = type(self)(self.name, self.kind, self.condition)
        made._values = _numbers(table, self.name)
        return made

    def part(self, batch: RowBatch, segments: Segments) -> Arrays:
        """Each segment's sum."""
        found = batch.by_device(segments, self.condition)
        total = np.zeros(len(segments), np.float64)
        kernels.add_floats(found.segment, _times(self._values[found.device], found.rows), total)
        return (total,)

    def summary(self, units: Units) -> Summary | None:
        """The sum of each unit that is of one device."""
        device = units.devices()
        return self.limited(units, (_times(self._values[device], units.rows),), device >= 0)


class TagIntegerSum(IntegerSum):
    """The exact sum over rows of a tag or attribute of integers or truth values."""

    _values: NDArray[Any]

    def of(self, table: TableSnapshot) -> Self:
        """The same, with the devices' numbers."""
        made = type(self)(self.name, self.kind, self.condition)
        made._values = _numbers(table, self.name)
        return made

    def part(self, batch: RowBatch, segments: Segments) -> Arrays:
        """Each segment's sum."""
        found = batch.by_device(segments, self.condition)
        high, low = np.zeros((2, len(segments)), np.int64)
        kernels.add_limbs(found.segment, *self._limbs(found.device, found.rows), high, low)
        return high, low

    def summary(self, units: Units) -> Summary | None:
        """The sum of each unit that is of one device."""
        device = units.devices()
        return self.limited(units, self._limbs(device, units.rows), device >= 0)

    def _limbs(self, device: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
        values = self._values[device]
        return (values >> 32) * rows, (values & kernels.LIMB) * rows


def _numbers(table: TableSnapshot, name: str) -> NDArray[Any]:
    """A number per device, 0 for NULL."""
    values = table.devices.values(name)
    found: NDArray[Any] = np.where(values.valid(), wide(values), 0)
    return found


def _times(values: NDArray[np.float64], rows: IntArray) -> NDArray[np.float64]:
    """Values times rows, 0 where there are none."""
    with np.errstate(all="ignore"):
        found: NDArray[np.float64] = np.where(rows > 0, values * rows, 0.0)
    return found


class Pairs(NamedTuple):
    """Segments, later slots, and the rank of a value that each has: ascending by both, none twice."""

    slot: IntArray
    rank: IntArray


class TagValues:
    """The values of a tag or attribute in the rows of each cell that satisfy a condition; NULLs are none.

    They are kept as ranks: the ``least``, the ``greatest``, or ``all`` different ones.
    """

    _ranks: IntArray
    _values: Vector

    def __init__(self, name: str, condition: Predicate | None, kept: Kept) -> None:
        self.name = name
        self.condition = condition
        self.kept = kept

    def of(self, table: TableSnapshot) -> TagValues:
        """The same, with the devices' values."""
        made = TagValues(self.name, self.condition, self.kept)
        made._ranks = device_ranks(table.devices, self.name)
        made._values = table.devices.values(self.name)
        return made

    def started(self, count: int) -> HeldRanks:
        """What is held before anything was seen."""
        del count
        return HeldRanks(self.kept, self._ranks, self._values)

    def part(self, batch: RowBatch, segments: Segments) -> Pairs:
        """What each segment has."""
        found = batch.by_device(segments, self.condition)
        rank = self._ranks[found.device]
        held = (rank >= 0) & (found.rows > 0)
        return _distinct(found.segment[held], rank[held], self.kept)

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

    def merge(self, held: HeldRanks, slots: IntArray, part: Pairs | tuple[IntArray]) -> None:
        """Take in a part: pairs of its segments, or a rank of each."""
        if isinstance(part, Pairs):
            held.add(Pairs(slots[part.slot], part.rank))
        else:
            some = part[0] >= 0
            held.add(Pairs(slots[some], part[0][some]))

    def resized(self, held: HeldRanks, moved: IntArray, count: int) -> HeldRanks:
        """What is held, of slots of which moved[i] is what slot i was."""
        del count
        held.move(moved)
        return held


class HeldRanks:
    """The ranks of values by slot. Those that come wait until there are enough of them."""

    def __init__(self, kept: Kept, ranks: IntArray, values: Vector) -> None:
        self._kept = kept
        self._ranks = ranks
        self._values = values
        self._held = Pairs(np.empty(0, np.int64), np.empty(0, np.int64))
        self._waiting: list[Pairs] = []
        self._waiting_count = 0

    def add(self, found: Pairs) -> None:
        """Let pairs wait."""
        self._waiting.append(found)
        self._waiting_count += len(found.slot)
        if self._waiting_count > max(_WAITING_MIN, 2 * len(self._held.slot)):
            self._settle()

    def move(self, moved: IntArray) -> None:
        """Slot moved[i] is what slot i was."""
        self._settle()
        self._held = Pairs(moved[self._held.slot], self._held.rank)

    def _settle(self) -> None:
        if self._waiting:
            parts = [self._held, *self._waiting]
            slot, rank = np.concatenate([each.slot for each in parts]), np.concatenate([each.rank for each in parts])
            self._held = _distinct(slot, rank, self._kept)
            self._waiting, self._waiting_count = [], 0

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


def _distinct(slot: IntArray, rank: IntArray, which: Kept) -> Pairs:
    """Of each slot the ranks that are kept."""
    order = np.lexsort((rank, slot))
    slot, rank = slot[order], rank[order]
    kept = np.ones(len(slot), np.bool_)
    edge = slot[1:] != slot[:-1]
    match which:
        case "least":
            kept[1:] = edge
        case "greatest":
            kept[:-1] = edge
        case "all":
            kept[1:] = edge | (rank[1:] != rank[:-1])
    return Pairs(slot[kept], rank[kept])
