"""Expressions without columns, folded to constants — those whose value and type no version of DuckDB disputes."""

from __future__ import annotations

from sqlglot import exp

from tsdb.sql import moment
from tsdb.sql.constant import NULL, Constant, ConstantKind, integer, number, timestamp
from tsdb.sql.environment import Environment

K = ConstantKind
_TIME_CASTS = {
    exp.DType.TIMESTAMP_S: 1,
    exp.DType.TIMESTAMP_MS: 10**3,
    exp.DType.TIMESTAMPNTZ: 10**6,
    exp.DType.TIMESTAMP: 10**6,
    exp.DType.TIMESTAMP_NS: 10**9,
}
_INTEGER_CASTS = {exp.DType.INT: 32, exp.DType.BIGINT: 64}
_TEXT_CASTS = frozenset({exp.DType.TEXT, exp.DType.VARCHAR})
_NOW_NAMES = frozenset({"now", "transaction_timestamp", "get_current_timestamp"})
#: (months, days, microseconds) of one unit, in the spellings of INTERVAL.
_INTERVALS = {
    "YEAR": (12, 0, 0), "MONTH": (1, 0, 0), "WEEK": (0, 7, 0), "DAY": (0, 1, 0), "HOUR": (0, 0, 3_600_000_000),
    "MINUTE": (0, 0, 60_000_000), "SECOND": (0, 0, 1_000_000), "MILLISECOND": (0, 0, 1_000), "MICROSECOND": (0, 0, 1),
}  # fmt: skip


def only(node: exp.Expr, *allowed: str) -> bool:
    """Whether a node carries no argument beyond those: one that is not understood must not be passed over."""
    return all(name in allowed or not value for name, value in node.args.items())


def fold(node: exp.Expr | None, environment: Environment) -> Constant | None:
    """The constant that a column-free expression is; None where it is none, or in doubt."""
    match node:
        case exp.Literal():
            return Constant(K.TEXT, node.this) if node.is_string else number(node.this)
        case exp.Boolean():
            return Constant(K.BOOLEAN, bool(node.this))
        case exp.Null():
            return NULL
        case exp.Paren() if only(node, "this"):
            return fold(node.this, environment)
        case exp.Neg() if only(node, "this"):
            return _negated(fold(node.this, environment))
        case exp.Placeholder() | exp.Parameter():
            return environment.parameter(_parameter_name(node))
        case exp.Cast() if type(node) is exp.Cast and only(node, "this", "to"):
            return _cast(fold(node.this, environment), node.args["to"])
        case exp.CurrentTimestamp() if only(node):
            return _now(environment)
        case exp.Anonymous() if str(node.this).lower() in _NOW_NAMES and not node.expressions:
            return _now(environment)
        case exp.CurrentDate() if only(node):
            return _cast(_now(environment), exp.DataType(this=exp.DType.DATE))
        case exp.Interval() if only(node, "this", "unit"):
            return _interval(node, environment)
        case exp.Add() | exp.Sub() if only(node, "this", "expression"):
            left, right = fold(node.this, environment), fold(node.expression, environment)
            return _sum(left, right, -1 if isinstance(node, exp.Sub) else 1)
    return None


def _parameter_name(node: exp.Expr) -> str:
    name = node.this
    return str(name.name if isinstance(name, exp.Expr) else name or "")


def _negated(constant: Constant | None) -> Constant | None:
    if constant is None or constant.kind not in (K.INTEGER, K.DECIMAL, K.DOUBLE):
        return None
    return Constant(constant.kind, -constant.value)


def _now(environment: Environment) -> Constant:
    environment.used_now = True
    return timestamp(environment.now_ns // 1_000, zoned=True)


def _cast(constant: Constant | None, to: exp.Expr) -> Constant | None:
    """A cast whose result is exact and undisputed."""
    if constant is None or not isinstance(to, exp.DataType) or not only(to, "this", "nested"):
        return None
    target, value = to.this, constant.value
    if constant.kind is K.NULL:
        return None
    if target in _TEXT_CASTS:
        return Constant(K.VARCHAR, value) if constant.kind in (K.TEXT, K.VARCHAR) else None
    if target in _INTEGER_CASTS:
        bits = _INTEGER_CASTS[target]
        return constant if constant.kind is K.INTEGER and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None
    if target is exp.DType.DOUBLE:
        exact = constant.kind is K.DOUBLE or (constant.kind is K.INTEGER and abs(value) <= 2**53)
        return Constant(K.DOUBLE, float(value)) if exact else None
    if target is exp.DType.DATE:
        return _to_date(constant)
    if target in _TIME_CASTS:
        return _to_timestamp(constant, _TIME_CASTS[target])
    if target is exp.DType.TIMESTAMPTZ and constant.kind is K.TEXT:
        ticks = moment.parse_moment(value, 10**6)
        return None if ticks is None else timestamp(ticks, zoned=True)
    return None


def _to_date(constant: Constant) -> Constant | None:
    if constant.kind is K.DATE:
        return constant
    if constant.kind is K.TIMESTAMP:
        return Constant(K.DATE, constant.value // (constant.units_per_second * moment.SECONDS_PER_DAY))
    days = moment.parse_date(constant.value) if constant.kind is K.TEXT else None
    return None if days is None else Constant(K.DATE, days)


def _to_timestamp(constant: Constant, units_per_second: int) -> Constant | None:
    if constant.kind is K.TEXT:
        ticks = moment.parse_moment(constant.value, units_per_second)
        return None if ticks is None else timestamp(ticks, units_per_second)
    if constant.kind is K.DATE:
        return timestamp(constant.value * moment.SECONDS_PER_DAY * units_per_second, units_per_second)
    if constant.kind is K.TIMESTAMP and units_per_second >= constant.units_per_second:
        return timestamp(constant.value * (units_per_second // constant.units_per_second), units_per_second)
    return None


def _interval(node: exp.Interval, environment: Environment) -> Constant | None:
    """``INTERVAL 5 MINUTES`` or ``INTERVAL '5 minutes'``: a whole number of one unit."""
    amount = node.this
    negative = isinstance(amount, exp.Neg)
    amount = amount.this if isinstance(amount, exp.Neg) else amount
    unit = node.args.get("unit")
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
        return None
    text, name = str(amount.this).strip(), str(unit.this).upper()
    if text.startswith("-"):
        negative, text = not negative, text[1:]
    parts = _INTERVALS.get(name) or _INTERVALS.get(name.removesuffix("S"))
    if parts is None or not (text.isdigit() and text.isascii()) or len(text) > 9:
        return None
    count = -int(text) if negative else int(text)
    return Constant(K.INTERVAL, tuple(count * part for part in parts))


def _sum(left: Constant | None, right: Constant | None, sign: int) -> Constant | None:
    """Time plus interval, date plus days, whole number plus whole number; the result types are DuckDB's."""
    if left is None or right is None:
        return None
    if sign > 0 and left.kind is K.INTERVAL and right.kind in (K.TIMESTAMP, K.DATE):
        left, right = right, left
    if right.kind is K.INTERVAL and left.kind in (K.TIMESTAMP, K.DATE):
        start = left if left.kind is K.TIMESTAMP else _to_timestamp(left, 10**6)
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
