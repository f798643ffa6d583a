"""Where blobs go by their size: limits of tables and of columns, what a page holds at most, and what memory does."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tsdb
import tsdb_format.payload_writer
from support.quiet import without_background
from tsdb.storage.data_file import StoredFile
from tsdb_format.errors import InvalidInput
from tsdb_format.section import HEADER

MOMENTS = pa.array(np.arange(4000).astype("M8[ms]"))


def stored(path: Path) -> list[int]:
    """The sizes of payload files without their headers."""
    return sorted(file.stat().st_size - HEADER.size for file in (path / "table").rglob("*.blob"))


def page_sizes(path: Path, column: str) -> list[int]:
    (file,) = (path / "table").rglob("*.tsf")
    return StoredFile(str(file)).page_bytes(column).tolist()


def test_limits_of_a_column(tmp_path: Path) -> None:
    with without_background(tsdb.open(tmp_path / "db")) as db:
        db.sql(
            "CREATE TABLE f (time TIMESTAMP_MS TIME, host STRING TAG, thumb BLOB FIELD WITH (blob_inline_max = '1 KiB'), "
            "image BLOB WITH (blob_inline_max = 0, blob_packed_max = 100), other BLOB) WITH (blob_inline_max = 50)"
        )
        text = db.sql("SHOW CREATE TABLE f").text
        for line in (
            "thumb BLOB         FIELD WITH (blob_inline_max = 1024, blob_packed_max = 2097152)",
            "image BLOB         FIELD WITH (blob_inline_max = 0, blob_packed_max = 100)",
            "other BLOB         FIELD\n",
            "WITH (blob_inline_max = 50)",
        ):
            assert line in text
        db.sql(text.replace("TABLE f", "TABLE again"))
        assert db.sql("SHOW CREATE TABLE again").text == text.replace("TABLE f", "TABLE again")
        blob = b"x" * 80
        rows: list[dict[str, Any]] = [{"time": 1, "host": "a", "thumb": blob, "image": blob, "other": blob}]
        rows += [{"time": 2, "host": "a", "thumb": b"y" * 2000, "image": b"y" * 200, "other": b"small"}]
        db.write("f", rows)
        db.flush()
        assert stored(tmp_path / "db") == [200, 80 + 80 + 2000]
        db.sql("ALTER TABLE f RENAME COLUMN image TO picture")
        db.sql("ALTER TABLE f ADD COLUMN more BLOB WITH (blob_packed_max = 10)")
        db.sql("ALTER TABLE f DROP COLUMN thumb")
        text = db.sql("SHOW CREATE TABLE f").text
        assert "picture BLOB         FIELD WITH (blob_inline_max = 0, blob_packed_max = 100)" in text
        assert "FIELD WITH (blob_inline_max = 50, blob_packed_max = 10)" in text
        assert "1024" not in text
        db.compact("f")
        assert db.sql("SELECT picture, other, more FROM f ORDER BY time").fetchall() == [
            (blob, blob, None),
            (b"y" * 200, b"small", None),
        ]
    with tsdb.open(tmp_path / "db", mode="r") as db:
        assert db.sql("SHOW CREATE TABLE f").text == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("image BLOB WITH (ttl = '3d')", "ttl_ns is an option of the table"),
        ("image BLOB WITH (blob_inline_max = '3 apples')", "blob_inline_max cannot be '3 apples'"),
        ("image BLOB WITH (blob_inline_max = 99999999999)", "blob_inline_max of column 'image' must be"),
        ("n INT32 WITH (blob_inline_max = 3)", "after column 'n'"),
        ("t TIMESTAMP WITH TIME ZONE", "timestamps are stored in UTC"),
    ],
)
def test_what_a_column_cannot_say(tmp_path: Path, options: str, message: str) -> None:
    with tsdb.open(tmp_path / "db") as db, pytest.raises(InvalidInput, match=message.replace("(", r"\(")):
        db.sql(f"CREATE TABLE f (time TIMESTAMP TIME, {options})")


@pytest.mark.parametrize("sizes", ["equal", "mixed"])
def test_a_page_holds_so_many_bytes_of_blobs_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: str) -> None:
    monkeypatch.setattr(tsdb_format.payload_writer, "PAGE_BLOB_BYTES_MAX", 64 * 1024)
    random = np.random.default_rng(1)
    lengths = np.full(4000, 1000) if sizes == "equal" else random.integers(0, 2000, 4000)
    blobs = [None if i % 11 == 0 else random.bytes(int(length)) for i, length in enumerate(lengths)]
    with without_background(tsdb.open(tmp_path / "db")) as db:
        db.sql("CREATE TABLE f (time TIMESTAMP_MS TIME, image BLOB) WITH (page_rows = 1024)")
        db.write("f", pa.table({"time": MOMENTS, "image": pa.array(blobs, pa.binary())}))
        db.flush()
        assert [row for (row,) in db.sql("SELECT image FROM f ORDER BY time").fetchall()] == blobs
        assert max(page_sizes(tmp_path / "db", "image")) < 110 * 1024  # descriptors of those outside among it
        outside = sum(stored(tmp_path / "db"))
        total = sum(len(blob) for blob in blobs if blob is not None)
        assert total - 4 * 64 * 1024 - 4 * 2000 <= outside <= total - 4 * 64 * 1024 + 4 * 2000
        if sizes == "mixed":  # the largest are outside
            small = db.sql("SELECT image FROM f WHERE octet_length(image) < 100")
            assert len(small.fetchall()) == sum(blob is not None and len(blob) < 100 for blob in blobs)
        db.sql("INSERT INTO f VALUES (make_timestamp_ms(5), 'new'::BLOB)")
        db.flush()
        db.compact("f")
        blobs[5] = b"new"
        assert [row for (row,) in db.sql("SELECT image FROM f ORDER BY time").fetchall()] == blobs


def test_scans_of_large_values_come_in_small_parts(tmp_path: Path) -> None:
    """32 MiB of blobs in pages, and as many vectors: a batch has a part of them."""
    count = 4000
    with without_background(tsdb.open(tmp_path / "db", threads=1)) as db:
        db.sql("CREATE TABLE f (time TIMESTAMP_MS TIME, image BLOB, v VECTOR(2048), n INT32)")
        noise = np.random.default_rng(2).bytes(8192 + count)
        images = pa.array([noise[i : i + 8192] for i in range(count)], pa.binary())
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(count * 2048, dtype=np.float32)), 2048)
        db.write("f", pa.table({"time": MOMENTS, "image": images, "v": vectors, "n": pa.array(np.arange(count, dtype=np.int32))}))
        del images, vectors
        db.flush()
        tracemalloc.start()
        sizes = [batch.num_rows for batch in db.sql("SELECT image, v FROM f WHERE n >= 0").batches()]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sum(sizes) == count
        assert max(sizes) <= 2048
        assert peak < 100 * 2**20
        for sql in ("SELECT count(image), sum(octet_length(image)) FROM f", "SELECT count(*) FROM f WHERE v IS NOT NULL"):
            assert db.sql(sql).fetchall()[0][0] == count
