"""Sums and bounds of stored numbers by segment, without making the numbers where their packed residuals say it all.

In a block whose integers are all small the residuals of a segment are added up and compared as they are; only the
result is scaled. That is exact for integers; of decimals it gives the sum before rounding, where adding doubles would round each.
A block's rows are cut into *pieces*, of one segment each, once for all columns, and unpacked once for each.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.bitpack import sum_lanes, unpack
from tsdb_format.kernels.block import NO_DECIMALS, POWERS, decode_rows, place
from tsdb_format.kernels.page import DICTIONARY, DOUBLE, FOR, HELD, MALFORMED, SCRATCH, check_page
from tsdb_format.kernels.read import BAD_RANGE, RARE
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO, ONE, TWO, THREE, FOUR, EIGHT = u(0), u(1), u(2), u(3), u(4), u(8)
#: What is wanted: bits of ``wants``.
SUM, LEAST, GREATEST = 1, 2, 4
LIMB = 0xFFFFFFFF
#: Below this a thousand integers can be added, and each is a double.
SMALL = 1 << 52
#: Rows from which a piece is left to vector code, which takes so many at a time, and others one by one.
LONG = u(128)
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


@kernel("(u64[in], u64, u64) -> u64", inline=True)
def sum_of(values, start, stop):
    """The sum of the values from ``start`` to ``stop``, modulo 2**64."""
    total = ZERO
    if stop - start >= LONG:
        for i in range(start, stop):
            total += values[i]
        return total
    a, b, c = ZERO, ZERO, ZERO
    i = start
    while i + FOUR <= stop:
        total += values[i]
        a += values[i + ONE]
        b += values[i + TWO]
        c += values[i + THREE]
        i += FOUR
    while i < stop:
        total += values[i]
        i += ONE
    return (total + a) + (b + c)


@kernel("(u64[in], u64, u64) -> i64", inline=True)
def least_of(values, start, stop):
    """The least of the values, integers with sign, from ``start`` to ``stop``; there is one at least."""
    least = np.int64(values[start])
    if stop - start >= LONG:
        for i in range(start, stop):
            least = min(least, np.int64(values[i]))
        return least
    a, b, c = least, least, least
    i = start
    while i + FOUR <= stop:
        least = min(least, np.int64(values[i]))
        a = min(a, np.int64(values[i + ONE]))
        b = min(b, np.int64(values[i + TWO]))
        c = min(c, np.int64(values[i + THREE]))
        i += FOUR
    while i < stop:
        least = min(least, np.int64(values[i]))
        i += ONE
    return min(least, a, b, c)


@kernel("(u64[in], u64, u64) -> i64", inline=True)
def greatest_of(values, start, stop):
    """The greatest of the values, integers with sign, from ``start`` to ``stop``; there is one at least."""
    greatest = np.int64(values[start])
    if stop - start >= LONG:
        for i in range(start, stop):
            greatest = max(greatest, np.int64(values[i]))
        return greatest
    a, b, c = greatest, greatest, greatest
    i = start
    while i + FOUR <= stop:
        greatest = max(greatest, np.int64(values[i]))
        a = max(a, np.int64(values[i + ONE]))
        b = max(b, np.int64(values[i + TWO]))
        c = max(c, np.int64(values[i + THREE]))
        i += FOUR
    while i < stop:
        greatest = max(greatest, np.int64(values[i]))
        i += ONE
    return max(greatest, a, b, c)


@kernel("(u64[in], i64[in,2], i64, u64, u64, f64, i64, i64, f64[out,2]) -> void")
def fold_decimals(residuals, pieces, count, base, scale, power, wants, at, numbers):
    """Fold residuals of small integers, by ``power`` doubles, into the segments of a block's pieces."""
    if wants & SUM:
        for k in range(count):
            start, rows, segment = u(pieces[0, k]), u(pieces[1, k]), u(pieces[2, k])
            value = np.int64(base * rows + sum_of(residuals, start, start + rows) * scale)
            numbers[at, segment] += np.float64(value) / power
        at += 1
    if wants & LEAST:
        for k in range(count):
            start, rows, segment = u(pieces[0, k]), u(pieces[1, k]), u(pieces[2, k])
            value = np.int64(base + u(least_of(residuals, start, start + rows)) * scale)
            numbers[at, segment] = min(numbers[at, segment], np.float64(value) / power)
        at += 1
    if wants & GREATEST:
        for k in range(count):
            start, rows, segment = u(pieces[0, k]), u(pieces[1, k]), u(pieces[2, k])
            value = np.int64(base + u(greatest_of(residuals, start, start + rows)) * scale)
            numbers[at, segment] = max(numbers[at, segment], np.float64(value) / power)


@kernel("(u64[in], i64[in,2], i64, u64, u64, i64, i64, i64[out,2]) -> void")
def fold_residuals(residuals, pieces, count, base, scale, wants, at, whole):
    """Fold residuals of small integers into the segments of a block's pieces."""
    if wants & SUM:
        for k in range(count):
            start, rows, segment = u(pieces[0, k]), u(pieces[1, k]), u(pieces[2, k])
            value = np.int64(base * rows + sum_of(residuals, start, start + rows) * scale)
            whole[at, segment] += value >> 32
            whole[at + 1, segment] += value & LIMB
        at += 2
    if wants & LEAST:
        for k in range(count):
            start, rows, segment = u(pieces[0, k]), u(pieces[1, k]), u(pieces[2, k])
            value = np.int64(base + u(least_of(residuals, start, start + rows)) * scale)
            whole[at, segment] = min(whole[at, segment], value)
        at += 1
    if wants & GREATEST:
        for k in range(count):
            start, rows, segment = u(pieces[0, k]), u(pieces[1, k]), u(pieces[2, k])
            value = np.int64(base + u(greatest_of(residuals, start, start + rows)) * scale)
            whole[at, segment] = max(whole[at, segment], value)


@kernel("(f64[in], i64[in,2], i64, i64, i64, f64[out,2]) -> i64")
def fold_doubles(values, pieces, count, wants, at, numbers):
    """Fold doubles into the segments of a block's pieces; 1 where there is a NaN and bounds are wanted."""
    if wants & SUM:
        for k in range(count):
            i, segment = u(pieces[0, k]), u(pieces[2, k])
            stop = i + u(pieces[1, k])
            a = b = c = d = 0.0
            while i + FOUR <= stop:
                a += values[i]
                b += values[i + ONE]
                c += values[i + TWO]
                d += values[i + THREE]
                i += FOUR
            while i < stop:
                a += values[i]
                i += ONE
            numbers[at, segment] += (a + b) + (c + d)
        at += 1
    if not wants & (LEAST | GREATEST):
        return 0
    odd = 0
    for i in range(u(pieces[0, 0]), u(pieces[0, count - 1] + pieces[1, count - 1])):
        odd |= values[i] != values[i]
    greatest_at, odd_at = at + (wants >> 1 & 1), at + (wants >> 1 & 1) + (wants >> 2)
    for k in range(count):
        i, segment = u(pieces[0, k]), u(pieces[2, k])
        stop = i + u(pieces[1, k])
        if odd:
            for j in range(i, stop):
                numbers[odd_at, segment] += 1.0 if values[j] != values[j] else 0.0
        least = a = np.inf
        greatest = b = -np.inf
        while i + TWO <= stop:
            least = values[i] if values[i] < least else least
            a = values[i + ONE] if values[i + ONE] < a else a
            greatest = values[i] if values[i] > greatest else greatest
            b = values[i + ONE] if values[i + ONE] > b else b
            i += TWO
        if i < stop:
            least = values[i] if values[i] < least else least
            greatest = values[i] if values[i] > greatest else greatest
        if wants & LEAST:
            numbers[at, segment] = min(numbers[at, segment], least, a)
        if wants & GREATEST:
            numbers[greatest_at, segment] = max(numbers[greatest_at, segment], greatest, b)
    return odd


@kernel("(u64[in], i64[in,2], i64, i64, i64, i64[out,2]) -> void")
def fold_integers(values, pieces, count, wants, at, whole):
    """Fold integers into the segments of a block's pieces."""
    for k in range(count):
        start, rows, segment = u(pieces[0, k]), u(pieces[1, k]), u(pieces[2, k])
        row = at
        if wants & SUM:
            upper = np.int64(0)
            lower = np.int64(0)
            for i in range(start, start + rows):
                upper += np.int64(values[i]) >> 32
                lower += np.int64(values[i]) & LIMB
            whole[row, segment] += upper
            whole[row + 1, segment] += lower
            row += 2
        if wants & LEAST:
            whole[row, segment] = min(whole[row, segment], least_of(values, start, start + rows))
            row += 1
        if wants & GREATEST:
            whole[row, segment] = max(whole[row, segment], greatest_of(values, start, start + rows))


@kernel("(u64[in], i64, i64, i64, i64, i64, i64, i64, i64, u64[out]) -> i64", inline=True)
def small_integers(words, begin, end, encoding, rows, block, low, high, exceptions_max, scratch):
    """Unpack a block's rows from ``low`` to ``high`` to their places in ``scratch``, if its integers are small and stand for all.

    As many rows as ``exceptions_max`` may have values besides.

    Returns 1 where they are residuals, 2 where they are the integers themselves (DELTA); 0: neither was done.
    """
    if encoding < FOR or (rows + 1023) >> 10 > (end - begin) >> 2:
        return 0
    entry = u(begin + (block << 2))
    layout = np.int64(words[entry + THREE])
    width = (layout >> 27) & 127
    patches = (layout >> 34) & 2047
    delta = layout >> 61
    count = min(rows - (block << 10), 1024)
    body = begin + (layout & 0x7FFFFFF)
    patched = body + ((((count + 15) >> 4) * width + 63) >> 6 << 4)
    exceptions = (layout >> 45) & 2047
    positions = patched + patches + exceptions
    if layout < 0 or delta > 1 or width > 48 or exceptions > exceptions_max or positions + ((patches + exceptions + 3) >> 2) > end:
        return 0
    base, scale = words[entry + ONE], words[entry + TWO]
    if delta == 0:
        if patches or not -SMALL < np.int64(base) < SMALL or scale >= u(SMALL >> width):
            return 0
        unpack(words, body, width, low, high, scratch)
        return 1
    unpack(words, body, width, 0, high, scratch)
    for i in range(u(high)):
        scratch[i] = base + scratch[i] * scale
    place(words, patched, positions, 0, patches, 0, count, scratch, 0)
    scratch[0] = words[entry]
    value = ZERO
    for row in range((high + 15) >> 4):
        value = sum_lanes(scratch, u(row << 4), value)
    large = ZERO
    for i in range(u(high)):
        large |= scratch[i] + u(SMALL)
    return 2 if large < u(2 * SMALL) else 0


@kernel("(u64[in], i64, i64, i64, i64[in,2], i64, i64, u64[out], u64[out], f64[out], f64[out,2]) -> void")
def add_exceptions(words, begin, entry, rows, pieces, count, at, integers, block, doubles, numbers):
    """Add the exceptions of a block of ``rows`` to the sums of the pieces that have them; their integers become 0."""
    layout = np.int64(words[u(entry + 3)])
    patches, exceptions = (layout >> 34) & 2047, (layout >> 45) & 2047
    first = begin + (layout & 0x7FFFFFF) + ((((rows + 15) >> 4) * ((layout >> 27) & 127) + 63) >> 6 << 4) + patches
    piece = 0
    for i in range(exceptions):
        j = patches + i
        position = np.int64((words[u(first + exceptions + (j >> 2))] >> u((j & 3) << 4)) & u(0xFFFF))
        if position >= rows:
            continue
        integers[u(position)] = ZERO
        while piece > 0 and pieces[0, piece] > position:
            piece -= 1
        while piece < count - 1 and pieces[0, piece] + pieces[1, piece] <= position:
            piece += 1
        if pieces[0, piece] <= position < pieces[0, piece] + pieces[1, piece]:
            block[0] = words[u(first + i)]
            numbers[at, u(pieces[2, piece])] += doubles[0]


@kernel(
    "(u64[in], i64, i64, i64, i64, i64, i64, i64[in,2], i64, i64, i64, "
    "u64[out], u64[out], f64[out], f32[out], f64[out,2], i64[out,2]) -> i64",
    inline=True,
)
def fold_block(
    words, begin, end, encoding, rows, start, kind, pieces, count, wants, at, scratch, block, doubles, floats, numbers, whole
):
    """Fold the pieces of the block from row ``start`` of a page on; 1 for a NaN, else 0 or MALFORMED."""
    low, high = pieces[0, 0], pieces[0, count - 1] + pieces[1, count - 1]
    exceptions_max = 1024 if kind == DOUBLE and wants == SUM else 0
    form = small_integers(words, begin, end, encoding, rows, start >> 10, low, high, exceptions_max, scratch)
    base, scale, decimals = ZERO, ONE, np.int64(NO_DECIMALS)
    entry = u(begin + (start >> 10 << 2))
    if form:
        decimals = (np.int64(words[entry + THREE]) >> 56) & 31
        if kind != DOUBLE and decimals != NO_DECIMALS:
            return MALFORMED
        if form == 1:
            base, scale = words[entry + ONE], words[entry + TWO]
    if form and kind != DOUBLE:
        fold_residuals(scratch, pieces, count, base, scale, wants, at, whole)
        return 0
    if form and decimals <= 22:
        if (np.int64(words[entry + THREE]) >> 45) & 2047:
            if form == 1:
                for i in range(u(low), u(high)):
                    scratch[i] = base + scratch[i] * scale
                base, scale = ZERO, ONE
            number = min(rows - start, 1024)
            add_exceptions(words, begin, np.int64(entry), number, pieces, count, at, scratch, block, doubles, numbers)
        fold_decimals(scratch, pieces, count, base, scale, POWERS[decimals], wants, at, numbers)
        return 0
    scratch[HELD] = ~ZERO
    code = decode_rows(words, begin, end, encoding, rows, kind, start + low, start + high, scratch, block, doubles, floats, low)
    if code:
        return code
    if kind == DOUBLE:
        return fold_doubles(doubles, pieces, count, wants, at, numbers)
    fold_integers(block, pieces, count, wants, at, whole)
    return 0


@kernel("(i64[in], i64[in], i64[in], f64[out,2], i64[out,2]) -> void")
def nothing_seen(kinds, wants, at, numbers, whole):
    """Set all results to what they are of no rows."""
    for column in range(len(kinds)):
        row = at[column]
        if kinds[column] == DOUBLE:
            for bit, nothing in ((SUM, 0.0), (LEAST, np.inf), (GREATEST, -np.inf), (LEAST | GREATEST, 0.0)):
                if wants[column] & bit:
                    numbers[row] = nothing
                    row += 1
            continue
        for bit, nothing in ((SUM, 0), (SUM, 0), (LEAST, INT64_MAX), (GREATEST, INT64_MIN)):
            if wants[column] & bit:
                whole[row] = nothing
                row += 1


@kernel(
    "(u64[in], i64[in,2], i64[in,2], u64[in,2], u8[in,2], u8[out,2], i64, i64, i64[in], i64[in], i64[in], i64[in], i64[in], "
    "i64[in], u64[out], f64[out], f32[out], f64[out,2], i64[out,2], i64[out]) -> void"
)
def fold_columns(
    words, page_offset, page_bytes, page_checksum, page_encoding, verified, row_count, rows_per_page, kinds, wants, at, starts,
    stops, segment_stop, block, doubles, floats, numbers, whole, codes,
):  # fmt: skip
    """Fold the same rows of several columns of one file, each a row of the page arrays, by segment; none of them has NULLs.

    The rows are those of the ranges (ascending), end to end, and segments end before ``segment_stop``. What ``wants`` says of a
    column goes to rows ``at`` and those after it: of doubles to ``numbers`` f64[…, segments] the sum, the least, the greatest value
    and, where one of the last two is wanted, how many are NaN; of integers to ``whole`` i64[…, segments] the sum's 2**32s and ones,
    least and greatest value. NaN is no bound there. ``block`` is scratch of 1,024 words, ``doubles`` and ``floats`` its views.
    ``codes`` i64[columns] are 0, 1 where there is a NaN, RARE - 8 * page for an encoding that ``rare`` decodes, or as of
    ``read_words``. Wanting nothing does nothing.
    """
    nothing_seen(kinds, wants, at, numbers, whole)
    codes[:] = 0
    scratch = np.empty(SCRATCH, np.uint64)
    pieces = np.empty((3, 1024), np.int64)  # each one's first row in the block, rows and segment
    row = np.int64(0)
    done = 0
    segment = 0
    k = 0
    checked = np.int64(-1)
    while k < len(starts):
        row = max(row, starts[k])
        page = row // rows_per_page
        start = row - page * rows_per_page >> 10 << 10
        first = page * rows_per_page + start
        end = min(first + 1024, (page + 1) * rows_per_page)
        count = 0
        while k < len(starts) and starts[k] < end:
            if starts[k] < 0 or stops[k] > row_count:
                codes[:] = BAD_RANGE
                return
            row = max(row, starts[k])
            while row < min(stops[k], end):
                while segment_stop[segment] <= done:
                    segment += 1
                rows = min(min(stops[k], end) - row, segment_stop[segment] - done)
                pieces[0, count], pieces[1, count], pieces[2, count] = row - first, rows, segment
                count += 1
                row += rows
                done += rows
            if stops[k] > end:
                break
            k += 1
        rows = min(row_count - page * rows_per_page, rows_per_page)
        for column in range(len(kinds)):
            if wants[column] == 0 or codes[column] < 0 or count == 0:
                continue
            offset, size, encoding = page_offset[column, page], page_bytes[column, page], page_encoding[column, page]
            code = 0
            if page != checked:
                code = check_page(words, offset, size, page_checksum[column, page], verified[column], page, scratch)
                if code == 0 and encoding > DICTIONARY:
                    code = RARE
            if code == 0:
                code = fold_block(
                    words, offset >> 3, (offset >> 3) + (size >> 3), encoding, rows, start, kinds[column], pieces, count,
                    wants[column], at[column], scratch, block, doubles, floats, numbers, whole,
                )  # fmt: skip
            codes[column] = code - 8 * page if code < 0 else codes[column] | code
        checked = page
