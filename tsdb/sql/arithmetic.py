"""Arithmetic of constants: casts between times, intervals, sums — as DuckDB computes them, or None where that is in doubt."""

from __future__ import annotations

from tsdb.sql import moment
from tsdb.sql.constant import Constant, ConstantKind, integer, timestamp
from tsdb.sql.environment import Environment

K = ConstantKind
#: (months, days, microseconds) of one unit, in the spellings of INTERVAL.
_INTERVALS = {
    "YEAR": (12, 0, 0), "MONTH": (1, 0, 0), "WEEK": (0, 7, 0), "DAY": (0, 1, 0), "HOUR": (0, 0, 3_600_000_000),
    "MINUTE": (0, 0, 60_000_000), "SECOND": (0, 0, 1_000_000), "MILLISECOND": (0, 0, 1_000), "MICROSECOND": (0, 0, 1),
}  # fmt: skip


def now(environment: Environment) -> Constant:
    """The statement's moment."""
    environment.used_now = True
    return timestamp(environment.now_ns // 1_000, zoned=True)


def negated(constant: Constant | None) -> Constant | None:
    """Minus a number or an interval."""
    if constant is None:
        return None
    if constant.kind is K.INTERVAL:
        return Constant(K.INTERVAL, tuple(-part for part in constant.value))
    return Constant(constant.kind, -constant.value) if constant.kind in (K.INTEGER, K.DECIMAL, K.DOUBLE) else None


def to_date(constant: Constant) -> Constant | None:
    """A cast to DATE."""
    if constant.kind is K.DATE:
        return constant
    if constant.kind is K.TIMESTAMP:
        return Constant(K.DATE, constant.value // (constant.units_per_second * moment.SECONDS_PER_DAY))
    days = moment.parse_date(constant.value) if constant.kind is K.TEXT else None
    return None if days is None else Constant(K.DATE, days)


def to_timestamp(constant: Constant, units_per_second: int) -> Constant | None:
    """A cast to a timestamp of that unit, where nothing is lost."""
    if constant.kind is K.TEXT:
        ticks = moment.parse_moment(constant.value, units_per_second)
        return None if ticks is None else timestamp(ticks, units_per_second)
    if constant.kind is K.DATE:
        return timestamp(constant.value * moment.SECONDS_PER_DAY * units_per_second, units_per_second)
    if constant.kind is K.TIMESTAMP and units_per_second >= constant.units_per_second:
        return timestamp(constant.value * (units_per_second // constant.units_per_second), units_per_second)
    return None


def interval(amount: str, unit: str) -> Constant | None:
    """A whole number of one unit, as texts."""
    text, name = amount.strip(), unit.upper()
    negative = text.startswith("-")
    text = text.removeprefix("-")
    parts = _INTERVALS.get(name) or _INTERVALS.get(name.removesuffix("S"))
    if parts is None or not (text.isdigit() and text.isascii()) or len(text) > 9:
        return None
    count = -int(text) if negative else int(text)
    return Constant(K.INTERVAL, tuple(count * part for part in parts))


def plus(left: Constant | None, right: Constant | None, sign: int = 1) -> Constant | None:
    """Time plus interval, date plus days, whole number plus whole number; ``sign`` -1 subtracts. The result types are DuckDB's."""
    if left is None or right is None:
        return None
    if sign > 0 and left.kind is K.INTERVAL and right.kind in (K.TIMESTAMP, K.DATE):
        left, right = right, left
    if right.kind is K.INTERVAL and left.kind in (K.TIMESTAMP, K.DATE):
        start = left if left.kind is K.TIMESTAMP else to_timestamp(left, 10**6)
        if start is None or start.units_per_second != 10**6:
            return None
        months, days, micros = (sign * part for part in right.value)
        ticks = moment.add_interval(start.value, months, days, micros)
        return None if ticks is None else timestamp(ticks, zoned=start.zoned)
    if left.kind is K.DATE and right.kind is K.INTEGER and abs(right.value) < 2**20:
        return Constant(K.DATE, left.value + sign * right.value)
    if left.kind is right.kind is K.INTEGER:
        total = left.value + sign * right.value
        return integer(total) if max(abs(left.value), abs(right.value), abs(total)) < 2**31 else None
    return None
