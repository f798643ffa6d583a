"""The newest rows of every device, in the forms that SQL has for them: one LastRow, and DuckDB's answer."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import tsdb
from support.corner_sql import NEWEST
from support.twin import Twin

_DDL = "time TIMESTAMP_NS TIME, host STRING TAG, rack INT32 TAG, region STRING ATTRIBUTE, id INT64, i INT32, d DOUBLE, s STRING"
_REGIONS = {"'a'": "'east'", "NULL": "'east'", "''": "NULL", "'b'": "'west'", "'d'": "'west'"}
_LAYOUTS: dict[str, dict[str, int]] = {
    "one file": {}, "small pages, three files": {"page_rows": 4, "files": 3},
    "two files and memory": {"page_rows": 4, "files": 3, "memory": 1}, "memory": {"memory": 1},
}  # fmt: skip


def _rows(count: int) -> list[dict[str, str]]:
    """Rows whose times differ, so that the newest of any group is one row; hosts and racks may be NULL, as may values."""
    made = []
    for at in range(count):
        host = ["'a'", "'b'", "''", "NULL", "'d'"][at * 7 % 5]
        made.append({
            "time": f"TIMESTAMP_NS '2024-01-01' + INTERVAL {at * 37 % count * 11} SECONDS", "host": host,
            "rack": ["1", "2", "NULL"][at * 5 % 3], "region": _REGIONS[host], "id": str(at),
            "i": "NULL" if at % 4 == 0 else str(at % 9), "d": "NULL" if at % 7 == 0 else str(at / 4),
            "s": f"'{at % 5}'",
        })  # fmt: skip
    return made


@pytest.fixture(scope="module", params=_LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    made = Twin(tmp_path_factory.mktemp("twin"), _rows(101), ddl=_DDL, **_LAYOUTS[request.param])  # type: ignore[arg-type]
    yield made
    made.close()


_NUMBER = "row_number() OVER (PARTITION BY host, rack ORDER BY time DESC)"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT ON (host) * FROM t ORDER BY host, time DESC",
        "SELECT DISTINCT ON (host) host, i FROM t ORDER BY host, time",
        "SELECT DISTINCT ON (rack, host) id FROM t ORDER BY host, rack, time DESC",
        "SELECT DISTINCT ON (rack, host) id FROM t ORDER BY host DESC, rack NULLS FIRST, time DESC",
        "SELECT DISTINCT ON (host) id, host FROM t ORDER BY time DESC",
        "SELECT DISTINCT ON (host) id FROM t ORDER BY time LIMIT 2 OFFSET 1",
        "SELECT DISTINCT ON (x.host) x.id FROM t x ORDER BY host, x.time DESC",
        "SELECT DISTINCT ON (host) host, d AS x FROM t WHERE d > 3 AND rack = 1 ORDER BY host, time DESC",
        "SELECT DISTINCT ON (region) region, time, id FROM t ORDER BY region, time DESC",
        f"SELECT * FROM t QUALIFY {_NUMBER} = 1 ORDER BY id",
        f"SELECT id, host FROM t QUALIFY {_NUMBER} <= 3 ORDER BY id",
        f"SELECT id FROM t WHERE i > 2 QUALIFY {_NUMBER} < 3 ORDER BY id LIMIT 4",
        f"SELECT id FROM t QUALIFY 2 >= {_NUMBER} ORDER BY time",
        f"SELECT id FROM t QUALIFY ({_NUMBER.removesuffix(' DESC)')}) = 1) ORDER BY id",
        f"SELECT id FROM t QUALIFY {_NUMBER} = 1 ORDER BY host, rack",
    ],
)
def test_native_throughout(twin: Twin, sql: str) -> None:
    plan = twin.plan(sql)
    assert "LastRow" in plan
    assert "DuckQuery" not in plan
    assert twin.check(sql, ordered="host, rack" not in sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT ON (host) host, d + 1, upper(s) FROM t ORDER BY host, time DESC",
        f"SELECT id, d * 2 AS e FROM t QUALIFY {_NUMBER} = 1 ORDER BY id",
        f"SELECT *, {_NUMBER} AS rn FROM t QUALIFY rn <= 2 ORDER BY id",
        f"SELECT id FROM t QUALIFY {_NUMBER} <= 2 AND d > 5 ORDER BY id",
        f"SELECT id FROM t QUALIFY {_NUMBER} = 2 ORDER BY id",
        f"SELECT id FROM t QUALIFY d > 5 AND {_NUMBER} <= 2 ORDER BY id",
        f"SELECT * FROM (SELECT *, {_NUMBER} AS rn FROM t) WHERE rn = 1 ORDER BY id",
        f"SELECT q.id, q.rn FROM (SELECT id, {_NUMBER} AS rn FROM t WHERE i > 1) q WHERE q.rn <= 2 AND q.id > 3 ORDER BY id",
        f"SELECT count(*) FROM (SELECT {_NUMBER} AS rn FROM t) WHERE 3 > rn",
        f"WITH r AS (SELECT host, d, {_NUMBER} AS rn FROM t) SELECT host, avg(d) FROM r WHERE rn <= 4 GROUP BY host ORDER BY host",
        (
            f"SELECT q.id, h.n FROM (SELECT *, {_NUMBER} AS rn FROM t) q LEFT JOIN (VALUES ('a', 1)) h(host, n) USING "
            "(host) WHERE q.rn = 1 ORDER BY 1"
        ),
        (
            "SELECT h.host, b.id FROM (SELECT DISTINCT host FROM t) h, LATERAL (SELECT * FROM t c WHERE c.host = h.host "
            "ORDER BY time DESC LIMIT 1) b ORDER BY 1"
        ),
        (
            "SELECT h.host, b.id FROM (SELECT DISTINCT host FROM t) h LEFT JOIN LATERAL (SELECT id FROM t c WHERE c.host "
            "= h.host AND c.i > 2 ORDER BY c.time DESC LIMIT 2) b ON true ORDER BY 1, 2"
        ),
        (
            "SELECT h.*, (SELECT id FROM t c WHERE h.host = c.host AND h.rack = c.rack ORDER BY time LIMIT 1) AS oldest "
            "FROM (SELECT DISTINCT host, rack FROM t) h ORDER BY 1, 2"
        ),
        "SELECT sum(d) FROM (SELECT DISTINCT ON (host) * FROM t ORDER BY host, time DESC)",
        f"SELECT avg(d) FROM (SELECT d FROM t WHERE i >= 0 QUALIFY {_NUMBER} = 1)",
        "SELECT id FROM t WHERE id IN (SELECT DISTINCT ON (host) id FROM t ORDER BY host, time DESC) ORDER BY id",
    ],
)
def test_text_over_the_newest_rows(twin: Twin, sql: str) -> None:
    plan = twin.plan(sql)
    assert "LastRow" in plan
    assert plan.startswith("Project" if "JOIN (VALUES" in sql else "DuckQuery")
    assert twin.check(sql, ordered="ORDER BY" in sql.rpartition(")")[2])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT ON (host) id FROM t ORDER BY host, time DESC, id",
        "SELECT DISTINCT ON (host) id FROM t ORDER BY host, id",
        "SELECT DISTINCT ON (i) id FROM t ORDER BY i, time DESC",
        "SELECT DISTINCT ON (host) id FROM t WHERE d < i ORDER BY host, time DESC",
        "SELECT DISTINCT ON (host) host, count(*) OVER () FROM t ORDER BY host, time DESC",
        "SELECT DISTINCT ON (host) id, i AS time FROM t ORDER BY host, time DESC, id",
        "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC, id) = 1 ORDER BY id",
        f"SELECT id FROM t QUALIFY {_NUMBER} >= 12 ORDER BY id",
        f"SELECT id FROM t QUALIFY {_NUMBER} = 1 OR d > 20 ORDER BY id",
        f"SELECT id, sum(id) OVER (PARTITION BY host ORDER BY id) FROM t QUALIFY {_NUMBER} = 1 ORDER BY id",
        "SELECT id FROM t QUALIFY rank() OVER (PARTITION BY host ORDER BY time DESC) = 1 ORDER BY id",
        f"SELECT id FROM t WHERE d < i QUALIFY {_NUMBER} = 1 ORDER BY id",
        f"SELECT id, n FROM (SELECT *, {_NUMBER} AS rn, count(*) OVER (PARTITION BY host) AS n FROM t) WHERE rn = 1 ORDER BY id",
        f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t LIMIT 200) WHERE rn = 1 ORDER BY id",
        f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t) WHERE rn = 1 OR id < 9 ORDER BY id",
        (
            f"WITH r AS (SELECT id, {_NUMBER} AS rn FROM t) SELECT a.id FROM r a JOIN r b USING (id) WHERE a.rn = 1 AND "
            "b.rn <= 200 ORDER BY 1"
        ),
        (
            f"SELECT q.id, h.id FROM (SELECT id FROM t WHERE id < 9) h RIGHT JOIN (SELECT *, {_NUMBER} AS rn FROM t) q ON "
            "q.id = h.id WHERE q.rn = 1 OR h.id = 3 ORDER BY ALL"
        ),
        (
            "SELECT h.host, b.id FROM (SELECT DISTINCT host FROM t) h, LATERAL (SELECT * FROM t c WHERE c.host > h.host "
            "ORDER BY time DESC LIMIT 1) b ORDER BY 1"
        ),
        (
            "SELECT h.host, b.id FROM (SELECT DISTINCT host FROM t) h, LATERAL (SELECT * FROM t c WHERE c.host = h.host "
            "ORDER BY id DESC LIMIT 1) b ORDER BY 1"
        ),
        (
            "SELECT h.i, b.id FROM (SELECT DISTINCT i FROM t) h, LATERAL (SELECT * FROM t c WHERE c.i = h.i ORDER BY "
            "time DESC LIMIT 1) b ORDER BY 1"
        ),
        (
            "SELECT h.host, b.n FROM (SELECT DISTINCT host FROM t) h, LATERAL (SELECT count(*) AS n FROM t c WHERE "
            "c.host = h.host LIMIT 1) b ORDER BY 1"
        ),
    ],
)
def test_what_stays_with_duckdb(twin: Twin, sql: str) -> None:
    assert "LastRow" not in twin.plan(sql)
    twin.check(sql, ordered=True)


@pytest.mark.parametrize(
    ("sql", "duck"),
    [
        ("SELECT host, last(d), max(time) FROM t GROUP BY host", "DESC"),
        ("SELECT host, first(i), min(time) FROM t GROUP BY host", ""),
        (
            "SELECT host, rack, last(i) AS x FROM t WHERE d > 2 GROUP BY ALL HAVING x > 1 ORDER BY x DESC, host, rack LIMIT 4",
            "DESC",
        ),
        ("SELECT region, last(s) || 'x' FROM t GROUP BY region", "DESC"),
        ("SELECT sum(x) FROM (SELECT last(d) AS x FROM t GROUP BY host, rack)", "DESC"),
    ],
)
def test_first_and_last_of_devices(twin: Twin, sql: str, duck: str) -> None:
    assert "LastRow" in twin.plan(sql)
    spelled = sql
    for name in ("first", "last"):
        for column in ("d", "i", "s"):
            spelled = spelled.replace(f"{name}({column})", f"first({column} ORDER BY time {duck})")
    wanted = sorted(map(repr, twin.duck_rows(spelled)))
    for native in (True, False):
        assert sorted(map(repr, twin.rows(sql, enable_native_operators=native))) == wanted


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT host, last(d), max(i) FROM t GROUP BY host",
        "SELECT last(d) FROM t",
        "SELECT host, last(d), first(d) FROM t GROUP BY host",
        "SELECT host, max(time) FROM t GROUP BY host",
        "SELECT host, arg_max(d, time) FROM t GROUP BY host",
    ],
)
def test_what_is_no_question_for_rows(twin: Twin, sql: str) -> None:
    assert "LastRow" not in twin.plan(sql)


@pytest.mark.parametrize("sql", NEWEST)
def test_corners(twin: Twin, sql: str) -> None:
    try:
        twin.duck_rows(sql)
    except duckdb.Error:
        for native in (True, False):
            with pytest.raises(tsdb.Error):
                twin.rows(sql, enable_native_operators=native)
        return
    twin.check(sql, ordered="ORDER BY" in sql.rpartition(")")[2])
    assert list(twin.db.sql(sql).columns) == list(twin.duck.sql(sql).columns)


def test_first_and_last_by_time_where_duckdb_computes_them(twin: Twin) -> None:
    text = (
        "SELECT t.host, last(t.id), first(t.id) FROM t JOIN (SELECT DISTINCT host FROM t) h USING (host) GROUP BY t.host ORDER BY 1"
    )
    spelled = text.replace("last(t.id)", "arg_max(t.id, t.time)").replace("first(t.id)", "arg_min(t.id, t.time)")
    result = twin.db.sql(text)
    assert result.fetchall() == twin.duck.execute(spelled).fetchall()
    assert result.columns == ["host", '"last"(t.id)', '"first"(t.id)']
    text = "SELECT last(id) - first(id), median(d) FROM t WHERE i < d HAVING last(id) > 0"
    assert twin.db.sql(text).columns == ['("last"(id) - "first"(id))', "median(d)"]
    assert twin.rows(text) == twin.duck_rows(
        text.replace("last(id)", "arg_max(id, time)").replace("first(id)", "arg_min(id, time)")
    )


def test_scans_read_what_is_shown(twin: Twin) -> None:
    assert "columns=[host, i]" in twin.plan("SELECT DISTINCT ON (host) host, i FROM t ORDER BY host, time DESC")
    assert "columns=[id, time]" in twin.plan("SELECT DISTINCT ON (host) id FROM t ORDER BY time DESC")


def test_a_table_in_the_way_of_a_name(twin: Twin) -> None:
    text = "WITH t AS (SELECT 1 AS id, 'a' AS host, 2 AS time) SELECT DISTINCT ON (host) id FROM t ORDER BY host, time DESC"
    assert "LastRow" not in twin.plan(text)
    twin.check(text)
