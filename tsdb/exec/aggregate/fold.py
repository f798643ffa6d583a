"""Folding a column's values by cell: how many, their sum, least, greatest, and how they spread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.aggregate.segment import ALL, RowBatch, Segments, both
from tsdb.exec.kernels import aggregate as kernels
from tsdb.plan.predicate import Predicate
from tsdb_format.kernels.fold import GREATEST, LEAST, SUM
from tsdb_format.statistics import HAS_BOUNDS, HAS_NAN, HAS_SUM, Statistics
from tsdb_format.types import ColumnType
from tsdb_format.vector import BoolArray, IntArray, Vector

if TYPE_CHECKING:
    from tsdb.exec.aggregate.unit import Units
    from tsdb.storage.snapshot import TableSnapshot
    from tsdb_format.encoding.fold import StoredFold

#: An accumulator's arrays, one element per cell or, in a part of it, per segment.
Arrays = tuple[NDArray[Any], ...]
#: A part of units (None: nothing was seen), and for which of them it is known.
Summary = tuple[Arrays | None, BoolArray]
#: The same, of all their rows.
Stated = tuple[Arrays, BoolArray]


class Folded:
    """What all foldings share: how values become a part, and parts one element per cell. What came of it is ``Cells``' to hold.

    What is held is some arrays with an element per slot, which start as ``initial`` says.
    """

    initial: tuple[Any, ...] = ()
    #: What storage may fold for this, in bits of ``kernels.fold``; None: it cannot.
    wants: int | None = None

    def __init__(self, condition: Predicate | None) -> None:
        self.condition = condition

    def of(self, table: TableSnapshot) -> Self:
        """The same for a run over a snapshot of the table."""
        del table
        return self

    def started(self, count: int) -> Arrays:
        """What is held of ``count`` slots before anything was seen."""
        return tuple(_started(count, start) for start in self.initial)

    def resized(self, held: Arrays, moved: IntArray, count: int) -> Arrays:
        """What is held of ``count`` slots, of which moved[i] is what slot i was."""
        made = self.started(count)
        for array, old in zip(made, held, strict=True):
            array[moved] = old
        return made

    def limited(self, units: Units, part: Arrays, known: BoolArray) -> Summary:
        """A summary of whole units under the condition: units of which no row satisfies it are as nothing was seen."""
        every, none = units.chosen(self.condition)
        if every is None or none is None:
            return part, known
        return tuple(np.where(none, start, array) for array, start in zip(part, self.initial, strict=True)), (known & every) | none


class RowCount(Folded):
    """How many rows, or how many satisfy a condition."""

    initial = (np.int64(0),)

    def part(self, batch: RowBatch, segments: Segments) -> Arrays:
        """The rows of each segment."""
        return (_counted(batch.mask(self.condition), segments),)

    def summary(self, units: Units) -> Summary | None:
        """The rows of each unit."""
        return self.limited(units, (units.rows,), np.ones(len(units.rows), np.bool_))

    def merge(self, held: Arrays, slots: IntArray, part: Arrays) -> None:
        """Add a part's counts."""
        kernels.add_integers(slots, part[0], held[0])


class ColumnFold(Folded, ABC):
    """A folding of one column's values, over the rows that satisfy a condition."""

    def __init__(self, name: str, kind: ColumnType, condition: Predicate | None) -> None:
        self.condition = condition
        self.name = name
        self.kind = kind

    def chosen(self, batch: RowBatch) -> tuple[Vector, BoolArray]:
        """The column's values, and which rows count; empty: all."""
        vector = batch.read(self.name)
        return vector, both(batch.mask(self.condition), vector.validity)

    def folded(self, batch: RowBatch, segments: Segments) -> StoredFold | None:
        """What storage makes of the column's rows; None where they are to be read."""
        return batch.folded(self.name, segments) if self.condition is None else None

    def summary(self, units: Units) -> Summary | None:
        """What statistics say of each unit; None where they say nothing."""
        found = units.statistics(self.name)
        return None if found is None else self.limited(units, *self.stated(found))

    @abstractmethod
    def stated(self, found: Statistics) -> Stated:
        """The part of whole units that have these statistics."""


class NullCount(ColumnFold):
    """How many values are NULL: what the values fall short of the rows, mostly nothing, which is no part."""

    initial = (np.int64(0),)
    wants = 0

    def part(self, batch: RowBatch, segments: Segments) -> Arrays | None:
        """The NULLs of each segment; None: there is none."""
        if self.folded(batch, segments) is not None:
            return None
        validity = batch.cells(self.name).validity
        return None if validity is None else (_counted(both(batch.mask(self.condition), ~validity), segments),)

    def stated(self, found: Statistics) -> Stated:
        """The NULLs of each unit."""
        return (found.null_count,), np.ones(len(found), np.bool_)

    def summary(self, units: Units) -> Summary | None:
        """What statistics say of each unit."""
        made = super().summary(units)
        return made if made is None or made[0] is None or np.count_nonzero(made[0][0]) else (None, made[1])

    def merge(self, held: Arrays, slots: IntArray, part: Arrays) -> None:
        """Add a part's counts."""
        kernels.add_integers(slots, part[0], held[0])


class FloatSum(ColumnFold):
    """The sum of FLOATs or DOUBLEs."""

    initial = (0.0,)
    wants = SUM

    def part(self, batch: RowBatch, segments: Segments) -> Arrays:
        """Each segment's sum."""
        folded = self.folded(batch, segments)
        if folded is not None:
            return folded.sum
        vector, chosen = self.chosen(batch)
        total = np.empty(len(segments), np.float64)
        kernels.sum_floats(wide(vector), chosen, segments.stop, total)
        return (total,)

    def stated(self, found: Statistics) -> Stated:
        """Each unit's sum."""
        summed, empty = (found.flags & HAS_SUM) != 0, found.null_count == found.row_count
        assert found.sum is not None
        return (np.where(summed, found.sum, 0.0),), summed | empty

    def merge(self, held: Arrays, slots: IntArray, part: Arrays) -> None:
        """Add a part's sums."""
        kernels.add_floats(slots, part[0], held[0])


class IntegerSum(ColumnFold):
    """The exact sum of integers or truth values, held as 2**32s and ones."""

    initial = (np.int64(0), np.int64(0))
    wants = SUM

    def part(self, batch: RowBatch, segments: Segments) -> Arrays:
        """Each segment's sum."""
        folded = self.folded(batch, segments)
        if folded is not None:
            return folded.sum
        vector, chosen = self.chosen(batch)
        high, low = np.empty((2, len(segments)), np.int64)
        kernels.sum_integers(wide(vector), chosen, segments.stop, high, low)
        return high, low

    def stated(self, found: Statistics) -> Stated:
        """Each unit's sum."""
        summed, empty = (found.flags & HAS_SUM) != 0, found.null_count == found.row_count
        assert found.sum is not None
        total = np.where(summed, found.sum, 0)
        return (total >> 32, total & kernels.LIMB), summed | empty

    def merge(self, held: Arrays, slots: IntArray, part: Arrays) -> None:
        """Add a part's sums."""
        kernels.add_limbs(slots, *part, *held)


class Least(ColumnFold):
    """The least number; its start where there is none."""

    wants = LEAST

    def __init__(self, name: str, kind: ColumnType, condition: Predicate | None) -> None:
        super().__init__(name, kind, condition)
        self.initial = (np.nan,) if kind.is_float else (np.int64(kernels.MOST),)

    def part(self, batch: RowBatch, segments: Segments) -> Arrays:
        """Each segment's least number."""
        folded = self.folded(batch, segments)
        if folded is not None:
            return (folded.least,)
        vector, chosen = self.chosen(batch)
        values = wide(vector)
        found = np.empty(len(segments), values.dtype)
        (kernels.least_floats if self.kind.is_float else kernels.least_integers)(values, chosen, segments.stop, found)
        return (found,)

    def stated(self, found: Statistics) -> Stated:
        """Each unit's least number; bounds leave NaN out."""
        bounded, empty = (found.flags & HAS_BOUNDS) != 0, found.null_count == found.row_count
        assert found.min is not None
        return (np.where(bounded, found.min, self.initial[0]),), bounded | empty | ((found.flags & HAS_NAN) != 0)

    def merge(self, held: Arrays, slots: IntArray, part: Arrays) -> None:
        """Lower slots to a part's."""
        (kernels.lower_floats if self.kind.is_float else kernels.lower_integers)(slots, part[0], held[0])


class Greatest(ColumnFold):
    """The greatest number; its start where there is none."""

    wants = GREATEST

    def __init__(self, name: str, kind: ColumnType, condition: Predicate | None) -> None:
        super().__init__(name, kind, condition)
        self.initial = (-np.inf,) if kind.is_float else (np.int64(kernels.LEAST),)

    def part(self, batch: RowBatch, segments: Segments) -> Arrays:
        """Each segment's greatest number."""
        folded = self.folded(batch, segments)
        if folded is not None:
            return (folded.greatest,)
        vector, chosen = self.chosen(batch)
        values = wide(vector)
        found = np.empty(len(segments), values.dtype)
        (kernels.greatest_floats if self.kind.is_float else kernels.greatest_integers)(values, chosen, segments.stop, found)
        return (found,)

    def stated(self, found: Statistics) -> Stated:
        """Each unit's greatest number; bounds leave NaN out."""
        bounded, empty = (found.flags & HAS_BOUNDS) != 0, found.null_count == found.row_count
        odd = (found.flags & HAS_NAN) != 0
        assert found.max is not None
        greatest = np.where(bounded, found.max, self.initial[0])
        return (np.where(odd, np.nan, greatest) if self.kind.is_float else greatest,), bounded | empty | odd

    def merge(self, held: Arrays, slots: IntArray, part: Arrays) -> None:
        """Raise slots to a part's."""
        (kernels.raise_floats if self.kind.is_float else kernels.raise_integers)(slots, part[0], held[0])


class Moments(ColumnFold):
    """How numbers spread: how many, their mean, and the sum of squared distances from it."""

    initial = (np.int64(0), 0.0, 0.0)

    def part(self, batch: RowBatch, segments: Segments) -> Arrays:
        """Each segment's moments."""
        vector, chosen = self.chosen(batch)
        count = np.empty(len(segments), np.int64)
        mean, square = np.empty((2, len(segments)), np.float64)
        kernels.moments(wide(vector).astype(np.float64, copy=False), chosen, segments.stop, count, mean, square)
        return count, mean, square

    def stated(self, found: Statistics) -> Stated:
        """Known of units without values alone: no statistics say how values spread."""
        zeros = np.zeros(len(found))
        return (zeros.astype(np.int64), zeros, zeros), found.null_count == found.row_count

    def merge(self, held: Arrays, slots: IntArray, part: Arrays) -> None:
        """Join a part's moments."""
        kernels.join_moments(slots, *part, *held)


def wide(vector: Vector) -> NDArray[Any]:
    """Numbers in the eight bytes in which they are folded."""
    return np.ascontiguousarray(vector.values, np.float64 if vector.type.is_float else np.int64)


def _started(count: int, start: Any) -> NDArray[Any]:
    """An array of so many equal elements; zeros take no memory before they are written to."""
    if start == 0:
        return np.zeros(count, type(start))
    made = np.empty(count, type(start))
    made.fill(start)
    return made


def _counted(chosen: BoolArray, segments: Segments) -> IntArray:
    if chosen is ALL or not len(chosen):
        return segments.sizes
    count = np.empty(len(segments), np.int64)
    kernels.count_rows(chosen, segments.stop, count)
    return count
