"""The container under every tsdb file: named arrays, each with a checksum, used in place out of a memory map.

    header (24 bytes) │ whatever the file kind puts here │ sections │ directory │ tail (40 bytes)

The directory lists the sections and carries a small JSON object of attributes. Header, tail and directory are verified when the
container is opened; a section is verified when it is first asked for, always before use. Opening costs work per section, none per
element. What a section means is its file kind's business: see ``writer`` (.tsf) and ``resource`` (.res). Bytes: ``format/SPEC.md``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tsdb_format.disk import DISK, NewFile, Storage
from tsdb_format.errors import Corruption, UnsupportedFormat
from tsdb_format.vector import ByteArray

#: The newest container version this build writes, where a file has something that readers of the older ones would get wrong: blobs
#: outside of pages. All else is written as version 1. It reads all from 1 on.
FORMAT_VERSION = 2
#: The version of files with blobs outside of pages, and of those that hold these.
BLOBS_VERSION = 2
#: Sections, pages and dictionaries start at multiples of this: the widest element is 8 bytes.
ALIGNMENT = 8

HEADER = struct.Struct("<8sIIQ")  # magic, version, reserved, xxh3 of the 16 bytes before
TAIL = struct.Struct("<QQQQ8s")  # directory offset, bytes, xxh3; xxh3 of the 24 bytes before; magic
PREFIX = struct.Struct("<IIII")  # sections, bytes of names, bytes of attributes, reserved
ENTRY = np.dtype(
    [
        ("offset", "<u8"), ("bytes", "<u8"), ("checksum", "<u8"), ("rows", "<u8"), ("columns", "<u4"), ("dtype", "u1"),
        ("zero", "u1", (3,)),
    ]
)  # fmt: skip
#: Element types by id, as stored; a closed registry, never renumbered.
DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<u1"), 2: np.dtype("<i1"), 3: np.dtype("<u2"), 4: np.dtype("<i2"), 5: np.dtype("<u4"), 6: np.dtype("<i4"),
    7: np.dtype("<u8"), 8: np.dtype("<i8"), 9: np.dtype("<f4"), 10: np.dtype("<f8"), 11: np.dtype("?"),
}  # fmt: skip
_DTYPE_IDS = {dtype: number for number, dtype in DTYPES.items()}
_ITEM_BYTES = np.array([DTYPES[i].itemsize if i in DTYPES else 0 for i in range(256)], np.uint64)


def checksum(data: bytes | NDArray[Any]) -> int:
    """XXH3-64 with seed 0, as it is of headers, directories and sections; that of pages is ``encoding.checksum``."""
    return xxhash.xxh3_64_intdigest(data if isinstance(data, bytes) else data.data)


def header_bytes(magic: bytes, version: int = 1) -> bytes:
    """The first 24 bytes of a file of that kind."""
    fields = struct.pack("<8sII", magic, version, 0)
    return fields + struct.pack("<Q", checksum(fields))


def append_sections(file: NewFile, magic: bytes, arrays: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any]) -> int:
    """Finish a file with sections, directory and tail; returns the directory's checksum, which stands for all that it lists."""
    entries = np.zeros(len(arrays), ENTRY)
    for entry, array in zip(entries, arrays.values(), strict=True):
        array = np.ascontiguousarray(array)
        file.align(ALIGNMENT)
        raw = array.reshape(-1).view(np.uint8)
        entry["offset"], entry["bytes"], entry["checksum"] = file.position, len(raw), checksum(raw)
        entry["rows"], entry["columns"] = array.shape if array.ndim == 2 else (len(array), 0)
        entry["dtype"] = _DTYPE_IDS[array.dtype]
        file.write(raw)
    file.align(ALIGNMENT)
    names = "\n".join(arrays).encode()
    text = json.dumps(attributes, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(PREFIX.size + entries.nbytes + len(names) + len(text)) % ALIGNMENT)  # a file is whole 8-byte words
    directory = PREFIX.pack(len(arrays), len(names), len(text), 0) + entries.tobytes() + names + text
    digest = checksum(directory)
    fields = struct.pack("<QQQ", file.position, len(directory), digest)
    file.write(directory)
    file.write(fields + struct.pack("<Q8s", checksum(fields), magic))
    return digest


def write_container(
    path: str,
    magic: bytes,
    arrays: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, Any],
    *,
    sync: bool = True,
    storage: Storage = DISK,
) -> int:
    """Write a file that is nothing but sections; returns its directory checksum. Raises OSError where the storage refuses."""
    with NewFile(path, storage) as file:
        file.write(header_bytes(magic))
        digest = append_sections(file, magic, arrays, attributes)
        file.commit(sync=sync)
    return digest


class Container:
    """An open container. ``digest`` is its directory checksum: equal digests mean equal sections and attributes.

    ``array(name)`` is the section of that name, in place; arrays are typed writable for the kernels' sake and must not be written.
    """

    __slots__ = ("_entries", "_index", "_verified", "attributes", "buffer", "digest", "directory_offset", "path", "version")

    def __init__(self, path: str, magic: bytes, storage: Storage = DISK) -> None:
        """Map and check a file. Raises NotFound, Corruption, UnsupportedFormat."""
        self.path = path
        self.buffer = storage.read(path)
        self._check_header(magic)
        offset, size = self._check_tail(magic)
        self.directory_offset = offset
        raw = self.buffer[offset : offset + size]
        if checksum(raw) != self.digest:
            raise self.corrupt("the directory's checksum does not match", offset)
        self._parse_directory(raw, offset)
        self._verified = bytearray(len(self._index))

    def corrupt(self, message: str, offset: int) -> Corruption:
        """The error to raise for damage found at ``offset``."""
        return Corruption(message, path=self.path, offset=offset)

    @property
    def names(self) -> tuple[str, ...]:
        """The sections' names in file order."""
        return tuple(self._index)

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def listing(self) -> Iterator[tuple[str, int, int, str, tuple[int, ...], int]]:
        """Per section: name, offset, bytes, element type, shape, checksum."""
        for name, index in self._index.items():
            offset, size, digest, _, _, dtype, _ = self._entries[index]
            yield name, offset, size, _NAMES[dtype], self.shape(name), digest

    def extent(self, name: str) -> tuple[int, int]:
        """Offset and length in bytes of a section."""
        offset, size, *_ = self._entries[self._index[name]]
        return offset, size

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a section's array, which need not be read for it. Raises Corruption where there is none."""
        _, _, _, rows, columns, *_ = self._entry(name)[1]
        return (rows, columns) if columns else (rows,)

    def array(self, name: str, dtype: str, columns: int = 0) -> NDArray[Any]:
        """A section of that element type, 2-d where ``columns`` is given; verified before it is first handed out."""
        index, (offset, size, digest, _, stored, dtype_id, _) = self._entry(name)
        if DTYPES[dtype_id] != np.dtype(dtype) or stored != columns:
            raise self.corrupt(f"section {name!r} is not of the type that belongs there", offset)
        raw = self.buffer[offset : offset + size]
        if not self._verified[index]:
            if checksum(raw) != digest:
                raise self.corrupt(f"the checksum of section {name!r} does not match", offset)
            if dtype_id == _BOOLEAN and size and int(raw.max()) > 1:
                raise self.corrupt(f"section {name!r} has a truth value beyond 1", offset)
            self._verified[index] = 1
        typed = raw.view(dtype)
        return typed.reshape(-1, columns) if columns else typed

    def verify(self) -> None:
        """Check every section's checksum. Raises Corruption."""
        for name, index in self._index.items():
            offset, size, digest, *_ = self._entries[index]
            if checksum(self.buffer[offset : offset + size]) != digest:
                raise self.corrupt(f"the checksum of section {name!r} does not match", offset)

    def _entry(self, name: str) -> tuple[int, tuple[int, int, int, int, int, int, Any]]:
        index = self._index.get(name)
        if index is None:
            raise self.corrupt(f"section {name!r} is missing", self.directory_offset)
        return index, self._entries[index]

    def _check_header(self, magic: bytes) -> None:
        if len(self.buffer) < HEADER.size + TAIL.size:
            raise self.corrupt(f"{len(self.buffer):,} bytes are too few for a {_kind(magic)} file", len(self.buffer))
        found, self.version, reserved, digest = HEADER.unpack_from(self.buffer.data)
        if checksum(self.buffer[:16]) != digest:
            raise self.corrupt(f"the header of a {_kind(magic)} file is damaged", 0)
        if found != magic:
            raise self.corrupt(f"not a {_kind(magic)} file", 0)
        if not 1 <= self.version <= FORMAT_VERSION or reserved:
            raise UnsupportedFormat(f"{self.path} has format version {self.version}; this build reads 1 to {FORMAT_VERSION}")

    def _check_tail(self, magic: bytes) -> tuple[int, int]:
        start = len(self.buffer) - TAIL.size
        offset, size, self.digest, digest, found = TAIL.unpack_from(self.buffer.data, start)
        if len(self.buffer) % ALIGNMENT or found != magic or checksum(self.buffer[start : start + 24]) != digest:
            raise self.corrupt("the tail is missing or damaged: the file was cut, or not finished", start)
        if offset < HEADER.size or offset + size != start or size < PREFIX.size:
            raise self.corrupt("the tail points outside of the file", start)
        return offset, size

    def _parse_directory(self, raw: ByteArray, start: int) -> None:
        count, names_bytes, text_bytes, reserved = PREFIX.unpack_from(raw.data)
        names_at = PREFIX.size + count * ENTRY.itemsize
        text_at = names_at + names_bytes
        if text_at + text_bytes != len(raw) or reserved:
            raise self.corrupt("the directory's lengths disagree", start)
        entries = raw[PREFIX.size : names_at].view(ENTRY)
        item = _ITEM_BYTES[entries["dtype"]]
        if not item.all() or entries["zero"].any():
            raise UnsupportedFormat(f"{self.path} has a section of an unknown element type")
        offset, size, rows = entries["offset"], entries["bytes"], entries["rows"]
        per_row = item * np.maximum(entries["columns"], 1)
        inside = (offset >= HEADER.size) & (offset <= start) & (size <= start - np.minimum(offset, start))
        if not (inside & (offset % ALIGNMENT == 0) & (size // per_row == rows) & (size % per_row == 0)).all():
            raise self.corrupt("a section lies outside of the file or has a wrong length", start)
        try:
            names = raw[names_at:text_at].tobytes().decode()
            self.attributes: dict[str, Any] = json.loads(raw[text_at:].tobytes())
        except ValueError:
            raise self.corrupt("the directory's text is malformed", start + names_at) from None
        self._entries: list[tuple[int, int, int, int, int, int, Any]] = entries.tolist()
        self._index = {name: number for number, name in enumerate(names.split("\n") if count else [])}
        if len(self._index) != count or not isinstance(self.attributes, dict):
            raise self.corrupt("the directory's names or attributes are malformed", start + names_at)


_BOOLEAN = 11
_NAMES = {number: "bool" if number == _BOOLEAN else dtype.str[1:] for number, dtype in DTYPES.items()}


def _kind(magic: bytes) -> str:
    return magic[4:].strip().decode("ascii", "replace")
