"""Key domains: what a join has learned of its keys, asked by the scan of its other side.

The rows that a join holds are known before the other side is read, and of that a row, page or device without any of their keys
changes nothing. A domain answers for one column, by the distinct values that the held rows have there: exactly while these are few,
else by a digest that lets a few others pass (a Bloom filter, two bits a key). It never refuses what has a partner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.join_key import KeyNumbers
from tsdb.exec.order import ascending
from tsdb.exec.prune import CANNOT_MATCH, MAY_MATCH, Verdicts
from tsdb.exec.rows import RowSet
from tsdb_format.pool import take_strings
from tsdb_format.statistics import HAS_BOUNDS, HAS_NAN, PREFIX_BYTES, Statistics
from tsdb_format.vector import BoolArray, IntArray, Vector

#: Keys up to which there is a digest, and its bits per key.
DIGEST_KEYS_MAX = 4_194_304
_DIGEST_BITS = 16
_MIX = np.uint64(0x9E3779B97F4A7C15)


class KeyDomain:
    """The values of one join key on the held side, asked about ``column`` of the other.

    ``vector`` has one or more of them, NULL not among them, and may repeat some.
    """

    def __init__(self, column: str, vector: Vector, keys_max: int) -> None:
        self.column = column
        self._keys: IntArray | None = None
        self._numbers: KeyNumbers | None = None
        self._digest: _Digest | None = None
        self._prefixes: NDArray[np.bytes_] | None = None
        self.low = self.high = 0
        if vector.pool is None:
            keys = ascending(vector.values)
            self.low, self.high = int(keys.min()), int(keys.max())
            if len(keys) <= keys_max:
                self._keys = np.sort(keys)
                self._number(vector)
            elif len(keys) <= DIGEST_KEYS_MAX:
                self._digest = _Digest(keys)
        elif len(vector) <= keys_max:
            self._number(vector)
            texts = take_strings(vector.pool, vector.values).tolist()
            self._prefixes = np.sort(np.array([text[:PREFIX_BYTES] for text in texts], f"S{PREFIX_BYTES}"))

    def _number(self, vector: Vector) -> None:
        self._numbers = KeyNumbers(1)
        self._numbers.numbers([vector], add=True)

    def contains(self, vector: Vector) -> BoolArray:
        """Rows of the other side's column that may have a partner."""
        if self._numbers is not None:
            return self._numbers.numbers([vector], add=False) >= 0
        found = vector.valid().copy()
        if vector.pool is None:
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
            if self._prefixes is not None:
                low, high = (_texts(prefix) for prefix in (found.min_prefix, found.max_prefix))
                out[bounded & ~_meets(self._prefixes, low, high)] = CANNOT_MATCH
        elif found.min is not None and found.max is not None:
            least, most = ascending(found.min), ascending(found.max)
            meets = (least <= self.high) & (most >= self.low) if self._keys is None else _meets(self._keys, least, most)
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


def _meets(keys: NDArray[np.generic], low: NDArray[np.generic], high: NDArray[np.generic]) -> BoolArray:
    """Which of the ranges [low, high] hold one of the sorted keys."""
    found: BoolArray = np.searchsorted(keys, low, "left") < np.searchsorted(keys, high, "right")
    return found


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
        mixed = keys.view(np.uint64) * _MIX
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        return ((mixed >> np.uint64(32)) & self._mask).view(np.int64), (mixed & self._mask).view(np.int64)

    def contains(self, keys: IntArray) -> BoolArray:
        """Keys that may be among them."""
        found = np.ones(len(keys), np.bool_)
        for places in self._places(keys):
            found &= (self._bits[places >> 3] >> (places & 7).astype(np.uint8)) & np.uint8(1) != 0
        return found
