"""Kernels over deleted ranges: per device, steps in time that say which delete reaches how far.

A device's *steps* are edges in time, ascending; a step covers the times from its edge to before the next one, the last one all
later times. ``numbers`` i32[d] are the devices that have steps, ascending, -1 standing for every device; device i of them has
the steps bounds[i]:bounds[i+1] of ``edges`` i64 and ``sequence`` i64.
"""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], i64[in], i64[in], i64[out], i64[out]) -> void", small=True)
def paint(first, stop, sequence, following, painted):  # type: ignore[no-untyped-def]
    """Give each step the sequence of the first range that covers it; ranges first[i]:stop[i] of steps come newest first.

    painted i64[steps] is 0 where nothing was painted; following i64[steps + 1] = [0, 1, …] is used up.
    """
    for i in range(len(first)):
        at = first[i]
        while True:
            root = at  # the first step from here on that is not painted
            while following[root] != root:
                root = following[root]
            while following[at] != root:
                after = following[at]
                following[at] = root
                at = after
            at = root
            if at >= stop[i]:
                break
            painted[at] = sequence[i]
            following[at] = at + 1


@kernel("(i32[in], i64) -> i64", small=True)
def position(numbers, number):  # type: ignore[no-untyped-def]
    """Where a number is among ascending ones, or -1."""
    low = 0
    high = len(numbers)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < len(numbers) and numbers[low] == number else -1


@kernel("(i64[in], i64, i64, i64) -> i64", small=True)
def last_at_or_below(edges, start, stop, time):  # type: ignore[no-untyped-def]
    """The last of edges[start:stop] that is at most ``time``, or start - 1."""
    low = start
    high = stop
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel("(i32[in], i64[in], i64[in], i64[in], i32[in], i64[in], i64[out]) -> void", small=True)
def raise_to_deleted(numbers, bounds, edges, sequence, device, time, out):  # type: ignore[no-untyped-def]
    """Raise out[row] to the sequence of the step that the row's device and time are in, also to that of every device's."""
    every = len(numbers) > 0 and numbers[0] == -1
    start, stop, at = 0, 0, -1
    wide = -1
    for row in range(len(device)):
        when = time[row]
        if row == 0 or device[row] != device[row - 1]:
            place = position(numbers, device[row])
            start = bounds[place] if place >= 0 else 0
            stop = bounds[place + 1] if place >= 0 else 0
            at = start - 1
        if start < stop:
            if at < start or edges[at] > when:
                at = last_at_or_below(edges, start, stop, when)
            elif at + 1 < stop and edges[at + 1] <= when:  # rows of a device mostly ascend
                at = last_at_or_below(edges, at + 1, stop, when)
            if at >= start and sequence[at] > out[row]:
                out[row] = sequence[at]
        if every:
            if wide < 0 or edges[wide] > when or (wide + 1 < bounds[1] and edges[wide + 1] <= when):
                wide = last_at_or_below(edges, 0, bounds[1], when)
            if wide >= 0 and sequence[wide] > out[row]:
                out[row] = sequence[wide]


@kernel("(i32[in], i64[in], i64[in], i64[in], i32[in], i64[in], i64[in], i64, b1[out]) -> void", small=True)
def mark_touched(numbers, bounds, edges, sequence, device, min_time, max_time, least, touched):  # type: ignore[no-untyped-def]
    """Set touched[run] where a step of sequence ≥ ``least`` of the run's device, or of every device, meets [min_time, max_time]."""
    every = len(numbers) > 0 and numbers[0] == -1
    for run in range(len(device)):
        for wide in range(2):
            if touched[run] or (wide == 1 and not every):
                continue
            place = 0 if wide == 1 else position(numbers, device[run])
            if place < 0:
                continue
            start, stop = bounds[place], bounds[place + 1]
            at = max(last_at_or_below(edges, start, stop, min_time[run]), start)
            while at < stop and edges[at] <= max_time[run]:
                if sequence[at] >= least:
                    touched[run] = True
                    break
                at += 1
