"""A segment of the write-ahead log: one file of checksummed records, whatever they say.

Little-endian; everything lies at multiples of 8 bytes, so that arrays in a mapped segment are used in place::

    segment = head record*                         in the folder of the log, named <first sequence, 20 digits>.log
    head    = magic <8> "tsdblog\\n"  version <u32> 1  zero <u32>  first <u64>  checksum <u64>
    record  = checksum <u64>  payload bytes <u32>  kind <u32>  sequence <u64>  synced <u64>  payload

``first`` is the sequence number of the first record. Checksums are xxh3-64: in the head of the 24 bytes before it, in a record of
all that follows it. Kinds are CHANGE (``log_record`` says what its payload is) and END, without payload, which repeats the last
number and says that nothing will follow. Payloads are multiples of 8 bytes long.

Numbers ascend by one from record to record and from segment to segment. They leave out only commits that went to files directly;
so whoever finds a number left out that the manifest does not call ``logged`` has lost a commit, or has an old manifest.

``synced`` tells how many bytes of this segment were durable when the record was written. It tells damage from an unfinished end:
a crash may leave anything of what was not synced, holes with valid records behind them too. But where a valid record says that the
bytes at a bad one were durable once, an acknowledged commit is lost. What this cannot see is damage to the very last records of a
segment that has no END: they look as if they had never been finished.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash

from tsdb_format.disk import Storage
from tsdb_format.errors import Error, InvalidInput, UnsupportedFormat
from tsdb_format.vector import ByteArray

MAGIC = b"tsdblog\n"
VERSION = 1
#: Kinds of records; the letters keep zeros and most garbage from looking like one.
CHANGE = int.from_bytes(b"CHNG", "little")
END = int.from_bytes(b"DONE", "little")
#: Bytes before the first record, and before the payload of each.
HEAD_BYTES = 32
RECORD_BYTES = 32
#: A record's length is a u32.
PAYLOAD_BYTES_MAX = 2**32 - 8
SUFFIX = ".log"
_NAME = re.compile(r"(\d{20})\.log")
_HEAD = struct.Struct("<8sIIQ")
_FRAME = struct.Struct("<IIQQ")
_RECORD = struct.Struct("<QIIQQ")
_CHECKSUM = struct.Struct("<Q")
_BLANK = bytes(RECORD_BYTES)


class Record(NamedTuple):
    """A valid record: its payload is at ``start:stop`` of the segment, where the next record begins."""

    kind: int
    sequence: int
    start: int
    stop: int


def segment_name(first: int) -> str:
    """The file name of the segment whose first record has that sequence number."""
    return f"{first:020}{SUFFIX}"


def list_segments(folder: str, storage: Storage) -> list[tuple[str, int]]:
    """Names and first sequence numbers of the segments in a folder, ascending. Raises Error where it cannot be read."""
    try:
        names = storage.list(folder)
    except OSError as error:
        raise Error(f"{folder} cannot be read: {error.strerror}") from error
    return [(name, int(found[1])) for name in names if (found := _NAME.fullmatch(name))]


def head_bytes(first: int) -> bytes:
    """The head of a new segment."""
    head = _HEAD.pack(MAGIC, VERSION, 0, first)
    return head + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(head))


def read_head(raw: memoryview, path: str) -> int | None:
    """The first sequence number in a segment's head, or None where that is damaged or not written yet.

    Raises UnsupportedFormat for a later version's.
    """
    if len(raw) < HEAD_BYTES or _CHECKSUM.unpack_from(raw, _HEAD.size)[0] != xxhash.xxh3_64_intdigest(raw[: _HEAD.size]):
        return None
    magic, version, _, first = _HEAD.unpack_from(raw)
    if magic != MAGIC:
        return None
    if version != VERSION:
        raise UnsupportedFormat(f"{path} has log format {version}; this build reads {VERSION}")
    return int(first)


def frame(kind: int, sequence: int, synced: int, parts: Sequence[bytes | memoryview] = ()) -> bytearray:
    """A record of the parts' bytes, which add up to a multiple of 8. Copies them once. Raises InvalidInput for too many."""
    record = bytearray().join((_BLANK, *parts))
    size = len(record) - RECORD_BYTES
    if size > PAYLOAD_BYTES_MAX:
        raise InvalidInput(f"a commit of {size:,} bytes is too large for the log, which takes {PAYLOAD_BYTES_MAX:,}")
    _FRAME.pack_into(record, 8, size, kind, sequence, synced)
    _CHECKSUM.pack_into(record, 0, xxhash.xxh3_64_intdigest(memoryview(record)[8:]))
    return record


def read_record(raw: memoryview, at: int) -> Record | None:
    """The record at that offset, or None where there is none, none whole, or a damaged one."""
    start = at + RECORD_BYTES
    if start > len(raw):
        return None
    checksum, size, kind, sequence, _ = _RECORD.unpack_from(raw, at)
    stop = start + size
    if not kind or size % 8 or stop > len(raw) or xxhash.xxh3_64_intdigest(raw[at + 8 : stop]) != checksum:
        return None
    return Record(kind, sequence, start, stop)


def was_durable(raw: ByteArray, at: int) -> bool:
    """Whether a valid record behind the offset says that the bytes there were durable once, so that they were damaged since."""
    words = raw[: len(raw) // 8 * 8].view(np.uint64)
    count = len(words) - RECORD_BYTES // 8 + 1
    if count <= 0:
        return False
    kind, synced = words[1 : count + 1] >> np.uint64(32), words[3 : count + 3]
    claims = ((kind == CHANGE) | (kind == END)) & (synced > at)
    claims[: at // 8] = False
    view = raw.data
    return any(read_record(view, 8 * place) is not None for place in np.flatnonzero(claims).tolist())
