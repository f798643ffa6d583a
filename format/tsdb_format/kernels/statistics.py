"""Statistics of pages: bounds, sums and edges, one pass over a column's rows.

Every kernel takes rows in file order, cut into units of ``unit_rows`` (the last may be short), and fills one element per unit.
``validity`` is empty where no row is NULL. Where a unit has no value that counts, its element of ``bounded`` is 0 and its bounds
are 0. Meanings: ``tsdb_format.statistics``.
"""

from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], b1[in], i64, i64[out], i64[out], i64[out], i64[out], i64[out], i64[out], i64[out]) -> void")
def integer_units(values, validity, unit_rows, nulls, low, high, sum_high, sum_low, first, last):  # type: ignore[no-untyped-def]
    """Per unit: NULLs, minimum, maximum, first and last valid value, and the exact sum as ``sum_high * 2**32 + sum_low``."""
    rows = len(values)
    for unit in range(len(nulls)):
        start = unit * unit_rows
        stop = min(start + unit_rows, rows)
        smallest, largest = np.int64(9223372036854775807), np.int64(-9223372036854775808)
        upper, lower = np.int64(0), np.int64(0)
        count = stop - start
        if len(validity) == 0:
            for row in range(start, stop):
                value = values[row]
                smallest = min(smallest, value)
                largest = max(largest, value)
                upper += value >> 32
                lower += value & 4294967295
            first[unit] = values[start]
            last[unit] = values[stop - 1]
        else:
            count = 0
            first[unit] = 0
            last[unit] = 0
            for row in range(start, stop):
                if validity[row]:
                    value = values[row]
                    smallest = min(smallest, value)
                    largest = max(largest, value)
                    upper += value >> 32
                    lower += value & 4294967295
                    if count == 0:
                        first[unit] = value
                    last[unit] = value
                    count += 1
        nulls[unit] = stop - start - count
        low[unit] = smallest if count else 0
        high[unit] = largest if count else 0
        sum_high[unit] = upper
        sum_low[unit] = lower


@kernel("(f64[in], b1[in], i64, i64[out], i64[out], f64[out], f64[out], f64[out], f64[out], f64[out]) -> void")
def float_units(values, validity, unit_rows, nulls, nans, low, high, total, first, last):  # type: ignore[no-untyped-def]
    """Per unit: NULLs, NaNs, minimum and maximum of the rest (+inf and -inf where there is none), left-to-right sum, edges."""
    rows = len(values)
    for unit in range(len(nulls)):
        start = unit * unit_rows
        stop = min(start + unit_rows, rows)
        smallest, largest = np.inf, -np.inf
        added = 0.0
        count, unordered = 0, 0
        first[unit] = 0.0
        last[unit] = 0.0
        whole = len(validity) == 0
        for row in range(start, stop):
            if whole or validity[row]:
                value = values[row]
                unordered += value != value
                if value < smallest:
                    smallest = value
                if value > largest:
                    largest = value
                added += value
                if count == 0:
                    first[unit] = value
                last[unit] = value
                count += 1
        nulls[unit] = stop - start - count
        nans[unit] = unordered
        low[unit] = smallest + 0.0  # the sum turns −0.0 into 0.0
        high[unit] = largest + 0.0
        total[unit] = added


@kernel("(i64[in], u8[in], i32[in], u64[out], u64[out], u8[out]) -> void")
def prefix_keys(offsets, data, codes, upper, lower, longer):  # type: ignore[no-untyped-def]
    """Per code of a pool: its first 16 bytes, zero-padded, as two big-endian words, and whether these do not say it all.

    A string is said whole by its padded prefix when it has at most 16 bytes and does not end in a zero byte.
    """
    for i in range(len(codes)):
        begin, end = offsets[codes[i]], offsets[codes[i] + 1]
        size = end - begin
        words = (np.uint64(0), np.uint64(0))
        for half in range(2):
            word = np.uint64(0)
            for at in range(8 * half, 8 * half + 8):
                byte = np.uint64(data[begin + at]) if at < size else np.uint64(0)
                word = (word << np.uint64(8)) | byte
            words = (words[1], word)
        upper[i] = words[0]
        lower[i] = words[1]
        longer[i] = 1 if size > 16 or (size > 0 and data[end - 1] == 0) else 0


@kernel("(i32[in], b1[in], i64, u64[in], u64[in], u8[in], i64[out], i64[out], i64[out]) -> void")
def text_units(keys, validity, unit_rows, upper, lower, longer, nulls, low, high):  # type: ignore[no-untyped-def]
    """Per unit: NULLs and the key (index into ``upper``, ``lower``, ``longer``) of the least and greatest value, -1 without."""
    rows = len(keys)
    whole = len(validity) == 0
    for unit in range(len(nulls)):
        start = unit * unit_rows
        stop = min(start + unit_rows, rows)
        smallest, largest, count = np.int64(-1), np.int64(-1), 0
        for row in range(start, stop):
            if whole or validity[row]:
                key = np.int64(keys[row])
                count += 1
                if smallest < 0:
                    smallest = key
                    largest = key
                elif key != smallest and key != largest:
                    if _before(key, smallest, upper, lower, longer):
                        smallest = key
                    elif _before(largest, key, upper, lower, longer):
                        largest = key
        nulls[unit] = stop - start - count
        low[unit] = smallest
        high[unit] = largest


@kernel("(i64, i64, u64[in], u64[in], u8[in]) -> b1")
def _before(a, b, upper, lower, longer):  # type: ignore[no-untyped-def]
    """Whether key ``a`` sorts before key ``b``: prefixes bytewise, then a whole value before those it may be a prefix of."""
    if upper[a] != upper[b]:
        return upper[a] < upper[b]
    if lower[a] != lower[b]:
        return lower[a] < lower[b]
    return longer[a] < longer[b]


@kernel("(b1[in], i64, i64[out]) -> void")
def null_units(validity, unit_rows, nulls):  # type: ignore[no-untyped-def]
    """Per unit: NULLs."""
    rows = len(validity)
    for unit in range(len(nulls)):
        start = unit * unit_rows
        stop = min(start + unit_rows, rows)
        count = 0
        for row in range(start, stop):
            count += not validity[row]
        nulls[unit] = count
