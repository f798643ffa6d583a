"""Kernels over pieces: stretches of some arrays that follow each other in another."""

from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel


@kernel("(u8[in], i64[in], i64[in], i64[in], u8[out]) -> void", small=True)
def move(values, starts, stops, places, out):  # type: ignore[no-untyped-def]
    """Copy the bytes starts[i] to stops[i] of ``values`` to ``out``, from places[i] on."""
    for i in range(starts.shape[0]):
        first, at = np.uint64(starts[i]), np.uint64(places[i])
        for j in range(np.uint64(stops[i] - starts[i])):  # of slices the compiler copies byte by byte
            out[at + j] = values[first + j]


@kernel("(i64[in], i64[in], i32[in], b1[in], b1[in], i32[in], i64[in], i64[in], i64[out,2]) -> i64", small=True)
def wanted(min_time, max_time, device, skip, device_mask, rank, row_start, limits, out):  # type: ignore[no-untyped-def]
    """Write down the wanted runs of a lane, which ascend by rank; returns up to where ``out`` is filled.

    ``limits`` = [time low, time high, first rank, last rank, where to begin in ``out``]. The rows of ``out`` are run, device, rank,
    first and last time, first row and the one behind the last: zeros where ``row_start`` is empty. ``rank`` is by table-wide
    device; ``device_mask`` too, and empty where all are wanted; ``skip`` marks runs of the lane that are not, or is empty.
    """
    low, high, count = limits[0], limits[1], limits[4]
    first = run_of_rank(device, rank, limits[2])
    last = run_of_rank(device, rank, limits[3] + 1)
    for i in range(first, last):
        number = device[i]
        if device_mask.shape[0] > 0 and not device_mask[number]:
            continue
        if max_time[i] < low or min_time[i] > high or (skip.shape[0] > 0 and skip[i]):
            continue
        out[0, count] = i
        out[1, count] = number
        out[2, count] = rank[number]
        out[3, count] = min_time[i]
        out[4, count] = max_time[i]
        out[5, count] = row_start[i] if row_start.shape[0] > 0 else 0
        out[6, count] = row_start[i + 1] if row_start.shape[0] > 0 else 0
        count += 1
    return count


@kernel("(i32[in], i32[in], i64) -> i64", small=True)
def run_of_rank(device, rank, wanted_rank):  # type: ignore[no-untyped-def]
    """The first run whose device has that rank or a later one; runs ascend by rank."""
    first, last = 0, device.shape[0]
    while first < last:
        middle = (first + last) // 2
        if rank[device[middle]] < wanted_rank:
            first = middle + 1
        else:
            last = middle
    return first
