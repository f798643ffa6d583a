"""Reading the payloads of blobs that are outside of pages: those of the rows asked for, in storage order, each verified.

Payloads that lie near each other in one file are fetched by one request; the bytes between them are read and thrown away. A payload
that is damaged raises Corruption when it is asked for, and hinders no other.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from threading import Lock

import numpy as np
import xxhash

from tsdb_format.blob import PAYLOAD_MAGIC, BlobKind, Located, locate, used_codes
from tsdb_format.disk import DISK, InputFile, Storage
from tsdb_format.errors import Corruption, Error, UnsupportedFormat
from tsdb_format.kernels.text import gather_bytes
from tsdb_format.section import FORMAT_VERSION, HEADER, checksum
from tsdb_format.vector import ByteArray, IntArray, Pool, Vector

#: Payloads with at most so many bytes between them are fetched together: skipping as much costs more than reading it.
GAP_BYTES_MAX = 64 << 10
#: Bytes of one request, beyond which another is as good.
REQUEST_BYTES_MAX = 8 << 20
#: Bytes of a payload that are in memory at once while it is only verified or copied.
PART_BYTES = 1 << 20
#: Payload files that a handle keeps open.
_OPEN_MAX = 64


class PayloadFiles:
    """The payload files of a folder, and files elsewhere by their absolute paths. Threads may share it."""

    def __init__(self, folder: str, storage: Storage = DISK) -> None:
        self.folder = folder
        self.storage = storage
        self._open: dict[str, InputFile] = {}
        self._lock = Lock()

    def path(self, name: str) -> str:
        """Where a file is."""
        return os.path.join(self.folder, name)

    def open(self, name: str) -> InputFile:
        """A file; those of the folder have a good header. Raises NotFound, Corruption, UnsupportedFormat."""
        found = self._open.get(name)
        if found is None:
            found = self.storage.open(self.path(name))
            if not os.path.isabs(name):
                _check_header(self.path(name), found)
            with self._lock:
                while len(self._open) >= _OPEN_MAX:
                    del self._open[next(iter(self._open))]
                self._open[name] = found
        return found

    def read(self, located: Located, out: ByteArray, starts: IntArray) -> int:
        """Fetch payloads to their ``starts`` in ``out``, and verify them; bytes of the payloads fetched, each range once."""
        order = np.lexsort((located.size, located.position, located.file))
        same = np.zeros(len(order), np.bool_)
        for part in (located.file, located.position, located.size):
            same[1:] |= part[order[1:]] != part[order[:-1]]
        fresh = np.flatnonzero(same | (np.arange(len(order)) == 0))
        first = order[fresh]
        for request in _requests(located, first):
            self._fetch(located, request, out, starts)
        repeats = np.append(fresh[1:], len(order)) - fresh
        for place in np.flatnonzero(repeats > 1).tolist():
            once, size = int(first[place]), int(located.size[first[place]])
            for again in order[fresh[place] + 1 : fresh[place] + repeats[place]].tolist():
                out[starts[again] : starts[again] + size] = out[starts[once] : starts[once] + size]
        return int(located.size[first].sum())

    def _fetch(self, located: Located, request: Sequence[int], out: ByteArray, starts: IntArray) -> None:
        """One request: neighbours of one file, ascending."""
        name = located.names[located.file[request[0]]]
        file, path = self.open(name), self.path(name)
        parts: list[ByteArray] = []
        begin = at = int(located.position[request[0]])
        for index in request:
            position, start, size = int(located.position[index]), int(starts[index]), int(located.size[index])
            if position > at:
                parts.append(np.empty(position - at, np.uint8))
            parts.append(out[start : start + size])
            at = position + size
        found = begin + file.read(begin, parts)
        for index in request:
            position, start, size = int(located.position[index]), int(starts[index]), int(located.size[index])
            if position + size > found:
                raise Corruption("the file ends before a blob in it does", path=path, offset=position)
            if xxhash.xxh3_64_intdigest(out[start : start + size].data) != int(located.checksum[index]):
                raise Corruption("a blob's checksum does not match", path=path, offset=position)

    def parts(self, name: str, position: int, size: int) -> Iterator[ByteArray]:
        """A range of a file, a piece at a time. Raises Corruption where the file ends before."""
        file = self.open(name)
        buffer = np.empty(min(size, PART_BYTES), np.uint8)
        for at in range(position, position + size, PART_BYTES):
            piece = buffer[: min(PART_BYTES, position + size - at)]
            if file.read(at, [piece]) < len(piece):
                raise Corruption("the file ends before a blob in it does", path=self.path(name), offset=position)
            yield piece

    def verify(self, located: Located) -> Iterator[tuple[IntArray, Error]]:
        """Which of the payloads cannot be read, and why; a piece of one in memory at a time."""
        for file in np.unique(located.file).tolist():
            mine = np.flatnonzero(located.file == file)
            try:
                self.open(located.names[file])
            except Error as error:
                yield mine, error
                continue
            ranges = np.stack([located.position, located.size, located.checksum.view(np.int64)])[:, mine]
            distinct, place = np.unique(ranges, axis=1, return_inverse=True)
            for number, (position, size, digest) in enumerate(distinct.T.tolist()):
                try:
                    for _ in self.verified_parts(located.names[file], position, size, digest % 2**64):
                        pass
                except Error as error:
                    yield mine[place.reshape(-1) == number], error

    def verified_parts(self, name: str, position: int, size: int, digest: int) -> Iterator[ByteArray]:
        """A payload's bytes, piece by piece; raises Corruption at their end where they are not what they must be."""
        hasher = xxhash.xxh3_64()
        for part in self.parts(name, position, size):
            hasher.update(part.data)
            yield part
        if hasher.intdigest() != digest:
            raise Corruption("a blob's checksum does not match", path=self.path(name), offset=position)


def resolve(vector: Vector, files: PayloadFiles) -> tuple[Vector, int]:
    """The vector with payloads in its pool, and how many bytes of them were fetched. Raises Corruption, NotFound."""
    pool = vector.pool
    if pool is None or pool.kinds is None:
        return vector, 0
    used = used_codes(vector)
    outside = pool.kinds[used] != BlobKind.INLINE
    if not outside.any():
        return Vector(vector.type, vector.values, vector.validity, Pool(pool.offsets, pool.data)), 0
    inline, located = used[~outside], used[outside]
    found = locate(pool, located)
    sizes = np.concatenate([pool.offsets[inline + 1] - pool.offsets[inline], found.size])
    offsets = np.zeros(len(used) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    gather_bytes(pool.data, pool.offsets[inline], sizes[: len(inline)], data)
    count = files.read(found, data, offsets[len(inline) : -1])
    renamed = np.zeros(len(pool), np.int32)
    renamed[inline] = np.arange(len(inline))
    renamed[located] = np.arange(len(inline), len(used))
    values = np.zeros(len(vector), np.int32)
    valid = vector.valid()
    values[valid] = renamed[vector.values[valid]]
    return Vector(vector.type, values, vector.validity, Pool(offsets, data)), count


def verify_payloads(vector: Vector, files: PayloadFiles) -> Iterator[tuple[IntArray, Error]]:
    """Which rows' payloads are outside of pages and cannot be read, and why."""
    pool = vector.pool
    if pool is None or pool.kinds is None:
        return
    rows = np.flatnonzero(vector.valid())
    rows = rows[pool.kinds[vector.values[rows]] != BlobKind.INLINE]
    for places, error in files.verify(locate(pool, vector.values[rows].astype(np.int64))):
        yield rows[places], error


def _requests(located: Located, order: IntArray) -> Iterator[list[int]]:
    """Payloads, ascending by file and position, as requests."""
    request: list[int] = []
    file = begin = end = -1
    for index in order.tolist():
        position, size = int(located.position[index]), int(located.size[index])
        beside = located.file[index] == file and 0 <= position - end <= GAP_BYTES_MAX
        if request and not (beside and position + size - begin <= REQUEST_BYTES_MAX):
            yield request
            request = []
        if not request:
            file, begin = int(located.file[index]), position
        request.append(index)
        end = position + size
    if request:
        yield request


def _check_header(path: str, file: InputFile) -> None:
    raw = np.zeros(HEADER.size, np.uint8)
    if file.read(0, [raw]) < HEADER.size:
        raise Corruption("a payload file ends in its header", path=path, offset=0)
    magic, version, reserved, digest = HEADER.unpack(raw.tobytes())
    if checksum(raw[: HEADER.size - struct.calcsize("<Q")]) != digest or magic != PAYLOAD_MAGIC:
        raise Corruption("the header of a payload file is damaged", path=path, offset=0)
    if not 1 <= version <= FORMAT_VERSION or reserved:
        raise UnsupportedFormat(f"{path} has format version {version}; this build reads 1 to {FORMAT_VERSION}")
