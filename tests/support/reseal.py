"""Putting damage under valid checksums: what a buggy or hostile writer could leave, as opposed to what a disk does."""

from __future__ import annotations

import struct

import numpy as np

from tsdb_format.encoding import checksum as page_checksum
from tsdb_format.section import ENTRY, HEADER, PREFIX, TAIL, checksum


def reseal(raw: bytearray, pages: list[tuple[int, int, int]] | None = None) -> bytearray:
    """Recompute, in place, the checksums of pages (offset, bytes, place of the checksum), sections, directory, tail and header."""
    for offset, size, place in pages or []:
        struct.pack_into("<Q", raw, place, page_checksum(bytes(raw[offset : offset + size])))
    struct.pack_into("<Q", raw, 16, checksum(bytes(raw[:16])))
    tail = len(raw) - TAIL.size
    offset, size, *_ = TAIL.unpack_from(raw, tail)
    if offset + size == tail and offset >= HEADER.size and size >= PREFIX.size:
        count = PREFIX.unpack_from(raw, offset)[0]
        room = (size - PREFIX.size) // ENTRY.itemsize
        entries = np.frombuffer(raw, ENTRY, min(count, room), offset + PREFIX.size)
        for entry in entries:
            begin, length = int(entry["offset"]), int(entry["bytes"])
            if begin + length <= offset:
                entry["checksum"] = checksum(bytes(raw[begin : begin + length]))
        struct.pack_into("<Q", raw, tail + 16, checksum(bytes(raw[offset : offset + size])))
    struct.pack_into("<Q", raw, tail + 24, checksum(bytes(raw[tail : tail + 24])))
    return raw
