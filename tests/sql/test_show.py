"""What SHOW lists, and DuckDB's catalog where a query reads it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb
from support.quiet import without_background


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with without_background(tsdb.open(tmp_path / "db")) as made:
        made.sql(
            "CREATE TABLE cpu (time TIMESTAMP_MS TIME, host STRING TAG, usage DOUBLE, owner STRING ATTRIBUTE) WITH (page_rows = 4)"
        )
        made.sql("CREATE TABLE empty (time TIMESTAMP_NS TIME, v INT64)")
        made.sql(
            "INSERT INTO cpu BY NAME SELECT make_timestamp(i * 1000000) AS time, 'h' || i % 3 AS host, i AS usage "
            "FROM range(30) r(i)"
        )
        made.flush()
        yield made


def test_tables_count_rows_that_exist(db: tsdb.Database) -> None:
    result = db.sql("SHOW TABLES")
    assert result.columns == ["name", "rows", "devices", "files", "columns", "stored_rows", "mode"]
    assert result.fetchall() == [("cpu", 30, 3, 1, 4, 30, "table"), ("empty", 0, 0, 0, 2, 0, "table")]
    db.sql("INSERT INTO cpu VALUES ('2024-01-01', 'new', 1, NULL)")
    assert db.sql("SHOW TABLES").fetchall()[0] == ("cpu", 31, 4, 1, 4, 31, "table")
    db.sql("INSERT INTO cpu VALUES ('1970-01-01', 'h0', 2, NULL)")
    assert db.sql("SHOW TABLES").fetchall()[0] == ("cpu", None, 4, 1, 4, 32, "table")
    db.compact()
    assert db.sql("SHOW TABLES").fetchall()[0][1] == db.sql("SELECT count(*) FROM cpu").fetchall()[0][0] == 31
    db.sql("DELETE FROM cpu WHERE host = 'h1'")
    assert db.sql("SHOW TABLES").fetchall()[0][1] is None
    db.compact()
    assert db.sql("SHOW TABLES").fetchall()[0][1] == 21
    db.sql("ALTER TABLE cpu SET TTL '1 day'")
    assert db.sql("SHOW TABLES").fetchall()[0][1] is None


def test_devices(db: tsdb.Database) -> None:
    db.sql("UPDATE cpu SET owner = 'me' WHERE host = 'h1'")
    db.sql("INSERT INTO cpu VALUES ('1970-01-01 00:00:01', 'h1', 99, NULL), ('2024-01-01', 'h2', 1, NULL)")
    result = db.sql("SHOW DEVICES FROM cpu")
    wanted = (
        "SELECT host, owner, min(time) AS first_time, max(time) AS last_time, count(*) AS rows FROM cpu GROUP BY ALL ORDER BY host"
    )
    assert result.columns == db.sql(wanted).columns
    assert result.types == db.sql(wanted).types
    every = db.sql(wanted).fetchall()
    assert result.fetchall() == every
    assert db.sql("SHOW DEVICES FROM cpu WHERE owner IS NULL").fetchall() == [row for row in every if row[1] is None]
    assert db.sql("SHOW DEVICES FROM cpu LIMIT 2").fetchall() == every[:2]
    assert db.sql("SHOW DEVICES FROM cpu WHERE host > ? LIMIT 1 OFFSET 1", ["h0"]).fetchall() == every[2:3]
    assert db.sql("SHOW DEVICES FROM cpu OFFSET 5").fetchall() == []
    assert db.sql("SHOW DEVICES FROM empty").fetchall() == []
    db.sql("INSERT INTO empty VALUES ('2024-01-01', 1), ('2024-01-02', 1)")
    assert [row[-1] for row in db.sql("SHOW DEVICES FROM empty").fetchall()] == [2]
    db.sql("DELETE FROM cpu WHERE host = 'h0' AND time > '1970-01-01 00:00:03'")
    assert db.sql("SHOW DEVICES FROM cpu").fetchall() == db.sql(wanted).fetchall()
    with pytest.raises(tsdb.InvalidInput, match="a number of devices"):
        db.sql("SHOW DEVICES FROM cpu LIMIT x")


def test_devices_where_a_tag_is_named_as_a_count(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "odd") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, rows STRING TAG, first_time INT TAG)")
        db.sql("INSERT INTO t VALUES ('2024-01-01', 'x', 1)")
        row = db.sql("SHOW DEVICES FROM t").fetchall()[0]
        assert (row[0], row[1], row[-1]) == ("x", 1, 1)


def test_files(db: tsdb.Database) -> None:
    db.sql("INSERT INTO empty SELECT make_timestamp_ns(i), i FROM range(10) r(i)")
    db.flush()
    result = db.sql("SHOW FILES")
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]
    assert [(row["table"], row["rows"], row["devices"], row["pages"]) for row in rows] == [("cpu", 30, 3, 8), ("empty", 10, 1, 1)]
    for row in rows:
        data = Path(db.path) / row["path"]
        assert data.stat().st_size + data.with_suffix(".res").stat().st_size == row["bytes"]
        assert 0 < row["first_sequence"] <= row["last_sequence"]
    assert rows[0]["last_time"].second == 29
    assert [row[0] for row in db.sql("SHOW FILES FROM CPU").fetchall()] == ["cpu"]
    with pytest.raises(tsdb.NotFound, match="cpu"):
        db.sql("SHOW FILES FROM cpx")


def test_queries_under_way(db: tsdb.Database) -> None:
    assert db.sql("SHOW QUERIES").fetchall() == []
    native, duck = "SELECT * FROM cpu", "SELECT usage + 1 FROM cpu WHERE usage % 2 = 0"
    started = [db.sql(sql) for sql in (native, duck)]
    assert db.sql("SHOW QUERIES").fetchall() == []
    for result in started:
        assert result.fetchone() is not None
    listed = db.sql("SHOW QUERIES").fetchall()
    assert [text for _, text, *_ in listed] == [native, duck]
    assert all(seconds >= 0 and rows > 0 for _, _, seconds, rows, *_ in listed)
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.extend(db.sql("SHOW QUERIES").fetchall()))
    thread.start()
    thread.join()
    assert len(seen) == 2
    for result in started:
        result.fetchall()
    assert db.sql("SHOW QUERIES").fetchall() == []
    with pytest.raises(tsdb.InvalidInput):
        db.sql("SELECT (usage::VARCHAR || 'x')::INT FROM cpu").fetchall()
    assert db.sql("SHOW QUERIES").fetchall() == []


def test_tables_are_listed_as_a_table(db: tsdb.Database) -> None:
    assert db.sql("FROM (SHOW TABLES)").fetchall() == [("cpu",), ("empty",)]
    shown = db.sql("SELECT upper(t.name), n FROM (SHOW TABLES) t, (SELECT count(*) AS n FROM cpu) WHERE name <> 'empty'")
    assert shown.fetchall() == [("CPU", 30)]
    assert db.sql("FROM (show tables)").columns == ["name"]


def test_the_catalog_of_duckdb_shows_tables(db: tsdb.Database) -> None:
    tables = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables ORDER BY table_name"
    assert db.sql(tables).fetchall() == [("tsdb", "main", "cpu", "BASE TABLE"), ("tsdb", "main", "empty", "BASE TABLE")]
    columns = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'cpu' ORDER BY ordinal_position"
    assert db.sql(columns).fetchall() == [
        ("time", "TIMESTAMP_MS"), ("host", "VARCHAR"), ("usage", "DOUBLE"), ("owner", "VARCHAR"),
    ]  # fmt: skip
    assert db.sql("SELECT table_name, column_count FROM duckdb_tables() ORDER BY 1").fetchall() == [("cpu", 4), ("empty", 2)]
    assert db.sql("SELECT count(*) FROM duckdb_columns() WHERE table_name = ?", ["cpu"]).fetchall() == [(4,)]
    assert db.sql(
        "SELECT table_name, (SELECT count(*) FROM cpu) FROM information_schema.tables WHERE table_name = 'cpu'"
    ).fetchall() == [("cpu", 30)]
    db.sql("DROP TABLE empty")
    assert [row[2] for row in db.sql(tables).fetchall()] == ["cpu"]


def test_what_show_does_not_know(db: tsdb.Database) -> None:
    for sql in ("SHOW FILE", "SHOW TABLES FROM cpu", "SHOW QUERIES 1", "SHOW DEVICES", "SHOW"):
        with pytest.raises(tsdb.Error):
            db.sql(sql)


def test_plans_statements_and_listings_print_whole(db: tsdb.Database) -> None:
    query = "SELECT host, time FROM cpu WHERE host <> 'h1' AND usage < 123456789 ORDER BY time DESC LIMIT 5"
    explain = f"EXPLAIN (ANALYZE, RULES, VERBOSE) {query}"
    lines = [line for (line,) in db.sql(explain).fetchall()]
    assert len(lines) > 10
    assert max(map(len, lines)) > 32
    assert str(db.sql(explain)).splitlines() == lines
    assert any(line.startswith("  ") for line in lines)
    form = db.sql("EXPLAIN (FORMAT JSON) SELECT * FROM cpu")
    assert json.loads(str(form)) == json.loads(form.fetchall()[0][0])
    assert form.text == str(form)
    statement = db.sql("SHOW CREATE TABLE cpu")
    assert str(statement) == statement.fetchall()[0][0]
    settings = db.sql("SHOW SETTINGS")
    assert all(all(str(value) in str(settings) for value in row) for row in settings.fetchall())
    assert len(str(settings).splitlines()) == 3 + len(settings.fetchall())


def test_a_text_alone_is_not_cut(db: tsdb.Database) -> None:
    assert str(db.sql("SELECT repeat('long ', 20) || 'end' AS t")).endswith("long end")
    assert "…" in str(db.sql("SELECT repeat('long ', 20) AS t, 1 AS n"))
    many = db.sql("SELECT host FROM cpu")
    assert str(many).splitlines()[13:] == ["…"]
    assert many.text is None


def test_show_of_a_table_names_what_lists_its_columns(db: tsdb.Database) -> None:
    with pytest.raises(tsdb.NotFound, match="no setting 'CPU'; DESCRIBE lists the columns"):
        db.sql("SHOW CPU")
    with pytest.raises(tsdb.NotFound, match="no setting 'cpux'; SHOW SETTINGS"):
        db.sql("SHOW cpux")


def test_live_queries_are_listed_until_they_are_closed(db: tsdb.Database) -> None:
    text = "SELECT time, usage FROM cpu"
    count = db.sql("SELECT count(*) FROM cpu").fetchall()[0][0]
    with db.stream(text, settings={"seek_to": "earliest", "stream_batch_rows": 2}) as rows:
        first = len(next(rows).fetchall())
        [(number, query, seconds, given, phase, sequence, behind)] = db.sql("SHOW QUERIES").fetchall()
        assert (query, given, phase, sequence, behind) == (text, first, "history", None, None)
        assert number > 0
        assert seconds >= 0
        while first < count:
            first += len(next(rows).fetchall())
        for host in ("late", "later"):
            db.sql(f"INSERT INTO cpu (time, host, usage) VALUES ('2030-01-01', '{host}', 1)")
        assert len(next(rows).fetchall()) == 2
        [(again, _, _, given, phase, sequence, behind)] = db.sql("SHOW QUERIES").fetchall()
        assert (again, given, phase, behind) == (number, count + 2, "live", 1)  # of the newest commit there may be more rows
    assert db.sql("SHOW QUERIES").fetchall() == []
