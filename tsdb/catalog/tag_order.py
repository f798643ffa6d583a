"""Tag order: ascending, strings bytewise as UTF-8, numbers numerically, false before true, NULL last; the first tag counts most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels.numbering import words_at
from tsdb_format.vector import BoolArray, IntArray, Pool, Vector


def sort_strings(pool: Pool) -> IntArray:
    """The codes of a pool without duplicates, in bytewise order.

    Eight bytes at a time: each round sorts only the strings that are still tied, by their next word.
    """
    order = np.arange(len(pool), dtype=np.int64)
    # Positions in ``order`` whose strings are still tied, ascending; members of one group are neighbours.
    places: IntArray = np.arange(len(pool), dtype=np.int64)
    group: IntArray = np.zeros(len(pool), np.int64)
    lengths: IntArray = np.diff(pool.offsets)
    depth = 0
    while len(places):
        rows = order[places]
        words = np.empty(len(rows), np.uint64)
        words_at(pool.offsets, pool.data, rows, depth, words)
        ends = np.minimum(lengths[rows], 8 * (depth + 1))  # of two strings that differ by trailing zeros the shorter is less
        by = np.lexsort((ends, words, group))
        order[places] = rows[by]
        words, ends, group = words[by], ends[by], group[by]
        same: BoolArray = np.zeros(len(rows) + 1, np.bool_)
        same[1:-1] = (group[1:] == group[:-1]) & (words[1:] == words[:-1]) & (ends[1:] == ends[:-1])
        tied = np.flatnonzero(same[:-1] | same[1:])
        places, group = places[tied], np.cumsum(~same[:-1], dtype=np.int64)[tied]
        depth += 1
    return order


def value_ranks(vector: Vector) -> IntArray:
    """A number per row that orders as the values do, NULL last. The pool must hold no duplicates."""
    if vector.pool is not None:
        ranks = np.empty(len(vector.pool) + 1, np.int64)
        ranks[sort_strings(vector.pool)] = np.arange(len(vector.pool))
        ranks[-1] = len(vector.pool)
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
