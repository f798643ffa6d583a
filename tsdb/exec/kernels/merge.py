"""Kernels of the overlay: several versions of one row become the row that a reader sees."""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], i64[in], i64[out]) -> i64", small=True)
def group_starts(device, time, starts):  # type: ignore[no-untyped-def]
    """First index of every run of equal (device, time), then the length (``starts`` is one longer). Returns the number of runs."""
    count = 0
    for i in range(device.shape[0]):
        if i == 0 or device[i] != device[i - 1] or time[i] != time[i - 1]:
            starts[count] = i
            count += 1
    starts[count] = device.shape[0]
    return count


@kernel("(i64[in], b1[in], i64[out], b1[out]) -> i64", small=True)
def newest_valid(groups, valid, chosen, out_valid):  # type: ignore[no-untyped-def]
    """Per group of versions (oldest first) the index of the newest non-NULL one, or of the newest where all are NULL.

    Returns how many groups are NULL.
    """
    nulls = 0
    for g in range(groups.shape[0] - 1):
        pick = groups[g + 1] - 1
        while pick > groups[g] and not valid[pick]:
            pick -= 1
        if valid[pick]:
            chosen[g] = pick
            out_valid[g] = True
        else:
            chosen[g] = groups[g + 1] - 1
            out_valid[g] = False
            nulls += 1
    return nulls
