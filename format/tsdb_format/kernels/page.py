"""Decode rows of a page of numbers to 8-byte words: the encodings of blocks, constant pages, and plain ones of 8-byte values."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.block import HASH, MALFORMED, decode_block
from tsdb_format.kernels.checksum import stored_checksum
from tsdb_format.kernels.registry import kernel

u = np.uint64
#: Encoding ids; ``Encoding`` in ``encoding.page_set`` names them. ``rare`` decodes those above DICTIONARY.
PLAIN, CONSTANT, FOR, DELTA, ALP, DICTIONARY, RLE, BITMAP, BYTE_SPLIT, PLAIN_4 = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
#: Result codes: a page that is not inside the file, whose checksum differs, of unknown encoding.
OUT_OF_FILE, BAD_CHECKSUM, UNKNOWN_ENCODING = -1, -2, -4


@kernel("(u64[in], i64, i64, u64, u8[out], i64, u64[out]) -> i64")
def check_page(words, offset, size, checksum, verified, page, scratch):
    """Whether a page of ``size`` bytes lies inside the file and, the first time, has its checksum: 0 or an error code."""
    if offset < 0 or size < 8 or (offset | size) & 7 or offset > 8 * len(words) - size:
        return OUT_OF_FILE
    if not verified[page]:
        if stored_checksum(words, offset >> 3, size >> 3, scratch[HASH:]) != checksum:
            return BAD_CHECKSUM
        verified[page] = 1
    return 0


@kernel("(u64[in], i64, i64, i64, i64, i64, i64, i64, u64[out], u64[out], f64[out], f32[out], i64) -> i64")
def decode_rows(words, begin, end, encoding, rows, kind, low, high, scratch, out, doubles, floats, at):
    """Decode rows ``low`` to ``high`` of a page of ``rows`` to ``out`` from ``at``; 0 or an error code.

    The page's values are the words ``begin`` to ``end``. ``scratch`` belongs to the caller and goes from call to call;
    ``doubles`` and ``floats`` are views of ``out``.
    """
    if encoding >= FOR:
        if (rows + 1023) >> 10 > (end - begin) >> 2:
            return MALFORMED
        for block in range(low >> 10, (high + 1023) >> 10):
            start = block << 10
            count = rows - start if rows - start < 1024 else 1024
            first = low - start if low > start else 0
            stop = high - start if high - start < count else count
            code = decode_block(words, begin, end, block, count, kind, first, stop, scratch, out, doubles, floats, at)
            if code:
                return code
            at += stop - first
    else:
        step = u(encoding == PLAIN)
        if end - begin < (rows if step else 1):
            return MALFORMED
        target = u(at)
        source = u(begin + low if step else begin)
        for i in range(u(high - low)):
            out[target + i] = words[source + i * step]
    return 0
