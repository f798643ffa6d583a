"""Sums and bounds of stored numbers by segment, without making the numbers where their packed residuals say it all.

In a block whose integers are all small the residuals of a segment are added up and compared as they are; only the
result is scaled. That is exact for integers; of decimals it gives the sum before rounding, where adding doubles would round each.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.bitpack import unpack
from tsdb_format.kernels.block import NO_DECIMALS, POWERS, decode_rows, place
from tsdb_format.kernels.page import DICTIONARY, DOUBLE, FOR, HELD, MALFORMED, SCRATCH, check_page
from tsdb_format.kernels.read import BAD_RANGE, RARE
from tsdb_format.kernels.registry import kernel

u = np.uint64
ZERO, ONE = u(0), u(1)
#: What is wanted: bits of ``wants``.
SUM, LEAST, GREATEST = 1, 2, 4
LIMB = 0xFFFFFFFF
#: Below this a thousand integers can be added, and each is a double.
SMALL = 1 << 52
#: Rows of segments on average from which residuals are folded as they are: a segment costs as much as making that many numbers.
SHORT = 64
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


@kernel("(u64[in], i64, i64, u64, u64, i64, i64, i64, f64[out,2], i64[out,2], i64) -> void")
def fold_packed(residuals, at, count, base, scale, decimals, wants, segment, numbers, whole, kind):
    """Fold ``count`` residuals from ``at`` of a block of small integers into a segment's results."""
    start = u(at)
    number = u(count)
    power = POWERS[decimals if decimals != NO_DECIMALS else 0]
    if wants & SUM:
        total = ZERO
        for i in range(number):
            total += residuals[start + i]
        value = np.int64(base * number + total * scale)
        if kind == DOUBLE:
            numbers[0, segment] += np.float64(value) / power
        else:
            whole[0, segment] += value >> 32
            whole[1, segment] += value & LIMB
    if wants & LEAST:
        least = np.int64(residuals[start])
        for i in range(number):
            least = min(least, np.int64(residuals[start + i]))
        value = np.int64(base + u(least) * scale)
        if kind == DOUBLE:
            numbers[1, segment] = min(numbers[1, segment], np.float64(value) / power)
        else:
            whole[2, segment] = min(whole[2, segment], value)
    if wants & GREATEST:
        greatest = np.int64(residuals[start])
        for i in range(number):
            greatest = max(greatest, np.int64(residuals[start + i]))
        value = np.int64(base + u(greatest) * scale)
        if kind == DOUBLE:
            if np.float64(value) / power > numbers[2, segment]:
                numbers[2, segment] = np.float64(value) / power
        else:
            whole[3, segment] = max(whole[3, segment], value)


@kernel("(f64[in], i64, i64, i64, i64, f64[out,2]) -> void")
def fold_doubles(values, at, count, wants, segment, numbers):
    """Fold ``count`` doubles from ``at`` into a segment's results; NaN is the greatest of all, and no least value but alone."""
    start = u(at)
    if wants & SUM:
        a = b = c = d = 0.0
        i = ZERO
        while i + u(4) <= u(count):
            a += values[start + i]
            b += values[start + i + ONE]
            c += values[start + i + u(2)]
            d += values[start + i + u(3)]
            i += u(4)
        while i < u(count):
            a += values[start + i]
            i += ONE
        numbers[0, segment] += (a + b) + (c + d)
    if wants & (LEAST | GREATEST):
        least = np.inf
        greatest = -np.inf
        odd = 0
        for i in range(start, start + u(count)):
            value = values[i]
            least = value if value < least else least
            greatest = value if value > greatest else greatest
            odd += value != value
        if least < numbers[1, segment]:
            numbers[1, segment] = least
        if odd:
            numbers[2, segment] = np.nan
            numbers[3, segment] += odd
        elif greatest > numbers[2, segment]:
            numbers[2, segment] = greatest


@kernel("(u64[in], i64, i64, i64, i64[out,2]) -> void")
def fold_integers(values, at, count, segment, whole):
    """Fold ``count`` integers from ``at`` into a segment's results."""
    upper = np.int64(0)
    lower = np.int64(0)
    least = whole[2, segment]
    greatest = whole[3, segment]
    for i in range(u(at), u(at + count)):
        value = np.int64(values[i])
        upper += value >> 32
        lower += value & LIMB
        least = min(least, value)
        greatest = max(greatest, value)
    whole[0, segment] += upper
    whole[1, segment] += lower
    whole[2, segment] = least
    whole[3, segment] = greatest


@kernel("(u64[in], i64, i64, i64, i64, i64, i64, i64, u64[out]) -> i64", inline=True)
def small_integers(words, begin, end, encoding, rows, block, low, high, scratch):
    """Unpack a block's rows from ``low`` to ``high`` to their places in ``scratch``, if its integers are small and stand for all.

    Returns 1 where they are residuals, 2 where they are the integers themselves (DELTA); 0: neither was done.
    """
    if encoding < FOR or (rows + 1023) >> 10 > (end - begin) >> 2:
        return 0
    entry = u(begin + (block << 2))
    layout = np.int64(words[entry + u(3)])
    width = (layout >> 27) & 127
    patches = (layout >> 34) & 2047
    delta = layout >> 61
    count = min(rows - (block << 10), 1024)
    body = begin + (layout & 0x7FFFFFF)
    patched = body + ((((count + 15) >> 4) * width + 63) >> 6 << 4)
    if layout < 0 or delta > 1 or width > 48 or (layout >> 45) & 2047 or patched + patches + ((patches + 3) >> 2) > end:
        return 0
    base, scale = words[entry + ONE], words[entry + u(2)]
    if delta == 0:
        if patches or not -SMALL < np.int64(base) < SMALL or scale >= u(SMALL >> width):
            return 0
        unpack(words, body, width, low, high, scratch)
        return 1
    unpack(words, body, width, 0, high, scratch)
    for i in range(u(high)):
        scratch[i] = base + scratch[i] * scale
    place(words, patched, patched + patches, 0, patches, 0, count, scratch, 0)
    value = words[entry]
    scratch[0] = value
    large = value + u(SMALL)
    for i in range(ONE, u(high)):
        value += scratch[i]
        scratch[i] = value
        large |= value + u(SMALL)
    return 2 if large < u(2 * SMALL) else 0


@kernel(
    "(u64[in], u64[in], f64[in], i64, i64, i64, u64, u64, i64, i64, i64, i64[in], i64, i64, f64[out,2], i64[out,2]) -> i64",
    inline=True,
)
def fold_rows(
    scratch, block, doubles, offset, number, form, base, scale, decimals, wants, kind, segment_stop, segment, at, numbers, whole
):
    """Fold ``number`` values of a block, row ``at`` and those after it, into ``segment`` and those after it; returns the last.

    Where there is a ``form`` they are residuals in ``scratch``, else values in ``block``; from ``offset`` on.
    """
    stop = at + number
    while at < stop:
        while segment_stop[segment] <= at:
            segment += 1
        count = min(stop, segment_stop[segment]) - at
        if form:
            fold_packed(scratch, offset, count, base, scale, decimals, wants, segment, numbers, whole, kind)
        elif kind == DOUBLE:
            fold_doubles(doubles, offset, count, wants, segment, numbers)
        else:
            fold_integers(block, offset, count, segment, whole)
        at += count
        offset += count
    return segment


@kernel(
    "(u64[in], i64[in], i64[in], u64[in], u8[in], u8[out], i64, i64, i64, i64[in], i64[in], i64[in], i64, "
    "u64[out], f64[out], f32[out], f64[out,2], i64[out,2]) -> i64"
)
def fold_words(
    words, page_offset, page_bytes, page_checksum, page_encoding, verified, row_count, rows_per_page, kind, starts, stops,
    segment_stop, wants, block, doubles, floats, numbers, whole,
):  # fmt: skip
    """Fold the rows of the ranges, end to end, by segments that end before ``segment_stop``; the column has no NULLs.

    For doubles ``numbers`` f64[4, segments] holds sums, least and greatest values, and how many are NaN (at first 0, inf, -inf and
    0); for integers ``whole`` i64[4, segments] the sum's 2**32s and ones, least and greatest (at first 0, 0 and the ends of
    int64). What ``wants`` leaves out may be anything. ``block`` is scratch of 1,024 words, ``doubles`` and ``floats`` its views.
    Returns 0, RARE - 8 * page for an encoding that ``rare`` decodes, or a code as ``read_words`` does.
    """
    scratch = np.empty(SCRATCH, np.uint64)
    scratch[HELD] = ~ZERO
    at = 0
    segment = 0
    checked = -1
    kept = ~ZERO  # the block that scratch holds, as what, and from which row to which
    form_kept, kept_low, kept_high = np.int64(0), np.int64(0), np.int64(0)
    short = segment_stop[len(segment_stop) - 1] < len(segment_stop) * SHORT
    for k in range(len(starts)):
        row = starts[k]
        if row < 0 or stops[k] > row_count:
            return BAD_RANGE
        while row < stops[k]:
            page = row // rows_per_page
            low = row - page * rows_per_page
            rows = min(row_count - page * rows_per_page, rows_per_page)
            first = low >> 10 << 10
            high = stops[k] - page * rows_per_page
            high = high if high < rows else rows
            high = high if high < first + 1024 else first + 1024
            begin = page_offset[page] >> 3
            end = begin + (page_bytes[page] >> 3)
            encoding = page_encoding[page]
            if page != checked:
                code = check_page(words, page_offset[page], page_bytes[page], page_checksum[page], verified, page, scratch)
                if code:
                    return code - 8 * page
                if encoding > DICTIONARY:
                    return RARE - 8 * page
                checked = page
            entry = u(begin + (low >> 10 << 2))
            if not short and (kept != entry or (form_kept and (low - first < kept_low or high - first > kept_high))):
                scratch[HELD] = ~ZERO
                kept_low, kept_high = low - first, high - first
                if kept == entry:  # a block that is asked for again is unpacked whole
                    kept_low, kept_high = np.int64(0), rows - first if rows - first < 1024 else 1024
                form_kept = small_integers(words, begin, end, encoding, rows, low >> 10, kept_low, kept_high, scratch)
                kept = entry
            form = form_kept
            decimals, base, scale = NO_DECIMALS, ZERO, ONE
            if form:
                decimals = (np.int64(words[entry + u(3)]) >> 56) & 31
                if kind == DOUBLE and decimals > 22:
                    form = 0
                elif kind != DOUBLE and decimals != NO_DECIMALS:
                    return MALFORMED - 8 * page
            if form == 1:
                base, scale = words[entry + ONE], words[entry + u(2)]
            if form == 0:
                code = decode_rows(words, begin, end, encoding, rows, kind, low, high, scratch, block, doubles, floats, 0)
                if code:
                    return code - 8 * page
            segment = fold_rows(
                scratch, block, doubles, low - first if form else 0, high - low, form, base, scale, decimals, wants, kind,
                segment_stop, segment, at, numbers, whole,
            )  # fmt: skip
            row += high - low
            at += high - low
    return 0


@kernel(
    "(u64[in], i64[in,2], i64[in,2], u64[in,2], u8[in,2], u8[out,2], i64, i64, i64[in], i64[in], i64[in], i64[in], i64[in], "
    "u64[out], f64[out], f32[out], f64[out,2], i64[out,2], i64[out]) -> void"
)
def fold_columns(
    words, page_offset, page_bytes, page_checksum, page_encoding, verified, row_count, rows_per_page, kinds, wants, starts, stops,
    segment_stop, block, doubles, floats, numbers, whole, codes,
):  # fmt: skip
    """Fold the same rows of several columns of one file, each a row of the page arrays, as ``fold_words`` does.

    Column k's results are rows 4 k to 4 k + 3 of ``numbers`` f64[4 columns, segments] for doubles, of ``whole`` i64[4 columns,
    segments] for integers; ``codes`` i64[columns] are 1 where there is a NaN, else what ``fold_words`` returns. Wanting nothing
    does nothing.
    """
    for column in range(len(kinds)):
        codes[column] = 0
        if wants[column] == 0:
            continue
        sums, totals = numbers[4 * column : 4 * column + 4], whole[4 * column : 4 * column + 4]
        for segment in range(len(segment_stop)):
            if kinds[column] == DOUBLE:
                sums[0, segment], sums[1, segment], sums[2, segment], sums[3, segment] = 0.0, np.inf, -np.inf, 0.0
            else:
                totals[0, segment], totals[1, segment] = 0, 0
                totals[2, segment], totals[3, segment] = INT64_MAX, INT64_MIN
        codes[column] = fold_words(
            words, page_offset[column], page_bytes[column], page_checksum[column], page_encoding[column], verified[column],
            row_count, rows_per_page, kinds[column], starts, stops, segment_stop, wants[column], block, doubles, floats, sums,
            totals,
        )  # fmt: skip
        if codes[column] == 0 and kinds[column] == DOUBLE:
            for segment in range(len(segment_stop)):
                if sums[3, segment] > 0.0:
                    codes[column] = 1
