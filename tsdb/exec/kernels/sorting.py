"""Bringing a batch into storage order: by device rank, then time, then order of arrival.

Rows usually arrive in time order with the devices interleaved, or already in storage order. Both cost one pass: a counting sort by
rank gives every row its position, and only runs of a device that turn out not to ascend are sorted by time. Columns are then
*scattered* to their positions (sequential reads; the writes of one device go to the same cache line) rather than gathered.

Positions and row numbers are int32: a batch has fewer than 2^31 rows.
"""

from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel

#: Runs up to this length are sorted by insertion; longer ones are merged from such pieces.
INSERTION_ROWS_MAX = 32


@kernel("(i32[in], i64[in]) -> i64")
def order_state(rank, time):  # type: ignore[no-untyped-def]
    """2 where (rank i32[n], time i64[n]) strictly ascends, 1 where it ascends with equal neighbours, else 0."""
    state = 2
    for row in range(1, len(rank)):
        before, after = rank[row - 1], rank[row]
        if after > before:
            continue
        if after < before or time[row] < time[row - 1]:
            return 0
        if time[row] == time[row - 1]:
            state = 1
    return state


@kernel("(i32[in], i64[out]) -> void")
def count_ranks(rank, counts):  # type: ignore[no-untyped-def]
    """Add to counts i64[devices] how often each rank occurs in rank i32[n]."""
    for row in range(len(rank)):
        counts[rank[row]] += 1


@kernel("(i32[in], i64[in], i64[in], i64[out], i64[out], i32[out]) -> i64")
def place_rows(rank, time, start, cursor, last, position):  # type: ignore[no-untyped-def]
    """Give each row its position in a stable order by rank; returns what ``order_state`` would say of the rows in that order.

    rank i32[n], time i64[n]; start i64[d]: first position of each rank; cursor i64[d]: a copy of start, used up;
    last i64[d]: scratch; position i32[n]: the result.
    """
    state = 2
    for row in range(len(rank)):
        r = rank[row]
        t = time[row]
        at = cursor[r]
        if at > start[r]:
            if t < last[r]:
                state = 0
            elif t == last[r] and state == 2:
                state = 1
        cursor[r] = at + 1
        last[r] = t
        position[row] = at
    return state


@kernel("(i64[out], i32[out], i64[in], i64[out], i32[out]) -> void")
def sort_runs(time, order, bounds, time_scratch, order_scratch):  # type: ignore[no-untyped-def]
    """Sort each run [bounds[i], bounds[i+1]) of time i64[n] stably, carrying order i32[n] along. Scratch arrays are of length n."""
    for run in range(len(bounds) - 1):
        start = bounds[run]
        stop = bounds[run + 1]
        ascending = True
        for i in range(start + 1, stop):
            if time[i] < time[i - 1]:
                ascending = False
                break
        if ascending:
            continue
        for piece in range(start, stop, INSERTION_ROWS_MAX):
            end = min(piece + INSERTION_ROWS_MAX, stop)
            for i in range(piece + 1, end):
                t = time[i]
                o = order[i]
                j = i - 1
                while j >= piece and time[j] > t:
                    time[j + 1] = time[j]
                    order[j + 1] = order[j]
                    j -= 1
                time[j + 1] = t
                order[j + 1] = o
        width = INSERTION_ROWS_MAX
        while width < stop - start:
            for left in range(start, stop, 2 * width):
                middle = left + width
                if middle >= stop:
                    break
                if time[middle - 1] <= time[middle]:
                    continue
                end = min(left + 2 * width, stop)
                for i in range(left, middle):
                    time_scratch[i] = time[i]
                    order_scratch[i] = order[i]
                a = left
                b = middle
                to = left
                while a < middle:
                    if b < end and time[b] < time_scratch[a]:
                        time[to] = time[b]
                        order[to] = order[b]
                        b += 1
                    else:
                        time[to] = time_scratch[a]
                        order[to] = order_scratch[a]
                        a += 1
                    to += 1
            width *= 2


@kernel("(i32[in], i32[out]) -> void")
def invert(order, position):  # type: ignore[no-untyped-def]
    """position[order[i]] = i, both i32[n]: turns a list of rows into the position of each row, and back."""
    for i in range(len(order)):
        position[order[i]] = i


@kernel("(i64[in], i64[in], b1[out]) -> i64")
def mark_last(time, bounds, last):  # type: ignore[no-untyped-def]
    """Mark in last b1[n] the last row of every group of equal times within each run of ``bounds``; returns the number of groups."""
    groups = 0
    for run in range(len(bounds) - 1):
        stop = bounds[run + 1]
        for i in range(bounds[run], stop):
            ends = i + 1 == stop or time[i + 1] != time[i]
            last[i] = ends
            if ends:
                groups += 1
    return groups


@kernel("(b1[in], b1[in], i32[out]) -> void")
def newest_valid(last, valid, source):  # type: ignore[no-untyped-def]
    """For each group that ``last`` b1[n] ends: its newest row with valid b1[n], or its last row. source i32[groups]."""
    group = 0
    found = -1
    for i in range(len(last)):
        if valid[i]:
            found = i
        if last[i]:
            source[group] = found if found >= 0 else i
            group += 1
            found = -1


@kernel("(u64[in], i32[in], u64[out]) -> void")
def scatter_8(values, position, out):  # type: ignore[no-untyped-def]
    """out[position[i]] = values[i] for 8-byte values."""
    for i in range(len(values)):
        out[position[i]] = values[i]


@kernel("(u32[in], i32[in], u32[out]) -> void")
def scatter_4(values, position, out):  # type: ignore[no-untyped-def]
    """out[position[i]] = values[i] for 4-byte values."""
    for i in range(len(values)):
        out[position[i]] = values[i]


@kernel("(u8[in], i32[in], u8[out]) -> void")
def scatter_1(values, position, out):  # type: ignore[no-untyped-def]
    """out[position[i]] = values[i] for 1-byte values."""
    for i in range(len(values)):
        out[position[i]] = values[i]


@kernel("(i64[in], i64[in], i64[in], i64[in], i64[in], b1[out]) -> i64")
def mark_present(time, starts, stops, other, other_bounds, present):  # type: ignore[no-untyped-def]
    """Mark the rows whose time also occurs among ``other``; returns how many were not marked before.

    Run i is time[starts[i]:stops[i]] against other[other_bounds[i]:other_bounds[i+1]], both ascending. present b1[n] is added to.
    """
    found = 0
    for run in range(len(starts)):
        a = starts[run]
        stop = stops[run]
        b = other_bounds[run]
        end = other_bounds[run + 1]
        while a < stop and b < end:
            if time[a] < other[b]:
                a += 1
            elif time[a] > other[b]:
                b += 1
            else:
                if not present[a]:
                    present[a] = True
                    found += 1
                a += 1
    return found


def scatter(values: np.ndarray, position: np.ndarray, out: np.ndarray) -> None:
    """out[position] = values for any fixed-width column, by the kernel of its width."""
    if values.ndim == 1 and values.flags.c_contiguous:
        width = values.dtype.itemsize
        if width == 8:
            scatter_8(values.view(np.uint64), position, out.view(np.uint64))
            return
        if width == 4:
            scatter_4(values.view(np.uint32), position, out.view(np.uint32))
            return
        if width == 1:
            scatter_1(values.view(np.uint8), position, out.view(np.uint8))
            return
    out[position] = values
