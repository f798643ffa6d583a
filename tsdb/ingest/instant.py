"""Times from outside: text, epoch numbers of a stated unit, naive times of a stated zone."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import text_value
from tsdb.ingest.zone import Zone
from tsdb_format.errors import InvalidInput
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import ByteArray, IntArray

#: Ticks per second of the units that ``time_unit`` can name.
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: Why a value was refused, by status.
BLANK, MALFORMED, FINER, OUTSIDE = text_value.BLANK, text_value.MALFORMED, text_value.FINER, text_value.OUTSIDE
INEXACT, SKIPPED = text_value.INEXACT, 7

StatusArray = NDArray[np.uint8]


@dataclass(slots=True)
class TimeReading:
    """How to read times that do not say it themselves. ``unit`` None: numbers are in the column's own unit; ``zone`` None: UTC.

    ``ambiguous`` counts local times that clocks showed twice; they are read as the first.
    """

    unit: int | None = None
    zone: Zone | None = None
    ambiguous: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @classmethod
    def of(cls, time_unit: str | None, timezone: str | None) -> TimeReading:
        """From the names that people give; raises InvalidInput."""
        if time_unit is not None and time_unit not in UNITS:
            raise InvalidInput(f"time unit {time_unit!r} is not one of {', '.join(UNITS)}")
        return cls(UNITS[time_unit] if time_unit else None, Zone.of(timezone) if timezone else None)

    def text(
        self, kind: ColumnType, starts: IntArray, stops: IntArray, data: ByteArray, *, numbers: bool
    ) -> tuple[IntArray, StatusArray]:
        """Ticks (or days) and statuses of texts: ISO 8601, or with ``numbers`` counts of ``unit``."""
        values, status = np.empty(len(starts), np.int64), np.empty(len(starts), np.uint8)
        per_second = 0 if kind.kind is Kind.DATE else kind.units_per_second
        if numbers and per_second:
            unit = self.unit or per_second
            scale, divisor = max(1, per_second // unit), max(1, unit // per_second)
            if text_value.parse_numbers(starts, stops, data, scale, divisor, values, status):
                retry_numbers(starts, stops, data, scale, divisor, values, status)
            return values, status
        text_value.parse_times(starts, stops, data, per_second, values, status)
        local = status == text_value.LOCAL
        status[local] = text_value.ABSOLUTE
        if self.zone is not None and per_second and local.any():
            self._apply_zone(self.zone, per_second, values, status, np.flatnonzero(local))
        return values, status

    def naive(self, kind: ColumnType, values: IntArray) -> tuple[IntArray, StatusArray]:
        """Ticks that are local times where a zone is given, UTC otherwise."""
        status = np.zeros(len(values), np.uint8)
        if self.zone is not None:
            values = values.copy()
            self._apply_zone(self.zone, kind.units_per_second, values, status, np.arange(len(values)))
        return values, status

    def counts(self, kind: ColumnType, numbers: NDArray[np.generic]) -> tuple[IntArray, StatusArray]:
        """Ticks of counts of ``unit``, whole or floating; those of a stated unit are rounded to the nearest tick.

        Where no unit is stated, a fraction is finer than the column: seconds that were meant must not become its ticks.
        """
        per_second = kind.units_per_second
        unit = self.unit or per_second
        if numbers.dtype.kind == "f":
            scaled = numbers.astype(np.float64) * (per_second / unit)
            sound = np.abs(scaled) < 2.0**63
            ticks = np.rint(np.where(sound, scaled, 0))
            status = np.where(sound, 0, OUTSIDE).astype(np.uint8)
            if self.unit is None:
                status[sound & (ticks != scaled)] = FINER
            return ticks.astype(np.int64), status
        return rescale(numbers.astype(np.int64, copy=False), unit, per_second)

    def _apply_zone(self, zone: Zone, per_second: int, values: IntArray, status: StatusArray, rows: IntArray) -> None:
        utc, skipped, ambiguous = zone.to_utc(values[rows], per_second)
        values[rows] = utc
        status[rows[skipped]] = SKIPPED
        with self._counting:
            self.ambiguous += ambiguous


def rescale(values: IntArray, unit: int, wanted: int) -> tuple[IntArray, StatusArray]:
    """Ticks of ``unit`` per second as ticks of ``wanted``, exactly; statuses mark what is finer or does not fit."""
    status = np.zeros(len(values), np.uint8)
    if wanted >= unit:
        scale = wanted // unit
        bound = (2**63 - 1) // scale
        wild = (values > bound) | (values < -bound)
        if wild.any():
            status[wild] = OUTSIDE
            values = np.where(wild, 0, values)
        return values * scale if scale > 1 else values, status
    divisor = unit // wanted
    status[values % divisor != 0] = FINER
    return values // divisor, status


def retry_numbers(
    starts: IntArray, stops: IntArray, data: ByteArray, scale: int, divisor: int, values: IntArray, status: StatusArray
) -> None:
    """Read what the kernel does not understand but a number can be: exponents."""
    for row in np.flatnonzero(status == MALFORMED).tolist():
        text = data[starts[row] : stops[row]].tobytes()
        if not (b"e" in text or b"E" in text) or len(text) > 64:
            continue
        try:
            number = Decimal(text.decode("ascii").strip()) * scale / divisor
        except (InvalidOperation, UnicodeDecodeError):
            continue
        if not number.is_finite():
            continue
        if not -(2**63) <= number < 2**63:
            status[row] = OUTSIDE
        elif number != int(number):
            status[row] = FINER
        else:
            values[row], status[row] = int(number), text_value.ABSOLUTE


def guess_unit(number: float) -> str:
    """The unit in which a present-day epoch number of that size counts."""
    size = abs(number)
    return "s" if size < 1e11 else "ms" if size < 1e14 else "us" if size < 1e17 else "ns"
