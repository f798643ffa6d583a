"""Buckets of time: ``time_bucket``, ``date_bin``, ``date_trunc`` and casts to DATE, as widths in ticks of the time column.

The origins are DuckDB's: 2000-01-03, a Monday, for fixed widths, the beginning of 2000 for months. Nanoseconds are cut to
microseconds first, as DuckDB casts them, so a width or an origin finer than that stays DuckDB's, like any that is no whole number
of the column's ticks.
"""

from __future__ import annotations

from tsdb.plan.grouping import Calendar, FixedWidth
from tsdb.sql.constant import Constant, ConstantKind
from tsdb_format.types import ColumnType

K = ConstantKind
Bucket = FixedWidth | Calendar
_SECOND = 10**6
_DAY = 86_400 * _SECOND
#: Microseconds from 1970 to 2000-01-03, and months to 2000.
_ORIGIN_US, _ORIGIN_MONTHS = 10_959 * _DAY, 360
#: Widths of units in microseconds, or months, and the spellings that ``date_trunc`` takes.
_UNITS_US = {
    name: width
    for width, names in (
        (1, "us usec usecs usecond useconds microsecond microseconds"), (1_000, "ms msec msecs millisecond milliseconds"),
        (_SECOND, "s sec secs second seconds"), (60 * _SECOND, "m min mins minute minutes"),
        (3_600 * _SECOND, "h hr hrs hour hours"), (_DAY, "d day days"), (7 * _DAY, "w week weeks"),
    )
    for name in names.split()
}  # fmt: skip
_UNITS_MONTHS = {
    name: months
    for months, names in ((1, "mon mons month months"), (3, "quarter quarters"), (12, "y yr yrs year years"))
    for name in names.split()
}
#: Functions that make buckets of a width.
WIDTHS = frozenset({"time_bucket", "date_bin"})
TRUNCATIONS = frozenset({"date_trunc", "datetrunc"})


def width_bucket(kind: ColumnType, width: Constant, shift: Constant | None) -> Bucket | None:
    """The bucket of ``time_bucket(width, time[, shift])`` over a column of ``kind``, shift being an offset or an origin."""
    if width.kind is not K.INTERVAL:
        return None
    months, days, micros = width.value
    length = days * _DAY + micros
    if (months and length) or months < 0 or length < 0 or not (months or length):
        return None
    if months:
        origin = _ORIGIN_MONTHS if shift is None else _origin_months(shift)
        return None if origin is None else Calendar(months, origin)
    origin_us = _ORIGIN_US if shift is None else _origin_us(shift)
    return None if origin_us is None else _fixed(kind, length, origin_us)


def unit_bucket(kind: ColumnType, unit: str) -> Bucket | None:
    """The bucket of ``date_trunc(unit, time)``."""
    name = unit.lower()
    if name in _UNITS_MONTHS:
        return Calendar(_UNITS_MONTHS[name], 0)
    return _fixed(kind, _UNITS_US[name], _ORIGIN_US) if name in _UNITS_US else None


def day_bucket(kind: ColumnType) -> Bucket | None:
    """The bucket of ``time::DATE``."""
    return _fixed(kind, _DAY, 0)


def _fixed(kind: ColumnType, width_us: int, origin_us: int) -> FixedWidth | None:
    """A width in microseconds as ticks."""
    width, width_rest = divmod(width_us * kind.units_per_second, _SECOND)
    origin, origin_rest = divmod(origin_us * kind.units_per_second, _SECOND)
    if width_rest or origin_rest or not 0 < width < 2**62:
        return None
    return FixedWidth(width, origin % width)


def _origin_us(shift: Constant) -> int | None:
    if shift.kind is K.INTERVAL:
        months, days, micros = shift.value
        return None if months else _ORIGIN_US + days * _DAY + micros
    if shift.kind is K.DATE:
        return int(shift.value) * _DAY
    if shift.kind is K.TIMESTAMP and not shift.zoned:
        micros, rest = divmod(shift.value * _SECOND, shift.units_per_second)
        return None if rest else int(micros)
    return None


def _origin_months(shift: Constant) -> int | None:
    """The month of an origin; what an offset does to months is left to DuckDB."""
    micros = None if shift.kind is K.INTERVAL else _origin_us(shift)
    if micros is None:
        return None
    import numpy as np

    return int(np.datetime64(micros, "us").astype("datetime64[M]").astype(np.int64))
