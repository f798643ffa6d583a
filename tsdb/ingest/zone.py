"""Local times of a named zone to UTC, by arrays.

Python's zone database answers for one moment at a time, so the offsets of the span in question are found once, by bisection between
days, and applied by search. A local time that clocks skipped does not exist and is marked; one that clocks showed twice is read as
the first.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

import numpy as np

from tsdb_format.errors import InvalidInput
from tsdb_format.vector import BoolArray, IntArray

_DAY = 86_400
_FIXED = re.compile(r"([+-])(\d\d):?(\d\d)")
#: Seconds from 1970 between which Python's datetime works in any zone.
_FIRST, _FINAL = -62_135_510_400, 253_402_214_400


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone by its name: 'Europe/Berlin', 'UTC', '+05:30'."""

    name: str
    info: datetime.tzinfo

    @classmethod
    def of(cls, name: str) -> Zone:
        """Look a zone up; raises InvalidInput where there is none of that name."""
        import zoneinfo

        fixed = _FIXED.fullmatch(name.strip())
        if fixed:
            minutes = 60 * int(fixed[2]) + int(fixed[3])
            if minutes >= 24 * 60:
                raise InvalidInput(f"no time zone is {name} away from UTC")
            return cls(name, datetime.timezone(datetime.timedelta(minutes=minutes if fixed[1] == "+" else -minutes)))
        if name.strip().upper() in ("UTC", "Z"):
            return cls("UTC", datetime.UTC)
        try:
            return cls(name, zoneinfo.ZoneInfo(name))
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise InvalidInput(f"no time zone {name!r}; zones are named like 'Europe/Berlin', 'UTC' or '+05:30'") from None

    def to_utc(self, local: IntArray, per_second: int) -> tuple[IntArray, BoolArray, int]:
        """(UTC ticks, which rows are times that never were, how many were ambiguous) of local ticks."""
        skipped = np.zeros(len(local), np.bool_)
        if not len(local):
            return local, skipped, 0
        seconds = local // per_second
        changes, offsets = self.offsets(int(seconds.min()) - 2 * _DAY, int(seconds.max()) + 2 * _DAY)
        if not len(changes):
            return local - offsets[0] * per_second, skipped, 0
        ends = changes + offsets[:-1]  # the local time at which each offset's span ends
        piece = np.searchsorted(ends, seconds, side="right")
        starts = np.concatenate([[np.iinfo(np.int64).min], changes + offsets[1:]])
        skipped = seconds < starts[piece]
        later = np.minimum(piece + 1, len(changes))
        twice = ~skipped & (later > piece) & (seconds >= starts[later])
        return local - offsets[piece] * per_second, skipped, int(twice.sum())

    def offsets(self, first: int, final: int) -> tuple[IntArray, IntArray]:
        """The moments in (first, final] at which the offset changes, and the offsets before, between and after; in seconds."""
        first, final = max(first, _FIRST), min(max(final, first), _FINAL)
        probes = [*range(first, final, _DAY), final]
        changes: list[int] = []
        offsets = [self._offset(probes[0])]
        for low, high in zip(probes, probes[1:], strict=False):
            if self._offset(high) != offsets[-1]:
                while high - low > 1:
                    middle = (low + high) // 2
                    if self._offset(middle) == offsets[-1]:
                        low = middle
                    else:
                        high = middle
                changes.append(high)
                offsets.append(self._offset(high))
        return np.array(changes, np.int64), np.array(offsets, np.int64)

    def _offset(self, second: int) -> int:
        moment = _EPOCH + datetime.timedelta(seconds=second)
        offset = moment.astimezone(self.info).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
