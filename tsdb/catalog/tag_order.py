"""Tag order: ascending, strings bytewise as UTF-8, numbers numerically, false before true, NULL last; the first tag counts most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.pool import rank_strings
from tsdb_format.vector import IntArray, Vector


def value_ranks(vector: Vector) -> IntArray:
    """A number per row that orders as the values do, NULL last."""
    if vector.pool is not None:
        ranks = np.append(rank_strings(vector.pool), len(vector.pool))
        codes = vector.values if vector.validity is None else np.where(vector.validity, vector.values, -1)
        found: IntArray = ranks[codes]
        return found
    values, inverse = np.unique(vector.values, return_inverse=True)
    numbers: IntArray = inverse.astype(np.int64, copy=False)
    if vector.validity is not None:
        numbers[~vector.validity] = len(values)
    return numbers


def tag_ranks(tags: Sequence[Vector], count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(rank, by_rank) of ``count`` distinct devices in tag order."""
    if not tags:
        same = np.arange(count, dtype=np.int32)
        return same, same
    keys: list[NDArray[Any]] = [value_ranks(vector) for vector in reversed(tags)]
    by_rank = np.lexsort(keys).astype(np.int32)
    rank = np.empty(count, np.int32)
    rank[by_rank] = np.arange(count, dtype=np.int32)
    return rank, by_rank
