"""Blobs and vectors of rows that an aggregate chooses: the same as DuckDB's, and only the chosen ones are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import tsdb
from support.quiet import without_background

HOSTS = 7


@pytest.fixture(scope="module", params=[(4, "files"), (8192, "files"), (8192, "memory"), (4, "both")])
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    page_rows, place = request.param
    opened = without_background(tsdb.open(tmp_path_factory.mktemp("blobs") / "db", threads=2))
    opened.sql(
        "CREATE TABLE f (time TIMESTAMP TIME, host STRING TAG, image BLOB WITH (blob_inline_max = 16, blob_packed_max = 60), "
        f"v VECTOR(3), n INT32, x DOUBLE) WITH (page_rows = {page_rows})"
    )
    random = Random(11)
    for part in range(3):
        rows = []
        for i in range(part * 60, part * 60 + 100):
            text = f"{part}.{i}."
            image = random.choice(("NULL", "''::BLOB", f"'{text}'::BLOB", f"'{text * 6}'::BLOB", f"'{text * 20}'::BLOB"))
            vector = random.choice(("NULL", f"[{i}, {part}, 0.5]::FLOAT[3]"))
            n = random.choice(("NULL", str(i * 7919 % 1000 + 1000 * part)))  # no two are equal
            rows.append(f"(make_timestamp({i} * 1000000), 'h{i % HOSTS}', {image}, {vector}, {n}, {i / 4})")
        opened.sql(f"INSERT INTO f VALUES {', '.join(rows)}")
        if place == "files" or (place == "both" and part < 2):
            opened.flush()
    opened.sql("DELETE FROM f WHERE x = 20")
    opened.sql("DELETE FROM f WHERE host = 'h3' AND time > '1970-01-01 00:02:00'")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT host, max_by(image, n) FROM f GROUP BY host",
        "SELECT host, min_by(image, n), arg_max(v, n), count(*) FROM f GROUP BY host",
        "SELECT arg_max(image, time), arg_min(v, time) FROM f",
        "SELECT host, last(image), first(image), last(v) FROM f GROUP BY host",
        "SELECT max_by(image, n) FILTER (n < 700) FROM f WHERE n > 10",
        "SELECT date_trunc('minute', time) AS m, max_by(image, n) FROM f GROUP BY m",
        "SELECT host, max_by(image, n) AS image FROM f GROUP BY host ORDER BY host DESC LIMIT 2",
        "SELECT host, max_by(image, n) AS image FROM f GROUP BY host HAVING count(*) > 5 ORDER BY max(n) LIMIT 3 OFFSET 1",
        "SELECT time_bucket(INTERVAL 1 MINUTE, time) AS m, arg_max(image, n) AS b FROM f GROUP BY m ORDER BY m DESC LIMIT 1",
        "SELECT host, octet_length(max_by(image, n)), max_by(image, n) || 'x'::BLOB FROM f GROUP BY host",
        "WITH c AS (SELECT host, arg_max(image, n) AS image FROM f GROUP BY host) SELECT count(image), max(image) FROM c",
    ],
)
def test_chosen_blobs_and_vectors(db: tsdb.Database, sql: str) -> None:
    found, plain = db.sql(sql), db.sql(sql, settings={"enable_native_operators": False})
    rows = found.fetchall()
    assert sorted(map(repr, rows)) == sorted(map(repr, plain.fetchall()))
    assert found.columns == plain.columns
    assert any("Aggregate" in line for (line,) in db.sql(f"EXPLAIN {sql}").fetchall())
    assert found.fetchall() == rows
    flushed = db.sql("SELECT count(*) FROM f WHERE image IS NOT NULL").stats["files_total"]
    if flushed:
        assert found.stats["blob_bytes_read"] <= plain.stats["blob_bytes_read"] / 3


def test_groups_of_many_bytes_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tsdb.exec.late_payload

    monkeypatch.setattr(tsdb.exec.late_payload, "_BYTES_MAX", 1000)
    with without_background(tsdb.open(tmp_path / "db")) as db:
        db.sql("CREATE TABLE f (time TIMESTAMP TIME, host STRING TAG, image BLOB WITH (blob_inline_max = 0))")
        blob = "repeat(lpad(i::VARCHAR, 3, '0'), 100)::BLOB"
        db.sql(f"INSERT INTO f SELECT make_timestamp(i), 'h' || i % 30, {blob} FROM range(300) t(i)")
        db.flush()
        found = db.sql("SELECT host, max_by(image, time), count(*) FROM f GROUP BY host")
        batches = list(found.batches())
        assert sum(batch.num_rows for batch in batches) == 30
        assert max(batch.num_rows for batch in batches) <= 4
        assert found.stats["blob_bytes_read"] == 30 * 300
