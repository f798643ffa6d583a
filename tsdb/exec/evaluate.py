"""Predicates over vectors: which rows make a predicate true.

Three-valued logic without third values: negations are first pushed down to the leaves (``normalize``), after which "true" is a
mask per leaf and AND/OR combine masks; a NULL operand makes a leaf not true, and so does its negated twin. Floats order as in
DuckDB: NaN equals itself and is greater than everything, −0.0 equals 0.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tsdb.exec.kernels import text
from tsdb.plan.predicate import And, Compare, Constant, InSet, IsNull, Like, Literal, Member, Not, Or, Predicate
from tsdb_format.pool import take_strings
from tsdb_format.types import Kind
from tsdb_format.vector import BoolArray, Pool, Vector

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def normalize(predicate: Predicate, negated: bool = False) -> Predicate:
    """An equal predicate whose only negations are ``Not`` directly on InSet, Member, IsNull and Like."""
    match predicate:
        case Not(inner):
            return normalize(inner, not negated)
        case And(parts) | Or(parts):
            made = tuple(normalize(part, negated) for part in parts)
            return And(made) if isinstance(predicate, And) != negated else Or(made)
        case Compare(column, op, literal):
            return Compare(column, _OPPOSITE[op], literal) if negated else predicate
        case Constant(value):
            return Constant(None if value is None else value != negated)
        case _:
            return Not(predicate) if negated else predicate


def evaluate(predicate: Predicate, read: Callable[[str], Vector], count: int) -> BoolArray:
    """Rows (of ``count``) for which a normalized predicate is true; ``read`` gives a column's vector."""
    match predicate:
        case And(parts):
            mask = evaluate(parts[0], read, count)
            for part in parts[1:]:
                mask &= evaluate(part, read, count)
            return mask
        case Or(parts):
            mask = evaluate(parts[0], read, count)
            for part in parts[1:]:
                mask |= evaluate(part, read, count)
            return mask
        case Constant(value):
            return np.full(count, value is True)
        case IsNull(column):
            return ~read(column).valid()
        case Not(IsNull(column)):
            return read(column).valid().copy()
        case Compare(column, op, literal):
            vector = read(column)
            return _known(vector, _compare(vector, op, literal))
        case InSet(column, literals):
            vector = read(column)
            return _known(vector, _in_set(vector, literals))
        case Not(InSet(column, literals)):
            vector = read(column)
            return _known(vector, ~_in_set(vector, literals))
        case Member(columns, members):
            return members.contains([read(column) for column in columns])
        case Not(Member(columns, members)):
            vectors = [read(column) for column in columns]
            mask = ~members.contains(vectors)
            for vector in vectors:
                mask = _known(vector, mask)
            return mask
        case Like(column, pattern, fold):
            vector = read(column)
            return _known(vector, _like(vector, pattern, fold))
        case Not(Like(column, pattern, fold)):
            vector = read(column)
            return _known(vector, ~_like(vector, pattern, fold))
    raise AssertionError(f"not a normalized predicate: {predicate}")


def _known(vector: Vector, mask: BoolArray) -> BoolArray:
    return mask if vector.validity is None else mask & vector.validity


def _compare(vector: Vector, op: str, literal: Literal) -> BoolArray:
    if vector.pool is not None:
        return _by_code(vector, lambda pool: compare_bytes(pool, op, _as_bytes(literal)))
    values = vector.values
    if vector.type.is_float:
        return _compare_float(values, op, float(literal))
    if vector.type.kind is Kind.BOOLEAN:
        values = values.astype(np.int8)
        literal = int(literal)
    return compare_integers(values, op, literal)


def compare_integers(values: np.ndarray[Any, Any], op: str, literal: Any) -> BoolArray:
    """Integer comparison, also with a literal outside of the array's width."""
    if values.dtype.kind == "O":
        wide: BoolArray = _OPERATORS[op](values, literal).astype(np.bool_)
        return wide
    info = np.iinfo(values.dtype)
    if not info.min <= literal <= info.max:
        above = literal > info.max
        return np.full(len(values), op == "!=" or (op in ("<", "<=") if above else op in (">", ">=")))
    out: BoolArray = _OPERATORS[op](values, values.dtype.type(literal))
    return out


def _compare_float(values: np.ndarray[Any, Any], op: str, literal: float) -> BoolArray:
    wide = values.astype(np.float64, copy=False)
    if literal != literal:
        nan = np.isnan(wide)
        every, none = np.ones(len(wide), np.bool_), np.zeros(len(wide), np.bool_)
        found: BoolArray = {"=": nan, "!=": ~nan, "<": ~nan, "<=": every, ">": none, ">=": nan}[op]
        return found
    # NaN is the greatest: "x > c" is "not x <= c", which is true for NaN.
    match op:
        case ">":
            above: BoolArray = ~(wide <= literal)
            return above
        case ">=":
            reaches: BoolArray = ~(wide < literal)
            return reaches
        case _:
            out: BoolArray = _OPERATORS[op](wide, literal)
            return out


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def _in_set(vector: Vector, literals: tuple[Literal, ...]) -> BoolArray:
    if vector.pool is not None:
        wanted = {_as_bytes(literal) for literal in literals}
        return _by_code(vector, lambda pool: _pool_in_set(pool, wanted))
    mask = np.zeros(len(vector), np.bool_)
    if vector.values.dtype.kind not in "iu" or len(literals) <= 8:
        for literal in literals:
            mask |= _compare(vector, "=", literal)
        return mask
    info = np.iinfo(vector.values.dtype)
    wanted_values = np.array([v for v in literals if info.min <= v <= info.max], vector.values.dtype)  # type: ignore[operator]
    found: BoolArray = np.isin(vector.values, wanted_values)
    return found


#: Literals up to which each is compared with the whole pool; beyond, every string of the pool is looked up.
_COMPARED_LITERALS_MAX = 64


def _pool_in_set(pool: Pool, wanted: set[bytes]) -> BoolArray:
    if len(wanted) > _COMPARED_LITERALS_MAX:
        return np.fromiter((found in wanted for found in pool.tolist()), np.bool_, len(pool))
    mask = np.zeros(len(pool), np.bool_)
    for literal in wanted:
        mask |= compare_bytes(pool, "=", literal)
    return mask


def _like(vector: Vector, pattern: str, fold_case: bool) -> BoolArray:
    expression = like_expression(pattern, fold_case)
    return _by_code(
        vector, lambda pool: np.fromiter((bool(expression.fullmatch(t.decode())) for t in pool.tolist()), np.bool_, len(pool))
    )


def like_expression(pattern: str, fold_case: bool) -> re.Pattern[str]:
    """The regular expression that fully matches what LIKE ``pattern`` matches."""
    body = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    return re.compile(body, re.DOTALL | (re.IGNORECASE if fold_case else 0))


def _by_code(vector: Vector, decide: Callable[[Pool], BoolArray]) -> BoolArray:
    """Decide once per distinct string that occurs, then spread by code."""
    pool = vector.pool
    assert pool is not None
    if len(pool) == 0:
        return np.zeros(len(vector), np.bool_)
    codes = vector.values
    if len(codes) * 2 < len(pool):
        used, inverse = np.unique(np.maximum(codes, 0), return_inverse=True)
        spread: BoolArray = decide(take_strings(pool, used))[inverse]
    else:
        spread = decide(pool)[np.maximum(codes, 0)]
    return spread


def compare_bytes(pool: Pool, op: str, literal: bytes) -> BoolArray:
    """Each string of a pool against a literal, bytewise."""
    signs = np.empty(len(pool), np.int8)
    text.compare(pool.offsets, pool.data, np.frombuffer(literal, np.uint8), signs)
    out: BoolArray = _OPERATORS[op](signs, 0)
    return out


def _as_bytes(literal: Literal) -> bytes:
    return literal.encode() if isinstance(literal, str) else bytes(literal)  # type: ignore[arg-type]
