"""Decode rows of a page of numbers to 8-byte words: blocks, and constant pages and plain ones of 8-byte values.

A block is up to 1,024 integers as bit-packed residuals of a base, or of the value before; for floats, decimals on top.

A page's values start with a directory of four words a block:

    first   DELTA: the block's first value; else 0
    base    what is added to every residual
    scale   what residuals are multiplied by, before that
    layout  bits 0-26 offset of the block's body in words from the directory's start, 27-33 width of residuals, 34-44 number of
            patches, 45-55 number of exceptions, 56-60 decimals (31: none), 61 DELTA

and a body is: packed residuals, patches (DELTA: differences in full), exceptions (final values), the positions of both in that
order (16 bits each, four to a word).
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.bitpack import sum_lanes, unpack
from tsdb_format.kernels.page import DOUBLE, FOR, HELD, MALFORMED, PLAIN
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO, ONE = u(0), u(1)
#: ``decimals`` of a block whose integers are the values.
NO_DECIMALS = 31
#: Powers of ten that a double holds exactly.
POWERS = np.array([float(f"1e{i}") for i in range(23)])


@kernel("(u64[in], i64, i64, i64, i64, i64, i64, u64[out], i64) -> i64", inline=True)
def place(words, at, positions, skip, number, low, high, out, out_at):
    """Put ``number`` words from ``at`` at their positions in a block, ``low`` going to ``out[out_at]``; others are left out.

    Positions are 16 bits each, from word ``positions`` on after ``skip`` of them.
    """
    for i in range(number):
        j = skip + i
        position = np.int64((words[u(positions + (j >> 2))] >> u((j & 3) << 4)) & u(0xFFFF))
        if position >= low and position < high:
            out[u(out_at + position - low)] = words[u(at + i)]
    return 0


@kernel("(u64[in], i64, i64, i64, i64, i64, i64, i64, u64[out], u64[out], f64[out], f32[out], i64) -> i64", inline=True)
def decode_rows(words, begin, end, encoding, rows, kind, low, high, scratch, out, doubles, floats, at):
    """Decode rows ``low`` to ``high`` of a page of ``rows`` to ``out`` from ``at``; 0 or MALFORMED.

    The page's values are the words ``begin`` to ``end``, at least one. ``doubles`` and ``floats`` are views of ``out``. ``scratch``
    goes from call to call: it keeps the last block's residuals or, for DELTA, integers.
    """
    if encoding < FOR:
        step = u(encoding == PLAIN)
        if end - begin < (rows if step else 1):
            return MALFORMED
        source = u(begin + low if step else begin)
        for i in range(u(high - low)):
            out[u(at) + i] = words[source + i * step]
        return 0
    if (rows + 1023) >> 10 > (end - begin) >> 2:
        return MALFORMED
    while low < high:
        start = low >> 10 << 10
        count = rows - start if rows - start < 1024 else 1024
        stop = high - start if high - start < count else count
        entry = u(begin + (low >> 10 << 2))
        layout = np.int64(words[entry + u(3)])
        width = (layout >> 27) & 127
        patches = (layout >> 34) & 2047
        exceptions = (layout >> 45) & 2047
        decimals = (layout >> 56) & 31
        delta = layout >> 61
        body = begin + (layout & 0x7FFFFFF)
        patched = body + ((((count + 15) >> 4) * width + 63) >> 6 << 4)
        positions = patched + patches + exceptions
        if layout < 0 or delta > 1 or width > 64 or positions + ((patches + exceptions + 3) >> 2) > end:
            return MALFORMED
        if decimals != NO_DECIMALS and (decimals > 22 or kind < DOUBLE):
            return MALFORMED
        source = u(low - start)
        base = words[entry + ONE]
        scale = words[entry + u(2)]
        if scratch[HELD] != entry or scratch[HELD + 1] > source or scratch[HELD + 2] < u(stop):
            last = count if scratch[HELD] == entry else stop  # a block that is asked for again is decoded whole
            first = 0 if delta or scratch[HELD] == entry else (low - start) >> 4 << 4
            unpack(words, body, width, first, last, scratch)
            if delta:
                for i in range(u(last)):
                    scratch[i] = base + scratch[i] * scale
                place(words, patched, positions, 0, patches, 0, count, scratch, 0)
                scratch[0] = words[entry]
                value = ZERO
                for row in range((last + 15) >> 4):
                    value = sum_lanes(scratch, u(row << 4), value)
            scratch[HELD], scratch[HELD + 1], scratch[HELD + 2] = entry, u(first), u(last)
        if delta:
            base, scale = ZERO, ONE
        target = u(at)
        number = u(stop) - source
        power = POWERS[decimals if decimals != NO_DECIMALS else 0]
        if decimals == NO_DECIMALS:
            for i in range(number):
                out[target + i] = base + scratch[source + i] * scale
        elif kind == DOUBLE:
            for i in range(number):
                doubles[target + i] = np.float64(np.int64(base + scratch[source + i] * scale)) / power
        else:
            for i in range(number):
                out[target + i] = ZERO
                floats[(target + i) << ONE] = np.float32(np.float64(np.int64(base + scratch[source + i] * scale)) / power)
        place(words, patched + patches, positions, patches, exceptions, low - start, stop, out, at)
        at += start + stop - low
        low = start + stop
    return 0
