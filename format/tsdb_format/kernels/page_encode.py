"""Encode the pages of a chunk of numbers: validity, then values in one of the encodings, then the checksum."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.block import NO_DECIMALS
from tsdb_format.kernels.block_encode import encode_block, to_decimals
from tsdb_format.kernels.checksum import STATE, stored_checksum
from tsdb_format.kernels.page import BITMAP, BYTE_SPLIT, CONSTANT, DICTIONARY, FOR, PLAIN_4, RLE
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO, ONE = u(0), u(1)


@kernel("(u64[out], b1[in]) -> void")
def fill_nulls(values, validity):
    """Give NULL slots the valid value before them; those before the first valid one, the first."""
    last = ZERO
    for i in range(len(validity)):
        if validity[i]:
            last = values[i]
            break
    for i in range(len(validity)):
        if validity[i]:
            last = values[i]
        else:
            values[i] = last


@kernel("(u64[in]) -> i64")
def count_runs(values):
    """Number of runs of equal values."""
    runs = 0
    for i in range(ONE, u(len(values))):
        runs += values[i] != values[i - ONE]
    return runs + (len(values) > 0)


@kernel("(u64[in], i64, i64, u64[out], i64) -> i64")
def write_runs(values, at, count, out, body):
    """Write ``values[at:at + count]`` as runs; returns the words."""
    runs = 0
    for i in range(count):
        runs += i == 0 or values[u(at + i)] != values[u(at + i - 1)]
    ends = body + 1
    value = ends + ((runs + 1) >> 1)
    out[u(body)] = u(runs)
    out[u(value - 1)] = ZERO
    run = 0
    for i in range(1, count + 1):
        if i == count or values[u(at + i)] != values[u(at + i - 1)]:
            if run & 1 == 0:
                out[u(ends + (run >> 1))] = ZERO
            out[u(ends + (run >> 1))] |= u(i) << u((run & 1) << 5)
            out[u(value + run)] = values[u(at + i - 1)]
            run += 1
    return value + runs - body


@kernel("(u64[in], i64, i64, i64, i64, u64[out], i64) -> i64")
def write_small(values, at, count, per_word, bits, out, body):
    """Write the low ``bits`` of ``values[at:at + count]``, ``per_word`` of them to a word; returns the words."""
    size = (count + per_word - 1) // per_word
    for i in range(u(body), u(body + size)):
        out[i] = ZERO
    mask = ~ZERO >> u(64 - bits)
    for i in range(count):
        word = i // per_word
        out[u(body + word)] |= (values[u(at + i)] & mask) << u((i - word * per_word) * bits)
    return size


@kernel("(u64[in], i64, i64, i64, u64[out], i64) -> i64")
def write_split(values, at, count, size, out, body):
    """Write bytes 0 of ``values[at:at + count]``, then bytes 1, and so on to ``size``; returns the words."""
    length = (count * size + 7) >> 3
    for i in range(u(body), u(body + length)):
        out[i] = ZERO
    place = 0
    for plane in range(size):
        shift = u(plane << 3)
        for i in range(count):
            out[u(body + (place >> 3))] |= ((values[u(at + i)] >> shift) & u(255)) << u((place & 7) << 3)
            place += 1
    return length


@kernel("(u64[in], f64[in], i64, i64, i64, i64, i64, u64[out], i64, u64[out], u64[out], i64[out]) -> i64")
def write_blocks(words, values, at, count, kind, delta, decimals, out, body, work, integers, exceptional):
    """Write the directory and blocks of ``words[at:at + count]``; returns the words. ``values`` are the same as doubles."""
    blocks = (count + 1023) >> 10
    end = body + 4 * blocks
    for block in range(blocks):
        start = at + (block << 10)
        number = count - (block << 10) if block == blocks - 1 else 1024
        entry = body + 4 * block
        if decimals == NO_DECIMALS:
            end += encode_block(words, start, number, delta, decimals, words, start, exceptional, 0, work, out, body, entry, end)
        else:
            wrong = to_decimals(values, words, start, number, kind, decimals, integers, exceptional)
            end += encode_block(integers, 0, number, delta, decimals, words, start, exceptional, wrong, work, out, body, entry, end)
    return end - body


@kernel("(u64[in], f64[in], b1[in], i64, i64, i64, i64, i64, i64, u64[out], i64[out], i64[out], u64[out], u8[out]) -> i64")
def encode_pages(
    words, values, validity, rows_per_page, kind, size, encoding, delta, decimals, out, page_offset, page_bytes, page_checksum,
    page_encoding,
):  # fmt: skip
    """Encode ``words``, a chunk's values with NULLs filled, into pages; returns the words written to ``out``.

    ``values`` are the same as doubles where ``decimals`` says so, ``validity`` is empty where there is no NULL. A page whose
    values are all the same becomes CONSTANT; one that is all NULL takes no bytes. ``size`` is the bytes of a value.
    """
    work = np.empty(2080, np.uint64)
    integers = np.empty(1024, np.uint64)
    exceptional = np.empty(2048, np.int64)
    state = np.empty(STATE, np.uint64)
    at = 0
    for page in range(len(page_offset)):
        start = page * rows_per_page
        count = len(words) - start if len(words) - start < rows_per_page else rows_per_page
        end = at
        page_offset[page] = at << 3
        page_bytes[page] = 0
        page_encoding[page] = CONSTANT
        if len(validity):
            valid = 0
            for i in range(start, start + count):
                valid += validity[i]
            if valid == 0:
                continue
            if valid < count:
                for i in range(u(at), u(at + ((count + 63) >> 6))):
                    out[i] = ZERO
                for i in range(count):
                    out[u(at + (i >> 6))] |= u(validity[start + i]) << u(i & 63)
                end += (count + 63) >> 6
        first = words[u(start)]
        different = ZERO
        for i in range(u(start), u(start + count)):
            different |= words[i] ^ first
        if different == ZERO:
            out[u(end)] = first
            end += 1
        else:
            page_encoding[page] = encoding
            if encoding >= FOR and encoding <= DICTIONARY:
                end += write_blocks(words, values, start, count, kind, delta, decimals, out, end, work, integers, exceptional)
            elif encoding == RLE:
                end += write_runs(words, start, count, out, end)
            elif encoding == BITMAP:
                end += write_small(words, start, count, 64, 1, out, end)
            elif encoding == PLAIN_4:
                end += write_small(words, start, count, 2, 32, out, end)
            elif encoding == BYTE_SPLIT:
                end += write_split(words, start, count, size, out, end)
            else:
                for i in range(u(count)):
                    out[u(end) + i] = words[u(start) + i]
                end += count
        page_bytes[page] = (end - at) << 3
        page_checksum[page] = stored_checksum(out, at, end - at, state)
        at = end
    return at
