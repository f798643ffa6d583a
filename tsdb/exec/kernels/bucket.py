"""Kernels over buckets of time: where a time's bucket begins and ends, and which rows of a batch fall into one cell.

A bucket is five of ``buckets`` i64: width in ticks (0: calendar), calendar months, origin, ticks of a day, and what times are
rounded to first, half away from zero (1: nothing). The origin is a tick below the width at which some bucket begins or, for a
calendar, a month (0 is January 1970). The first two and the last of int64 stand for infinite times, which are two buckets of their
own; buckets that reach beyond the finite times are cut there. Ticks of buckets are those of rounded times.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from tsdb.exec.kernels.ranges import run_at
from tsdb_format.kernels.registry import kernel

INFINITE = 2**63 - 1
#: The first and the last finite time.
FIRST, LAST = -(2**63) + 2, 2**63 - 2


@kernel("(i64) -> i64", small=True)
def month_of_day(day):
    """The month, counted from January 1970, of a day that is counted from 1970-01-01; proleptic Gregorian calendar."""
    shifted = day + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    return (year + era * 400 - 1970) * 12 + from_march + 2


@kernel("(i64) -> i64", small=True)
def day_of_month(month):
    """The first day of a month; both are counted as ``month_of_day`` counts them."""
    from_march = month - 2
    year = from_march // 12 + 1970
    from_march -= from_march // 12 * 12
    era = year // 400
    of_era = year - era * 400
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + (153 * from_march + 2) // 5 - 719_468


@kernel("(i64, i64) -> i64", small=True)
def tick_of_month(month, day_ticks):
    """The first tick of a month, cut to the finite times."""
    day = day_of_month(month)
    if day > LAST // day_ticks:
        return LAST
    return FIRST if day <= FIRST // day_ticks else day * day_ticks


@kernel("(i64, i64) -> i64", small=True)
def about(time, unit):
    """A time that is in the same bucket, with ``floor``, as the time rounded to the unit is."""
    half = unit // 2 if time >= 0 else (unit - 1) // 2
    return time + half if time <= LAST - half else LAST


@kernel("(i64, i64) -> i64", small=True)
def last_about(tick, unit):
    """The last time that rounds to less than the unit behind ``tick``, which is the last of a unit."""
    half = unit // 2 if tick >= 0 else (unit - 1) // 2
    return tick - half if FIRST + half <= tick < LAST else tick


@kernel("(i64, i64[in], i64) -> i64", small=True)
def first_tick(time, buckets, at):
    """The first tick of a time's bucket, which is described from ``buckets[at]`` on."""
    if time >= INFINITE or time < FIRST:
        return INFINITE if time >= INFINITE else -INFINITE
    time = about(time, buckets[at + 4])
    if buckets[at + 1]:
        months, origin = buckets[at + 1], buckets[at + 2]
        month = month_of_day(time // buckets[at + 3])
        return tick_of_month(month - (month - origin) % months, buckets[at + 3])
    past = (time % buckets[at] - buckets[at + 2]) % buckets[at]
    return FIRST if time < FIRST + past else time - past


@kernel("(i64, i64[in], i64) -> i64", small=True)
def last_tick(time, buckets, at):
    """The last time in a time's bucket, as ``first_tick``."""
    if time >= INFINITE or time < FIRST:
        return INFINITE if time >= INFINITE else -INFINITE
    time = about(time, buckets[at + 4])
    if buckets[at + 1]:
        months, origin = buckets[at + 1], buckets[at + 2]
        month = month_of_day(time // buckets[at + 3])
        after = tick_of_month(month - (month - origin) % months + months, buckets[at + 3])
        return LAST if after == LAST else last_about(after - 1, buckets[at + 4])
    left = buckets[at] - 1 - (time % buckets[at] - buckets[at + 2]) % buckets[at]
    return LAST if time > LAST - left else last_about(time + left, buckets[at + 4])


@kernel("(i64, i64[in]) -> i64", small=True)
def latest_tick(time, buckets):
    """The latest of the first ticks of a time's buckets."""
    found = first_tick(time, buckets, 0)
    for other in range(5, len(buckets), 5):
        found = max(found, first_tick(time, buckets, other))
    return found


@kernel("(i64[in], i64[in], i64, i64[out]) -> void", small=True)
def first_ticks(times, buckets, at, out):
    """``first_tick`` of each time; with ``at`` < 0 ``latest_tick``."""
    for i in range(len(times)):
        out[i] = first_tick(times[i], buckets, at) if at >= 0 else latest_tick(times[i], buckets)


@kernel("(i64[in], i64[in], i64[in], i64[in], i64[out], i64[out], i64[out]) -> i64", small=True)
def segments(piece_stop, piece_group, times, buckets, stop, group, start):
    """Cut a batch into segments: rows of one group that share every bucket. Returns how many.

    The batch's rows come in pieces: rows up to ``piece_stop`` of one device, times ascending, of group ``piece_group``. A segment
    gets the row that it ends before, its group and the latest first tick of its buckets, 0 without ``buckets``. Outputs have room
    for as many segments as there are rows or, without buckets, pieces.
    """
    count = 0
    at = 0
    if len(buckets) == 0:
        for piece in range(len(piece_stop)):
            if count == 0 or group[count - 1] != piece_group[piece]:
                group[count] = piece_group[piece]
                start[count] = 0
                count += 1
            stop[count - 1] = piece_stop[piece]
        return count
    low, last = np.int64(1), np.int64(0)  # the bucket at hand: empty
    width = buckets[0] if len(buckets) == 5 and buckets[4] == 1 else 0  # of buckets that follow one another
    for piece in range(len(piece_stop)):
        end = piece_stop[piece]
        while at < end:
            time = times[at]
            if FIRST <= low <= last < time and last <= LAST - width and time <= last + width:
                low, last = last + 1, last + width
            elif not low <= time <= last:
                low, last = first_tick(time, buckets, 0), last_tick(time, buckets, 0)
                for other in range(5, len(buckets), 5):
                    low = max(low, first_tick(time, buckets, other))
                    last = min(last, last_tick(time, buckets, other))
            step = 1  # rows before at are in the bucket, those from end on are not looked at
            inside = at
            while inside + step < end and times[inside + step] <= last:
                inside += step
                step *= 2
            outside = min(inside + step, end)
            while inside + 1 < outside:
                middle = (inside + outside) // 2
                if times[middle] <= last:
                    inside = middle
                else:
                    outside = middle
            at = inside + 1
            if count == 0 or group[count - 1] != piece_group[piece] or start[count - 1] != low:
                group[count] = piece_group[piece]
                start[count] = low
                count += 1
            stop[count - 1] = at
    return count


@kernel("(i64[in], i64[in], i64[in], i64[in], i64[out], i64[out]) -> i64", small=True)
def pieces(row_start, starts, stops, group_of_run, piece_stop, piece_group):
    """The pieces (see ``segments``) of the rows of a file's ranges; ``group_of_run`` by its devices. Returns how many.

    Outputs have room for as many as there are ranges and devices together.
    """
    count = 0
    rows = 0
    low = 0
    device = -1
    for i in range(len(starts)):
        row = starts[i]
        low = run_at(row_start, row, low)
        while row < stops[i]:
            while row_start[low + 1] <= row:
                low += 1
            end = min(stops[i], row_start[low + 1])
            rows += end - row
            if low != device:
                device = low
                piece_group[count] = group_of_run[low]
                count += 1
            piece_stop[count - 1] = rows
            row = end
    return count


@kernel("(i64[in], i32[in], i64[in], i64[in], i64[in], i64[in], i64[in], i64[in], i64[out], i64[out], i64[out]) -> i64", small=True)
def indexed_segments(row_start, device, group_of, min_time, max_time, buckets, starts, stops, stop, group, start):
    """The segments (see ``segments``) of the rows of a file's ranges, if its time index has each device's in one bucket.

    By devices of the file: first row, table-wide number, first and last time; the latter may be empty: not known. ``group_of`` is
    by table-wide device. Returns how many; or minus the number of pieces, of which ``stop`` and ``group`` are then.
    Outputs have room for as many as there are ranges and devices together.
    """
    count = 0
    rows = 0
    low = 0
    last = -1
    known = len(buckets) == 0 or len(min_time) > 0
    for i in range(len(starts)):
        row = starts[i]
        low = run_at(row_start, row, low)
        while row < stops[i]:
            while row_start[low + 1] <= row:
                low += 1
            end = min(stops[i], row_start[low + 1])
            rows += end - row
            row = end
            if low != last:
                last = low
                group[count] = group_of[device[low]]
                start[count] = 0
                if known and len(buckets) > 0:
                    start[count] = latest_tick(min_time[low], buckets)
                    known = latest_tick(max_time[low], buckets) == start[count]
                count += 1
            stop[count - 1] = rows
    if not known:
        return -count
    made = 0
    for k in range(count):
        if made == 0 or group[made - 1] != group[k] or start[made - 1] != start[k]:
            group[made] = group[k]
            start[made] = start[k]
            made += 1
        stop[made - 1] = stop[k]
    return made


@kernel("(i64[in], i64[in], i64, i64, i64, i64[out]) -> void", small=True)
def slots(group, start, first, width, per_group, slot):
    """The slot of each segment's cell: ``per_group`` of each group, for buckets of ``width`` ticks from ``first`` on."""
    at = np.int64(0)
    tick = first
    for k in range(len(group)):
        if start[k] != tick:  # mostly it is the next one
            at = (start[k] - first) // width
        slot[k] = group[k] * per_group + at
        at += 1
        tick = start[k] + width
