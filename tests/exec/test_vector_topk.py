"""The nearest vectors: the same rows with the filter on and off, by brute force and from DuckDB; and what was not read for them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tsdb
from support.page_case import MODES, run
from support.quiet import without_background
from support.vector_case import FUNCTIONS, VectorTable, distances, random_vectors, vector_table
from tsdb.exec.kernels import distance as kernels
from tsdb.storage.check import examine
from tsdb.storage.salvage import salvage
from tsdb_format.ball import NO_BOUND, NO_VECTOR, cut_balls, new_balls
from tsdb_format.errors import Corruption
from tsdb_format.section import Container
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import Vector
from tsdb_format.writer import MAGIC

WAYS: dict[str, dict[str, object]] = {
    "filter": {"threads": 1}, "two threads": {"threads": 2}, "no filter": {"enable_topk_runtime_filter": False},
    "DuckDB over scans": {"enable_native_operators": False},
}  # fmt: skip
CONDITIONS = ("", "WHERE host = 'b'", "WHERE n > 100", "WHERE time < '1970-01-01 00:01:00' AND note != 'r3000000'")


def shown(rows: list[tuple[Any, ...]]) -> list[str]:
    return list(map(repr, rows))


def by_brute_force(table: VectorTable, function: str, target: Any, condition: str, order: str) -> list[tuple[Any, ...]]:
    """(n, distance) of the rows that a condition leaves, in the whole order."""
    left = set(table.db.sql(f"SELECT n FROM t {condition}", settings=WAYS["DuckDB over scans"]).fetchall())
    rows = [row for row in table.rows() if (row[2],) in left]
    values: list[float | None] = [None] * len(rows)
    some = [number for number, row in enumerate(rows) if row[3] is not None]
    if some:
        found = distances(function, np.array([rows[number][3] for number in some], np.float32), target)
        for number, value in zip(some, found.tolist(), strict=True):
            values[number] = value
    down, first = "DESC" in order, "FIRST" in order

    def key(place: int) -> tuple[Any, ...]:
        value = values[place]
        if value is None:
            return (0 if first else 2, 0, 0)
        nan = value != value
        return (1, -nan if down else nan, 0.0 if nan else -value if down else value)

    return [(rows[place][2], values[place]) for place in sorted(range(len(rows)), key=key)]  # ties stay in order of storage


@pytest.mark.parametrize("kind", ["plain", "anywhere", "odd", "far"])
@pytest.mark.parametrize("where", ["files", "memory", "both"])
@pytest.mark.parametrize("page_rows", [4, 8192])
def test_every_way_gives_the_same_rows(tmp_path: Path, kind: str, where: str, page_rows: int) -> None:
    for seed, mode in enumerate(("table", "append")):
        table = vector_table(tmp_path / mode, seed, page_rows=page_rows, where=where, kind=kind, mode=mode)
        random = np.random.default_rng(seed)
        asked = list(itertools.product(FUNCTIONS, CONDITIONS))
        for number in random.permutation(len(asked))[:8].tolist():
            function, condition = asked[number]
            target = random_vectors(random, 1, table.width, kind)[0]
            order = ("", " DESC", " NULLS FIRST", " DESC NULLS FIRST")[(number + seed) % 4]
            limit, offset = int(random.integers(1, 12)), int(random.integers(0, 2)) * 7
            sql = f"SELECT n, {function}(v, ?) AS d FROM t {condition} ORDER BY d{order} LIMIT {limit} OFFSET {offset}"
            expected = by_brute_force(table, function, target, condition, order)[offset : offset + limit]
            answers = {name: table.db.sql(sql, [target], settings=settings).fetchall() for name, settings in WAYS.items()}
            assert shown(answers["filter"]) == shown(answers["two threads"]) == shown(answers["no filter"]), sql
            if kind == "odd" and "cosine" in function:
                continue  # lengths beyond floats: equal to some digits
            assert shown(answers["filter"]) == shown(expected), sql
            theirs = answers["DuckDB over scans"]  # whose ties are in any order, and products fused where its build does so
            mine = [np.array([row[1] for row in rows], np.float64) for rows in (theirs, expected)]
            np.testing.assert_allclose(*mine, rtol=1e-5, atol=1e-6, err_msg=sql)  # NULL is NaN
            if kind == "plain":  # of which every product and sum is a float
                assert shown([row[1:] for row in theirs]) == shown([row[1:] for row in expected]), sql
        table.db.close()


@pytest.mark.parametrize("where", ["files", "both"])
def test_duckdb_over_a_copy(tmp_path: Path, where: str) -> None:
    table = vector_table(tmp_path / "db", 5, page_rows=4, where=where, kind="plain")
    connection = duckdb.connect()
    copy = table.db.sql("SELECT * FROM t").arrow()
    connection.execute("CREATE TABLE t AS FROM copy")
    assert copy.num_rows > 50
    for number, function in enumerate(FUNCTIONS):
        target = [1, -1, 0.5, 2, 0, 1, 2, 1, 1][: table.width]
        text = f"{function}(v, {target}::FLOAT[{table.width}])"
        direction = "DESC" if number % 2 else ""
        sql = f"SELECT n, host, note, {text} AS d FROM t WHERE n % 3 != 1 ORDER BY {text} {direction}, host, time LIMIT 20"
        assert shown(table.db.sql(sql).fetchall()) == shown(connection.execute(sql).fetchall())
        whole = f"SELECT n, {text} AS d FROM t ORDER BY d {direction}, host, time"
        assert shown(table.db.sql(whole).fetchall()) == shown(connection.execute(whole).fetchall())
    table.db.close()


def clustered(path: Path, page_rows: int, rows: int, width: int = 6) -> tuple[tsdb.Database, Any]:
    """Twenty devices, each with a place of its own."""
    random = np.random.default_rng(1)
    db = without_background(tsdb.open(path))
    db.sql(f"CREATE TABLE t (time TIMESTAMP TIME, host INT64 TAG, n INT64, v VECTOR({width})) WITH (page_rows = {page_rows})")
    places = random.standard_normal((20, width)).astype(np.float32) * 10
    host = np.arange(rows) * 20 // rows
    vectors = places[host] + random.standard_normal((rows, width)).astype(np.float32) * np.float32(0.1)
    db.write("t", {"time": np.arange(rows) * 10**6, "host": host, "n": np.arange(rows), "v": vectors})
    return db, vectors


@pytest.mark.parametrize(("page_rows", "rows"), [(4, 2_000), (1_024, 40_000), (8_192, 100_000)])
@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize(
    ("function", "order"), [("array_distance", ""), ("array_cosine_distance", ""), ("array_inner_product", " DESC")]
)
def test_pages_far_away_are_not_read(tmp_path: Path, page_rows: int, rows: int, flushed: bool, function: str, order: str) -> None:
    db, vectors = clustered(tmp_path / "db", page_rows, rows)
    if flushed:
        db.flush()
    target = vectors[rows // 3]
    found = db.sql(f"SELECT n, {function}(v, ?) AS d FROM t ORDER BY d{order} LIMIT 5", [target])
    values = distances(function, vectors, target)
    best = np.lexsort((np.arange(rows), -values if order else values))[:5]
    assert found.fetchall() == [(int(row), float(values[row])) for row in best]
    stats = found.stats
    assert stats["topk_first_threshold"] == "heap"
    assert stats["pages_pruned_by_topk"] == stats["pages_total"] - stats["pages_read"] > stats["pages_total"] * 0.3
    assert stats["rows_read"] < rows * 0.2
    db.close()


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("where", ["files", "memory", "both"])
def test_conditions_on_a_distance(tmp_path: Path, function: str, where: str) -> None:
    for seed, kind in enumerate(("plain", "odd", "far")):
        table = vector_table(tmp_path / kind, seed, page_rows=4, where=where, kind=kind)
        target = random_vectors(np.random.default_rng(seed), 1, table.width, kind)[0]
        for limit in (0, 1, 0.25, 100.5):
            for op in ("<", "<=", ">", ">=", "=", "!="):
                sql = f"SELECT n FROM t WHERE {function}(v, ?) {op} {limit}"
                found, others = (table.db.sql(sql, [target], settings=WAYS[way]) for way in ("filter", "DuckDB over scans"))
                assert sorted(found.fetchall()) == sorted(others.fetchall()), sql
        table.db.close()


def test_pages_beyond_a_radius_are_not_read(tmp_path: Path) -> None:
    db, vectors = clustered(tmp_path / "db", 4, 1_000)
    db.flush()
    found = db.sql("SELECT n FROM t WHERE array_distance(v, ?) < 2 ORDER BY n", [vectors[333]])
    near = np.flatnonzero(distances("array_distance", vectors, vectors[333]) < 2)
    assert found.fetchall() == [(int(row),) for row in near]
    assert 0 < len(near) < 100
    assert int(found.stats["pages_pruned_by_filter"] or 0) > 200
    db.close()


def test_files_of_older_builds_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdb_format.writer.ball_sections", lambda columns: {})
    db, vectors = clustered(tmp_path / "db", 4, 1_000)
    db.flush()
    sql = "SELECT n, array_distance(v, ?) AS d FROM t ORDER BY d LIMIT 5"
    before = db.sql(sql, [vectors[400]])
    rows = before.fetchall()
    assert before.stats["pages_pruned_by_topk"] == 0
    monkeypatch.undo()
    db.write("t", {"time": [0], "host": [0], "n": [-1], "v": [vectors[0] + np.float32(1)]})
    db.flush()
    assert db.sql(sql, [vectors[400]]).fetchall() == rows
    db.compact()  # writes the balls
    after = db.sql(sql, [vectors[400]])
    assert after.fetchall() == rows
    assert int(after.stats["pages_pruned_by_topk"] or 0) > 200
    db.close()


def test_a_column_that_came_later_is_null_in_older_files(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, n INT64)")
        db.write("t", {"time": [1, 2], "n": [1, 2]})
        db.flush()
        db.sql("ALTER TABLE t ADD COLUMN v VECTOR(2)")
        db.write("t", {"time": [3], "n": [3], "v": [[1, 1]]})
        rows = db.sql("SELECT n, array_distance(v, [1, 2]) AS d FROM t ORDER BY d LIMIT 3").fetchall()
        assert rows == [(3, 1.0), (1, None), (2, None)]
        assert db.sql("SELECT n FROM t ORDER BY array_distance(v, [1, 2]) NULLS FIRST LIMIT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", ["plain", "anywhere", "odd", "far"])
def test_bounds_hold_for_every_vector(function: str, kind: str) -> None:
    random = np.random.default_rng(3)
    metric = FUNCTIONS.index(function)
    for width in (1, 2, 5, 40):
        vectors = random_vectors(random, 600, width, kind)
        validity = random.random(600) > 0.1
        balls = new_balls(cut_balls(np.array([0, 7, 300, 310, 600]), 200), ColumnType(Kind.VECTOR, width))
        balls.enclose(0, Vector(ColumnType(Kind.VECTOR, width), vectors, validity))
        assert {0, 7, 200, 300, 310, 400} <= set(balls.start.tolist())
        target = random_vectors(random, 1, width, kind)[0]
        values = np.empty(600, np.float32)
        one = np.zeros(1, np.int64)
        kernels.distances(vectors.reshape(-1), one, one + 600, target, metric, values)
        low, high = np.empty((2, len(balls.radius)))
        kernels.bounds_of_balls(balls.centroid.reshape(-1), balls.radius, target, metric, low, high)
        of = np.repeat(np.arange(len(low)), np.diff(balls.start))
        known = validity & ~(np.isinf(low) & np.isinf(high))[of]
        assert (low[of][known] <= values[known]).all()
        assert (values[known] <= high[of][known]).all()
        assert set(of[validity & ~np.isfinite(vectors).all(axis=1)]) <= set(np.flatnonzero(balls.radius == NO_BOUND))
        assert (balls.radius == NO_VECTOR).sum() == len(set(range(len(low))) - set(of[validity]))
        if kind == "far" and function == "array_distance":
            assert (known == validity).all()
        for limit in (*values[np.isfinite(values)][:8].tolist(), 0.0):
            for descending in (False, True):
                kept = np.empty(600, np.bool_)
                kernels.may_reach(vectors.reshape(-1), one, one + 600, target, metric, limit, descending, kept)
                with np.errstate(invalid="ignore"):
                    wanted = ~(values < np.float32(limit)) if descending else ~(values > np.float32(limit))
                assert (kept | ~wanted).all()
                if kind == "anywhere" and width > 1:
                    assert kept.sum() <= wanted.sum() + 6


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_kernels_in_every_mode(mode: str, function: str) -> None:
    random = np.random.default_rng(4)
    vectors = random_vectors(random, 50, 5, "anywhere")
    target = random_vectors(random, 1, 5, "anywhere")[0]
    expected = distances(function, vectors, target)
    spans = np.array([0, -1, 100]), np.array([20, 3, 30])  # between them rows that are all NULL
    arguments = vectors.reshape(-1), *spans, target, FUNCTIONS.index(function)
    values, kept = np.empty(53, np.float32), np.empty(53, np.bool_)
    run(kernels.distances, mode)(*arguments, values)
    assert np.delete(values, [20, 21, 22]).tolist() == expected.tolist()
    run(kernels.may_reach, mode)(*arguments, float(np.sort(expected)[5]), False, kept)
    assert 6 <= np.delete(kept, [20, 21, 22]).sum() <= 8
    low, high = np.empty((2, 50))
    run(kernels.bounds_of_balls, mode)(vectors.reshape(-1), np.zeros(50), target, FUNCTIONS.index(function), low, high)
    assert (low <= expected).all()
    assert (expected <= high).all()
    assert (high - low < 1e-3).all()


@pytest.mark.parametrize("section", ["ball.row_start", "centroid.4", "radius.4"])
def test_damaged_balls_are_found_and_lose_nothing(tmp_path: Path, section: str) -> None:
    db, vectors = clustered(tmp_path / "db", 4, 400)
    db.flush()
    db.close()
    sql = "SELECT n FROM t ORDER BY array_distance(v, ?) LIMIT 1"
    (path,) = (tmp_path / "db").rglob("*.tsf")
    offset, size = Container(str(path), MAGIC).extent(section)
    raw = bytearray(path.read_bytes())
    raw[offset + size // 2] ^= 1
    path.write_bytes(raw)
    with tsdb.open(tmp_path / "db", mode="r") as damaged:
        with pytest.raises(Corruption, match=section):
            damaged.sql(sql, [vectors[7]]).fetchall()
        assert damaged.sql(sql, [vectors[7]], settings=WAYS["no filter"]).fetchall() == [(7,)]
    assert [each for each in examine(tmp_path / "db") if section in each.message]
    salvage(tmp_path / "db", tmp_path / "out")
    with tsdb.open(tmp_path / "out") as out:
        found = out.sql(sql, [vectors[7]])
        assert found.fetchall() == [(7,)]
        assert int(found.stats["pages_pruned_by_topk"] or 0) > 60
        assert out.sql("SELECT count(v) FROM t").fetchone() == (400,)
