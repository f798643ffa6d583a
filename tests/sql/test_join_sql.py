"""Joins of random tables: natively, not natively, with and without late materialization and key filters, and by DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest

import tsdb
from support.join_case import Tables, joined_below, rows

#: The ways to ask for the same rows.
WAYS: tuple[dict[str, object], ...] = (
    {},
    {"enable_join_late_materialization": False},
    {"enable_join_key_filter": False},
    {"enable_native_operators": False},
    {"threads": 2},
)


@pytest.mark.parametrize("place", ["files", "memory", "split"])
@pytest.mark.parametrize("page_rows", [4, 8192])
@pytest.mark.parametrize("seed", range(2))
def test_random_joins(tmp_path: Path, seed: int, page_rows: int, place: str) -> None:
    tables = Tables(tmp_path, seed * 100 + page_rows + len(place), page_rows=page_rows, place=place)
    native = 0
    for _ in range(12):
        sql = tables.query()
        relation = tables.duck.sql(sql)
        expected = sorted(rows(relation))
        answers = [tables.db.sql(sql, settings=way) for way in WAYS]
        found = [rows(answer) for answer in answers]
        for way, answer, held in zip(WAYS, answers, found, strict=True):
            assert answer.columns == answers[3].columns, (sql, way)
            assert sorted(held) == expected, (sql, way)
        if not any("HashJoin" in line for (line,) in tables.db.sql(f"EXPLAIN {sql}").fetchall()):
            continue
        native += 1
        assert found[0] == found[1] == found[2] == found[4], sql  # the order, too
        ordered = f"{sql} ORDER BY {'a.n DESC, b.n' if 'b.n' in sql.partition(' FROM ')[0] else 'a.n'} LIMIT 5 OFFSET 1"
        limited = [rows(tables.db.sql(ordered, settings=way)) for way in WAYS if way.get("enable_native_operators", True)]
        assert all(some == limited[0] for some in limited), ordered
        assert set(limited[0]) <= set(expected)
        assert len(limited[0]) == max(min(len(expected) - 1, 5), 0)
    assert native >= 5
    tables.close()


def test_lists_that_compute_over_joins_with_frames(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db", threads=2) as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, k INT64, image BLOB)")
        db.sql("INSERT INTO t SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 SECOND, i, ('i' || i)::BLOB FROM range(5000) r(i)")
        mine = pd.DataFrame({"k": [5, 7, 7, -1], "w": [1.5, 2.5, 3.5, 4.5]})
        for sql in (
            "SELECT t.k + 1 AS next, octet_length(t.image), m.w * 2 FROM mine m JOIN t ON t.k = m.k",
            "SELECT coalesce(t.k, 0), m.w FROM mine m LEFT JOIN t ON t.k = m.k",
            "SELECT t.k, m.w AS weight, t.image || 'x'::BLOB FROM t JOIN mine m ON t.k = m.k ORDER BY m.w DESC LIMIT 2",
        ):
            found, expected = (db.sql(sql, settings={"enable_native_operators": native}) for native in (True, False))
            assert found.columns == expected.columns
            assert sorted(map(str, found.fetchall())) == sorted(map(str, expected.fetchall()))
            assert any("HashJoin" in line for (line,) in db.sql(f"EXPLAIN {sql}").fetchall())
        assert len(mine) == 4


@pytest.mark.parametrize(("seed", "place"), [(1, "files"), (2, "split"), (3, "memory"), (4, "files")])
def test_random_selects_over_joins(tmp_path: Path, seed: int, place: str) -> None:
    """Groups, windows, DISTINCT, stars and conditions that are DuckDB's, over joins that are native."""
    tables = Tables(tmp_path, 900 + seed, page_rows=4 if seed % 2 else 8192, place=place)
    native = 0
    for _ in range(25):
        sql = joined_below(tables.random)
        try:
            expected = sorted(rows(tables.duck.sql(sql)))
        except duckdb.Error:
            with pytest.raises(tsdb.Error):
                tables.db.sql(sql).fetchall()
            continue
        answers = [tables.db.sql(sql, settings=way) for way in WAYS]
        for way, answer in zip(WAYS, answers, strict=True):
            assert sorted(rows(answer)) == expected, (sql, way)
            assert answer.columns == answers[3].columns, (sql, way)
        native += any("HashJoin" in line for (line,) in tables.db.sql(f"EXPLAIN {sql}").fetchall())
    assert native >= 12
    tables.close()
