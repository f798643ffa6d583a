"""Balls around the vectors of blocks of rows: a centroid, and a radius that no vector of the block is beyond."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel

u = np.uint64
#: Radii that are none: of a block without a vector, and of one with a component that is no finite number.
NO_VECTOR, NO_BOUND = -1.0, np.inf


@kernel("(f32[in], b1[in], i64, i64, f32[out], f64[out]) -> void")
def enclose(items, validity, width, block_rows, centroid, radius):
    """Per block the mean of its vectors that are not NULL, and a radius around it; zeros where there is no bound.

    ``items`` are the rows end to end, ``validity`` is empty where no row is NULL, ``centroid`` is ``width`` floats to a block.
    """
    rows = len(items) // width
    whole = len(validity) == 0
    total = np.empty(width, np.float64)
    for block in range(len(radius)):
        start = block * block_rows
        stop = min(start + block_rows, rows)
        total[:] = 0.0
        count = 0
        for row in range(start, stop):
            if whole or validity[row]:
                count += 1
                at = u(row * width)
                for j in range(u(width)):
                    total[j] += np.float64(items[at + j])
        middle = u(block * width)
        for j in range(u(width)):
            centroid[middle + j] = np.float32(total[j] / count) if count else np.float32(0.0)
        greatest = 0.0
        bounded = True
        for row in range(start, stop):
            if whole or validity[row]:
                square = square_distance(items, row * width, centroid, block * width, width)
                greatest = max(greatest, square)
                bounded = bounded and square < np.inf
        if count == 0:
            radius[block] = -1.0
        elif bounded:
            # As many roundings as there are components, and the root's: the true distance is not beyond.
            radius[block] = np.sqrt(greatest) * (1.0 + (width + 8) * 2.0**-52)
        else:
            radius[block] = np.inf
            for j in range(u(width)):
                centroid[middle + j] = np.float32(0.0)


@kernel("(f32[in], i64, f32[in], i64, i64) -> f64", reassociates=True)
def square_distance(items, at, others, other, width):
    """The squared distance of two vectors, in any order of addition."""
    first, second = u(at), u(other)
    total = 0.0
    for j in range(u(width)):
        step = np.float64(items[first + j]) - np.float64(others[second + j])
        total += step * step
    return total
