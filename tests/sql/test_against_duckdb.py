"""Whatever SQL is thrown at a table, tsdb answers what DuckDB answers over the same rows."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings

import tsdb
from support.sql_text import condition, random_rows, select
from support.twin import Twin


@pytest.fixture(scope="module", params=["one file", "small pages, three files", "two files and memory"])
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    pieces = {"files": 3, "page_rows": 7} if request.param != "one file" else {}
    memory = int(request.param == "two files and memory")
    made = Twin(tmp_path_factory.mktemp("twin"), random_rows(150), memory=memory, **pieces)
    yield made
    made.close()


def _agree(twin: Twin, sql: str) -> None:
    """Equal rows in order, or an error from both. Which row an error comes from depends on what runs first: one may miss it."""
    params = [5] if "$1" in sql else None
    try:
        wanted = twin.duck_rows(sql, params)
    except duckdb.ConversionException:
        return
    except duckdb.Error:
        with pytest.raises(tsdb.Error):
            twin.rows(sql, params)
        return
    try:
        found = twin.rows(sql, params)
    except tsdb.Error as error:
        if "Conversion Error" not in str(error):
            raise
        return
    assert found == wanted, f"{sql}\n{twin.plan(sql, params)}"


@given(text=condition())
@settings(max_examples=150)
def test_conditions(twin: Twin, text: str) -> None:
    _agree(twin, f"SELECT id FROM t WHERE {text} ORDER BY id")


@given(text=condition())
@settings(max_examples=60)
def test_conditions_pushed_below_duckdb(twin: Twin, text: str) -> None:
    _agree(twin, f"SELECT id, row_number() OVER (ORDER BY id) FROM t WHERE {text} AND i % 1 = 0 ORDER BY id")


@given(text=select())
@settings(max_examples=150)
def test_selects(twin: Twin, text: str) -> None:
    _agree(twin, text)


@pytest.mark.parametrize(
    "text",
    [
        "time >= '2024-01-01' AND time < '2024-01-02'", "host = 'a'", "host IN ('a', 'b', NULL)", "NOT (i BETWEEN 1 AND 5)",
        "i < 1.5",
        "l > 9007199254740992.0", "l <= 9007199254740993e0", "d = 0.1", "f = 0.1", "f < 0.1::DOUBLE", "i = NULL", "s LIKE 'a%'",
        "s NOT LIKE '_'", "b", "NOT b", "b IS NOT TRUE", "i IS DISTINCT FROM 5", "i IS NOT DISTINCT FROM NULL",
        "dt < DATE '2024-01-01' + 30",
        "tu >= TIMESTAMP '2024-01-01' - INTERVAL 1 MONTH", "ts < '2024-01-01 00:00:00.5'", "tm = '2024-01-01 00:00:00.123'",
        "time > now() - INTERVAL '1 hour'", "time < now()", "tu <= current_timestamp", "dt <= current_date", "5 > i",
        "l < 99999999999999999999",
        "l = -9223372036854775808", "time > date_trunc('year', TIMESTAMP '2024-05-01')", "d > 0.9 * 100", "i = '5'", "d < '1.5'",
        "t.host = 'a'", '"HOST" = \'a\'', "time >= '2024-01-01 00:00:00+00'", "time > '2024-01-01 00:00:00+02'",
        "time > '2024-1-1'",
        "blob = 'x'::BLOB OR true", "1 = 1", "i IN (1, 2.0, 3)",
    ],
)  # fmt: skip
def test_conditions_that_a_scan_evaluates(twin: Twin, text: str) -> None:
    sql = f"SELECT id FROM t WHERE {text} ORDER BY id LIMIT 1000"
    if "blob" not in text:
        assert "DuckQuery" not in twin.plan(sql)
    if "now()" not in text or "tu" in text:  # DuckDB does not compare nanoseconds with its now()
        twin.check(sql, ordered=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("time > ?", "2024-01-01"), ("time > ?", datetime.datetime(2024, 1, 1)), ("time >= ?", datetime.date(2024, 1, 1)),
        ("tu = ?", datetime.datetime(2024, 1, 1, 0, 0, 0, 123456)), ("tu > ?", datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
        ("dt = ?", datetime.date(2024, 1, 1)), ("dt < ?", datetime.datetime(2024, 1, 1, 5)), ("i > ?", 1), ("i > ?", 1.5),
        ("i = ?", True),
        ("l = ?", 2**53 + 1), ("l < ?", float(2**53)), ("l < ?", 2**62), ("i = ?", decimal.Decimal("5.0")), ("d = ?",
        decimal.Decimal("0.1")),
        ("d > ?", float("nan")), ("d <= ?", float("inf")), ("f = ?", 0.1), ("f = ?", 1.5),
        ("f < ?", 3.4028235e38), ("f > ?", 3.4028235e38), ("f > ?", -1e300),
        ("f <= ?", 1e-46), ("f < ?", float("inf")), ("f >= ?", float("nan")), ("s = ?", "a"), ("s LIKE ?", "a%"),
        ("host = ?", None),
        ("b = ?", False), ("blob = ?", b"x"), ("i IN (?, 1)", 5), ("i = ?", "5"), ("time BETWEEN ? AND '2024-01-02'", "2024-01-01"),
    ],
)  # fmt: skip
def test_parameters(twin: Twin, text: str, value: object) -> None:
    sql = f"SELECT id FROM t WHERE {text} ORDER BY id LIMIT 1000"
    twin.check(sql, [value], ordered=True)
    assert "DuckQuery" not in twin.plan(sql, [value])
    twin.check(sql.replace("?", "$1"), [value], ordered=True)
    twin.check(sql.replace("?", "$v"), {"v": value}, ordered=True)


def test_parameters_of_numpy_and_pandas(twin: Twin) -> None:
    pandas = pytest.importorskip("pandas")
    exact = "2024-01-01 00:00:00.123456789"
    wanted = twin.rows(f"SELECT id FROM t WHERE time = '{exact}' ORDER BY id LIMIT 99")
    assert wanted
    for value in (np.datetime64(exact, "ns"), pandas.Timestamp(exact)):
        assert twin.rows("SELECT id FROM t WHERE time = ? ORDER BY id LIMIT 99", [value]) == wanted
        assert twin.rows("SELECT id FROM t WHERE time = ? AND i % 1 = 0 OR time = ? ORDER BY id", [value, value]) == wanted
    assert twin.rows("SELECT count(*) FROM t WHERE i = ?", [np.int32(5)]) == twin.rows("SELECT count(*) FROM t WHERE i = 5")
    assert twin.rows("SELECT id FROM t WHERE d = ? ORDER BY id", [np.float64(1.5)]) == twin.rows(
        "SELECT id FROM t WHERE d = 1.5 ORDER BY id"
    )


def test_a_moment_with_zone_compares_with_nanoseconds(twin: Twin) -> None:
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    value = datetime.datetime(2024, 1, 1, 1, tzinfo=berlin)
    wanted = twin.rows("SELECT id FROM t WHERE time >= '2024-01-01' ORDER BY id")
    assert wanted
    assert twin.rows("SELECT id FROM t WHERE time >= ? ORDER BY id", [value]) == wanted
    assert twin.rows("SELECT id FROM t WHERE time >= ? AND i % 1 = 0 OR time >= ? ORDER BY id", [value, value]) == wanted


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT ?", None), ("SELECT ?", []), ("SELECT id FROM t", [1]), ("SELECT ?, $1", [1]), ("SELECT $a", {"b": 1}),
        ("SELECT id FROM t WHERE i = $2", [1]), ("SELECT $a", {"a": 1, "b": 2}), ("SHOW TABLES", [1]), ("SELECT ?", "x"),
        ("SELECT ?", 5),
    ],
)  # fmt: skip
def test_parameters_that_do_not_fit(twin: Twin, sql: str, params: object) -> None:
    with pytest.raises(tsdb.InvalidInput):
        twin.db.sql(sql, params)  # type: ignore[arg-type]


QUERIES = [
    "SELECT host, count(*), max(d), min(time) FROM t WHERE i > 0 GROUP BY host ORDER BY 1", "SELECT count(*) FROM t",
    "SELECT count(*), count(i), sum(l::HUGEINT) FROM t WHERE b", "SELECT DISTINCT host FROM t ORDER BY host",
    "SELECT DISTINCT ON (host) host, id FROM t ORDER BY host, id", "SELECT * FROM t WHERE false", "SELECT 1",
    "SELECT 1 FROM t WHERE id < 3", "SELECT t FROM t ORDER BY id LIMIT 2", "SELECT t, id FROM t WHERE id < 3 ORDER BY id",
    "SELECT i + 1.0 AS a, a * 2 AS b FROM t WHERE i < 100 ORDER BY id LIMIT 3", "SELECT t.i + 1.0 FROM t WHERE i = 5 LIMIT 99",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.i > 0 AND b.host = 'a' ORDER BY 1",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.id = b.id + 1 AND b.i > 0 WHERE a.host = 'a' AND b.id IS NULL ORDER BY 1",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.id = b.id + 1 WHERE b.i IS NULL ORDER BY 1, 2",
    "SELECT a.id, b.id FROM t a RIGHT JOIN t b ON a.id = b.id + 1 WHERE a.i IS NULL ORDER BY 2, 1",
    "SELECT a.id, b.id FROM t a FULL JOIN t b ON a.id = b.id + 100 WHERE a.i IS NULL OR b.i = 5 ORDER BY ALL",
    "SELECT a.id FROM t a SEMI JOIN t b ON a.id = b.id + 1 AND b.i > 0 WHERE a.b ORDER BY 1",
    "SELECT a.id FROM t a ANTI JOIN t b ON a.id = b.id + 1 AND b.i > 0 WHERE a.b ORDER BY 1",
    "SELECT a.id, b.id FROM t a, t b WHERE a.id = b.id AND a.i = 5 AND b.host IN ('a', 'b') ORDER BY 1",
    "SELECT a.id, b.id FROM t a ASOF JOIN t b ON a.l >= b.id WHERE a.i > 0 AND b.i < 5 ORDER BY 1, 2",
    "SELECT a.id, b.id FROM t a ASOF LEFT JOIN t b ON a.l >= b.id WHERE a.i > 0 ORDER BY 1, 2",
    "SELECT id, x.c FROM t JOIN (SELECT host, count(*) AS c FROM t WHERE i > 0 GROUP BY host) x USING (host) WHERE b ORDER BY 1",
    "SELECT id FROM t NATURAL JOIN (SELECT host, id FROM t WHERE i > 0) ORDER BY 1",
    "SELECT id FROM t WHERE host IN (SELECT host FROM t WHERE i = 5 ORDER BY id LIMIT 2) ORDER BY id",
    "SELECT id FROM t WHERE i > (SELECT avg(i) FROM t WHERE b) ORDER BY id",
    "SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.id = a.id + 1 AND b.b) ORDER BY id",
    "SELECT id FROM t a WHERE i = (SELECT max(i) FROM t b WHERE b.host = a.host) ORDER BY id",
    "SELECT * FROM (SELECT id, time FROM t ORDER BY time, id LIMIT 5) q ORDER BY id",
    "SELECT q.id, t.d FROM (SELECT id AS id FROM t WHERE i > 0 ORDER BY id DESC LIMIT 3) q JOIN t USING (id) ORDER BY 1",
    "WITH c AS (SELECT * FROM t WHERE i > 0) SELECT count(*) FROM c a JOIN c b USING (id)",
    "WITH c AS (SELECT id, host FROM t ORDER BY id LIMIT 7), e AS (SELECT host FROM c) SELECT * FROM e ORDER BY ALL",
    "WITH t AS (SELECT 1 AS id) SELECT * FROM t",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT id FROM t WHERE i > 0 UNION ALL SELECT id FROM t WHERE b ORDER BY 1", "SELECT host FROM t EXCEPT SELECT 'a' ORDER BY 1",
    "(SELECT id FROM t ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM t ORDER BY id DESC LIMIT 2) ORDER BY 1",
    "(SELECT id FROM t ORDER BY id LIMIT 2)",
    "SELECT id, sum(i) OVER (PARTITION BY host ORDER BY id) FROM t WHERE i < 100 ORDER BY 1",
    "SELECT id FROM t WHERE i < 100 QUALIFY row_number() OVER (PARTITION BY host ORDER BY id) = 1 ORDER BY 1",
    "SELECT host, list(id ORDER BY id) FROM t GROUP BY ALL ORDER BY ALL", "FROM t SELECT id WHERE i = 5 ORDER BY id",
    "FROM t ORDER BY id LIMIT 2", "SELECT id, unnest([1, 2]) FROM t WHERE i = 5 ORDER BY ALL", "SELECT max(id) FROM t LIMIT 1",
    "SELECT count(*) OVER () FROM t ORDER BY id LIMIT 2",
    "PIVOT (SELECT host, rack, i FROM t WHERE i < 100) ON rack USING count(*) ORDER BY ALL",
    "SELECT t.id FROM main.t WHERE t.i = 5 ORDER BY 1", "SELECT x.id FROM t AS x WHERE x.i = 5 ORDER BY 1",
    "SELECT id FROM t x(time, host) WHERE i = 5 ORDER BY 1", "SELECT (t).id FROM t ORDER BY 1 LIMIT 3",
    "SELECT t FROM (SELECT id FROM t ORDER BY id LIMIT 2) t ORDER BY 1",
    "SELECT id FROM t /* a comment -- */ WHERE i = 5 -- trailing\n ORDER BY id",
    "SELECT a.id, c.id FROM t a JOIN (t b JOIN t c USING (id)) USING (id) WHERE a.i > 0 ORDER BY 1",
    "SELECT id, (SELECT count(*) FROM t b WHERE b.i > 0) FROM t WHERE i = 5 ORDER BY id LIMIT 3",
    "SELECT id, lag(id) OVER (ORDER BY id) FROM t ORDER BY id LIMIT 3 OFFSET 1", "VALUES (1, 'a'), (2, 'b')",
    "SELECT * FROM range(3)", "SELECT id AS time, host AS id FROM t ORDER BY time LIMIT 3",
    "SELECT id FROM t WHERE id IN (1, 2, 3) AND $1 = 5 ORDER BY id", "SELECT count(*) FILTER (WHERE i > 0) FROM t WHERE host = 'a'",
    "SELECT id FROM t GROUP BY id HAVING max(i) > 5 ORDER BY id", "SELECT id FROM t WHERE list_contains([1, 2, 5], i) ORDER BY id",
    "SELECT id, x FROM t, LATERAL (SELECT i + 1.0 AS x) q WHERE i < 10 ORDER BY 1",
    "SELECT t FROM t ORDER BY t.id LIMIT 2",
    "SELECT x::VARCHAR FROM t x WHERE x.i = 5 ORDER BY id", "SELECT X FROM t x ORDER BY id LIMIT 1",
    "SELECT to_json(x), x.id FROM t x ORDER BY id LIMIT 2", "SELECT id, struct_extract(x, 'd') FROM t x ORDER BY id LIMIT 2",
    "SELECT [x] FROM t x ORDER BY id LIMIT 1", "SELECT count(x), max(x) FROM t x WHERE id < 9",
    "SELECT id FROM t x ORDER BY x LIMIT 3", "SELECT id, (SELECT x) FROM t x ORDER BY id LIMIT 2",
    "SELECT host FROM t AS x(host, time) ORDER BY ALL", "SELECT a, e FROM t AS t(a, b, c, d, e) WHERE e < 9 ORDER BY e",
    "SELECT count(*) FROM t x(host) JOIN t y ON x.host = y.time WHERE y.host = 'a'",
    "TABLE t ORDER BY id LIMIT 2", "SELECT count(*) FROM (TABLE t UNION ALL TABLE t)",
]  # fmt: skip


@pytest.mark.parametrize("sql", QUERIES)
def test_queries(twin: Twin, sql: str) -> None:
    twin.check(sql, [5] if "$1" in sql else None, ordered="ORDER BY" in sql)


@pytest.mark.parametrize(
    ("sql", "predicate"),
    [
        ("SELECT median(i) FROM t WHERE host = 'a'", "host = 'a'"),
        ("SELECT max(i) FROM t x WHERE x.i > 3 AND length(s) > 1", "i > 3"),
        ("SELECT 1 FROM t a JOIN t b ON a.id = b.id WHERE a.i > 3", "i > 3"),
        ("SELECT 1 FROM t a LEFT JOIN t b USING (id) WHERE a.i > 3", "i > 3"),
        ("SELECT count(*) FROM (SELECT host FROM t WHERE i > 3)", "i > 3"),
        ("WITH c AS (SELECT * FROM t WHERE i > 3) SELECT count(*) FROM c", "i > 3"),
        ("SELECT i FROM t WHERE i > 3 UNION ALL SELECT 1", "i > 3"), ("SELECT 1 WHERE EXISTS (FROM t WHERE i > 3)", "i > 3"),
        ("SELECT max(i) FROM t a ANTI JOIN t b USING (id) WHERE a.i > 3", "i > 3"),
    ],
)  # fmt: skip
def test_predicates_that_are_pushed(twin: Twin, sql: str, predicate: str) -> None:
    plan = twin.plan(sql)
    assert plan.startswith("DuckQuery")
    assert plan.count(f"predicate={predicate}") == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t a FULL JOIN t b USING (id) WHERE b.i > 3",
        "SELECT 1 FROM t a FULL JOIN t b USING (id) WHERE a.i > 3",
        "SELECT 1 FROM t c JOIN t d USING (id) RIGHT JOIN t b ON b.id = c.id WHERE b.i > 3",
        "SELECT 1 FROM t a ASOF JOIN t b ON a.id >= b.id WHERE b.i > 3", "SELECT 1 FROM t a POSITIONAL JOIN t b WHERE a.i > 3",
        "SELECT max(i) FROM t WHERE i > 3 USING SAMPLE 50%", "SELECT max(i) FROM t TABLESAMPLE 50% WHERE i > 3",
        "SELECT median(i) FROM t HAVING max(i) > 3", "SELECT 1 FROM t WHERE i > 3 OR i = l",
    ],
)  # fmt: skip
def test_predicates_that_are_not_pushed(twin: Twin, sql: str) -> None:
    twin.db.sql("SELECT 1")
    assert "predicate=" not in twin.plan(sql)
