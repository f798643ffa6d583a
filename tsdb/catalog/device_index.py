"""From tags to device numbers: the searchable, growing side of a device table, kept in memory by those who look devices up."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.interner import Interner, enlarged
from tsdb.exec.kernels.numbering import number_rows, rebuild_slots
from tsdb_format.errors import InvalidInput
from tsdb_format.pool import take_strings
from tsdb_format.schema import Column
from tsdb_format.vector import BoolArray, Pool, Vector

#: Rows whose keys are built at a time: bounds the scratch memory whatever the batch.
SLICE_ROWS = 65_536
#: Devices of one table: numbers are int32 and hash tables twice as long.
DEVICES_MAX = 2**30
#: Devices that rows written one by one named last, kept by their tags: sensors repeat themselves.
RECENT_MAX = 16_384


class DeviceIndex:
    """Numbers devices in order of first appearance.

    A key is one int64 per tag (a string's code, a number's value; 0 for NULL) and a last one with a bit per NULL tag, so that NULL,
    the empty string and any text are three different things.
    """

    def __init__(self, tags: tuple[Column, ...], vectors: Mapping[str, Vector], count: int) -> None:
        """Index ``count`` devices whose tags by number are ``vectors``."""
        self.tags = tags
        self.lock = threading.Lock()
        self._strings = {
            column.name: Interner(vectors[column.name].pool if count else None) for column in tags if column.type.is_pooled
        }
        self._size = np.zeros(1, np.int64)
        self._keys = np.zeros((64, len(tags) + 1), np.int64)
        self._hash = np.zeros(64, np.uint64)
        self._slots = np.full(128, -1, np.int32)
        self._recent: dict[tuple[object, ...], int] = {}
        if count:
            self.numbers(vectors, count, add=True)

    @property
    def count(self) -> int:
        """Devices known so far."""
        return int(self._size[0])

    def numbers(self, tags: Mapping[str, Vector], row_count: int, *, add: bool) -> NDArray[np.int32]:
        """The device number of each row; unknown devices are added, or -1 without ``add``. Tags left out are NULL."""
        if row_count != 1:
            return self._numbers(tags, row_count, add)
        key = tuple(None if (vector := tags.get(column.name)) is None else _row_key(vector) for column in self.tags)
        number = self._recent.get(key)
        if number is not None:
            return np.array([number], np.int32)
        numbers = self._numbers(tags, 1, add)
        if numbers[0] >= 0:
            if len(self._recent) >= RECENT_MAX:
                self._recent.clear()
            self._recent[key] = int(numbers[0])
        return numbers

    def _numbers(self, tags: Mapping[str, Vector], row_count: int, add: bool) -> NDArray[np.int32]:
        columns = [self._key_column(column, tags.get(column.name), add) for column in self.tags]
        numbers = np.empty(row_count, np.int32)
        for start in range(0, row_count, SLICE_ROWS):
            stop = min(start + SLICE_ROWS, row_count)
            keys = np.zeros((stop - start, len(self.tags) + 1), np.int64)
            for bit, column in enumerate(columns):
                if column is None:
                    keys[:, -1] |= 1 << bit
                    continue
                values, validity = column
                keys[:, bit] = values[start:stop]
                if validity is not None:
                    null = ~validity[start:stop]
                    keys[null, bit] = 0
                    keys[null, -1] |= 1 << bit
            self._number_slice(keys, add, numbers[start:stop])
        return numbers

    def vectors(self, count: int) -> dict[str, Vector]:
        """The tags of the first ``count`` devices; later additions do not change them."""
        out: dict[str, Vector] = {}
        for bit, column in enumerate(self.tags):
            null = (self._keys[:count, -1] >> bit) & 1 != 0
            validity = ~null if null.any() else None
            values = self._keys[:count, bit].astype(column.type.physical)
            pool: Pool | None = None
            if column.type.is_pooled:
                pool = self._strings[column.name].pool
                if not len(pool):
                    pool = Pool.of([b""])  # a code under a NULL must still be one
            out[column.name] = Vector(column.type, values, validity, pool)
        return out

    def _key_column(self, column: Column, vector: Vector | None, add: bool) -> tuple[NDArray[Any], BoolArray | None] | None:
        """Numbers that stand for the rows' values of a tag, and their validity; None where the tag was left out."""
        if vector is None:
            return None
        if vector.pool is None:
            return vector.values, vector.validity
        codes = self._pool_codes(self._strings[column.name], vector, add)
        valid_codes = vector.values if vector.validity is None else np.where(vector.validity, vector.values, 0)
        return (codes[valid_codes] if len(codes) else np.zeros(len(vector), np.int32)), vector.validity

    @staticmethod
    def _pool_codes(interner: Interner, vector: Vector, add: bool) -> NDArray[np.int32]:
        """The table's code of every string of the vector's pool that some row uses."""
        pool = vector.pool
        assert pool is not None
        used = np.zeros(len(pool), np.bool_)
        used[vector.values if vector.validity is None else vector.values[vector.validity]] = True
        if used.all():
            return interner.pool_codes(pool, add=add)
        chosen = np.flatnonzero(used)
        codes = np.full(len(pool), -1, np.int32)
        codes[chosen] = interner.pool_codes(take_strings(pool, chosen), add=add)
        return codes

    def _number_slice(self, keys: NDArray[np.int64], add: bool, numbers: NDArray[np.int32]) -> None:
        row = 0
        while row < len(numbers):
            row = number_rows(keys, row, add, self._slots, self._keys, self._hash, self._size, numbers)
            if row < len(numbers):
                self._enlarge()

    def _enlarge(self) -> None:
        count = self.count
        if count >= DEVICES_MAX:
            raise InvalidInput(f"a table takes at most {DEVICES_MAX:,} devices")
        self._keys = enlarged(self._keys, 2 * count, count)
        self._hash = enlarged(self._hash, 2 * count, count)
        self._slots = np.full(4 * count, -1, np.int32)
        rebuild_slots(self._hash, count, self._slots)


def _row_key(vector: Vector) -> object:
    """The one value of a vector, None for NULL; equal keys are equal tags."""
    if vector.validity is not None and not vector.validity[0]:
        return None
    return vector.values.item(0) if vector.pool is None else vector.pool.bytes_at(int(vector.values[0]))
