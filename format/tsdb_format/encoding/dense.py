"""Encode and read vectors: rows of float32 elements, plain or byte-split and compressed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb_format.encoding.chunk import EncodedChunk
from tsdb_format.encoding.compression import compress_pages, open_ranges, pack_frame
from tsdb_format.encoding.page_set import Encoding, PageSet
from tsdb_format.kernels.dense import NOT_IN_PLACE, encode_dense, locate_dense, read_dense
from tsdb_format.vector import BoolArray, IntArray, Vector

_NO_BOOLS = np.empty(0, np.bool_)
_SAMPLE_ITEMS = 16_384
#: Vectors are read whole and often: compression must save a quarter.
_COMPRESSED_SHARE_MAX = 0.75


def encode_vectors(vector: Vector, rows_per_page: int) -> EncodedChunk:
    """Encode a chunk of a VECTOR column."""
    rows, width = len(vector), vector.type.width
    validity = _NO_BOOLS if vector.validity is None else np.require(vector.validity, np.bool_, "C")
    items = np.require(vector.values, np.float32, ["C", "A"]).reshape(-1).view(np.uint32)
    planes = items[:_SAMPLE_ITEMS].view(np.uint8).reshape(-1, 4).T.tobytes()
    split = len(planes) > 0 and pack_frame(planes, _COMPRESSED_SHARE_MAX) is not None
    chunk = EncodedChunk.empty(-(-rows // rows_per_page))
    pages = len(chunk.page_offset)
    out = np.empty(3 * pages + rows // 64 + (rows * width + 1) // 2, np.uint64)
    size = encode_dense(
        items, validity, width, rows_per_page, int(Encoding.BYTE_SPLIT if split else Encoding.PLAIN),
        out, out.view(np.uint32), out.view(np.uint8), chunk.page_offset, chunk.page_bytes, chunk.page_checksum, chunk.page_encoding,
    )  # fmt: skip
    chunk.data = out[:size].view(np.uint8)
    if split:
        compress_pages(chunk, _COMPRESSED_SHARE_MAX)
    return chunk


def read_vectors(pages: PageSet, starts: IntArray, stops: IntArray) -> Vector:
    """Rows of a VECTOR column as a float32 matrix."""
    source, starts, stops = open_ranges(pages, starts, stops)
    rows, width = int(stops.sum() - starts.sum()), pages.type.width
    out = np.empty(rows * width, np.uint32)
    validity = np.empty(rows, np.bool_)
    words = source.words
    code = read_dense(words, words.view(np.uint32), words.view(np.uint8), *source[1:], width, starts, stops, out, validity)
    if code < 0:
        raise pages.failure(code)
    return Vector(pages.type, out.view(np.float32).reshape(rows, width), None if validity.all() else validity)


class VectorRows(NamedTuple):
    """Rows of a VECTOR column where they are, as spans of neighbours: ``rows[i]`` rows from item ``start[i]`` of ``items`` on.

    ``start`` is −1 where all rows of a span are NULL, and have no items. ``validity`` is of all rows, None where none is NULL.
    """

    items: NDArray[np.float32]
    start: IntArray
    rows: IntArray
    validity: BoolArray | None

    @classmethod
    def of(cls, vector: Vector) -> VectorRows:
        """All rows of a vector in memory."""
        items = np.require(vector.values, np.float32, ["C", "A"]).reshape(-1)
        return cls(items, np.zeros(1, np.int64), np.full(1, len(vector)), vector.validity)


def open_vectors(pages: PageSet, starts: IntArray, stops: IntArray) -> VectorRows:
    """Rows of a VECTOR column, verified, and in place where their pages are plain."""
    source, first, last = open_ranges(pages, starts, stops)
    count = int((-(-last // pages.rows_per_page) - first // pages.rows_per_page).sum())
    start, rows = np.empty(count, np.int64), np.empty(count, np.int64)
    validity = np.empty(int((last - first).sum()) if pages.has_nulls else 0, np.bool_)
    code = locate_dense(*source, pages.type.width, first, last, start, rows, validity)
    if code == NOT_IN_PLACE:
        return VectorRows.of(read_vectors(pages, starts, stops))
    if code < 0:
        raise pages.failure(code)
    return VectorRows(source.words.view(np.float32), start, rows, validity if pages.has_nulls else None)
