"""Kernels that bring the rows of several files together: device by device, each one's runs merged by time, older versions first."""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], i64[in], i64[in], i64[in], i64[out], i64[out], i32[out], i64[out], i32[out]) -> void", small=True)
def merge_runs(time, start, stop, bounds, edges, merged, order, time_scratch, order_scratch):  # type: ignore[no-untyped-def]
    """Merge the runs of each device by time; rows of equal time keep the order of their runs.

    Run i is time[start[i]:stop[i]], ascending and not empty; device d has the runs bounds[d]:bounds[d+1], oldest first. Writes the
    times of all runs in order to merged i64[n] and the index into ``time`` of each to order i32[n]. Scratch: edges i64, one longer
    than the runs of the device with most; time_scratch i64[n] and order_scratch i32[n], needed where a device has several runs.
    """
    at = 0
    for device in range(len(bounds) - 1):
        pieces = 0  # ascending stretches of what is written: the runs, joined where one goes on after another
        for run in range(bounds[device], bounds[device + 1]):
            if pieces == 0 or time[start[run]] < merged[at - 1]:
                edges[pieces] = at
                pieces += 1
            for i in range(start[run], stop[run]):
                merged[at] = time[i]
                order[at] = i
                at += 1
        edges[pieces] = at
        while pieces > 1:
            joined = 0
            for piece in range(0, pieces, 2):
                left = edges[piece]
                edges[joined] = left
                joined += 1
                if piece + 1 < pieces:
                    merge_two(merged, order, left, edges[piece + 1], edges[piece + 2], time_scratch, order_scratch)
            edges[joined] = at
            pieces = joined


@kernel("(i64[out], i32[out], i64, i64, i64, i64[out], i32[out]) -> void", small=True)
def merge_two(time, order, left, middle, stop, time_scratch, order_scratch):  # type: ignore[no-untyped-def]
    """Merge time[left:middle] and time[middle:stop], each ascending, in place; of equal times the left one comes first."""
    low = left
    high = middle
    while low < high:  # the first on the left that has to move
        half = (low + high) // 2
        if time[half] <= time[middle]:
            low = half + 1
        else:
            high = half
    for i in range(low, middle):
        time_scratch[i] = time[i]
        order_scratch[i] = order[i]
    a = low
    b = middle
    to = low
    while a < middle:
        if b < stop and time[b] < time_scratch[a]:
            time[to] = time[b]
            order[to] = order[b]
            b += 1
        else:
            time[to] = time_scratch[a]
            order[to] = order_scratch[a]
            a += 1
        to += 1


@kernel("(i64[out], i32[in], i64[in], i64, i64[out], i32[out]) -> i64", small=True)
def number_rows(merged, order, bounds, overlay, row_start, position):  # type: ignore[no-untyped-def]
    """Give each row its place in the output: position[order[i]] for row i of merged i64[n], order i32[n].

    Device d has the rows bounds[d]:bounds[d+1]. With ``overlay`` rows of equal time share a place. Writes the first place of each
    device, and the number of places, to row_start (as long as bounds), and the time of each place to the front of ``merged``.
    """
    places = 0
    for device in range(len(bounds) - 1):
        row_start[device] = places
        for i in range(bounds[device], bounds[device + 1]):
            if overlay == 0 or places == row_start[device] or merged[i] != merged[places - 1]:
                merged[places] = merged[i]
                places += 1
            position[order[i]] = places - 1
    row_start[len(bounds) - 1] = places
    return places
