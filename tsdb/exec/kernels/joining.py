"""Rows of a join by the number of their key, and integers numbered without a table of anything else.

Numbers count keys from zero; -1 is a row that has none. Rows of one number keep their order.
"""

from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], i64, i64, i64, i32[out]) -> void")
def number_places(keys, low, step, count, numbers):  # type: ignore[no-untyped-def]
    """The place of each key among ``count`` values from ``low`` on, ``step`` apart; -1 for others.

    keys i64[n], numbers i32[n].
    """
    unsigned_step = np.uint64(step)
    for row in range(len(keys)):
        number = np.int32(-1)
        if keys[row] >= low:
            distance = np.uint64(keys[row]) - np.uint64(low)
            place = distance
            if step > 1:
                place = distance // unsigned_step
            if place < np.uint64(count) and place * unsigned_step == distance:
                number = np.int32(place)
        numbers[row] = number


@kernel("(i64[in], i64) -> i64")
def common_step(keys, low):  # type: ignore[no-untyped-def]
    """The greatest number of which all distances of keys i64[n] from ``low``, the least, are multiples; 0 where they are all 0."""
    step = np.uint64(0)
    for row in range(len(keys)):
        a = np.uint64(keys[row]) - np.uint64(low)
        b = step
        if b != np.uint64(0):
            a = a % b
        while a != np.uint64(0):
            a, b = b % a, a
        step = b
        if step == np.uint64(1):
            break
    return np.int64(step)


@kernel("(i64[in], i64, b1, i64[out], i64[out], i32[out]) -> i64")
def number_integers(keys, row, add, table, size, numbers):  # type: ignore[no-untyped-def]
    """Number each key from ``row`` on; unknown ones are added when ``add``, else numbered -1. Returns where it stopped.

    keys i64[n]; table i64[2 * 2^k]: a key, and its number + 1 behind it (0: free); size i64[1]: how many; numbers i32[n]. A call
    that would fill more than half of the table stops early.
    """
    slots = len(table) // 2
    mask = slots - 1
    count = size[0]
    previous_key = np.int64(0)
    previous = -1
    while row < len(numbers):
        key = keys[row]
        number = previous
        if previous < 0 or key != previous_key:
            number = -1
            h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
            slot = np.int64(h & np.uint64(mask))
            while table[2 * slot + 1] != 0:
                if table[2 * slot] == key:
                    number = table[2 * slot + 1] - 1
                    break
                slot = (slot + 1) & mask
            if number < 0 and add:
                if 2 * (count + 1) > slots:
                    break
                table[2 * slot] = key
                table[2 * slot + 1] = count + 1
                number = count
                count += 1
        numbers[row] = number
        previous = number
        previous_key = key
        row += 1
    size[0] = count
    return row


@kernel("(i64[in], i64[out]) -> void")
def rehash_integers(old, table):  # type: ignore[no-untyped-def]
    """Bring the entries of a table i64[2 * 2^k] of ``number_integers`` into an empty, larger one."""
    mask = len(table) // 2 - 1
    for entry in range(len(old) // 2):
        if old[2 * entry + 1] == 0:
            continue
        h = np.uint64(old[2 * entry]) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
        slot = np.int64(h & np.uint64(mask))
        while table[2 * slot + 1] != 0:
            slot = (slot + 1) & mask
        table[2 * slot] = old[2 * entry]
        table[2 * slot + 1] = old[2 * entry + 1]


@kernel("(i32[in], i64[out], i64[out]) -> void")
def group_rows(numbers, starts, rows):  # type: ignore[no-untyped-def]
    """The rows of each number: those of number k are rows[starts[k]:starts[k + 1]].

    numbers i32[n]; starts i64[numbers + 1], zeros before; rows i64[rows with a number].
    """
    count = len(starts) - 1
    for row in range(len(numbers)):
        if numbers[row] >= 0:
            starts[numbers[row] + 1] += 1
    for number in range(1, count + 1):
        starts[number] += starts[number - 1]
    for row in range(len(numbers)):
        number = numbers[row]
        if number >= 0:
            rows[starts[number]] = row
            starts[number] += 1
    for number in range(count, 0, -1):
        starts[number] = starts[number - 1]
    starts[0] = 0


@kernel("(i32[in], i32[out]) -> b1")
def single_rows(numbers, row_of):  # type: ignore[no-untyped-def]
    """The row of each number, where none has more than one; whether that is so is returned.

    numbers i32[n]; row_of i32[numbers], all -1 before.
    """
    for row in range(len(numbers)):
        number = numbers[row]
        if number >= 0:
            if row_of[number] >= 0:
                return False
            row_of[number] = row
    return True


@kernel("(i32[in], i32[in], i64[out], i64[out]) -> i64")
def single_partners(numbers, row_of, probe, build):  # type: ignore[no-untyped-def]
    """The pairs, where no number has more than one row. Returns how many.

    numbers i32[n]; row_of i32[numbers]: the row of each, or -1; probe, build i64[n]: the pairs.
    """
    count = 0
    for row in range(len(numbers)):
        number = numbers[row]
        if number >= 0:
            partner = row_of[number]
            if partner >= 0:
                probe[count] = row
                build[count] = partner
                count += 1
    return count


@kernel("(i32[in], i64[in], i64[in], i64[out], i64[out], i64[out]) -> i64")
def some_partners(numbers, starts, rows, at, probe, build):  # type: ignore[no-untyped-def]
    """The next pairs, at most as many as ``probe`` and ``build`` i64[m] have room for. Returns how many.

    at i64[2]: the row of numbers i32[n] that comes next, and how many of its pairs were given; a row may be parted.
    """
    count = 0
    room = len(probe)
    row = at[0]
    given = at[1]
    while row < len(numbers) and count < room:
        number = numbers[row]
        if number >= 0:
            start = starts[number] + given
            stop = min(starts[number + 1], start + room - count)
            for place in range(start, stop):
                probe[count] = row
                build[count] = rows[place]
                count += 1
            given += stop - start
            if stop < starts[number + 1]:
                break
        row += 1
        given = 0
    at[0] = row
    at[1] = given
    return count
