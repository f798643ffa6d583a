"""Late columns above joins of which DuckDB computes a condition: row ids go through it, wide values are read for what is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tsdb
from support.quiet import without_background
from tsdb.storage.snapshot import OpenFile

ROWS, BYTES = 120, 500
OFF = {"enable_join_late_materialization": False}
#: Queries, and how many rows they take late values of.
LATE = (
    ("SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE regexp_matches(m.name, '^ab') ORDER BY f.n DESC LIMIT 3", 3),
    ("SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE f.n % 7 = 1 AND f.n > 5 AND length(m.name) = 3 ORDER BY f.n LIMIT 4", 4),
    ("SELECT f.n, f.image FROM f LEFT JOIN m USING (cam) WHERE coalesce(length(m.name), 9) = 9 ORDER BY f.n LIMIT 3 OFFSET 2", 3),
    ("SELECT m.name, f.image FROM m RIGHT JOIN f USING (cam) WHERE m.name IS NULL OR f.n % 5 = 0 ORDER BY f.n LIMIT 6", 6),
    ("SELECT f.n + 1 AS z, f.image FROM f JOIN m ON f.cam = m.cam WHERE f.n + length(m.name) > 20 ORDER BY f.n LIMIT 2", 2),
    ("SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE sqrt(f.n) = 1e9 ORDER BY f.n LIMIT 3", 0),
    ("SELECT f.n, f.image, m.name FROM f JOIN m USING (cam) WHERE sqrt(f.n) < 2 ORDER BY f.n", 3),
    ("SELECT f.n, f.image FROM f JOIN m ON f.cam = m.cam AND f.n % 7 + length(m.name) = 4 ORDER BY f.n LIMIT 3", 3),
    ("SELECT f.n, f.image FROM f JOIN m ON f.n % 7 = 1 AND f.cam = m.cam AND f.n > 9 WHERE f.n % 2 = 0 ORDER BY f.n LIMIT 2", 2),
    ("SELECT n, image FROM f JOIN m ON f.cam = m.cam AND n % 7 = 1 LEFT JOIN m x ON x.cam = f.cam ORDER BY n DESC LIMIT 4", 4),
    ("SELECT n, image FROM f LEFT JOIN m USING (cam) JOIN m x ON f.cam = x.cam AND length(m.name) = 3 ORDER BY n LIMIT 2", 2),
)  # fmt: skip


@pytest.fixture(params=[(4, "files"), (8192, "files"), (4, "both"), (8192, "memory")], ids=str)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[tsdb.Database, duckdb.DuckDBPyConnection]]:
    """Images of cameras and names of most of these, here and in DuckDB."""
    rows_per_page, place = request.param
    db, other = without_background(tsdb.open(tmp_path / "db")), duckdb.connect()
    db.sql(
        f"CREATE TABLE f (time TIMESTAMP TIME, cam STRING TAG, n BIGINT, image BLOB) WITH "
        f"(rows_per_page = {rows_per_page}, blob_inline_max = 64)"
    )
    db.sql("CREATE TABLE m (time TIMESTAMP TIME, cam STRING TAG, name STRING)")
    n = np.arange(ROWS)
    for part in (n[: ROWS // 2], n[ROWS // 2 :], n[10:20]):
        images = [None if i % 11 == 0 else bytes([i]) * BYTES for i in part.tolist()]
        db.write("f", {"time": part, "cam": [f"c{i % 4}" for i in part.tolist()], "n": part, "image": images})
        if place == "files" or (place == "both" and part[0] == 0):
            db.flush()
    db.write("m", {"time": n[:3], "cam": ["c0", "c1", "c2"], "name": ["abc", "abd", "xyz"]})
    for name in ("f", "m"):
        frame = db.sql(f"SELECT * FROM {name}").arrow()  # noqa: F841 — DuckDB reads it by its name
        other.sql(f"CREATE TABLE {name} AS SELECT * FROM frame")
    yield db, other
    db.close()
    other.close()


@pytest.mark.parametrize(("sql", "taken"), LATE)
def test_what_is_wide_is_read_for_what_is_left(both: tuple[tsdb.Database, duckdb.DuckDBPyConnection], sql: str, taken: int) -> None:
    db, other = both
    wanted = other.sql(sql).fetchall()
    stats: list[dict[str, Any]] = []
    for settings in ({}, OFF):
        result = db.sql(sql, settings=settings)
        assert result.fetchall() == wanted
        stats.append(dict(result.stats))
    late, early = stats
    assert late["take_rows"] == taken
    assert late["blob_bytes_read"] <= taken * BYTES
    in_memory = not any(isinstance(file, OpenFile) for file in db._opened().snapshot().tables["f"].files)
    assert in_memory or early["blob_bytes_read"] > taken * BYTES


def test_a_limit_without_an_order_reads_once(both: tuple[tsdb.Database, duckdb.DuckDBPyConnection]) -> None:
    db, _ = both
    result = db.sql("SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE f.n % 7 = 1 LIMIT 3")
    assert all(n % 7 == 1 and image in (None, bytes([n]) * BYTES) for n, image in result.fetchall())
    assert result.stats["take_rows"] == 3
    assert result.stats["take_candidates"] <= ROWS


def test_parameters_and_errors_keep_their_places(both: tuple[tsdb.Database, duckdb.DuckDBPyConnection]) -> None:
    db, other = both
    condition = "f.n > ? AND regexp_matches(m.name, ?) AND f.n % ? = 1"
    sql = f"SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE {condition} ORDER BY f.n LIMIT 3"
    assert db.sql(sql, [2, "b.$", 3]).fetchall() == other.sql(sql, params=[2, "b.$", 3]).fetchall()
    with pytest.raises(tsdb.Error, match=r"no_such_function.*line 1, column 53"):
        db.sql("SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE no_such_function(m.name) ORDER BY f.n LIMIT 3").fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE octet_length(f.image) % 3 = 2 ORDER BY f.n LIMIT 3",
        "SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE f.n % 7 IN (SELECT 1) ORDER BY f.n LIMIT 3",
        "SELECT f.n, f.image FROM f JOIN m USING (cam) WHERE len(list_filter([f.n], x -> x > 50)) = 1 ORDER BY f.n LIMIT 3",
        "SELECT f.n, m.name FROM f JOIN m USING (cam) WHERE f.n % 7 = 1 ORDER BY f.n LIMIT 3",
        "SELECT f.n AS k, f.image FROM f JOIN m USING (cam) WHERE k % 7 = 1 ORDER BY f.n LIMIT 3",
        "SELECT f.n, f.image FROM f JOIN m ON f.cam = m.cam AND f.n % 7 + y.n = 1 JOIN m y ON f.cam = y.cam ORDER BY f.n LIMIT 3",
        "SELECT n, image FROM f JOIN m ON f.cam = m.cam AND n % 7 = 1 RIGHT JOIN m y ON f.cam = y.cam ORDER BY n, y.cam LIMIT 3",
        "SELECT f.n, f.image FROM f LEFT JOIN m ON f.cam = m.cam AND length(m.name) + f.n > 50 ORDER BY f.n LIMIT 3",
        "SELECT f.n, f.image FROM f JOIN m ON f.cam = m.cam AND f.n BETWEEN 3 AND 20 AND f.n % 7 = 1 ORDER BY f.n LIMIT 3",
        "SELECT f.n, f.image FROM f JOIN m ON f.cam = m.cam AND octet_length(f.image) % 3 = 2 ORDER BY f.n LIMIT 3",
        "SELECT f.n, f.image FROM f JOIN m ON f.cam = m.cam AND (SELECT f.n % 7 = 1) ORDER BY f.n LIMIT 3",
        "SELECT f.n, m.name FROM f SEMI JOIN m USING (cam) JOIN m USING (cam) WHERE f.n % 7 = 1 ORDER BY f.n LIMIT 3",
    ],
)
def test_other_conditions(both: tuple[tsdb.Database, duckdb.DuckDBPyConnection], sql: str) -> None:
    db, other = both
    try:
        wanted = other.sql(sql).fetchall()
    except duckdb.Error:
        with pytest.raises(tsdb.Error):
            db.sql(sql).fetchall()
        return
    assert db.sql(sql).fetchall() == wanted
