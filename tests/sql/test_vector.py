"""Vectors in SQL: how they come in and go out, distances in any query, and which of these are native."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tsdb
from support.quiet import without_background
from tsdb_format.errors import InvalidInput

VECTORS = np.array([[1, 2], [3, 4], [0, 0], [1, 1], [-2, 5]], np.float32)


@pytest.fixture(params=["files", "memory"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tsdb.Database]:
    with without_background(tsdb.open(tmp_path / "db")) as made:
        made.sql(
            "CREATE TABLE t (time TIMESTAMP TIME, host STRING TAG, n INT64, v VECTOR(2), image BLOB) WITH (blob_inline_max = 8)"
        )
        rows = [
            {"time": f"2026-01-01 00:00:0{number}", "host": "ab"[number % 2], "n": number, "v": vector, "image": b"picture" * 100}
            for number, vector in enumerate([*VECTORS, None])
        ]
        made.write("t", rows)
        if request.param == "files":
            made.flush()
        yield made


def plan(db: tsdb.Database, sql: str, parameters: Any = None) -> list[str]:
    return [line.strip() for (line,) in db.sql(f"EXPLAIN {sql}", parameters).fetchall()]


# ---------------------------------------------------------------------------------------------------- in and out


@pytest.mark.parametrize("given", [
    [[1, 2], [3.5, 4], None], [(1, 2), (3.5, 4), None], [np.array([1, 2]), np.array([3.5, 4], np.float32), None],
    pa.array([[1, 2], [3.5, 4], None], pa.list_(pa.float32(), 2)), pa.array([[1, 2], [3.5, 4], None], pa.list_(pa.float64())),
    pa.array([None, [1, 2], [3.5, 4], None], pa.list_(pa.float32(), 2))[1:],
    pa.chunked_array([pa.array([[1, 2]], pa.large_list(pa.float64())), pa.array([[3.5, 4], None], pa.large_list(pa.float64()))]),
    np.array([[1, 2], [3.5, 4], [0, 0]]),
], ids=["lists", "tuples", "arrays", "fixed size", "list", "slice", "chunks", "matrix"])  # fmt: skip
def test_what_vectors_may_be_written_as(tmp_path: Path, given: Any) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, v VECTOR(2))")
        db.write("t", {"time": [1, 2, 3], "v": given})
        last = [0.0, 0.0] if isinstance(given, np.ndarray) else None
        for _ in range(2):
            result = db.sql("SELECT v FROM t").arrow()
            assert result.schema.field("v").type == pa.list_(pa.float32(), 2)
            assert result.column("v").to_pylist() == [[1.0, 2.0], [3.5, 4.0], last]
            db.flush()
        again = db.sql("SELECT * FROM t")
        db.sql("CREATE TABLE u (time TIMESTAMP TIME, v VECTOR(2))")
        db.write("u", again)
        assert db.sql("SELECT * FROM u").arrow() == db.sql("SELECT * FROM t").arrow()
        frame = db.sql("SELECT v FROM t").df()
        assert frame["v"][0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("given", [[[1, 2, 3]], [[1, None]], [["a", "b"]], np.ones((1, 3)), [1.0], ["[1, 2]"], [[1e300, 1]], [[]]])
def test_what_is_no_vector_is_refused(db: tsdb.Database, given: Any) -> None:
    with pytest.raises(InvalidInput, match="'v'"):
        db.write("t", {"time": ["2027-01-01"], "host": ["a"], "v": given})
    assert db.sql("SELECT count(*) FROM t").fetchone() == (6,)


@pytest.mark.parametrize("value", [[1, 2], (1.0, 2.0), np.array([1, 2]), np.array([1, 2], np.float32)])
def test_insert_of_a_parameter(db: tsdb.Database, value: Any) -> None:
    db.sql("INSERT INTO t (time, host, v) VALUES ('2027-01-01', 'c', ?)", [value])
    db.sql("INSERT INTO t (time, host, v) VALUES ('2027-01-02', 'c', [1, 2])")
    assert db.sql("SELECT v FROM t WHERE host = 'c'").fetchall() == [((1.0, 2.0),), ((1.0, 2.0),)]


# ---------------------------------------------------------------------------------------------------- distances


@pytest.mark.parametrize(
    "target", [[1, 2], (1.0, 2.0), [np.int32(1), np.float32(2)], np.array([1, 2]), np.array([1, 2.0]), np.array([1, 2], np.float32)]
)
def test_parameters(db: tsdb.Database, target: Any) -> None:
    sql = "SELECT n, array_distance(v, ?) AS d FROM t ORDER BY d LIMIT 3"
    assert db.sql(sql, [target]).fetchall() == [(0, 0.0), (3, 1.0), (2, float(np.float32(np.sqrt(5))))]
    assert plan(db, sql, [target])[1] == "TopK keys=[array_distance(v, [1, 2])] limit=3 TOPN OPT"
    named = "SELECT n FROM t ORDER BY array_distance($target, v) DESC LIMIT 1"
    assert db.sql(named, {"target": target}).fetchall() == [(4,)]
    assert db.sql(named, {"target": target}, settings={"enable_native_operators": False}).fetchall() == [(4,)]


NATIVE = [
    ("SELECT n FROM t ORDER BY array_distance(v, [1, 2]) LIMIT 2", [(0,), (3,)]),
    ("SELECT n, array_distance(v, [1, 2]) FROM t ORDER BY 2 LIMIT 2", [(0, 0.0), (3, 1.0)]),
    ("SELECT n, array_distance(v, [1.0, 2.0]::FLOAT[2]) AS d FROM t AS x ORDER BY (d), n DESC LIMIT 1 OFFSET 1", [(3, 1.0)]),
    ("SELECT x.n FROM t AS x WHERE host = 'b' AND n > 1 ORDER BY array_distance(x.v, [1, 2]) LIMIT 1", [(3,)]),
    ("SELECT n FROM t ORDER BY array_cosine_distance(v, [2, 4]) LIMIT 1", [(0,)]),
    ("SELECT n FROM t ORDER BY array_inner_product(v, [0, 1]) DESC LIMIT 2", [(4,), (1,)]),
    ("SELECT n FROM t ORDER BY array_dot_product(v, [0, 1]) DESC LIMIT 1", [(4,)]),
    ("SELECT n FROM t ORDER BY array_negative_inner_product(v, [0, 1]) LIMIT 1", [(4,)]),
    ("SELECT n FROM t ORDER BY array_distance(v, [1, 2]) NULLS FIRST LIMIT 1", [(5,)]),
    ("SELECT n, array_distance(v, [1, 2]) AS d, array_inner_product(v, [0, 1]) AS p FROM t ORDER BY p DESC LIMIT 1",
     [(4, float(np.float32(np.sqrt(18))), 5.0)]),
    ("SELECT n FROM t WHERE array_distance(v, [1, 2]) <= 1 ORDER BY n", [(0,), (3,)]),
    ("SELECT n FROM t WHERE 3 < array_distance(v, [1, 2]) AND array_dot_product(v, [0, 1]) >= 5 OR n = 2 ORDER BY n", [(2,), (4,)]),
    ("SELECT n FROM t WHERE array_distance(v, [1, 2]) IS NULL", [(5,)]),
    ("SELECT n FROM t WHERE NOT array_distance(v, [1, 2]) BETWEEN 0 AND 2.5 ORDER BY array_distance(v, [1, 2]) LIMIT 1", [(1,)]),
    ("SELECT n, array_distance(v, [0, 0]) AS d FROM t WHERE n < 2 ORDER BY n", [(0, float(np.float32(np.sqrt(5)))), (1, 5.0)]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rows"), NATIVE, ids=[sql for sql, _ in NATIVE])
def test_native_queries(db: tsdb.Database, sql: str, rows: list[Any]) -> None:
    assert db.sql(sql).fetchall() == rows
    assert db.sql(sql, settings={"enable_native_operators": False}).fetchall() == rows
    steps = plan(db, sql)
    assert not any("DuckQuery" in step for step in steps), steps
    if "LIMIT" in sql:
        assert any(step.startswith("TopK") and step.endswith("TOPN OPT") for step in steps)
        assert steps[-1].endswith("TOPN OPT: 1")


def test_equal_looking_targets_are_different_columns(db: tsdb.Database) -> None:
    sql = "SELECT array_distance(v, [1, 2.0000001]) AS a, array_distance(v, [1, 2.0000005]) AS b FROM t WHERE n = 0"
    a, b = db.sql(sql).fetchone() or (0, 0)
    assert a == 0.0 < b


def test_the_name_of_a_distance_is_what_was_written(db: tsdb.Database) -> None:
    assert db.sql("SELECT array_distance(v, [1, 2]) FROM t LIMIT 1").columns == ["array_distance(v, [1, 2])"]


OTHERS = [
    ("SELECT n, round(array_distance(v, [1, 2]), 1) AS r FROM t ORDER BY array_distance(v, [1, 2]) LIMIT 3", "TopK"),
    ("SELECT n, array_distance(v, [1, 2]::FLOAT[2]) FROM t ORDER BY 2 LIMIT 3", "TopK"),
    ("SELECT q.n, d FROM (SELECT n, array_distance(v, [1, 2]) AS d FROM t ORDER BY d LIMIT 2) q JOIN t ON t.n = q.n + 1", "TopK"),
    ("SELECT q.* FROM (SELECT n, host, array_distance(v, [1, 2]) AS d FROM t) q JOIN t USING (n) WHERE d < 3 ORDER BY n", ""),
    ("SELECT q.* FROM t, (SELECT n, array_distance(v, [1, 2]) AS d FROM t ORDER BY 2 LIMIT 3) q WHERE t.n = q.n", "TopK"),
    ("SELECT upper(host) FROM t WHERE array_distance(v, [1, 2]) < 2 ORDER BY n", ""),
    ("SELECT host, min(array_distance(v, [1, 2])) FROM t GROUP BY host ORDER BY host", ""),
    ("SELECT count(*) FROM t WHERE array_distance(v, [1, 2]) < 3", ""),
    ("SELECT n FROM t ORDER BY array_distance(v, (SELECT v FROM t WHERE n = 3)) LIMIT 2", ""),
    ("SELECT n FROM t ORDER BY array_distance(v, [1, 2]) + n LIMIT 2", ""),
    ("SELECT a.n, b.n FROM t a, t b WHERE a.n < b.n ORDER BY array_distance(a.v, b.v), a.n, b.n LIMIT 2", ""),
    ("SELECT array_distance(v, [1, 2]::DOUBLE[2]) AS d FROM t ORDER BY d LIMIT 1", ""),
    ("SELECT n FROM t ORDER BY array_distance(v, NULL) NULLS FIRST, n LIMIT 1", ""),
    ("SELECT n FROM t ORDER BY array_distance(v, '[1, 2]') LIMIT 1", ""),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "step"), OTHERS, ids=[sql for sql, _ in OTHERS])
def test_queries_that_duckdb_takes_part_in(db: tsdb.Database, sql: str, step: str) -> None:
    rows = db.sql(sql).fetchall()
    assert rows == db.sql(sql, settings={"enable_native_operators": False}).fetchall()
    assert rows
    steps = plan(db, sql)
    assert not step or any(step in each for each in steps)


def test_the_newest_of_each_device_by_distance(db: tsdb.Database) -> None:
    sql = "SELECT DISTINCT ON (host) host, n, array_distance(v, [1, 2]) AS d FROM t WHERE v IS NOT NULL ORDER BY host, time DESC"
    assert db.sql(sql).fetchall() == db.sql(sql, settings={"enable_native_operators": False}).fetchall()


WRONG = [
    ("SELECT n FROM t ORDER BY array_distance(v, [1, 2, 3]) LIMIT 1", None, "length 3 to array with length 2"),
    ("SELECT n FROM t ORDER BY array_distance(v, ?) LIMIT 1", [[1.0]], "length 1 to array with length 2"),
    ("SELECT n FROM t ORDER BY array_distance(v, ?) LIMIT 1", [[1.0, None]], "NULL"),
    ("SELECT n FROM t ORDER BY array_distance(v, ?) LIMIT 1", [["a", "b"]], "FLOAT"),
    ("SELECT n FROM t ORDER BY array_distance(v, ?) LIMIT 1", [[1e300, 1.0]], "out of range"),
    ("SELECT n FROM t ORDER BY array_distance(v, ?) LIMIT 1", [np.ones((2, 2))], "FLOAT"),
    ("SELECT n FROM t ORDER BY array_distance(v) LIMIT 1", None, "array_distance"),
    ("SELECT n FROM t ORDER BY array_distance(n, [1, 2]) LIMIT 1", None, "array_distance"),
    ("SELECT n FROM t ORDER BY array_distance(v, [1, 2]::FLOAT[3]) LIMIT 1", None, "same size"),
]


@pytest.mark.parametrize(("sql", "parameters", "message"), WRONG)
def test_errors(db: tsdb.Database, sql: str, parameters: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        db.sql(sql, parameters).fetchall()


def test_blobs_are_read_for_the_nearest_alone(db: tsdb.Database) -> None:
    found = db.sql("SELECT n, image, v FROM t ORDER BY array_distance(v, [1, 2]) LIMIT 2")
    assert found.fetchall() == [(0, b"picture" * 100, (1.0, 2.0)), (3, b"picture" * 100, (1.0, 1.0))]
    assert found.stats["blob_bytes_read"] in (2 * 700, 0)  # what is in memory need not be read


def test_explain_analyze_counts(db: tsdb.Database) -> None:
    lines = plan(db, "ANALYZE SELECT n FROM t ORDER BY array_cosine_distance(v, [1, 2]) LIMIT 1")
    assert lines[0] == "TopK keys=[array_cosine_distance(v, [1, 2])] limit=1 TOPN OPT"
    assert {"pages_read=1", "topk_first_threshold=heap", "rows_returned=1"} <= set(lines)


def test_a_column_may_have_a_distance_s_name(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql('CREATE TABLE t (time TIMESTAMP TIME, "array_distance(v, [1, 2])" INT64, v VECTOR(2))')
        db.write("t", {"time": [1, 2], "array_distance(v, [1, 2])": [7, 8], "v": [[5, 5], [1, 2]]})
        sql = 'SELECT "array_distance(v, [1, 2])" AS n, array_distance(v, [1, 2]) AS d FROM t ORDER BY array_distance(v, [1, 2])'
        assert db.sql(sql).fetchall() == [(8, 0.0), (7, 5.0)]


def test_the_width_is_that_of_the_column_s_own_table(db: tsdb.Database) -> None:
    db.sql("CREATE TABLE other (time TIMESTAMP TIME, n INT64, v VECTOR(3))")
    db.write("other", {"time": [1], "n": [3], "v": [[1, 2, 3]]})
    sql = "SELECT array_distance(x.v, ?), array_distance(other.v, [1, 2, 4]) FROM t AS x JOIN other ON x.n = other.n"
    assert db.sql(sql, [[1, 2]]).fetchall() == [(1.0, 1.0)]


CHOOSING = [
    "SELECT DISTINCT ON (host) host, n FROM t ORDER BY host, array_distance(v, [1, 2]) DESC NULLS LAST",
    "SELECT host, n FROM t QUALIFY row_number() OVER (PARTITION BY host ORDER BY array_distance(v, [1, 2])) = 1 ORDER BY host",
    "SELECT host, arg_min(n, array_distance(v, [1, 2])) FROM t GROUP BY host ORDER BY host",
    "SELECT n FROM t WHERE v IS NOT NULL ORDER BY array_distance(v, [1, 2]), n LIMIT 2 OFFSET 1",
    ("(SELECT n FROM t ORDER BY array_distance(v, [1, 2]) LIMIT 1) "
    "UNION ALL (SELECT n FROM t ORDER BY array_distance(v, [9, 9]) LIMIT 1)"),
]  # fmt: skip


@pytest.mark.parametrize("sql", CHOOSING)
def test_what_chooses_rows_by_a_distance(db: tsdb.Database, sql: str) -> None:
    rows = db.sql(sql).fetchall()
    assert rows == db.sql(sql, settings={"enable_native_operators": False}).fetchall()
    assert rows
