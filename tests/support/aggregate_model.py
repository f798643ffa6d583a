"""What an Aggregate answers, in plain Python: row by row, value by value."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from support.snapshots import Row, holds, less, tag_order
from tsdb.plan.grouping import BucketKey, Calendar, Call, ColumnKey, ExpressionKey, FixedWidth, GroupKey
from tsdb_format.schema import Schema
from tsdb_format.types import HUGEINT, Kind

INFINITE = 2**63 - 1


def aggregated(
    schema: Schema,
    rows: Sequence[Row],
    keys: Sequence[GroupKey],
    calls: Sequence[Call],
    expressions: dict[str, Callable[[Row], Any]],
) -> list[tuple[Any, ...]]:
    """One tuple per group, ascending by keys, of rows in storage order; ``expressions`` by their SQL."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    named: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        shown = tuple(_key(schema, key, row, expressions) for key in keys)
        place = tuple((value is None, value.encode() if isinstance(value, str) else value or 0) for value in shown)
        groups.setdefault(place, []).append(row)
        named.setdefault(place, shown)
    if not keys and not groups:
        groups[()], named[()] = [], ()
    return [(*named[place], *(_value(schema, call, groups[place]) for call in calls)) for place in sorted(groups)]


def _key(schema: Schema, key: GroupKey, row: Row, expressions: dict[str, Callable[[Row], Any]]) -> Any:
    match key:
        case ColumnKey(column=column):
            return row.get(column)
        case ExpressionKey(sql=sql):
            return expressions[sql](row)
        case BucketKey(bucket=bucket, type=kind):
            time = row[schema.time.name]
            units = schema.time.type.units_per_second
            infinite = 1 if time >= INFINITE else -1 if time <= -INFINITE else 0
            if infinite:
                return infinite * (2**31 - 1 if kind.kind is Kind.DATE else INFINITE)
            start = bucket_start(bucket, time, units)
            return start // (86_400 * units) if kind.kind is Kind.DATE else start * kind.units_per_second // units


def bucket_start(bucket: FixedWidth | Calendar, time: int, units: int) -> int:
    """The first tick of the bucket of a finite time."""
    if isinstance(bucket, FixedWidth):
        return time - (time - bucket.origin) % bucket.width
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=time // (86_400 * units))
    month = (day.year - 1970) * 12 + day.month - 1
    month -= (month - bucket.origin) % bucket.months
    first = datetime.date(1970 + month // 12, month % 12 + 1, 1)
    return (first - datetime.date(1970, 1, 1)).days * 86_400 * units


def _value(schema: Schema, call: Call, rows: list[Row]) -> Any:
    if call.condition is not None:
        condition = call.condition
        if call.type == HUGEINT and all(holds(condition, row) is None for row in rows):  # count_if is a sum
            return None
        rows = [row for row in rows if holds(condition, row) is True]
    if call.column is None:
        return len(rows)
    values = [row.get(call.column) for row in rows]
    some = [value for value in values if value is not None]
    match call.function:
        case "count":
            return len(some)
        case "count_distinct":
            return len(set(some))
        case "sum":
            return sum(some) if some else None
        case "avg":
            return None if not some else math.nan if any(map(_odd, some)) and math.isnan(sum(some)) else sum(some) / len(some)
        case "min" | "max" | "any_value":
            return _best([(value, value) for value in some], greatest=call.function == "max")
        case "var_samp" | "var_pop" | "stddev_samp" | "stddev_pop":
            return _spread([float(value) for value in some], call.function)
    by = call.by or schema.time.name
    device, time = tag_order(schema), schema.time.name
    rows = sorted(rows, key=lambda row: (device(row), row[time]))
    pairs = [(row.get(by), row.get(call.column)) for row in rows if row.get(by) is not None]
    if call.function.startswith("arg"):
        pairs = [pair for pair in pairs if pair[1] is not None]
    return _best(pairs, greatest=call.function in ("last", "arg_max"))


def _odd(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _best(pairs: list[tuple[Any, Any]], *, greatest: bool) -> Any:
    """The second of the pair whose first is the least or greatest; the first of equal ones."""
    if not pairs:
        return None

    def better(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        return other if (less(one[0], other[0]) if greatest else less(other[0], one[0])) else one

    return functools.reduce(better, pairs)[1]


def _spread(values: list[float], function: str) -> float | None:
    least = 2 if function.endswith("samp") else 1
    if len(values) < least:
        return None
    if len(values) == 1:
        return 0.0
    if any(map(_odd, values)):
        return math.nan
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - least + 1)
    return math.sqrt(variance) if function.startswith("stddev") else variance


def same(mine: Any, other: Any) -> bool:
    """Whether two values are equal, floats but for the order of adding."""
    if isinstance(mine, float) and isinstance(other, float | int):
        return (math.isnan(mine) and math.isnan(other)) or math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-9)
    return type(mine) is type(other) and bool(mine == other)
