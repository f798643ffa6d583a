"""Data like that of the Time Series Benchmark Suite: what a fleet of hosts and a fleet of trucks would have reported.

Hosts report ten percentages of their processors, all at the same instants, ten seconds apart: whole numbers that walk randomly
between 0 and 100. Trucks report where they are and how they do, in two tables; some reports are missing, and some trucks have no
fleet. Values come from numpy's default generator with a fixed seed, one instant after the other, so that any number of hours of
any number of devices is made in the memory that an hour needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

START_S = 1_451_606_400  # 2016-01-01 00:00:00 UTC
FIELDS = tuple(
    f"usage_{name}" for name in ("user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
)
HOST_TAGS = (
    "hostname", "region", "datacenter", "rack", "os", "arch", "team", "service", "service_version", "service_environment",
)  # fmt: skip
TRUCK_TAGS = ("name", "fleet", "driver", "model", "device_version")
TRUCK_ATTRIBUTES = ("load_capacity", "fuel_capacity", "nominal_fuel_consumption")
READINGS = ("latitude", "longitude", "elevation", "velocity", "heading", "grade", "fuel_consumption")
DIAGNOSTICS = ("fuel_state", "current_load", "status")
FLEETS = ("East", "North", "South", "West")
#: Model, load it may carry, fuel that it holds, fuel that it should use.
MODELS = (("F-150", 2000.0, 200.0, 15.0), ("G-2000", 5000.0, 300.0, 19.0), ("H-2", 1500.0, 150.0, 12.0))
_REGIONS = ("ap-northeast-1", "eu-central-1", "eu-west-1", "sa-east-1", "us-east-1", "us-west-2")
_DRIVERS = ("Albert", "Andy", "Derek", "Rodney", "Seth", "Trish")


def create_sql(table: str) -> str:
    """The CREATE TABLE statement of ``cpu``, ``readings`` or ``diagnostics``."""
    fields = {"cpu": FIELDS, "readings": READINGS, "diagnostics": DIAGNOSTICS}[table]
    tags, attributes = (HOST_TAGS, ()) if table == "cpu" else (TRUCK_TAGS, TRUCK_ATTRIBUTES)
    columns = [f"{name} STRING TAG" for name in tags] + [f"{name} DOUBLE ATTRIBUTE" for name in attributes]
    return f"CREATE TABLE {table} (time TIMESTAMP_NS TIME, {', '.join(columns + [f'{name} DOUBLE FIELD' for name in fields])})"


@dataclass(frozen=True, slots=True)
class Suite:
    """How much data: hosts, trucks, and the hours for which all of them report."""

    hosts: int = 400
    trucks: int = 150
    hours: int = 36
    interval_s: int = 10
    seed: int = 1

    @property
    def ticks(self) -> int:
        """How often each device reports."""
        return self.hours * 3600 // self.interval_s

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """The rows as Arrow tables of about a million rows, in order of time, each with the name of its table."""
        yield from self._cpu()
        yield from self._trucks()

    def _cpu(self) -> Iterator[tuple[str, pa.Table]]:
        random = np.random.default_rng([self.seed, 1])
        tags = _tag_columns(HOST_TAGS, [_host(random, number) for number in range(self.hosts)])
        values = random.uniform(0, 100, (len(FIELDS), self.hosts))
        for first, ticks in _slices(self.ticks, self.hosts):
            made = np.empty((len(FIELDS), ticks, self.hosts))
            for tick in range(ticks):
                values = np.clip(values + random.standard_normal(values.shape), 0, 100)
                made[:, tick] = values
            fields = dict(zip(FIELDS, np.floor(made).reshape(len(FIELDS), -1), strict=True))
            yield "cpu", _table(self._times(first, ticks, self.hosts), tags, fields)

    def _trucks(self) -> Iterator[tuple[str, pa.Table]]:
        random = np.random.default_rng([self.seed, 2])
        trucks = [_truck(random, number) for number in range(self.trucks)]
        names = (*TRUCK_TAGS, *TRUCK_ATTRIBUTES)
        tags = _tag_columns(names, trucks)
        journey = _Journey(random, np.array([truck[len(TRUCK_TAGS) :] for truck in trucks], np.float64))
        for first, ticks in _slices(self.ticks, self.trucks):
            made = np.empty((len(READINGS) + len(DIAGNOSTICS), ticks, self.trucks))
            for tick in range(ticks):
                journey.step()
                made[:, tick] = journey.report()
            rows = made.reshape(len(made), -1)
            times = self._times(first, ticks, self.trucks)
            fields = dict(zip((*READINGS, *DIAGNOSTICS), rows, strict=True))
            for name, columns in (("readings", READINGS), ("diagnostics", DIAGNOSTICS)):
                table = _table(times, tags, {column: fields[column] for column in columns})
                yield name, table.filter(random.random(len(times)) > 0.01)

    def _times(self, first: int, ticks: int, devices: int) -> NDArray[np.int64]:
        """The times of all rows of some ticks, in nanoseconds."""
        made = (START_S + (first + np.arange(ticks, dtype=np.int64)) * self.interval_s) * 10**9
        return np.repeat(made, devices)


def _slices(ticks: int, devices: int) -> Iterator[tuple[int, int]]:
    """First tick and number of ticks of parts of about a million rows."""
    step = max(1_050_000 // max(devices, 1), 1)
    for first in range(0, ticks, step):
        yield first, min(step, ticks - first)


def _host(random: np.random.Generator, number: int) -> tuple[Any, ...]:
    region = _REGIONS[random.integers(len(_REGIONS))]
    return (
        f"host_{number}", region, f"{region}{'abc'[random.integers(3)]}", str(random.integers(100)),
        ("Ubuntu15.10", "Ubuntu16.04LTS", "Ubuntu16.10")[random.integers(3)], ("x64", "x86")[random.integers(2)],
        ("CHI", "LON", "NYC", "SF")[random.integers(4)], str(random.integers(20)), str(random.integers(2)),
        ("production", "staging", "test")[random.integers(3)],
    )  # fmt: skip


def _truck(random: np.random.Generator, number: int) -> tuple[Any, ...]:
    model, *capacities = MODELS[random.integers(len(MODELS))]
    fleet = None if random.random() < 0.03 else FLEETS[random.integers(len(FLEETS))]
    driver = _DRIVERS[random.integers(len(_DRIVERS))]
    return (f"truck_{number}", fleet, driver, model, f"v{random.integers(1, 3)}.{random.integers(4)}", *capacities)


class _Journey:
    """Trucks on their way: each drives for hours, rests, and now and then stands broken."""

    def __init__(self, random: np.random.Generator, capacities: NDArray[np.float64]) -> None:
        count = len(capacities)
        self.random = random
        self.load_capacity, _, self.nominal = capacities.T
        self.latitude, self.longitude = random.uniform(-90, 90, count), random.uniform(-180, 180, count)
        self.elevation, self.heading = random.uniform(0, 500, count), random.uniform(0, 360, count)
        self.velocity, self.fuel = random.uniform(0, 100, count), random.uniform(0.05, 1, count)
        self.load = self.load_capacity * random.random(count)
        self.rested = random.random(count) < 0.15  # rests all day long
        self.driving = ~self.rested
        self.broken = np.zeros(count, np.bool_)

    def step(self) -> None:
        """Ten seconds later."""
        random, count = self.random, len(self.velocity)
        chance = random.random((4, count))
        self.driving = np.where(self.rested, False, self.driving ^ (chance[0] < np.where(self.driving, 0.0012, 0.006)))
        self.broken ^= chance[1] < np.where(self.broken, 0.006, 0.0004)
        speed = np.clip(self.velocity + random.standard_normal(count) * 3, 5, 100)
        self.velocity = np.where(self.driving & ~self.broken, speed, 0)
        self.heading = (self.heading + random.standard_normal(count) * 4) % 360
        self.elevation = np.clip(self.elevation + random.standard_normal(count), 0, 1000)
        degrees = self.velocity / 111 / 360
        self.latitude = np.clip(self.latitude + degrees * np.cos(np.radians(self.heading)), -90, 90)
        self.longitude = (self.longitude + degrees * np.sin(np.radians(self.heading)) + 180) % 360 - 180
        self.fuel = np.where(self.fuel < 0.02, 1.0, np.clip(self.fuel - self.velocity / 2e5, 0, 1))
        self.load = np.where(chance[2] < 0.0005, self.load_capacity * chance[3], self.load)

    def report(self) -> list[NDArray[np.float64]]:
        """Readings, then diagnostics."""
        grade = np.round(self.elevation % 10)
        use = np.where(self.velocity > 0, self.nominal * (0.8 + self.velocity / 200), 0)
        readings = [np.round(self.latitude, 5), np.round(self.longitude, 5), np.round(self.elevation), np.round(self.velocity)]
        diagnostics = [np.round(self.fuel, 2), np.round(self.load), np.where(self.broken, 5.0, 0.0)]
        return [*readings, np.round(self.heading), grade, np.round(use, 1), *diagnostics]


def _tag_columns(names: tuple[str, ...], devices: list[tuple[Any, ...]]) -> dict[str, pa.Array]:
    import pyarrow as pa

    return {name: pa.array([device[at] for device in devices]) for at, name in enumerate(names)}


def _table(times: NDArray[np.int64], tags: dict[str, pa.Array], fields: dict[str, NDArray[np.float64]]) -> pa.Table:
    """Rows instant after instant; ``tags`` and attributes by device."""
    import pyarrow as pa

    columns: dict[str, Any] = {"time": pa.array(times).cast(pa.timestamp("ns"))}
    for name, values in tags.items():
        device = pa.array(np.tile(np.arange(len(values), dtype=np.int32), len(times) // len(values)))
        columns[name] = pa.DictionaryArray.from_arrays(device, values) if pa.types.is_string(values.type) else values.take(device)
    return pa.table(columns | {name: pa.array(values) for name, values in fields.items()})
