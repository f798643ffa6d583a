"""Ranges of rows as arrays, made by kernels: see ``kernels.ranges``."""

from __future__ import annotations

import numpy as np

from tsdb.exec.kernels import ranges
from tsdb_format.vector import IntArray


def rows_in(starts: IntArray, stops: IntArray) -> IntArray:
    """The rows of half-open ranges, one range after the other."""
    found = np.empty(int((stops - starts).sum()), np.int64)
    ranges.expand(starts, stops, found)
    return found
