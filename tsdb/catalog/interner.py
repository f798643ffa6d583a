"""A growing pool of distinct strings that gives each a code: equal strings get equal codes, in order of first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels.numbering import intern_strings, rebuild_slots
from tsdb_format.vector import ByteArray, IntArray, Pool


class Interner:
    """Distinct strings by code. Arrays are enlarged by copying, so that pools handed out earlier stay valid as they are."""

    def __init__(self, pool: Pool | None = None) -> None:
        """Start empty, or from a pool without duplicates, whose codes are kept."""
        self._size = np.zeros(1, np.int64)
        self._offsets = np.zeros(65, np.int64)
        self._data = np.zeros(1024, np.uint8)
        self._hash = np.zeros(64, np.uint64)
        self._slots = np.full(128, -1, np.int32)
        if pool is not None:
            self.pool_codes(pool)

    def __len__(self) -> int:
        return int(self._size[0])

    @property
    def pool(self) -> Pool:
        """The strings by code; a view that later additions do not change."""
        count = len(self)
        return Pool(self._offsets[: count + 1], self._data[: int(self._offsets[count])])

    def codes(self, starts: IntArray, stops: IntArray, data: ByteArray, *, add: bool = True) -> NDArray[np.int32]:
        """The code of each string data[starts[i]:stops[i]]; -1 for NULL (a start of -1), and for an unknown one unless ``add``."""
        codes = np.empty(len(starts), np.int32)
        row = 0
        while row < len(codes):
            row = intern_strings(
                starts, stops, data, row, add, self._slots, self._offsets, self._data, self._hash, self._size, codes
            )  # fmt: skip
            if row < len(codes):
                self._enlarge(int(stops[row] - starts[row]))
        return codes

    def pool_codes(self, pool: Pool, *, add: bool = True) -> NDArray[np.int32]:
        """The code of each string of a pool."""
        return self.codes(pool.offsets[:-1], pool.offsets[1:], pool.data, add=add)

    def _enlarge(self, bytes_needed: int) -> None:
        count = len(self)
        used = int(self._offsets[count])
        if used + bytes_needed > len(self._data):
            self._data = enlarged(self._data, max(2 * len(self._data), used + bytes_needed), used)
        if count == len(self._hash):
            self._offsets = enlarged(self._offsets, 2 * count + 1, count + 1)
            self._hash = enlarged(self._hash, 2 * count, count)
            self._slots = np.full(4 * count, -1, np.int32)
            rebuild_slots(self._hash, count, self._slots)


def enlarged(array: NDArray[Any], length: int, used: int) -> NDArray[Any]:
    """A longer copy of ``array[:used]``, zeros after it."""
    out = np.zeros((length, *array.shape[1:]), array.dtype)
    out[:used] = array[:used]
    return out
