"""Sort keys as integers: every ORDER BY key becomes one int64 per row such that ascending means better.

One total order serves heap, statistics and runtime filter: NaN is the greatest float and −0.0 equals 0.0 (DuckDB's order), DESC
is the bitwise NOT, NULLs are a class of their own before or after every value. A key is the pair (class, key), compared in that
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.tag_order import value_ranks
from tsdb.plan.node import SortKey
from tsdb_format.kernels import statistics
from tsdb_format.vector import IntArray, Pool

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable

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


def float_of(key: int) -> float:
    """The number that ``ascending`` made a key of; NaN for the greatest."""
    greatest = np.iinfo(np.int64).max
    bits = np.int64(key) ^ ((np.int64(key) >> np.int64(63)) & np.int64(greatest))
    return np.nan if key == greatest else float(bits.view(np.float64))


def prefix_keys(pool: Pool) -> IntArray:
    """The first eight bytes of each string, as int64 in bytewise order; equal prefixes say nothing."""
    count = len(pool)
    first, rest = np.empty((2, count), np.uint64)
    statistics.prefix_keys(pool.offsets, pool.data, np.arange(count, dtype=np.int32), first, rest, np.empty(count, np.uint8))
    return (first ^ np.uint64(2**63)).view(np.int64)


def text_ranks(strings: NDArray[Any]) -> IntArray:
    """Each byte string's position among the distinct ones, in bytewise order."""
    order = np.argsort(strings, kind="stable")
    ranks = np.empty(len(strings), np.int64)
    if len(strings):
        ranked = strings[order]
        ranks[order] = np.concatenate(([False], ranked[1:] != ranked[:-1])).cumsum()
    return ranks


_DEVICE_RANKS: WeakKeyDictionary[DeviceTable, dict[str, IntArray]] = WeakKeyDictionary()


def device_ranks(devices: DeviceTable, name: str) -> IntArray:
    """Per device the rank of a tag's or attribute's value among the distinct ones, -1 for NULL. Found once per device table."""
    held = _DEVICE_RANKS.setdefault(devices, {})
    if name not in held:
        vector = devices.values(name)
        ranks = value_ranks(vector)
        held[name] = ranks if vector.validity is None else np.where(vector.validity, ranks, -1)
    return held[name]
