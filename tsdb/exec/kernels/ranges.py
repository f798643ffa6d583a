"""Kernels over row ranges: ascending, non-overlapping, non-empty half-open pairs ``starts[i] .. stops[i]`` of one file's rows."""

from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], i64[in], i64[out]) -> void", small=True)
def expand(starts, stops, positions):  # type: ignore[no-untyped-def]
    """Write every row of the ranges, in order; ``positions`` is as long as the ranges together."""
    at = 0
    for i in range(starts.shape[0]):
        for row in range(starts[i], stops[i]):
            positions[at] = row
            at += 1


@kernel("(i64[in], i64[out], i64[out]) -> i64", small=True)
def coalesce(positions, starts, stops):  # type: ignore[no-untyped-def]
    """Ranges of ascending, distinct ``positions``; outputs as long as they. Returns the number of ranges."""
    count = 0
    for i in range(positions.shape[0]):
        row = positions[i]
        if count > 0 and stops[count - 1] == row:
            stops[count - 1] = row + 1
        else:
            starts[count] = row
            stops[count] = row + 1
            count += 1
    return count


@kernel("(i64[in], i64[in], b1[in], i64[out], i64[out]) -> i64", small=True)
def select(starts, stops, mask, out_starts, out_stops):  # type: ignore[no-untyped-def]
    """Ranges of the rows whose ``mask`` (by row, ranges end to end) is set; outputs as long as the set bits. Returns how many."""
    count = 0
    at = 0
    for i in range(starts.shape[0]):
        for row in range(starts[i], stops[i]):
            if mask[at]:
                if count > 0 and out_stops[count - 1] == row:
                    out_stops[count - 1] = row + 1
                else:
                    out_starts[count] = row
                    out_stops[count] = row + 1
                    count += 1
            at += 1
    return count


@kernel("(i64[in], i64[in], i64, u8[in], i64[out], i64[out]) -> i64", small=True)
def clip(starts, stops, rows_per_page, verdict, out_starts, out_stops):  # type: ignore[no-untyped-def]
    """The parts of the ranges in pages whose verdict is not 0; outputs as long as ranges + pages. Returns the number of ranges."""
    count = 0
    for i in range(starts.shape[0]):
        row = starts[i]
        while row < stops[i]:
            page = row // rows_per_page
            end = min(stops[i], (page + 1) * rows_per_page)
            if verdict[page] != 0:
                if count > 0 and out_stops[count - 1] == row:
                    out_stops[count - 1] = end
                else:
                    out_starts[count] = row
                    out_stops[count] = end
                    count += 1
            row = end
    return count


@kernel("(i64[in], i64[in], i64, i64[out], i64[out], i64[out]) -> i64", small=True)
def split_by_page(starts, stops, rows_per_page, out_starts, out_stops, out_page):  # type: ignore[no-untyped-def]
    """The ranges cut at page boundaries, with the page of each piece; outputs as long as ranges + pages. Returns their number."""
    count = 0
    for i in range(starts.shape[0]):
        row = starts[i]
        while row < stops[i]:
            page = row // rows_per_page
            end = min(stops[i], (page + 1) * rows_per_page)
            out_starts[count] = row
            out_stops[count] = end
            out_page[count] = page
            count += 1
            row = end
    return count


@kernel("(i64[in], i64[in], i64[in], i64[out], i64[out], i64[out]) -> i64")
def split_at(starts, stops, bounds, out_starts, out_stops, out_unit):  # type: ignore[no-untyped-def]
    """The ranges (ascending) cut at ``bounds``, with the unit of each piece; as long as ranges + bounds. Returns their number.

    Unit i is rows ``bounds[i]`` to ``bounds[i + 1]``; the first bound is 0.
    """
    count = 0
    unit = 0
    for i in range(starts.shape[0]):
        row = starts[i]
        unit = run_at(bounds, row, unit)
        while row < stops[i]:
            end = min(stops[i], bounds[unit + 1])
            out_starts[count] = row
            out_stops[count] = end
            out_unit[count] = unit
            count += 1
            row = end
            unit += row == bounds[unit + 1] and row < stops[i]
    return count


@kernel("(i64[in], i64, i64) -> i64", small=True)
def run_at(row_start, row, low):  # type: ignore[no-untyped-def]
    """The file device that has a row, at or behind ``low``, which is often near."""
    high = row_start.shape[0] - 1
    step = 1
    while low + step < high and row_start[low + step] <= row:
        low += step
        step *= 2
    high = min(high, low + step)
    while high - low > 1:  # the last device that starts at or before the row
        middle = (low + high) // 2
        if row_start[middle] <= row:
            low = middle
        else:
            high = middle
    return low


@kernel("(i64[in], i32[in], i32[in], i64[in], i64[in], i32[out]) -> void", small=True)
def repeat_by_device(row_start, number, value, starts, stops, out):  # type: ignore[no-untyped-def]
    """What every row of the ranges has by its device: the table-wide ``number`` of the file's device, or the ``value`` of that.

    ``row_start`` has one more entry than there are devices; ``value`` is empty where the number itself is wanted.
    """
    at = 0
    low = 0
    for i in range(starts.shape[0]):
        row = starts[i]
        low = run_at(row_start, row, low)
        while row < stops[i]:
            while row_start[low + 1] <= row:
                low += 1
            end = min(stops[i], row_start[low + 1])
            found = number[low] if value.shape[0] == 0 else value[number[low]]
            for j in range(np.uint64(at), np.uint64(at + end - row)):
                out[j] = found
            at += end - row
            row = end


@kernel("(i64[in], i64[in], i64, i64[in], u8[out], u8[out]) -> i64", small=True)
def touch(starts, stops, rows_per_page, page_bytes, column_seen, page_seen):  # type: ignore[no-untyped-def]
    """Mark the pages that the ranges lie in; returns the stored bytes of those this column had not touched before."""
    total = 0
    last = -1
    for i in range(starts.shape[0]):
        if stops[i] <= (last + 1) * rows_per_page:  # as of many small devices
            continue
        for page in range(max(last + 1, starts[i] // rows_per_page), (stops[i] - 1) // rows_per_page + 1):
            last = page
            page_seen[page] = 1
            if column_seen[page] == 0:
                column_seen[page] = 1
                total += page_bytes[page]
    return total


@kernel("(i64[in], i64[in], i64[out], i64[out]) -> i64", small=True)
def runs_of_devices(row_start, devices, starts, stops):  # type: ignore[no-untyped-def]
    """Row ranges of the ascending file ``devices``, neighbours joined; outputs as long as they. Returns the number of ranges."""
    count = 0
    for i in range(devices.shape[0]):
        start = row_start[devices[i]]
        stop = row_start[devices[i] + 1]
        if count > 0 and stops[count - 1] == start:
            stops[count - 1] = stop
        else:
            starts[count] = start
            stops[count] = stop
            count += 1
    return count
