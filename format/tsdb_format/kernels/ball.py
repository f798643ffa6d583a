"""Balls around the vectors of some rows each: a centroid, and a radius that no vector is beyond."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel

u = np.uint64
#: Radii that are none: of rows without a vector, and of some with a component that is no finite number.
NO_VECTOR, NO_BOUND = -1.0, np.inf


@kernel("(i64[in], i64, i64, i64, i64[out]) -> i64")
def cut(row_start, rows_per_page, least, most, out):
    """Where balls begin, and the row count at the end; how many of these there are.

    What a device has in a page is parted into balls of at most ``most`` rows, as equal as can be. Neighbours that have less than
    ``least`` rows there are put together until they have as many.
    """
    rows = row_start[len(row_start) - 1]
    at = np.int64(0)
    count = 1
    device = 0
    out[0] = 0
    while at < rows:
        page_end = min((at // rows_per_page + 1) * rows_per_page, rows)
        while row_start[device + 1] <= at:
            device += 1
        stop = min(row_start[device + 1], page_end)
        if stop - at >= least:
            parts = (stop - at + most - 1) // most
            stop = at + (stop - at + parts - 1) // parts
        else:
            following = device + 1
            while stop < page_end and stop - at < least and min(row_start[following + 1], page_end) - stop < least:
                stop = min(row_start[following + 1], page_end)
                following += 1
        out[count] = stop
        count += 1
        at = stop
    return count


@kernel("(f32[in], b1[in], i64, i64[in], f32[out], f64[out]) -> void")
def enclose(items, validity, width, ball_start, centroid, radius):
    """Per ball the mean of its vectors that are not NULL, and a radius around it; zeros where there is no bound.

    ``items`` are the rows end to end, ``validity`` is empty where no row is NULL. Ball i is rows ``ball_start[i]`` to
    ``ball_start[i + 1]``, and gets ``width`` floats of ``centroid``.
    """
    whole = len(validity) == 0
    total = np.empty(width, np.float64)
    for ball in range(len(radius)):
        start, stop = ball_start[ball], ball_start[ball + 1]
        total[:] = 0.0
        count = 0
        for row in range(start, stop):
            if whole or validity[row]:
                count += 1
                at = u(row * width)
                for j in range(u(width)):
                    total[j] += np.float64(items[at + j])
        middle = u(ball * width)
        for j in range(u(width)):
            centroid[middle + j] = np.float32(total[j] / count) if count else np.float32(0.0)
        greatest = 0.0
        bounded = True
        for row in range(start, stop):
            if whole or validity[row]:
                square = square_distance(items, row * width, centroid, ball * width, width)
                greatest = max(greatest, square)
                bounded = bounded and square < np.inf
        if count == 0:
            radius[ball] = -1.0
        elif bounded:
            # As many roundings as there are components, and the root's: the true distance is not beyond.
            radius[ball] = np.sqrt(greatest) * (1.0 + (width + 8) * 2.0**-52)
        else:
            radius[ball] = np.inf
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
