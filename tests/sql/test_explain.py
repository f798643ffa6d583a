"""EXPLAIN says what is native, what DuckDB runs and what was pushed; plans that are kept follow the catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db") as made:
        made.sql("CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE, n INT64)")
        made.sql("INSERT INTO cpu VALUES ('2024-01-01', 'a', 1, 1), ('2024-01-02', 'b', 2, 2)")
        yield made


def _plan(db: tsdb.Database, sql: str, **settings: object) -> str:
    return "\n".join(line for (line,) in db.sql(sql, settings=settings).fetchall())


def test_what_duckdb_pushes_is_shown(db: tsdb.Database) -> None:
    sql = "EXPLAIN SELECT n + 1 FROM (SELECT * FROM cpu WHERE usage > 0.5) WHERE host = 'a' AND n IN (1, 2) AND n % 2 = 0"
    plan = _plan(db, sql)
    assert plan.startswith("DuckQuery sql=SELECT n + 1 FROM")
    assert "predicate=usage > 0.5" in plan
    assert "pushed=" in plan
    pushed = plan.partition("pushed=")[2]
    assert "host = 'a'" in pushed
    assert "n IN (1, 2)" in pushed
    assert "pushed" not in _plan(db, sql, enable_native_operators=False)
    joined = _plan(db, "EXPLAIN SELECT COLUMNS('n') FROM cpu x JOIN cpu y ON x.host = y.host AND x.n < y.n WHERE y.host = 'a'")
    assert joined.count("host = 'a'") >= 3  # the text, y's predicate, and what follows for x
    document = json.loads(_plan(db, "EXPLAIN (FORMAT JSON) " + sql.removeprefix("EXPLAIN ")))
    assert "host = 'a'" in document["children"][0]["pushed"]


def test_analyze_counts_scans_that_were_narrowed(db: tsdb.Database) -> None:
    plan = _plan(db, "EXPLAIN ANALYZE SELECT n + 1 FROM (SELECT * FROM cpu) WHERE host = 'a' AND n % 2 = 1")
    assert "devices_pruned_by_filter=1" in plan
    assert plan.endswith("rows=1")


def test_options_are_switched_on_and_off(db: tsdb.Database) -> None:
    plain, analyzed = (db.sql(f"EXPLAIN {word} SELECT * FROM cpu").fetchall() for word in ("", "ANALYZE"))
    assert plain != analyzed
    for options in ("ANALYZE FALSE", "analyze off, RULES false", "VERBOSE OFF"):
        assert db.sql(f"EXPLAIN ({options}) SELECT * FROM cpu").fetchall() == plain
    for options in ("ANALYZE", "ANALYZE TRUE", "ANALYZE on, FORMAT text", "VERBOSE FALSE, ANALYZE TRUE"):
        assert db.sql(f"EXPLAIN ({options}) SELECT * FROM cpu").fetchall() == analyzed
    with pytest.raises(tsdb.InvalidInput, match=r"expected TRUE or FALSE, not '7' \(line 1, column 18\)"):
        db.sql("EXPLAIN (ANALYZE 7) SELECT * FROM cpu")


def test_rules_show_each_step(db: tsdb.Database) -> None:
    plan = _plan(db, "EXPLAIN (RULES) SELECT host FROM cpu ORDER BY time DESC LIMIT 1")
    assert [line for line in plan.splitlines() if line.startswith("--")] == [
        "-- bind", "-- top_k", "-- narrow_scan", "-- topk_runtime_filter",
    ]  # fmt: skip


def test_kept_plans_follow_the_catalog(db: tsdb.Database) -> None:
    statements = [
        "SELECT * FROM cpu ORDER BY time LIMIT 5", "SELECT * FROM cpu WHERE n % 1 = 0", "SELECT * FROM query_table('cpu')",
        "WITH q AS (SELECT * FROM cpu) SELECT * FROM q", "SELECT count(*) FROM information_schema.columns WHERE table_name = 'cpu'",
    ]  # fmt: skip
    widths = [len(db.sql(sql).columns) for sql in statements]
    db.sql("ALTER TABLE cpu ADD COLUMN more INT64")
    assert [len(db.sql(sql).columns) for sql in statements] == [*(width + 1 for width in widths[:-1]), 1]
    assert db.sql(statements[-1]).fetchall() == [(5,)]
    db.sql("ALTER TABLE cpu RENAME COLUMN n TO number")
    with pytest.raises(tsdb.Error):
        db.sql(statements[1])
    assert "number" in db.sql(statements[0]).columns
    db.sql("ALTER TABLE cpu RENAME TO machine")
    for sql in statements[:-1]:
        with pytest.raises(tsdb.Error):
            db.sql(sql).fetchall()
    db.sql("CREATE TABLE cpu (time TIMESTAMP TIME, n VARCHAR)")
    for sql in (statements[0], statements[2], statements[3]):
        assert db.sql(sql).columns == ["time", "n"], sql
        assert db.sql(sql).fetchall() == []
    db.sql("DROP TABLE cpu")
    with pytest.raises(tsdb.NotFound):
        db.sql(statements[0])


def test_kept_plans_follow_another_process(tmp_path: Path, db: tsdb.Database) -> None:
    with tsdb.open(tmp_path / "db", mode="r") as reader:
        sql = "SELECT * FROM cpu WHERE n % 1 = 0"
        assert len(reader.sql(sql).fetchall()) == 2
        db.sql("INSERT INTO cpu VALUES ('2024-01-03', 'a', 1, 1)")
        assert len(reader.sql(sql).fetchall()) == 3
        db.sql("ALTER TABLE cpu DROP COLUMN usage")
        assert reader.sql(sql).columns == ["time", "host", "n"]


def test_settings_that_shape_plans_are_part_of_the_key(db: tsdb.Database) -> None:
    sql = "SELECT max(usage) FROM cpu"
    assert "Aggregate" in _plan(db, "EXPLAIN " + sql)
    assert db.sql(sql).fetchall() == [(2.0,)]
    db.sql("SET enable_native_operators = false")
    assert "Aggregate" not in _plan(db, "EXPLAIN " + sql)
    assert db.sql(sql)._source.__class__.__name__ == "DuckRun"
    db.sql("RESET enable_native_operators")
    assert db.sql(sql)._source.__class__.__name__ == "NativeSource"
