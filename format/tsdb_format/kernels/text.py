"""Strings and blobs: distinct values of a chunk, plain pages, and gathering their bytes.

The values of a plain page are three words - bytes of all cells, words before them, words before their kinds (0: all cells are the
values themselves) - then the blocks of a DELTA page of the cells' ends, then the kinds, a byte each, if there are any, then the
cells end to end. NULL cells are empty.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.block import NO_DECIMALS, decode_rows
from tsdb_format.kernels.checksum import STATE, stored_checksum
from tsdb_format.kernels.page import (
    CONSTANT,
    DELTA,
    HELD,
    INTEGER,
    MALFORMED,
    PLAIN,
    SCRATCH,
    UNKNOWN_ENCODING,
    UNKNOWN_KIND,
    check_page,
)
from tsdb_format.kernels.page_encode import write_blocks
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO = u(0)
HEADER = 3
#: The last kind of a blob there is, and what the cell of one that is not 0 takes (see ``blob``).
KIND_MAX = 3
LOCATOR_BYTES = 32


@kernel("(i64[in], u8[in], i32[in], b1[in], i64, i64, i32[out], i32[out], u64[out], i64[out]) -> i64")
def distinct(offsets, data, codes, validity, lowest, limit, renamed, table, out, first):
    """Number the distinct strings of ``codes`` by their bytes, in order of appearance.

    ``out`` gets each row's number (a NULL: the one before it) and ``first`` the pool code of each number. ``renamed`` is indexed
    by code - ``lowest`` and full of -1, as is the hash ``table``, whose length is a power of two above ``limit``. Returns how many
    there are, or -1 as soon as they are more than ``limit``.
    """
    count = 0
    mask = len(table) - 1
    last = 0
    for row in range(len(codes)):
        if len(validity) == 0 or validity[row]:
            code = np.int64(codes[row])
            last = np.int64(renamed[code - lowest])
            if last < 0:
                start = offsets[code]
                size = offsets[code + 1] - start
                hashed = u(size)
                for i in range(u(start), u(start + size)):
                    hashed = (hashed ^ u(data[i])) * u(0x9E3779B97F4A7C15)
                slot = np.int64(hashed >> u(20)) & mask
                last = np.int64(table[slot])
                while last >= 0:
                    other = offsets[first[last]]
                    same = offsets[first[last] + 1] - other == size
                    i = 0
                    while same and i < size:
                        same = data[other + i] == data[start + i]
                        i += 1
                    if same:
                        break
                    slot = (slot + 1) & mask
                    last = np.int64(table[slot])
                if last < 0:
                    if count == limit:
                        return -1
                    last = count
                    first[count] = code
                    table[slot] = count
                    count += 1
                renamed[code - lowest] = last
        out[row] = u(last)
    return count


@kernel("(u8[in], i32[in], b1[in], i64, i64, u64[out], u8[out], i64) -> i64", inline=True)
def write_kinds(kinds, codes, validity, start, count, out, out_bytes, at):
    """Write the kinds of a page's cells, 0 under a NULL, from word ``at`` on; the word behind them."""
    end = at + ((count + 7) >> 3)
    for i in range(u(at), u(end)):
        out[i] = ZERO
    for i in range(count):
        if len(validity) == 0 or validity[start + i]:
            out_bytes[(at << 3) + i] = kinds[codes[start + i]]
    return end


@kernel("(u64[in], i64, i64, i64) -> i64", inline=True)
def read_kind(words, at, i, size):
    """Kind ``i`` of those from word ``at`` on, of a cell of ``size`` bytes; or an error code."""
    kind = np.int64((words[at + (i >> 3)] >> u((i & 7) << 3)) & u(255))
    if kind > KIND_MAX:
        return UNKNOWN_KIND
    return kind if kind == 0 or size == LOCATOR_BYTES else MALFORMED


@kernel("(i64[in], u8[in], u8[in], i32[in], b1[in], i64, u64[out], u8[out], i64[out], i64[out], u64[out], u8[out]) -> i64")
def encode_text(
    offsets, data, kinds, codes, validity, rows_per_page, out, out_bytes, page_offset, page_bytes, page_checksum, page_encoding
):
    """Write plain pages of the pool's strings at ``codes``; ``out_bytes`` is a view of ``out``. Returns the words written.

    ``kinds`` has the kind of each string of the pool, or nothing: then all are 0.
    """
    work = np.empty(2080, np.uint64)
    integers = np.empty(1024, np.uint64)
    exceptional = np.empty(2048, np.int64)
    ends = np.empty(rows_per_page, np.uint64)
    doubles = np.empty(0, np.float64)
    state = np.empty(STATE, np.uint64)
    at = 0
    for page in range(len(page_offset)):
        start = page * rows_per_page
        count = len(codes) - start if len(codes) - start < rows_per_page else rows_per_page
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
        begin = at
        if valid < count:
            begin += (count + 63) >> 6
            for i in range(u(at), u(begin)):
                out[i] = ZERO
            for i in range(count):
                out[at + (i >> 6)] |= u(validity[start + i]) << u(i & 63)
        total = 0
        some_kind = False
        for i in range(count):
            if valid == count or validity[start + i]:
                code = codes[start + i]
                total += offsets[code + 1] - offsets[code]
                some_kind = some_kind or (len(kinds) > 0 and kinds[code] != 0)
            ends[i] = u(total)
        body = begin + HEADER
        body += write_blocks(ends, doubles, 0, count, INTEGER, 1, NO_DECIMALS, out, body, work, integers, exceptional)
        out[begin + 2] = ZERO
        if some_kind:
            out[begin + 2] = u(body - begin)
            body = write_kinds(kinds, codes, validity, start, count, out, out_bytes, body)
        out[begin] = u(total)
        out[begin + 1] = u(body - begin)
        end = body + ((total + 7) >> 3)
        for i in range(u(body + (total >> 3)), u(end)):
            out[i] = ZERO
        target = body << 3
        for i in range(count):
            if valid == count or validity[start + i]:
                code = codes[start + i]
                source = u(offsets[code])
                size = u(offsets[code + 1]) - source
                for j in range(size):
                    out_bytes[u(target) + j] = data[source + j]
                target += np.int64(size)
        page_encoding[page] = PLAIN
        page_bytes[page] = (end - at) << 3
        page_checksum[page] = stored_checksum(out, at, end - at, state)
        at = end
    return at


@kernel(
    "(u64[in], i64[in], i64[in], u64[in], u8[in], i64[in], u8[out], i64, i64, i64[in], i64[in], u64[out], f64[out], f32[out], "
    "i64[out], i64[out], b1[out], u8[out]) -> i64"
)
def locate_text(
    words, page_offset, page_bytes, page_checksum, page_encoding, page_nulls, verified, row_count, rows_per_page, starts, stops,
    ends, doubles, floats, place, size, validity, kinds,
):  # fmt: skip
    """Where the cells of the ranges' rows lie: ``place`` and ``size`` in bytes, their validity and their kinds.

    ``ends`` is scratch of one page's rows with its views. Returns 1 where some kind is not 0, else 0, or as ``read_words`` does.
    """
    scratch = np.empty(SCRATCH, np.uint64)
    scratch[HELD] = ~ZERO
    at = 0
    some_kind = 0
    for k in range(len(starts)):
        row = starts[k]
        page = row // rows_per_page
        while row < stops[k]:
            low = row - page * rows_per_page
            rows = row_count - row + low if row_count - row + low < rows_per_page else rows_per_page
            high = stops[k] - row + low if stops[k] - row + low < rows else rows
            row += high - low
            stop = at + high - low
            if page_nulls[page] >= rows:
                for i in range(at, stop):
                    place[i], size[i], validity[i], kinds[i] = 0, 0, False, 0
                at = stop
                page += 1
                continue
            code = check_page(words, page_offset[page], page_bytes[page], page_checksum[page], verified, page, scratch)
            if code:
                return code - 8 * page
            if page_encoding[page] != PLAIN:
                return UNKNOWN_ENCODING - 8 * page
            bits = page_offset[page] >> 3
            end = bits + (page_bytes[page] >> 3)
            some = page_nulls[page] > 0
            begin = bits + ((rows + 63) >> 6) if some else bits
            if begin + HEADER >= end:
                return MALFORMED - 8 * page
            total = np.int64(words[begin])
            before = np.int64(words[begin + 1])
            if before < HEADER or before > end - begin or total < 0 or total > (end - begin - before) << 3:
                return MALFORMED - 8 * page
            kinds_at = np.int64(words[begin + 2])
            if kinds_at != 0 and (kinds_at < HEADER or kinds_at > before - ((rows + 7) >> 3)):
                return MALFORMED - 8 * page
            first = low - 1 if low > 0 else 0
            code = decode_rows(
                words, begin + HEADER, begin + before, DELTA, rows, INTEGER, first, high, scratch, ends, doubles, floats, 0
            )
            if code:
                return code - 8 * page
            last = np.int64(ends[0]) if low > 0 else 0
            for i in range(low, high):
                here = np.int64(ends[i - first])
                if last < 0 or here < last or here > total:
                    return MALFORMED - 8 * page
                place[at] = ((begin + before) << 3) + last
                size[at] = here - last
                validity[at] = not some or (words[bits + (i >> 6)] >> u(i & 63)) & u(1) != ZERO
                kinds[at] = 0
                if kinds_at > 0 and validity[at]:
                    code = read_kind(words, begin + kinds_at, i, here - last)
                    if code < 0:
                        return code - 8 * page
                    kinds[at] = code
                    some_kind |= code > 0
                last = here
                at += 1
            page += 1
    return some_kind


@kernel("(u8[in], i64[in], i64[in], u8[out]) -> void", small=True)
def gather_bytes(data, place, size, out):
    """Copy ``size[i]`` bytes from ``place[i]``, end to end, into ``out``; neighbours are copied at once."""
    at = ZERO
    i = 0
    while i < len(place):
        start = place[i]
        stop = start + size[i]
        i += 1
        while i < len(place) and (place[i] == stop or size[i] == 0):
            stop += size[i]
            i += 1
        source = u(start)
        for j in range(u(stop - start)):
            out[at + j] = data[source + j]
        at += u(stop - start)


@kernel("(u8[in], i64[in], i32[in], i32[out], u8[out]) -> i64", small=True)
def repeat_text(data, offsets, codes, ends, out):
    """Write each row's string into ``out``, end to end, and where it ends after the 0 at the front of ``ends``.

    A run of one code is copied twice as long each time. Returns the bytes of all, or -1 where ``out`` has no room for them.
    """
    at = ZERO
    room = u(len(out))
    ends[0] = 0
    i = 0
    while i < len(codes):
        code = codes[i]
        start = u(offsets[code])
        size = u(offsets[code + 1]) - start
        begin = at
        while i < len(codes) and codes[i] == code:
            at += size
            i += 1
            ends[i] = at
        if at > room:
            return -1
        for j in range(size):
            out[begin + j] = data[start + j]
        done = size
        while begin + done < at:
            count = min(done, at - begin - done)
            for j in range(count):
                out[begin + done + j] = out[begin + j]
            done += count
    return np.int64(at)
