"""Blob descriptors: where a blob's bytes are and how many, known without touching them.

A cell of a BLOB column has a kind and bytes. Of kind INLINE the bytes are the payload. Of any other kind they are a ``LOCATOR``; in
a page its ``source`` numbers the file among those that the data file names, in memory ``source`` is 0 and the file's name follows
the locator (see ``located_cells``). A *payload file* holds the payloads of one or more blobs behind the header that every tsdb file
has. NULL is never a kind: a NULL blob is a cleared validity bit, and an empty blob is INLINE with no bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tsdb_format.pool import copy_strings, order_strings
from tsdb_format.vector import BoolArray, ByteArray, IntArray, Pool, Vector


class BlobKind(IntEnum):
    """Where the payload of a blob lives, as stored in files; a closed registry, never renumbered."""

    INLINE = 0  # in the page
    PACKED = 1  # in a payload file, beside others
    DEDICATED = 2  # in a payload file of its own
    EXTERNAL = 3  # a range of a file that tsdb does not own


#: Payloads up to this size belong in the page: a fetch of the page brings them along at little cost.
INLINE_BYTES_MAX = 16 * 2**10
#: Payloads above this size belong in files of their own, so that dropping one is an unlink and not a rewrite.
PACKED_BYTES_MAX = 2 * 2**20
#: First bytes of a payload file, and its suffix.
PAYLOAD_MAGIC = b"tsdbblb\n"
PAYLOAD_SUFFIX = ".blob"

#: The bytes of a cell that is not INLINE: ``source`` numbers the file, ``checksum`` is the payload's xxh3.
LOCATOR = np.dtype([("source", "<u4"), ("zero", "<u4"), ("position", "<u8"), ("size", "<u8"), ("checksum", "<u8")])


@dataclass(frozen=True, slots=True)
class BlobLimits:
    """The largest payloads that go into the page, and into a payload file with others."""

    inline_max: int = INLINE_BYTES_MAX
    packed_max: int = PACKED_BYTES_MAX


DEFAULT_LIMITS = BlobLimits()


@dataclass(frozen=True, slots=True)
class Located:
    """Payloads outside of pages: where each is, and what its bytes must be. ``file`` is a number among ``names``."""

    names: tuple[str, ...]
    file: IntArray
    position: IntArray
    size: IntArray
    checksum: NDArray[np.uint64]


def kinds_of(pool: Pool) -> ByteArray:
    """The kind of every string of a pool."""
    return np.zeros(len(pool), np.uint8) if pool.kinds is None else pool.kinds


def locate(pool: Pool, codes: NDArray[np.int64]) -> Located:
    """The payloads of cells, none of which is INLINE."""
    starts = pool.offsets[codes]
    found = locators(pool, codes)
    names = copy_strings(pool.data, starts + LOCATOR.itemsize, pool.offsets[codes + 1] - starts - LOCATOR.itemsize)
    order, fresh = order_strings(names, np.arange(len(codes), dtype=np.int32))
    file = np.empty(len(codes), np.int64)
    file[order] = np.cumsum(fresh) - 1
    texts = tuple(names.bytes_at(int(place)).decode() for place in order[fresh])
    return Located(texts, file, found["position"].astype(np.int64), found["size"].astype(np.int64), found["checksum"].copy())


def locators(pool: Pool, codes: NDArray[np.int64]) -> NDArray[np.void]:
    """The locators of cells, none of which is INLINE."""
    places = pool.offsets[codes][:, None] + np.arange(LOCATOR.itemsize)
    found: NDArray[np.void] = pool.data[places].reshape(-1).view(LOCATOR)
    return found


def located_cells(kind: BlobKind, names: Sequence[str], found: NDArray[np.void]) -> Pool:
    """Cells of payloads outside of pages: a name for each locator."""
    cells = [entry.tobytes() + name.encode() for entry, name in zip(found, names, strict=True)]
    pool = Pool.of(cells)
    return Pool(pool.offsets, pool.data, np.full(len(cells), kind, np.uint8))


def locator(position: int, size: int, checksum: int, source: int = 0) -> NDArray[np.void]:
    """One locator, as an array."""
    return np.array([(source, 0, position, size, checksum)], LOCATOR)


def is_located(vector: Vector) -> bool:
    """Whether some cell of the vector's pool is not the payload itself."""
    return vector.pool is not None and vector.pool.kinds is not None and bool(vector.pool.kinds.any())


def used_codes(vector: Vector) -> NDArray[np.int64]:
    """The codes of values that are not NULL, each once, in the order of the first row that has it."""
    codes = vector.values if vector.validity is None else vector.values[vector.validity]
    used, first = np.unique(codes, return_index=True)
    found: NDArray[np.int64] = used[np.argsort(first, kind="stable")].astype(np.int64)
    return found


def blob_sizes(vector: Vector) -> IntArray:
    """Bytes of every row's payload, known without touching it; 0 under a NULL."""
    pool = vector.pool
    assert pool is not None
    sizes = np.diff(pool.offsets)
    located: BoolArray = kinds_of(pool) != 0
    if located.any():
        places = np.flatnonzero(located)
        sizes[places] = locators(pool, places)["size"].astype(np.int64)
    found = np.zeros(len(vector), np.int64)
    valid = vector.valid()
    found[valid] = sizes[vector.values[valid]]
    return found


def of_sizes(vector: Vector) -> Vector:
    """Blobs of the same sizes, in whose place nothing is read."""
    offsets = np.zeros(len(vector) + 1, np.int64)
    np.cumsum(blob_sizes(vector), out=offsets[1:])
    data = np.zeros(int(offsets[-1]), np.uint8)  # memory that is never touched
    return Vector(vector.type, np.arange(len(vector), dtype=np.int32), vector.validity, Pool(offsets, data))


def with_paths(vector: Vector, folder: str) -> Vector:
    """The vector with absolute paths in the place of names that are relative to ``folder``."""
    pool = vector.pool
    if pool is None or pool.kinds is None or not pool.kinds.any():
        return vector
    outside = np.flatnonzero(pool.kinds)
    found = locate(pool, outside)
    paths = [os.path.join(folder, name) for name in found.names]
    entries = locators(pool, outside)
    cells = pool.tolist()
    for place, entry, file in zip(outside.tolist(), entries, found.file.tolist(), strict=True):
        cells[place] = entry.tobytes() + paths[file].encode()
    made = Pool.of(cells)
    made.kinds = pool.kinds
    return Vector(vector.type, vector.values, vector.validity, made)
