"""Calls: which accumulators the functions of an Aggregate need, and what they show of these. Functions share what they can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.aggregate.choice import Choice
from tsdb.exec.aggregate.fold import ColumnFold, FloatSum, Folded, Greatest, IntegerSum, Least, Moments, RowCount, ValueCount
from tsdb.exec.aggregate.tag_value import Kept, TagCount, TagFloatSum, TagIntegerSum, TagValues
from tsdb.exec.evaluate import normalize
from tsdb.exec.source import table_column
from tsdb.plan.grouping import Call
from tsdb.plan.predicate import Not, Or, Predicate, columns_of
from tsdb_format.types import HUGEINT, ColumnType, Role
from tsdb_format.vector import IntArray, Vector

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableSnapshot

Gatherer: TypeAlias = RowCount | ValueCount | FloatSum | IntegerSum | Least | Greatest | Moments | Choice | TagValues
Show: TypeAlias = Callable[[IntArray], Vector]
#: Accumulators that know their values from devices.
_FROM_DEVICES = (TagCount, TagFloatSum, TagIntegerSum)
#: What functions of tags and attributes keep of their values.
_OF_TAGS: dict[str, Kept] = {"min": "least", "any_value": "least", "max": "greatest", "count_distinct": "all"}


class Program:
    """The accumulators of some calls, each there once. The first counts every cell's rows."""

    def __init__(self, calls: Sequence[Call], table: TableSnapshot) -> None:
        self._table = table
        self._held: dict[tuple[object, ...], Gatherer] = {}
        self.rows = self._row_count(None)
        self._shown = [(call.name, self._show(call)) for call in calls]

    @property
    def gatherers(self) -> list[Gatherer]:
        """The accumulators."""
        return list(self._held.values())

    @cached_property
    def columns(self) -> frozenset[str]:
        """Columns whose values matter, of rows or in conditions."""
        held = self._held.values()
        conditions = [columns_of(each.condition) for each in held if each.condition is not None]
        named = [{each.name} for each in held if isinstance(each, ColumnFold) and not isinstance(each, _FROM_DEVICES)]
        chosen = [{each.name, each.by} for each in held if isinstance(each, Choice)]
        return frozenset().union(*conditions, *named, *chosen)

    @cached_property
    def wants(self) -> dict[str, int]:
        """Columns that storage may fold, and what for: those that no accumulator must read."""
        wanted: dict[str, int] = {}
        read: set[str] = {self._table.table.schema.time.name}
        for each in self._held.values():
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
        return table_column(self._table, name).role in (Role.FIELD, Role.SEQUENCE)

    def vectors(self, slots: IntArray) -> dict[str, Vector]:
        """The calls' values for some slots, by name."""
        return {name: show(slots) for name, show in self._shown}

    def _get(self, make: Callable[..., Any], *about: object) -> Any:
        """The accumulator of these arguments, made when first asked for."""
        key = (make, *about)
        if key not in self._held:
            self._held[key] = make(*about)
        return self._held[key]

    def _row_count(self, condition: Predicate | None) -> RowCount:
        found: RowCount = self._get(RowCount, condition)
        return found

    def _show(self, call: Call) -> Show:
        """Get what a call needs; what it shows of it."""
        condition = None if call.condition is None else normalize(call.condition)
        if call.column is None:
            count = self._row_count(condition)
            if call.condition is None or call.type != HUGEINT:
                return _counted(count, call.type)
            known = self._row_count(normalize(Or((call.condition, Not(call.condition)))))
            return _summed(known, count, call.type)  # count_if, which is a sum of what a condition is where it is not NULL
        column = table_column(self._table, call.column)
        kind = column.type
        about: tuple[object, ...] = (call.column, kind, condition)
        values: Callable[..., Folded] = ValueCount
        total: Callable[..., Folded] = FloatSum if kind.is_float else IntegerSum
        if column.role in (Role.TAG, Role.ATTRIBUTE):
            if call.function in _OF_TAGS:
                held: TagValues = self._get(TagValues, self._table, call.column, condition, _OF_TAGS[call.function])
                return held.counts if call.function == "count_distinct" else held.values
            if call.function in ("count", "sum", "avg"):
                values, total, about = TagCount, TagFloatSum if kind.is_float else TagIntegerSum, (self._table, *about)
        match call.function:
            case "count":
                return _counted(self._get(values, *about), call.type)
            case "sum":
                return _summed(self._get(values, *about), self._get(total, *about), call.type)
            case "avg":
                return _averaged(self._get(values, *about), self._get(total, *about), call.type)
            case "var_samp" | "var_pop" | "stddev_samp" | "stddev_pop":
                return _spread(self._get(Moments, *about), call.type, call.function)
            case "min" if not kind.is_pooled:
                return _valued(self._get(ValueCount, *about), self._get(Least, *about), call.type)
            case "max" if not kind.is_pooled:
                return _valued(self._get(ValueCount, *about), self._get(Greatest, *about), call.type)
            case "min" | "max":
                return self._choice(call.column, condition, by=call.column, greatest=call.function == "max", valued=True)
            case function:
                by = call.by or self._table.table.schema.time.name
                greatest = function in ("last", "arg_max")
                return self._choice(call.column, condition, by=by, greatest=greatest, valued=function.startswith("arg"))

    def _choice(self, name: str, condition: Predicate | None, *, by: str, greatest: bool, valued: bool) -> Show:
        found: Choice = self._get(Choice, self._table, name, by, condition, greatest, valued)
        return found.values


def _counted(count: Folded, kind: ColumnType) -> Show:
    return lambda slots: Vector(kind, count.arrays[0][slots].astype(kind.physical, copy=False))


def _valued(count: Folded, bound: Folded, kind: ColumnType) -> Show:
    """A least or greatest value, NULL where there is none."""

    def show(slots: IntArray) -> Vector:
        valid, values = count.arrays[0][slots] > 0, bound.arrays[0][slots]
        if np.count_nonzero(valid) == len(valid):
            return Vector(kind, values.astype(kind.physical, copy=False))
        return Vector(kind, np.where(valid, values, 0).astype(kind.physical), valid)

    return show


def _summed(count: Folded, total: FloatSum | IntegerSum | RowCount, kind: ColumnType) -> Show:
    def show(slots: IntArray) -> Vector:
        valid = count.arrays[0][slots] > 0
        validity = None if valid.all() else valid
        if not isinstance(total, IntegerSum):
            return Vector(kind, total.arrays[0][slots].astype(kind.physical), validity)
        return Vector(kind, _exact(total, slots).astype(kind.physical, copy=False), validity)

    return show


def _averaged(count: Folded, total: FloatSum | IntegerSum, kind: ColumnType) -> Show:
    def show(slots: IntArray) -> Vector:
        number = count.arrays[0][slots]
        valid = number > 0
        divisor = np.where(valid, number, 1)
        if isinstance(total, FloatSum):
            values = total.arrays[0][slots] / divisor
        else:
            values = (_exact(total, slots) / divisor.astype(object)).astype(np.float64)
        return Vector(kind, values, None if valid.all() else valid)

    return show


def _exact(total: IntegerSum, slots: IntArray) -> NDArray[Any]:
    """Sums as Python integers."""
    high, low = total.arrays[0][slots], total.arrays[1][slots]
    found: NDArray[Any] = high.astype(object) * 2**32 + low.astype(object)
    return found


def _spread(held: Moments, kind: ColumnType, function: str) -> Show:
    def show(slots: IntArray) -> Vector:
        count, square = held.arrays[0][slots], held.arrays[2][slots]
        sample = function.endswith("samp")
        valid = count > (1 if sample else 0)
        values = np.where(count > 1, square, 0.0) / np.maximum(count - sample, 1)
        if function.startswith("stddev"):
            values = np.sqrt(np.maximum(values, 0.0))
        return Vector(kind, values, None if valid.all() else valid)

    return show
