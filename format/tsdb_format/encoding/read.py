"""Read row ranges of a stored column: one kernel call for all touched pages of a column of numbers."""

from __future__ import annotations

import numpy as np

from tsdb_format.encoding.compression import open_ranges
from tsdb_format.encoding.page_set import PageSet, Source, WordArray, item_bytes, kernel_kind
from tsdb_format.kernels.rare import fill_rare
from tsdb_format.kernels.read import read_words
from tsdb_format.recycling import recycled
from tsdb_format.types import Kind
from tsdb_format.vector import BoolArray, IntArray, Vector

_NO_BOOLS = np.empty(0, np.bool_)


def read_pages(pages: PageSet, starts: IntArray, stops: IntArray) -> Vector:
    """The rows of the given ranges, end to end.

    ``starts`` and ``stops`` are int64 row numbers of the file: ascending, non-overlapping, none empty. Raises Corruption.
    """
    kind = pages.type.kind
    if kind is Kind.STRING or kind is Kind.BLOB:
        from tsdb_format.encoding.text import read_text

        return read_text(pages, starts, stops)
    if kind is Kind.VECTOR:
        from tsdb_format.encoding.dense import read_vectors

        return read_vectors(pages, starts, stops)
    words, validity = read_numbers(pages, starts, stops)
    if kind is Kind.DOUBLE:
        return Vector(pages.type, words.view(np.float64), validity)
    if kind is Kind.FLOAT:
        return Vector(pages.type, words.astype(np.uint32).view(np.float32), validity)
    if kind is Kind.BOOLEAN:
        return Vector(pages.type, words.astype(np.bool_), validity)
    if kind is Kind.INT32 or kind is Kind.DATE:
        return Vector(pages.type, words.astype(np.int32), validity)
    return Vector(pages.type, words.view(np.int64), validity)


def read_numbers(pages: PageSet, starts: IntArray, stops: IntArray) -> tuple[WordArray, BoolArray | None]:
    """Values of the ranges' rows as 8-byte words, and their validity (None: no NULL)."""
    source, starts, stops = open_ranges(pages, starts, stops)
    rows = int(stops[0] - starts[0]) if len(starts) == 1 else int(stops.sum() - starts.sum())
    if pages.has_nulls:
        out, validity = np.zeros(rows, np.uint64), np.zeros(rows, np.bool_)
    else:
        out, validity = recycled(rows, np.uint64), _NO_BOOLS
    kind = kernel_kind(pages.type.kind)
    code = read_words(*source, kind, starts, stops, out, out.view(np.float64), out.view(np.float32), validity)
    if code < 0:
        raise pages.failure(code)
    if code & 1:
        _fill_rare(pages, source, starts, stops, out)
    return out, validity if code > 1 else None


def _fill_rare(pages: PageSet, source: Source, starts: IntArray, stops: IntArray, out: WordArray) -> None:
    code = fill_rare(
        source.words, source.words.view(np.uint8), source.page_offset, source.page_bytes, source.page_encoding, source.page_nulls,
        source.row_count, source.rows_per_page, item_bytes(pages.type.kind), starts, stops, out,
    )  # fmt: skip
    if code < 0:
        raise pages.failure(code)
