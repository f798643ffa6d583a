"""Decode blocks: up to 1,024 integers as bit-packed residuals of a base, or of the value before; decimals on top for floats.

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

from tsdb_format.kernels.bitpack import unpack
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO, ONE = u(0), u(1)
#: ``decimals`` of a block whose integers are the values.
NO_DECIMALS = 31
#: Powers of ten that a double holds exactly.
POWERS = np.array([float(f"1e{i}") for i in range(23)])
#: Result code of the decoders for bodies that break the rules.
MALFORMED = -3
#: Kinds of column: 8-byte integers, 4-byte integers, doubles, floats.
INTEGER, INTEGER_4, DOUBLE, FLOAT = 0, 1, 2, 3
#: Words of the scratch array: a block's integers; which block that is (page, block, from, to); and the state of a checksum.
SCRATCH, HELD, HASH = 1072, 1024, 1032


@kernel("(u64[in], i64, i64, i64, i64, i64, i64, u64[out], i64) -> i64")
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


@kernel("(u64[in], i64, i64, i64, i64, i64, i64, i64, u64[out], u64[out], f64[out], f32[out], i64) -> i64")
def decode_block(words, begin, end, block, count, kind, low, high, scratch, out, doubles, floats, at):
    """Decode values ``low`` to ``high`` of a block of ``count`` to ``out`` from ``at``. Returns 0 or MALFORMED.

    ``begin`` and ``end`` bound the page's values in ``words``; the directory is inside. ``doubles`` and ``floats`` are views of
    ``out``. ``scratch`` keeps the block's integers for the next call.
    """
    entry = u(begin + 4 * block)
    layout = np.int64(words[entry + u(3)])
    width = (layout >> 27) & 127
    patches = (layout >> 34) & 2047
    exceptions = (layout >> 45) & 2047
    decimals = (layout >> 56) & 31
    delta = layout >> 61
    body = begin + (layout & 0x7FFFFFF)
    patched = body + ((((count + 15) >> 4) * width + 63) >> 6 << 4)
    excepted = patched + patches
    positions = excepted + exceptions
    if layout < 0 or delta > 1 or width > 64 or positions + ((patches + exceptions + 3) >> 2) > end:
        return MALFORMED
    if decimals != NO_DECIMALS and (decimals > 22 or kind < DOUBLE):
        return MALFORMED
    if scratch[HELD] != u(begin) or scratch[HELD + 1] != u(block) or scratch[HELD + 2] > u(low) or scratch[HELD + 3] < u(high):
        again = scratch[HELD] == u(begin) and scratch[HELD + 1] == u(block)
        stop = count if again else high
        start = 0 if again or delta else low >> 4 << 4
        unpack(words, body, width, start, stop, scratch)
        base = words[entry + ONE]
        scale = words[entry + u(2)]
        for i in range(u(start), u(stop)):
            scratch[i] = base + scratch[i] * scale
        if delta:
            place(words, patched, positions, 0, patches, 0, count, scratch, 0)
            value = words[entry]
            scratch[0] = value
            for i in range(ONE, u(stop)):
                value += scratch[i]
                scratch[i] = value
        scratch[HELD], scratch[HELD + 1], scratch[HELD + 2], scratch[HELD + 3] = u(begin), u(block), u(start), u(stop)
    source = u(low)
    target = u(at)
    if decimals == NO_DECIMALS:
        for i in range(u(high - low)):
            out[target + i] = scratch[source + i]
    elif kind == DOUBLE:
        power = POWERS[decimals]
        for i in range(u(high - low)):
            doubles[target + i] = np.float64(np.int64(scratch[source + i])) / power
    else:
        power = POWERS[decimals]
        for i in range(u(high - low)):
            out[target + i] = ZERO
            floats[(target + i) << ONE] = np.float32(np.float64(np.int64(scratch[source + i])) / power)
    return place(words, excepted, positions, patches, exceptions, low, high, out, at)
