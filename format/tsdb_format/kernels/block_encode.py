"""Encode blocks: the inverse of ``block``, and the search for a base and a width that a few outliers do not spoil."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.bitpack import pack
from tsdb_format.kernels.block import POWERS
from tsdb_format.kernels.page import FLOAT
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO, ONE = u(0), u(1)
SIGN = u(1 << 63)
#: Bits that a value costs outside the packed residuals: itself and its position.
OUTLIER_BITS = 80
#: Values looked at to tell whether a block has outliers at all.
SAMPLES = 31
#: Largest integer, exclusive, that a decimal may become; rounding by adding and subtracting ROUND works below it.
DECIMAL_LIMIT = float(1 << 51)
ROUND = float(3 << 51)


@kernel("(u64) -> i64")
def bit_width(value):
    """Bits needed to write ``value``."""
    bits = 0
    while value != ZERO:
        value >>= ONE
        bits += 1
    return bits


@kernel("(u64[in], i64, i64, u64, i64, u64[out]) -> i64")
def narrow(work, start, count, origin, full, found):
    """Find the window of a power of two that holds ``work[start:count]`` best: ``found`` gets its origin and its bits.

    ``full`` bits from ``origin`` hold all of them. Everything is modulo 2**64, so any difference is fine. Returns the bits.
    """
    found[0] = origin
    found[1] = u(full)
    number = count - start
    sample = np.empty(SAMPLES, np.uint64)
    for k in range(SAMPLES):
        value = work[u(start + k * number // SAMPLES)] - origin
        j = k
        while j > 0 and sample[j - 1] > value:
            sample[j] = sample[j - 1]
            j -= 1
        sample[j] = value
    inner = bit_width(sample[SAMPLES - 4] - sample[3])
    if inner + 2 > full:
        return full
    middle = origin + sample[SAMPLES >> 1]
    best = number * full
    for bits in range(inner, full):
        # Beyond the first few, every other width is enough: the real one is measured afterwards.
        if bits > inner + 6 and bits & 1:
            continue
        size = ONE << u(bits)
        low = middle - (size >> ONE)
        kept = 0
        for i in range(u(start), u(count)):
            kept += work[i] - low < size
        cost = number * bits + (number - kept) * OUTLIER_BITS
        if cost < best:
            best = cost
            found[0] = low
            found[1] = u(bits)
        if kept == number:
            break
    return np.int64(found[1])


@kernel("(u64[out], i64, i64) -> u64")
def common_divisor(values, start, count):
    """Greatest common divisor of ``values[start:count]``; 1 where all are 0."""
    divisor = ZERO
    for i in range(u(start), u(count)):
        a = values[i]
        if a == ZERO or a == divisor:
            continue
        while a != ZERO:
            divisor, a = a, divisor % a
        if divisor == ONE:
            break
    return divisor if divisor != ZERO else ONE


@kernel("(u64[in], u64[in], i64, i64[in], i64, i64, u64[out], i64) -> i64")
def list_outliers(differences, finals, finals_at, exceptional, listed, patches, out, at):
    """Write the patches, the exceptions and the positions of both; returns the words.

    Of ``exceptional[:listed]`` the last ``patches`` are the positions of patches.
    """
    exceptions = listed - patches
    for i in range(patches):
        out[u(at + i)] = differences[exceptional[exceptions + i]]
    for i in range(exceptions):
        out[u(at + patches + i)] = finals[u(finals_at + exceptional[i])]
    for i in range(listed):
        position = exceptional[exceptions + i] if i < patches else exceptional[i - patches]
        word = u(at + listed + (i >> 2))
        if i & 3 == 0:
            out[word] = ZERO
        out[word] |= u(position) << u((i & 3) << 4)
    return listed + ((listed + 3) >> 2)


@kernel("(u64[in], i64, i64, i64, i64, u64[in], i64, i64[out], i64, u64[out], u64[out], i64, i64, i64) -> i64")
def encode_block(values, at, count, delta, decimals, finals, finals_at, exceptional, exceptions, work, out, origin, entry, body):
    """Write the directory entry and the body of ``values[at:at + count]`` to ``out``; returns the words of the body.

    ``exceptional[:exceptions]`` are the positions whose final value must be stored in full, taken from ``finals`` (from
    ``finals_at``); there is room for 1,024 more. ``work`` is scratch of 2,080 words. ``origin``, ``entry`` and ``body`` are where
    the page's directory, this entry and this body start.
    """
    start = 1 if delta else 0
    source = u(at)
    residuals = work[1026:]
    low, high = ~ZERO, ZERO
    if delta:
        for i in range(ONE, u(count)):
            work[i] = values[source + i] - values[source + i - ONE]
    else:
        for i in range(u(count)):
            work[i] = values[source + i]
    for i in range(u(start), u(count)):
        x = work[i] ^ SIGN
        low = x if x < low else low
        high = x if x > high else high
    full = bit_width(high - low) if count > start else 0
    base = low ^ SIGN if count > start else ZERO
    bits = full
    if full > 3 and count > SAMPLES * 2:
        bits, base = narrow(work, start, count, base, full, work[1024:1026]), work[1024]
    patches = 0
    listed = exceptions
    if bits < full:
        low, high, size = ~ZERO, ZERO, ONE << u(bits)
        for i in range(u(start), u(count)):
            x = work[i] - base
            if x < size:
                low = x if x < low else low
                high = x if x > high else high
            else:
                exceptional[listed] = np.int64(i)
                listed += 1
        base += low
        size = high - low
        for i in range(u(count)):
            x = work[i] - base
            residuals[i] = x if x <= size else ZERO
        if delta:
            patches = listed - exceptions
    else:
        for i in range(u(count)):
            residuals[i] = work[i] - base
        size = high - low
    if delta:
        residuals[0] = ZERO
    for i in range(u(count), u((count + 15) >> 4 << 4)):
        residuals[i] = ZERO
    scale = ONE
    width = bit_width(size) if count > start else 0
    if width > 1:
        scale = common_divisor(residuals, start, count)
        if scale != ONE:
            for i in range(u(count)):
                residuals[i] = residuals[i] // scale
            width = bit_width(size // scale)
    end = body + pack(residuals, count, width, out, body)
    end += list_outliers(work, finals, finals_at, exceptional, listed, patches, out, end)
    out[u(entry)] = values[source] if delta else ZERO
    out[u(entry + 1)] = base
    out[u(entry + 2)] = scale
    layout = body - origin | width << 27 | patches << 34 | (listed - patches) << 45 | decimals << 56 | delta << 61
    out[u(entry + 3)] = u(layout)
    return end - body


@kernel("(f64[in], u64[in], i64, i64, i64, i64, u64[out], i64[out]) -> i64")
def to_decimals(values, words, at, count, kind, decimals, integers, exceptional):
    """Turn ``values[at:at + count]`` into integers of units of 10**-decimals; returns how many are not exactly that.

    Those are listed in ``exceptional`` and take a neighbour's integer. ``words`` are the values' bits: −0.0 is not 0.0.
    """
    power = POWERS[decimals]
    source = u(at)
    wrong = 0
    for i in range(u(count)):
        value = values[source + i]
        scaled = value * power
        scaled = scaled if abs(scaled) < DECIMAL_LIMIT else 0.0
        whole = (scaled + ROUND) - ROUND
        back = whole / power
        if kind == FLOAT:
            back = np.float64(np.float32(back))
        integers[i] = u(np.int64(whole))
        same = back == value and (whole != 0.0 or words[source + i] == ZERO)
        exceptional[i] = not same
        wrong += not same
    if wrong == 0:
        return 0
    last = ZERO
    for i in range(u(count)):
        if exceptional[i] == 0:
            last = integers[i]
            break
    listed = 0
    for i in range(count):
        if exceptional[i]:
            integers[i] = last
            exceptional[listed] = i
            listed += 1
        else:
            last = integers[i]
    return listed


@kernel("(f64[in], u64[in], i64, i64[out]) -> void")
def count_decimals(values, words, kind, histogram):
    """How many values need so many decimals: ``histogram[0]`` to ``[18]``, and ``[19]`` for those that none is exact for."""
    for i in range(u(len(values))):
        decimals = 0
        while decimals < 19:
            scaled = values[i] * POWERS[decimals]
            if not abs(scaled) < DECIMAL_LIMIT:
                decimals = 19
                break
            whole = (scaled + ROUND) - ROUND
            back = whole / POWERS[decimals]
            if kind == FLOAT:
                back = np.float64(np.float32(back))
            if back == values[i] and (whole != 0.0 or words[i] == ZERO):
                break
            decimals += 1
        histogram[decimals] += 1
