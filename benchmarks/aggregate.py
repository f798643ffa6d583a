"""Aggregates in tsdb and in DuckDB's native tables over the same rows, as ratios; with statistics and without.

``python -m benchmarks.aggregate --fleet A --rows 4000000`` writes a fleet with ten fields into tsdb and into DuckDB, in device
order and in time order, compares the answers and prints medians of interleaved runs. ``--directory`` keeps the data.
"""

from __future__ import annotations

import datetime
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tsdb
from benchmarks.peers import interleaved_medians
from benchmarks.report import Table, milliseconds, ratio
from tsdb_cli.fleet import END_NS, INTERVAL_NS, PERCENTAGES, Fleet

if TYPE_CHECKING:
    import pyarrow as pa

_FIELDS = (*PERCENTAGES, *(f"{name}_rest" for name in PERCENTAGES))
_DDL = "CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, region STRING TAG, " + ", ".join(
    f"{name} DOUBLE" for name in _FIELDS
) + ")"  # fmt: skip


def questions(fleet: Fleet) -> list[tuple[str, str]]:
    """Names and texts."""
    hosts = fleet.hosts()

    def during(hours: float) -> str:
        stop = END_NS - fleet.ticks * INTERVAL_NS // 10
        start = stop - min(int(hours * 3_600 * 10**9), fleet.ticks * INTERVAL_NS * 7 // 10)
        return f"time >= '{_instant(start)}' AND time < '{_instant(stop)}'"

    def each(function: str, names: Sequence[str] = _FIELDS) -> str:
        return ", ".join(f"{function}({name}) AS {function}_{name}" for name in names)

    by_hour, by_host = "GROUP BY hour ORDER BY hour", "GROUP BY hour, host ORDER BY hour, host"
    hour, minute = "time_bucket(INTERVAL 1 HOUR, time) AS hour", "time_bucket(INTERVAL 1 MINUTE, time) AS minute"
    one, eight = (
        f"host = '{hosts[len(hosts) // 2]}'",
        "host IN (" + ", ".join(f"'{h}'" for h in hosts[:: len(hosts) // 8][:8]) + ")",
    )
    return [
        ("count, min and max of time", "SELECT count(*), min(time), max(time) FROM cpu"),
        ("the same per host", "SELECT host, count(*), min(time), max(time) FROM cpu GROUP BY host ORDER BY host"),
        ("sum of 10 fields", f"SELECT {each('sum')} FROM cpu"),
        ("max of 10 fields in 2 h", f"SELECT {each('max')} FROM cpu WHERE {during(2)}"),
        (
            "hourly avg + max per region",
            f"SELECT {hour}, region, avg(usage) AS a, max(usage) AS m FROM cpu GROUP BY hour, region ORDER BY hour, region",
        ),
        (
            "single-groupby-5-1-12",
            f"SELECT {minute}, {each('max', _FIELDS[:5])} FROM cpu WHERE {one} AND {during(12)} GROUP BY minute ORDER BY minute",
        ),
        (
            "single-groupby-5-8-1",
            f"SELECT {minute}, {each('max', _FIELDS[:5])} FROM cpu WHERE {eight} AND {during(1)} GROUP BY minute ORDER BY minute",
        ),
        ("cpu-max-all-1", f"SELECT {hour}, {each('max')} FROM cpu WHERE {one} AND {during(8)} {by_hour}"),
        ("cpu-max-all-8", f"SELECT {hour}, {each('max')} FROM cpu WHERE {eight} AND {during(8)} {by_hour}"),
        ("double-groupby-1", f"SELECT {hour}, host, avg(usage) AS a FROM cpu WHERE {during(12)} {by_host}"),
        (
            "double-groupby-5",
            f"SELECT {hour}, host, {each('avg', _FIELDS[:5])} FROM cpu WHERE {during(12)} {by_host}",
        ),
        ("double-groupby-all", f"SELECT {hour}, host, {each('avg')} FROM cpu WHERE {during(12)} {by_host}"),
        ("last of 2 fields per host", "SELECT host, last(usage) AS u, last(disk) AS d FROM cpu GROUP BY host ORDER BY host"),
        ("rows above 90 per region", "SELECT region, count(*) AS c FROM cpu WHERE usage > 90 GROUP BY region ORDER BY region"),
    ]  # fmt: skip


def _instant(nanoseconds: int) -> str:
    return datetime.datetime.fromtimestamp(nanoseconds // 10**9, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _tables(fleet: Fleet, order: str) -> Any:
    import pyarrow.compute as pc

    for table in fleet.tables(order):
        made: pa.Table = table.drop_columns(["packets"])
        for name in PERCENTAGES:
            made = made.append_column(f"{name}_rest", pc.round(pc.subtract(100.0, table[name]), 2))
        yield made


class _Stores:
    """The same rows in tsdb and in two DuckDB tables."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        import duckdb

        folder.mkdir(parents=True, exist_ok=True)
        fresh = not (folder / "db").exists()
        self.db = tsdb.open(folder / "db")
        self.ducks = [duckdb.connect(str(folder / f"{order}.duckdb")) for order in ("device", "time")]
        if fresh:
            self.db.sql(_DDL)
            for table in _tables(fleet, "device"):
                self.db.write("cpu", table)
            self.db.flush()
            for duck, order in zip(self.ducks, ("device", "time"), strict=True):
                made = False
                for part in _tables(fleet, order):
                    duck.register("part", part)
                    duck.execute("INSERT INTO cpu FROM part" if made else "CREATE TABLE cpu AS FROM part")
                    made = True
                duck.execute("CHECKPOINT")

    def calls(self) -> list[Callable[[str], list[tuple[Any, ...]]]]:
        """How each is asked: tsdb with statistics, tsdb without, DuckDB by device, DuckDB by time."""

        def plain(sql: str) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = self.db.sql(sql, settings={"enable_statistics_aggregation": False}).fetchall()
            return rows

        ours = [lambda sql: self.db.sql(sql).fetchall(), plain]
        return [*ours, *((lambda sql, duck=duck: duck.execute(_as_duckdb(sql)).fetchall()) for duck in self.ducks)]

    def close(self) -> None:
        """Close all."""
        for each in (self.db, *self.ducks):
            each.close()


def _as_duckdb(sql: str) -> str:
    return sql.replace("last(usage)", "arg_max(usage, time)").replace("last(disk)", "arg_max(disk, time)")


@click.command()
@click.option("--fleet", "letter", default="A", type=click.Choice(["A", "B", "C"], case_sensitive=False))
@click.option("--rows", type=click.IntRange(1_000), default=4_000_000, show_default=True)
@click.option("--only", default="", metavar="TEXT", help="Ask only the questions whose name contains TEXT.")
@click.option(
    "--directory", type=click.Path(path_type=Path, file_okay=False), help="Where the data is kept; else a temporary folder."
)
def main(letter: str, rows: int, only: str, directory: Path | None) -> None:
    """Compare aggregates of tsdb with DuckDB's."""
    fleet = Fleet.named(letter, rows)
    heading = ("question", "tsdb", "without statistics", "DuckDB, by device", "DuckDB, by time", "ratio", "without statistics")
    shown = Table(f"Fleet {letter}: {fleet.devices:,} devices × {fleet.ticks:,} rows: milliseconds, warm medians", heading)
    with tempfile.TemporaryDirectory(prefix="tsdb-aggregate-") as folder:
        stores = _Stores(fleet, (directory or Path(folder)) / f"{letter.upper()}-{rows}")
        for name, sql in questions(fleet):
            if only in name:
                shown.rows.append(_row(name, sql, stores.calls()))
        stores.close()
    click.echo(shown.as_text())


def _row(name: str, sql: str, calls: Sequence[Callable[[str], list[tuple[Any, ...]]]]) -> tuple[str, ...]:
    first, *others = (call(sql) for call in calls)
    for other in others:
        same = len(first) == len(other) and all(
            _same(a, b) for one, two in zip(first, other, strict=True) for a, b in zip(one, two, strict=True)
        )
        if not same:
            raise click.ClickException(f"{name}: answers differ: {first[:2]} and {other[:2]}")
    medians = interleaved_medians([(call, sql) for call in calls])
    best = min(medians[2:])
    return (name, *map(milliseconds, medians), ratio(best / medians[0]), ratio(best / medians[1]))


def _same(one: Any, other: Any) -> bool:
    return math.isclose(one, other, rel_tol=1e-9) if isinstance(one, float) else bool(one == other)


if __name__ == "__main__":
    main()
