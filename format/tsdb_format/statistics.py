"""Column statistics of units of rows (pages, chunks, the file): computed when a file is written, used in place when it is read.

Rules, so that a reader can prune by them without error:

* NULL and NaN never enter bounds. HAS_NAN says that there is one. A unit without any other value has no HAS_BOUNDS.
* −0.0 counts as 0.0, and bounds hold +0.0.
* Integers (also DATE, TIMESTAMP, BOOLEAN as 0 and 1) are widened to int64, FLOAT to float64; both exactly.
* HAS_SUM: of integers, the exact sum fits int64; of floats, the sum is finite. Floats are added in row order within a page, page
  sums in order within a chunk, chunk sums in order within the file.
* ``first`` and ``last`` are the unit's first and last non-NULL value in row order, NaN and −0.0 as they are.
* STRING bounds are the first 16 bytes, zero-padded. Padding keeps the order (never reverses it), so that for every value the padded
  prefix lies within them. MIN_EXACT and MAX_EXACT say that the bound is the value itself once trailing zero bytes are taken off.
* BLOB and VECTOR have NULL counts only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import ByteArray, IntArray

HAS_BOUNDS = 1
HAS_SUM = 2
HAS_NAN = 4
MIN_EXACT = 8
MAX_EXACT = 16
HAS_EDGES = 32  # first and last: the unit has a non-NULL value
#: Bits that version 1 defines.
FLAGS_KNOWN = 63
#: Bytes of a string that its bounds keep.
PREFIX_BYTES = 16


@dataclass(slots=True)
class Statistics:
    """One column at one level, one element per unit. ``min`` to ``last`` are int64 or float64, None for STRING, BLOB and VECTOR;
    prefixes are (n, 16) bytes, STRING only. An element is defined where its flag is set.
    """

    row_count: IntArray
    null_count: IntArray
    flags: ByteArray
    min: NDArray[Any] | None = None
    max: NDArray[Any] | None = None
    sum: NDArray[Any] | None = None
    first: NDArray[Any] | None = None
    last: NDArray[Any] | None = None
    min_prefix: ByteArray | None = None
    max_prefix: ByteArray | None = None

    def __len__(self) -> int:
        return len(self.null_count)

    def take(self, units: slice) -> Statistics:
        """The statistics of some of the units, as views."""
        cut = Statistics(self.row_count[units], self.null_count[units], self.flags[units])
        numbers = self.min, self.max, self.sum, self.first, self.last
        cut.min, cut.max, cut.sum, cut.first, cut.last = (None if part is None else part[units] for part in numbers)
        if self.min_prefix is not None and self.max_prefix is not None:
            cut.min_prefix, cut.max_prefix = self.min_prefix[units], self.max_prefix[units]
        return cut


def number_dtype(kind: ColumnType) -> np.dtype[Any] | None:
    """The 8-byte domain of a type's min, max, sum and edges; None where it has none."""
    if kind.kind in (Kind.FLOAT, Kind.DOUBLE):
        return np.dtype("<f8")
    return np.dtype("<i8") if kind.kind is Kind.BOOLEAN or kind.is_integer_like else None


def unit_count(page_count: int, chunk_count: int) -> int:
    """Units stored per column: pages, then chunks unless there is one page, then the file unless there is one chunk."""
    return page_count + (chunk_count if page_count > 1 else 0) + (chunk_count > 1)


def level_units(level: str, page_count: int, chunk_count: int) -> slice:
    """Where a level's units lie among a column's. A level of one unit is the same unit as the one below and is stored once."""
    if level == "page" or page_count == 1:
        return slice(0, page_count)
    if level == "chunk" or chunk_count == 1:
        return slice(page_count, page_count + chunk_count)
    return slice(page_count + chunk_count, page_count + chunk_count + 1)


def level_rows(row_count: int, unit_rows: int) -> IntArray:
    """Rows of each unit of a level whose units take ``unit_rows``, the last what is left."""
    rows = np.full(-(-row_count // unit_rows), unit_rows, np.int64)
    rows[-1] = row_count - unit_rows * (len(rows) - 1)
    return rows


def unit_rows(row_count: int, page_rows: int, pages_per_chunk: int) -> IntArray:
    """Rows of every stored unit of a column."""
    levels = [level_rows(row_count, page_rows)]
    if len(levels[0]) > 1:
        levels.append(level_rows(row_count, page_rows * pages_per_chunk))
        if len(levels[1]) > 1:
            levels.append(np.array([row_count]))
    return np.concatenate(levels)


def to_bytes(found: Statistics) -> ByteArray:
    """A column's statistics as stored: arrays end to end, 8-byte elements first, then prefixes, then flags."""
    numbers = [found.min, found.max, found.sum, found.first, found.last]
    parts: list[Any] = [found.null_count, *numbers, found.min_prefix, found.max_prefix, found.flags]
    return np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts if part is not None])


def stored_bytes(kind: ColumnType, units: int) -> int:
    """Length of a column's stored statistics."""
    width = 8 + 1 + (40 if number_dtype(kind) is not None else 0) + (2 * PREFIX_BYTES if kind.kind is Kind.STRING else 0)
    return width * units


def from_bytes(kind: ColumnType, raw: ByteArray, rows: IntArray) -> Statistics:
    """Views of stored statistics; ``raw`` is exactly ``stored_bytes`` long and aligned, ``rows`` has one element per unit."""
    units = len(rows)
    at = 8 * units
    made = Statistics(rows, raw[:at].view("<i8"), raw[len(raw) - units :])
    dtype = number_dtype(kind)
    if dtype is not None:
        numbers = raw[at : at + 40 * units].view(dtype).reshape(5, units)
        made.min, made.max, made.sum, made.first, made.last = numbers
    elif kind.kind is Kind.STRING:
        prefixes = raw[at : at + 2 * PREFIX_BYTES * units].reshape(2, units, PREFIX_BYTES)
        made.min_prefix, made.max_prefix = prefixes
    return made
