"""A few rows of plain Python values as a batch, without Arrow in between: what a sensor that writes row by row gives.

Only what is surely the same either way is taken: whole numbers, floats, texts, booleans, datetimes and None, each in a column of
its kind. Everything else is left to ``tsdb.ingest.convert``, which also says what is wrong with it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from tsdb.storage.batch import RowBatch
from tsdb.storage.one_row import Row, RowShape, plain_vector
from tsdb_format.schema import Column, Schema
from tsdb_format.types import Kind, Role
from tsdb_format.vector import Vector

#: Rows up to which Python's own loops are faster than Arrow's set-up.
ROWS_MAX = 32
_INT64 = -(2**63), 2**63 - 1
_INT32 = -(2**31), 2**31 - 1
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

#: The physical value of a Python value, or None where it is no plain value of the column's kind.
_Take = Callable[[Any], Any]
_TAKES: WeakKeyDictionary[Schema, dict[str, tuple[Column | None, _Take | None]]] = WeakKeyDictionary()
_UNKNOWN: tuple[None, None] = None, None
#: Types of values that are physical ones already, by kind.
_PLAIN = {Kind.BOOLEAN: bool, Kind.INT32: int, Kind.INT64: int, Kind.DOUBLE: float}
#: What rows with the same names and types of values have in common, and what is to be taken where; None where they are not plain.
_Plan = tuple[RowShape, tuple[tuple[int, _Take], ...]] | None
_Plans = dict[tuple[tuple[Any, ...], tuple[type, ...]], _Plan]
_PLANS_MAX = 1_024


def row_of(data: Any, schema: Schema) -> Row | None:
    """The row that a dict is, by exact column names; None where it sets attributes or anything is out of the ordinary."""
    if type(data) is not dict:
        return None
    plans = _plans_of(schema)
    given = list(data.values())
    key = tuple(data), tuple(map(type, given))
    try:
        plan = plans[key]
    except KeyError:
        if len(plans) >= _PLANS_MAX:
            plans.clear()
        plan = plans[key] = _plan(schema, *key)
    if plan is None:
        return None
    shape, takes = plan
    for place, take in takes:
        given[place] = taken = take(given[place])
        if taken is None:
            return None
    return shape.row(given)


@lru_cache(maxsize=256)
def _plans_of(schema: Schema) -> _Plans:
    """The plans known for a table, to be added to."""
    return {}


def _plan(schema: Schema, names: tuple[Any, ...], types: tuple[type, ...]) -> _Plan:
    columns: list[Column] = []
    nulls = set()
    takes: list[tuple[int, _Take]] = []
    for place, (name, given) in enumerate(zip(names, types, strict=True)):
        column = schema.by_name.get(name)
        take = None if column is None else _take_of(column)
        if column is None or take is None or column.role not in (Role.TIME, Role.TAG, Role.FIELD):
            return None
        columns.append(column)
        if given is type(None):
            nulls.add(column.name)
        elif column.type.kind not in _PLAIN:
            takes.append((place, take))
        elif given is not _PLAIN[column.type.kind]:
            return None
    if schema.time not in columns or schema.time.name in nulls:
        return None
    return RowShape(schema, columns, frozenset(nulls)), tuple(takes)


def batch_of(rows: Sequence[Any], schema: Schema) -> RowBatch | None:
    """The batch that the dicts in ``rows`` are, by exact column names; None where anything about them is out of the ordinary."""
    if not 0 < len(rows) <= ROWS_MAX:
        return None
    takes = _TAKES.get(schema)
    if takes is None:
        takes = _TAKES[schema] = {column.name: (column, _take_of(column)) for column in schema}
    first = rows[0]
    if type(first) is not dict:
        return None
    names: Any = first
    if len(rows) > 1:
        if any(type(row) is not dict for row in rows):
            return None
        names = dict.fromkeys(name for row in rows for name in row)
    time = first.get(schema.time.name)
    if time is None:
        return None
    columns: dict[str, Sequence[Vector]] = {}
    for name in names:
        column, take = takes.get(name, _UNKNOWN)
        if column is None or take is None:
            return None
        vector = _vector(column, take, [row.get(name) for row in rows])
        if vector is None:
            return None
        columns[name] = (vector,)
    if columns[schema.time.name][0].validity is not None:
        return None
    return RowBatch(schema, len(rows), columns)


def _vector(column: Column, take: _Take, values: list[Any]) -> Vector | None:
    found: list[Any] = []
    for value in values:
        if value is None:
            found.append(None)
        else:
            taken = take(value)
            if taken is None:
                return None
            found.append(taken)
    return plain_vector(column.type, found)


def _take_of(column: Column) -> _Take | None:
    """How values of a column's kind are taken; None for kinds that are never plain."""
    if column.type.is_time:
        ticks = column.type.units_per_second // 10**6
        return _take_time(ticks)
    return _BY_KIND.get(column.type.kind)


def _take_time(ticks: int) -> _Take:
    """``ticks`` per microsecond; 0 where the column is coarser, and datetimes may not fit."""

    def take(value: Any) -> int | None:
        if type(value) is int:
            return value if _INT64[0] < value <= _INT64[1] else None
        if type(value) is not datetime.datetime or not ticks or not 1700 < value.year < 2250:
            return None
        return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND * ticks

    return take


def _take_text(value: Any) -> bytes | None:
    try:
        return value.encode() if type(value) is str else None
    except UnicodeEncodeError:
        return None


_BY_KIND: dict[Kind, _Take] = {
    Kind.BOOLEAN: lambda value: value if type(value) is bool else None,
    Kind.INT32: lambda value: value if type(value) is int and _INT32[0] <= value <= _INT32[1] else None,
    Kind.INT64: lambda value: value if type(value) is int and _INT64[0] <= value <= _INT64[1] else None,
    Kind.DOUBLE: lambda value: value if type(value) is float else None,
    Kind.STRING: _take_text,
}
