"""Predicates over statistics: what a unit of rows can hold, by proof.

One function answers for every level (file, chunk, page): per unit CANNOT_MATCH, MAY_MATCH or ALL_MATCH. A missing, truncated or
unknown statistic is always MAY_MATCH. The verdicts hold for stored values; where another file or the log may hold a newer version
of a row, only the scan knows, and it asks only about rows that have one version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.plan.predicate import And, Compare, Constant, InSet, IsNull, Like, Literal, Member, Not, Or, Predicate
from tsdb_format.statistics import HAS_BOUNDS, HAS_NAN, Statistics

CANNOT_MATCH = np.uint8(0)
MAY_MATCH = np.uint8(1)
ALL_MATCH = np.uint8(2)

Verdicts = NDArray[np.uint8]
#: Literals up to which an IN list is tested one by one against each unit's bounds.
_IN_LITERALS_MAX = 256


def verdicts(predicate: Predicate, statistics: Callable[[str], Statistics | None], count: int) -> Verdicts:
    """Verdicts of a normalized predicate over ``count`` units; ``statistics`` gives a column's, or None where there are none."""
    match predicate:
        case And(parts):
            return worst([verdicts(part, statistics, count) for part in parts], count)
        case Or(parts):
            return best([verdicts(part, statistics, count) for part in parts], count)
        case Constant(value):
            return np.full(count, ALL_MATCH if value is True else CANNOT_MATCH)
        case IsNull(column):
            return _null(statistics(column), count)
        case Not(IsNull(column)):
            opposite: Verdicts = ALL_MATCH - _null(statistics(column), count)
            return opposite
        case Compare(column, op, literal):
            found = statistics(column)
            return _unknown(count) if found is None else _compare(found, op, literal)
        case InSet(column, literals):
            found = statistics(column)
            if found is None or len(literals) > _IN_LITERALS_MAX:
                return _unknown(count)
            return best([_compare(found, "=", literal) for literal in literals], count)
        case Not(InSet(column, literals)):
            found = statistics(column)
            if found is None or len(literals) > _IN_LITERALS_MAX:
                return _unknown(count)
            return worst([_compare(found, "!=", literal) for literal in literals], count)
        case Member(columns, members):
            return members.verdicts([statistics(column) for column in columns], count)
        case Like() | Not():
            return _unknown(count)
    raise AssertionError(f"not a normalized predicate: {predicate}")


def worst(parts: list[Verdicts], count: int) -> Verdicts:
    """AND: a unit matches no better than its worst part."""
    out = np.full(count, ALL_MATCH)
    for part in parts:
        np.minimum(out, part, out=out)
    return out


def best(parts: list[Verdicts], count: int) -> Verdicts:
    """OR: a unit matches as well as its best part."""
    out = np.full(count, CANNOT_MATCH)
    for part in parts:
        np.maximum(out, part, out=out)
    return out


def _unknown(count: int) -> Verdicts:
    return np.full(count, MAY_MATCH)


def _null(found: Statistics | None, count: int) -> Verdicts:
    if found is None:
        return _unknown(count)
    out = _unknown(count)
    out[found.null_count == 0] = CANNOT_MATCH
    out[found.null_count == found.row_count] = ALL_MATCH
    return out


def _compare(found: Statistics, op: str, literal: Literal) -> Verdicts:
    if found.min_prefix is not None:
        return _compare_text(found, op, literal)
    if found.min is None:
        return _nulls_only(found, _unknown(len(found.row_count)))
    if found.min.dtype.kind == "f":
        literal = float(literal)
        if literal != literal:
            return _nulls_only(found, _unknown(len(found.row_count)))
        none, every = _bounds(op, found.min, found.max, literal)
    else:
        none, every = _bounds(op, *_same_width(found.min, found.max, literal))
    bounded = (found.flags & HAS_BOUNDS) != 0
    # Bounds do not count NaN, which compares as the greatest value: it satisfies >, >= and !=, and never =, < and <=.
    without_nan = (found.flags & HAS_NAN) == 0
    if op in (">", ">=", "!="):
        none = none & without_nan
    else:
        every = every & without_nan
    out = _unknown(len(found.row_count))
    out[bounded & none] = CANNOT_MATCH
    out[bounded & every & (found.null_count == 0)] = ALL_MATCH
    return _nulls_only(found, out)


def _bounds(op: str, low: Any, high: Any, literal: Any) -> tuple[Any, Any]:
    """Per unit of values in [low, high]: none satisfies, every one satisfies."""
    match op:
        case "=":
            return (literal < low) | (literal > high), (low == literal) & (high == literal)
        case "!=":
            return (low == literal) & (high == literal), (literal < low) | (literal > high)
        case "<":
            return low >= literal, high < literal
        case "<=":
            return low > literal, high <= literal
        case ">":
            return high <= literal, low > literal
        case _:
            return high < literal, low >= literal


def _same_width(low: Any, high: Any, literal: Any) -> tuple[Any, Any, Any]:
    """Bounds and an integer literal that compare exactly, also where the literal is beyond int64."""
    literal = int(literal)
    info = np.iinfo(np.int64)
    if literal > info.max or literal < info.min:
        return low.astype(object), high.astype(object), literal
    return low, high, np.int64(literal)


def _compare_text(found: Statistics, op: str, literal: Literal) -> Verdicts:
    """Strings by 16-byte prefixes: a strict order of zero-padded prefixes is a strict order of the strings."""
    assert found.min_prefix is not None
    assert found.max_prefix is not None
    raw = literal.encode() if isinstance(literal, str) else bytes(literal)  # type: ignore[arg-type]
    prefix = np.void(raw[:16].ljust(16, b"\0"))
    bounded = (found.flags & HAS_BOUNDS) != 0
    low = _prefix_order(found.min_prefix, prefix)
    high = _prefix_order(found.max_prefix, prefix)
    match op:
        case "=":
            cannot = (low > 0) | (high < 0)
        case "<" | "<=":
            cannot = low > 0
        case ">" | ">=":
            cannot = high < 0
        case _:
            cannot = np.zeros(len(low), np.bool_)
    match op:
        case "!=":
            every = (low > 0) | (high < 0)
        case "<" | "<=":
            every = high < 0
        case ">" | ">=":
            every = low > 0
        case _:
            every = np.zeros(len(low), np.bool_)
    out = _unknown(len(low))
    out[bounded & cannot] = CANNOT_MATCH
    out[bounded & every & (found.null_count == 0)] = ALL_MATCH
    return _nulls_only(found, out)


def _prefix_order(prefixes: NDArray[np.uint8], literal: np.void) -> NDArray[np.int8]:
    """-1, 0 or 1 per prefix as it is below, equal to or above the literal's."""
    halves = np.ascontiguousarray(prefixes).view(">u8").reshape(len(prefixes), 2)
    first, second = np.frombuffer(literal.tobytes(), ">u8")
    above = (halves[:, 0] > first) | ((halves[:, 0] == first) & (halves[:, 1] > second))
    below = (halves[:, 0] < first) | ((halves[:, 0] == first) & (halves[:, 1] < second))
    sign: NDArray[np.int8] = above.astype(np.int8) - below.astype(np.int8)
    return sign


def _nulls_only(found: Statistics, out: Verdicts) -> Verdicts:
    """A unit of NULLs alone never satisfies a comparison."""
    out[found.null_count == found.row_count] = CANNOT_MATCH
    return out
