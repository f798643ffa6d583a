"""Commits of one row: plain values go to the log as they are, and become arrays, many rows at once, when somebody asks for them.

Who writes row by row gives the same columns again and again. A ``RowShape`` is what all such rows have in common, worked out once:
where values go in a record of the log, whose bytes are those that ``log_record.encode`` makes of the same row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table
from tsdb.storage.arrange import arrange_whole
from tsdb.storage.batch import RowBatch
from tsdb.storage.log_record import COLUMN, HAS_NULLS, HEAD
from tsdb.storage.log_segment import CHANGE, frame
from tsdb.storage.memory_file import MemoryRun
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME, Column, Schema
from tsdb_format.types import ColumnType, Role
from tsdb_format.vector import BoolArray, Pool, Vector, null_vector

#: Bytes of a row's texts up to which it is written this way.
TEXT_BYTES_MAX = 4_096
#: Layouts that a shape keeps, one for each combination of lengths of texts.
_LAYOUTS_MAX = 1_024
#: Part of a record in which a column is that has a value for each row.
_ROWS = 2
#: A device number, padded, and where its only row starts and stops.
_DEVICE = struct.Struct("<i4xqq")
_FORMATS = {np.dtype(np.int64): "q", np.dtype(np.float64): "d", np.dtype(np.int32): "i4x", np.dtype(np.bool_): "?7x"}
_FIRST = np.zeros(1, np.int32)


class RowShape:
    """Rows that give the same columns: ``columns`` of the table, in any order; those that ``nulls`` names are NULL in all of them.

    Values are physical ones, bytes for texts, or None.
    """

    def __init__(self, schema: Schema, columns: Sequence[Column], nulls: frozenset[str]) -> None:
        #: The columns of the table.
        self.columns = schema.columns
        given = {column.name: place for place, column in enumerate(columns)}
        self._tags = _picking([given.get(column.name, -1) for column in schema.tags])
        self._stored = [column for column in schema if column.role in (Role.TIME, Role.FIELD) and column.name in given]
        self._values = _picking([given[column.name] for column in self._stored])
        self._nulls = nulls
        self._texts = tuple(at for at, column in enumerate(self._stored) if column.type.is_pooled and column.name not in nulls)
        self._time = given[schema.time.name]
        self._packed = tuple(at for at, column in enumerate(self._stored) if column.name not in nulls)
        #: Where the values of a row hold a column, by its name.
        self.place = {column.name: at for at, column in enumerate(self._stored)}
        self._layouts: dict[tuple[int, ...], tuple[bytes, struct.Struct]] = {}

    def row(self, given: Sequence[Any]) -> Row | None:
        """The row of these values, one for each column of the shape; None where it is not to be written this way."""
        given = (*given, None)  # for tags that are not given
        values = self._values(given)
        packed: Sequence[Any] = values
        lengths: tuple[int, ...] = ()
        if self._texts:
            lengths = tuple([len(values[at]) for at in self._texts])
            if sum(lengths) > TEXT_BYTES_MAX:
                return None
            packed = [
                part for at in self._packed for part in ((len(values[at]), values[at]) if at in self._texts else (values[at],))
            ]
        elif self._nulls:
            packed = [values[at] for at in self._packed]
        columns, vectors = self._layouts.get(lengths) or self._layout(lengths)
        try:
            content = vectors.pack(*packed)
        except struct.error:  # a number too large for its column
            return None
        return Row(self, self._tags(given), given[self._time], values, columns, content)

    def _layout(self, lengths: tuple[int, ...]) -> tuple[bytes, struct.Struct]:
        """The entries of the columns in a record, and how their values lie there, where texts are so long."""
        sizes = dict(zip(self._texts, lengths, strict=True))
        columns, vectors = b"", "<"
        for at, column in enumerate(self._stored):
            is_null, is_text, size = column.name in self._nulls, column.type.is_pooled, sizes.get(at, 0)
            columns += COLUMN.pack(column.id, column.type.kind, _ROWS | HAS_NULLS * is_null, 0, int(is_text), size)
            if is_null:  # a value and its validity, and the offsets of an empty text
                vectors += "32x" if is_text else "16x"
            else:  # of a text: its code, the offsets, the bytes
                vectors += f"16xq{size}s{-size % 8}x" if is_text else _FORMATS[column.type.physical]
        if len(self._layouts) >= _LAYOUTS_MAX:
            self._layouts.clear()
        found = self._layouts[lengths] = columns, struct.Struct(vectors)
        return found


def _picking(places: list[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What takes the values at some places."""
    return itemgetter(*places) if len(places) > 1 else lambda values: tuple([values[place] for place in places])


@dataclass(slots=True, eq=False)
class Row:
    """One row to commit: its tags, as the table has them, its time, and its ``values``, time and fields in the table's order."""

    shape: RowShape
    tags: tuple[Any, ...]
    time: int
    values: tuple[Any, ...]
    _columns: bytes
    _vectors: bytes
    #: Where it belongs, from ``place``: the table's id and number of devices, and the row's device.
    _table: int = -1
    _devices: int = 0
    number: int = -1

    def place(self, table: Table, devices: DeviceTable, number: int) -> None:
        """Say where the row belongs, before anything is made of it."""
        self._table, self._devices, self.number = table.id, devices.count, number

    @property
    def nbytes(self) -> int:
        """About the memory that it takes."""
        return 512 + 32 * len(self.values) + len(self._vectors)

    def record(self, sequence: int, synced: int) -> bytearray:
        """The row as a record of the log, as ``Change.record``."""
        head = HEAD.pack(self._table, self._devices, 0, 0, 1, 1, 0, len(self.values))
        return frame(CHANGE, sequence, synced, (head, self._columns, _DEVICE.pack(self.number, 0, 1), self._vectors))


def run_of(table: Table, rows: Sequence[tuple[int, Row]], devices: DeviceTable) -> MemoryRun:
    """Committed rows, each with its commit's number, as one sorted run."""
    shapes = {row.shape for _, row in rows}
    columns: dict[str, Sequence[Vector]] = {}
    for column in table.schema:
        places = {shape: shape.place.get(column.name) for shape in shapes}
        if any(place is not None for place in places.values()):
            found = [None if (place := places[row.shape]) is None else row.values[place] for _, row in rows]
            columns[column.name] = (plain_vector(column.type, found),)
    columns[SEQUENCE_NAME] = (Vector(SEQUENCE_COLUMN.type, np.array([sequence for sequence, _ in rows], np.int64)),)
    numbers = np.array([row.number for _, row in rows], np.int32)
    return MemoryRun(table, arrange_whole(RowBatch(table.schema, len(rows), columns), numbers, devices, table.options.mode))


def plain_vector(kind: ColumnType, values: list[Any]) -> Vector:
    """Physical values, bytes for texts, None for NULL, as a vector."""
    if None not in values:
        return _texts(kind, values, None) if kind.is_pooled else Vector(kind, np.array(values, kind.physical))
    validity = np.array([value is not None for value in values], np.bool_)
    if not validity.any():
        return null_vector(kind, len(values))
    if kind.is_pooled:
        return _texts(kind, [b"" if value is None else value for value in values], validity)
    return Vector(kind, np.array([0 if value is None else value for value in values], kind.physical), validity)


def _texts(kind: ColumnType, texts: list[bytes], validity: BoolArray | None) -> Vector:
    if len(texts) == 1:
        pool = Pool(np.array([0, len(texts[0])], np.int64), np.frombuffer(bytearray(texts[0]), np.uint8))
        return Vector(kind, _FIRST, validity, pool)
    known: dict[bytes, int] = {}
    codes = [known.setdefault(text, len(known)) for text in texts]
    return Vector(kind, np.array(codes, np.int32), validity, Pool.of(list(known)))
