"""Interleaved bit-packing: 16 lanes, so that one shift serves 16 neighbouring values and the inner loops vectorise.

Value ``i`` of a block lies in lane ``i % 16`` as that lane's ``i // 16``-th value of ``width`` bits, low bits first. Word ``j`` of
lane ``l`` is stored at ``j * 16 + l``; all 16 lanes of a row of words are stored, those of missing values as zero.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO, LANES, WORD, ONES = u(0), u(16), u(64), u(0xFFFFFFFFFFFFFFFF)


def packed_words(count: int, width: int) -> int:
    """Words that ``count`` packed values of ``width`` bits take."""
    return ((count + 15 >> 4) * width + 63 >> 6) << 4


@kernel("(u64[in], u64, u64, u64, u64[out], u64) -> void", vector="shift_lanes")
def shift_lanes(words, source, shift, mask, out, target):
    """Sixteen values that lie in one word each."""
    for lane in range(LANES):
        out[target + lane] = (words[source + lane] >> shift) & mask


@kernel("(u64[in], u64, u64, u64, u64, u64[out], u64) -> void", vector="join_lanes")
def join_lanes(words, source, shift, back, mask, out, target):
    """Sixteen values that begin in one word each and end in the next, which is shifted ``back``."""
    for lane in range(LANES):
        out[target + lane] = ((words[source + lane] >> shift) | (words[source + lane + LANES] << back)) & mask


@kernel("(u64[out], u64, u64) -> u64", vector="sum_lanes")
def sum_lanes(values, at, before):
    """Add to each of sixteen values those before it, and ``before``; returns the last."""
    for lane in range(LANES):
        before += values[at + lane]
        values[at + lane] = before
    return before


@kernel("(u64[in], i64, i64, i64, i64, u64[out]) -> void", inline=True)
def unpack(words, at, width, low, high, out):
    """Unpack the values from ``low`` to ``high``, rounded to whole rows of 16, to their own positions in ``out``."""
    target = u(low >> 4 << 4)
    if width == 0:
        for i in range(target, u(high)):
            out[i] = ZERO
        return
    mask = ONES >> u(64 - width)
    for row in range(low >> 4, (high + 15) >> 4):
        bit = row * width
        shift = u(bit & 63)
        source = u(at + (bit >> 6 << 4))
        if (bit & 63) + width > 64:
            join_lanes(words, source, shift, WORD - shift, mask, out, target)
        else:
            shift_lanes(words, source, shift, mask, out, target)
        target += LANES


@kernel("(u64[in], i64, i64, u64[out], i64) -> i64")
def pack(values, count, width, out, at):
    """Pack ``values[:count]``, each below 2**width, to ``out`` from ``at``; values up to the next multiple of 16 must be 0.

    Returns the number of words written.
    """
    size = (((count + 15) >> 4) * width + 63) >> 6 << 4
    for i in range(u(at), u(at + size)):
        out[i] = ZERO
    if width == 0:
        return 0
    source = ZERO
    for row in range((count + 15) >> 4):
        bit = row * width
        shift = u(bit & 63)
        target = u(at + (bit >> 6 << 4))
        for lane in range(LANES):
            out[target + lane] |= values[source + lane] << shift
        if (bit & 63) + width > 64:
            target += LANES
            back = WORD - shift
            for lane in range(LANES):
                out[target + lane] = values[source + lane] >> back
        source += LANES
    return size
