"""Columns with the schema of their table before them mean what they mean in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import tsdb

SAME = (
    "SELECT main.a.k FROM a",
    "SELECT main.a.k FROM main.a WHERE main.a.k > 1",
    'SELECT "main"."a"."k" FROM a JOIN b ON "main".a."k" = main.b.k',
    "SELECT MAIN.A.K FROM a ORDER BY main.a.k DESC LIMIT 1",
    "SELECT main.a.k, count(*) FROM a GROUP BY main.a.k HAVING max(main.a.n) > 2 ORDER BY main.a.k",
    "SELECT main.a.k, v FROM main.a JOIN main.b ON main.a.k = main.b.k WHERE main.b.v > 1 AND a.n >= 0",
    "SELECT main.a.k, count(*) FROM a JOIN b USING (k) GROUP BY main.a.k ORDER BY main.a.k",
    "SELECT main.a.k + 1 AS next, lag(main.a.n) OVER (PARTITION BY main.a.k ORDER BY main.a.time) AS n FROM a",
    "SELECT a.k, main.b.v FROM a FULL JOIN b ON main.a.k = main.b.k",
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE main.b.k = main.a.k)",
    "SELECT main.a.k FROM a UNION ALL SELECT main.b.k FROM b",
    "SELECT main.s.k FROM (SELECT {'k': 3} AS s) AS main",
    "SELECT main.x.k FROM (SELECT 3 AS k) AS x, (SELECT {'k': 4} AS x) AS main",
)
REFUSED = (
    "SELECT main.x.k FROM a AS x",
    "SELECT main.a.k FROM a AS x",
    "WITH a AS (SELECT 7 AS k) SELECT main.a.k FROM a",
    "WITH x AS (SELECT 1), a(k) AS (SELECT 7) SELECT main.a.k FROM a",
    "SELECT main.a.k FROM (SELECT k FROM b) AS a",
    "SELECT main.a.none FROM a",
    "SELECT main.b.k FROM a",
    "SELECT main.a.k FROM b a",
    "SELECT main.b.v FROM a JOIN main.b b ON a.k = b.k JOIN b c USING (k)",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tsdb.Database, duckdb.DuckDBPyConnection]]:
    """Two tables here and in DuckDB."""
    other = duckdb.connect()
    with tsdb.open(tmp_path_factory.mktemp("qualified") / "db") as db:
        for target, time, tag in ((db, "TIME", "TAG"), (other, "", "")):
            target.sql(f"CREATE TABLE a (time TIMESTAMP {time}, k INTEGER {tag}, n INTEGER)")
            target.sql(f"CREATE TABLE b (time TIMESTAMP {time}, k INTEGER {tag}, v INTEGER)")
            target.sql("INSERT INTO a VALUES ('2000-01-01', 1, 1), ('2000-01-01', 2, 2), ('2000-01-02', 2, 3)")
            target.sql("INSERT INTO b VALUES ('2000-01-01', 1, 5), ('2000-01-02', 2, 6)")
        yield db, other
    other.close()


@pytest.mark.parametrize("sql", SAME)
def test_a_schema_before_a_column(both: tuple[tsdb.Database, duckdb.DuckDBPyConnection], sql: str) -> None:
    db, other = both
    found, wanted = db.sql(sql), other.sql(sql)
    assert list(found.columns) == wanted.columns
    assert sorted(map(repr, found.fetchall())) == sorted(map(repr, wanted.fetchall()))


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_table_has_no_schema(both: tuple[tsdb.Database, duckdb.DuckDBPyConnection], sql: str) -> None:
    db, other = both
    with pytest.raises(duckdb.Error):
        other.sql(sql).fetchall()
    with pytest.raises(tsdb.Error):
        db.sql(sql).fetchall()
