"""Join keys by number: every distinct tuple of key values gets one, whatever its types, and a tuple with a NULL none.

Keys are compared as DuckDB compares them: integers of any width by value, FLOAT as DOUBLE, NaN equal to itself, −0.0 to 0.0,
strings by their bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import compacted
from tsdb.catalog.interner import Interner, enlarged
from tsdb.catalog.tag_order import value_ranks
from tsdb.exec.kernels.numbering import number_rows, rebuild_slots
from tsdb.exec.order import ascending
from tsdb_format.pool import take_strings
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import BoolArray, IntArray, Vector, concat

#: Kinds whose values are joined with those of another kind of the same group.
_GROUPS = ({Kind.INT32, Kind.INT64}, {Kind.FLOAT, Kind.DOUBLE})
#: Kinds that are no keys: blobs may be long, and vectors are compared by element.
_NO_KEYS = frozenset({Kind.BLOB, Kind.VECTOR, Kind.HUGEINT})

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def are_comparable(left: ColumnType, right: ColumnType) -> bool:
    """Whether values of two types are equal here exactly where DuckDB says so."""
    same = left.kind is right.kind and left.kind not in _NO_KEYS
    return same or any({left.kind, right.kind} <= group for group in _GROUPS)


class KeyNumbers:
    """Numbers tuples of ``width`` key values in order of first appearance."""

    def __init__(self, width: int) -> None:
        self._strings = [Interner() for _ in range(width)]
        self._size = np.zeros(1, np.int64)
        self._keys = np.zeros((64, width), np.int64)
        self._hash = np.zeros(64, np.uint64)
        self._slots = np.full(128, -1, np.int32)

    def __len__(self) -> int:
        return int(self._size[0])

    def numbers(self, columns: Sequence[Vector], *, add: bool) -> NDArray[np.int32]:
        """The number of each row's tuple; -1 where a value is NULL, and for an unknown tuple unless ``add``."""
        count = len(columns[0])
        keys = np.empty((count, len(columns)), np.int64)
        known = np.ones(count, np.bool_)
        for at, vector in enumerate(columns):
            if vector.validity is not None:
                known &= vector.validity
            if vector.pool is None:
                keys[:, at] = ascending(vector.values)
            else:
                keys[:, at] = string_codes(self._strings[at], vector, add=add)
                known &= keys[:, at] >= 0
        if known.all():
            return self._number(keys, add)
        numbers = np.full(count, -1, np.int32)
        numbers[known] = self._number(keys[known], add)
        return numbers

    def _number(self, keys: NDArray[np.int64], add: bool) -> NDArray[np.int32]:
        numbers = np.empty(len(keys), np.int32)
        row = 0
        while row < len(numbers):
            row = number_rows(keys, row, add, self._slots, self._keys, self._hash, self._size, numbers)
            if row < len(numbers):
                count = len(self)
                self._keys, self._hash = enlarged(self._keys, 2 * count, count), enlarged(self._hash, 2 * count, count)
                self._slots = np.full(4 * count, -1, np.int32)
                rebuild_slots(self._hash, count, self._slots)
        return numbers


def string_codes(interner: Interner, vector: Vector, *, add: bool) -> IntArray:
    """The code of each row's string, -1 for an unknown one unless ``add``; each string of the pool is looked up once."""
    pool = vector.pool
    assert pool is not None
    valid: BoolArray | slice = slice(None) if vector.validity is None else vector.validity
    used = np.zeros(len(pool), np.bool_)
    used[vector.values[valid]] = True
    of_pool = np.full(len(pool), -1, np.int64)
    chosen = np.flatnonzero(used)
    of_pool[chosen] = interner.pool_codes(pool if len(chosen) == len(pool) else take_strings(pool, chosen), add=add)
    codes = np.full(len(vector), -1, np.int64)
    codes[valid] = of_pool[vector.values[valid]]
    return codes


def compare(left: Vector, op: str, right: Vector) -> BoolArray:
    """Rows of two vectors of comparable types for which ``left op right`` is true."""
    if left.pool is None:
        a, b = ascending(left.values), ascending(right.values)
    else:
        ranks = value_ranks(compacted(concat([left, right])))
        a, b = ranks[: len(left)], ranks[len(left) :]
    found: BoolArray = _OPERATORS[op](a, b)
    for vector in (left, right):
        if vector.validity is not None:
            found &= vector.validity
    return found
