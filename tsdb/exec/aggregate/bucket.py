"""Buckets of time: what kernels need to know of an Aggregate's bucket keys, and the values that are shown for them.

Within an aggregation a row's bucket is named by its first tick in the unit of the table's time column; where several keys are
buckets, by the latest of their first ticks, from which each key's own follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsdb.exec.kernels import bucket as kernels
from tsdb.plan.grouping import BucketKey, Calendar
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import IntArray, Vector

_DAY_S = 86_400
#: Nanoseconds are rounded to microseconds where DuckDB casts them, which it does for buckets shown as anything else.
_ROUNDED = 1_000
#: What DuckDB's dates of infinity are.
_DATE_INFINITE = 2**31 - 1


class Buckets:
    """The bucket keys of one aggregation. ``described`` is empty where there are none."""

    def __init__(self, keys: Sequence[BucketKey], time: ColumnType) -> None:
        self.keys = keys
        self.time = time
        parts: list[int] = []
        for key in keys:
            day = _DAY_S * time.units_per_second
            unit = _ROUNDED if time.kind is Kind.TIMESTAMP_NS and key.type != time else 1
            if isinstance(key.bucket, Calendar):
                parts += [0, key.bucket.months, key.bucket.origin, day, unit]
            else:
                parts += [key.bucket.width, 0, key.bucket.origin % key.bucket.width, day, unit]
        self.described = np.array(parts, np.int64)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def width(self) -> int | None:
        """The width of the buckets where all have one width and one grid."""
        return int(self.described[0]) or None if len(self.keys) == 1 else None

    def first_ticks(self, times: IntArray) -> IntArray:
        """The name of each time's bucket."""
        return self._first_ticks(times, -1)

    def _first_ticks(self, times: IntArray, at: int) -> IntArray:
        out = np.empty(len(times), np.int64)
        kernels.first_ticks(np.ascontiguousarray(times), self.described, at, out)
        return out

    def values(self, number: int, starts: IntArray) -> Vector:
        """What key ``number`` shows for the buckets of those names."""
        ticks = starts if len(self.keys) == 1 else self._first_ticks(starts, 5 * number)
        return _shown(ticks, self.time, self.keys[number].type)


def _shown(ticks: IntArray, time: ColumnType, kind: ColumnType) -> Vector:
    """Times in the unit of another time type or of days; infinite ones stay infinite."""
    units = time.units_per_second
    if kind.kind is Kind.DATE:
        days = np.clip(ticks // (_DAY_S * units), -_DATE_INFINITE + 1, _DATE_INFINITE - 1)
        days = np.where(ticks >= kernels.INFINITE, _DATE_INFINITE, np.where(ticks < kernels.FIRST, -_DATE_INFINITE, days))
        return Vector(kind, days.astype(np.int32))
    wanted = kind.units_per_second
    if wanted == units:
        return Vector(kind, ticks)
    if wanted < units:
        made = ticks // (units // wanted)
    else:
        more = wanted // units
        made = np.clip(ticks, -(-kernels.FIRST // more), kernels.LAST // more) * more
    infinite = (ticks >= kernels.INFINITE) | (ticks < kernels.FIRST)
    return Vector(kind, np.where(infinite, ticks, made))
