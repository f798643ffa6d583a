"""Sums and bounds of a stored column's row ranges by segment: the numbers themselves are mostly not made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb_format.encoding.compression import open_ranges
from tsdb_format.encoding.page_set import BLOCK_ROWS, PageSet, kernel_kind
from tsdb_format.kernels import fold
from tsdb_format.kernels.page import DOUBLE
from tsdb_format.kernels.read import RARE
from tsdb_format.types import Kind
from tsdb_format.vector import IntArray

_KINDS = frozenset({Kind.DOUBLE, Kind.INT64, Kind.INT32})
#: Rows of segments on average from which this is faster than reading them.
_SEGMENT_ROWS_MIN = 64
_LIMITS = np.iinfo(np.int64)


class StoredFold(NamedTuple):
    """Per segment, as far as it was asked for: the sum, in one part (floats) or as 2**32s and ones; the least, greatest value.

    NaN is the greatest float: least is NaN only where all are, greatest wherever one is.
    """

    sum: tuple[NDArray[np.float64]] | tuple[IntArray, IntArray]
    least: NDArray[np.float64] | IntArray
    greatest: NDArray[np.float64] | IntArray


def fold_pages(pages: PageSet, starts: IntArray, stops: IntArray, segment_stop: IntArray, wants: int) -> StoredFold | None:
    """Fold the rows of the ranges, end to end, by segments: none is empty, the last ends with the rows.

    ``wants`` are bits of ``kernels.fold``; 0 asks only whether there is no NULL. None where these rows must be read: of other
    types, with NULLs, of rare encodings.
    """
    count = len(segment_stop)
    if pages.type.kind not in _KINDS or (wants and int(segment_stop[-1]) < _SEGMENT_ROWS_MIN * count):
        return None
    source, starts, stops = open_ranges(pages, starts, stops)
    if pages.has_nulls:
        return None
    kind = kernel_kind(pages.type.kind)
    numbers = np.zeros((4, count if kind == DOUBLE else 0), np.float64)
    whole = np.zeros((4, 0 if kind == DOUBLE else count), np.int64)
    numbers[1], numbers[2] = np.inf, -np.inf
    whole[2], whole[3] = _LIMITS.max, _LIMITS.min
    block = np.empty(BLOCK_ROWS, np.uint64)
    code = 0 if not wants else fold.fold_words(
        source.words, source.page_offset, source.page_bytes, source.page_checksum, source.page_encoding, source.verified,
        source.row_count, source.rows_per_page, kind, starts, stops, segment_stop, wants, block, block.view(np.float64),
        block.view(np.float32), numbers, whole,
    )  # fmt: skip
    if code < 0:
        if -(-code & 7) == RARE:
            return None
        raise pages.failure(code)
    if kind != DOUBLE:
        return StoredFold((whole[0], whole[1]), whole[2], whole[3])
    least = numbers[1]
    if wants & (fold.LEAST | fold.GREATEST) and numbers[3].any():
        least = np.where(numbers[3] == np.diff(segment_stop, prepend=0), np.nan, least)
    return StoredFold((numbers[0],), least, numbers[2])
