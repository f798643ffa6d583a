"""Cells of text as a column's values: exact, or refused with a status."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from tsdb.exec.kernels import text_value
from tsdb.ingest.convert import Converted, without_blanks
from tsdb.ingest.instant import BLANK, INEXACT, MALFORMED, OUTSIDE, StatusArray, TimeReading, retry_numbers
from tsdb_format.pool import copy_strings
from tsdb_format.schema import Column
from tsdb_format.types import Kind
from tsdb_format.vector import BoolArray, ByteArray, IntArray, Pool, Vector

#: Exact powers of ten in each float width, and the largest mantissa below which they give a correctly rounded result.
_EXACT = {Kind.DOUBLE: (2**53, 22), Kind.FLOAT: (2**24, 10)}
_POWERS = 10.0 ** np.arange(23)
#: Texts that stand for NULL where a column is of no text, as pandas and R write them; DOUBLE and FLOAT have a NaN of their own.
NULL_WORDS = (b"NULL", b"null", b"NA", b"N/A", b"n/a", b"NaN", b"nan", b"None", b"\\N")
_ESCAPE = re.compile(rb"\\x([0-9A-Fa-f]{2})")


@dataclass(slots=True)
class Cells:
    """Cell i is data[starts[i]:stops[i]]; an unquoted empty one has start -1."""

    data: ByteArray
    starts: IntArray
    stops: IntArray

    @classmethod
    def of(cls, texts: list[str]) -> Cells:
        """From Python strings."""
        pool = Pool.of([text.encode() for text in texts])
        return cls(pool.data, pool.offsets[:-1], pool.offsets[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: IntArray) -> Cells:
        """The cells at ``rows``."""
        return Cells(self.data, self.starts[rows], self.stops[rows])

    def validity(self) -> BoolArray | None:
        """Which cells are not NULL, as a string column sees them; None where all are."""
        filled: BoolArray = self.starts >= 0
        return None if filled.all() else filled

    def text(self, row: int) -> str:
        """One cell, for messages."""
        return self.bytes_at(row).decode("utf-8", "backslashreplace")

    def bytes_at(self, row: int) -> bytes:
        """One cell's bytes."""
        return self.data[self.starts[row] : self.stops[row]].tobytes() if self.starts[row] >= 0 else b""

    def pool(self) -> Pool:
        """The cells' strings, one per cell, in a pool of their own."""
        return copy_strings(self.data, np.ascontiguousarray(self.starts), self.stops - self.starts)


def read_cells(cells: Cells, column: Column, reading: TimeReading, *, numbers: bool) -> Converted:
    """The cells as values of the column's type; blanks and ``NULL_WORDS`` are NULL for all but strings and blobs."""
    kind = column.type.kind
    if column.type.is_time or kind is Kind.DATE:
        values, status = reading.text(column.type, cells.starts, cells.stops, cells.data, numbers=numbers)
    elif kind in (Kind.INT32, Kind.INT64):
        values, status = _integers(cells, kind)
    elif kind in _EXACT:
        return _reals(cells, column)
    elif kind is Kind.BOOLEAN:
        truth, status = np.empty(len(cells), np.bool_), np.empty(len(cells), np.uint8)
        text_value.parse_booleans(cells.starts, cells.stops, cells.data, truth, status)
        return _finished(cells, Vector(column.type, truth), status)
    elif kind is Kind.VECTOR:
        return _vectors(cells, column)
    else:
        return Converted(_strings(cells, column))
    return _finished(cells, Vector(column.type, values.astype(column.type.physical, copy=False)), status)


def _finished(cells: Cells, vector: Vector, status: StatusArray) -> Converted:
    _blank_null_words(cells, status)
    vector.validity = without_blanks(None, status)
    return Converted(vector, status if status.any() else None)


def _blank_null_words(cells: Cells, status: StatusArray) -> None:
    """Make blanks of the cells that were refused and are a word for NULL."""
    rows = np.flatnonzero(status == MALFORMED)
    lengths = cells.stops[rows] - cells.starts[rows]
    for word in NULL_WORDS if len(rows) else ():
        alike = rows[lengths == len(word)]
        found = cells.data[cells.starts[alike][:, None] + np.arange(len(word))] == np.frombuffer(word, np.uint8)
        status[alike[found.all(axis=1)]] = BLANK


def _integers(cells: Cells, kind: Kind) -> tuple[IntArray, StatusArray]:
    values, status = np.empty(len(cells), np.int64), np.empty(len(cells), np.uint8)
    if text_value.parse_numbers(cells.starts, cells.stops, cells.data, 1, 1, values, status):
        retry_numbers(cells.starts, cells.stops, cells.data, 1, 1, values, status)
    if kind is Kind.INT32:
        wild = (values > 2**31 - 1) | (values < -(2**31))
        status[wild & (status == 0)] = OUTSIDE
        values[wild] = 0
    return values, status


def _reals(cells: Cells, column: Column) -> Converted:
    values, status = np.empty(len(cells), np.float64), np.empty(len(cells), np.uint8)
    limits = _EXACT[column.type.kind]
    text_value.parse_reals(cells.starts, cells.stops, cells.data, *limits, _POWERS, values, status)
    narrow = values.astype(column.type.physical, copy=False)
    rows = np.flatnonzero(status == INEXACT)
    if len(rows):
        narrow[rows] = _exact_reals(cells.take(rows), column)
        status[rows] = 0
    return _finished(cells, Vector(column.type, narrow), status)


def _exact_reals(cells: Cells, column: Column) -> np.ndarray:
    """Numbers of more digits or larger exponents than one exact step can take, correctly rounded by Arrow's parser."""
    import pyarrow as pa
    import pyarrow.compute as pc

    pool = cells.pool()
    texts = pa.LargeStringArray.from_buffers(len(cells), pa.py_buffer(pool.offsets), pa.py_buffer(pool.data))
    plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+", "")
    wanted = pa.float64() if column.type.kind is Kind.DOUBLE else pa.float32()
    found: np.ndarray = pc.cast(plain, wanted).to_numpy(zero_copy_only=False)
    return found


def _strings(cells: Cells, column: Column) -> Vector:
    pool = cells.pool()
    if column.type.kind is Kind.BLOB and len(pool.data) and (pool.data == ord("\\")).any():
        pool = Pool.of([_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw) for raw in pool.tolist()])
    return Vector(column.type, np.arange(len(cells), dtype=np.int32), cells.validity(), pool)


def _vectors(cells: Cells, column: Column) -> Converted:
    """Lists of numbers in brackets; anything else is refused."""
    values = np.zeros((len(cells), column.type.width), np.float32)
    status = np.full(len(cells), BLANK, np.uint8)
    for row in np.flatnonzero(cells.stops > cells.starts).tolist():
        try:
            numbers = json.loads(cells.bytes_at(row))
            with np.errstate(over="raise"):
                values[row] = np.array(numbers, np.float64) if len(numbers) == column.type.width else "x"
            status[row] = 0
        except (ValueError, TypeError, FloatingPointError):
            status[row] = MALFORMED
    return _finished(cells, Vector(column.type, values), status)
