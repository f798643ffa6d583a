"""What joins with late columns read: the same rows in every way, and counters that say how few were taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

import tsdb
from support.quiet import without_background

FRAMES = 20_000
SELECTED = 50
KEY = "__join_late_materialization_key"
SEED = "SELECT s.frame_id, f.image, f.embedding FROM selected AS s JOIN frames AS f ON f.frame_id = s.frame_id"
OFF = {"enable_join_late_materialization": False}


@pytest.fixture(scope="module", params=["files", "memory"])
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    """Frames in an order of their own, of which every 400th is selected."""
    opened = without_background(tsdb.open(tmp_path_factory.mktemp("frames") / "db", threads=2))
    opened.sql(
        "CREATE TABLE frames (time TIMESTAMP TIME, frame_id INT64, camera STRING TAG, image BLOB, embedding VECTOR(16), n INT32, "
        "label STRING)"
    )
    opened.sql("CREATE TABLE selected (time TIMESTAMP TIME, frame_id INT64, note STRING)")
    opened.sql(
        f"""INSERT INTO frames SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 SECOND, (i * 7919) % {FRAMES}, 'camera ' || i % 3,
        repeat('p' || i, 16)::BLOB, list_transform(range(16), lambda x: (x * i)::FLOAT)::FLOAT[16], i, 'label ' || i
        FROM range({FRAMES}) t(i)"""
    )
    step = FRAMES // SELECTED
    opened.sql(
        f"INSERT INTO selected SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 DAY, i * {step}, 'note ' || i "
        f"FROM range({SELECTED}) t(i)"
    )
    if request.param == "files":
        opened.flush()
    yield opened
    opened.close()


def explained(db: tsdb.Database, sql: str, **settings: object) -> list[str]:
    return [line for (line,) in db.sql(f"EXPLAIN {sql}", settings=settings).fetchall()]


def both(db: tsdb.Database, sql: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The counters with the rule and without it; the rows are the same, and DuckDB's."""
    late, early = db.sql(sql), db.sql(sql, settings=OFF)
    found = late.fetchall()
    assert found == early.fetchall()
    assert sorted(map(repr, found)) == sorted(map(repr, db.sql(sql, settings={"enable_native_operators": False}).fetchall()))
    return late.stats, early.stats


def test_the_seed_query_takes_the_selected_rows_alone(db: tsdb.Database) -> None:
    late, early = both(db, SEED)
    assert (late["take_rows"], late["take_rows_unique"]) == (SELECTED, SELECTED)
    assert 1 <= late["take_ranges"] <= SELECTED
    assert late["take_candidates"] == FRAMES
    assert "take_rows" not in early
    lines = explained(db, SEED)
    take = next(at for at, line in enumerate(lines) if line.strip().startswith("Take"))
    assert f"[{KEY}, image AS f.image, embedding AS f.embedding]" in lines[take]
    assert lines[take + 1].strip().startswith("HashJoin")
    assert KEY in lines[take + 1]
    assert not any(KEY in line for line in explained(db, SEED, **OFF))


def test_a_scan_reads_other_columns_of_rows_with_a_partner_alone(db: tsdb.Database) -> None:
    sql = "SELECT s.note, f.label FROM selected s JOIN frames f ON f.frame_id = s.frame_id"
    late, _ = both(db, sql)
    assert late["rows_returned"] <= 2 * SELECTED
    unfiltered = db.sql(sql, settings={"enable_join_key_filter": False})
    assert len(unfiltered.fetchall()) == SELECTED
    assert unfiltered.stats["rows_returned"] == FRAMES + SELECTED
    digest = db.sql(sql, settings={"join_key_filter_max_keys": 10})
    assert len(digest.fetchall()) == SELECTED
    assert digest.stats["rows_returned"] < FRAMES // 20


def test_order_and_limit_take_only_what_they_leave(db: tsdb.Database) -> None:
    late, _ = both(db, f"{SEED} ORDER BY s.time DESC LIMIT 3")
    assert (late["take_rows"], late["take_rows_unique"]) == (3, 3)
    late, _ = both(db, f"{SEED} WHERE f.n % 2 = 1 OR f.n > 10 ORDER BY f.n LIMIT 7 OFFSET 2")
    assert late["take_rows"] == 7  # of a condition that DuckDB computes, too


def test_a_row_that_many_repeat_is_read_once(db: tsdb.Database) -> None:
    many = pd.DataFrame({"frame_id": [400, 800, 400, 400, 1200, -1] * 1000, "place": range(6000)})
    late, _ = both(db, "SELECT m.place, f.image FROM many m JOIN frames f ON f.frame_id = m.frame_id")
    assert (late["take_rows"], late["take_rows_unique"]) == (5000, 3)
    late, _ = both(db, "SELECT m.place, f.image FROM many m LEFT JOIN frames f USING (frame_id) ORDER BY m.place")
    assert (late["take_rows"], late["take_rows_unique"]) == (5000, 3)
    assert len(many) == 6000


def test_composite_keys_take_the_rows_with_both(db: tsdb.Database) -> None:
    """Keys of two columns, one of them a tag: devices without the one are left out, rows without the other read no more columns."""
    wanted = pd.DataFrame({"camera": ["camera 1", "camera 1", "camera 1", None], "n": [4, 7, 5, 10], "x": [1, 2, 3, 4]})
    late, early = both(db, "SELECT w.x, f.image, f.embedding FROM wanted w JOIN frames f ON f.camera = w.camera AND f.n = w.n")
    assert (late["take_rows"], late["take_rows_unique"]) == (2, 2)
    assert late["devices_pruned_by_key_domain"] == early["devices_pruned_by_key_domain"] == 2
    assert late["take_candidates"] <= FRAMES // 3 + 1
    left, _ = both(db, "SELECT w.x, f.image FROM wanted w LEFT JOIN frames f USING (camera, n) ORDER BY w.x")
    assert left["take_rows"] == 2
    other = "SELECT w.x, f.image FROM wanted w JOIN frames f ON f.camera = w.camera AND f.n = w.n AND f.frame_id > w.x"
    assert both(db, other)[0]["take_rows"] == 2
    assert len(wanted) == 4


def test_the_side_in_memory_defers_all_but_its_key(db: tsdb.Database) -> None:
    wanted = pd.DataFrame({"frame_id": list(range(0, 200_000, 9))})
    sql = "SELECT f.image, f.n, f.camera, f.time FROM wanted w JOIN frames f ON f.frame_id = w.frame_id"
    lines = explained(db, sql + " WHERE f.n < 9")
    assert any("image AS f.image, n AS f.n, camera AS f.camera, time AS f.time" in line for line in lines) == any(
        "build=right" in line for line in lines
    )
    both(db, sql)
    assert len(wanted) == 22_223


def test_chains_and_both_sides(db: tsdb.Database) -> None:
    sql = (
        "SELECT s.note, f.image, g.image AS other FROM selected s JOIN frames f ON f.frame_id = s.frame_id "
        "LEFT JOIN frames g ON g.n = f.n AND g.camera = 'camera 1'"
    )
    late, _ = both(db, sql)
    assert late["take_rows_unique"] < 2 * SELECTED
    assert sum(line.strip().startswith("Take") for line in explained(db, sql)) == 2
    late, _ = both(db, "SELECT a.image, b.embedding, b.image FROM frames a JOIN frames b ON a.n = b.frame_id WHERE a.n < 20")
    assert late["take_rows"] == 40


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT s.note, f.n FROM selected s JOIN frames f ON f.frame_id = s.frame_id", "neither has a BLOB or VECTOR"),
        ("SELECT note FROM selected s SEMI JOIN frames f ON f.frame_id = s.frame_id", "neither has a BLOB or VECTOR"),
        (SEED, "left side (selected) of frame_id = frame_id: declined: the other side has a BLOB"),
        (SEED, "right side (frames) of frame_id = frame_id: deferred: image, embedding (streamed)"),
        (SEED.replace("f.image, ", ""), "deferred: embedding (streamed)"),
        ("SELECT f.image, s.note FROM frames f JOIN selected s ON f.n = s.frame_id WHERE f.n = 3", "deferred: image"),
        ("SELECT f.n FROM few w JOIN frames f ON f.frame_id = w.frame_id", "no late column is wide"),
        ("SELECT f.n FROM few w JOIN frames f ON f.frame_id = w.frame_id", "declined: it is no scan of a table but a DuckQuery"),
        ("SELECT w.frame_id FROM more w LEFT JOIN frames f ON f.frame_id = w.frame_id", "no column is late"),
        ("SELECT f.note FROM more w JOIN selected f ON f.frame_id = w.frame_id", "its late columns take little memory"),
        ("SELECT f.n, f.image FROM more w JOIN frames f ON f.frame_id = w.frame_id", "deferred: n, image (held in memory)"),
        (SEED.replace("JOIN frames", "FULL JOIN frames"), None),
    ],
)
def test_explain_says_what_was_decided_and_why(db: tsdb.Database, sql: str, reason: str | None) -> None:
    few = pd.DataFrame({"frame_id": [1, 2, 3]})
    more = pd.DataFrame({"frame_id": range(2_000_000)})
    lines = explained(db, f"(VERBOSE) {sql}")
    said = [line for line in lines if line.startswith("-- join_late_materialization: ")]
    if reason is None:
        assert not said
        return
    assert any(reason in line for line in said), lines
    assert any("is off" in line for line in explained(db, f"(VERBOSE) {sql}", **OFF))
    assert len(few) < len(more)


def test_versions_deletes_and_memory(tmp_path: Path) -> None:
    db = without_background(tsdb.open(tmp_path / "db", threads=1))
    db.sql("CREATE TABLE t (time TIMESTAMP TIME, k INT64 TAG, image BLOB, n INT32)")
    db.sql("CREATE TABLE s (time TIMESTAMP TIME, k INT64, x DOUBLE)")
    for part in range(3):
        db.sql(
            f"INSERT INTO t SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 SECOND, i % 40, ('v{part} ' || i)::BLOB, "
            f"CASE WHEN i % 3 = {part} THEN i END FROM range({part * 20}, {part * 20 + 120}) r(i)"
        )
        if part < 2:
            db.flush()
    db.sql("INSERT INTO s SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 HOUR, i * 3, i / 2 FROM range(30) r(i)")
    db.sql("DELETE FROM t WHERE n % 7 = 0")
    db.sql("DELETE FROM t WHERE k = 9")
    for kind in ("JOIN", "LEFT JOIN"):
        late, _ = both(db, f"SELECT s.k, t.image, t.n FROM s {kind} t ON t.k = s.k ORDER BY s.k, t.time")
        assert late["take_rows"] == late["take_rows_unique"] > 20
    assert late["devices_pruned_by_key_domain"] > 0
    db.close()


def test_pages_without_a_key_are_not_read(tmp_path: Path) -> None:
    db = without_background(tsdb.open(tmp_path / "db", threads=1))
    db.sql("CREATE TABLE t (time TIMESTAMP TIME, k INT64, name STRING, f DOUBLE, n INT32) WITH (page_rows = 64)")
    db.sql(
        "INSERT INTO t SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 SECOND, i // 2, 'name ' || lpad((i // 5)::VARCHAR, 8, '0'), "
        "i / 4, i FROM range(6400) r(i)"
    )
    db.flush()
    few = pd.DataFrame({"k": [10, 3000], "name": ["name 00000007", "name 00001111"], "f": [5.25, 1500.0]})
    few["time"] = pd.to_datetime(["2024-01-01 00:00:07", "2024-01-01 01:40:00"]).astype("datetime64[us]")
    for column in ("k", "name", "f", "time"):
        sql = f"SELECT t.n FROM few JOIN t USING ({column})"
        late, _ = both(db, sql)
        assert late["pages_total"] == 100
        assert late["pages_read"] == 2
        assert late["pages_pruned_by_key_domain"] + late["pages_pruned_by_filter"] == 98
        assert late["pages_pruned_by_key_domain"] > 90
        off = db.sql(sql, settings={"enable_join_key_filter": False})
        assert off.stats["pages_pruned_by_key_domain"] == 0
        assert off.stats["pages_read"] == 100
    assert len(few) == 2
    db.close()


def test_what_memory_cannot_hold_is_duckdbs(db: tsdb.Database) -> None:
    sql = "SELECT a.image FROM frames a JOIN frames b ON a.n = b.n"
    assert explained(db, sql)[0].startswith("Project")
    assert explained(db, sql, memory_limit="1 MiB")[0].startswith("DuckQuery")


def test_blobs_of_every_kind_through_joins(tmp_path: Path) -> None:
    """In pages, beside others, alone, empty and NULL; in files, merged files and memory; with versions and deletes."""
    db = without_background(tsdb.open(tmp_path / "db", threads=1))
    db.sql("CREATE TABLE f (time TIMESTAMP TIME, k INT64, image BLOB, n INT32) WITH (blob_inline_max = 16, blob_packed_max = 200)")
    db.sql("CREATE TABLE s (time TIMESTAMP TIME, k INT64, w INT32)")
    random = Random(5)
    cells = ("NULL", "''::BLOB", "'x'::BLOB", "repeat('p{0}', 20)::BLOB", "repeat('q{0}', 200)::BLOB")
    for part in range(4):
        rows = [
            f"(TIMESTAMP '2024-01-01' + INTERVAL {random.randrange(80)} SECOND, {random.randrange(20)}, "
            f"{random.choice(cells).format(random.randrange(99))}, {random.choice(('NULL', random.randrange(50)))})"
            for _ in range(60)
        ]
        db.sql(f"INSERT INTO f VALUES {', '.join(rows)}")
        if part < 2:
            db.flush()
        if part == 2:
            db.compact("f")
    db.sql("INSERT INTO s SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 MINUTE, i % 25, i FROM range(60) t(i)")
    db.sql("DELETE FROM f WHERE n = 7")
    for sql in (
        "SELECT s.w, f.image, f.n FROM s JOIN f ON f.k = s.k",
        "SELECT s.w, f.image FROM s LEFT JOIN f USING (k)",
        "SELECT f.image FROM f SEMI JOIN s USING (k)",
        "SELECT f.image, g.image AS other FROM f JOIN f g ON f.n = g.k",
        "SELECT s.w FROM s JOIN f USING (k) WHERE f.image IS NULL",
    ):
        late, early = both(db, sql)
        assert late["blob_bytes_read"] <= early["blob_bytes_read"]
    assert late["blob_bytes_read"] == 0
    for sql in (
        "SELECT octet_length(f.image) FROM s JOIN f USING (k)",
        "SELECT s.w, octet_length(f.image), f.n FROM f JOIN s ON f.k = s.k",
    ):
        late, _ = both(db, sql)
        assert late["blob_bytes_read"] == 0
    late, early = both(db, "SELECT s.w, f.image FROM s JOIN f ON f.k = s.k AND s.w < 3")
    assert late["blob_bytes_skipped"] > early["blob_bytes_skipped"]
    assert 0 < late["blob_bytes_read"] < early["blob_bytes_read"] / 3
    db.close()
