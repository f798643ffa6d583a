"""Synthetic fleets: what monitoring agents of many machines would have written, made fast and the same for the same seed.

A fleet is ``devices`` hosts in eight regions, each reporting ``ticks`` times, every five seconds: five percentages that walk
randomly between 0 and 100 in steps of hundredths, and one counter that only grows. The random bits come from PCG64's raw stream,
which numpy promises not to change, and become steps through tables of quantiles; so a fleet is the same on every machine, and in
both orders. The random number stream is cut into groups of devices, so that a part of a fleet can be made without the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

INTERVAL_NS = 5_000_000_000
END_NS = 1_767_225_600 * 10**9  # 2026-01-01 00:00:00 UTC: no report is later
PERCENTAGES = ("usage", "usage_system", "usage_iowait", "memory", "disk")
COUNTER = "packets"
REGIONS = (
    "ap-northeast-1", "ap-southeast-2", "ca-central-1", "eu-central-1", "eu-west-1", "sa-east-1", "us-east-1", "us-west-2",
)  # fmt: skip
COLUMNS = ("time", "host", "region", *PERCENTAGES, COUNTER)
CREATE_SQL = (
    "CREATE TABLE {table} (time TIMESTAMP_NS TIME, host STRING TAG, region STRING TAG, "
    + ", ".join(f"{name} DOUBLE FIELD" for name in PERCENTAGES)
    + f", {COUNTER} INT64 FIELD)"
)
_GROUP_ROWS = 500_000  # rows made at a time: the scratch then stays in tens of megabytes
_WORDS_PER_ROW = 2  # 64-bit random words, 16 bits for each of up to eight columns


@dataclass(frozen=True, slots=True)
class Fleet:
    """Which rows to make. ``aligned``: all devices report at the same instants; else each has its own phase in the interval."""

    devices: int
    ticks: int
    aligned: bool = False
    seed: int = 1

    @classmethod
    def named(cls, name: str, rows: int = 10_000_000, *, aligned: bool = False, seed: int = 1) -> Fleet:
        """Fleet A (1,000 devices), B (10,000) or C (100,000) of about ``rows`` rows, which divide evenly over the devices."""
        devices = {"A": 1_000, "B": 10_000, "C": 100_000}[name.upper()]
        devices = min(devices, max(rows // 10, 1))
        return cls(devices, max(rows // devices, 1), aligned, seed)

    @property
    def rows(self) -> int:
        """Rows in the whole fleet."""
        return self.devices * self.ticks

    def hosts(self) -> list[str]:
        """Host names by device number; bytewise order is numeric order."""
        width = max(len(str(self.devices - 1)), 4)
        return [f"host_{number:0{width}}" for number in range(self.devices)]

    def region_codes(self) -> NDArray[np.int32]:
        """Each device's index into ``REGIONS``."""
        words = np.random.PCG64(np.random.SeedSequence([self.seed, 2])).random_raw(self.devices)
        return (words % len(REGIONS)).astype(np.int32)

    def phases_ns(self) -> NDArray[np.int64]:
        """How long before the common instant each device reports; distinct whole microseconds, all zero when aligned."""
        if self.aligned:
            return np.zeros(self.devices, np.int64)
        words = np.random.PCG64(np.random.SeedSequence([self.seed, 3])).random_raw(self.devices)
        place = np.empty(self.devices, np.int64)
        place[np.argsort(words, kind="stable")] = np.arange(self.devices)
        return place * (INTERVAL_NS // 1_000 // self.devices) * 1_000

    def tables(self, order: str = "device") -> Iterator[pa.Table]:
        """The rows as Arrow tables of about a million rows each, sorted by (host, time) or, ``order='time'``, by time."""
        return self._by_device() if order == "device" else self._by_time()

    def _by_device(self) -> Iterator[pa.Table]:
        ends = END_NS - self.phases_ns()
        back = np.arange(self.ticks - 1, -1, -1, dtype=np.int64) * INTERVAL_NS
        make = _TableMaker(self)
        for start, stop, percentages, counter in self._groups():
            devices = np.repeat(np.arange(start, stop, dtype=np.int32), self.ticks)
            times = (ends[start:stop, None] - back).ravel()
            yield make(times, devices, [percentages[i].ravel() for i in range(len(PERCENTAGES))], counter.ravel())

    def _by_time(self) -> Iterator[pa.Table]:
        percentages = np.empty((len(PERCENTAGES), self.ticks, self.devices), np.int16)
        counters = np.empty((self.ticks, self.devices), np.int64)
        phases = self.phases_ns()
        by_phase = np.argsort(-phases, kind="stable").astype(np.int32)
        place = np.empty(self.devices, np.int64)
        place[by_phase] = np.arange(self.devices)
        for start, stop, part, counter in self._groups():
            percentages[:, :, place[start:stop]] = part.swapaxes(1, 2)
            counters[:, place[start:stop]] = counter.T
        make = _TableMaker(self)
        step = max(1_000_000 // self.devices, 1)
        for tick in range(0, self.ticks, step):
            stop = min(tick + step, self.ticks)
            instants = END_NS - np.arange(self.ticks - 1 - tick, self.ticks - 1 - stop, -1, dtype=np.int64) * INTERVAL_NS
            times = (instants[:, None] - phases[by_phase]).ravel()
            columns = [percentages[i, tick:stop].ravel() for i in range(len(PERCENTAGES))]
            yield make(times, np.tile(by_phase, stop - tick), columns, counters[tick:stop].ravel())

    def _groups(self) -> Iterator[tuple[int, int, NDArray[np.int16], NDArray[np.int64]]]:
        """(first device, end, percentages in hundredths (5, devices, ticks), counter (devices, ticks)) group by group."""
        per_group = max(_GROUP_ROWS // self.ticks, 1)
        steps, increments = _step_table(), _increment_table()
        words = np.random.PCG64(np.random.SeedSequence([self.seed, 4])).random_raw(len(PERCENTAGES) * self.devices)
        starts = (words % 10_000).astype(np.int32).reshape(len(PERCENTAGES), self.devices)
        for group, start in enumerate(range(0, self.devices, per_group)):
            stop = min(start + per_group, self.devices)
            count = stop - start
            stream = np.random.PCG64(np.random.SeedSequence([self.seed, 1, group]))
            bits = stream.random_raw(count * self.ticks * _WORDS_PER_ROW).astype("<u8").view("<u2")
            bits = bits.reshape(len(PERCENTAGES) + 3, count, self.ticks)
            walk = np.cumsum(steps[bits[: len(PERCENTAGES)]], axis=2, dtype=np.int32)
            walk += starts[:, start:stop, None]
            walk %= 20_000
            np.minimum(walk, 20_000 - walk, out=walk)
            counter = np.cumsum(increments[bits[5]], axis=1, dtype=np.int64) + bits[6, :, :1].astype(np.int64) * 1_000
            yield start, stop, walk.astype(np.int16), counter


class _TableMaker:
    """Turns arrays into Arrow tables that share their dictionaries of host and region names."""

    def __init__(self, fleet: Fleet) -> None:
        import pyarrow as pa

        self._hosts = pa.array(fleet.hosts())
        self._regions = pa.array(REGIONS)
        self._region_codes = fleet.region_codes()

    def __call__(
        self, times: NDArray[np.int64], devices: NDArray[np.int32], percentages: list[NDArray[np.int16]], counter: NDArray[np.int64]
    ) -> pa.Table:
        import pyarrow as pa

        columns: list[Any] = [
            pa.array(times, pa.timestamp("ns")),
            pa.DictionaryArray.from_arrays(pa.array(devices), self._hosts),
            pa.DictionaryArray.from_arrays(pa.array(self._region_codes[devices]), self._regions),
        ]
        columns += [pa.array(hundredths / 100.0) for hundredths in percentages]
        return pa.table([*columns, pa.array(counter)], names=COLUMNS)


def _quantiles() -> NDArray[np.float64]:
    """The middles of 65,536 equally likely intervals, so that a table over them is indexed by 16 random bits."""
    return (np.arange(65_536) + 0.5) / 65_536


def _step_table() -> NDArray[np.int16]:
    """Normal steps with a standard deviation of one per cent, in hundredths."""
    coarse = np.linspace(0.0, 1.0, 1_026)[1:-1]
    normal = NormalDist(0.0, 100.0)
    values = np.array([normal.inv_cdf(float(q)) for q in coarse])
    table: NDArray[np.int16] = np.rint(np.interp(_quantiles(), coarse, values)).astype(np.int16)
    return table


def _increment_table() -> NDArray[np.int32]:
    """Exponential increments of the counter, about a thousand each."""
    table: NDArray[np.int32] = np.rint(-1_000.0 * np.log1p(-_quantiles())).astype(np.int32)
    return table
