"""Writing payloads outside of pages: what is too large for a data file's pages goes to payload files beside it.

Payloads that are outside already stay where they are: the new data file names their files, and not a byte of them is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

import numpy as np
import xxhash
from numpy.typing import NDArray

from tsdb_format.blob import (
    DEFAULT_LIMITS,
    LOCATOR,
    PAYLOAD_MAGIC,
    PAYLOAD_SUFFIX,
    BlobKind,
    BlobLimits,
    Located,
    kinds_of,
    locate,
    used_codes,
)  # fmt: skip
from tsdb_format.disk import DISK, NewFile, Storage, Writable
from tsdb_format.kernels.text import gather_bytes
from tsdb_format.payload import PayloadFiles
from tsdb_format.payload_table import NOT_OWNED, Payload
from tsdb_format.section import BLOBS_VERSION, HEADER, header_bytes
from tsdb_format.vector import ByteArray, IntArray, Pool, Vector

#: Bytes of blobs that one page has in it at most; what is more, the largest first, lies outside, whatever its size.
PAGE_BLOB_BYTES_MAX = 8 * 2**20


class PayloadWriter:
    """The payloads of the data file that is being written to ``path``; leaving the block without ``keep`` removes what it wrote."""

    def __init__(self, path: str, *, moved: frozenset[str] = frozenset(), sync: bool = True, storage: Storage = DISK) -> None:
        """Payloads in files named in ``moved`` are copied, as if they were given as bytes."""
        folder, name = os.path.split(path)
        self._stem = name.removesuffix(".tsf")
        self._moved = moved
        self._sync = sync
        self._storage = storage
        self._files = PayloadFiles(folder, storage)
        self._packed: NewFile | None = None
        self._written: list[str] = []
        self._kept = False
        #: Number of each file that the data file names; their lengths, and the bytes of its blobs in them.
        self._numbers: dict[str, int] = {}
        self._bytes: list[int] = []
        self._live: list[int] = []

    def place(self, vector: Vector, limits: BlobLimits = DEFAULT_LIMITS, rows_per_page: int = 8192) -> Vector:
        """The vector with the cells that pages have: a locator's source is the number of its file."""
        pool = vector.pool
        if pool is None:
            return vector
        used = used_codes(vector)
        kinds = kinds_of(pool)[used]
        sizes = pool.offsets[used + 1] - pool.offsets[used]
        moves = (kinds == BlobKind.INLINE) & (sizes > limits.inline_max)
        inline = (kinds == BlobKind.INLINE) & ~moves
        if int(sizes[inline].max(initial=0)) * rows_per_page > PAGE_BLOB_BYTES_MAX:
            stays = np.zeros(len(pool), np.int64)
            stays[used[inline]] = sizes[inline]
            moves |= np.isin(used, _too_many(vector, stays, rows_per_page))
        if not (moves.any() or kinds.any()):
            return Vector(vector.type, vector.values, vector.validity, Pool(pool.offsets, pool.data))
        entries = np.zeros(len(used), LOCATOR)
        for place in np.flatnonzero(moves).tolist():
            raw = pool.data[pool.offsets[used[place]] : pool.offsets[used[place] + 1]]
            kinds[place], entries[place] = self._add(limits, len(raw), xxhash.xxh3_64_intdigest(raw.data), (raw,))
        outside = np.flatnonzero((kinds != BlobKind.INLINE) & ~moves)
        if len(outside):
            located = locate(pool, used[outside])
            kinds[outside], entries[outside] = self._placed(limits, located, kinds[outside])
        return _with_cells(vector, pool, used, kinds, entries)

    def _placed(self, limits: BlobLimits, located: Located, kinds: ByteArray) -> tuple[ByteArray, NDArray[np.void]]:
        """Of payloads that are outside already: their kinds and locators, after copying those that are to move."""
        stays = np.array([name not in self._moved for name in located.names])[located.file]
        numbers = np.zeros(len(located.names), np.int64)
        for file in np.unique(located.file[stays]).tolist():
            name = located.names[file]
            numbers[file] = self._number(name, NOT_OWNED if os.path.isabs(name) else self._files.open(name).size)
            ranges = np.unique(np.stack([located.position, located.size])[:, stays & (located.file == file)], axis=1)
            self._live[numbers[file]] += int(ranges[1].sum())
        entries = np.zeros(len(kinds), LOCATOR)
        entries["source"], entries["position"] = numbers[located.file], located.position
        entries["size"], entries["checksum"] = located.size, located.checksum
        copied: dict[bytes, tuple[int, NDArray[np.void]]] = {}
        for index in np.flatnonzero(~stays).tolist():
            key = entries[index].tobytes()
            if key not in copied:
                size, digest = int(located.size[index]), int(located.checksum[index])
                name, position = located.names[located.file[index]], int(located.position[index])
                copied[key] = self._add(limits, size, digest, self._files.verified_parts(name, position, size, digest))
            kinds[index], entries[index] = copied[key]
        return kinds, entries

    def _number(self, name: str, size: int) -> int:
        """The number of a file of ``size`` bytes."""
        found = self._numbers.setdefault(name, len(self._numbers))
        if found == len(self._bytes):
            self._bytes.append(size)
            self._live.append(0)
        return found

    def _add(self, limits: BlobLimits, size: int, digest: int, parts: Iterable[Writable]) -> tuple[int, NDArray[np.void]]:
        """Write a payload: its kind and its locator."""
        if size > limits.packed_max:
            name = f"{self._stem}.{len(self._written) + 1}{PAYLOAD_SUFFIX}"
            self._written.append(name)
            kind, position = BlobKind.DEDICATED, HEADER.size
            write_payload(self._files.path(name), parts, sync=self._sync, storage=self._storage)
        else:
            name = self._stem + PAYLOAD_SUFFIX
            if self._packed is None:
                self._packed = _begun(self._files.path(name), self._storage)
            kind, position = BlobKind.PACKED, self._packed.position
            for part in parts:
                self._packed.write(part)
        number = self._number(name, position + size)
        self._live[number] += size
        return kind, np.array([(number, 0, position, size, digest)], LOCATOR)[0]

    def commit(self) -> tuple[Payload, ...]:
        """Give the files their names, which the data file's own makes durable; what it is to say of them."""
        if self._packed is not None:
            name = self._stem + PAYLOAD_SUFFIX
            self._bytes[self._numbers[name]] = self._packed.position
            self._packed.commit(sync=self._sync, sync_name=False)
            self._packed = None
            self._written.append(name)
        return tuple(map(Payload, self._numbers, self._bytes, self._live))

    def keep(self) -> None:
        """The data file is there: what was written stays."""
        self._kept = True

    def __enter__(self) -> PayloadWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._kept:
            return
        if self._packed is not None:
            self._packed.__exit__(kind, error, trace)
        for name in self._written:
            with suppress(OSError):
                self._storage.remove(self._files.path(name))


def _too_many(vector: Vector, sizes: IntArray, rows_per_page: int) -> IntArray:
    """The cells that do not fit into their pages beside the others; ``sizes`` are those of cells in pages by code, else 0."""
    valid = vector.valid()
    of_row = np.where(valid, sizes[np.where(valid, vector.values, 0)], 0)
    moved: list[IntArray] = []
    for start in range(0, len(of_row), rows_per_page):
        page = of_row[start : start + rows_per_page]
        if int(page.sum()) > PAGE_BLOB_BYTES_MAX:
            order = np.argsort(page, kind="stable")
            order = order[np.cumsum(page[order]) > PAGE_BLOB_BYTES_MAX]
            moved.append(vector.values[start + order].astype(np.int64))
    return np.concatenate(moved) if moved else np.empty(0, np.int64)


def write_payload(
    path: str, parts: Iterable[Writable], *, sync: bool = True, sync_name: bool = False, storage: Storage = DISK
) -> tuple[int, int]:
    """Write a payload file of one payload: the payload's size and checksum.

    Without ``sync_name`` it is its folder's next sync that makes its name durable.
    """
    hasher, size = xxhash.xxh3_64(), 0
    with _begun(path, storage) as file:
        for part in parts:
            view = part.data if isinstance(part, np.ndarray) else memoryview(part)
            hasher.update(view)
            size += view.nbytes
            file.write(part)
        file.commit(sync=sync, sync_name=sync_name)
    return size, hasher.intdigest()


def _begun(path: str, storage: Storage) -> NewFile:
    """A payload file with its header."""
    file = NewFile(path, storage)
    try:
        file.write(header_bytes(PAYLOAD_MAGIC, BLOBS_VERSION))
    except OSError:
        file.__exit__(None, None, None)
        raise
    return file


def _with_cells(vector: Vector, pool: Pool, used: IntArray, kinds: ByteArray, entries: NDArray[np.void]) -> Vector:
    """The vector with a pool of the used cells: those in the page as they are, of the others the locators."""
    outside = kinds != BlobKind.INLINE
    inline, order = used[~outside], np.concatenate([used[~outside], used[outside]])
    sizes = np.append(pool.offsets[inline + 1] - pool.offsets[inline], np.full(int(outside.sum()), LOCATOR.itemsize))
    offsets = np.zeros(len(used) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    gather_bytes(pool.data, pool.offsets[inline], sizes[: len(inline)], data)
    data[offsets[len(inline)] :] = entries[outside].view(np.uint8)
    renamed = np.zeros(len(pool), np.int32)
    renamed[order] = np.arange(len(used))
    values, valid = np.zeros(len(vector), np.int32), vector.valid()
    values[valid] = renamed[vector.values[valid]]
    return Vector(vector.type, values, vector.validity, Pool(offsets, data, np.concatenate([kinds[~outside], kinds[outside]])))
