"""Kernels over units of a file's rows, device runs and pages, that ranges of rows cover wholly."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from tsdb.exec.kernels.ranges import run_at
from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], i64[in], i64[in], i64[out], i64[out], i64[out]) -> i64", small=True)
def split_by_run(row_start, starts, stops, out_starts, out_stops, out_run):
    """The ranges cut where devices change, with the device (of the file) of each piece; outputs as long as ranges + devices.

    Returns the number of pieces.
    """
    count = 0
    low = 0
    for i in range(len(starts)):
        row = starts[i]
        low = run_at(row_start, row, low)
        while row < stops[i]:
            while row_start[low + 1] <= row:
                low += 1
            end = min(stops[i], row_start[low + 1])
            out_starts[count] = row
            out_stops[count] = end
            out_run[count] = low
            count += 1
            row = end
    return count


@kernel("(i64[in], i64[in], i64[in], i64[in], i64, i64[out]) -> void", small=True)
def groups_of_pages(row_start, group_of_run, starts, stops, rows_per_page, group):
    """The group of each page that the ranges hold wholly and whose devices are all of one group; -1 for others."""
    rows = row_start[len(row_start) - 1]
    run = 0
    at = 0  # the first range that ends after the page's first row
    for page in range(len(group)):
        first = page * rows_per_page
        end = min(first + rows_per_page, rows)
        group[page] = -1
        while at < len(starts) and stops[at] <= first:
            at += 1
        if at == len(starts) or starts[at] > first:
            continue
        held = at
        reach = stops[at]
        while reach < end and held + 1 < len(starts) and starts[held + 1] == reach:
            held += 1
            reach = stops[held]
        if reach < end:
            continue
        while row_start[run + 1] <= first:
            run += 1
        found = group_of_run[run]
        other = run + 1
        while row_start[other] < end and group_of_run[other] == found:
            other += 1
        if row_start[other] >= end:
            group[page] = found
