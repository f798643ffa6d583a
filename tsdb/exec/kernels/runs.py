"""Kernels over device runs: the rows of one device in one file, in time order, found without touching them."""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel


@kernel("(i32[in], i64[in], i64[in], i64[in], i32[in], b1[in], b1[in], i32[in], i64[in], i64[out], i64[out]) -> i64", small=True)
def pull(order, run_key, min_time, max_time, device, skip, device_mask, rank, limits, cursor, out):  # type: ignore[no-untyped-def]
    """The next runs of a best-first order that can hold a wanted row.

    ``limits`` = [time low, time high, descending, threshold active, threshold key, threshold tie, stop key, wanted, least, tie].
    A run's key is ``run_key`` or, where that is empty, its best time (bitwise-not when descending). Its tie is its device's
    ``rank`` where ``tie`` is 1, its best time where that is 2; 0: ties say nothing. ``skip`` (by run) and ``device_mask`` (by
    table-wide device) may be empty: skip none, want all. Pulls ``wanted`` runs, or fewer (``least``) once keys pass ``stop key``.
    ``cursor`` = [position, key of the run it stopped at]; the position becomes the length when nothing is left. Writes indices into
    the runs to ``out``; returns how many.
    """
    low, high, descending, active, threshold = limits[0], limits[1], limits[2], limits[3], limits[4]
    worst_tie, stop_key, wanted, least, tied = limits[5], limits[6], limits[7], limits[8], limits[9]
    count = 0
    at = cursor[0]
    while at < order.shape[0]:
        i = order[at]
        if (
            (skip.shape[0] > 0 and skip[i])
            or max_time[i] < low
            or min_time[i] > high
            or (device_mask.shape[0] > 0 and not device_mask[device[i]])
        ):
            at += 1
            continue
        if run_key.shape[0] > 0:
            key = run_key[i]
        elif descending != 0:
            key = ~min(max_time[i], high)
        else:
            key = max(min_time[i], low)
        if active != 0:
            if key > threshold:
                at = order.shape[0]
                break
            if tied != 0 and key == threshold:
                tie = rank[device[i]] if tied == 1 else ~max_time[i] if descending != 0 else min_time[i]
                if tie > worst_tie:
                    if run_key.shape[0] > 0 or low <= (max_time[i] if descending != 0 else min_time[i]) <= high:
                        at = order.shape[0]  # runs of equal keys come by tie; only keys that the bounds made equal do not
                        break
                    at += 1
                    continue
        if count >= wanted or (count >= least and key > stop_key):
            cursor[1] = key
            break
        out[count] = i
        count += 1
        at += 1
    cursor[0] = at
    return count


@kernel("(i64[out], i64[out], i64, i64[in], i64, i64) -> void", small=True)
def narrow(starts, stops, rows_per_page, page_max, key, side_right):  # type: ignore[no-untyped-def]
    """Shrink each run [start, stop) so that the first row at or above ``key`` (above, with ``side_right``) is in it or at its stop.

    Rows of a run ascend in time; pages wholly inside a run are decided by their statistics alone. At most three pages stay.
    """
    for i in range(starts.shape[0]):
        if starts[i] >= stops[i]:
            continue
        low = starts[i] // rows_per_page + 1  # the pages between the first and the last are wholly inside
        high = (stops[i] - 1) // rows_per_page
        first, last = low, high
        while low < high:  # the first inside page that ends at or above the key
            middle = (low + high) // 2
            if page_max[middle] > key or (side_right == 0 and page_max[middle] == key):
                high = middle
            else:
                low = middle + 1
        if low > first:
            starts[i] = low * rows_per_page
        if low < last:
            stops[i] = (low + 1) * rows_per_page


@kernel("(i64[in], i64[in], i64[in], i64[in], i64, i64[out]) -> void", small=True)
def search(times, starts, stops, keys, side_right, found):  # type: ignore[no-untyped-def]
    """Per run the first row with time ≥ its key (> with ``side_right``), or its stop; ``times`` are the runs' times end to end."""
    base = 0
    for i in range(starts.shape[0]):
        low = 0
        high = stops[i] - starts[i]
        while low < high:
            middle = (low + high) // 2
            time = times[base + middle]
            if time > keys[i] or (side_right == 0 and time == keys[i]):
                high = middle
            else:
                low = middle + 1
        found[i] = starts[i] + low
        base += stops[i] - starts[i]


@kernel("(i64[in], i64[in], i64[in], i64, i64, i64[out]) -> void", small=True)
def search_rows(values, starts, stops, key, side_right, found):  # type: ignore[no-untyped-def]
    """Per range of rows of ``values``, ascending within it, the first row ≥ ``key`` (> with ``side_right``), or its stop."""
    for i in range(starts.shape[0]):
        low = starts[i]
        high = stops[i]
        while low < high:
            middle = (low + high) // 2
            value = values[middle]
            if value > key or (side_right == 0 and value == key):
                high = middle
            else:
                low = middle + 1
        found[i] = low


@kernel("(i32[in], i64[in], i64[in], i32[in], b1[in], b1[in], i64, i64, i64, i64, i32[out], i64[out]) -> i64", small=True)
def witnesses(order, min_time, max_time, device, skip, device_mask, low, high, descending, wanted, numbers, times):  # type: ignore[no-untyped-def]
    """The first ``wanted`` devices of a best-first order whose best row surely is in [low, high], with that row's time.

    ``skip`` and ``device_mask`` as in ``pull``.
    """
    count = 0
    for at in range(order.shape[0]):
        if count >= wanted:
            break
        i = order[at]
        if skip.shape[0] > 0 and skip[i]:
            continue
        best = max_time[i] if descending != 0 else min_time[i]
        if best < low or best > high:
            continue
        number = device[i]
        if device_mask.shape[0] > 0 and not device_mask[number]:
            continue
        numbers[count] = number
        times[count] = best
        count += 1
    return count


@kernel("(i64[in], i64[in], i32[in], b1[in], b1[in], i64, i64, i64[out], u8[out]) -> i64", small=True)
def within(min_time, max_time, device, skip, device_mask, low, high, out, partial):  # type: ignore[no-untyped-def]
    """Wanted runs whose time range meets [low, high]; ``partial`` is 1 where it leaves it too. Returns how many.

    ``skip`` and ``device_mask`` as in ``pull``.
    """
    count = 0
    for i in range(min_time.shape[0]):
        if max_time[i] < low or min_time[i] > high or (skip.shape[0] > 0 and skip[i]):
            continue
        if device_mask.shape[0] > 0 and not device_mask[device[i]]:
            continue
        out[count] = i
        partial[count] = 1 if (min_time[i] < low or max_time[i] > high) else 0
        count += 1
    return count


@kernel("(i64[in], i64[in], i32[in], b1[in], b1[in], i64[in], i64[in], i64[out]) -> void", small=True)
def prove(min_time, max_time, device, skip, device_mask, group, limits, threshold):  # type: ignore[no-untyped-def]
    """Lower each group's ``threshold`` to the key of a row that exists: the best of a run, where that is within the time bounds.

    ``limits`` = [time low, time high, newest]; keys are times, or their complements where the newest are wanted. ``group`` is by
    table-wide device; ``skip`` and ``device_mask`` as in ``pull``.
    """
    low, high, newest = limits[0], limits[1], limits[2]
    for i in range(min_time.shape[0]):
        time = max_time[i] if newest != 0 else min_time[i]
        if time < low or time > high or (skip.shape[0] > 0 and skip[i]):
            continue
        if device_mask.shape[0] > 0 and not device_mask[device[i]]:
            continue
        key = ~time if newest != 0 else time
        if key < threshold[group[device[i]]]:
            threshold[group[device[i]]] = key


@kernel("(i64[in], i64[in], i32[in], b1[in], b1[in], i64[in], i64[in], i64[in], i64[out], u8[out], i64[out]) -> i64", small=True)
def contend(min_time, max_time, device, skip, device_mask, group, limits, threshold, out, partial, keys):  # type: ignore[no-untyped-def]
    """As ``within``, those runs whose best row may reach their group's threshold; ``keys`` are of these rows, or better.

    Arguments as those of ``prove``.
    """
    low, high, newest = limits[0], limits[1], limits[2]
    count = 0
    for i in range(min_time.shape[0]):
        if max_time[i] < low or min_time[i] > high or (skip.shape[0] > 0 and skip[i]):
            continue
        if device_mask.shape[0] > 0 and not device_mask[device[i]]:
            continue
        key = ~min(max_time[i], high) if newest != 0 else max(min_time[i], low)
        if key > threshold[group[device[i]]]:
            continue
        out[count] = i
        partial[count] = 1 if (min_time[i] < low or max_time[i] > high) else 0
        keys[count] = key
        count += 1
    return count


@kernel(
    "(i32[in], i64[in], i64[in], i64, i64[in], i32[in], i64[out], i32[out], i64[out], i64[out], i64[out], i64[out]) -> void",
    small=True,
)
def improve(device, key, address, origin, group, rank, threshold, b_device, b_key, b_address, b_origin, b_ordinal):  # type: ignore[no-untyped-def]
    """Put each row in place of its group's best where it is better: of lower key, then of the device of lower rank, then address.

    Of a group without a row ``b_device`` is -1, and any row will do whose key is not above the group's ``threshold``, which is
    lowered to that of the best. ``b_ordinal`` becomes the row's number among these.
    """
    for i in range(device.shape[0]):
        at = group[device[i]]
        if key[i] > threshold[at]:
            continue
        held = b_device[at]
        if held >= 0 and key[i] == b_key[at]:
            if rank[device[i]] > rank[held] or (device[i] == held and address[i] >= b_address[at]):
                continue
        threshold[at] = key[i]
        b_device[at] = device[i]
        b_key[at] = key[i]
        b_address[at] = address[i]
        b_origin[at] = origin
        b_ordinal[at] = i


@kernel("(i64[in], i64[in], i64, i64[out]) -> i64", small=True)
def at_edge(row_start, positions, last, run):  # type: ignore[no-untyped-def]
    """The ``run`` of each of some ascending rows, as long as each is the first row of its run, or the last one.

    ``row_start`` has the first row of each run, and the row count at the end. Returns how many are.
    """
    at = 0
    for i in range(positions.shape[0]):
        while row_start[at + 1] <= positions[i]:
            at += 1
        if positions[i] != (row_start[at + 1] - 1 if last != 0 else row_start[at]):
            return i
        run[i] = at
    return positions.shape[0]


@kernel("(i32[in], i64[in], i64[in], b1[out]) -> i64", small=True)
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


@kernel("(i32[in], i32[in], i32[in], i64[out]) -> void", small=True)
def of_devices(device, rank, wanted, found):  # type: ignore[no-untyped-def]
    """The run of each wanted device, or -1. Both the runs' devices and the wanted ones are in tag order, each at most once."""
    low = 0
    for i in range(wanted.shape[0]):
        key = rank[wanted[i]]
        high = low
        step = 1
        while high < device.shape[0] and rank[device[high]] < key:
            low = high + 1
            high += step
            step *= 2
        high = min(high, device.shape[0])
        while low < high:
            middle = (low + high) // 2
            if rank[device[middle]] < key:
                low = middle + 1
            else:
                high = middle
        found[i] = low if low < device.shape[0] and device[low] == wanted[i] else -1
