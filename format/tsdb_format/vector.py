"""Vectors: one column of a batch in memory, as arrays.

Values under a NULL are unspecified and must never influence a result. Strings and blobs travel as codes into a pool, so that a
million rows of twelve host names are a million int32 and twelve byte strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.types import ColumnType, Kind

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
ByteArray = NDArray[np.uint8]
#: Strings from which putting something between them, and parting all at once, takes less time than cutting out each.
_PARTED_MIN = 256


@dataclass(slots=True)
class Pool:
    """Byte strings end to end: string ``i`` is ``data[offsets[i]:offsets[i + 1]]``. ``offsets`` is one longer than the pool.

    With ``kinds``, one per string, those that are not 0 tell where a blob is, and are not what it is (see ``blob``).
    """

    offsets: IntArray
    data: ByteArray
    kinds: ByteArray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> Pool:
        """Build from Python byte strings."""
        offsets = np.zeros(len(strings) + 1, np.int64)
        np.cumsum([len(s) for s in strings], out=offsets[1:])
        return cls(offsets, np.frombuffer(bytearray(b"".join(strings)), np.uint8))

    def bytes_at(self, index: int) -> bytes:
        """One byte string."""
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def tolist(self) -> list[bytes]:
        """All byte strings, in order."""
        whole = np.ascontiguousarray(self.data).data  # they may be large: nothing is copied twice
        return [bytes(whole[start:stop]) for start, stop in pairwise(self.offsets.tolist())]

    def texts(self) -> list[str]:
        """All byte strings as UTF-8, in order; raises UnicodeDecodeError."""
        if len(self) >= _PARTED_MIN:
            from tsdb_format.pool import separated

            joined = separated(self)
            if joined is not None:  # one call makes them all
                return joined.decode().split("\0")
        raw = self.data.tobytes()
        ends = pairwise(self.offsets.tolist())
        if raw.isascii():  # a byte is a character: decoded at once
            text = raw.decode("ascii")
            return [text[start:stop] for start, stop in ends]
        return [raw[start:stop].decode() for start, stop in ends]


@dataclass(slots=True)
class Vector:
    """A column of ``n`` values: ``values`` of the physical dtype, (n, width) for VECTOR; ``validity`` (n,), or None: no NULL."""

    type: ColumnType
    values: NDArray[Any]
    validity: BoolArray | None = None
    pool: Pool | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays, the pool's too."""
        size = self.values.nbytes + (0 if self.validity is None else self.validity.nbytes)
        return size + (0 if self.pool is None else self.pool.offsets.nbytes + self.pool.data.nbytes)

    def take(self, rows: NDArray[Any] | slice) -> Vector:
        """The rows at ``rows`` (indices, mask or slice), sharing the pool."""
        validity = None if self.validity is None else self.validity[rows]
        return Vector(self.type, self.values[rows], validity, self.pool)

    def valid(self) -> BoolArray:
        """The validity as an array, whether or not there are NULLs."""
        return np.ones(len(self.values), np.bool_) if self.validity is None else self.validity

    def to_physical_list(self) -> list[Any]:
        """Python values in the physical domain: int, float, bool, str, bytes, list of float, None. For small results."""
        if self.pool is not None:
            texts, codes = self._texts(self.pool)
            return texts if codes is None else _objects(texts)[codes].tolist()
        out: list[Any] = self.values.tolist()
        if self.validity is not None:
            out = [v if ok else None for v, ok in zip(out, self.validity.tolist(), strict=True)]
        return out

    def to_objects(self) -> NDArray[Any]:
        """The values of a pooled vector as an array of strings, or bytes for BLOB, and None; each one that occurs is made once."""
        assert self.pool is not None
        texts, codes = self._texts(self.pool)
        return _objects(texts) if codes is None else _objects(texts)[codes]

    def _texts(self, pool: Pool) -> tuple[list[Any], NDArray[Any] | None]:
        """Each string that occurs, or bytes for BLOB, and which of them each row has; without these where they are the rows."""
        codes = self.values if self.validity is None else np.where(self.validity, self.values, -1)
        if len(pool) > 2 * len(codes):
            from tsdb_format.pool import take_strings

            used, codes = np.unique(codes, return_inverse=True)
            absent = int(len(used) > 0 and used[0] < 0)
            pool, codes = take_strings(pool, used[absent:]), codes - absent
        texts: list[Any] = pool.texts() if self.type.kind is Kind.STRING else pool.tolist()
        if self.validity is None and len(texts) == len(codes) and bool((codes == np.arange(len(codes))).all()):
            return texts, None
        texts.append(None)  # which code -1 finds
        return texts, codes


def _objects(values: list[Any]) -> NDArray[Any]:
    held = np.empty(len(values), object)
    held[:] = values
    return held


def null_vector(kind: ColumnType, count: int) -> Vector:
    """``count`` NULLs of a type. A pool has one string, so that the codes under them name something."""
    shape = (count, kind.width) if kind.width else (count,)
    pool = Pool.of([b""]) if kind.is_pooled else None
    return Vector(kind, np.zeros(shape, kind.physical), np.zeros(count, np.bool_), pool)


def concat_pools(pools: Sequence[Pool]) -> tuple[Pool, IntArray]:
    """Join pools end to end; also the code shift to add for each. Duplicates are kept: codes are names, not an order."""
    shifts = np.zeros(len(pools) + 1, np.int64)
    np.cumsum([len(pool) for pool in pools], out=shifts[1:])
    starts = np.zeros(len(pools) + 1, np.int64)
    np.cumsum([pool.offsets[-1] - pool.offsets[0] for pool in pools], out=starts[1:])  # data may hold more than the pool's strings
    offsets = np.empty(int(shifts[-1]) + 1, np.int64)
    for pool, shift, start in zip(pools, shifts, starts, strict=False):
        offsets[shift : shift + len(pool)] = pool.offsets[:-1] - pool.offsets[0] + start
    offsets[-1] = starts[-1]
    data = np.concatenate([pool.data[pool.offsets[0] : pool.offsets[-1]] for pool in pools]) if pools else np.empty(0, np.uint8)
    kinds = None
    if any(pool.kinds is not None for pool in pools):
        kinds = np.concatenate([np.zeros(len(pool), np.uint8) if pool.kinds is None else pool.kinds for pool in pools])
    return Pool(offsets, data, kinds), shifts[:-1]


def concat(vectors: Sequence[Vector]) -> Vector:
    """Join vectors of one type end to end; pools are shared when identical, joined otherwise."""
    if len(vectors) == 1:
        return vectors[0]
    first = vectors[0]
    pool = first.pool
    values = [v.values for v in vectors]
    if pool is not None and any(v.pool is not pool for v in vectors):
        pools: list[Pool] = [v.pool for v in vectors if v.pool is not None]
        pool, shifts = concat_pools(pools)
        values = [v.values + np.int32(shift) for v, shift in zip(vectors, shifts, strict=True)]
    validity = None
    if any(v.validity is not None for v in vectors):
        validity = np.concatenate([v.valid() for v in vectors])
    return Vector(first.type, np.concatenate(values), validity, pool)
