"""All facts of one entity, history first: a live LATEST JOIN of facts with a mapping, with and without key-domain pushdown.

``python -m benchmarks.latest_join --rows 100000000`` writes facts over 10,000 keys in 4 shards and a mapping that gives one entity
the 5 keys at the end of the sort order and another 100 scattered keys, and follows each entity's facts from the earliest on:
by the plain plan, with the pushdown, with shards left out, and, for comparison, as a bounded query that names the keys. The rows of
all are the same, or it fails; printed are rows and bytes read, the time to the first row, and to the end of the history, also as
a multiple of the bounded query's. All but the plain plan, which takes long, run by turns: each is the median of as many runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import tsdb

KEYS = 10_000
_CHUNK = 1_000_000
_ON: dict[str, object] = {"enable_streaming_join_key_domain_pushdown": True}
PLAIN, BOUNDED = "plain", "WHERE key IN (…)"
PLANS: dict[str, dict[str, object]] = {
    PLAIN: {},
    "pushdown": _ON,
    "and shards": {**_ON, "enable_streaming_join_key_domain_shard_pruning": True},
}
#: Entities by what they are called: the number of their keys is in the name.
ENTITIES = {"5 keys at the end": 42, "100 scattered keys": 77}
_SQL = """SELECT f.partition_key, f.payload FROM facts AS f
INNER LATEST JOIN (SELECT partition_key FROM mapping WHERE entity_key = {entity}) AS m ON f.partition_key = m.partition_key"""


@dataclass(frozen=True, slots=True)
class Run:
    """What one query took: seconds to its first row and to the last one of the history, and what it read."""

    rows: int
    checksum: int
    first: float
    whole: float
    rows_read: int
    bytes_read: int
    counters: dict[str, Any]


def load(path: Path, rows: int, shards: int = 4) -> tsdb.Database:
    """A database of ``rows`` facts, compacted."""
    database = tsdb.open(path, durability="off")
    database.sql(
        "CREATE STREAM facts (time TIMESTAMP_NS TIME, partition_key INT64 TAG, payload INT64) "
        f"SHARDS {shards} BY (hash(partition_key)) WITH (mode = 'append')"
    )
    database.sql("CREATE STREAM mapping (entity_key INT64, partition_key INT64)")
    for start in range(0, rows, _CHUNK):
        number = np.arange(start, min(start + _CHUNK, rows), dtype=np.int64)
        database.write("facts", {"time": number.view("M8[ns]"), "partition_key": number % KEYS, "payload": number})
    number = np.arange(KEYS, dtype=np.int64)
    entity = np.where(number >= KEYS - 5, 42, np.where(number % 100 == 50, 77, 100_000 + number))
    database.write("mapping", {"entity_key": entity, "partition_key": number})
    database.flush()
    database.compact()
    return database


def entity_keys(entity: int) -> list[int]:
    """The keys that the mapping gives an entity."""
    last = range(KEYS - 5, KEYS)
    return list(last) if entity == 42 else [key for key in range(50, KEYS, 100) if key not in last]


def follow(database: tsdb.Database, entity: int, expected: int, settings: dict[str, object]) -> Run:
    """One live query, until the history is over."""
    started = time.perf_counter()
    with database.stream(_SQL.format(entity=entity), settings={"seek_to": "earliest", **settings}) as live:
        parts: list[dict[str, Any]] = []
        count, first = 0, 0.0
        while count < expected:
            parts.append(next(live).fetchnumpy())
            first = first or time.perf_counter() - started
            count += len(parts[-1]["payload"])
        whole = time.perf_counter() - started
        stats = live.stats
        return Run(count, sum(map(_checksum, parts)), first, whole, int(stats["rows_read"]), int(stats["bytes_read"]), stats)


def bounded(database: tsdb.Database, entity: int) -> Run:
    """The bounded query that names the keys."""
    listed = ", ".join(map(str, entity_keys(entity)))
    started = time.perf_counter()
    result = database.sql(f"SELECT partition_key, payload FROM facts WHERE partition_key IN ({listed})")
    columns = result.fetchnumpy()
    whole = time.perf_counter() - started
    stats = result.stats
    return Run(len(columns["payload"]), _checksum(columns), whole, whole, int(stats["rows_read"]), int(stats["bytes_read"]), stats)


def _checksum(columns: dict[str, Any]) -> int:
    return int(columns["payload"].sum()) + int(columns["partition_key"].sum())


def measure(database: tsdb.Database, rows: int, turns: int) -> Iterator[tuple[str, dict[str, Run]]]:
    """(entity, its median run by time of each plan), after a comparison of all of them."""
    for name, entity in ENTITIES.items():
        expected = rows // KEYS * len(entity_keys(entity))

        def run(plan: str, entity: int = entity, expected: int = expected) -> Run:
            return bounded(database, entity) if plan == BOUNDED else follow(database, entity, expected, PLANS[plan])

        plans = [BOUNDED, *(plan for plan in PLANS if plan != PLAIN)]
        runs: dict[str, list[Run]] = {PLAIN: [run(PLAIN)], **{plan: [] for plan in plans}}
        for _ in range(turns):
            for plan in plans:
                runs[plan].append(run(plan))
        results = {(each.rows, each.checksum) for several in runs.values() for each in several}
        if len(results) != 1:
            raise click.ClickException(f"{name}: the plans give different rows: {results}")
        yield name, {plan: sorted(each, key=lambda run: run.whole)[len(each) // 2] for plan, each in runs.items()}


@click.command()
@click.option("--rows", type=click.IntRange(KEYS), default=10_000_000, show_default=True)
@click.option("--turns", type=click.IntRange(1), default=15, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), help="Where the temporary folder is made.")
def main(rows: int, turns: int, directory: Path | None) -> None:
    """Follow one entity's facts."""
    rows -= rows % KEYS
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        started = time.perf_counter()
        database = load(Path(folder) / "facts.db", rows)
        click.echo(f"{rows:,} facts over {KEYS:,} keys, written and compacted in {time.perf_counter() - started:.0f} s")
        with database:
            for entity, runs in measure(database, rows, turns):
                for plan, run in runs.items():
                    less = "" if plan in (PLAIN, BOUNDED) else f" (1/{runs[PLAIN].rows_read / run.rows_read:,.0f})"
                    ratio = "" if plan == BOUNDED else f", {run.whole / runs[BOUNDED].whole:.2f} x bounded"
                    read = f"{run.rows_read:,} rows read{less}, {run.bytes_read / 1e6:,.1f} MB read"
                    took = f"first row {run.first * 1e3:.1f} ms, history {run.whole * 1e3:.1f} ms{ratio}"
                    click.echo(f"{entity}, {plan}: {run.rows:,} rows, {read}, {took}")


if __name__ == "__main__":
    main()
