"""The windows of TUMBLE and HOP, numbered: which a time is in, when each starts and ends, and which are over at a moment.

Windows have one size and start one slide after the other, or every so many months; so both starts and ends ascend with the number.
All times are microseconds since 1970, as DuckDB's ``time_bucket`` computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tsdb_format.errors import InvalidInput
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import IntArray

if TYPE_CHECKING:
    from datetime import datetime

#: Where DuckDB's buckets begin: a Monday, and the first day of a year for months.
_ORIGIN_US = 946_857_600 * 10**6
_ORIGIN_MONTH = 360
#: Microseconds of a tick, by type; a nanosecond is a thousandth, rounded as DuckDB casts it.
_TICK_US = {Kind.TIMESTAMP_S: 10**6, Kind.TIMESTAMP_MS: 10**3, Kind.TIMESTAMP_US: 1}
_FIRST_TICK = -(2**63)


@dataclass(frozen=True, slots=True)
class Windows:
    """``size`` and ``slide`` in microseconds, or with ``months`` in months; ``origin`` is where some window starts."""

    size: int
    slide: int
    origin: int = _ORIGIN_US
    months: bool = False

    @classmethod
    def of(cls, size: tuple[int, int], slide: tuple[int, int] | None, origin: datetime | None) -> Windows:
        """Windows by intervals as (months, microseconds); ``slide`` None is TUMBLE. Raises InvalidInput."""
        hop = slide is not None
        slide = slide or size
        if min(*size, *slide) < 0 or not any(size) or not any(slide):
            raise InvalidInput("a window's size and slide are longer than nothing")
        if not size[0] and not slide[0]:
            return cls(size[1], slide[1], _ORIGIN_US if origin is None else _microseconds_of(origin))
        if hop or size[1]:
            raise InvalidInput("a live HOP has a size and a slide of a fixed length; TUMBLE takes months alone")
        if origin is not None and (origin.day, origin.hour, origin.minute, origin.second, origin.microsecond) != (1, 0, 0, 0, 0):
            raise InvalidInput("the origin of live windows of months is the start of a month")
        start = _ORIGIN_MONTH if origin is None else (origin.year - 1970) * 12 + origin.month - 1
        return cls(size[0], size[0], start, months=True)

    def last(self, times: IntArray) -> IntArray:
        """The number of the last window that starts at or before each time."""
        return (self._grid(times) - self.origin) // self.slide

    def first(self, times: IntArray) -> IntArray:
        """The number of the first window that ends after each time; it is in no window where that is greater than ``last``."""
        return (self._grid(times) - self.origin - self.size) // self.slide + 1

    def over(self, times: IntArray) -> IntArray:
        """The number of the last window that ends at or before each time."""
        return self.first(times) - 1

    def starts(self, numbers: IntArray) -> IntArray:
        """Where windows start."""
        return self._times(numbers * self.slide + self.origin)

    def ends(self, numbers: IntArray) -> IntArray:
        """Where windows end: the first moment behind each."""
        return self._times(numbers * self.slide + self.origin + self.size)

    def _grid(self, times: IntArray) -> IntArray:
        if not self.months:
            return times
        return times.view("datetime64[us]").astype("datetime64[M]").astype(np.int64)

    def _times(self, places: IntArray) -> IntArray:
        if not self.months:
            return places
        return places.view("datetime64[M]").astype("datetime64[us]").astype(np.int64)


def microseconds(ticks: IntArray, kind: ColumnType) -> IntArray:
    """Ticks of a time column in microseconds, as DuckDB casts them."""
    if kind.kind is Kind.TIMESTAMP_NS:
        whole = ticks // 1_000
        return whole + (ticks - whole * 1_000 >= np.where(ticks >= 0, 500, 501))
    return ticks * _TICK_US[kind.kind]


def ticks(time_us: int, kind: ColumnType) -> int:
    """The first tick of a time column that ``microseconds`` makes a time, or a later one, of."""
    if kind.kind is Kind.TIMESTAMP_NS:
        return max(time_us * 1_000 - (500 if time_us > 0 else 499), _FIRST_TICK)
    return -(-time_us // _TICK_US[kind.kind])


def _microseconds_of(moment: datetime) -> int:
    delta = moment.replace(tzinfo=None) - type(moment)(1970, 1, 1)
    return (delta.days * 86_400 + delta.seconds) * 10**6 + delta.microseconds
