"""Binary search in a stored, sorted integer column, by the first values of its blocks."""

from __future__ import annotations

import numpy as np

from tsdb_format.encoding.page_set import PageSet
from tsdb_format.encoding.read import read_pages
from tsdb_format.kernels.read import RARE, search_words
from tsdb_format.vector import IntArray

_INT64_MAX = (1 << 63) - 1


def search_sorted(pages: PageSet, starts: IntArray, stops: IntArray, key: int, side_right: bool) -> IntArray:
    """Per range, the first row whose value is ≥ ``key`` (> ``key`` with ``side_right``), or the range's stop.

    Values must ascend within each range: a TIME column, one device's rows per range. Ranges may be empty, overlap and come in any
    order. Decodes one or two blocks a range.
    """
    key += side_right
    if key > _INT64_MAX:
        return stops.copy()
    source = pages.source or pages.prepare()
    if pages.has_compression or pages.has_nulls:
        return _search_decoded(pages, starts, stops, key)
    found = np.empty(len(starts), np.int64)
    block = np.empty(1024, np.uint64)
    code = search_words(
        source.words, source.page_offset, source.page_bytes, source.page_checksum, source.page_encoding, source.verified,
        source.row_count, source.rows_per_page, np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(stops, np.int64),
        max(key, -_INT64_MAX - 1), block, block.view(np.float64), block.view(np.float32), found,
    )  # fmt: skip
    if code < 0:
        if -(-code & 7) == RARE:
            return _search_decoded(pages, starts, stops, key)
        raise pages.failure(code)
    return found


def _search_decoded(pages: PageSet, starts: IntArray, stops: IntArray, key: int) -> IntArray:
    """The same where pages must be decoded whole: no writer of ours makes such a TIME column."""
    found = stops.copy()
    for i in np.flatnonzero(starts < stops):
        values = read_pages(pages, starts[i : i + 1], stops[i : i + 1]).values
        found[i] = starts[i] + np.searchsorted(values, key, "left")
    return found
