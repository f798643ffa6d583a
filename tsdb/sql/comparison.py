"""``column op constant`` as a predicate that means exactly what DuckDB means by it, or None where that is in doubt.

DuckDB casts both sides to a common type and compares there. For columns of whole numbers and times that is a comparison with an
exact rational, which becomes a bound in the column's own unit; for floats the constant is rounded as DuckDB does it. Bounds out of
the column's range become comparisons that are always, or never, true for a value, and NULL for NULL.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tsdb.plan.predicate import And, Compare, InSet, Literal, Or, Predicate
from tsdb.plan.predicate import Constant as Truth
from tsdb.sql import moment
from tsdb.sql.constant import DIGITS_MAX, Constant, ConstantKind
from tsdb_format.schema import Column
from tsdb_format.types import ColumnType, Kind

if TYPE_CHECKING:
    from fractions import Fraction

K = ConstantKind
_DIGITS = {Kind.INT32: 10, Kind.INT64: 19}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_TEXTS = (K.TEXT, K.VARCHAR)
#: Whole numbers up to this are floats without rounding.
_EXACT_FLOAT = 2**53


def flipped(op: str) -> str:
    """The operator with its sides exchanged."""
    return _FLIPPED[op]


def compare(column: Column, op: str, constant: Constant) -> Predicate | None:
    """``column op constant`` for one of ``= != < <= > >=``."""
    if constant.kind is K.NULL:
        return Truth(None)
    kind = column.type.kind
    if kind is Kind.STRING:
        return Compare(column.name, op, constant.value) if constant.kind in _TEXTS else None
    if kind is Kind.BLOB:
        return Compare(column.name, op, constant.value) if constant.kind is K.BLOB else None
    if column.type.is_float:
        return _compare_float(column, op, constant)
    if kind is Kind.BOOLEAN:
        return _compare_boolean(column, op, constant)
    if kind is Kind.HUGEINT:
        return Compare(column.name, op, int(constant.value)) if constant.kind is K.INTEGER else None
    if kind is Kind.INT64 and constant.kind is K.DOUBLE:
        return _compare_rounded(column, op, float(constant.value))
    bound = _rational(column.type, constant)
    return None if bound is None else _compare_rational(column, op, bound)


def between(column: Column, low: Constant, high: Constant) -> Predicate | None:
    """``column BETWEEN low AND high``."""
    if not _one_type(column.type, (low, high)):
        return None
    lower, upper = compare(column, ">=", low), compare(column, "<=", high)
    return None if lower is None or upper is None else And((lower, upper))


def in_list(column: Column, constants: Sequence[Constant]) -> Predicate | None:
    """``column IN (constants)``; a NULL among them makes every miss NULL."""
    known = [constant for constant in constants if constant.kind is not K.NULL]
    if column.type.kind is Kind.HUGEINT or not _one_type(column.type, known):
        return None
    literals: dict[Literal, None] = {}
    for constant in known:
        equal = compare(column, "=", constant)
        if not isinstance(equal, Compare):
            return None
        if equal.op == "=":  # anything else is the form of a comparison that is never true
            literals[equal.literal] = None
    found: Predicate = InSet(column.name, tuple(literals)) if literals else never(column)
    return found if len(known) == len(constants) else Or((found, Truth(None)))


def always(column: Column) -> Predicate:
    """True for every value, NULL for NULL."""
    return Compare(column.name, ">=", _least(column.type))


def never(column: Column) -> Predicate:
    """False for every value, NULL for NULL."""
    return Compare(column.name, "<", _least(column.type))


def _least(kind: ColumnType) -> Literal:
    if kind.is_float:
        return -math.inf
    if kind.kind is Kind.STRING:
        return ""
    if kind.kind is Kind.BLOB:
        return b""
    return False if kind.kind is Kind.BOOLEAN else _range(kind)[0]


def _range(kind: ColumnType) -> tuple[int, int]:
    """Least and greatest value of a column of whole numbers, dates or times."""
    bits = 8 * kind.physical.itemsize - 1
    return -(2**bits), 2**bits - 1


def _one_type(kind: ColumnType, constants: Sequence[Constant]) -> bool:
    """Whether DuckDB's common type for the column and all constants treats each as it would alone."""
    kinds = {constant.kind for constant in constants if constant.kind is not K.NULL}
    if len(kinds) <= 1:
        return len({(c.units_per_second, c.zoned) for c in constants if c.kind is K.TIMESTAMP}) <= 1 and _decimals_fit(
            kind, constants
        )
    if kind.kind is Kind.DOUBLE:
        return kinds <= {K.INTEGER, K.DECIMAL, K.DOUBLE}
    if kind.kind in _DIGITS or kind.kind is Kind.FLOAT:
        return kinds <= {K.INTEGER, K.DECIMAL} and _decimals_fit(kind, constants)
    return False


def _decimals_fit(kind: ColumnType, constants: Sequence[Constant]) -> bool:
    """Whether the widest whole part and the longest fraction fit into one DECIMAL together."""
    decimals = [_width_scale(constant.value) for constant in constants if constant.kind in (K.DECIMAL, K.INTEGER)]
    if not any(constant.kind is K.DECIMAL for constant in constants):
        return True
    whole = max([_DIGITS.get(kind.kind, 0), *(max(width - scale, 0) for width, scale in decimals)])
    return whole + max(scale for _, scale in decimals) <= DIGITS_MAX


def _width_scale(value: int | decimal.Decimal) -> tuple[int, int]:
    if isinstance(value, int):
        return len(str(abs(value))), 0
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    return max(len(digits) + max(exponent, 0), scale), scale


def _rational(kind: ColumnType, constant: Constant) -> Fraction | int | None:
    """The constant in units of a column of whole numbers, dates or times; None where DuckDB would not compare so."""
    value = constant.value
    match constant.kind:
        case K.INTEGER if kind.kind in _DIGITS:
            return int(value)
        case K.BOOLEAN if kind.kind in _DIGITS:
            return int(value)
        case K.DECIMAL if kind.kind in _DIGITS and _decimals_fit(kind, (constant,)):
            return _ratio(value, 1)
        case K.DOUBLE if kind.kind is Kind.INT32 and math.isfinite(value):
            return _ratio(value, 1)
        case K.DATE if kind.kind is Kind.DATE:
            return int(value)
        case K.DATE if kind.is_time:
            return int(value) * moment.SECONDS_PER_DAY * kind.units_per_second
        case K.TIMESTAMP if kind.is_time:
            return _ratio(value * kind.units_per_second, constant.units_per_second)
        case K.TIMESTAMP if kind.kind is Kind.DATE:
            return _ratio(value, constant.units_per_second * moment.SECONDS_PER_DAY)
        case K.TEXT if kind.kind is Kind.DATE:
            return moment.parse_date(value)
        case K.TEXT if kind.is_time:
            return moment.parse_moment(value, kind.units_per_second)
    return None


def _ratio(value: int | float | decimal.Decimal, divisor: int) -> Fraction | int:
    """The exact quotient; most are whole, and need no fractions."""
    if isinstance(value, int) and value % divisor == 0:
        return value // divisor
    from fractions import Fraction

    return Fraction(value) / divisor


def _compare_rational(column: Column, op: str, bound: Fraction | int) -> Predicate:
    least, greatest = _range(column.type)
    if op in ("=", "!="):
        if bound == int(bound) and least <= bound <= greatest:
            return Compare(column.name, op, int(bound))
        return never(column) if op == "=" else always(column)
    # x < b is x < ⌈b⌉ and x <= b is x <= ⌊b⌋ for whole x; the other two alike
    edge = math.ceil(bound) if op in ("<", ">=") else math.floor(bound)
    if edge > greatest:
        return always(column) if op in ("<", "<=") else never(column)
    if edge < least:
        return never(column) if op in ("<", "<=") else always(column)
    return Compare(column.name, op, edge)


def _compare_rounded(column: Column, op: str, value: float) -> Predicate:
    """An INT64 column against a DOUBLE: DuckDB rounds the column. Rounding keeps the order, so bounds are found by bisection."""
    if math.isnan(value):  # the greatest float
        return always(column) if op in ("<", "<=", "!=") else never(column)
    least, greatest = _range(column.type)

    def first(reached: bool) -> int:
        """The least whole number whose float is at least (``reached``) or above the value; one past the greatest where none is."""
        low, high = least, greatest + 1
        while low < high:
            middle = (low + high) // 2
            if float(middle) > value or (reached and float(middle) == value):
                high = middle
            else:
                low = middle + 1
        return low

    start, stop = first(True), first(False)
    match op:
        case "<":
            return _compare_rational(column, "<", start)
        case ">=":
            return _compare_rational(column, ">=", start)
        case "<=":
            return _compare_rational(column, "<", stop)
        case ">":
            return _compare_rational(column, ">=", stop)
    inside = (_compare_rational(column, ">=", start), _compare_rational(column, "<", stop))
    if start == stop:
        return never(column) if op == "=" else always(column)
    if op == "=":
        return Compare(column.name, "=", start) if stop - start == 1 else And(inside)
    return Or((_compare_rational(column, "<", start), _compare_rational(column, ">=", stop)))


def _compare_boolean(column: Column, op: str, constant: Constant) -> Predicate | None:
    if constant.kind is K.BOOLEAN:
        return Compare(column.name, op, bool(constant.value))
    if constant.kind is not K.INTEGER:
        return None
    truths = [_holds(side, op, constant.value) for side in (0, 1)]
    if truths[0] == truths[1]:
        return always(column) if truths[0] else never(column)
    return Compare(column.name, "=", truths[1])


def _holds(left: int, op: str, right: int) -> bool:
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]


def _compare_float(column: Column, op: str, constant: Constant) -> Predicate | None:
    value = constant.value
    single = column.type.kind is Kind.FLOAT
    match constant.kind:
        case K.INTEGER if abs(value) < 2**63:
            rounded = float(np.float32(np.int64(value))) if single else float(value)
        case K.DECIMAL:
            found = _decimal_to_float(value, single)
            if found is None:
                return None
            rounded = found
        case K.DOUBLE if single:
            return _compare_single(column, op, float(value))
        case K.DOUBLE:
            rounded = float(value)
        case _:
            return None
    return Compare(column.name, op, rounded)


def _decimal_to_float(value: decimal.Decimal, single: bool) -> float | None:
    """A decimal as DuckDB casts it — mantissa divided by a power of ten — where that is one correctly rounded division."""
    _, scale = _width_scale(value)
    mantissa = int(value.scaleb(scale))
    if single:
        if abs(mantissa) >= 2**24 or scale > 10:
            return None
        return float(np.float32(mantissa) / np.float32(10**scale))
    return mantissa / 10**scale if abs(mantissa) < _EXACT_FLOAT and scale <= 22 else None


def _compare_single(column: Column, op: str, value: float) -> Predicate:
    """A FLOAT column against a DOUBLE: DuckDB widens the column, exactly. A bound between two floats moves to one of them."""
    with np.errstate(over="ignore"):
        near = np.float32(value)
    if float(near) == value or math.isnan(value):
        return Compare(column.name, op, value)
    if op in ("=", "!="):
        return never(column) if op == "=" else always(column)
    with np.errstate(over="ignore"):
        below = near if float(near) < value else np.nextafter(near, np.float32(-np.inf))
        above = near if float(near) > value else np.nextafter(near, np.float32(np.inf))
    return Compare(column.name, "<=", float(below)) if op in ("<", "<=") else Compare(column.name, ">=", float(above))
