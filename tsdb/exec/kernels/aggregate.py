"""Kernels that fold values by segment, and segments into cells.

Segment k of a batch is the rows from stop[k - 1] (0) to stop[k]. ``validity`` may be empty: every row counts. NaN is the greatest
float: a least value is NaN only where nothing else was seen, a greatest one wherever one was. Starting values are NaN and -inf, and
the ends of int64. Sums of integers are exact: in two limbs, of which ``low`` counts ones and ``high`` counts 2**32.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel

MOST, LEAST = 2**63 - 1, -(2**63)
LIMB = 0xFFFFFFFF


# ---------------------------------------------------------------------------------------------------------------- rows to segments


@kernel("(b1[in], i64[in], i64[out]) -> void")
def count_rows(validity, stop, count):
    """The set rows of each segment."""
    at = 0
    for k in range(len(stop)):
        found = 0
        for i in range(at, stop[k]):
            found += validity[i]
        count[k] = found
        at = stop[k]


@kernel("(f64[in], b1[in], i64[in], f64[out]) -> void")
def sum_floats(values, validity, stop, total):
    """The sum of each segment's values, in eight interleaved parts."""
    at = 0
    for k in range(len(stop)):
        a = b = c = d = e = f = g = h = 0.0
        end = stop[k]
        if len(validity):
            for i in range(at, end):
                a += values[i] if validity[i] else 0.0
        else:
            i = at
            while i + 8 <= end:
                a += values[i]
                b += values[i + 1]
                c += values[i + 2]
                d += values[i + 3]
                e += values[i + 4]
                f += values[i + 5]
                g += values[i + 6]
                h += values[i + 7]
                i += 8
            while i < end:
                a += values[i]
                i += 1
        total[k] = ((a + b) + (c + d)) + ((e + f) + (g + h))
        at = end


@kernel("(i64[in], b1[in], i64[in], i64[out], i64[out]) -> void")
def sum_integers(values, validity, stop, high, low):
    """The sum of each segment's values in two limbs."""
    at = 0
    for k in range(len(stop)):
        upper = 0
        lower = 0
        if len(validity):
            for i in range(at, stop[k]):
                value = values[i] if validity[i] else 0
                upper += value >> 32
                lower += value & LIMB
        else:
            for i in range(at, stop[k]):
                upper += values[i] >> 32
                lower += values[i] & LIMB
        high[k] = upper + (lower >> 32)
        low[k] = lower & LIMB
        at = stop[k]


@kernel("(f64[in], b1[in], i64[in], f64[out]) -> void")
def least_floats(values, validity, stop, least):
    """The least value of each segment."""
    at = 0
    for k in range(len(stop)):
        found = np.inf
        for i in range(at, stop[k]):
            value = values[i] if len(validity) == 0 or validity[i] else np.inf
            found = value if value < found else found
        if found == np.inf:  # infinity, NaN, or nothing
            found = np.nan
            for i in range(at, stop[k]):
                if values[i] == np.inf and (len(validity) == 0 or validity[i]):
                    found = np.inf
        least[k] = found
        at = stop[k]


@kernel("(f64[in], b1[in], i64[in], f64[out]) -> void")
def greatest_floats(values, validity, stop, greatest):
    """The greatest value of each segment."""
    at = 0
    for k in range(len(stop)):
        found = -np.inf
        odd = 0
        for i in range(at, stop[k]):
            value = values[i] if len(validity) == 0 or validity[i] else -np.inf
            found = value if value > found else found
            odd |= value != value
        greatest[k] = np.nan if odd else found
        at = stop[k]


@kernel("(i64[in], b1[in], i64[in], i64[out]) -> void")
def least_integers(values, validity, stop, least):
    """The least value of each segment."""
    at = 0
    for k in range(len(stop)):
        found = MOST
        if len(validity):
            for i in range(at, stop[k]):
                found = min(found, values[i] if validity[i] else MOST)
        else:
            for i in range(at, stop[k]):
                found = min(found, values[i])
        least[k] = found
        at = stop[k]


@kernel("(i64[in], b1[in], i64[in], i64[out]) -> void")
def greatest_integers(values, validity, stop, greatest):
    """The greatest value of each segment."""
    at = 0
    for k in range(len(stop)):
        found = LEAST
        if len(validity):
            for i in range(at, stop[k]):
                found = max(found, values[i] if validity[i] else LEAST)
        else:
            for i in range(at, stop[k]):
                found = max(found, values[i])
        greatest[k] = found
        at = stop[k]


@kernel("(f64[in], b1[in], i64[in], i64[out], f64[out], f64[out]) -> void")
def moments(values, validity, stop, count, mean, square):
    """Number, mean and sum of squared distances from the mean of each segment's values, in two passes."""
    at = 0
    for k in range(len(stop)):
        number = 0
        total = 0.0
        for i in range(at, stop[k]):
            if len(validity) == 0 or validity[i]:
                number += 1
                total += values[i]
        middle = total / number if number else 0.0
        distance = 0.0
        rest = 0.0
        for i in range(at, stop[k]):
            if len(validity) == 0 or validity[i]:
                distance += (values[i] - middle) * (values[i] - middle)
                rest += values[i] - middle
        count[k] = number
        mean[k] = middle
        square[k] = distance - rest * rest / number if number else 0.0
        at = stop[k]


@kernel("(i64[in], b1[in], i64[in], i64[out]) -> void")
def first_least(keys, validity, stop, row):
    """The first row with the least key of each segment, or -1 where it has no row."""
    at = 0
    for k in range(len(stop)):
        found = -1
        for i in range(at, stop[k]):
            if (len(validity) == 0 or validity[i]) and (found < 0 or keys[i] < keys[found]):
                found = i
        row[k] = found
        at = stop[k]


# --------------------------------------------------------------------------------------------------------------- segments to cells


@kernel("(i64[in], i64[in], i64[out]) -> void")
def add_integers(slots, parts, into):
    """Add each part to its slot."""
    for k in range(len(slots)):
        into[slots[k]] += parts[k]


@kernel("(i64[in], f64[in], f64[out]) -> void")
def add_floats(slots, parts, into):
    """Add each part to its slot."""
    for k in range(len(slots)):
        into[slots[k]] += parts[k]


@kernel("(i64[in], i64[in], i64[in], i64[out], i64[out]) -> void")
def add_limbs(slots, high, low, into_high, into_low):
    """Add each sum of two limbs to its slot's; low limbs stay below 2**32."""
    for k in range(len(slots)):
        lower = into_low[slots[k]] + low[k]
        into_high[slots[k]] += high[k] + (lower >> 32)
        into_low[slots[k]] = lower & LIMB


@kernel("(i64[in], f64[in], f64[out]) -> void")
def lower_floats(slots, parts, into):
    """Lower each slot to its least part."""
    for k in range(len(slots)):
        held = into[slots[k]]
        if parts[k] < held or held != held:
            into[slots[k]] = parts[k]


@kernel("(i64[in], f64[in], f64[out]) -> void")
def raise_floats(slots, parts, into):
    """Raise each slot to its greatest part."""
    for k in range(len(slots)):
        if parts[k] > into[slots[k]] or parts[k] != parts[k]:
            into[slots[k]] = parts[k]


@kernel("(i64[in], i64[in], i64[out]) -> void")
def lower_integers(slots, parts, into):
    """Lower each slot to its least part."""
    for k in range(len(slots)):
        into[slots[k]] = min(into[slots[k]], parts[k])


@kernel("(i64[in], i64[in], i64[out]) -> void")
def raise_integers(slots, parts, into):
    """Raise each slot to its greatest part."""
    for k in range(len(slots)):
        into[slots[k]] = max(into[slots[k]], parts[k])


@kernel("(i64[in], i64[in], f64[in], f64[in], i64[out], f64[out], f64[out]) -> void")
def join_moments(slots, count, mean, square, into_count, into_mean, into_square):
    """Join each part's moments with its slot's (Chan, Golub and LeVeque 1979)."""
    for k in range(len(slots)):
        if count[k] == 0:
            continue
        slot = slots[k]
        number = into_count[slot] + count[k]
        apart = mean[k] - into_mean[slot] if into_count[slot] else 0.0
        share = count[k] / number
        into_square[slot] += square[k] + apart * apart * into_count[slot] * share
        into_mean[slot] = into_mean[slot] + apart * share if into_count[slot] else mean[k]
        into_count[slot] = number


@kernel("(i64[in], i64[in], i64[in], i64[in], i64[out]) -> void")
def best_rows(slots, key, rank, time, row):
    """Of the candidates for each slot the one with the least (key, rank, time), the first of equal ones; row[slot] is -1 before."""
    for k in range(len(slots)):
        held = row[slots[k]]
        if (
            held < 0
            or key[k] < key[held]
            or (key[k] == key[held] and (rank[k] < rank[held] or (rank[k] == rank[held] and time[k] < time[held])))
        ):
            row[slots[k]] = k
