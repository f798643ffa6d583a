"""Shards: which of a table's ``shards`` a row belongs to, by a hash of the columns ``shard_by``. A file has rows of one shard only.

The hash is part of the format of a database, since files are left out by it. A value's bytes are those of a string, or the eight
of an integer (also of booleans, dates and timestamps) or of a double in which −0.0 is 0.0 and every NaN is 0x7FF8000000000000,
least first. With M = 0x9E3779B97F4A7C15 and all of it modulo 2^64, a *step* with x makes h = (h xor x) × M, then h = h xor h >> 32.

    hash of n bytes: h = n × M; a step with each eight bytes as a word, least first; a step with the bytes that are left, 0 if there
        are none; then h = h × 0xD6E8FEB86659FD93 and h = h xor h >> 32. This is ``hash_bytes``. NULL has 0.
    shard of a row: h = 0; a step with the hash of each column, in the order of ``shard_by``; then h modulo the number of shards
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.table import TableOptions
from tsdb.exec.kernels.numbering import hash_strings
from tsdb_format.types import Kind
from tsdb_format.vector import Vector

UInt64Array = NDArray[np.uint64]
Int32Array = NDArray[np.int32]
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LAST = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
#: What hashing eight bytes starts from.
_EIGHT = np.uint64(8 * int(_MIX) % 2**64)
#: Kinds that have no hash.
UNHASHED = frozenset({Kind.BLOB, Kind.VECTOR})


def shards_of(vectors: Sequence[Vector], shards: int) -> Int32Array:
    """The shard of each row, given the values that it has in the columns ``shard_by``, in their order."""
    found = np.zeros(len(vectors[0]), np.uint64)
    for vector in vectors:
        found = (found ^ _hashes(vector)) * _MIX
        found ^= found >> _HALF
    return (found % np.uint64(shards)).astype(np.int32)


def parted(
    options: TableOptions, count: int, column: Callable[[str], Vector]
) -> Iterator[tuple[int | None, NDArray[np.int64] | None]]:
    """(shard, its rows as indices in order, None for all); the shard is None of a table without. ``column`` gives their values."""
    if not options.shard_by:
        yield None, None
        return
    shard = shards_of([column(name) for name in options.shard_by], options.shards)
    for number in np.unique(shard).tolist():
        rows = np.flatnonzero(shard == number)
        yield number, None if len(rows) == count else rows


def _hashes(vector: Vector) -> UInt64Array:
    if vector.pool is not None:
        texts = np.empty(len(vector.pool), np.uint64)
        hash_strings(vector.pool.offsets, vector.pool.data, texts)
        found = texts[vector.values] if len(texts) else np.zeros(len(vector), np.uint64)
    else:
        found = _of_words(_words(vector.values))
    if vector.validity is not None:
        found = np.where(vector.validity, found, np.uint64(0))
    return found


def _words(values: NDArray[np.generic]) -> UInt64Array:
    if values.dtype.kind == "f":
        doubles = values.astype(np.float64) + 0.0
        doubles[np.isnan(doubles)] = np.nan
        return doubles.view(np.uint64)
    return values.astype(np.int64).view(np.uint64)


def _of_words(words: UInt64Array) -> UInt64Array:
    """What ``hash_bytes`` makes of eight bytes each."""
    found = (_EIGHT ^ words) * _MIX
    found ^= found >> _HALF
    found = found * _MIX  # the rest, of no bytes
    found ^= found >> _HALF
    found = found * _LAST
    return found ^ (found >> _HALF)
