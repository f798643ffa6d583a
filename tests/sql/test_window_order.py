"""first and last over TUMBLE, HOP and SESSION of a table go by its time, among equal times by its tags, however rows are read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb
from tsdb.sql.reader import read_statement
from tsdb.sql.series.expansion import with_windows_by_time
from tsdb.sql.statement import Query

#: Queries over windows of ``t``, under its own name or as ``w``.
QUERIES = [
    "SELECT window_start, last(x), first(x) FROM TUMBLE(t, time, INTERVAL '1 minute') GROUP BY window_start ORDER BY 1",
    "SELECT window_end AS e, host, last(x) AS l FROM TUMBLE(TABLE t, DESCRIPTOR(time), 1m) AS w GROUP BY ALL ORDER BY e, host",
    "SELECT window_start, first(w.x + 1) AS f FROM HOP('t', 'time', 30s, 1m) w GROUP BY window_start HAVING last(x) > 9 ORDER BY 1",
    "SELECT window_start, last(x) FILTER (WHERE x > 9) AS l FROM TUMBLE(t, time, 1m) GROUP BY 1 ORDER BY first(x), 1",
    "SELECT host, window_start, last(x) AS l FROM SESSION(t PARTITION BY host, time, 5s) GROUP BY ALL ORDER BY 1, 2",
    "SELECT window_start, last(x) AS l, first(rack) AS r FROM SESSION(t, time, 5s) GROUP BY ALL ORDER BY 1",
    "SELECT window_start, last(x) AS l FROM TUMBLE(t, time, 1m) JOIN names ON names.h = host GROUP BY ALL ORDER BY 1",
    "SELECT max(l) FROM (SELECT window_start, last(x) AS l FROM TUMBLE(data => t, timecol => time, size => 1m) GROUP BY 1)",
]


def _written_out(sql: str, alias: str) -> str:
    for name, direction in (("last", " DESC"), ("first", "")):
        for value in ("x", "w.x + 1", "rack"):
            order = f"{alias}.time{direction}, {alias}.host, {alias}.rack"
            sql = sql.replace(f"{name}({value})", f"first({value} ORDER BY {order})")
    return sql


def _rows(rng: random.Random) -> dict[str, list[object]]:
    """Few times and many devices, so that times are often equal; values say nothing of times."""
    places = sorted(
        {(rng.randrange(0, 300, 3), rng.choice("cab"), rng.randrange(3)) for _ in range(150)}, key=lambda _: rng.random()
    )
    return {
        "time": [1_700_000_040_000_000 + at * 1_000_000 for at, _, _ in places],
        "host": [host for _, host, _ in places],
        "rack": [rack for _, _, rack in places],
        "x": [rng.randrange(100) for _ in places],
    }


@pytest.fixture(params=["memory", "files", "both"])
def db(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tsdb.Database]:
    database = tsdb.open(tmp_path / "a.db")
    database.sql("CREATE TABLE t (time TIMESTAMP TIME, host STRING TAG, rack INT64 TAG, x INT64 FIELD)")
    database.sql("CREATE TABLE names (time TIMESTAMP TIME, h STRING TAG)")
    database.sql("INSERT INTO names VALUES ('2024-01-01', 'a'), ('2024-01-01', 'c')")
    rng = random.Random(7)
    for part in range(4):
        database.write("t", _rows(rng))
        if request.param == "files" or (request.param == "both" and part == 1):
            database.flush()
    yield database
    database.close()


@pytest.mark.parametrize("sql", QUERIES)
def test_as_with_the_order_written_out(db: tsdb.Database, sql: str) -> None:
    alias = "w" if " w " in sql or " AS w " in sql else "t"
    written = _written_out(sql, alias)
    assert written != sql
    found = db.sql(sql)
    assert found.fetchall() == db.sql(written).fetchall()
    assert db.sql(f"SELECT count(*) FROM ({sql}) q").fetchall()[0][0] > 0


def test_columns_keep_the_names_that_they_have_over_a_table(db: tsdb.Database) -> None:
    over_table = db.sql("SELECT last(x), first(x) + 1 FROM t").columns
    assert db.sql("SELECT last(x), first(x) + 1 FROM TUMBLE(t, time, 1m)").columns == over_table


@pytest.mark.parametrize("sql", [QUERIES[0], QUERIES[1], QUERIES[2]])
def test_live_windows_give_what_bounded_ones_do(db: tsdb.Database, sql: str) -> None:
    bounded = db.sql(sql).fetchall()
    rows: list[object] = []
    with db.stream(sql, settings={"seek_to": "earliest", "watermark_idle_timeout": "10ms"}) as live:
        for batch in live:
            rows += batch.fetchall()
            if len(rows) >= len(bounded):
                break
    assert rows == bounded


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT window_start, last(x, rack) AS l FROM TUMBLE(t, time, 1m) GROUP BY 1 ORDER BY 1",
        "SELECT window_start, last(x ORDER BY x) AS l FROM TUMBLE(t, time, 1m) GROUP BY 1 ORDER BY 1",
        "SELECT time, last(x) OVER (PARTITION BY window_start ORDER BY time, host) AS l FROM TUMBLE(t, time, 1m) ORDER BY ALL",
        "WITH t AS (SELECT time, 1 AS x FROM t) SELECT window_start, last(x) AS l FROM TUMBLE(t, time, 1m) GROUP BY 1",
        "SELECT window_start, last(b) AS l FROM TUMBLE(t, time, 1m) AS t(time, a, c, b) GROUP BY ALL",
        "SELECT window_start, last(x) AS l FROM TUMBLE((SELECT time, x FROM t), time, 1m) GROUP BY 1",
    ],
)
def test_what_has_another_order_is_left_alone(db: tsdb.Database, sql: str) -> None:
    query = read_statement(sql)
    assert isinstance(query, Query)
    assert with_windows_by_time(query, db._store.snapshot().definitions) is query
    assert db.sql(sql).fetchall()


def test_what_is_changed_says_so_at_its_place(db: tsdb.Database) -> None:
    with pytest.raises(tsdb.Error, match=r"nothing.*line 1, column 51"):
        db.sql("SELECT window_start, last(x) AS l, first(x) AS f, nothing FROM TUMBLE(t, time, 1m) GROUP BY ALL")


def test_rows_of_one_time_that_arrive_one_by_one(tmp_path: Path) -> None:
    sql = "SELECT window_start, last(x) AS l, first(x) AS f FROM TUMBLE(t, time, 1m) GROUP BY 1"
    with tsdb.open(tmp_path / "a.db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, host STRING TAG, x INT64 FIELD)")
        with db.stream(sql, settings={"watermark_idle_timeout": "never"}) as live:
            for second, host, x in ((30, "c", 1), (30, "a", 2), (30, "b", 3), (10, "b", 4), (10, "a", 5), (20, "a", 6)):
                db.sql(f"INSERT INTO t VALUES ('2024-01-01 00:00:{second}', '{host}', {x})")
            db.sql("INSERT INTO t VALUES ('2024-01-01 00:01:00', 'a', 7)")
            (row,) = next(live).fetchall()
        assert row == db.sql(f"{sql} ORDER BY 1").fetchall()[0]
        assert row[1:] == (2, 5)
