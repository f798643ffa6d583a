"""Type objects and constructors of PEP 249: a type object equals the type code of every column of its kind."""

from __future__ import annotations

import datetime
import re

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802
    """The day of a moment, given in seconds since 1970, in UTC."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The time of day of a moment, given in seconds since 1970, in UTC."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """A moment, given in seconds since 1970, in UTC, as timestamps are."""
    return datetime.datetime.fromtimestamp(ticks, datetime.UTC).replace(tzinfo=None)


class TypeObject:
    """Equal to the names of some of DuckDB's types, which are the type codes in ``Cursor.description``."""

    def __init__(self, name: str, pattern: str) -> None:
        self._name = name
        self._pattern = re.compile(pattern)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and self._pattern.fullmatch(other) is not None)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


STRING = TypeObject("STRING", r"VARCHAR|ENUM\(.*\)|UUID|JSON")
BINARY = TypeObject("BINARY", r"BLOB|BIT")
NUMBER = TypeObject("NUMBER", r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)")
DATETIME = TypeObject("DATETIME", r"DATE|TIME.*|INTERVAL")
ROWID = TypeObject("ROWID", r"(?!)")
