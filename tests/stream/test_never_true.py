"""Live queries with conditions that are never true: nothing comes, and what a LEFT JOIN keeps has no partner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.quiet import without_background
from tsdb.stream.live import LiveQuery, result_of
from tsdb_format.errors import InvalidInput

FALSE = ["false", "NULL", "1 = 0", "v > NULL", "v > $1", "v IN (NULL)", "k = 1 AND k = 2", "NOT (v IS NULL OR v IS NOT NULL)"]
PUSHED = {"seek_to": "earliest", "enable_streaming_join_key_domain_pushdown": True}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    opened = without_background(tsdb.open(tmp_path / "db", durability="off", threads=1))
    opened.sql("CREATE STREAM s (k BIGINT, v BIGINT, time TIMESTAMP TIME) PRIMARY KEY k")
    opened.sql("CREATE STREAM m (k BIGINT, r BIGINT)")
    opened.sql("INSERT INTO m VALUES (1, 10), (2, 20)")
    write(opened, range(6))
    opened.flush()
    yield opened
    opened.close()


def write(db: tsdb.Database, values: Any) -> None:
    for v in values:
        db.sql("INSERT INTO s VALUES (?, ?, make_timestamp(? * 60000000))", [v % 4, v, v])


def upto_now(live: LiveQuery) -> list[Any]:
    """What comes without waiting."""
    rows: list[Any] = []
    newest = live._feed._store.newest()
    while True:
        made = next(live._outputs)
        rows += result_of(live._stage, made, live._settings).fetchall() if made else []
        position: Any = live._pipeline.position
        if "upto" in position:
            reached = position["upto"]
        else:
            reached = position["after"] if position["bound"] is None and position["place"] is None else -1
        if reached >= newest:
            return rows


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("condition", FALSE)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, v FROM s WHERE {}",
        "SELECT k + v AS x FROM s WHERE {}",
        "SELECT k FROM (SELECT * FROM s WHERE {}) WHERE v > 0",
        "SELECT s.v, n.r FROM (SELECT * FROM s WHERE {}) s JOIN table(m) n ON s.k = n.k",
        "SELECT s.v, m.r FROM (SELECT * FROM s WHERE {}) s LEFT LATEST JOIN m USING (k)",
        "SELECT s.v, n.r FROM s INNER LATEST JOIN (SELECT k, r, r AS v FROM m WHERE {}) n USING (k)",
        "SELECT s.v, n.r FROM s LEFT LATEST JOIN (SELECT k, r, r AS v FROM m WHERE {}) n USING (k)",
        "SELECT s.v, m.r FROM s INNER LATEST JOIN m ON s.k = m.k WHERE ({}) AND s.v > 0",
        "SELECT window_start, count(*) AS n FROM TUMBLE((SELECT * FROM s WHERE {}), time, 1m) GROUP BY window_start",
        "SELECT window_start, count(*) AS n FROM TUMBLE(s, time, 1m) WHERE {} GROUP BY window_start",
    ],
)
def test_nothing_comes(db: tsdb.Database, sql: str, condition: str, native: bool) -> None:
    if "m ON" in sql:
        condition = condition.replace("v ", "s.v ").replace("k ", "s.k ")
    text = sql.format(condition)
    parameters = [None] if "$1" in condition else None
    with db.stream(text, parameters, settings={**PUSHED, "enable_native_operators": native}) as live:
        found = upto_now(live)
        assert sorted(map(str, found)) == sorted(map(str, db.sql(text, parameters).fetchall()))
        write(db, [6, 7])
        found += upto_now(live)
    assert sorted(map(str, found)) == sorted(map(str, db.sql(text, parameters).fetchall()))
    assert len(found) == (8 if "FROM s LEFT" in text else 0)


def test_nothing_is_read(db: tsdb.Database) -> None:
    with db.stream("SELECT v FROM s WHERE v > $1", [None], settings=PUSHED) as live:
        assert upto_now(live) == []
        assert live.stats["rows_read"] == live.stats["stream_history_rows"] == 0


@pytest.mark.parametrize("sql", ["SELECT v FROM s LIMIT 0", "SELECT v FROM s WHERE false LIMIT 3", "SELECT v + 1 FROM s LIMIT 0"])
def test_a_limit_is_still_none(db: tsdb.Database, sql: str) -> None:
    with pytest.raises(InvalidInput, match="LIMIT ends a query"):
        db.stream(sql)
