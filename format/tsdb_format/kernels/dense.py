"""Vectors: pages of rows of many 4-byte items, plain, constant or byte-split."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.checksum import STATE, stored_checksum
from tsdb_format.kernels.page import BYTE_SPLIT, CONSTANT, MALFORMED, PLAIN, SCRATCH, UNKNOWN_ENCODING, check_page
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO = u(0)
#: What ``locate_dense`` says of rows whose items are not end to end; other codes are negative.
NOT_IN_PLACE = 1


@kernel("(u32[in], b1[in], i64, i64, i64, u64[out], u32[out], u8[out], i64[out], i64[out], u64[out], u8[out]) -> i64")
def encode_dense(
    items, validity, width, rows_per_page, encoding, out, out_items, out_bytes, page_offset, page_bytes, page_checksum,
    page_encoding,
):  # fmt: skip
    """Write pages of ``items``, ``width`` to a row; NULL rows become zeros. Returns the words; ``out_*`` are views of ``out``."""
    state = np.empty(STATE, np.uint64)
    row_count = len(items) // width
    at = 0
    for page in range(len(page_offset)):
        start = page * rows_per_page
        count = row_count - start if row_count - start < rows_per_page else rows_per_page
        page_offset[page] = at << 3
        page_bytes[page] = 0
        page_encoding[page] = CONSTANT
        valid = count
        if len(validity):
            valid = 0
            for i in range(start, start + count):
                valid += validity[i]
        if valid == 0:
            continue
        begin = at + ((count + 63) >> 6) if valid < count else at
        end = begin + ((count * width + 1) >> 1)
        for i in range(u(at), u(end)):
            out[i] = ZERO
        for i in range(count):
            if valid < count:
                out[at + (i >> 6)] |= u(validity[start + i]) << u(i & 63)
            if valid < count and not validity[start + i]:
                continue
            source = u((start + i) * width)
            if encoding == PLAIN:
                target = u((begin << 1) + i * width)
                for j in range(u(width)):
                    out_items[target + j] = items[source + j]
            else:
                for plane in range(4):
                    target = u((begin << 3) + (plane * count + i) * width)
                    for j in range(u(width)):
                        out_bytes[target + j] = np.uint8((items[source + j] >> np.uint32(plane << 3)) & np.uint32(255))
        page_encoding[page] = encoding
        page_bytes[page] = (end - at) << 3
        page_checksum[page] = stored_checksum(out, at, end - at, state)
        at = end
    return at


@kernel(
    "(u64[in], u32[in], u8[in], i64[in], i64[in], u64[in], u8[in], i64[in], u8[out], i64, i64, i64, i64[in], i64[in], "
    "u32[out], b1[out]) -> i64"
)
def read_dense(
    words, items, buffer, page_offset, page_bytes, page_checksum, page_encoding, page_nulls, verified, row_count, rows_per_page,
    width, starts, stops, out, validity,
):  # fmt: skip
    """Read the rows of the ranges into ``out`` and ``validity``. Returns 0 or a code as ``read_words`` does.

    ``items`` and ``buffer`` are views of ``words``.
    """
    scratch = np.empty(SCRATCH, np.uint64)
    at = 0
    for k in range(len(starts)):
        row = starts[k]
        page = row // rows_per_page
        while row < stops[k]:
            low = row - page * rows_per_page
            rows = row_count - row + low if row_count - row + low < rows_per_page else rows_per_page
            high = stops[k] - row + low if stops[k] - row + low < rows else rows
            row += high - low
            target = u(at * width)
            count = u((high - low) * width)
            if page_nulls[page] >= rows:
                for i in range(count):
                    out[target + i] = np.uint32(0)
                for i in range(at, at + high - low):
                    validity[i] = False
                at += high - low
                page += 1
                continue
            code = check_page(words, page_offset[page], page_bytes[page], page_checksum[page], verified, page, scratch)
            if code:
                return code - 8 * page
            bits = page_offset[page] >> 3
            end = bits + (page_bytes[page] >> 3)
            some = page_nulls[page] > 0
            begin = bits + ((rows + 63) >> 6) if some else bits
            if begin >= end or rows * width > (end - begin) << 1:
                return MALFORMED - 8 * page
            for i in range(low, high):
                validity[at + i - low] = not some or (words[bits + (i >> 6)] >> u(i & 63)) & u(1) != ZERO
            if page_encoding[page] == PLAIN:
                source = u((begin << 1) + low * width)
                for i in range(count):
                    out[target + i] = items[source + i]
            elif page_encoding[page] == BYTE_SPLIT:
                for i in range(count):
                    out[target + i] = np.uint32(0)
                for plane in range(4):
                    source = u((begin << 3) + (plane * rows + low) * width)
                    for i in range(count):
                        out[target + i] |= np.uint32(buffer[source + i]) << np.uint32(plane << 3)
            else:
                return UNKNOWN_ENCODING - 8 * page
            at += high - low
            page += 1
    return 0


@kernel(
    "(u64[in], i64[in], i64[in], u64[in], u8[in], i64[in], u8[out], i64, i64, i64, i64[in], i64[in], i64[out], i64[out], b1[out])"
    " -> i64"
)
def locate_dense(
    words, page_offset, page_bytes, page_checksum, page_encoding, page_nulls, verified, row_count, rows_per_page, width, starts,
    stops, start, rows, validity,
):  # fmt: skip
    """Find the rows of the ranges: for each page of each, where its items begin (−1: all NULL) and how many rows there are.

    ``validity`` is filled unless it is empty. Returns 0, NOT_IN_PLACE, or a code as ``read_words`` does.
    """
    scratch = np.empty(SCRATCH, np.uint64)
    at = 0
    span = 0
    for k in range(len(starts)):
        row = starts[k]
        page = row // rows_per_page
        while row < stops[k]:
            low = row - page * rows_per_page
            page_rows = row_count - row + low if row_count - row + low < rows_per_page else rows_per_page
            high = stops[k] - row + low if stops[k] - row + low < page_rows else page_rows
            row += high - low
            rows[span] = high - low
            start[span] = -1
            some = page_nulls[page] > 0
            if page_nulls[page] >= page_rows:
                for i in range(at, at + high - low):
                    validity[i] = False
            else:
                code = check_page(words, page_offset[page], page_bytes[page], page_checksum[page], verified, page, scratch)
                if code:
                    return code - 8 * page
                if page_encoding[page] == BYTE_SPLIT:
                    return NOT_IN_PLACE
                if page_encoding[page] != PLAIN:
                    return UNKNOWN_ENCODING - 8 * page
                bits = page_offset[page] >> 3
                end = bits + (page_bytes[page] >> 3)
                begin = bits + ((page_rows + 63) >> 6) if some else bits
                if begin >= end or page_rows * width > (end - begin) << 1:
                    return MALFORMED - 8 * page
                start[span] = (begin << 1) + low * width
                if len(validity):
                    for i in range(low, high):
                        validity[at + i - low] = not some or (words[bits + (i >> 6)] >> u(i & 63)) & u(1) != ZERO
            at += high - low
            span += 1
            page += 1
    return 0
