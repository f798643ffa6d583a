"""Key domains: what a join has learned of its keys, asked by the scan of its other side.

The rows that a join holds are known before the other side is read, and of that a row, page or device without any of their keys
changes nothing. A domain answers for one column, by the distinct values that the held rows have there: exactly while these are few,
else by ranges of neighbours and a digest, which let a few others pass (a Bloom filter, two bits a key). It never refuses what has a
partner. The members of a result set are a domain, too.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.join_key import KeyNumbers
from tsdb.exec.kernels.numbering import hash_strings
from tsdb.exec.order import ascending
from tsdb.exec.prune import CANNOT_MATCH, MAY_MATCH, Verdicts
from tsdb.exec.rows import RowSet
from tsdb_format.kernels.statistics import prefix_keys
from tsdb_format.pool import take_strings
from tsdb_format.statistics import HAS_BOUNDS, HAS_NAN, PREFIX_BYTES, Statistics
from tsdb_format.vector import BoolArray, IntArray, Pool, Vector

#: Keys up to which there is a digest, and its bits per key.
DIGEST_KEYS_MAX = 4_194_304
_DIGEST_BITS = 16
#: Ranges of neighbouring keys that are told apart at least.
_RANGES_MIN = 1_024
_MIX = np.uint64(0x9E3779B97F4A7C15)


class KeyDomain:
    """The values of one join key on the held side, asked about ``column`` of the other.

    ``vector`` has one or more of them, NULL not among them, and may repeat some.
    """

    def __init__(self, column: str, vector: Vector, keys_max: int) -> None:
        self.column = column
        self._numbers: KeyNumbers | None = None
        self._digest: _Digest | None = None
        #: Keys, or prefixes of them, in ranges of neighbours: each one's least and greatest, ascending. None where all is in range.
        self._lows: NDArray[Any] | None = None
        self._highs: NDArray[Any] | None = None
        self.low = self.high = 0
        if vector.pool is None:
            keys = ascending(vector.values)
            self.low, self.high = int(keys.min()), int(keys.max())
        if len(vector) <= keys_max:
            self._numbers = KeyNumbers(1)
            self._numbers.numbers([vector], add=True)
        elif len(vector) <= DIGEST_KEYS_MAX:
            self._digest = _Digest(keys if vector.pool is None else _hashes(vector.pool)[vector.values])
        if len(vector) <= max(keys_max, DIGEST_KEYS_MAX):
            ordered = np.sort(keys if vector.pool is None else _prefixes(take_strings(vector.pool, vector.values)))
            step = -(-len(ordered) // max(keys_max, _RANGES_MIN))
            self._lows = ordered[::step]
            self._highs = ordered[np.minimum(np.arange(step - 1, len(ordered) + step - 1, step), len(ordered) - 1)]

    @property
    def is_exact(self) -> bool:
        """Whether ``contains`` lets nothing pass that has no partner."""
        return self._numbers is not None

    def named(self, column: str) -> KeyDomain:
        """The same keys, asked about another column."""
        made = copy.copy(self)
        made.column = column
        return made

    def contains(self, vector: Vector) -> BoolArray:
        """Rows of the other side's column that may have a partner."""
        if self._numbers is not None:
            return self._numbers.numbers([vector], add=False) >= 0
        found = vector.valid().copy()
        if vector.pool is not None:
            if self._digest is not None and len(vector.pool):
                found &= self._digest.contains(_hashes(vector.pool))[np.maximum(vector.values, 0)]
            return found
        keys = ascending(vector.values)
        found &= (keys >= self.low) & (keys <= self.high)
        if self._digest is not None:
            found[found] = self._digest.contains(keys[found])
        return found

    def verdicts(self, found: Statistics | None, count: int) -> Verdicts:
        """Which of ``count`` units cannot hold a row with a partner, by the bounds of their values."""
        out = np.full(count, MAY_MATCH)
        if found is None:
            return out
        bounded = (found.flags & HAS_BOUNDS) != 0
        if found.min_prefix is not None and found.max_prefix is not None:
            if self._lows is not None and self._highs is not None:
                low, high = (_texts(prefix) for prefix in (found.min_prefix, found.max_prefix))
                out[bounded & ~_meets(self._lows, self._highs, low, high)] = CANNOT_MATCH
        elif found.min is not None and found.max is not None:
            least, most = ascending(found.min), ascending(found.max)
            meets = (least <= self.high) & (most >= self.low)
            if self._lows is not None and self._highs is not None:
                meets &= _meets(self._lows, self._highs, least, most)
            out[bounded & ~meets & ((found.flags & HAS_NAN) == 0)] = CANNOT_MATCH
        out[found.null_count == found.row_count] = CANNOT_MATCH
        return out


#: Of rows that are looked at first, the part with a partner above which looking at the others does not pay.
_PASSING_MAX = 0.8


class KeyFilter:
    """The rows of a scan that may have a partner, looked for before their other columns are read.

    Where nearly all of the first rows have one the rest is not looked at; whoever asks from several threads asks alone at first.
    """

    def __init__(self, domains: Sequence[KeyDomain]) -> None:
        self._domains = domains
        self._asked = False

    def filtered(self, rows: RowSet) -> RowSet:
        """The rows that may have a partner, or all."""
        kept = rows
        for domain in self._domains:
            if kept.count == 0:
                break
            kept = kept.select(domain.contains(kept.read(domain.column)))
        if not self._asked and rows.count:
            self._asked = True
            if kept.count > _PASSING_MAX * rows.count:
                self._domains = ()
        return kept


def _meets(lows: NDArray[Any], highs: NDArray[Any], low: NDArray[np.generic], high: NDArray[np.generic]) -> BoolArray:
    """Which of the ranges [low, high] meet one of the ascending ranges of keys."""
    found: BoolArray = np.searchsorted(highs, low, "left") < np.searchsorted(lows, high, "right")
    return found


def _hashes(pool: Pool) -> IntArray:
    """A 64-bit hash of each string of a pool."""
    hashes = np.empty(len(pool), np.uint64)
    hash_strings(pool.offsets, pool.data, hashes)
    return hashes.view(np.int64)


def _prefixes(pool: Pool) -> NDArray[np.bytes_]:
    """The first bytes of each string of a pool."""
    words = np.empty((2, len(pool)), np.uint64)
    prefix_keys(pool.offsets, pool.data, np.arange(len(pool), dtype=np.int32), *words, np.empty(len(pool), np.uint8))
    return _texts(np.ascontiguousarray(words.T).astype(">u8").view(np.uint8))


def _texts(prefixes: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Prefixes as byte strings, which compare as if they were padded with zeros."""
    made: NDArray[np.bytes_] = np.ascontiguousarray(prefixes).view(f"S{PREFIX_BYTES}").reshape(-1)
    return made


class _Digest:
    """A Bloom filter of integers."""

    def __init__(self, keys: IntArray) -> None:
        bits = 1 << int(np.ceil(np.log2(len(keys) * _DIGEST_BITS)))
        self._mask = np.uint64(bits - 1)
        held = np.zeros(bits, np.bool_)
        for places in self._places(keys):
            held[places] = True
        self._bits = np.packbits(held, bitorder="little")

    def _places(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        mixed = keys.view(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX  # floats often differ in their upper bits only
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        return ((mixed >> np.uint64(32)) & self._mask).view(np.int64), (mixed & self._mask).view(np.int64)

    def contains(self, keys: IntArray) -> BoolArray:
        """Keys that may be among them."""
        found = np.ones(len(keys), np.bool_)
        for places in self._places(keys):
            found &= (self._bits[places >> 3] >> (places & 7).astype(np.uint8)) & np.uint8(1) != 0
        return found
