"""One commit to one table as the log keeps it.

The payload of a CHANGE record (see ``log_segment`` for records), little-endian::

    payload = table <u32>  first device <u32>  new devices <u32>  attribute devices <u32>
              devices <u32>  rows <u32>  deletes <u32>  columns <u32>
              column*  attribute device <i32>*  device <i32>*  row start <i64>*
              deleted device <i32>*  deleted low <i64>*  deleted high <i64>*  vector*
    column  = id <u32>  kind <u8>  part <u8>  width <u16>  strings <u32>  text bytes <u32>
    vector  = value*  valid <u8>*  string offset <i64>*  text  kind <u8>*

Each starred run is padded with zeros to a multiple of 8 bytes. Row starts are one more than the devices, and none where there are
no devices. A column's ``kind`` and ``width`` are those of its type; ``part`` is 0 for a tag of the new devices, 1 for an attribute,
2 for a value of each row, 3 for the one text that is the checkpoint of the materialized view with that ``id``; plus 4 where
``valid`` (0 or 1 for each value) follows the values; without it no value is NULL. Of STRING and BLOB the values are i32 codes, and
``strings`` + 1 offsets into the text follow; other columns have neither. With 8 more in ``part`` a kind of each string follows its
text: those that are not 0 tell where a blob is (see ``blob``), in a payload file of the table's folder or elsewhere. What is under
a NULL means nothing.

Columns and tables go by their ids, which are never used again, so that a record outlives changes of the schema; and it carries
types, so that it can be read without one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import Int32Array, compacted
from tsdb.storage.log_segment import CHANGE, frame
from tsdb_format.blob import LOCATOR, BlobKind
from tsdb_format.errors import Corruption
from tsdb_format.types import STORED_KINDS, ColumnType, Kind
from tsdb_format.vector import BoolArray, ByteArray, IntArray, Pool, Vector

#: The head of a payload, the entry of a column, and what its ``part`` says where NULLs are marked, and kinds of blobs.
HEAD = struct.Struct("<8I")
COLUMN = struct.Struct("<IBBHII")
HAS_NULLS, HAS_KINDS = 4, 8
_PADS = [bytes(-size % 8) for size in range(8)]
#: Device numbers are int32.
_DEVICES_MAX = 2**31
#: Arrays up to this size are copied into bytes of their own: joining those costs less than asking arrays for their buffers.
_SMALL_BYTES = 4_096
#: Up to so many values Python's own loops are faster than a call of numpy.
_FEW = 32
_TYPES = {int(kind): ColumnType(kind) for kind in STORED_KINDS if kind is not Kind.VECTOR}
_ITEM_BYTES = {kind: ColumnType(kind).physical.itemsize for kind in STORED_KINDS}
_BOOLEAN = int(Kind.BOOLEAN)
_POOLED = (int(Kind.STRING), int(Kind.BLOB))
_BOOL, _UINT8, _INT32, _INT64, _FLOAT32 = map(np.dtype, (np.bool_, np.uint8, np.int32, np.int64, np.float32))
_NO_DEVICES: Int32Array = np.empty(0, np.int32)
_NO_ROWS: IntArray = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One commit to one table. Every part may be empty; tables and columns go by their ids.

    ``new_devices`` devices are added from number ``first_device`` on, with one value per new device in ``device_tags`` (all tags of
    the table). ``attributes`` has values for the devices in ``attribute_devices`` (NULL sets NULL). Rows are as in ``SortedRows``:
    device ``numbers[i]`` has rows row_start[i]:row_start[i+1] of ``columns``, the time and the fields given. Of each deleted range
    ``deleted_device`` (-1: every device) loses its rows from ``deleted_low`` to ``deleted_high``, both included.
    ``checkpoints`` are texts, one value each, by the ids of views: how far these are with the commit.
    """

    table: int
    first_device: int = 0
    device_tags: dict[int, Vector] = field(default_factory=dict)
    new_devices: int = 0
    attribute_devices: Int32Array = field(default_factory=lambda: _NO_DEVICES)
    attributes: dict[int, Vector] = field(default_factory=dict)
    numbers: Int32Array = field(default_factory=lambda: _NO_DEVICES)
    row_start: IntArray = field(default_factory=lambda: np.zeros(1, np.int64))
    columns: dict[int, Vector] = field(default_factory=dict)
    deleted_device: Int32Array = field(default_factory=lambda: _NO_DEVICES)
    deleted_low: IntArray = field(default_factory=lambda: _NO_ROWS)
    deleted_high: IntArray = field(default_factory=lambda: _NO_ROWS)
    checkpoints: dict[int, Vector] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """How many rows it writes."""
        return int(self.row_start[-1])

    def record(self, sequence: int, synced: int) -> bytearray:
        """See ``encode``."""
        return encode(sequence, self, synced)


class Recorded(Protocol):
    """What the log takes: a ``Change``, or what makes the same bytes."""

    def record(self, sequence: int, synced: int) -> bytearray:
        """The commit as a record; ``synced`` as ``log_segment`` says. Raises InvalidInput where it is too large for one."""


def encode(sequence: int, change: Change, synced: int = 0) -> bytearray:
    """The commit as a record; ``synced`` as ``log_segment`` says. Raises InvalidInput where it is too large for one.

    Raises ValueError where arrays do not have the lengths or types that they must.
    """
    devices, deletes, row_start = len(change.numbers), len(change.deleted_device), change.row_start
    rows = int(row_start[-1])
    columns: list[bytes] = []
    vectors: list[bytes | memoryview] = []
    attributed = len(change.attribute_devices)
    parts = (
        (change.device_tags, change.new_devices),
        (change.attributes, attributed),
        (change.columns, rows),
        (change.checkpoints, 1),
    )
    for part, (values, count) in enumerate(parts):
        for column, vector in values.items():
            columns.append(_add_vector(vectors, column, part, vector, count))
    arrays: list[bytes | memoryview] = []
    if len(change.attribute_devices):
        _add(arrays, change.attribute_devices, 4 * len(change.attribute_devices))
    if devices:
        if row_start[0]:
            raise ValueError(f"the rows begin at {row_start[0]}")
        _add(arrays, change.numbers, 4 * devices)
        _add(arrays, row_start, 8 * devices + 8)
    if deletes:
        _add(arrays, change.deleted_device, 4 * deletes)
        _add(arrays, change.deleted_low, 8 * deletes)
        _add(arrays, change.deleted_high, 8 * deletes)
    head = HEAD.pack(change.table, change.first_device, change.new_devices, attributed, devices, rows, deletes, len(columns))
    return frame(CHANGE, sequence, synced, (head, *columns, *arrays, *vectors))


def _add(parts: list[bytes | memoryview], array: NDArray[Any], size: int) -> None:
    """Append an array of ``size`` bytes, and what it lacks to a multiple of 8."""
    if array.nbytes != size:
        raise ValueError(f"an array of {array.nbytes} bytes where {size} belong")
    parts.append(array.tobytes() if size <= _SMALL_BYTES else np.ascontiguousarray(array).data)
    if size % 8:
        parts.append(_PADS[size % 8])


def _add_vector(parts: list[bytes | memoryview], column: int, part: int, vector: Vector, count: int) -> bytes:
    """Append a vector of that many values; returns its entry among the columns."""
    kind = vector.type.kind
    if vector.pool is not None and len(vector.pool.offsets) - 1 > (count if count <= _FEW else 2 * count):
        vector = compacted(vector) if count > _FEW else _only_used(vector, vector.pool)
    width, validity, pool = vector.type.width, vector.validity, vector.pool
    if (pool is None) is (kind in _POOLED):
        raise ValueError(f"column {column} is {vector.type}, with or without a pool where it must not be")
    _add(parts, vector.values, count * _ITEM_BYTES[kind] * (width or 1))
    if validity is not None:
        part |= HAS_NULLS
        _add(parts, validity, count)
    if pool is None:
        return COLUMN.pack(column, kind, part, width, 0, 0)
    offsets = pool.offsets
    start, stop = int(offsets[0]), int(offsets[-1])
    _add(parts, offsets - start if start else offsets, 8 * len(offsets))
    _add(parts, pool.data[start:stop], stop - start)
    if pool.kinds is not None and pool.kinds.any():
        part |= HAS_KINDS
        _add(parts, pool.kinds, len(offsets) - 1)
    return COLUMN.pack(column, kind, part, width, len(offsets) - 1, stop - start)


def _only_used(vector: Vector, pool: Pool) -> Vector:
    """As ``compacted``, for a few values."""
    codes = vector.values.tolist()
    if vector.validity is not None:
        codes = [code if valid else -1 for code, valid in zip(codes, vector.validity.tolist(), strict=True)]
    used = {code: place for place, code in enumerate(dict.fromkeys(code for code in codes if code >= 0))}
    values = np.array([used.get(code, 0) for code in codes], np.int32)
    made = Pool.of([pool.bytes_at(code) for code in used] or [b""])
    if pool.kinds is not None and used:
        made.kinds = pool.kinds[list(used)]
    return Vector(vector.type, values, vector.validity, made)


def decode(payload: ByteArray | bytes, *, path: str = "", offset: int = 0) -> Change:
    """The commit that a record's payload holds; arrays are views of the payload, aligned where it is.

    Raises Corruption, with ``path`` and ``offset``, for a payload that is none, whatever its bytes.
    """
    reader = _Reader(payload)
    try:
        return reader.change()
    except _MalformedError as error:
        raise Corruption(f"a record of the log is malformed: {error}", path=path, offset=offset + reader.at) from None


class _MalformedError(Exception):
    """What is wrong with a payload."""


class _Reader:
    """Takes a payload apart, from its first byte to its last, and believes nothing of it."""

    __slots__ = ("at", "raw", "size")

    def __init__(self, payload: ByteArray | bytes) -> None:
        self.raw = payload.data if isinstance(payload, np.ndarray) else memoryview(payload)
        self.size = len(self.raw)
        self.at = 0

    def change(self) -> Change:
        """All of it."""
        if self.size < HEAD.size:
            raise _MalformedError("it has no head")
        table, first_device, new_devices, attribute_devices, devices, rows, deletes, columns = HEAD.unpack_from(self.raw)
        self.at = HEAD.size
        if columns * COLUMN.size > self.size - self.at:
            raise _MalformedError(f"it is too short for {columns} columns")
        entries = list(COLUMN.iter_unpack(self.raw[self.at : self.at + columns * COLUMN.size]))
        self.at += columns * COLUMN.size
        attributed = self.devices(attribute_devices, 0)
        numbers = self.devices(devices, 0)
        row_start = self.ascending(devices + 1, rows) if devices else np.zeros(1, np.int64)
        deleted = self.devices(deletes, -1), self.bounds(deletes), self.bounds(deletes)
        values: tuple[dict[int, Vector], ...] = {}, {}, {}, {}
        counts = new_devices, attribute_devices, rows, 1
        for column, kind, part, width, strings, text in entries:
            place = part & ~(HAS_NULLS | HAS_KINDS)
            if place > 3 or column in values[place]:
                raise _MalformedError(f"column {column} has part {part}, or is there twice")
            values[place][column] = self.vector(kind, width, counts[place], part, strings, text)
        tags, attributes, fields, checkpoints = values
        if self.at != self.size:
            raise _MalformedError("there are bytes behind its end")
        if (new_devices > 1 and not tags) or first_device + new_devices > _DEVICES_MAX:
            raise _MalformedError("it has new devices that there cannot be")
        if rows and not (fields and devices):
            raise _MalformedError("it has rows without columns or devices")
        if any(vector.type.kind is not Kind.STRING or vector.validity is not None for vector in checkpoints.values()):
            raise _MalformedError("a checkpoint is no text")
        return Change(
            table, first_device, tags, new_devices, attributed, attributes, numbers, row_start, fields, *deleted, checkpoints
        )

    def vector(self, kind: int, width: int, count: int, part: int, strings: int, text: int) -> Vector:
        """The next vector."""
        vector_type = ColumnType(Kind.VECTOR, width) if kind == Kind.VECTOR and width else _TYPES.get(kind)
        if vector_type is None or width != vector_type.width:
            raise _MalformedError(f"there is no column of type {kind}, width {width}")
        values: NDArray[Any]
        if kind == _BOOLEAN:
            values = self.flags(count)
        elif width:
            values = self.array(_FLOAT32, 4, count * width).reshape(count, width)
        else:
            values = self.array(vector_type.physical, _ITEM_BYTES[vector_type.kind], count)
        validity = self.flags(count) if part & HAS_NULLS else None
        if kind in _POOLED:
            pool = Pool(self.ascending(strings + 1, text), self.array(_UINT8, 1, text))
            _check_codes(values, validity, strings)
            if part & HAS_KINDS:
                pool.kinds = self.kinds(kind, pool)
            return Vector(vector_type, values, validity, pool)
        if strings or text or part & HAS_KINDS:
            raise _MalformedError("it has strings where there can be none")
        return Vector(vector_type, values, validity)

    def array(self, dtype: np.dtype[Any], item_bytes: int, count: int) -> NDArray[Any]:
        """The next run of values."""
        at = self.at
        size = count * item_bytes
        if size > self.size - at:
            raise _MalformedError(f"it is too short for {count:,} values")
        self.at = at + size + -size % 8
        return np.frombuffer(self.raw, dtype, count, at) if count else np.empty(0, dtype)

    def devices(self, count: int, least: int) -> Int32Array:
        """The next run of device numbers, none below ``least``."""
        if not count:
            return _NO_DEVICES
        numbers = self.array(_INT32, 4, count)
        if (min(numbers.tolist()) if count <= _FEW else int(numbers.min())) < least:
            raise _MalformedError("it names a device that there cannot be")
        return numbers

    def bounds(self, count: int) -> IntArray:
        """The next run of times."""
        return self.array(_INT64, 8, count) if count else _NO_ROWS

    def ascending(self, count: int, last: int) -> IntArray:
        """The next run of offsets, from 0 to ``last``."""
        values = self.array(_INT64, 8, count)
        if count <= _FEW:
            listed = values.tolist()
            good = listed[0] == 0 and listed[-1] == last and listed == sorted(listed)
        else:
            good = values[0] == 0 and values[-1] == last and bool((values[1:] >= values[:-1]).all())
        if not good:
            raise _MalformedError("its offsets do not ascend to where they must")
        return values

    def kinds(self, kind: int, pool: Pool) -> ByteArray:
        """The next run of kinds of blobs, each with a cell that is long enough."""
        found = self.array(_UINT8, 1, len(pool))
        outside = found != BlobKind.INLINE
        if kind != Kind.BLOB or (found > max(BlobKind)).any() or (np.diff(pool.offsets)[outside] <= LOCATOR.itemsize).any():
            raise _MalformedError("it has blobs of a kind that there cannot be")
        return found

    def flags(self, count: int) -> BoolArray:
        """The next run of truth values, each of them 0 or 1."""
        raw = self.array(_UINT8, 1, count)
        if count and (max(raw.tolist()) if count <= _FEW else int(raw.max())) > 1:
            raise _MalformedError("a truth value is neither 0 nor 1")
        return raw.view(_BOOL)


def _check_codes(codes: NDArray[Any], validity: BoolArray | None, strings: int) -> None:
    """Every code that is not under a NULL names a string."""
    if len(codes) <= _FEW:
        listed = codes.tolist()
        if validity is not None:
            listed = [code for code, valid in zip(listed, validity.tolist(), strict=True) if valid]
        good = not listed or (min(listed) >= 0 and max(listed) < strings)
    else:
        wrong = codes.view(np.uint32) >= strings  # a negative one is a large one
        good = not (wrong if validity is None else wrong & validity).any()
    if not good:
        raise _MalformedError("a string is not in its pool")
