"""Keys of subqueries: scans read less, and no row more or less comes out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import tsdb
from support.quiet import without_background
from support.sql_text import random_rows
from support.twin import Twin


@pytest.fixture(scope="module", params=[4, 8192])
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    made = Twin(tmp_path_factory.mktemp("twin"), random_rows(150), page_rows=request.param, files=3, memory=1)
    for each in (made.db, made.duck):
        host = "STRING TAG" if each is made.db else "VARCHAR"
        time = "TIMESTAMP TIME" if each is made.db else "TIMESTAMP"
        each.sql(f"CREATE TABLE hosts (time {time}, host {host}, rack INT, region VARCHAR)")
        each.sql(
            "INSERT INTO hosts VALUES ('2024-01-01', 'a', 1, 'eu'), ('2024-01-01', 'b', 2, 'us'), ('2024-01-02', NULL, NULL, 'eu')"
        )
    yield made
    made.close()


#: A query, and whether keys are taken from its subquery.
QUERIES = [
    ("SELECT id FROM t WHERE host IN (SELECT host FROM hosts WHERE region = 'eu') ORDER BY id", True),
    (
        "SELECT id FROM t x WHERE x.host IN (SELECT h.host FROM hosts h WHERE length(region) = 2 AND h.rack > $1) ORDER BY id",
        True,
    ),
    ("SELECT id FROM t WHERE rack IN (SELECT rack FROM hosts WHERE region = 'us') AND i > 0 ORDER BY id", True),
    ("SELECT id FROM t WHERE host IN (SELECT upper(host) FROM hosts) ORDER BY id", True),
    ("SELECT id FROM t WHERE host IN (SELECT host FROM hosts WHERE false) ORDER BY id", True),
    ("SELECT id FROM t WHERE rack IN (SELECT max(rack) FROM hosts) ORDER BY id", True),
    ("SELECT count(*) FROM t a JOIN t b USING (id) WHERE a.host IN (SELECT host FROM hosts WHERE rack = 1)", True),
    ("WITH q AS (SELECT * FROM t WHERE host IN (SELECT host FROM hosts WHERE rack = 1)) SELECT count(*) FROM q", True),
    ("SELECT id FROM t WHERE host IN (SELECT host FROM t WHERE i = 5 GROUP BY host HAVING count(*) > 1) ORDER BY id", True),
    ("SELECT id FROM t WHERE id IN (SELECT rack FROM hosts) ORDER BY id", True),
    ("SELECT id FROM t WHERE host NOT IN (SELECT host FROM hosts WHERE host IS NOT NULL) ORDER BY id", False),
    ("SELECT id FROM t WHERE host IN (SELECT host FROM hosts) OR i = 5 ORDER BY id", False),
    ("SELECT id FROM t WHERE host IN (SELECT host FROM hosts WHERE region = s) ORDER BY id", False),
    ("SELECT id FROM t WHERE host IN (SELECT host FROM hosts h WHERE h.rack = t.rack) ORDER BY id", False),
    ("SELECT id FROM t WHERE d IN (SELECT rack FROM hosts) ORDER BY id", False),
    ("WITH hosts AS (SELECT 'b' AS host) SELECT id FROM t WHERE host IN (SELECT host FROM hosts) ORDER BY id", False),
    ("SELECT b.id FROM t a LEFT JOIN t b ON a.id = b.id + 1 WHERE b.host IN (SELECT host FROM hosts) ORDER BY 1", False),
    ("SELECT id FROM t WHERE host IN (SELECT unnest(['a', 'b'])) ORDER BY id", False),
    ("SELECT id FROM t WHERE host IN (SELECT host FROM t GROUP BY host ORDER BY avg(d) DESC, host LIMIT 2) ORDER BY id", True),
    ("SELECT id FROM t WHERE host IN (SELECT host FROM t GROUP BY host ORDER BY sum(i), host LIMIT 2) ORDER BY id", False),
    ("SELECT id FROM t WHERE id IN (SELECT row_number() OVER (ORDER BY id) FROM t WHERE i > 0) ORDER BY id", False),
    ("SELECT id FROM t WHERE host IN (SELECT DISTINCT ON (host) host FROM t WHERE s > '' ORDER BY host, id) ORDER BY id", False),
]


@pytest.mark.parametrize(("sql", "taken"), QUERIES)
def test_rows_are_the_same(twin: Twin, sql: str, taken: bool) -> None:
    params = [0] if "$1" in sql else None
    twin.check(sql, params, ordered="ORDER BY" in sql)
    plan = twin.plan(sql, params)
    assert ("keys of" in plan or "kind=semi" in plan) == taken
    result = twin.db.sql(sql, params)
    assert result.fetchall() == result.fetchall()


def test_less_is_read(twin: Twin) -> None:
    narrow = "SELECT sum(i % 7) FROM t WHERE host IN (SELECT host FROM hosts WHERE region = 'us')"
    wide = narrow.replace("host IN", "host || '' IN")
    assert twin.db.sql(narrow).fetchall() == twin.db.sql(wide).fetchall()
    assert twin.db.sql(narrow).stats["devices_read"] < twin.db.sql(wide).stats["devices_read"] / 2


def test_a_subquery_that_chooses_gives_keys_and_rows_once(tmp_path: Path) -> None:
    with without_background(tsdb.open(tmp_path / "db")) as db:
        db.sql("CREATE TABLE u (time TIMESTAMP TIME, host STRING TAG, n INT64)")
        db.sql("INSERT INTO u SELECT make_timestamp(i), 'h' || (i % 5000), i FROM range(20000) s(i)")
        for chosen, rows in {
            "GROUP BY host ORDER BY count(*) LIMIT 100 OFFSET 1000": 400,  # all tie
            "GROUP BY host HAVING count(*) > 1 LIMIT 10": 40,
            "WHERE upper(host) > 'H2' ORDER BY n * 0 LIMIT 1": 4,
            "ORDER BY random() LIMIT 1": 4,
            "ORDER BY time LIMIT 1": 4,
            "USING SAMPLE 1 ROWS": 4,
        }.items():
            for _ in range(3):
                assert db.sql(f"SELECT count(*) FROM u WHERE host IN (SELECT host FROM u {chosen})").fetchall() == [(rows,)], chosen


def test_keys_of_frames(twin: Twin) -> None:
    frame = pd.DataFrame({"host": ["b", None, "zz"], "n": [1, 2, 3]})
    sql = "SELECT id FROM t WHERE host IN (SELECT host FROM frame WHERE n < 3) ORDER BY id"
    assert "keys of __tsdb_0.host" in twin.plan(sql)
    assert twin.rows(sql) == twin.duck_rows("SELECT id FROM t WHERE host = 'b' ORDER BY id")
    assert twin.db.sql(sql).stats["devices_pruned_by_filter"] > 0
    numbers = pd.DataFrame({"host": [1, 2]})
    assert twin.rows("SELECT id FROM t WHERE rack IN (SELECT host FROM numbers)") == twin.rows(
        "SELECT id FROM t WHERE rack IN (1, 2)"
    )
    reader = pa.table({"host": ["b"]}).to_reader()
    assert twin.rows(sql.replace("frame WHERE n < 3", "reader")) == twin.rows(sql)
    assert len(frame) == 3
    assert len(numbers) == 2
    assert reader is not None
