"""Expressions without columns, folded to constants — those whose value and type no version of DuckDB disputes."""

from __future__ import annotations

from sqlglot import exp

from tsdb.sql import arithmetic, moment
from tsdb.sql.constant import NULL, Constant, ConstantKind, number, timestamp
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
            return arithmetic.negated(fold(node.this, environment))
        case exp.Placeholder() | exp.Parameter():
            return environment.parameter(parameter_name(node))
        case exp.Cast() if type(node) is exp.Cast and only(node, "this", "to"):
            return _cast(fold(node.this, environment), node.args["to"])
        case exp.CurrentTimestamp() if only(node):
            return arithmetic.now(environment)
        case exp.Anonymous() if str(node.this).lower() in _NOW_NAMES and not node.expressions:
            return arithmetic.now(environment)
        case exp.CurrentDate() if only(node):
            return arithmetic.to_date(arithmetic.now(environment))
        case exp.Interval() if only(node, "this", "unit"):
            return _interval(node)
        case exp.Add() | exp.Sub() if only(node, "this", "expression"):
            left, right = fold(node.this, environment), fold(node.expression, environment)
            return arithmetic.plus(left, right, -1 if isinstance(node, exp.Sub) else 1)
    return None


def parameter_name(node: exp.Expr) -> str:
    """The number or name of a parameter."""
    name = node.this
    return str(name.name if isinstance(name, exp.Expr) else name or "")


def _cast(constant: Constant | None, to: exp.Expr) -> Constant | None:
    """A cast whose result is exact and undisputed."""
    if constant is None or not isinstance(to, exp.DataType) or not only(to, "this", "nested") or constant.kind is K.NULL:
        return None
    target, value = to.this, constant.value
    if target in _TEXT_CASTS:
        return Constant(K.VARCHAR, value) if constant.kind in (K.TEXT, K.VARCHAR) else None
    if target in _INTEGER_CASTS:
        bits = _INTEGER_CASTS[target]
        return constant if constant.kind is K.INTEGER and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None
    if target is exp.DType.DOUBLE:
        exact = constant.kind is K.DOUBLE or (constant.kind is K.INTEGER and abs(value) <= 2**53)
        return Constant(K.DOUBLE, float(value)) if exact else None
    if target is exp.DType.DATE:
        return arithmetic.to_date(constant)
    if target in _TIME_CASTS:
        return arithmetic.to_timestamp(constant, _TIME_CASTS[target])
    if target is exp.DType.TIMESTAMPTZ and constant.kind is K.TEXT:
        ticks = moment.parse_moment(value, 10**6)
        return None if ticks is None else timestamp(ticks, zoned=True)
    return None


def _interval(node: exp.Interval) -> Constant | None:
    """``INTERVAL 5 MINUTES`` or ``INTERVAL '5 minutes'``, which the parser splits alike."""
    amount = node.this
    negative = isinstance(amount, exp.Neg)
    amount = amount.this if isinstance(amount, exp.Neg) else amount
    unit = node.args.get("unit")
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
        return None
    made = arithmetic.interval(str(amount.this), str(unit.this))
    return arithmetic.negated(made) if negative else made
