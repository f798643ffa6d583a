"""Decode the page encodings that a quick look at the newest rows seldom meets: run lengths, bitmaps, 4-byte and split values."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.page import BITMAP, BYTE_SPLIT, DICTIONARY, MALFORMED, PLAIN_4, RLE, UNKNOWN_ENCODING
from tsdb_format.kernels.registry import kernel

u = np.uint64
LOW = u(0xFFFFFFFF)


@kernel("(u64[in], i64, i64, i64, i64, u64[out], i64) -> i64")
def expand_runs(words, begin, end, low, high, out, at):
    """Rows ``low`` to ``high`` of a page of runs: their number, their ends (32 bits each), their values."""
    runs = np.int64(words[u(begin)])
    ends = begin + 1
    values = ends + ((runs + 1) >> 1)
    if runs < 0 or runs > end - begin or values + runs > end:
        return MALFORMED
    run, stop = 0, runs
    while run < stop:
        middle = (run + stop) >> 1
        if np.int64((words[u(ends + (middle >> 1))] >> u((middle & 1) << 5)) & LOW) > low:
            stop = middle
        else:
            run = middle + 1
    row = low
    while run < runs and row < high:
        until = np.int64((words[u(ends + (run >> 1))] >> u((run & 1) << 5)) & LOW)
        until = high if until > high else until
        value = words[u(values + run)]
        for i in range(row, until):
            out[u(at + i - low)] = value
        row = until if until > row else row
        run += 1
    return 0 if row == high else MALFORMED


@kernel("(u64[in], u8[in], i64, i64, i64, i64, i64, i64, i64, u64[out], i64) -> i64")
def decode_rare(words, buffer, begin, end, encoding, size, rows, low, high, out, at):
    """Decode rows ``low`` to ``high`` of a page of ``rows`` values of ``size`` bytes; ``buffer`` is ``words`` as bytes."""
    if encoding == RLE:
        return expand_runs(words, begin, end, low, high, out, at)
    target = u(at)
    count = u(high - low)
    if encoding == BITMAP:
        if (rows + 63) >> 6 > end - begin:
            return MALFORMED
        for i in range(low, high):
            out[u(at + i - low)] = (words[u(begin + (i >> 6))] >> u(i & 63)) & u(1)
    elif encoding == PLAIN_4:
        if rows > (end - begin) << 1:
            return MALFORMED
        for i in range(low, high):
            out[u(at + i - low)] = (words[u(begin + (i >> 1))] >> u((i & 1) << 5)) & LOW
    elif encoding == BYTE_SPLIT:
        if rows * size > (end - begin) << 3:
            return MALFORMED
        for i in range(count):
            out[target + i] = u(0)
        for plane in range(size):
            source = u((begin << 3) + plane * rows + low)
            shift = u(plane << 3)
            for i in range(count):
                out[target + i] |= u(buffer[source + i]) << shift
    else:
        return UNKNOWN_ENCODING
    return 0


@kernel("(u64[in], u8[in], i64[in], i64[in], u8[in], i64[in], i64, i64, i64, i64[in], i64[in], u64[out]) -> i64")
def fill_rare(
    words, buffer, page_offset, page_bytes, page_encoding, page_nulls, row_count, rows_per_page, size, starts, stops,
    out,
):  # fmt: skip
    """Decode the rows that ``read_words``, called before with the same ranges, left out. Returns 0 or a code as that does."""
    at = 0
    for k in range(len(starts)):
        row = starts[k]
        page = row // rows_per_page
        while row < stops[k]:
            low = row - page * rows_per_page
            rows = row_count - row + low if row_count - row + low < rows_per_page else rows_per_page
            high = stops[k] - row + low if stops[k] - row + low < rows else rows
            if page_encoding[page] > DICTIONARY and page_nulls[page] < rows:
                begin = page_offset[page] >> 3
                end = begin + (page_bytes[page] >> 3)
                if page_nulls[page] > 0:
                    begin += (rows + 63) >> 6
                if begin >= end:
                    return MALFORMED - 8 * page
                code = decode_rare(words, buffer, begin, end, np.int64(page_encoding[page]), size, rows, low, high, out, at)
                if code:
                    return code - 8 * page
            at += high - low
            row += high - low
            page += 1
    return 0
