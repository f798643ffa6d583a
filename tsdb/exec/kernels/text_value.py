"""Reading timestamps and whole numbers out of text, exactly: what does not fit is marked, never rounded or guessed.

Statuses, one per row: 0 absolute time or number; 1 time without a zone; 2 NULL or blank; 3 not of this form; 4 finer than the type;
5 out of the type's range; 6 a real number that needs a slower, exact reading.
"""

from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel

ABSOLUTE, LOCAL, BLANK, MALFORMED, FINER, OUTSIDE, INEXACT = range(7)
_LIMIT = 2**63 - 1
_NAN, _INF, _INFINITY, _TRUE, _FALSE, _YES, _NO = (
    int.from_bytes(word, "little") for word in (b"nan", b"inf", b"infinity", b"true", b"false", b"yes", b"no")
)
#: The largest whole number of seconds that int64 nanoseconds hold, in nanoseconds.
_SECONDS_IN_NS = 9_223_372_035_000_000_000


@kernel("(u8[in], i64, i64, i64) -> i64")
def digits(data, at, stop, count):  # type: ignore[no-untyped-def]
    """The number written in exactly ``count`` digits at ``at``, or -1."""
    if at + count > stop:
        return -1
    value = np.int64(0)
    for i in range(at, at + count):
        if data[i] < 48 or data[i] > 57:
            return -1
        value = 10 * value + (np.int64(data[i]) - 48)
    return value


@kernel("(i64, i64, i64) -> i64")
def days_of(year, month, day):  # type: ignore[no-untyped-def]
    """Days from 1970-01-01 to a date of the Gregorian calendar, or -2^62 where there is no such date."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 28 + leap if month == 2 else 30 if month in (4, 6, 9, 11) else 31
    if year < 1 or month < 1 or month > 12 or day < 1 or day > length:
        return -(1 << 62)
    if month <= 2:
        year -= 1
        month += 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469


@kernel("(u8[in], i64, i64) -> i64")
def zone_seconds(data, at, stop):  # type: ignore[no-untyped-def]
    """The offset written in [at, stop): Z, UTC, ±hh, ±hhmm or ±hh:mm; 2^62 where there is none, -2^62 where it is malformed."""
    bad = -(1 << 62)
    if at < stop and data[at] == 32:
        at += 1
    if at == stop:
        return 1 << 62
    length = stop - at
    if length == 1 and (data[at] == 90 or data[at] == 122):
        return 0
    if length == 3 and data[at] == 85 and data[at + 1] == 84 and data[at + 2] == 67:
        return 0
    if data[at] != 43 and data[at] != 45:
        return bad
    hours = digits(data, at + 1, stop, 2)
    minutes = 0
    if length == 5:
        minutes = digits(data, at + 3, stop, 2)
    elif length == 6 and data[at + 3] == 58:
        minutes = digits(data, at + 4, stop, 2)
    elif length != 3:
        return bad
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return bad
    seconds = 3600 * hours + 60 * minutes
    return seconds if data[at] == 43 else -seconds


@kernel("(u8[in], i64, i64, i64[out]) -> u8")
def read_time(data, at, stop, out):  # type: ignore[no-untyped-def]
    """Parse one ISO 8601 time into out = (seconds from 1970, nanoseconds); returns a status.

    A date (with - or /), then optionally T or blank, hh:mm, :ss, a fraction after . or , and a zone. Months, days and hours may be
    one digit.
    """
    malformed = np.uint8(MALFORMED)
    year = digits(data, at, stop, 4)
    if year < 0 or at + 4 == stop or (data[at + 4] != 45 and data[at + 4] != 47):
        return malformed
    mark = data[at + 4]
    at += 5
    width = 1 + (digits(data, at, stop, 2) >= 0)
    month = digits(data, at, stop, width)
    at += width
    if at >= stop or data[at] != mark:
        return malformed
    width = 1 + (digits(data, at + 1, stop, 2) >= 0)
    days = days_of(year, month, digits(data, at + 1, stop, width))
    if days == -(1 << 62):
        return malformed
    out[0] = 86400 * days
    out[1] = 0
    at += 1 + width
    if at == stop:
        return np.uint8(LOCAL)
    if data[at] != 84 and data[at] != 32 and data[at] != 116:
        return malformed
    width = 1 + (digits(data, at + 1, stop, 2) >= 0)
    hour = digits(data, at + 1, stop, width)
    at += 1 + width
    minute = digits(data, at + 1, stop, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or data[at] != 58:
        return malformed
    at += 3
    second = 0
    finer = False
    if at < stop and data[at] == 58:
        second = digits(data, at + 1, stop, 2)
        if second < 0 or second > 59:
            return malformed
        at += 3
        if at < stop and (data[at] == 46 or data[at] == 44):
            at += 1
            first = at
            scale = 100_000_000
            while at < stop and 48 <= data[at] <= 57:
                out[1] += scale * (np.int64(data[at]) - 48)
                finer = finer or (scale == 0 and data[at] != 48)
                scale //= 10
                at += 1
            if at == first:
                return malformed
    zone = zone_seconds(data, at, stop)
    if zone == -(1 << 62):
        return malformed
    out[0] += 3600 * hour + 60 * minute + second
    if zone != 1 << 62:
        out[0] -= zone
    if finer:
        return np.uint8(FINER)
    return np.uint8(LOCAL) if zone == 1 << 62 else np.uint8(ABSOLUTE)


@kernel("(i64[in], i64[in], u8[in], i64, i64[out], u8[out]) -> i64")
def parse_times(starts, stops, data, per_second, values, status):  # type: ignore[no-untyped-def]
    """Parse each text into ticks; ``per_second`` 0 means whole days. Returns how many rows have a status beyond LOCAL.

    starts, stops i64[n] into data u8[], start -1 for NULL; values i64[n]; status u8[n].
    """
    parts = np.zeros(2, np.int64)
    failed = 0
    for row in range(len(values)):
        values[row] = 0
        start = starts[row]
        stop = stops[row] if start >= 0 else start
        while start < stop and data[start] == 32:
            start += 1
        while start < stop and data[stop - 1] == 32:
            stop -= 1
        if start == stop:
            status[row] = BLANK
            failed += 1
            continue
        found = read_time(data, start, stop, parts)
        if found <= LOCAL:
            seconds = parts[0]
            if per_second == 0:
                if seconds % 86400 or parts[1]:
                    found = np.uint8(FINER)
                values[row] = seconds // 86400
            else:
                step = 1_000_000_000 // per_second
                bound = _SECONDS_IN_NS // per_second
                if parts[1] % step:
                    found = np.uint8(FINER)
                elif seconds < -bound or seconds > bound:
                    found = np.uint8(OUTSIDE)
                else:
                    values[row] = seconds * per_second + parts[1] // step
        status[row] = found
        if found > LOCAL:
            failed += 1
    return failed


@kernel("(i64[in], i64[in], u8[in], i64, i64, i64[out], u8[out]) -> i64")
def parse_numbers(starts, stops, data, scale, divisor, values, status):  # type: ignore[no-untyped-def]
    """Parse each decimal text times ``scale`` divided by ``divisor`` (one of them 1) into a whole number; returns how many failed.

    A sign, digits and a fraction are read. starts, stops i64[n] into data u8[], start -1 for NULL; values i64[n], status u8[n].
    """
    failed = 0
    for row in range(len(values)):
        values[row] = 0
        at = starts[row]
        stop = stops[row] if at >= 0 else at
        while at < stop and data[at] == 32:
            at += 1
        while at < stop and data[stop - 1] == 32:
            stop -= 1
        if at == stop:
            status[row] = BLANK
            failed += 1
            continue
        negative = data[at] == 45
        if data[at] == 45 or data[at] == 43:
            at += 1
        found = ABSOLUTE if at < stop else MALFORMED
        value = 0
        weight = scale
        point = False
        any_digit = False
        while at < stop and found != MALFORMED:
            byte = data[at]
            at += 1
            if byte == 46 and not point:
                point = True
                continue
            if byte < 48 or byte > 57:
                found = MALFORMED
                break
            any_digit = True
            digit = np.int64(byte) - 48
            if not point:
                room = _LIMIT - scale * digit
                if -value > room // 10 + (room % 10 == 9):
                    found = OUTSIDE
                else:
                    value = 10 * value - scale * digit
            elif digit and found == ABSOLUTE:
                if weight % 10:
                    found = FINER
                elif value < -_LIMIT - 1 + weight // 10 * digit:
                    found = OUTSIDE
                else:
                    value -= weight // 10 * digit
            if point:
                weight = weight // 10 if weight % 10 == 0 else 1
        if not any_digit:
            found = MALFORMED
        if found == ABSOLUTE and value % divisor:
            found = FINER
        if found == ABSOLUTE and not negative and value == -_LIMIT - 1:
            found = OUTSIDE
        if found == ABSOLUTE:
            values[row] = value // divisor if negative else -(value // divisor)
        status[row] = found
        if found != ABSOLUTE:
            failed += 1
    return failed


@kernel("(u8[in], i64, i64) -> u64")
def lower_word(data, at, stop):  # type: ignore[no-untyped-def]
    """Up to eight bytes as one number, the first lowest, capitals as small letters; 0 for a longer or empty text."""
    if stop - at > 8:
        return np.uint64(0)
    word = np.uint64(0)
    for i in range(stop - at):
        byte = np.uint64(data[at + i])
        if 65 <= byte <= 90:
            byte += np.uint64(32)
        word |= byte << np.uint64(8 * i)
    return word


@kernel("(u8[in], i64, i64, i64[out]) -> i64")
def read_decimal(data, at, stop, parts):  # type: ignore[no-untyped-def]
    """Read digits, a point and an exponent from ``at`` on; returns the place after them.

    parts i64[3] becomes the mantissa, the power of ten, and how many significant digits there are: 0 for no number, 99 for more
    than the mantissa holds.
    """
    parts[0] = parts[1] = parts[2] = 0
    point = False
    any_digit = False
    while at < stop:
        byte = data[at]
        if 48 <= byte <= 57:
            any_digit = True
            if parts[2] < 18:
                parts[0] = 10 * parts[0] + (np.int64(byte) - 48)
                parts[2] += parts[0] > 0
                parts[1] -= point
            else:
                parts[2] = 99
        elif byte == 46 and not point:
            point = True
        else:
            break
        at += 1
    if not any_digit:
        return at
    parts[2] = max(parts[2], 1)
    if at + 1 < stop and (data[at] == 101 or data[at] == 69):
        after = at + 1 + (data[at + 1] == 45 or data[at + 1] == 43)
        sign = -1 if data[at + 1] == 45 else 1
        exponent = np.int64(0)
        if after < stop and 48 <= data[after] <= 57:
            at = after
            while at < stop and 48 <= data[at] <= 57:
                exponent = min(10 * exponent + (np.int64(data[at]) - 48), np.int64(100_000))
                at += 1
            parts[1] += sign * exponent
    return at


@kernel("(i64[in], i64[in], u8[in], i64, i64, f64[in], f64[out], u8[out]) -> i64")
def parse_reals(starts, stops, data, mantissa_max, power_max, powers, values, status):  # type: ignore[no-untyped-def]
    """Parse decimal texts into floats where one exact step suffices; returns how many have another status than ABSOLUTE.

    A mantissa up to ``mantissa_max`` times or by 10^k, k ≤ ``power_max``, is correctly rounded by one multiplication or division;
    all other numbers get the status INEXACT. starts, stops i64[n] into data u8[], start -1 for NULL; powers f64[k]: 10^k.
    """
    parts = np.zeros(3, np.int64)
    failed = 0
    for row in range(len(values)):
        values[row] = 0.0
        at = starts[row]
        stop = stops[row] if at >= 0 else at
        while at < stop and data[at] == 32:
            at += 1
        while at < stop and data[stop - 1] == 32:
            stop -= 1
        if at == stop:
            status[row] = BLANK
            failed += 1
            continue
        negative = data[at] == 45
        if negative or data[at] == 43:
            at += 1
        end = read_decimal(data, at, stop, parts)
        mantissa, power = parts[0], parts[1]
        found = ABSOLUTE
        if end < stop or parts[2] == 0:
            word = lower_word(data, at, stop)
            if word == _NAN:
                values[row] = np.nan
            elif word == _INF or word == _INFINITY:
                values[row] = -np.inf if negative else np.inf
            else:
                found = MALFORMED
        elif parts[2] == 99 or mantissa > mantissa_max or (mantissa > 0 and (power > power_max or power < -power_max)):
            found = INEXACT
        else:
            value = np.float64(mantissa)
            if mantissa > 0:
                value = value * powers[power] if power >= 0 else value / powers[-power]
            values[row] = -value if negative else value
        status[row] = found
        failed += found != ABSOLUTE
    return failed


@kernel("(i64[in], i64[in], u8[in], b1[out], u8[out]) -> i64")
def parse_booleans(starts, stops, data, values, status):  # type: ignore[no-untyped-def]
    """Parse true, t, yes, y, 1 and their opposites in any case; returns how many have another status than ABSOLUTE."""
    failed = 0
    for row in range(len(values)):
        values[row] = False
        at = starts[row]
        stop = stops[row] if at >= 0 else at
        while at < stop and data[at] == 32:
            at += 1
        while at < stop and data[stop - 1] == 32:
            stop -= 1
        found = BLANK if at == stop else MALFORMED
        word = lower_word(data, at, stop)
        if word == _TRUE or word == 0x74 or word == _YES or word == 0x79 or word == 0x31:
            values[row], found = True, ABSOLUTE
        elif word == _FALSE or word == 0x66 or word == _NO or word == 0x6E or word == 0x30:
            found = ABSOLUTE
        status[row] = found
        failed += found != ABSOLUTE
    return failed
