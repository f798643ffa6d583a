"""Sort keys as integers: every ORDER BY key becomes one int64 per row such that ascending means better.

One total order serves heap, statistics and runtime filter: NaN is the greatest float and −0.0 equals 0.0 (DuckDB's order), DESC is the
bitwise NOT, NULLs are a class of their own before or after every value. A key is the pair (class, key), compared in that order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.plan.node import SortKey
from tsdb_format.types import Kind
from tsdb_format.vector import Pool, Vector

IntArray = NDArray[np.int64]
ClassArray = NDArray[np.int8]

NULLS_FIRST = np.int8(0)
VALUE = np.int8(1)
NULLS_LAST = np.int8(2)


def null_class(key: SortKey) -> np.int8:
    """The class of NULLs under a key."""
    return NULLS_FIRST if key.nulls_first else NULLS_LAST


def ascending(values: NDArray[Any]) -> IntArray:
    """Numbers as int64 in the same order."""
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    wide = values.astype(np.float64) + 0.0  # −0.0 becomes 0.0
    bits = wide.view(np.int64)
    keys = bits ^ ((bits >> np.int64(63)) & np.int64(2**63 - 1))
    keys[np.isnan(wide)] = np.iinfo(np.int64).max
    return keys


def prefix_keys(pool: Pool) -> IntArray:
    """The first eight bytes of each string, as int64 in bytewise order; equal prefixes say nothing."""
    size = np.minimum(np.diff(pool.offsets), 8)
    padded = np.zeros((len(pool), 8), np.uint8)
    for position in range(8):
        has = size > position
        padded[has, position] = pool.data[pool.offsets[:-1][has] + position]
    unsigned = padded.view(">u8").reshape(-1).astype(np.uint64)
    return (unsigned ^ np.uint64(2**63)).view(np.int64)


def text_ranks(pool: Pool) -> IntArray:
    """Each string's position in bytewise order; equal strings share one."""
    strings = np.array(pool.tolist(), dtype=object)
    if len(strings) == 0:
        return np.empty(0, np.int64)
    order = np.argsort(strings, kind="stable")
    ranked = strings[order]
    ranks = np.empty(len(strings), np.int64)
    ranks[order] = np.concatenate(([0], np.cumsum(ranked[1:] != ranked[:-1]))).astype(np.int64)
    return ranks


def key_arrays(vector: Vector, key: SortKey, text_keys: IntArray | None = None) -> tuple[ClassArray | None, IntArray]:
    """(class or None where no value is NULL, key) of each row. ``text_keys`` gives a pooled column's key by code."""
    if vector.pool is not None:
        assert text_keys is not None
        keys = text_keys[np.maximum(vector.values, 0)] if len(text_keys) else np.zeros(len(vector), np.int64)
    else:
        keys = ascending(vector.values)
    if key.descending:
        keys = ~keys
    if vector.validity is None:
        return None, keys
    keys = np.where(vector.validity, keys, 0)
    return np.where(vector.validity, VALUE, null_class(key)), keys


def sortable(kind: Kind) -> bool:
    """Whether a column of this kind can be a native sort key."""
    return kind not in (Kind.BLOB, Kind.VECTOR)
