"""Columns with the schema of their table before them mean what they mean in DuckDB."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

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


def test_statements_name_a_table_with_its_schema(tmp_path: Path) -> None:
    with tsdb.open(tmp_path) as database:
        database.sql("CREATE TABLE main.t (time TIMESTAMP_NS TIME, host STRING TAG, owner STRING ATTRIBUTE, x DOUBLE)")
        rows = "('2026-01-01', 'a', 1), ('2026-01-02', 'b', 2), ('2026-01-03', 'c', 3)"
        database.sql(f"INSERT INTO MAIN.t (time, host, x) VALUES {rows}")
        database.sql("INSERT INTO \"main\".\"t\" (time, host, x) SELECT time, 'd', x FROM t WHERE host = 'a'")
        database.sql("UPDATE main.t SET owner = upper(main.t.host) WHERE main.t.host IN ('a', 'd')")
        database.sql("DELETE FROM main.t WHERE main.t.host = 'b' AND x > (SELECT min(main.t.x) FROM t)")
        database.sql("DELETE FROM t WHERE main.t.host = 'd'")
        assert database.sql("FROM main.t ORDER BY time").fetchall() == [
            (datetime.datetime(2026, 1, 1), "a", "A", 1.0),
            (datetime.datetime(2026, 1, 3), "c", None, 3.0),
        ]
        assert database.sql("SHOW DEVICES FROM main.t WHERE main.t.owner = 'A'").fetchall()[0][0] == "a"
        database.sql("ALTER TABLE main.t ADD COLUMN y DOUBLE")
        assert [row[0] for row in database.sql("DESCRIBE main.t").fetchall()] == ["time", "host", "owner", "x", "y"]
        assert "CREATE TABLE t" in database.sql("SHOW CREATE TABLE main.t").fetchall()[0][0]
        database.sql("TRUNCATE main.t")
        database.sql("DROP TABLE IF EXISTS main.t")
        assert database.sql("SHOW TABLES").fetchall() == []


@pytest.mark.parametrize("sql", ["DELETE FROM other.t WHERE x = 1", "DROP TABLE other.t", "INSERT INTO other.t VALUES (1)"])
def test_of_statements_there_is_one_schema(tmp_path: Path, sql: str) -> None:
    with tsdb.open(tmp_path) as database:
        database.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, host STRING TAG, x DOUBLE)")
        with pytest.raises(tsdb.NotFound, match=rf"^no schema 'other': .* \(line 1, column {sql.index('other') + 1}\)$"):
            database.sql(sql)


def test_an_alias_hides_the_schema_of_a_condition(tmp_path: Path) -> None:
    with tsdb.open(tmp_path) as database:
        database.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, host STRING TAG, x DOUBLE)")
        with pytest.raises(tsdb.NotFound, match='"t" not found'):
            database.sql("DELETE FROM main.t AS a WHERE main.t.x = 1")
