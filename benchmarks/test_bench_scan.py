"""Scans: a span of one device, everything of one column, everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsdb_cli.fleet import Fleet

if TYPE_CHECKING:
    from tsdb.database import Database


def test_one_device_one_hour(benchmark: Any, database: Database) -> None:
    sql = "SELECT time, usage FROM cpu WHERE host = 'host_0003' AND time >= '2025-12-31 23:00:00' ORDER BY time"
    assert benchmark(lambda: database.sql(sql).fetchall())


def test_one_column(benchmark: Any, database: Database, fleet: Fleet) -> None:
    batches = benchmark(lambda: list(database.sql("SELECT usage FROM cpu").batches()))
    assert sum(batch.num_rows for batch in batches) == fleet.rows


def test_all_columns(benchmark: Any, database: Database, fleet: Fleet) -> None:
    batches = benchmark(lambda: list(database.sql("SELECT * FROM cpu").batches()))
    assert sum(batch.num_rows for batch in batches) == fleet.rows


def test_a_selective_filter(benchmark: Any, database: Database) -> None:
    rows = benchmark(lambda: database.sql("SELECT time, host, usage FROM cpu WHERE usage > 99.9").fetchall())
    assert all(row[2] > 99.9 for row in rows)


def test_sums_through_duckdb(benchmark: Any, database: Database) -> None:
    [(total,)] = benchmark(lambda: database.sql("SELECT sum(usage) FROM cpu").fetchall())
    assert total > 0
