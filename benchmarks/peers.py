"""The same rows and the same questions in tsdb and in DuckDB, as ratios.

``python -m benchmarks.peers --fleet A --rows 10000000`` generates a fleet, loads it into tsdb, a native DuckDB table in device
order and one in time order, and a Parquet file, checks that all agree on every answer, and prints medians of interleaved runs.
Everything happens in a temporary folder that is removed afterwards. ``--markdown FILE`` also writes the tables there.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.question import Question, questions
from benchmarks.report import Table, machine_text, milliseconds, ratio
from benchmarks.start_up import start_up_seconds
from benchmarks.store import Duck, Store, Tsdb
from tsdb_cli.arrow_file import write_csv, write_parquet
from tsdb_cli.fleet import Fleet

_SECONDS_MAX = 6.0  # per question and store: slow answers are asked fewer times
_ROUNDS_MAX = 25
_ROUNDS_MIN = 3
_TURN_SECONDS, _TURN_CALLS = 0.02, 5  # a turn is so many calls at most, of which the last counts
_FLEETS = ("A", "B", "C", "A-aligned", "B-aligned", "C-aligned")
_NEWEST = "SELECT * FROM cpu ORDER BY time DESC LIMIT 10"


@click.command()
@click.option("--fleet", "names", multiple=True, default=("A",), type=click.Choice(_FLEETS, case_sensitive=False))
@click.option("--rows", type=click.IntRange(1_000), default=10_000_000, show_default=True)
@click.option("--aligned", is_flag=True, help="The same as naming each fleet with -aligned.")
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), help="Where the temporary folder is made.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write the tables to this file too.")
@click.option(
    "--only", default="", metavar="TEXT", help="Ask only the questions whose name contains TEXT, and measure nothing else."
)
def main(names: Sequence[str], rows: int, aligned: bool, directory: Path | None, markdown: Path | None, only: str) -> None:
    """Compare tsdb with DuckDB."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a killed comparison removes its gigabytes too
    tables: list[Table] = []
    load = os.getloadavg()[0]
    flat = Table("Newest 10, whatever is stored", ("fleet", "rows", "devices", "ms", "pages", "pages read", "bytes read"))
    for name in names:
        letter, _, variant = name.partition("-")
        fleet = Fleet.named(letter, rows, aligned=aligned or bool(variant))
        with tempfile.TemporaryDirectory(prefix="tsdb-peers-", dir=directory) as folder:
            for table in compare(fleet, letter.upper(), Path(folder), only, flat):
                print(table.as_text(), flush=True)
                tables.append(table)
        if markdown is not None:  # after each fleet: what was measured is kept, whatever happens to the next one
            markdown.parent.mkdir(parents=True, exist_ok=True)
            markdown.write_text(_document([flat, *tables], load), encoding="utf-8")
    print(flat.as_text())


def compare(fleet: Fleet, name: str, folder: Path, only: str, flat: Table) -> list[Table]:
    """All tables for one fleet; what its newest 10 rows took is added to ``flat``."""
    label = f"Fleet {name}: {fleet.devices:,} devices × {fleet.ticks:,} rows{', last times equal' if fleet.aligned else ''}"
    _say(f"{label}: generating")
    for order in ("device", "time"):
        write_parquet(fleet.tables(order), folder / f"{order}.parquet")
    write_csv(fleet.tables("device"), folder / "device.csv")
    _say("loading")
    ours, seconds = Tsdb.load_csv(folder / "device.csv", folder / "fleet.db")
    stores: list[Store] = [
        ours,
        Duck.native("DuckDB, by device", folder / "device.parquet", folder / "device.duckdb"),
        Duck.native("DuckDB, by time", folder / "time.parquet", folder / "time.duckdb"),
        Duck.over_parquet("DuckDB on Parquet", folder / "device.parquet"),
    ]
    asked = [question for question in questions(fleet) if only in question.name]
    answers = Table(
        f"{label}: milliseconds, warm medians", ("question", *(store.name for store in stores), "ratio to the best native")
    )
    for question in asked:
        answers.rows.append(_row(question, stores))
        _say("  ".join(answers.rows[-1]))
    flat.rows.append(_flat_row(label, fleet, ours))
    made = [answers]
    if not only:
        made.append(_size_table(label, fleet, stores))
        made.append(_ingest_table(label, fleet, folder, seconds))
    for store in stores:
        store.close()
    if not only:
        made.append(_start_up_table(label, folder))
    return made


def _row(question: Question, stores: Sequence[Store]) -> Sequence[str]:
    """Ask every store in turn, again and again; check that the answers agree."""
    asks = [store.arrow if question.arrow else store.ask for store in stores]
    answers = [_rows(ask(question.sql)) for ask in asks]
    for store, answer in zip(stores[1:], answers[1:], strict=True):
        _require_same(question, answers[0], answer, store.name)
    medians = interleaved_medians([(ask, question.sql) for ask in asks])
    return (question.name, *(milliseconds(median) for median in medians), ratio(min(medians[1:3]) / medians[0]))


def _rows(answer: Any) -> Sequence[Sequence[Any]]:
    """The rows of an answer, which may be a table."""
    return answer if isinstance(answer, list) else list(zip(*(column.to_pylist() for column in answer.columns), strict=True))


def _flat_row(label: str, fleet: Fleet, ours: Tsdb) -> Sequence[str]:
    (median,) = interleaved_medians([(ours.ask, _NEWEST)])
    counters = ours.counters(_NEWEST)
    counts = [f"{counters.get(name, 0):,}" for name in ("pages_total", "pages_read", "bytes_read")]
    name = label.partition(":")[0] + (", last times equal" if fleet.aligned else "")
    return (name, f"{fleet.rows:,}", f"{fleet.devices:,}", milliseconds(median), *counts)


def interleaved_medians(calls: Sequence[tuple[Any, str]]) -> list[float]:
    """Median seconds of each call; the calls take turns, so that what disturbs the machine disturbs all alike.

    Short ones are called a few times in a turn: what is measured is a warm store, as of somebody who goes on asking, and not what
    it takes to get the processor's caches back from the store before it.
    """
    taken: list[list[float]] = [[] for _ in calls]
    for round_number in range(_ROUNDS_MAX):
        for times, (function, argument) in zip(taken, calls, strict=True):
            if round_number >= _ROUNDS_MIN and sum(times) > _SECONDS_MAX:
                continue
            began = time.perf_counter()
            for _ in range(_TURN_CALLS):
                started = time.perf_counter()
                function(argument)
                ended = time.perf_counter()
                if ended - began > _TURN_SECONDS:
                    break
            times.append(ended - started)
    return [statistics.median(times) for times in taken]


def _require_same(question: Question, ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]], name: str) -> None:
    if len(ours) != len(theirs):
        raise click.ClickException(f"{question.name}: {len(ours):,} rows here, {len(theirs):,} from {name}")
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        for column in question.same:
            a, b = mine[column], other[column]
            close = math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
            if not close:
                raise click.ClickException(f"{question.name}: row {number}, column {column}: {a!r} here, {b!r} from {name}")


def _size_table(label: str, fleet: Fleet, stores: Sequence[Store]) -> Table:
    table = Table(f"{label}: size on disk", ("store", "bytes per row", "of ours"))
    ours = stores[0].size_bytes()
    for store in stores:
        size = store.size_bytes()
        table.rows.append((store.name, f"{size / fleet.rows:.1f}", ratio(size / ours)))
    return table


def _ingest_table(label: str, fleet: Fleet, folder: Path, seconds: float) -> Table:
    """CSV import; rows in device order were loaded already, in time order they are loaded here."""
    table = Table(f"{label}: CSV import, million rows a second", ("rows in", "tsdb", "DuckDB", "ratio"))
    theirs = Duck.load_csv(folder / "device.csv", folder / "load.duckdb")
    table.rows.append(("device order", *_rates(fleet.rows, seconds, theirs)))
    (folder / "device.csv").unlink()
    write_csv(fleet.tables("time"), folder / "time.csv")
    store, seconds = Tsdb.load_csv(folder / "time.csv", folder / "time.db")
    store.close()
    theirs = Duck.load_csv(folder / "time.csv", folder / "load2.duckdb")
    table.rows.append(("time order", *_rates(fleet.rows, seconds, theirs)))
    return table


def _rates(rows: int, ours: float, theirs: float) -> Sequence[str]:
    return (f"{rows / ours / 1e6:.2f}", f"{rows / theirs / 1e6:.2f}", ratio(theirs / ours))


def _start_up_table(label: str, folder: Path) -> Table:
    medians = start_up_seconds(folder / "fleet.db", folder / "device.duckdb")
    table = Table(f"{label}: a whole process, from a standing start", ("what it does", "ms", "of import numpy", "of DuckDB's"))
    for name, seconds in medians.items():
        of_numpy, of_duck = seconds / medians["import numpy"], seconds / medians["import duckdb + newest 10"]
        table.rows.append((name, milliseconds(seconds), ratio(of_numpy), ratio(of_duck)))
    return table


def _document(tables: Sequence[Table], load: float) -> str:
    head = f"""\
# Benchmarks

Made by `make peers` on {machine_text()}.
Milliseconds are medians of interleaved turns in one warm process, each the last of a few calls where these are short; every
answer was compared with every other store's first.
The ratio says how many times faster tsdb is than the faster of DuckDB's two native tables. Figures within 1.4× of each other
are equal on a machine that does other things too. Its load was {load:.1f} when this began: above 1, times are longer than they need
be, and ratios rougher.
"""
    return head + "".join(f"\n{table.as_markdown()}" for table in tables)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
