"""LATEST JOIN over what is there: everywhere in a query, with native operators and without, against rows numbered by arrival."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb
from support.quiet import without_background
from tsdb_format.errors import InvalidInput, NotFound


@pytest.fixture(params=["files", "memory", "both"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tsdb.Database]:
    """Facts, and mappings of which later commits have earlier times."""
    opened = without_background(tsdb.open(tmp_path / "db", durability="off"))
    opened.sql("CREATE TABLE f (time TIMESTAMP_NS TIME, k INT64 TAG, s STRING, v INT64)")
    opened.sql("CREATE TABLE m (time TIMESTAMP_NS TIME, id INT64 TAG, k INT64, s STRING, r STRING) WITH (page_rows = 16)")
    rows = [(i, i % 5, f"s{i % 3}", i) for i in range(60)]
    opened.write("f", {name: [row[i] for row in rows] for i, name in enumerate(("time", "k", "s", "v"))})
    for commit in range(6):
        some = [(100 - commit * 10 + i, i, None if i == 3 else i % 4, f"s{i % 3}", f"r{commit}.{i}") for i in range(commit + 3)]
        opened.write("m", {name: [row[i] for row in some] for i, name in enumerate(("time", "id", "k", "s", "r"))})
        if commit == 3 and request.param == "both":
            opened.flush()
    opened.sql("DELETE FROM m WHERE id = 7")
    if request.param == "files":
        opened.flush()
    yield opened
    opened.close()


def numbered(keys: str, where: str = "TRUE") -> str:
    """The last arrived row of each key, as any SQL says it."""
    order = "_sn DESC, time DESC, id DESC"
    rows = f"SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS n FROM (SELECT *, _sn FROM m WHERE {where})"
    return f"(SELECT * FROM ({rows}) WHERE n = 1)"


CASES = {
    "columns": ("SELECT f.v, m.r FROM f INNER LATEST JOIN m ON f.k = m.k", "SELECT f.v, m.r FROM f JOIN {k} m ON f.k = m.k"),
    "left": ("SELECT f.v, m.r FROM f LEFT LATEST JOIN m ON f.k = m.k", "SELECT f.v, m.r FROM f LEFT JOIN {k} m ON f.k = m.k"),
    "outer": ("SELECT v, r FROM f LEFT OUTER LATEST JOIN m ON f.k = m.k", "SELECT v, r FROM f LEFT JOIN {k} m ON f.k = m.k"),
    "composite": (
        "SELECT f.v, m.r FROM f INNER LATEST JOIN m ON f.k = m.k AND f.s = m.s",
        "SELECT f.v, m.r FROM f JOIN {ks} m ON f.k = m.k AND f.s = m.s",
    ),
    "using": ("SELECT v, r, k FROM f INNER LATEST JOIN m USING (k)", "SELECT v, r, k FROM f JOIN {k} m USING (k)"),
    "subquery": (
        "SELECT v, r FROM f INNER LATEST JOIN (SELECT k AS j, r FROM m WHERE id < 3) AS m ON f.k = m.j",
        "SELECT v, r FROM f JOIN {some} m ON f.k = m.k",
    ),
    "computed": (
        "SELECT v, u FROM f INNER LATEST JOIN (SELECT k + 0 AS j, upper(r) AS u FROM m WHERE id + 0 < 3) AS m ON f.k = m.j",
        "SELECT v, upper(r) FROM f JOIN {some} m ON f.k = m.k",
    ),
    "aggregate of computed": (
        "SELECT u, count(*) FROM f INNER LATEST JOIN (SELECT k + 0 AS j, upper(r) AS u FROM m) AS m ON f.k = m.j GROUP BY u",
        "SELECT upper(r), count(*) FROM f JOIN {k} m ON f.k = m.k GROUP BY r",
    ),
    "aggregate": (
        "SELECT m.r, count(*), sum(f.v) FROM f INNER LATEST JOIN m ON f.k = m.k GROUP BY m.r",
        "SELECT m.r, count(*), sum(f.v) FROM f JOIN {k} m ON f.k = m.k GROUP BY m.r",
    ),
    "window": (
        "SELECT v, r, row_number() OVER (PARTITION BY r ORDER BY v) FROM f INNER LATEST JOIN m ON f.k = m.k",
        "SELECT v, r, row_number() OVER (PARTITION BY r ORDER BY v) FROM f JOIN {k} m ON f.k = m.k",
    ),
    "named": (
        "WITH mm AS (SELECT k, r FROM m) SELECT v, upper(mm.r) FROM f INNER LATEST JOIN mm ON f.k = mm.k WHERE v > 10",
        "SELECT v, upper(m.r) FROM f JOIN {k} m ON f.k = m.k WHERE v > 10",
    ),
    "where": (
        "SELECT v, r FROM f INNER LATEST JOIN m ON f.k = m.k WHERE r > 'r5' AND v % 2 = 0",
        "SELECT v, r FROM f JOIN {k} m ON f.k = m.k WHERE r > 'r5' AND v % 2 = 0",
    ),
    "two": (
        "SELECT v, a.r, b.r FROM f INNER LATEST JOIN m a ON f.k = a.k LEFT LATEST JOIN m b ON f.s = b.s",
        "SELECT v, a.r, b.r FROM f JOIN {k} a ON f.k = a.k LEFT JOIN {s} b ON f.s = b.s",
    ),
    "inside": (
        "SELECT max(v) FROM (SELECT v, r FROM f INNER LATEST JOIN m ON f.k = m.k) WHERE r LIKE 'r5%'",
        "SELECT max(v) FROM (SELECT v, r FROM f JOIN {k} m ON f.k = m.k) WHERE r LIKE 'r5%'",
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("native", [True, False])
def test_is_a_join_with_the_last_arrived_rows(db: tsdb.Database, case: str, native: bool) -> None:
    sql, plain = CASES[case]
    places = {"k": numbered("k"), "ks": numbered("k, s"), "s": numbered("s"), "some": numbered("k", "id < 3")}
    found = db.sql(sql, settings={"enable_native_operators": native}).fetchall()
    assert found
    assert sorted(map(repr, found)) == sorted(map(repr, db.sql(plain.format(**places)).fetchall()))


def test_keys_of_the_right_side_prune_the_left(db: tsdb.Database) -> None:
    result = db.sql("SELECT f.v FROM f INNER LATEST JOIN (SELECT k FROM m WHERE id = 1) m ON f.k = m.k")
    assert len(result.fetchall()) == 12
    assert result.stats["devices_pruned_by_key_domain"] == 4


def test_latest_is_a_name_where_no_join_has_it(db: tsdb.Database) -> None:
    assert db.sql("SELECT count(*) FROM f latest JOIN m ON latest.k = m.k").fetchall() != [(0,)]
    assert len(db.sql("SELECT v FROM f LATEST ON time PARTITION BY k").fetchall()) == 5


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT v FROM f INNER LATEST JOIN m ON f.k > m.k", r"equalities.*\(line 1, column 35\)"),
        ("SELECT v FROM f INNER LATEST JOIN m ON f.k = m.k OR f.s = m.s", "equalities"),
        ("SELECT v FROM f INNER LATEST JOIN m ON f.k = m.k AND m.id > 2", "equalities"),
        ("SELECT v FROM f INNER LATEST JOIN m", "equalities"),
        ("SELECT v FROM f INNER LATEST JOIN m ON f.k = m.kay", r"no column 'kay' in 'm'.*there are: time, id, k"),
        ("SELECT v FROM f INNER LATEST JOIN m USING (kk)", "no column 'kk' in 'm'"),
        ("SELECT v FROM f a LATEST JOIN m ON a.k = m.k", "INNER LATEST JOIN or LEFT LATEST JOIN"),
        ("SELECT v FROM f RIGHT LATEST JOIN m ON f.k = m.k", "INNER LATEST JOIN or LEFT LATEST JOIN"),
        ("SELECT v FROM f INNER LATEST JOIN (SELECT max(k) AS k FROM m) m ON f.k = m.k", "right side"),
        ("SELECT v FROM f INNER LATEST JOIN (SELECT k FROM m ORDER BY k + 1 LIMIT 1) m ON f.k = m.k", "right side"),
        ("SELECT v FROM f INNER LATEST JOIN (SELECT k FROM m) ON f.k = k", "alias"),
    ],
)
def test_what_it_does_not_take_is_said(db: tsdb.Database, sql: str, message: str) -> None:
    with pytest.raises((InvalidInput, NotFound), match=message):
        db.sql(sql).fetchall()
