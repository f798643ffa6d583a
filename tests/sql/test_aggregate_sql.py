"""GROUP BY and aggregates: what is native answers what DuckDB answers over the same rows, and shows it as DuckDB does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tsdb
from support.aggregate_sql import CALLS, DDL, EXPRESSIONS, KEYS, question, rows, spelled
from support.corner_sql import GROUPS
from support.quiet import without_background
from support.twin import Twin

_LAYOUTS: dict[str, dict[str, int]] = {
    "one file": {}, "small pages, three files": {"page_rows": 4, "files": 3},
    "two files and memory": {"page_rows": 4, "files": 3, "memory": 1}, "memory": {"memory": 1},
}  # fmt: skip


@pytest.fixture(scope="module", params=_LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    made = Twin(tmp_path_factory.mktemp("twin"), rows(160), ddl=DDL, **_LAYOUTS[request.param])  # type: ignore[arg-type]
    yield made
    made.close()


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return type(a) is type(b) and bool(a == b)


def _key(row: Sequence[Any]) -> str:
    """What rows sort by: floats roughly, and -0.0 as 0.0, since either may be the least or greatest of both."""
    return repr([f"{value + 0.0:.6g}" if isinstance(value, float) else value for value in row])


def _same(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], *, ordered: bool) -> bool:
    if not ordered:
        found, wanted = sorted(found, key=_key), sorted(wanted, key=_key)
    return len(found) == len(wanted) and all(
        len(a) == len(b) and all(map(_close, a, b)) for a, b in zip(found, wanted, strict=True)
    )


def _ordered(sql: str) -> bool:
    """Whether the last ORDER BY is that of the whole."""
    after = sql.rpartition("ORDER BY")[2]
    return after != sql and after.count("(") == after.count(")")


def check(twin: Twin, sql: str, duck: str | None = None) -> str:
    """Assert that both answer the same, natively and not; the native plan."""
    duck = spelled(sql) if duck is None else duck
    wanted = twin.duck.execute(duck).fetchall()
    described = twin.duck.sql(duck)
    plan = twin.plan(sql)
    for native in (True, False):
        result = twin.db.sql(sql, settings={"enable_native_operators": native})
        assert list(result.types) == [str(kind) for kind in described.types], f"{sql}\n{plan}"
        if duck == sql:
            assert list(result.columns) == list(described.columns), f"{sql}\n{plan}"
        found = result.fetchall()
        assert _same(found, wanted, ordered=_ordered(sql)), f"{sql}\nnative={native}\n{plan}\n{found[:9]}\n{wanted[:9]}"
    return plan


@pytest.mark.parametrize("part", range(6))
def test_questions(twin: Twin, part: int) -> None:
    for seed in range(part * 20, part * 20 + 20):
        sql, native = question(seed)
        plan = check(twin, sql)
        assert "Aggregate" in plan or "LastRow" in plan, f"{sql}\n{plan}"
        assert not native or "DuckQuery" not in plan, f"{sql}\n{plan}"


@pytest.mark.parametrize("key", KEYS)
def test_keys(twin: Twin, key: str) -> None:
    assert "DuckQuery" not in check(twin, f"SELECT {key}, count(*), max(id) FROM t GROUP BY {key}")
    assert "DuckQuery" not in check(twin, f"SELECT count(*), {key} AS k FROM t WHERE d > 0 GROUP BY 2 ORDER BY k DESC")


@pytest.mark.parametrize("call", CALLS)
def test_calls(twin: Twin, call: str) -> None:
    assert "DuckQuery" not in check(twin, f"SELECT {call} FROM t")
    assert "DuckQuery" not in check(twin, f"SELECT {call} FROM t WHERE time < '1900-01-01'")
    assert "DuckQuery" not in check(twin, f"SELECT host, {call} AS c FROM t WHERE i IS NULL OR i > 0 GROUP BY host")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_over_an_aggregate(twin: Twin, expression: str) -> None:
    plan = check(twin, f"SELECT host, {expression}, count(*) FROM t GROUP BY host HAVING count(*) > 1")
    assert plan.startswith("DuckQuery")
    assert "Aggregate by=[host]" in plan
    assert "GROUP BY" not in plan.splitlines()[0]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT host, rank() OVER (ORDER BY sum(d), host) FROM t GROUP BY host",
        "SELECT host, sum(sum(d)) OVER (PARTITION BY host) AS x FROM t GROUP BY host, rack ORDER BY 1, 2",
        "SELECT host, avg(d) AS e, e * 2 FROM t GROUP BY host",
        "SELECT host, avg(d) AS e FROM t GROUP BY host ORDER BY e + 1, host",
        "SELECT host, count(*) FROM t GROUP BY host QUALIFY row_number() OVER (ORDER BY count(*) DESC, host) <= 2",
        "SELECT DISTINCT count(*) > 1 FROM t GROUP BY host, rack",
        "SELECT host, any_value(region) AS region, count(DISTINCT host) + 1, max(d) FROM t GROUP BY host",
        "SELECT upper(host), length(upper(host)) + count(*) FROM t GROUP BY upper(host)",
        "SELECT host, row_number() OVER wd FROM t GROUP BY host WINDOW wd AS (ORDER BY max(id))",
        "SELECT * FROM (SELECT host, max(d), count(*) FROM t GROUP BY host) WHERE host = 'a'",
        (
            "SELECT q.m FROM (SELECT host AS h, max(d) AS m FROM t GROUP BY host) q JOIN (SELECT DISTINCT host FROM t) r "
            "ON q.h = r.host"
        ),
        "WITH c AS (SELECT host, sum(i) AS s FROM t WHERE rack = 1 GROUP BY ALL) SELECT sum(s) FROM c",
        "SELECT id FROM t WHERE host IN (SELECT host FROM t GROUP BY host HAVING count(*) > 10) ORDER BY id",
        "SELECT id FROM t WHERE d >= (SELECT max(d) FROM t) ORDER BY id",
        "SELECT id, (SELECT count(*) FROM t) AS c FROM t WHERE i = 5 ORDER BY id LIMIT 3",
        "SELECT host, max(d) FROM t GROUP BY host UNION ALL SELECT region, min(d) FROM t GROUP BY region",
        "FROM t SELECT host, max(d) AS m GROUP BY host ORDER BY m + 0, host",
        "SELECT sum(c) FROM (FROM t SELECT count(*) AS c GROUP BY rack)",
        "SELECT host, list_value(min(d), max(d)) FROM t GROUP BY host",
        "SELECT max(time) - min(time) FROM t",
        "SELECT host, sum(i)::DOUBLE / 2 FROM t GROUP BY host",
    ],
)
def test_text_over_an_aggregate(twin: Twin, sql: str) -> None:
    plan = check(twin, sql)
    assert "Aggregate" in plan
    assert plan.startswith("Project" if " JOIN " in sql else "DuckQuery")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT host, count(*) AS n FROM t GROUP BY host ORDER BY n DESC, host LIMIT 2",
        "SELECT host, count(*) FROM t GROUP BY host HAVING max(id) > 20 ORDER BY count(*), 1",
        "SELECT host, avg(d) AS d FROM t GROUP BY host HAVING d > 0",
        "SELECT host AS h, avg(d) AS d FROM t GROUP BY h HAVING avg(d) > 1 ORDER BY d NULLS FIRST, h",
        "SELECT host, sum(i) AS s FROM t GROUP BY host HAVING s > 5 ORDER BY s, host",
        "SELECT host, sum(l) AS s FROM t GROUP BY host HAVING sum(l) >= 9223372036854775807 OR 0 > sum(i) ORDER BY sum(l) DESC",
        "SELECT host, count_if(b) FROM t GROUP BY host HAVING count_if(b) BETWEEN 1 AND 1000 AND NOT sum(i) = 3 ORDER BY host",
        "SELECT count(*) FROM t HAVING count(*) > 1000",
        "SELECT host FROM t GROUP BY host",
        "SELECT DISTINCT host FROM t",
        "SELECT DISTINCT rack, host FROM t WHERE time > '2024-01-03' ORDER BY 1, 2 LIMIT 3",
        "SELECT DISTINCT t.region FROM t",
        "SELECT DISTINCT date_trunc('day', time) AS day FROM t ORDER BY day",
        "SELECT max(d), max(d), max(d) AS e FROM t",
        "SELECT (host), (count(*)) FROM t GROUP BY (host)",
        "SELECT count(*) FROM t x WHERE x.i > 3",
        'SELECT X.HOST, MAX(X.D) AS "Max D" FROM main.t AS x GROUP BY x."host" ORDER BY "Max D", 1',
        "SELECT /* all */ count(*) -- rows\n FROM t",
        "SELECT time_bucket(INTERVAL '1 day', time) AS time, count(*) FROM t GROUP BY 1",
        "SELECT host, time_bucket('1 day', time) AS time, max(i) FROM t GROUP BY ALL ORDER BY time, host",
        "(SELECT host, max(i) FROM t GROUP BY host)",
        "SELECT sum(i) FROM t LIMIT 1 OFFSET 1",
        "SELECT avg(d) FILTER (i > 0) FROM t",
        "SELECT host, max(d) m FROM t GROUP BY rack, host ORDER BY rack, host",
    ],
)
def test_native_throughout(twin: Twin, sql: str) -> None:
    plan = check(twin, sql)
    assert "Aggregate" in plan
    assert "DuckQuery" not in plan


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT host, count(DISTINCT i) FROM t GROUP BY host",
        "SELECT i, count(*) FROM t GROUP BY i",
        "SELECT host, count(*) FROM t GROUP BY ROLLUP (host)",
        "SELECT host, count(*) FROM t GROUP BY GROUPING SETS ((host), ())",
        "SELECT host, list(id ORDER BY id) FROM t GROUP BY host",
        "SELECT median(d) FROM t",
        "SELECT sum(d + 1) FROM t",
        "SELECT max(d) FROM t WHERE d < l",
        "SELECT count(t) FROM t",
        "SELECT host, arg_max(id, id, 2) FROM t GROUP BY host",
        "SELECT time_bucket(INTERVAL '500 nanoseconds', time), count(*) FROM t GROUP BY 1",
        "SELECT sum(i) OVER () FROM t",
        "SELECT year(time), count(*) FROM t GROUP BY 1",
        "SELECT 1, count(*) FROM t GROUP BY 1",
        "SELECT host, any_value(i) IS NULL FROM t WHERE i > 0 GROUP BY host",
        "SELECT count(DISTINCT (host, rack)) FROM t",
        "SELECT count(*) FROM t USING SAMPLE 100%",
        "SELECT a.host, count(*) FROM t a JOIN t b USING (id) GROUP BY a.host",
        "SELECT id FROM t a WHERE d = (SELECT max(d) FROM t b WHERE b.host = a.host) ORDER BY id",
        "SELECT max(x.d), (SELECT 1) FROM t x",
        "SELECT (SELECT count(*) FROM t)",
        "SELECT count(*) FROM (SELECT * FROM t) GROUP BY host",
        "WITH t AS (SELECT 1 AS host, 2 AS d) SELECT host, max(d) FROM t GROUP BY host",
    ],
)
def test_what_stays_with_duckdb(twin: Twin, sql: str) -> None:
    try:
        wanted = twin.duck.execute(sql).fetchall()
    except duckdb.Error:
        with pytest.raises(tsdb.Error):
            twin.db.sql(sql).fetchall()
        return
    assert _same(twin.db.sql(sql).fetchall(), wanted, ordered=_ordered(sql))
    assert "Aggregate" not in twin.plan(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT host, d FROM t GROUP BY host",
        "SELECT host, max(d) FROM t",
        "SELECT time_bucket('1 hour', time), count(*) FROM t",
        "SELECT host, -avg(d) AS d FROM t GROUP BY host ORDER BY d + 0",
        "SELECT * FROM t GROUP BY host",
        "SELECT sum(s) FROM t",
        "SELECT count(*) FROM t GROUP BY 3",
        "SELECT avg(b) FROM t",
        "SELECT host, t.d FROM t GROUP BY host",
        "SELECT time_bucket(INTERVAL '1 month 1 day', time), count(*) FROM t GROUP BY 1",
        "SELECT host, main.t.d FROM t GROUP BY host",
        "SELECT max(nothing) FROM t",
    ],
)
def test_what_duckdb_refuses(twin: Twin, sql: str) -> None:
    with pytest.raises(duckdb.Error):
        twin.duck.execute(sql).fetchall()
    with pytest.raises(tsdb.Error):
        twin.db.sql(sql).fetchall()


@pytest.mark.parametrize(
    ("sql", "order"),
    [
        ("SELECT host, max(i) FROM t GROUP BY host, rack ORDER BY rack, host", "by=[rack, host]"),
        ("SELECT date_trunc('day', time) AS e, host, max(i) FROM t GROUP BY host, e ORDER BY e, host LIMIT 7", "ticks, host]"),
        ("SELECT host, date_trunc('day', time), max(i) FROM t GROUP BY ALL ORDER BY ALL", "by=[host, every"),
        ("SELECT rack, max(i) AS m FROM t GROUP BY rack ORDER BY rack, m DESC", "by=[rack]"),
        ("SELECT host || '-' || region AS k, count(*) FROM t GROUP BY k ORDER BY k LIMIT 2", "by=["),
    ],
)  # fmt: skip
def test_groups_come_in_the_order_that_is_asked_for(twin: Twin, sql: str, order: str) -> None:
    plan = check(twin, sql)
    assert order in plan
    assert "Sort" not in plan
    assert "TopK" not in plan


@pytest.mark.parametrize("order", ["ALL DESC", "rack DESC, host", "host NULLS FIRST, rack", "max(i), host, rack"])
def test_groups_are_sorted_otherwise(twin: Twin, order: str) -> None:
    assert "Sort" in check(twin, f"SELECT host, rack, max(i) FROM t GROUP BY ALL ORDER BY {order}")


@pytest.mark.parametrize("sql", GROUPS)
def test_corners(twin: Twin, sql: str) -> None:
    text = sql.rstrip(";")
    try:
        twin.duck.execute(spelled(text)).fetchall()
    except duckdb.Error:
        for native in (True, False):
            with pytest.raises(tsdb.Error):
                twin.db.sql(sql, settings={"enable_native_operators": native}).fetchall()
        return
    check(twin, text)


def test_parameters(twin: Twin) -> None:
    text = "SELECT host, count(*) AS n FROM t WHERE i > $1 GROUP BY host HAVING count(*) > $2 ORDER BY n, host LIMIT $3"
    assert "DuckQuery" not in twin.plan(text, [0, 1, 2])
    assert twin.rows(text, [0, 1, 2]) == twin.duck_rows(text, [0, 1, 2])
    text = "SELECT host, max(d) + $2 AS x FROM t WHERE i > $1 GROUP BY host HAVING count(*) > $3 ORDER BY host"
    assert twin.plan(text, [0, 1, 2]).count("Aggregate") == 1
    assert twin.rows(text, [0, 1, 2]) == twin.duck_rows(text, [0, 1, 2])


def test_scans_read_what_keys_and_calls_need(twin: Twin) -> None:
    plan = twin.plan("SELECT host, max(d), sum(i) FILTER (WHERE b) FROM t WHERE l > 0 GROUP BY host, date_trunc('day', time)")
    assert "columns=[time, host, i, d, b]" in plan
    assert "columns=[]" in twin.plan("SELECT count(*) FROM t WHERE i > 3")


def test_an_expression_fails_where_rows_are(tmp_path: Path) -> None:
    """And not for devices whose rows WHERE leaves out, or that have none any more."""
    with without_background(tsdb.open(tmp_path / "db")) as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, host STRING TAG, n INT64)")
        db.sql(
            "INSERT INTO t VALUES ('2024-01-01', '1', 1), ('2024-01-01', '2', 2), ('2024-01-02', 'bad', 3), ('2024-01-02', NULL, 4)"
        )
        text = "SELECT host::INT AS k, count(*) FROM t WHERE {} GROUP BY k ORDER BY k"
        assert "Aggregate" in str(db.sql("EXPLAIN " + text.format("true")).fetchall())
        for condition, wanted in {
            "n <> 3": [(1, 1), (2, 1), (None, 1)], "time < '2024-01-02'": [(1, 1), (2, 1)], "host = '2'": [(2, 1)], "false": [],
        }.items():  # fmt: skip
            assert db.sql(text.format(condition)).fetchall() == wanted, condition
        for condition in ("true", "n >= 3", "host > '2'"):
            with pytest.raises(tsdb.Error, match="'bad'"):
                db.sql(text.format(condition)).fetchall()
        db.sql("DELETE FROM t WHERE host = 'bad'")
        assert db.sql(text.format("true")).fetchall() == [(1, 1), (2, 1), (None, 1)]
