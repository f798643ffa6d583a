"""A large load in no order at all: rows of all devices and times mixed, in commits, with a limit on memory.

``python -m benchmarks.load --rows 100000000 --memory-limit 1GiB`` writes the rows of a fleet in a scrambled order, so that every
commit, every flush and every file overlaps all others in time, and prints rates, write amplification and the peak of memory that
belongs to the process alone. In the end every row must be there.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import click
import numpy as np

import tsdb
from tsdb.settings import parse_bytes

_DEVICES = 1_000
_DDL = "CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE, temperature DOUBLE, requests INT64)"


def own_bytes() -> int:
    """Memory of this process that is not a mapped file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


class Peak:
    """Looks at the memory ten times a second."""

    def __init__(self) -> None:
        self.bytes = own_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.bytes = max(self.bytes, own_bytes())

    def stop(self) -> int:
        """The highest figure seen."""
        self._stop.set()
        self._thread.join()
        return self.bytes


@click.command()
@click.option("--rows", type=click.IntRange(1_000), default=100_000_000, show_default=True)
@click.option("--batch", type=click.IntRange(1), default=200_000, show_default=True)
@click.option("--memory-limit", default="1GiB", show_default=True)
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), help="Where the temporary folder is made.")
def main(rows: int, batch: int, memory_limit: str, directory: Path | None) -> None:
    """Load rows in no order."""
    rows -= rows % _DEVICES
    stride = 982_451_653  # prime, so that every row comes once
    hosts = np.array([f"host_{number:04}" for number in range(_DEVICES)])
    with tempfile.TemporaryDirectory(prefix="tsdb-load-", dir=directory) as folder:
        db = tsdb.open(Path(folder) / "db", memory_limit=memory_limit)
        db.sql(_DDL)
        before = own_bytes()
        peak = Peak()
        started = time.perf_counter()
        shown = started
        for first in range(0, rows, batch):
            at = np.arange(first, min(first + batch, rows), dtype=np.int64) * stride % rows
            tick = at // _DEVICES
            db.write("cpu", {
                "time": (1_700_000_000 + tick) * 1_000_000_000, "host": hosts[at % _DEVICES],
                "usage": (tick % 1000) / 10, "temperature": (at % 977) / 8, "requests": at % 4096,
            })  # fmt: skip
            if time.perf_counter() > shown + 20:
                shown = time.perf_counter()
                done = first + batch
                click.echo(f"{done:,} rows, {done / (shown - started):,.0f} a second, {own_bytes() >> 20:,} MiB", err=True)
        written = time.perf_counter() - started
        db.flush()
        counted, low, high = db.sql("SELECT count(*), min(time), max(time) FROM cpu").fetchall()[0]
        assert counted == rows, (counted, rows)
        highest = peak.stop()
        counters = db.counters()
        files = int(db.sql("SHOW TABLES").fetchnumpy()["files"][0])
        db.close()
    limit = parse_bytes(memory_limit)
    click.echo(
        f"{rows:,} rows in commits of {batch:,}: {rows / written:,.0f} rows/s, {written:,.0f} s; {low} … {high}; {files} files"
    )
    click.echo(f"peak {highest >> 20:,} MiB ({before >> 20:,} MiB before the first row), limit {limit >> 20:,} MiB")
    click.echo(
        ", ".join(f"{name} {value:,.2f}" if isinstance(value, float) else f"{name} {value:,}" for name, value in counters.items())
    )


if __name__ == "__main__":
    main()
