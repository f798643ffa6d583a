"""Giving numbers to strings and to tuples of tags: open-addressing hash tables over arrays, one pass over the rows.

Both tables only grow. ``slots`` holds entry numbers (-1: free) and has a power-of-two length of at least twice the entries. A call
that would overfill a table or its arrays stops early and returns the row it stopped at; the caller enlarges and calls again from
there. Rows usually repeat the last entry or continue with the next one (devices report in turn), so these two are tried first.
"""

from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel


@kernel("(u8[in], i64, i64) -> u64")
def hash_bytes(data, start, stop):  # type: ignore[no-untyped-def]
    """A 64-bit hash of data[start:stop], eight bytes at a time."""
    mix = np.uint64(0x9E3779B97F4A7C15)
    shift = np.uint64(32)
    h = np.uint64(stop - start) * mix
    at = start
    while at + 8 <= stop:
        word = np.uint64(0)
        for i in range(8):
            word |= np.uint64(data[at + i]) << np.uint64(8 * i)
        h = (h ^ word) * mix
        h ^= h >> shift
        at += 8
    word = np.uint64(0)
    for i in range(stop - at):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    h = (h ^ word) * mix
    h ^= h >> shift
    h *= np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> shift)


@kernel("(u8[in], i64, i64, u8[in], i64, i64) -> b1")
def same_bytes(a, a_start, a_stop, b, b_start, b_stop):  # type: ignore[no-untyped-def]
    """Whether two byte ranges are equal."""
    length = a_stop - a_start
    if length != b_stop - b_start:
        return False
    for i in range(length):
        if a[a_start + i] != b[b_start + i]:
            return False
    return True


@kernel("(i64[in], i64[in], u8[in], i64, b1, i32[out], i64[out], u8[out], u64[out], i64[out], i32[out]) -> i64")
def intern_strings(starts, stops, data, row, add, slots, pool_offsets, pool_data, pool_hash, size, codes):  # type: ignore[no-untyped-def]
    """Code each string from ``row`` on; unknown ones are appended when ``add``, else coded -1. Returns where it stopped.

    starts, stops i64[n] into data u8[]: the strings; a start of -1 is NULL, whose code is -1; slots i32[2^k];
    pool_offsets i64[cap+1], pool_data u8[], pool_hash u64[cap]: the pool; size i64[1]: its length; codes i32[n].
    """
    mask = len(slots) - 1
    count = size[0]
    limit = min(len(pool_hash), len(slots) // 2)
    previous = -1
    while row < len(codes):
        start = starts[row]
        stop = stops[row]
        if start < 0:
            codes[row] = -1
            row += 1
            continue
        code = -1
        for guess in range(previous, previous + 2):
            if 0 <= guess < count and same_bytes(data, start, stop, pool_data, pool_offsets[guess], pool_offsets[guess + 1]):
                code = guess
                break
        if code < 0:
            h = hash_bytes(data, start, stop)
            slot = np.int64(h & np.uint64(mask))
            while slots[slot] >= 0:
                entry = slots[slot]
                if pool_hash[entry] == h and same_bytes(data, start, stop, pool_data, pool_offsets[entry], pool_offsets[entry + 1]):
                    code = entry
                    break
                slot = (slot + 1) & mask
            if code < 0 and add:
                end = pool_offsets[count]
                if count >= limit or end + (stop - start) > len(pool_data):
                    break
                for i in range(stop - start):
                    pool_data[end + i] = data[start + i]
                pool_offsets[count + 1] = end + (stop - start)
                pool_hash[count] = h
                slots[slot] = count
                code = count
                count += 1
        codes[row] = code
        if code >= 0:
            previous = code
        row += 1
    size[0] = count
    return row


@kernel("(i64[in], u8[in], u64[out]) -> void")
def hash_strings(offsets, data, hashes):  # type: ignore[no-untyped-def]
    """A 64-bit hash of each string data[offsets[i]:offsets[i+1]]; offsets i64[n+1], hashes u64[n]."""
    for i in range(len(hashes)):
        hashes[i] = hash_bytes(data, offsets[i], offsets[i + 1])


@kernel("(u64[in], i64, i32[out]) -> void")
def rebuild_slots(hashes, count, slots):  # type: ignore[no-untyped-def]
    """Fill empty slots i32[2^k] with the entries 0..count-1 of hashes u64[cap]."""
    mask = len(slots) - 1
    for entry in range(count):
        slot = np.int64(hashes[entry] & np.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = entry


@kernel("(i64[in,2], i64, b1, i32[out], i64[out,2], u64[out], i64[out], i32[out]) -> i64")
def number_rows(keys, row, add, slots, known, known_hash, size, numbers):  # type: ignore[no-untyped-def]
    """Number each key from ``row`` on; unknown ones are appended when ``add``, else numbered -1. Returns where it stopped.

    keys i64[n,w]; slots i32[2^k]; known i64[cap,w], known_hash u64[cap]: the numbered keys; size i64[1]: how many; numbers i32[n].
    """
    width = keys.shape[1]
    mask = len(slots) - 1
    count = size[0]
    limit = min(len(known_hash), len(slots) // 2)
    previous = -1
    while row < len(numbers):
        number = -1
        for guess in range(previous, previous + 2):
            if 0 <= guess < count:
                equal = True
                for j in range(width):
                    equal = equal and keys[row, j] == known[guess, j]
                if equal:
                    number = guess
                    break
        if number < 0:
            h = np.uint64(0x9E3779B97F4A7C15)
            for j in range(width):
                h = (h ^ np.uint64(keys[row, j])) * np.uint64(0xD6E8FEB86659FD93)
                h ^= h >> np.uint64(32)
            slot = np.int64(h & np.uint64(mask))
            while slots[slot] >= 0:
                entry = slots[slot]
                equal = known_hash[entry] == h
                for j in range(width):
                    equal = equal and keys[row, j] == known[entry, j]
                if equal:
                    number = entry
                    break
                slot = (slot + 1) & mask
            if number < 0 and add:
                if count >= limit:
                    break
                for j in range(width):
                    known[count, j] = keys[row, j]
                known_hash[count] = h
                slots[slot] = count
                number = count
                count += 1
        numbers[row] = number
        if number >= 0:
            previous = number
        row += 1
    size[0] = count
    return row
