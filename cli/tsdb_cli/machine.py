"""A recording of the machine this runs on: a small real series that needs no download.

Where there is a ``/proc`` (Linux) the processors' busy shares, memory and context switches are read from it. Elsewhere the same
columns come from what Python knows everywhere: this process's own processor time, and the load average where the system has one.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CREATE_SQL = (
    "CREATE TABLE {table} (time TIMESTAMP_NS TIME, host STRING TAG, cpu STRING TAG, busy DOUBLE FIELD, iowait DOUBLE FIELD, "
    "load DOUBLE FIELD, memory DOUBLE FIELD, switches INT64 FIELD)"
)
NAMES = ("time", "host", "cpu", "busy", "iowait", "load", "memory", "switches")
_STAT = Path("/proc/stat")
_MEMINFO = Path("/proc/meminfo")


@dataclass(slots=True)
class Sample:
    """Counters at one instant; ``cpus`` maps a processor's name to its (total, idle, iowait) ticks so far."""

    cpus: dict[str, tuple[float, float, float]]
    switches: int
    memory: float | None
    load: float | None


def record(seconds: float, interval: float) -> pa.Table:
    """Record for ``seconds``, one row per processor every ``interval`` seconds, and return the rows as an Arrow table."""
    import pyarrow as pa

    host = platform.node() or "localhost"
    rows: list[tuple[object, ...]] = []
    before = _sample()
    deadline = time.monotonic() + seconds
    due = time.monotonic()
    while (now := time.monotonic()) < deadline:
        due = max(due + interval, now)
        time.sleep(min(due, deadline) - now)
        after = _sample()
        instant = time.time_ns()
        rows += [(instant, host, *row) for row in _differences(before, after)]
        before = after
    arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(_arrow_types())]
    return pa.table(arrays, names=NAMES)


def _arrow_types() -> list[pa.DataType]:
    import pyarrow as pa

    return [pa.timestamp("ns"), pa.string(), pa.string(), pa.float64(), pa.float64(), pa.float64(), pa.float64(), pa.int64()]


def _sample() -> Sample:
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    if not _STAT.exists():
        spent, wall = time.process_time() * 100, time.perf_counter() * 100
        return Sample({"this process": (wall, wall - spent, 0.0)}, 0, None, load)
    cpus: dict[str, tuple[float, float, float]] = {}
    switches = 0
    for line in _STAT.read_text().splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = [float(number) for number in numbers[:8]]
            cpus[name] = (sum(ticks), ticks[3], ticks[4])
        elif name == "ctxt":
            switches = int(numbers[0])
    sizes = {line.split()[0]: float(line.split()[1]) for line in _MEMINFO.read_text().splitlines() if line.strip()}
    used = 1 - sizes["MemAvailable:"] / sizes["MemTotal:"] if "MemAvailable:" in sizes else None
    return Sample(cpus, switches, used, load)


def _differences(before: Sample, after: Sample) -> list[tuple[object, ...]]:
    """One row per processor: the shares of the time between two samples, in per cent. NULL where no tick went by."""
    memory = None if after.memory is None else round(100 * after.memory, 2)
    rows: list[tuple[object, ...]] = []
    for name, (total, idle, iowait) in after.cpus.items():
        total_before, idle_before, iowait_before = before.cpus.get(name, (total, idle, iowait))
        spent = total - total_before
        waited = iowait - iowait_before
        busy = round(100 * (spent - (idle - idle_before) - waited) / spent, 2) if spent > 0 else None
        share = round(100 * waited / spent, 2) if spent > 0 else None
        rows.append((name, busy, share, after.load, memory, after.switches))
    return rows
