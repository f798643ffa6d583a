"""Durable commits per second in tsdb, SQLite, DuckDB and ArcticDB, and newest 10 while a writer runs, as ratios in one run.

``python -m benchmarks.rates`` writes the same rows to each store in commits of 1, 1,000 and 100,000 rows, round after round so that
a busy machine troubles all alike, and prints rows a second. Every commit survives a power cut: tsdb as it comes, SQLite in WAL
mode with synchronous = FULL, DuckDB with its own log, ArcticDB on LMDB as it comes. What is not installed is left out.
"""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import click
import numpy as np

import tsdb
from benchmarks.report import Table, machine_text

_DEVICES = 100
_SIZES = {1: 400, 1_000: 60, 100_000: 8}  # rows a commit: commits a round
_DDL = "CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE, temperature DOUBLE, requests INT64)"


class Target(Protocol):
    """A store that takes commits of rows."""

    name: str

    def commit(self, rows: dict[str, Any]) -> None:
        """Write the rows durably."""

    def close(self) -> None:
        """Release the store."""


class _Tsdb:
    name = "tsdb"

    def __init__(self, folder: Path) -> None:
        self._db = tsdb.open(folder / "db")
        self._db.sql(_DDL)

    def commit(self, rows: dict[str, Any]) -> None:
        self._db.write("cpu", [{name: values.item(0) for name, values in rows.items()}] if len(rows["time"]) == 1 else rows)

    def close(self) -> None:
        self._db.close()


class _Sqlite:
    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "sqlite.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(
            "CREATE TABLE cpu (host TEXT, time INTEGER, usage REAL, temperature REAL, requests INTEGER, PRIMARY KEY (host, time)) "
            "WITHOUT ROWID"
        )

    def commit(self, rows: dict[str, Any]) -> None:
        values = zip(*(rows[name].tolist() for name in ("host", "time", "usage", "temperature", "requests")), strict=True)
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO cpu VALUES (?, ?, ?, ?, ?)", list(values))
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()


class _DuckDB:
    name = "DuckDB"

    def __init__(self, folder: Path) -> None:
        import duckdb

        self._db = duckdb.connect(str(folder / "duck.db"))
        self._db.execute("CREATE TABLE cpu (time TIMESTAMP_NS, host VARCHAR, usage DOUBLE, temperature DOUBLE, requests BIGINT)")

    def commit(self, rows: dict[str, Any]) -> None:
        import pyarrow as pa

        batch = pa.table(rows)  # noqa: F841 (DuckDB finds it by name)
        self._db.execute("INSERT INTO cpu SELECT make_timestamp_ns(time), host, usage, temperature, requests FROM batch")

    def close(self) -> None:
        self._db.close()


class _ArcticDB:
    name = "ArcticDB"

    def __init__(self, folder: Path) -> None:
        import arcticdb

        self._library = arcticdb.Arctic(f"lmdb://{folder / 'arctic'}").create_library("cpu")

    def commit(self, rows: dict[str, Any]) -> None:
        import pandas as pd

        columns = {name: values for name, values in rows.items() if name != "time"}
        self._library.append("cpu", pd.DataFrame(columns, index=pd.DatetimeIndex(rows["time"])))

    def close(self) -> None:
        del self._library


def batches(size: int, count: int, first: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Commits of a fleet that reports in turn: times ascend by device."""
    hosts = np.array([f"host_{number:03}" for number in range(_DEVICES)])
    for number in range(first, first + count):
        at = np.arange(number * size, (number + 1) * size)
        yield {
            "time": 1_700_000_000_000_000_000 + at // _DEVICES * 1_000_000_000 + size,
            "host": hosts[at % _DEVICES],
            "usage": np.round(rng.normal(50, 20, size), 1),
            "temperature": np.round(rng.normal(40, 5, size), 2),
            "requests": rng.integers(0, 1000, size),
        }


def rates(folder: Path, rounds: int) -> Table:
    """Rows a second by store and size of commit, medians of interleaved rounds."""
    makers: dict[str, Callable[[Path], Target]] = {"tsdb": _Tsdb, "SQLite": _Sqlite, "DuckDB": _DuckDB}
    if importlib.util.find_spec("arcticdb") is not None:
        makers["ArcticDB"] = _ArcticDB
    table = Table("Durable commits, rows a second", ("rows a commit", *makers, "tsdb / SQLite", "tsdb / best of the others"))
    for size, commits in _SIZES.items():
        found: dict[str, list[float]] = {name: [] for name in makers}
        targets = {}
        for name, make in makers.items():
            (folder / f"{name}-{size}").mkdir()
            targets[name] = make(folder / f"{name}-{size}")
        for number in range(rounds + 1):
            rows = list(batches(size, commits, number * commits, np.random.default_rng(number)))
            for name, target in targets.items():
                started = time.perf_counter()
                for each in rows:
                    target.commit(each)
                if number:  # the first round warms up
                    found[name].append(size * commits / (time.perf_counter() - started))
        for target in targets.values():
            target.close()
        middle = {name: statistics.median(values) for name, values in found.items()}
        others = max(value for name, value in middle.items() if name != "tsdb")
        shown = [f"{value:,.0f}" for value in middle.values()]
        table.rows.append((f"{size:,}", *shown, f"{middle['tsdb'] / middle['SQLite']:.2f}", f"{middle['tsdb'] / others:.2f}"))
    return table


def latency(folder: Path, seconds: float) -> Table:
    """Newest 10 alone and while a writer of thousand-row commits runs at half its top rate, in one process."""
    db = tsdb.open(folder / "latency")
    db.sql(_DDL)
    rng = np.random.default_rng(0)
    for each in batches(1_000_000, 2, 0, rng):
        db.write("cpu", each)
    question = "SELECT * FROM cpu ORDER BY time DESC LIMIT 10"

    def asked(until: float) -> list[float]:
        found = []
        while (now := time.perf_counter()) < until:
            db.sql(question).fetchall()
            found.append(time.perf_counter() - now)
            time.sleep(0.002)
        return found

    asked(time.perf_counter() + 0.5)
    alone = asked(time.perf_counter() + seconds)
    stream = batches(1_000, 10**9, 2_000, rng)
    started, commits = time.perf_counter(), 0
    while time.perf_counter() < started + 2:
        db.write("cpu", next(stream))
        commits += 1
    pause = (time.perf_counter() - started) / commits  # as long again: half the top rate
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            db.write("cpu", next(stream))
            time.sleep(pause)

    writer = threading.Thread(target=write)
    writer.start()
    beside = asked(time.perf_counter() + seconds)
    stop.set()
    writer.join()
    db.close()
    table = Table("Newest 10 while a writer runs at half its top rate", ("", "median ms", "p95 ms", "questions"))
    for name, values in (("alone", alone), ("beside the writer", beside)):
        ordered = sorted(values)
        table.rows.append(
            (name, f"{1e3 * statistics.median(values):.3f}", f"{1e3 * ordered[len(ordered) * 95 // 100]:.3f}", f"{len(values):,}")
        )
    table.rows.append(("ratio", f"{statistics.median(beside) / statistics.median(alone):.2f}", "", ""))
    return table


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--seconds", type=float, default=5.0, show_default=True, help="How long newest 10 is asked, alone and beside a writer."
)
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), help="Where the temporary folder is made.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write the tables to this file too.")
def main(rounds: int, seconds: float, directory: Path | None, markdown: Path | None) -> None:
    """Compare durable write rates."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tsdb-rates-", dir=directory) as name:
        tables = [rates(Path(name), rounds), latency(Path(name), seconds)]
    for table in tables:
        print(table.as_text(), flush=True)
    if markdown is not None:
        text = "\n\n".join(table.as_markdown() for table in tables)
        markdown.write_text(f"# Write rates\n\n{machine_text()} Load before: {load:.1f}.\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
