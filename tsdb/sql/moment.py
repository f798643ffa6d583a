"""Dates and timestamps written as text, in the plain forms whose meaning no version of DuckDB disputes.

Everything else — offsets, zone names, single digits, years beyond four — is left to DuckDB (``None`` here), which either reads it
or names the error.
"""

from __future__ import annotations

import datetime
import re

_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_DATE = r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
_ONLY_DATE = re.compile(_DATE)
_MOMENT = re.compile(_DATE + r"(?:[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(?:Z|\+00(?::00)?)?)?")
SECONDS_PER_DAY = 86_400
NS_PER_SECOND = 10**9
#: Nanosecond timestamps reach from 1677 to 2262; the years at both ends are left to DuckDB.
_NS_SECONDS = range(-9_214_000_000, 9_214_000_000)


def parse_date(text: str) -> int | None:
    """Days since 1970 of ``YYYY-MM-DD``."""
    found = _ONLY_DATE.fullmatch(text)
    return _days(found[1], found[2], found[3]) if found else None


def parse_moment(text: str, units_per_second: int) -> int | None:
    """Ticks since 1970 of ``YYYY-MM-DD[ HH:MM[:SS[.fraction]][Z]]`` as a cast to a timestamp of that unit gives them.

    A fraction finer than the unit is cut off for microseconds; coarser units round in ways that differ by version, hence None.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    days = _days(found[1], found[2], found[3])
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    whole = days * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second
    fraction_ns = int((found[7] or "").ljust(9, "0"))
    step = NS_PER_SECOND // units_per_second
    if units_per_second == NS_PER_SECOND and whole not in _NS_SECONDS:
        return None
    if fraction_ns % step and units_per_second < 10**6:
        return None
    return whole * units_per_second + fraction_ns // step


def _days(year: str, month: str, day: str) -> int | None:
    try:
        return datetime.date(int(year), int(month), int(day)).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        return None


def micros_of(value: datetime.datetime) -> int:
    """Microseconds since 1970 of a datetime, which counts as UTC when it has no zone."""
    naive = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (naive - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def days_of(value: datetime.date) -> int:
    """Days since 1970."""
    return value.toordinal() - _EPOCH_ORDINAL


def add_interval(micros: int, months: int, days: int, extra_micros: int) -> int | None:
    """A timestamp plus an interval as DuckDB adds them: months (clamped to the month's end), then days, then the rest."""
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
        if months:
            index = moment.year * 12 + moment.month - 1 + months
            year, month = divmod(index, 12)
            last = (datetime.date(year + month // 11, (month + 1) % 12 + 1, 1) - datetime.timedelta(days=1)).day
            moment = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
        return micros_of(moment + datetime.timedelta(days=days, microseconds=extra_micros))
    except (ValueError, OverflowError):
        return None
