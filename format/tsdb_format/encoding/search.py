"""Binary search in a stored, sorted integer column."""

from __future__ import annotations

import numpy as np

from tsdb_format.encoding.page_set import PageSet
from tsdb_format.encoding.read import read_pages
from tsdb_format.vector import IntArray


def search_sorted(pages: PageSet, starts: IntArray, stops: IntArray, key: int, side_right: bool) -> IntArray:
    """Per range, the first row whose value is ≥ ``key`` (> ``key`` with ``side_right``), or the range's stop.

    Values must ascend within each range: a TIME column, one device's rows per range.
    """
    found = stops.copy()
    for i in range(len(starts)):
        if starts[i] < stops[i]:
            values = read_pages(pages, starts[i : i + 1], stops[i : i + 1]).values
            found[i] = starts[i] + np.searchsorted(values, key, "right" if side_right else "left")
    return found
