"""Blobs given as files and taken as files: handles, streams, places elsewhere; what is answered without reading them."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
from pathlib import Path

import pytest

import tsdb
from tsdb.storage.check import examine
from tsdb_format.errors import Corruption

SIZES = (0, 10, 100, 1_000)


@pytest.fixture
def db(tmp_path: Path) -> tsdb.Database:
    made = tsdb.open(tmp_path / "db")
    made.sql(
        "CREATE TABLE f (time TIMESTAMP_MS TIME, host STRING TAG, image BLOB FIELD, v DOUBLE FIELD) "
        "WITH (blob_inline_max = 16, blob_packed_max = 200)"
    )
    return made


def payload(time: int) -> bytes | None:
    return None if time % 5 == 4 else bytes([time]) * SIZES[time % 5]


def fill(db: tsdb.Database, count: int = 20) -> None:
    db.write("f", [{"time": time, "host": "a", "image": payload(time), "v": float(time)} for time in range(count)])


@pytest.mark.parametrize("flushed", [False, True])
def test_handles(db: tsdb.Database, flushed: bool) -> None:
    fill(db)
    if flushed:
        db.flush()
    result = db.sql("SELECT time, image FROM f ORDER BY time DESC LIMIT 15")
    handles = result.blobs("image")
    expected = [payload(time) for time in range(19, 4, -1)]
    assert [None if each is None else each.size for each in handles] == [None if each is None else len(each) for each in expected]
    for handle, blob in zip(handles, expected, strict=True):
        if handle is None or blob is None:
            assert handle is blob
            continue
        assert handle.read() == blob
        assert handle.read() == b""
        assert handle.seek(-3, io.SEEK_END) == len(blob) - 3 if len(blob) > 2 else True
        handle.seek(0)
        assert handle.read(4) + handle.read(3) == blob[:7]
        assert handle.tell() == min(7, len(blob))
        assert handle.read_range(2, 50) == blob[2:52]
        assert handle.tell() == min(7, len(blob))
        with handle:
            pass
        with pytest.raises(tsdb.Closed):
            handle.read(1)
    kinds = {handle.kind for handle in result.blobs("image") if handle is not None}
    assert kinds == ({"INLINE", "PACKED", "DEDICATED"} if flushed else {"INLINE", "DEDICATED"})


def test_making_handles_reads_no_payload(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from tsdb_format.payload import PayloadFiles

    fill(db)
    db.flush()
    result = db.sql("SELECT image FROM f WHERE v < 12")
    with monkeypatch.context() as patch:
        patch.setattr(PayloadFiles, "open", lambda *_: pytest.fail("a payload file was opened"))
        sizes = [None if handle is None else handle.size for handle in result.blobs("image")]
    assert sizes == [None if (blob := payload(time)) is None else len(blob) for time in range(12)]


def test_a_handle_keeps_its_snapshot(db: tsdb.Database, tmp_path: Path) -> None:
    fill(db)
    db.flush()
    (handle,) = db.sql("SELECT image FROM f WHERE v = 3").blobs("image")
    assert handle is not None
    db.sql("DELETE FROM f WHERE time >= make_timestamp(0)")
    db.compact()
    assert handle.read() == payload(3)
    assert list((tmp_path / "db" / "table").rglob("*.blob"))
    handle.close()
    del handle
    gc.collect()
    db.close()
    assert not list((tmp_path / "db" / "table").rglob("*.blob"))


def test_handles_of_queries_that_compute_are_refused(db: tsdb.Database) -> None:
    fill(db)
    for text in (
        "SELECT max(image) AS image FROM f",
        "SELECT image FROM f WHERE image = 'x'::BLOB",
        "SELECT image FROM f ORDER BY image",
    ):
        with pytest.raises(tsdb.InvalidInput, match="blobs have handles where"):
            db.sql(text).blobs("image")
    with pytest.raises(tsdb.InvalidInput, match="only blobs"):
        db.sql("SELECT v FROM f").blobs("v")
    with pytest.raises(tsdb.NotFound, match="no column 'picture'"):
        db.sql("SELECT v FROM f").blobs("picture")


def test_only_surviving_rows_are_read(db: tsdb.Database) -> None:
    """Filters, TopK and the newest row by device read payloads for the rows that are left, and IS NULL for none."""
    fill(db)
    db.flush()
    for text, rows in (
        ("SELECT image FROM f WHERE v IN (2, 3)", [2, 3]),
        ("SELECT image FROM f ORDER BY time DESC LIMIT 3", [17, 18, 19]),
        ("SELECT image FROM f ORDER BY v LIMIT 4", [0, 1, 2, 3]),
        ("SELECT time FROM f WHERE image IS NULL", []),
        ("SELECT count(*) FROM f WHERE image IS NOT NULL", []),
        ("SELECT time, v FROM f", []),
        ("SELECT host, count(image) FROM f GROUP BY host", []),
        ("SELECT count(*) FILTER (image IS NULL) FROM f WHERE v > 2", []),
        ("SELECT image FROM f WHERE image IS NOT NULL AND v > 17", [18]),
    ):
        result = db.sql(text)
        result.fetchall()
        expected = sum(len(blob) for row in rows if (blob := payload(row)) is not None and len(blob) > 16)
        assert result.stats["blob_bytes_read"] == expected, text
    assert [time.microsecond // 1000 for (time,) in db.sql("SELECT time FROM f WHERE image IS NULL").fetchall()] == [4, 9, 14, 19]


def test_sizes_are_answered_without_reading(db: tsdb.Database) -> None:
    """Lengths and NULLs come from descriptors; where bytes matter too, these are read."""
    fill(db)
    db.flush()
    sizes = [None if (blob := payload(time)) is None else len(blob) for time in range(20)]
    total = sum(size for size in sizes if size is not None)
    large = sum(size for size in sizes if size is not None and size > 16)
    for text, expected, read in (
        ("SELECT octet_length(image) FROM f ORDER BY time", [(size,) for size in sizes], 0),
        (
            "SELECT octet_length(image) / 2 AS half FROM f ORDER BY time LIMIT 3",
            [(0.0,), (5.0,), (50.0,)],
            100,
        ),  # the best k are read
        ("SELECT sum(octet_length(f.image)) FROM f", [(total,)], 0),
        ("SELECT v FROM f WHERE octet_length(image) > 500 ORDER BY v", [(3.0,), (8.0,), (13.0,), (18.0,)], 0),
        ("SELECT count(image), count(*) FILTER (image IS NOT NULL) FROM f WHERE v + 0 < 100", [(16, 16)], 0),
        ("SELECT octet_length(image), md5(image) IS NULL FROM f WHERE v = 3", [(1_000, False)], 1_000),
        ("SELECT max(octet_length(image)), max(image) IS NULL FROM f", [(1_000, False)], large),
    ):
        result = db.sql(text)
        assert result.fetchall() == expected, text
        assert result.stats["blob_bytes_read"] == read, text
    assert db.sql("SELECT octet_length(image) FROM f").columns == ["octet_length(image)"]


@pytest.mark.parametrize("flushed", [False, True])
def test_blobs_from_files(db: tsdb.Database, tmp_path: Path, flushed: bool) -> None:
    for number, size in enumerate(SIZES):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number + 1]) * size)
    rows = [{"time": number, "host": "p", "image": tmp_path / f"{number}.bin"} for number in range(4)]
    rows += [{"time": 10, "host": "p", "image": None}, {"time": 11, "host": "p", "image": b"plain"}]
    db.write("f", rows)
    with (tmp_path / "3.bin").open("rb") as stream:
        stream.seek(400)
        db.write("f", {"time": [0, 1], "host": ["s", "s"], "image": [stream, io.BytesIO(b"x" * 3_000)]})
    (handle,) = db.sql("SELECT image FROM f WHERE host = 's' AND time = make_timestamp(1000)").blobs("image")
    db.write("f", [{"time": 2, "host": "s", "image": handle}])
    if flushed:
        db.flush()
    found = {}
    for host, time, image in db.sql("SELECT host, time, image FROM f").fetchall():
        found[host, time.microsecond // 1000] = image
    assert found == {
        **{("p", number): bytes([number + 1]) * size for number, size in enumerate(SIZES)}, ("p", 10): None, ("p", 11): b"plain",
        ("s", 0): bytes([4]) * 600, ("s", 1): b"x" * 3_000, ("s", 2): b"x" * 3_000,
    }  # fmt: skip


def test_large_blobs_survive_in_the_log(db: tsdb.Database, tmp_path: Path) -> None:
    """A commit holds the place of what is too large for the log; reopened, followed, backed up and overwritten."""
    db.write("f", [{"time": 1, "host": "a", "image": b"a" * 500}, {"time": 2, "host": "a", "image": b"b" * 100}])
    db.write("f", [{"time": 3, "host": "a", "image": io.BytesIO(b"c" * 700)}])
    files = sorted((tmp_path / "db" / "table").rglob("*.blob"))
    assert sorted(path.stat().st_size - 24 for path in files) == [500, 700]
    expected = [(b"a" * 500,), (b"b" * 100,), (b"c" * 700,)]
    query = "SELECT image FROM f ORDER BY time"
    with tsdb.open(tmp_path / "db", mode="r") as reader:
        assert reader.sql(query).fetchall() == expected
        reader.backup(tmp_path / "copy")
    with tsdb.open(tmp_path / "copy", mode="r") as copy:
        assert copy.sql(query).fetchall() == expected
    assert not [each for each in examine(tmp_path / "copy") if not each.note]
    db.close()
    (files[0].parent / "0000000900.blob").write_bytes(b"left by a crash")
    with tsdb.open(tmp_path / "db") as again:
        assert again.sql(query).fetchall() == expected
        assert sorted((tmp_path / "db" / "table").rglob("*.blob")) == files
        again.write("f", [{"time": 1, "host": "a", "image": b"new"}])
        again.flush()
        again.sql("SELECT 1").fetchall()
        gc.collect()
        again.compact()
        assert again.sql(query).fetchall() == [(b"new",), *expected[1:]]
        sizes = sorted(path.stat().st_size - 24 for path in (tmp_path / "db" / "table").rglob("*.blob"))
        assert sizes == [100, 700]
    assert not [each for each in examine(tmp_path / "db") if not each.note]


def test_a_write_that_fails_leaves_no_payload(db: tsdb.Database, tmp_path: Path) -> None:
    with pytest.raises(tsdb.InvalidInput):
        db.write(
            "f", [{"time": 1, "host": "a", "image": io.BytesIO(b"x" * 900)}, {"time": "not a time", "host": "a", "image": None}]
        )
    with pytest.raises(tsdb.InvalidInput, match="row 1"):
        db.write("f", [{"time": 1, "image": io.BytesIO(b"x" * 900)}, {"time": 2, "image": tmp_path / "absent"}])
    with pytest.raises(tsdb.InvalidInput, match="binary"):
        db.write("f", [{"time": 1, "image": io.StringIO("text")}])
    with pytest.raises(tsdb.InvalidInput, match="only blobs"):
        db.write("f", [{"time": 1, "v": tmp_path / "db"}])
    assert not list((tmp_path / "db").rglob("*.blob*"))


def test_external_blobs(db: tsdb.Database, tmp_path: Path) -> None:
    """A range of a file that stays its owner's: read, verified, never deleted."""
    outside = tmp_path / "camera.raw"
    outside.write_bytes(bytes(range(200)))
    rows = [
        {"time": 1, "host": "a", "image": tsdb.ExternalBlob(outside, 10, 20)},
        {"time": 2, "host": "a", "image": tsdb.ExternalBlob(outside, 150)},
        {"time": 3, "host": "a", "image": tsdb.ExternalBlob(outside)},
    ]
    db.write("f", rows)
    whole = bytes(range(200))
    expected = [(whole[10:30],), (whole[150:],), (whole,)]
    query = "SELECT image FROM f ORDER BY time"
    for act in (lambda: None, db.flush, db.compact):
        act()
        assert db.sql(query).fetchall() == expected
        assert {handle.kind for handle in db.sql(query).blobs("image") if handle is not None} == {"EXTERNAL"}
    assert not list((tmp_path / "db").rglob("*.blob"))
    outside.write_bytes(whole[:12] + b"!" + whole[13:])
    with pytest.raises(Corruption) as caught:
        db.sql("SELECT image FROM f WHERE time = make_timestamp(1000)").fetchall()
    assert (caught.value.path, caught.value.offset) == (str(outside), 10)
    assert db.sql("SELECT image FROM f WHERE time = make_timestamp(2000)").fetchall() == [expected[1]]
    with pytest.raises(tsdb.InvalidInput, match="has 200 bytes"):
        db.write("f", [{"time": 1, "image": tsdb.ExternalBlob(outside, 190, 20)}])
    db.sql("DROP TABLE f")
    db.close()
    assert outside.exists()


BOUNDED = """
import resource, sys
import tsdb

folder, source, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
db = tsdb.open(folder, memory_limit="64MB", threads=1)
db.sql("CREATE TABLE f (time TIMESTAMP_MS TIME, image BLOB FIELD, v DOUBLE FIELD)")
db.write("f", [{"time": 0, "v": 0.0}])
db.sql("SELECT v FROM f").fetchall(); db.flush()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
with open(source, "rb") as file:
    db.write("f", [{"time": 1, "image": file}])
(handle,) = db.sql("SELECT image FROM f WHERE image IS NOT NULL").blobs("image")
assert handle.size == size, handle
assert len(handle.read_range(size - 1000, 5000)) == 1000
while handle.read(1 << 20):
    pass
db.flush()
for time in range(2, 6):
    db.write("f", [{"time": 1, "v": float(time)}, {"time": time, "v": 1.0}])
    db.flush()
db.compact()
db.backup(folder + "-copy", link=False)
assert not db.check()
copy = tsdb.open(folder + "-copy", mode="r")
(handle,) = copy.sql("SELECT image FROM f WHERE image IS NOT NULL").blobs("image")
with open(source, "rb") as file:
    file.seek(size // 2)
    assert handle.read_range(size // 2, 10) == file.read(10)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
"""


def test_a_large_blob_passes_in_bounded_memory(tmp_path: Path) -> None:
    """Write, read_range, flush, compaction, check and a copying backup of 64 MiB, in a few MiB more than before."""
    size = 64 << 20
    with (tmp_path / "source").open("wb") as file:
        for number in range(64):
            file.write(bytes([number]) * (1 << 20))
    arguments = [sys.executable, "-c", BOUNDED, str(tmp_path / "db"), str(tmp_path / "source"), str(size)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < size // 2
