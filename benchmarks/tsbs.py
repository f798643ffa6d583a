"""The query types of TSBS on tsdb and on DuckDB over the same rows, as ratios.

``python -m benchmarks.tsbs`` makes hosts and trucks that report for a day and a half, loads them in order of time into tsdb and
into DuckDB, sorts the rows of a second DuckDB by device, checks that all three agree on every answer, and prints medians of
interleaved runs. ``--markdown FILE`` also writes them, with the text of each question. The data is removed in the end.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.peers import interleaved_medians
from benchmarks.report import Table, machine_text, milliseconds, ratio
from benchmarks.tsbs_data import HOST_TAGS, TRUCK_TAGS, Suite, create_sql
from benchmarks.tsbs_question import TsbsQuestion, questions

_TABLES = {"cpu": HOST_TAGS, "readings": TRUCK_TAGS, "diagnostics": TRUCK_TAGS}
_HEADING = ("query", "tsdb", "DuckDB, by time", "DuckDB, by device", "ratio to the best", "rows", "pages read", "of")


class _Stores:
    """The three stores with the suite in them; each answers with an Arrow table."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        import duckdb

        import tsdb

        self.ours = tsdb.open(folder / "tsdb")
        self.by_time = duckdb.connect(str(folder / "by_time.duckdb"))
        self.by_device = duckdb.connect(str(folder / "by_device.duckdb"))
        self.rows = 0
        self.seconds = [0.0, 0.0]
        for name in _TABLES:
            self.ours.sql(create_sql(name))
            columns = ", ".join(f"{column} {kind}" for column, kind, _ in self.ours.sql(f"DESCRIBE {name}").fetchall())
            self.by_time.execute(f"CREATE TABLE {name} ({columns})")
        for name, part in suite.tables():
            self.rows += part.num_rows
            started = time.perf_counter()
            self.ours.write(name, part)
            written = time.perf_counter()
            self.by_time.register("part", part)
            self.by_time.execute(f"INSERT INTO {name} FROM part")
            self.seconds = [self.seconds[0] + written - started, self.seconds[1] + time.perf_counter() - written]
        self.ours.flush()
        self.by_time.unregister("part")
        self.by_time.execute("CHECKPOINT")
        for name, tags in _TABLES.items():
            rows = self.by_time.sql(f"FROM {name} ORDER BY {', '.join(tags)}, time").to_arrow_table()
            self.by_device.register("sorted", rows)
            self.by_device.execute(f"CREATE TABLE {name} AS FROM sorted")
            self.by_device.unregister("sorted")
        self.by_device.execute("CHECKPOINT")

    def ask_ours(self, text: str) -> Any:
        """tsdb's answer."""
        return self.ours.sql(text).arrow()

    def counters(self, text: str) -> dict[str, Any]:
        """What the query read, and of how much."""
        result = self.ours.sql(text)
        result.arrow()
        return dict(result.stats)

    def ask_by_time(self, text: str) -> Any:
        """DuckDB's answer over rows in the order in which they came."""
        return self.by_time.sql(text).to_arrow_table()

    def ask_by_device(self, text: str) -> Any:
        """DuckDB's answer over rows sorted by device."""
        return self.by_device.sql(text).to_arrow_table()

    def close(self) -> None:
        """Close all three."""
        self.ours.close()
        self.by_time.close()
        self.by_device.close()


@click.command()
@click.option("--hosts", type=click.IntRange(8), default=400, show_default=True)
@click.option("--trucks", type=click.IntRange(1), default=150, show_default=True)
@click.option("--hours", type=click.IntRange(25), default=36, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), help="Where the temporary folder is made.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write table and texts to this file too.")
@click.option("--only", default="", metavar="TEXT", help="Ask only the questions whose name contains TEXT.")
def main(hosts: int, trucks: int, hours: int, seed: int, directory: Path | None, markdown: Path | None, only: str) -> None:
    """Ask TSBS's questions."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a killed comparison removes its gigabytes too
    suite = Suite(hosts, trucks, hours, seed=seed)
    asked = [question for question in questions(suite) if only in question.name]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tsdb-tsbs-", dir=directory) as folder:
        _say(f"{suite}: loading")
        stores = _Stores(suite, Path(folder))
        title = f"{hosts:,} hosts, {trucks:,} trucks, {hours} hours: {stores.rows:,} rows; milliseconds, warm medians"
        rates = [f"{stores.rows / seconds / 1e6:.2f}" for seconds in stores.seconds]
        table = Table(title, _HEADING, note=f"Loaded from Arrow, million rows a second: tsdb {rates[0]}, DuckDB {rates[1]}.")
        for question in asked:
            table.rows.append(_row(question, stores))
            _say("  ".join(table.rows[-1]))
        stores.close()
    click.echo(table.as_text())
    if markdown is not None:
        markdown.write_text(_document(table, asked, load), encoding="utf-8")


def _row(question: TsbsQuestion, stores: _Stores) -> Sequence[str]:
    """Compare the answers, then ask every store in turn, again and again."""
    theirs = question.theirs or question.text
    ours = stores.ask_ours(question.text)
    for name, other in (("by time", stores.ask_by_time(theirs)), ("by device", stores.ask_by_device(theirs))):
        _require_same(question, _rows(ours, question), _rows(other, question), name)
    calls = [(stores.ask_ours, question.text), (stores.ask_by_time, theirs), (stores.ask_by_device, theirs)]
    medians = interleaved_medians(calls)
    counters = stores.counters(question.text)
    pages = [f"{counters.get(name, 0):,}" for name in ("pages_read", "pages_total")]
    times = [milliseconds(median) for median in medians]
    return (question.name, *times, ratio(min(medians[1:]) / medians[0]), f"{ours.num_rows:,}", *pages)


def _rows(table: Any, question: TsbsQuestion) -> list[tuple[Any, ...]]:
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return rows if question.ordered else sorted(rows, key=repr)


def _require_same(question: TsbsQuestion, ours: Sequence[Any], theirs: Sequence[Any], name: str) -> None:
    if len(ours) != len(theirs):
        raise click.ClickException(f"{question.name}: {len(ours):,} rows here, {len(theirs):,} from DuckDB {name}")
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        for a, b in zip(mine, other, strict=True):
            close = math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
            if not close:
                raise click.ClickException(f"{question.name}: row {number}: {a!r} here, {b!r} from DuckDB {name}")


def _document(table: Table, asked: Sequence[TsbsQuestion], load: float) -> str:
    head = f"""\
# TSBS

The query types of the [Time Series Benchmark Suite](https://github.com/timescale/tsbs), `devops` (15) and `iot` (12), over data
like its own: every ten seconds each host reports ten fields under ten tags, each truck its readings and diagnostics. Made by
`make tsbs` on {machine_text()}.

Milliseconds are medians of interleaved turns in one warm process, each the last of a few calls where these are short, that end
with an Arrow table; every answer was compared with both of DuckDB's first. DuckDB's native tables hold the rows as they came, by
time, and sorted by device; the ratio says how many times faster tsdb is than the faster of the two. The load when this began was
{load:.1f}, on {os.cpu_count()} cores: above 1, times are longer,
and ratios rougher. `tests/differential/test_tsbs.py` compares the same questions over a small suite.

"""
    texts = "".join(
        f"\n### {question.name}\n```sql\n{question.text}\n```\n"
        + (f"DuckDB:\n```sql\n{question.theirs}\n```\n" if question.theirs else "")
        for question in asked
    )
    return f"{head}{table.as_markdown()}\n## The questions\n{texts}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
