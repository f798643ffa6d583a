"""Blobs as files: handles that read a part of one, and what a write takes in the place of bytes.

A handle is made from a blob's descriptor; its bytes are read when they are asked for. It holds the snapshot that it comes from, so
that its file stays until it is closed or forgotten.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tsdb_format.blob import BlobKind, locate, used_codes
from tsdb_format.errors import Closed, Corruption, InvalidInput
from tsdb_format.payload import PayloadFiles
from tsdb_format.vector import Vector

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class ExternalBlob:
    """Bytes of a file that is not the database's, as a blob: only where they are is stored, and they are never deleted.

    ``size`` None means up to the file's end. Their checksum is taken when they are written, and verified when they are read.
    """

    path: str | os.PathLike[str]
    position: int = 0
    size: int | None = None


class BlobFile(io.RawIOBase):
    """One blob, to be read as a binary file; closes itself at the end of a ``with``. ``size`` and ``kind`` are known unread.

    What is read as a whole is verified by its checksum, parts of it are not.
    """

    def __init__(self, data: bytes | None, place: Place | None = None, held: object = None) -> None:
        """Of bytes, or of those in a file; ``held`` is kept until the handle is closed."""
        super().__init__()
        self._data = data
        self._place = place
        self._held = held
        self._at = 0
        self.size: int = len(data) if data is not None else place.size if place is not None else 0

    @property
    def kind(self) -> str:
        """Where the bytes are: INLINE, PACKED, DEDICATED or EXTERNAL."""
        return BlobKind.INLINE.name if self._place is None else self._place.kind.name

    def read_range(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``position``; the place of the file does not change. Raises Corruption, NotFound."""
        if self.closed:
            raise Closed("the blob was closed")
        if position < 0 or size < 0:
            raise InvalidInput(f"a blob has no {size} bytes from {position}")
        stop = min(position + size, self.size)
        if self._place is None:
            return (self._data or b"")[position:stop]
        out = np.empty(max(stop - position, 0), np.uint8)
        self._place.read(position, out)
        return out.tobytes()

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there are bytes; how many."""
        found = self.read_range(self._at, len(memoryview(buffer).cast("B")))
        memoryview(buffer).cast("B")[: len(found)] = found
        self._at += len(found)
        return len(found)

    def readall(self) -> bytes:
        """All from here on, verified where that is the whole blob."""
        if self._at or self._place is None:
            found = self.read_range(self._at, self.size)
        else:
            if self.closed:
                raise Closed("the blob was closed")
            out, at = bytearray(self.size), 0
            for part in self._place.verified():
                out[at : at + len(part)] = part.data
                at += len(part)
            found = bytes(out)
        self._at = max(self._at, self.size)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, counted from the start, from here or from the end; the place."""
        if self.closed:
            raise Closed("the blob was closed")
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}.get(whence)
        if start is None or start + offset < 0:
            raise InvalidInput(f"a blob of {self.size:,} bytes has no place {offset:,} ({whence})")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """The place that is read next."""
        return self._at

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def close(self) -> None:
        """Let go of the snapshot."""
        self._held = self._place = self._data = None
        super().close()

    def __repr__(self) -> str:
        return f"BlobFile({'closed' if self.closed else self.kind}, size={self.size:,})"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a payload is."""

    files: PayloadFiles
    name: str
    kind: BlobKind
    position: int
    size: int
    checksum: int

    def read(self, position: int, out: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Fill ``out`` with the payload's bytes from ``position`` on."""
        if self.files.open(self.name).read(self.position + position, [out]) < len(out):
            raise Corruption("the file ends before a blob in it does", path=self.files.path(self.name), offset=self.position)

    def verified(self) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
        """All of it, part by part."""
        return self.files.verified_parts(self.name, self.position, self.size, self.checksum)


def handles(vector: Vector, table: TableSnapshot) -> list[BlobFile | None]:
    """A handle for every row's blob of a table, given as a cell; None for NULL."""
    pool, files = vector.pool, table.payloads
    assert pool is not None
    places: dict[int, Place] = {}
    if files is not None and pool.kinds is not None:
        used = used_codes(vector)
        outside = used[pool.kinds[used] != BlobKind.INLINE]
        found = locate(pool, outside)
        numbers = zip(found.file.tolist(), found.position.tolist(), found.size.tolist(), found.checksum.tolist(), strict=True)
        for code, kind, (file, position, size, checksum) in zip(
            outside.tolist(), pool.kinds[outside].tolist(), numbers, strict=True
        ):
            places[code] = Place(files, found.names[file], BlobKind(kind), position, size, checksum)
    made: list[BlobFile | None] = []
    for code, valid in zip(vector.values.tolist(), vector.valid().tolist(), strict=True):
        if not valid:
            made.append(None)
        elif code in places:
            made.append(BlobFile(None, places[code], table))
        else:
            made.append(BlobFile(pool.bytes_at(code)))
    return made
