"""What a query costs that DuckDB runs over tsdb's files, against DuckDB over the same rows as an Arrow table in memory, as ratios.

``python -m benchmarks.overhead --rows 4000000`` writes a fleet, reads it back as Arrow, compares the answers and prints medians of
interleaved runs. Native operators are off: only the way from files through DuckDB is measured. The Arrow table has its strings as
dictionaries, as scans give them, and plain, as users have them.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import click
import duckdb
import pyarrow as pa

import tsdb
from benchmarks.peers import interleaved_medians
from benchmarks.report import Table, milliseconds, ratio
from tsdb_cli.fleet import Fleet

_DDL = "CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, region STRING TAG, usage DOUBLE, disk DOUBLE)"
_COLUMNS = ["time", "host", "region", "usage", "disk"]
_HOUR = "time_bucket(INTERVAL 1 HOUR, time) AS hour"
_BY_HOST = "PARTITION BY host ORDER BY time"
QUESTIONS = [
    ("average per region", "SELECT region, avg(usage), max(disk) FROM cpu GROUP BY region ORDER BY region"),
    ("maximum per host", "SELECT host, max(usage) FROM cpu GROUP BY host ORDER BY host"),
    ("hourly average", f"SELECT {_HOUR}, avg(usage) FROM cpu GROUP BY hour ORDER BY hour"),
    ("hourly per host", f"SELECT {_HOUR}, host, avg(usage), max(disk) FROM cpu GROUP BY ALL ORDER BY ALL LIMIT 10"),
    ("quantiles per region", "SELECT region, quantile_cont(usage, [0.5, 0.99]) FROM cpu GROUP BY region ORDER BY region"),
    ("distinct values", "SELECT count(DISTINCT usage), count(DISTINCT host) FROM cpu"),
    ("differences", f"SELECT max(d) FROM (SELECT usage - lag(usage) OVER ({_BY_HOST}) AS d FROM cpu)"),
    (
        "moving average",
        "SELECT max(a) FROM (SELECT avg(usage) OVER (PARTITION BY host ORDER BY time ROWS 10 PRECEDING) AS a FROM cpu)",
    ),
    ("expression", "SELECT max(usage * disk + 1), count(*) FROM cpu WHERE usage % 7 > 1"),
]

Ask = Callable[[str], list[tuple[Any, ...]]]


def _asks(database: tsdb.Database) -> list[Ask]:
    """How each is asked: tsdb, DuckDB over dictionaries, DuckDB over plain strings."""
    off = {"enable_native_operators": False}
    plain = database.sql("FROM cpu", settings=off).arrow()
    encoded = plain
    for name in ("host", "region"):
        encoded = encoded.set_column(encoded.schema.get_field_index(name), name, encoded.column(name).dictionary_encode())
    asks: list[Ask] = [lambda sql: database.sql(sql, settings=off).fetchall()]
    for table in (encoded, plain):
        duck = duckdb.connect(config={"threads": database.settings.threads, "python_enable_replacements": False})
        duck.execute("SET TimeZone = 'UTC'")
        duck.register("cpu", table)
        asks.append(lambda sql, duck=duck: duck.sql(sql).fetchall())  # type: ignore[misc]
    return asks


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return math.isclose(one, other, rel_tol=1e-9) if isinstance(one, float) else bool(one == other)


def _fill(database: tsdb.Database, fleet: Fleet) -> None:
    database.sql(_DDL)
    for table in fleet.tables():
        database.write("cpu", pa.table({name: table.column(name) for name in _COLUMNS}))
    database.flush()


@click.command()
@click.option("--rows", type=click.IntRange(1_000), default=4_000_000, show_default=True)
@click.option("--only", default="", metavar="TEXT", help="Ask only the questions whose name contains TEXT.")
def main(rows: int, only: str) -> None:
    """Measure DuckDB over tsdb's files against DuckDB over Arrow."""
    fleet = Fleet.named("A", rows)
    heading = ("question", "tsdb", "Arrow, dictionaries", "Arrow, plain", "ratio", "ratio, plain")
    shown = Table(f"{fleet.devices:,} devices × {fleet.ticks:,} rows: milliseconds, warm medians", heading)
    sums: Sequence[float] = (0.0, 0.0, 0.0)
    with tempfile.TemporaryDirectory(prefix="tsdb-overhead-") as folder, tsdb.open(folder) as database:
        _fill(database, fleet)
        asks = _asks(database)
        for name, sql in QUESTIONS:
            if only not in name:
                continue
            first, *others = (ask(sql) for ask in asks)
            if not all(_alike(first, other) for other in others):
                raise click.ClickException(f"{name}: answers differ")
            medians = interleaved_medians([(ask, sql) for ask in asks])
            sums = [total + median for total, median in zip(sums, medians, strict=True)]
            shown.rows.append(_row(name, medians))
    shown.rows.append(_row("all", sums))
    click.echo(shown.as_text())


def _row(name: str, seconds: Sequence[float]) -> tuple[str, ...]:
    return (name, *map(milliseconds, seconds), ratio(seconds[0] / seconds[1]), ratio(seconds[0] / seconds[2]))


if __name__ == "__main__":
    main()
