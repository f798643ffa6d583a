"""Statements of many parts and of parts within parts: answered in time that grows with them, or refused at once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import tsdb


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path_factory.mktemp("large") / "db") as made:
        made.sql("CREATE TABLE t (time TIMESTAMP_MS TIME, host STRING TAG, v INT64)")
        made.sql("INSERT INTO t SELECT make_timestamp_ms(i * 1000), 'h' || (i % 7), i FROM range(3000) r(i)")
        yield made


@pytest.mark.parametrize("depth", [50, 110, 300, 450])
def test_a_deep_condition_is_answered_whoever_evaluates_it(db: tsdb.Database, depth: int) -> None:
    condition = "(v > 5 AND (v < 2000 OR " * depth + "v = 1" + "))" * depth
    assert db.sql(f"SELECT count(*) FROM t WHERE {condition}").fetchall() == [(1994,)]
    assert db.sql(f"SELECT count(*) FROM t WHERE {condition} AND v % 1 = 0").fetchall() == [(1994,)]


def test_a_long_chain_is_answered_by_the_scan(db: tsdb.Database) -> None:
    either = " OR ".join(f"(v = {at} AND host = 'h{at % 7}')" for at in range(0, 1500, 3))
    result = db.sql(f"SELECT count(*), median(v) FROM t WHERE {either}")
    assert result.fetchall() == [(500, 748.5)]


def test_thousands_of_parameters(db: tsdb.Database) -> None:
    values = list(range(2990, 9990))
    sql = f"SELECT count(*) FROM t WHERE v IN ({', '.join('?' * len(values))})"
    started = time.perf_counter()
    assert db.sql(sql, values).fetchall() == [(10,)]
    assert db.sql(f"{sql} AND v % 1 = 0", values).fetchall() == [(10,)]
    assert time.perf_counter() - started < 15


def test_parameters_inside_and_beside_what_is_replaced(db: tsdb.Database) -> None:
    sql = (
        "SELECT (SELECT count(*) FROM t WHERE v < ?), (SELECT v FROM (SELECT v FROM t WHERE host = ? ORDER BY time DESC LIMIT 1)), "
        "? + 1, (SELECT max(v) FROM t WHERE v < ?)"
    )
    assert db.sql(sql, [5, "h1", 41, 100]).fetchall() == [(5, 2997, 42, 99)]


def test_many_calls_each_computed_once(db: tsdb.Database) -> None:
    items = [f"sum(v) FILTER (WHERE v >= {at % 500})" for at in range(1000)]
    (row,) = db.sql(f"SELECT {', '.join(items)} FROM t").fetchall()
    whole = sum(range(3000))
    assert row == tuple(whole - sum(range(at % 500)) for at in range(1000))


@pytest.mark.parametrize("window", ["OVER ({})", "OVER w FROM t WINDOW w AS ({})"])
def test_a_change_in_the_definition_of_a_window_is_refused_before_its_text_doubles(db: tsdb.Database, window: str) -> None:
    inner = "v"
    for _ in range(40):
        inner = f"rate(v) OVER (ORDER BY {inner})"
    for call in ("rate(v)", "row_number()"):
        sql = f"SELECT {call} {window.format(f'ORDER BY {inner}')}" + ("" if "FROM" in window else " FROM t")
        with pytest.raises(tsdb.InvalidInput, match="rate is of a window, and stands in the definition of one"):
            db.sql(sql)


@pytest.mark.parametrize("word", ["diff", "rate", "increase", "derivative"])
def test_a_change_of_a_change_is_refused_before_its_text_doubles(db: tsdb.Database, word: str) -> None:
    with pytest.raises(tsdb.InvalidInput, match=f"{word} stands inside of {word}: compute it in a subquery"):
        db.sql(f"SELECT {f'{word}(' * 40}v{')' * 40} FROM t")


def test_a_change_of_a_change_by_subquery(db: tsdb.Database) -> None:
    inner = "SELECT host, time, diff(v) AS d FROM t"
    sql = f"SELECT sum(abs(e)), count(e) FROM (SELECT diff(d) OVER (PARTITION BY host ORDER BY time) AS e FROM ({inner}))"
    assert db.sql(sql).fetchall() == [(0, 3000 - 2 * 7)]
    assert db.sql(
        "SELECT diff(v + (SELECT max(d) FROM (SELECT diff(v) AS d FROM t))) AS d FROM t ORDER BY d LIMIT 1"
    ).fetchall() == [(7,)]


def test_explain_of_explain_is_refused_however_deep(db: tsdb.Database) -> None:
    with pytest.raises(tsdb.InvalidInput, match="EXPLAIN is for queries"):
        db.sql("EXPLAIN " * 5000 + "SELECT 1")
