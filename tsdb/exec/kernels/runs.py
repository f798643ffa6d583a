"""Kernels over device runs: the rows of one device in one file, in time order, found without touching them."""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel


@kernel("(i32[in], i64[in], i64[in], i32[in], b1[in], i64[in], i64[in], i64[out], i64[out]) -> i64")
def pull(order, min_time, max_time, device, device_mask, rank, limits, cursor, out):  # type: ignore[no-untyped-def]
    """The next devices of a best-first order that can hold a wanted row.

    ``limits`` = [time low, time high, descending, threshold active, threshold key, threshold rank, stop key, count wanted, least count,
    rank counts]; keys are best-first (bitwise-not of the time when descending). ``device_mask`` is over table-wide devices and empty
    for "all". ``cursor[0]`` moves on; it becomes ``len(order)`` when no later device can qualify, and ``cursor[1]`` becomes the key of
    the device it stopped at. Writes indices into ``order``'s domain to ``out``; returns how many.
    """
    low, high, descending, active, threshold = limits[0], limits[1], limits[2], limits[3], limits[4]
    threshold_rank, stop_key, wanted, least, rank_counts = limits[5], limits[6], limits[7], limits[8], limits[9]
    count = 0
    at = cursor[0]
    while at < order.shape[0]:
        i = order[at]
        key = ~min(max_time[i], high) if descending != 0 else max(min_time[i], low)
        if active != 0 and key > threshold:
            at = order.shape[0]
            break
        if count >= wanted or (count >= least and key > stop_key):
            cursor[1] = key
            break
        at += 1
        if max_time[i] < low or min_time[i] > high:
            continue
        number = device[i]
        if device_mask.shape[0] > 0 and not device_mask[number]:
            continue
        if active != 0 and rank_counts != 0 and key == threshold and rank[number] > threshold_rank:
            continue
        out[count] = i
        count += 1
    cursor[0] = at
    return count


@kernel("(i32[in], i64[in], i64[in], i32[in], b1[in], i64, i64, i64, i64, i32[out], i64[out]) -> i64")
def witnesses(order, min_time, max_time, device, device_mask, low, high, descending, wanted, out_device, out_time):  # type: ignore[no-untyped-def]
    """The first ``wanted`` devices of a best-first order whose best row surely is in [low, high], with that row's time."""
    count = 0
    for at in range(order.shape[0]):
        if count >= wanted:
            break
        i = order[at]
        best = max_time[i] if descending != 0 else min_time[i]
        if best < low or best > high:
            continue
        number = device[i]
        if device_mask.shape[0] > 0 and not device_mask[number]:
            continue
        out_device[count] = number
        out_time[count] = best
        count += 1
    return count


@kernel("(i64[in], i64[in], i32[in], b1[in], i64, i64, i64[out], u8[out]) -> i64")
def within(min_time, max_time, device, device_mask, low, high, out, partial):  # type: ignore[no-untyped-def]
    """File devices that are wanted and whose time range meets [low, high]; ``partial`` is 1 where it also leaves it. Returns how many."""
    count = 0
    for i in range(min_time.shape[0]):
        if max_time[i] < low or min_time[i] > high:
            continue
        if device_mask.shape[0] > 0 and not device_mask[device[i]]:
            continue
        out[count] = i
        partial[count] = 1 if (min_time[i] < low or max_time[i] > high) else 0
        count += 1
    return count


@kernel("(i32[in], i64[in], i64[in], b1[out]) -> i64")
def overlapping(device, min_time, max_time, dirty):  # type: ignore[no-untyped-def]
    """Mark the runs (sorted by device, then min time) that share an instant with another run of their device. Returns how many."""
    count = 0
    first = 0  # of the current component
    reach = 0
    for i in range(device.shape[0]):
        dirty[i] = False
        if i == 0 or device[i] != device[i - 1] or min_time[i] > reach:
            first = i
            reach = max_time[i]
            continue
        reach = max(reach, max_time[i])
        if not dirty[first]:
            dirty[first] = True
            count += 1
        dirty[i] = True
        count += 1
    return count
