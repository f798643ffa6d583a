"""Calls: which accumulators the functions of an Aggregate need, and what they show of these. Functions share what they can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.aggregate.choice import Choice
from tsdb.exec.aggregate.fold import ColumnFold, FloatSum, Greatest, IntegerSum, Least, Moments, NullCount, RowCount
from tsdb.exec.aggregate.tag_value import Kept, TagFloatSum, TagIntegerSum, TagNulls, TagValues
from tsdb.exec.evaluate import normalize
from tsdb.exec.source import column_of
from tsdb.plan.grouping import Call
from tsdb.plan.predicate import Not, Or, Predicate, columns_of
from tsdb_format.types import HUGEINT, ColumnType, Role
from tsdb_format.vector import BoolArray, IntArray, Vector

if TYPE_CHECKING:
    from tsdb.exec.aggregate.cell import Cells
    from tsdb.storage.snapshot import TableSnapshot
    from tsdb_format.schema import Column, Schema

Gatherer: TypeAlias = RowCount | NullCount | FloatSum | IntegerSum | Least | Greatest | Moments | Choice | TagValues
#: Accumulators that know their values from devices.
_FROM_DEVICES = (TagNulls, TagFloatSum, TagIntegerSum)
#: What functions of tags and attributes keep of their values.
_OF_TAGS: dict[str, Kept] = {"min": "least", "any_value": "least", "max": "greatest", "count_distinct": "all"}


class Values(NamedTuple):
    """How many values there are: the number of the accumulator that counts rows, and of that which counts NULLs; None: rows."""

    rows: int
    nulls: int | None = None


class Found:
    """What was gathered of the slots that are shown, by numbers of accumulators."""

    def __init__(self, cells: Cells, slots: IntArray, *, filled: bool) -> None:
        """``filled``: each of the slots has rows."""
        self._cells = cells
        self.slots = slots
        self._filled = filled

    def held(self, number: int) -> Any:
        """What an accumulator holds, of all slots."""
        return self._cells.held(number)

    def array(self, number: int, at: int = 0) -> NDArray[Any]:
        """One of the arrays that a folding holds."""
        found: NDArray[Any] = self._cells.held(number)[at]
        return found[self.slots]

    def counts(self, values: Values) -> IntArray:
        """How many values each slot has."""
        rows = self.array(values.rows)
        return rows if values.nulls is None or not self._cells.has_seen(values.nulls) else rows - self.array(values.nulls)

    def valid(self, values: Values) -> BoolArray | None:
        """The slots that have values; None: all."""
        if self._filled and values.rows == 0 and (values.nulls is None or not self._cells.has_seen(values.nulls)):
            return None
        found = self.counts(values) > 0
        return None if np.count_nonzero(found) == len(found) else found


Show: TypeAlias = Callable[[Found], Vector]


class Program:
    """The accumulators of some calls, each there once, by number. The first counts every cell's rows.

    It holds nothing of any run, and belongs to the columns of a table, not to a snapshot.
    """

    def __init__(self, calls: Sequence[Call], schema: Schema) -> None:
        self._schema = schema
        self._numbers: dict[tuple[object, ...], int] = {}
        self.gatherers: list[Gatherer] = []
        self._row_count(None)
        self._shown = [(call.name, self._show(call)) for call in calls]

    def of(self, table: TableSnapshot) -> list[Gatherer]:
        """The accumulators for a run over a snapshot of the table."""
        return [each.of(table) for each in self.gatherers]

    @cached_property
    def beyond_index(self) -> list[Column]:
        """Columns whose values matter, of rows or in conditions, and are none that the time index knows."""
        names: set[str] = set()
        for each in self.gatherers:
            if each.condition is not None:
                names |= columns_of(each.condition)
            if isinstance(each, Choice):
                names |= {each.name, each.by}
            elif isinstance(each, ColumnFold) and not isinstance(each, _FROM_DEVICES):
                names.add(each.name)
        return [column_of(self._schema, name) for name in sorted(names - {self._schema.time.name})]

    @cached_property
    def wants(self) -> dict[str, int]:
        """Columns that storage may fold, and what for: those that no accumulator must read."""
        wanted: dict[str, int] = {}
        read: set[str] = {self._schema.time.name}
        for each in self.gatherers:
            if each.condition is not None:
                read |= columns_of(each.condition)
            if isinstance(each, Choice):
                read |= {each.name, each.by}
            elif isinstance(each, ColumnFold):
                if each.condition is not None or each.wants is None:
                    read.add(each.name)
                else:
                    wanted[each.name] = wanted.get(each.name, 0) | each.wants
        return {name: bits for name, bits in wanted.items() if name not in read and self._is_stored(name)}

    def _is_stored(self, name: str) -> bool:
        return column_of(self._schema, name).role in (Role.FIELD, Role.SEQUENCE)

    def vectors(self, found: Found) -> dict[str, Vector]:
        """The calls' values, by name."""
        return {name: show(found) for name, show in self._shown}

    def _get(self, make: Callable[..., Gatherer], *about: object, **more: object) -> int:
        """The number of the accumulator of these arguments, made when first asked for."""
        key = (make, *about, *more.values())
        if key not in self._numbers:
            self._numbers[key] = len(self.gatherers)
            self.gatherers.append(make(*about, **more))
        return self._numbers[key]

    def _row_count(self, condition: Predicate | None) -> int:
        return self._get(RowCount, condition)

    def _show(self, call: Call) -> Show:
        """Get what a call needs; what it shows of it."""
        condition = None if call.condition is None else normalize(call.condition)
        if call.column is None:
            count = self._row_count(condition)
            if call.condition is None or call.type != HUGEINT:
                return _counted(Values(count), call.type)
            known = self._row_count(normalize(Or((call.condition, Not(call.condition)))))
            return _summed(Values(known), count, call.type)  # count_if, the sum of what a condition is where it is not NULL
        column = column_of(self._schema, call.column)
        kind = column.type
        about = (call.column, kind, condition)
        nulls: Callable[..., Gatherer] | None = None if column.role in (Role.TIME, Role.SEQUENCE) else NullCount
        total: Callable[..., Gatherer] = FloatSum if kind.is_float else IntegerSum
        if column.role in (Role.TAG, Role.ATTRIBUTE):
            if call.function in _OF_TAGS:
                kept = self._get(TagValues, call.column, condition, _OF_TAGS[call.function])
                return _different(kept) if call.function == "count_distinct" else _chosen(kept)
            nulls, total = TagNulls, TagFloatSum if kind.is_float else TagIntegerSum

        def values() -> Values:
            return Values(self._row_count(condition), None if nulls is None else self._get(nulls, *about))

        match call.function:
            case "count":
                return _counted(values(), call.type)
            case "sum" | "avg":
                number = self._get(total, *about)
                exact = isinstance(self.gatherers[number], IntegerSum)
                return (_summed if call.function == "sum" else _averaged)(values(), number, call.type, exact=exact)
            case "var_samp" | "var_pop" | "stddev_samp" | "stddev_pop":
                return _spread(self._get(Moments, *about), call.type, call.function)
            case "min" if not kind.is_pooled:
                return _valued(values(), self._get(Least, *about), call.type)
            case "max" if not kind.is_pooled:
                return _valued(values(), self._get(Greatest, *about), call.type)
            case "min" | "max":
                return self._choice(call.column, condition, by=call.column, greatest=call.function == "max", valued=True)
            case function:
                by = call.by or self._schema.time.name
                greatest = function in ("last", "arg_max")
                return self._choice(call.column, condition, by=by, greatest=greatest, valued=function.startswith("arg"))

    def _choice(self, name: str, condition: Predicate | None, *, by: str, greatest: bool, valued: bool) -> Show:
        kind = column_of(self._schema, name).type
        return _chosen(self._get(Choice, name, kind, by, condition, greatest=greatest, valued=valued))


def _chosen(number: int) -> Show:
    """A value of one row, as what is held shows it."""

    def show(found: Found) -> Vector:
        shown: Vector = found.held(number).values(found.slots)
        return shown

    return show


def _different(number: int) -> Show:
    def show(found: Found) -> Vector:
        shown: Vector = found.held(number).counts(found.slots)
        return shown

    return show


def _counted(values: Values, kind: ColumnType) -> Show:
    return lambda found: Vector(kind, found.counts(values).astype(kind.physical, copy=False))


def _valued(values: Values, bound: int, kind: ColumnType) -> Show:
    """A least or greatest value, NULL where there is none."""

    def show(found: Found) -> Vector:
        valid, shown = found.valid(values), found.array(bound)
        if valid is None:
            return Vector(kind, shown.astype(kind.physical, copy=False))
        return Vector(kind, np.where(valid, shown, 0).astype(kind.physical), valid)

    return show


def _summed(values: Values, total: int, kind: ColumnType, *, exact: bool = False) -> Show:
    def show(found: Found) -> Vector:
        shown = _exact(found, total) if exact else found.array(total)
        return Vector(kind, shown.astype(kind.physical, copy=False), found.valid(values))

    return show


def _averaged(values: Values, total: int, kind: ColumnType, *, exact: bool) -> Show:
    def show(found: Found) -> Vector:
        valid, divisor = found.valid(values), found.counts(values)
        if valid is not None:
            divisor = np.where(valid, divisor, 1)
        if exact:
            shown = (_exact(found, total) / divisor.astype(object)).astype(np.float64)
        else:
            shown = found.array(total) / divisor
        return Vector(kind, shown, valid)

    return show


def _exact(found: Found, total: int) -> NDArray[Any]:
    """Sums as Python integers."""
    high, low = found.array(total), found.array(total, 1)
    exact: NDArray[Any] = high.astype(object) * 2**32 + low.astype(object)
    return exact


def _spread(moments: int, kind: ColumnType, function: str) -> Show:
    def show(found: Found) -> Vector:
        count, square = found.array(moments), found.array(moments, 2)
        sample = function.endswith("samp")
        valid = count > (1 if sample else 0)
        values = np.where(count > 1, square, 0.0) / np.maximum(count - sample, 1)
        if function.startswith("stddev"):
            values = np.sqrt(np.maximum(values, 0.0))
        return Vector(kind, values, None if valid.all() else valid)

    return show
