"""What reaches the scans below a DuckQuery: filters from wherever they stand, and how many rows there are."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

import tsdb
from support.sql_text import random_rows
from support.twin import Twin


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    made = Twin(tmp_path_factory.mktemp("twin"), random_rows(200), page_rows=4)
    yield made
    made.close()


def _rows_read(twin: Twin, sql: str, **settings: object) -> int:
    stats = twin.db.sql(sql, settings=settings).stats
    return int(stats["rows_read"])


@pytest.mark.parametrize(
    "condition",
    [
        "host = 'a'", "host IN ('a', 'b')", "host IS NULL", "host <> 'a' AND rack = 1", "NOT up",
        "tu >= '2024-01-01'", "ts < '2000-01-01'",
        "dt = '2024-02-29'", "tm > '2024-01-01 00:00:00.1'", "l = 9007199254740993", "i > 1000", "s >= 'b' OR s IS NULL",
        "d < 0.5", "f = 1.5", "d > 1e300", "d <> 0.1", "blob = 'x'::BLOB", "rack NOT IN (1, 3)", "b IS NOT NULL", "d = 0",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "form",
    [
        "SELECT * EXCLUDE (v) FROM (SELECT * FROM t) WHERE {} ORDER BY id",
        "WITH q AS (SELECT * FROM t) SELECT id FROM q WHERE {} ORDER BY id",
        "SELECT count(*) FROM (FROM t UNION ALL FROM t) WHERE {}",
        "WITH t AS (FROM t) SELECT count(*) FROM t JOIN t u USING (id) WHERE t.{}",
    ],
)  # fmt: skip
def test_filters_of_every_type_mean_the_same(twin: Twin, condition: str, form: str) -> None:
    if "t.{}" in form and any(word in condition for word in ("OR", "AND", "NOT ")):
        condition = f"id IN (SELECT id FROM t WHERE {condition})"
    twin.check(form.format(condition), ordered=True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max(i) FROM (SELECT * FROM t) WHERE host = 'a' AND rack = 1",
        "WITH q AS (SELECT * FROM t) SELECT max(i) FROM q WHERE host = 'a' AND rack = 1",
        "SELECT host, max(i) FROM t GROUP BY host, rack HAVING host = 'a' AND rack = 1",
        "SELECT max(a.i) FROM t a JOIN t b ON a.host = b.host AND a.rack = b.rack WHERE b.host = 'a' AND b.rack = 1",
        "SELECT max(i) FROM (SELECT * FROM t UNION ALL SELECT * FROM t) WHERE host = 'a' AND rack = 1",
        "SELECT max(i) FROM t TABLESAMPLE 100% WHERE host = 'a' AND rack = 1",
    ],
)
def test_filters_reach_scans(twin: Twin, sql: str) -> None:
    twin.check(sql)
    if "TABLESAMPLE" not in sql:
        assert _rows_read(twin, sql) < _rows_read(twin, sql, enable_native_operators=False) / 2


def test_a_large_table_is_not_held_for_a_join(twin: Twin) -> None:
    hosts = pd.DataFrame({"host": ["a", "b"]})
    for order in ("t JOIN hosts", "hosts JOIN t"):
        result = twin.db.sql(f"SELECT sum(id) FROM {order} USING (host)")
        shown = result._source.cursor.execute(f"EXPLAIN {result._source.plan.sql}").fetchall()[0][1]  # type: ignore[union-attr]
        assert "~200 rows" in shown
        result.close()
    assert len(hosts) == 2


def test_large_results_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = 3_000_000
    with tsdb.open(tmp_path_factory.mktemp("large") / "db", threads=2) as db:
        db.sql("CREATE TABLE big (time TIMESTAMP_NS TIME, v INT64)")
        db.sql(f"INSERT INTO big SELECT make_timestamp_ns(i), i FROM range({rows}) r(i)")
        for sql in ("SELECT v + 1 FROM big", "SELECT v FROM big WHERE v % 3 > 0", "SELECT v FROM big UNION ALL SELECT v FROM big"):
            result = db.sql(sql)
            assert result.fetchone() is not None
            context = result._source.context  # type: ignore[union-attr]
            assert 0 < sum(scan.counts["rows_read"] for scan in context.stats) <= rows * 0.7, sql
            result.close()
            result = db.sql(sql)
            assert next(result.batches()).num_rows
            context = result._source.context  # type: ignore[union-attr]
            assert 0 < sum(scan.counts["rows_read"] for scan in context.stats) <= rows * 0.7, sql
            result.close()
