"""Join keys by number: every distinct tuple of key values gets one, whatever its types, and a tuple with a NULL none.

Keys are compared as DuckDB compares them: integers of any width by value, FLOAT as DOUBLE, NaN equal to itself, −0.0 to 0.0,
strings by their bytes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import compacted
from tsdb.catalog.interner import Interner, enlarged
from tsdb.catalog.tag_order import value_ranks
from tsdb.exec.kernels.joining import common_step, number_integers, number_places, rehash_integers
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
    """Numbers tuples of ``width`` key values in order of first appearance. ``about`` is how many there may be."""

    def __init__(self, width: int, about: int = 0) -> None:
        self._strings = [Interner() for _ in range(width)]
        self._size = np.zeros(1, np.int64)
        slots = 128 << max((about // 64).bit_length(), 0)
        #: Of single keys a table that has them in it, of tuples one of their numbers.
        self._single = np.zeros(2 * slots if width == 1 else 0, np.int64)
        self._keys = np.zeros((0 if width == 1 else slots // 2, width), np.int64)
        self._hash = np.zeros(len(self._keys), np.uint64)
        self._slots = np.full(2 * len(self._keys), -1, np.int32)

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
        if keys.shape[1] == 1:
            self._number_single(keys.reshape(-1), add, numbers)
            return numbers
        row = 0
        while row < len(numbers):
            row = number_rows(keys, row, add, self._slots, self._keys, self._hash, self._size, numbers)
            if row < len(numbers):
                count = len(self)
                self._keys, self._hash = enlarged(self._keys, 2 * count, count), enlarged(self._hash, 2 * count, count)
                self._slots = np.full(4 * count, -1, np.int32)
                rebuild_slots(self._hash, count, self._slots)
        return numbers

    def _number_single(self, keys: IntArray, add: bool, numbers: NDArray[np.int32]) -> None:
        row = 0
        while row < len(numbers):
            row = number_integers(keys, row, add, self._single, self._size, numbers)
            if row < len(numbers):
                old, self._single = self._single, np.zeros(2 * len(self._single), np.int64)
                rehash_integers(old, self._single)


class _Places:
    """Integers by their places between the least and the greatest, ``step`` apart."""

    def __init__(self, keys: IntArray) -> None:
        self._low, greatest = int(keys.min()), int(keys.max())
        self._step = max(int(common_step(keys, np.int64(self._low))), 1)  # moments are multiples of something
        self.count = (greatest - self._low) // self._step + 1

    def of(self, vector: Vector) -> NDArray[np.int32]:
        """The place of each value, -1 for NULL and for values that have none."""
        places = np.empty(len(vector), np.int32)
        number_places(ascending(vector.values), np.int64(self._low), np.int64(self._step), self.count, places)
        if vector.validity is not None:
            places[~vector.validity] = -1
        return places


class _Codes:
    """Strings by their codes."""

    def __init__(self, vector: Vector) -> None:
        self._interner = Interner()
        string_codes(self._interner, vector, add=True)
        self.count = len(self._interner)

    def of(self, vector: Vector) -> NDArray[np.int32]:
        """The code of each string, -1 for NULL and for those that have none."""
        return string_codes(self._interner, vector, add=False).astype(np.int32)


class DenseNumbers:
    """Numbers tuples whose values lie close together, by their places: hosts, say, and moments. There is no table of tuples."""

    def __init__(self, parts: Sequence[_Places | _Codes]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        """How many numbers there are; some may be no tuple's."""
        return math.prod(part.count for part in self._parts)

    def numbers(self, columns: Sequence[Vector], *, add: bool) -> NDArray[np.int32]:
        """As ``KeyNumbers.numbers``; nothing needs to be added."""
        del add
        numbers = self._parts[0].of(columns[0])
        known = np.ones(len(numbers), np.bool_)
        for part, vector in zip(self._parts[1:], columns[1:], strict=True):
            known &= numbers >= 0
            places = part.of(vector)
            numbers = numbers * np.int32(part.count) + places
            known &= places >= 0
        if len(self._parts) > 1:
            numbers[~known] = -1
        return numbers


#: Numbers that there may be for each key, and in all, where keys are numbered by their places.
_PLACES_PER_KEY = 4
_PLACES_MAX = 2**28


def numbers_for(columns: Sequence[Vector]) -> KeyNumbers | DenseNumbers:
    """What numbers these keys best, with none of them in it yet."""
    count = len(columns[0])
    room = min(_PLACES_PER_KEY * count + 64, _PLACES_MAX)
    parts: list[_Places | _Codes] = []
    for vector in columns:
        if vector.pool is not None:
            parts.append(_Codes(vector))
        elif vector.values.dtype.kind in "iub":
            keys = ascending(vector.values if vector.validity is None else vector.values[vector.validity])
            if len(keys):
                parts.append(_Places(keys))
        room //= max(parts[-1].count, 1) if parts else 1
        if not room:
            break
    if len(parts) < len(columns) or not room or not all(part.count for part in parts):
        return KeyNumbers(len(columns), count)
    return DenseNumbers(parts)


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
