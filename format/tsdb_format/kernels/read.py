"""The entries of the numeric read path: rows of many ranges, and binary search in sorted rows."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.block import NO_DECIMALS, POWERS, decode_rows, place
from tsdb_format.kernels.page import ALP, DICTIONARY, DOUBLE, FOR, HELD, INTEGER, MALFORMED, SCRATCH, check_page
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO = u(0)
#: A range outside the column: the caller's fault, not the file's.
BAD_RANGE = -5
#: Not an error: the page is of an encoding that these kernels leave to ``rare``.
RARE = -6


@kernel("(u64[in], i64, i64, i64, i64, i64, i64, i64, u64[in], u64[out], f64[out], i64[out]) -> void")
def finish(words, begin, encoding, rows, kind, first_row, low, high, scratch, block, doubles, held):
    """Make values of what ``scratch`` holds of the block of a page's row ``high`` - 1 where that is more than was asked for.

    ``held`` is the first of these rows, the one behind the last, and the block's first, of which the value is ``block[0]``.
    """
    held[0], held[1] = 0, 0
    start = (high - 1) >> 10 << 10
    entry = u(begin + (start >> 10 << 2))
    if encoding < FOR or encoding > ALP or scratch[HELD] != entry:
        return
    first, last = np.int64(scratch[HELD + 1]), np.int64(scratch[HELD + 2])
    layout = np.int64(words[entry + u(3)])
    decimals = (layout >> 56) & 31
    if low < start + first + 16 or (decimals != NO_DECIMALS and kind != DOUBLE):
        return
    count = rows - start if rows - start < 1024 else 1024
    width = (layout >> 27) & 127
    patches = (layout >> 34) & 2047
    exceptions = (layout >> 45) & 2047
    patched = begin + (layout & 0x7FFFFFF) + ((((count + 15) >> 4) * width + 63) >> 6 << 4)
    base, scale = words[entry + u(1)], words[entry + u(2)]
    if layout >> 61:
        base, scale = ZERO, u(1)
    if decimals == NO_DECIMALS:
        for i in range(u(first), u(last)):
            block[i] = base + scratch[i] * scale
    else:
        power = POWERS[decimals]
        for i in range(u(first), u(last)):
            doubles[i] = np.float64(np.int64(base + scratch[i] * scale)) / power
    place(words, patched + patches, patched + patches + exceptions, patches, exceptions, first, last, block, first)
    held[2] = first_row + start
    held[0], held[1] = held[2] + first, held[2] + last


@kernel(
    "(u64[in], i64[in], i64[in], u64[in], u8[in], i64[in], u8[out], i64, i64, i64, i64[in], i64[in], "
    "u64[out], f64[out], f32[out], b1[out]) -> i64"
)
def read_words(
    words, page_offset, page_bytes, page_checksum, page_encoding, page_nulls, verified, row_count, rows_per_page, kind,
    starts, stops, out, doubles, floats, validity,
):  # fmt: skip
    """Decode the rows of the ranges ``starts[i]`` to ``stops[i]``, end to end, into ``out`` and, where it has NULLs, ``validity``.

    ``words`` is the file as 8-byte words, the ``page_*`` arrays describe the column, ``doubles`` and ``floats`` view ``out``. Where
    the column has NULLs, ``out`` and ``validity`` are given zeroed. Returns twice the number of NULLs, plus 1 where rows were left
    out for ``fill_rare``; or -8 * page - (1 to 5) for what is wrong with a page.
    """
    scratch = np.empty(SCRATCH, np.uint64)
    scratch[HELD] = ~ZERO
    at = 0
    nulls = 0
    rare = 0
    block = np.empty(1024, np.uint64)  # values of the rows that ``held`` says: see ``finish``
    numbers = block.view(np.float64)
    held = np.empty(3, np.int64)
    held[0], held[1] = 0, 0
    for k in range(len(starts)):
        row = starts[k]
        if row < 0 or stops[k] > row_count:
            return BAD_RANGE
        if row >= held[0] and stops[k] <= held[1]:  # as of rows of many small devices
            source, target = u(row - held[2]), u(at)
            for i in range(u(stops[k] - row)):
                out[target + i] = block[source + i]
            at += stops[k] - row
            continue
        page = row // rows_per_page
        while row < stops[k]:
            low = row - page * rows_per_page
            rows = row_count - row + low if row_count - row + low < rows_per_page else rows_per_page
            high = stops[k] - row + low if stops[k] - row + low < rows else rows
            row += high - low
            stop = at + high - low
            if page_nulls[page] >= rows:
                nulls += high - low
                at = stop
                page += 1
                continue
            code = check_page(words, page_offset[page], page_bytes[page], page_checksum[page], verified, page, scratch)
            begin = page_offset[page] >> 3
            end = begin + (page_bytes[page] >> 3)
            if code == 0 and len(validity):
                bits = begin
                some = page_nulls[page] > 0
                if some:
                    begin += (rows + 63) >> 6
                if begin >= end:
                    return MALFORMED - 8 * page
                for i in range(low, high):
                    valid = not some or (words[u(bits + (i >> 6))] >> u(i & 63)) & u(1) != ZERO
                    validity[u(at + i - low)] = valid
                    nulls += not valid
            here = page_encoding[page] > DICTIONARY
            rare |= here
            if code == 0 and not here:
                code = decode_rows(words, begin, end, page_encoding[page], rows, kind, low, high, scratch, out, doubles, floats, at)
            if code:
                return code - 8 * page
            if high - low < 1024 and len(validity) == 0:  # more rows need no more of their last block
                first_row = page * rows_per_page
                finish(words, begin, page_encoding[page], rows, kind, first_row, low, high, scratch, block, numbers, held)
            else:
                held[1] = 0
            at = stop
            page += 1
    return nulls << 1 | rare


@kernel(
    "(u64[in], i64[in], i64[in], u64[in], u8[in], u8[out], i64, i64, i64[in], i64[in], i64, "
    "u64[out], f64[out], f32[out], i64[out]) -> i64"
)
def search_words(
    words, page_offset, page_bytes, page_checksum, page_encoding, verified, row_count, rows_per_page, starts, stops, key,
    block, doubles, floats, found,
):  # fmt: skip
    """Per range of ascending 8-byte integers, the first row whose value is at least ``key``, or the range's stop.

    Only the first values of blocks are decoded, and one block. The column has no NULLs. ``block`` is scratch of 1,024 words,
    ``doubles`` and ``floats`` its views. Returns 0 or a code as ``read_words`` does,
    or RARE - 8 * page.
    """
    scratch = np.empty(SCRATCH, np.uint64)
    scratch[HELD] = ~ZERO
    for k in range(len(starts)):
        low = starts[k]
        high = stops[k]
        if low < 0 or high > row_count:
            return BAD_RANGE
        while low < high:
            # Rows before low are below key, those from high on are not.
            # Probe a block's first row, or decode the one block that is left.
            row = (low + high) >> 1
            page = row // rows_per_page
            start = page * rows_per_page
            stop = start + ((((row - start) >> 10) + 1) << 10)
            if stop > start + rows_per_page:
                stop = start + rows_per_page
            row = start + ((row - start) >> 10 << 10)
            if row <= low and stop >= high:
                row, stop = low, high
            else:
                if row <= low:
                    row = stop
                    page = row // rows_per_page
                    start = page * rows_per_page
                stop = row + 1
            code = check_page(words, page_offset[page], page_bytes[page], page_checksum[page], verified, page, scratch)
            if code == 0:
                if page_encoding[page] > DICTIONARY:
                    return RARE - 8 * page
                begin = page_offset[page] >> 3
                end = begin + (page_bytes[page] >> 3)
                rows = row_count - start if row_count - start < rows_per_page else rows_per_page
                code = decode_rows(
                    words, begin, end, page_encoding[page], rows, INTEGER, row - start, stop - start,
                    scratch, block, doubles, floats, 0,
                )  # fmt: skip
            if code:
                return code - 8 * page
            first, last = row, stop
            while first < last:
                middle = (first + last) >> 1
                if np.int64(block[u(middle - row)]) < key:
                    first = middle + 1
                else:
                    last = middle
            if first > row:
                low = first
            if first < stop:
                high = first
        found[k] = low
    return 0
