"""Strings of pools, copied and put in order without an object per string."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.kernels.statistics import prefix_keys
from tsdb_format.kernels.text import gather_bytes, repeat_text
from tsdb_format.vector import BoolArray, ByteArray, IntArray, Pool, Vector

#: Bytes of each string that one round of sorting compares.
_ROUND_BYTES = 16


def copy_strings(data: ByteArray, starts: IntArray, sizes: IntArray) -> Pool:
    """The strings of ``sizes[i]`` bytes from ``starts[i]`` in a pool of their own; where an empty one starts does not matter."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    gather_bytes(data, starts, sizes, copied)
    return Pool(offsets, copied)


def take_strings(pool: Pool, codes: NDArray[Any]) -> Pool:
    """The strings of ``codes``, in that order, in a pool of their own."""
    starts = pool.offsets[codes]
    made = copy_strings(pool.data, starts, pool.offsets[codes + 1] - starts)
    if pool.kinds is not None:
        made.kinds = pool.kinds[codes]
    return made


def separated(pool: Pool) -> bytes | None:
    """The strings of a pool, at least one, with a byte 0 between neighbours; None where one of them has such a byte."""
    begin, end = int(pool.offsets[0]), int(pool.offsets[-1])
    data = np.zeros(end - begin + 1, np.uint8)
    data[:-1] = pool.data[begin:end]
    if np.count_nonzero(data) < end - begin:
        return None
    made = copy_strings(data, pool.offsets[:-1] - begin, np.diff(pool.offsets) + 1)
    made.data[made.offsets[1:] - 1] = 0
    return made.data[:-1].tobytes()


def own_pool(vector: Vector) -> Pool:
    """A pool with one string per row of a pooled vector; unspecified under a NULL."""
    assert vector.pool is not None
    if len(vector.pool) == 0:
        return Pool(np.zeros(len(vector) + 1, np.int64), np.empty(0, np.uint8))
    return take_strings(vector.pool, np.maximum(vector.values, 0))


def own_strings(vector: Vector) -> Vector:
    """The same values with a pool of their own where the shared one is much larger."""
    pool = vector.pool
    if pool is None or len(pool) <= 4 * len(vector) + 16:
        return vector
    return Vector(vector.type, np.arange(len(vector), dtype=np.int32), vector.validity, own_pool(vector))


def repeat_strings(pool: Pool, codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], ByteArray] | None:
    """The strings of ``codes`` end to end, and where each begins and the last ends; for codes of which neighbours are often equal.

    None where they take 2 GiB or more.
    """
    sizes = np.diff(pool.offsets)
    room = int(np.bincount(codes, minlength=len(pool)) @ sizes)
    if room >= 2**31:
        return None
    ends, out = np.empty(len(codes) + 1, np.int32), np.empty(room, np.uint8)
    repeat_text(pool.data, pool.offsets, codes, ends, out)
    return ends, out


def order_strings(pool: Pool, codes: NDArray[Any]) -> tuple[IntArray, BoolArray]:
    """Positions in ``codes`` in the bytewise order of their strings, and where in it a string differs from the one before.

    Sixteen bytes at a time: each round sorts only the strings that are still tied. Strings may repeat; equal ones keep their order.
    """
    begins, ends = pool.offsets[codes], pool.offsets[codes + 1]
    order = np.arange(len(codes), dtype=np.int64)
    fresh = np.ones(len(codes), np.bool_)
    # Places in ``order`` whose strings are still tied, ascending; those of one group are neighbours.
    places: IntArray = np.arange(len(codes), dtype=np.int64)
    group: IntArray = np.zeros(len(codes), np.int64)
    depth = 0
    while len(places):
        rows = order[places]
        upper, lower, left = _keys(pool.data, np.minimum(begins[rows] + depth, ends[rows]), ends[rows])
        by = np.lexsort((left, lower, upper, group) if depth else (left, lower, upper))
        order[places] = rows[by]
        upper, lower, left, group = upper[by], lower[by], left[by], group[by]
        equal = np.zeros(len(rows) + 1, np.bool_)  # to the one before, as far as was looked
        equal[1:-1] = (group[1:] == group[:-1]) & (upper[1:] == upper[:-1]) & (lower[1:] == lower[:-1]) & (left[1:] == left[:-1])
        tied = equal.copy()
        tied[1:-1] &= left[1:] == _ROUND_BYTES
        fresh[places[(equal & ~tied)[:-1]]] = False
        again = np.flatnonzero(tied[:-1] | tied[1:])
        places, group = places[again], np.cumsum(~tied[:-1], dtype=np.int64)[again]
        depth += _ROUND_BYTES
    return order, fresh


def rank_strings(pool: Pool) -> IntArray:
    """Each string's position among the distinct ones of the pool, in bytewise order."""
    order, fresh = order_strings(pool, np.arange(len(pool), dtype=np.int32))
    ranks = np.empty(len(pool), np.int64)
    ranks[order] = np.cumsum(fresh) - 1
    return ranks


def _keys(data: ByteArray, begins: IntArray, ends: IntArray) -> tuple[NDArray[np.uint64], NDArray[np.uint64], IntArray]:
    """Of each span its first sixteen bytes as two words that order as they do, zero-padded, and how many bytes these were."""
    spans = np.stack((begins, ends), axis=1).reshape(-1)
    upper, lower = np.empty(len(begins), np.uint64), np.empty(len(begins), np.uint64)
    pairs = np.arange(0, len(spans), 2, dtype=np.int32)
    prefix_keys(spans, data, pairs, upper, lower, np.empty(len(begins), np.uint8))
    return upper, lower, np.minimum(ends - begins, _ROUND_BYTES)
