"""Live LATEST and ASOF JOINs whose left side computes: as the join of the stored rows, with the same expressions above it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.quiet import without_background
from tsdb_format.errors import InvalidInput

EARLIEST = {"seek_to": "earliest"}
ON = {**EARLIEST, "enable_streaming_join_key_domain_pushdown": True}
#: A left side that computes, what says the same above the join of stored rows, and whether its history is read through keys.
SAME = (
    (
        "SELECT l.k, y, label FROM (SELECT k, time, v * 2 AS y FROM f) l INNER LATEST JOIN m ON l.k = m.k",
        "SELECT f.k, v * 2 AS y, label FROM f INNER LATEST JOIN m ON f.k = m.k",
        True,
    ),
    (
        "SELECT l.k, v, label FROM (SELECT k, v FROM f WHERE v % 3 = 1) l LEFT LATEST JOIN m ON l.k = m.k WHERE v > 3",
        "SELECT f.k, v, label FROM f LEFT LATEST JOIN m ON f.k = m.k WHERE v % 3 = 1 AND v > 3",
        False,
    ),
    (
        "WITH l AS (SELECT k AS q, v FROM f WHERE v % 2 = 0) SELECT q, v, label FROM l INNER LATEST JOIN m ON l.q = m.k",
        "SELECT f.k AS q, v, label FROM f INNER LATEST JOIN m ON f.k = m.k WHERE v % 2 = 0",
        True,
    ),
    (
        "SELECT l.k, v, label FROM (SELECT k, time, v + 0 AS v FROM f) l ASOF JOIN m ON l.k = m.k AND l.time >= m.time",
        "SELECT f.k, v + 0 AS v, label FROM f ASOF JOIN m ON f.k = m.k AND f.time >= m.time",
        True,
    ),
    (
        "SELECT y, label, w FROM (SELECT k, v * 2 AS y FROM f) l INNER LATEST JOIN m ON l.k = m.k LEFT LATEST JOIN n ON l.k = n.k",
        "SELECT v * 2 AS y, label, n.w FROM f INNER LATEST JOIN m ON f.k = m.k LEFT LATEST JOIN n ON f.k = n.k",
        True,
    ),
    (
        "SELECT j, v, label FROM (SELECT k + 1 AS j, v FROM f) l INNER LATEST JOIN (SELECT k + 1 AS j, label FROM m) r USING (j)",
        "SELECT f.k + 1 AS j, v, label FROM f INNER LATEST JOIN m ON f.k = m.k",
        False,
    ),
)  # fmt: skip
REFUSED = (
    "SELECT k, max(v) AS v FROM f GROUP BY k",
    "SELECT DISTINCT k, v + 1 AS v FROM f",
    "SELECT k, v + 1 AS v FROM f LIMIT 3",
    "SELECT k, row_number() OVER (ORDER BY time) AS v FROM f",
    "SELECT f.k, f.v + n.w AS v FROM f JOIN n ON f.k = n.k",
    "SELECT unnest([k, k + 1]) AS k, v FROM f",
)


@pytest.fixture(params=["files", "memory", "both"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tsdb.Database]:
    """Facts, and two tables to join them with."""
    opened = without_background(tsdb.open(tmp_path / "db", durability="off", threads=2))
    opened.sql("CREATE STREAM f (time TIMESTAMP_NS TIME, k INT64 TAG, v INT64) SHARDS 2 BY (k) WITH (page_rows = 4)")
    for name, column in (("m", "label STRING"), ("n", "w INT64")):
        opened.sql(f"CREATE STREAM {name} (time TIMESTAMP_NS TIME, k INT64 TAG, {column})")
    _add(opened, 0)
    if request.param == "both":
        opened.flush()
    _add(opened, 10)
    if request.param == "files":
        opened.flush()
    yield opened
    opened.close()


def _add(db: tsdb.Database, at: int) -> None:
    """Rows of one more commit of each table; the facts last."""
    db.write("m", {"time": [at, at + 1], "k": [at % 3, 2], "label": [f"a{at}", f"b{at}"]})
    db.write("n", {"time": [at], "k": [1], "w": [at]})
    rows = range(at, at + 10)
    db.write("f", {"time": list(rows), "k": [row % 4 for row in rows], "v": [None if row % 7 == 6 else row for row in rows]})


def _taken(live: Any, count: int) -> list[Any]:
    rows: list[Any] = []
    while len(rows) < count:
        rows += next(live).fetchall()
    assert len(rows) == count
    return rows


@pytest.mark.parametrize(("computed", "plain", "pushed"), SAME)
@pytest.mark.parametrize("settings", [EARLIEST, ON], ids=["off", "on"])
def test_a_left_side_that_computes(db: tsdb.Database, computed: str, plain: str, pushed: bool, settings: dict[str, object]) -> None:
    wanted = db.sql(plain).fetchall()
    assert sorted(db.sql(computed).fetchall(), key=str) == sorted(wanted, key=str)
    with db.stream(computed, settings=settings) as live, db.stream(plain, settings=EARLIEST) as other:
        assert _taken(live, len(wanted)) == _taken(other, len(wanted))
        assert live.stats["StreamingJoinKeyDomainBuilt"] == int(pushed and settings is ON)
        for at in (20, 30, 40):
            _add(db, at)
            if at == 30:
                db.flush()
            more = next(other).fetchall()
            assert _taken(live, len(more)) == more


@pytest.mark.parametrize("computed", [computed for computed, _, _ in SAME])
def test_it_goes_on_after_each_row(db: tsdb.Database, computed: str) -> None:
    count = len(db.sql(computed).fetchall())
    with db.stream(computed, settings=EARLIEST) as live:
        wanted = _taken(live, count)
    found: list[Any] = []
    token = None
    while len(found) < count:
        with db.stream(computed, settings={**EARLIEST, "stream_batch_rows": 1}, resume=token) as live:
            found += next(live).fetchall()
            token = live.token
    assert found == wanted


def test_it_begins_at_a_time(db: tsdb.Database) -> None:
    sql = "SELECT v, label FROM (SELECT k, v + 0 AS v FROM f) l INNER LATEST JOIN m ON l.k = m.k"
    with db.stream(sql, settings={"seek_to": "1970-01-01 00:00:00.000000015"}) as live:
        assert {v for v, _ in next(live).fetchall()} == {16, 17, 18}


def test_its_history_is_read_through_keys_that_are_as_stored(db: tsdb.Database) -> None:
    db.sql("DELETE FROM m WHERE k <> 1")
    sql = "SELECT j, y FROM (SELECT f.k AS j, v * 2 AS y FROM f WHERE v % 2 = 1) l INNER LATEST JOIN m ON l.j = m.k"
    found = []
    for settings in (EARLIEST, ON):
        with db.stream(sql, settings=settings) as live:
            found.append((next(live).fetchall(), live.stats["stream_history_rows"]))
    assert found == [([(1, 2), (1, 10), (1, 18), (1, 34)], 20), ([(1, 2), (1, 10), (1, 18), (1, 34)], 5)]


@pytest.mark.parametrize(
    ("key", "settings", "why"),
    [
        ("k + 0 AS k", ON, "k is no column of the left table as it is stored"),
        ("v AS u, k * 1 AS k", ON, "k is no column of the left table as it is stored"),
        (
            "k",
            {**ON, "enable_streaming_join_key_domain_through_filters": False},
            "enable_streaming_join_key_domain_through_filters is off, and the left side computes",
        ),
    ],
)
def test_why_its_history_is_read_whole(db: tsdb.Database, key: str, settings: dict[str, object], why: str) -> None:
    with db.stream(
        f"SELECT v, label FROM (SELECT {key}, v + 0 AS v FROM f) l INNER LATEST JOIN m ON l.k = m.k", settings=settings
    ) as live:
        assert next(live).fetchall()
        assert live.stats["streaming_join_key_domain_pushdown"] == f"declined: {why}"


@pytest.mark.parametrize("left", REFUSED)
def test_rows_that_are_not_made_one_by_one(db: tsdb.Database, left: str) -> None:
    with pytest.raises(InvalidInput):
        db.stream(f"SELECT l.v, m.label FROM ({left}) l INNER LATEST JOIN m ON l.k = m.k")


def test_a_view_of_it(db: tsdb.Database) -> None:
    sql = "SELECT l.time, l.k, y, label FROM (SELECT time, k, v * 2 AS y FROM f WHERE v % 2 = 0) l INNER LATEST JOIN m ON l.k = m.k"
    db.sql(f"CREATE MATERIALIZED VIEW made AS {sql}")
    with db.stream("SELECT k, y, label FROM made", settings=EARLIEST) as live:
        wanted = [(k, y, label) for _, k, y, label in db.sql(sql).fetchall()]
        assert sorted(_taken(live, len(wanted))) == sorted(wanted)
