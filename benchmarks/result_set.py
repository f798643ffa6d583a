"""Result sets: what it saves to compute a shared set once, and to skip what can only be empty.

``python -m benchmarks.result_set`` makes a database of machines that log lines of text and report readings, and asks two requests.

- *shared*: the machines whose log matches a pattern (500,000 of them) are wanted by 24 queries, one for each hour of readings. It
  is compared with the same request without materialization, where every query finds the machines by itself, and with DuckDB over
  the same rows, where each of the 24 statements has the set as a CTE.
- *empty*: twenty branches of dependent sets, of which sixteen begin with a set that is empty.

The answers of all ways are compared before anything is timed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

import tsdb
from benchmarks.report import Table, machine_text, milliseconds, ratio

_HOURS = 24
_START = np.datetime64("2026-01-01", "us")
_HOUR = np.timedelta64(1, "h")
_LINES_PER_MACHINE = 4
_WORDS = ("disk", "network", "power", "memory", "login", "kernel", "timeout", "retry", "failed", "restored")
_CONDITION = "regexp_matches(line, '(disk|power) .*(failed|timeout) .*[0-9]{3,}')"
_OFF: dict[str, object] = {"enable_result_set_materialization": False}


@click.command()
@click.option("--members", default=500_000, help="machines whose log matches")
@click.option("--readings", default=4_800_000, help="readings of a day")
@click.option("--rounds", default=3, help="times that each way is measured")
@click.option("--directory", type=click.Path(path_type=Path), help="where the data is made; removed at the end")
def main(members: int, readings: int, rounds: int, directory: Path | None) -> None:
    """Run both comparisons."""
    import duckdb

    click.echo(machine_text())
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        duck = duckdb.connect(f"{folder}/same.duckdb")
        with tsdb.open(f"{folder}/db") as db:
            _load(db, duck, members, readings)
            click.echo(_shared(db, duck, rounds).as_text())
            click.echo(_empty(db, rounds).as_text())
        duck.close()


def _load(db: tsdb.Database, duck: Any, members: int, readings: int) -> None:
    """The same rows in both: two thirds of the machines have a line that matches."""
    db.sql("CREATE TABLE log (time TIMESTAMP TIME, machine INT64, line STRING) WITH (mode = 'append')")
    db.sql("CREATE TABLE reading (time TIMESTAMP TIME, machine INT64, value DOUBLE) WITH (mode = 'append')")
    random = np.random.default_rng(5)
    machines = members * 3 // 2
    number = np.tile(np.arange(machines), _LINES_PER_MACHINE)
    words = np.array(_WORDS)[random.integers(0, len(_WORDS), (len(number), 5))]
    matching = number < members  # the first line of each, the others by chance or not at all
    first = np.arange(len(number)) < machines
    lines = [
        f"{'disk' if hit else 'login'} {a} {b} {'failed' if hit else 'ok'} {c} code {n % 900 + 100 if hit else n % 90}"
        for hit, (a, b, c, *_), n in zip((matching & first).tolist(), words.tolist(), number.tolist(), strict=True)
    ]
    log = pa.table({"time": _START + np.arange(len(number)), "machine": number, "line": lines})
    at = np.sort(random.integers(0, _HOURS * 3_600_000_000, readings))
    reading = pa.table(
        {"time": _START + at, "machine": random.integers(0, machines, readings), "value": random.random(readings).round(3)}
    )
    for name, rows in (("log", log), ("reading", reading)):
        db.write(name, rows)
        duck.register("rows", rows)
        duck.execute(f"CREATE TABLE {name} AS FROM rows")
        duck.unregister("rows")
    db.flush()
    db.compact()
    duck.execute("CHECKPOINT")


def _shared(db: tsdb.Database, duck: Any, rounds: int) -> Table:
    document = {
        "queries": [
            {"table": "log", "filter": _CONDITION, "result_sets": {"failing": {"value": "machine"}}, "result_set_only": True},
            *(
                {
                    "table": "reading", "filter": "machine IN RESULT SET failing AND value > 0.99", "columns": ["machine", "value"],
                    "time": {"from": str(_START + hour * _HOUR), "to": str(_START + (hour + 1) * _HOUR)},
                }
                for hour in range(_HOURS)
            ),
        ]
    }  # fmt: skip
    failing = f"WITH failing AS (SELECT DISTINCT machine FROM log WHERE {_CONDITION}) SELECT machine, value FROM reading"
    statements = [
        f"{failing} WHERE machine IN (FROM failing) AND value > 0.99"
        f" AND time >= '{_START + hour * _HOUR}' AND time < '{_START + (hour + 1) * _HOUR}'"
        for hour in range(_HOURS)
    ]

    def ours(settings: dict[str, object]) -> list[Any]:
        with db.multi_query(document, settings=settings) as m:
            return [result.arrow() for result in m]

    ways: list[tuple[str, Callable[[], list[Any]]]] = [
        ("tsdb", lambda: ours({})),
        ("tsdb, the set in memory", lambda: ours({"result_set_materialization_max_size": 10**9})),
        ("tsdb, the set found anew in each query", lambda: ours(_OFF)),
        ("DuckDB, a CTE in each statement", lambda: [duck.sql(sql).to_arrow_table() for sql in statements]),
    ]
    _require_same([way() for _, way in ways])
    seconds = [min(_seconds(way) for _ in range(rounds)) for _, way in ways]
    with db.multi_query(document) as m:
        size = next(each.members for each in m.sets)
    table = Table(f"One set of {size:,} members, {_HOURS} queries", ("way", "ms", "of ours"))
    table.rows += [(name, milliseconds(each), ratio(each / seconds[0])) for (name, _), each in zip(ways, seconds, strict=True)]
    return table


def _empty(db: tsdb.Database, rounds: int) -> Table:
    branches, length, full = 20, 8, 4
    queries: list[dict[str, Any]] = []
    for branch in range(branches):
        chosen = f"machine = {branch}" if branch < full else "machine < 0"
        for step in range(length):
            name = f"branch_{branch}_{step}"
            condition = f"machine IN RESULT SET branch_{branch}_{step - 1}" if step else chosen
            queries.append(
                {"table": "log", "filter": condition, "result_sets": {name: {"value": "machine"}}, "result_set_only": True}
            )
        queries.append({"table": "reading", "filter": f"machine IN RESULT SET {name}"})

    def ours(settings: dict[str, object]) -> list[Any]:
        with db.multi_query({"queries": queries}, settings=settings) as m:
            return [result.arrow() for result in m]

    ways: list[tuple[str, dict[str, object]]] = [("tsdb", {}), ("tsdb, every set found anew where it is used", _OFF)]
    _require_same([ours(settings) for _, settings in ways])
    seconds = [min(_seconds(lambda: ours(settings)) for _ in range(rounds)) for _, settings in ways]  # noqa: B023
    with db.multi_query({"queries": queries}) as m:
        run, skipped = m.stats["statements"], m.stats["result_sets_skipped"] + branches - full
    table = Table(f"{branches} branches of {length} sets, {branches - full} of them empty", ("way", "statements", "ms", "of ours"))
    table.rows.append((ways[0][0], f"{run:,}", milliseconds(seconds[0]), ""))
    table.rows.append(("all of the request's statements", f"{run + skipped:,}", "", f"{(run + skipped) / run:.1f}× the statements"))
    table.rows.append((ways[1][0], f"{branches:,}", milliseconds(seconds[1]), ratio(seconds[1] / seconds[0])))
    return table


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _require_same(answers: list[list[Any]]) -> None:
    first, *others = ([sorted(map(repr, table.to_pylist())) for table in answer] for answer in answers)
    if any(answer != first for answer in others) or not any(first):
        raise click.ClickException("the answers differ")


if __name__ == "__main__":
    main()
