"""Shards: no file has rows of two, whatever wrote it; the hash is for ever; older manifests know none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tsdb
from tsdb.catalog.shard import shards_of
from tsdb.storage import manifest
from tsdb.storage.manifest import FileEntry
from tsdb_format.payload_table import Payload
from tsdb_format.types import DATE, DOUBLE, INT64, STRING
from tsdb_format.vector import Pool, Vector

#: Shards of four that some numbers have for ever: files are left out by them.
FIXED = [0, 2, 2, 1, 1, 0, 3]


def _texts(*texts: str | None) -> Vector:
    pool = Pool.of([(text or "").encode() for text in texts])
    return Vector(STRING, np.arange(len(texts), dtype=np.int32), np.array([text is not None for text in texts]), pool)


def _hash(data: bytes) -> int:
    """``hash_bytes`` as it is written down."""
    mix, last, mask = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 2**64 - 1
    h = len(data) * mix & mask
    for at in range(0, len(data) - len(data) % 8 + 1, 8):
        h = (h ^ int.from_bytes(data[at : at + 8], "little")) * mix & mask
        h ^= h >> 32
    h = h * last & mask
    return h ^ (h >> 32)


def _shard(values: list[bytes | None], shards: int) -> int:
    h = 0
    for value in values:
        h = (h ^ (0 if value is None else _hash(value))) * 0x9E3779B97F4A7C15 % 2**64
        h ^= h >> 32
    return h % shards


def test_the_hash_is_as_it_is_written_down_and_stays_so() -> None:
    numbers = [0, 1, 2, 3, -1, 2**63 - 1, -(2**63)]
    texts = ["", "a", "host-1", "8 bytes!", "a longer text than sixteen bytes", None, "ä"]
    shards = 2**31 - 1
    raw_numbers = [number.to_bytes(8, "little", signed=True) for number in numbers]
    raw_texts = [None if text is None else text.encode() for text in texts]
    vector = Vector(INT64, np.array(numbers, np.int64))
    assert shards_of([vector], shards).tolist() == [_shard([raw], shards) for raw in raw_numbers]
    assert shards_of([_texts(*texts)], shards).tolist() == [_shard([raw], shards) for raw in raw_texts]
    pairs = [_shard([text, number], shards) for text, number in zip(raw_texts, raw_numbers, strict=True)]
    assert shards_of([_texts(*texts), vector], shards).tolist() == pairs
    assert shards_of([vector], 4).tolist() == FIXED


def test_equal_values_share_a_shard() -> None:
    reals = Vector(DOUBLE, np.array([0.0, -0.0, np.nan, np.frombuffer(b"\x01\0\0\0\0\0\xf8\xff", np.float64)[0]]))
    found = shards_of([reals], 97).tolist()
    assert found[0] == found[1]
    assert found[2] == found[3]
    days = Vector(DATE, np.array([19_000], np.int32))
    assert shards_of([days], 97).tolist() == shards_of([Vector(INT64, np.array([19_000], np.int64))], 97).tolist()
    pair = shards_of([_texts("a", "b"), _texts("b", "a")], 2**31 - 1).tolist()
    assert pair[0] != pair[1]


@pytest.mark.parametrize("by", ["k", "v", "k, v"])
def test_no_file_has_rows_of_two_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    random = np.random.default_rng(5)
    with tsdb.open(tmp_path / "db") as db:
        db.sql(
            f"CREATE STREAM s (k VARCHAR, v INT, time TIMESTAMP TIME) PRIMARY KEY k SHARDS 3 BY (hash({by})) WITH (page_rows = 4)"
        )
        monkeypatch.setattr("tsdb.storage.writer.DIRECT_ROWS", 150)
        total = 0
        for step in range(14):
            count = 200 if step % 5 == 4 else 40
            rows = [
                {"k": None if k == 6 else f"k{k}", "v": int(v), "time": int(t)}
                for k, v, t in zip(
                    random.integers(0, 7, count), random.integers(0, 5, count), random.integers(0, 100, count), strict=True
                )
            ]
            db.write("s", rows)
            total += count
            if step % 3 == 0:
                db.flush()
            if step in (6, 13):
                db.flush()
                db.compact()
            _check(db, by.split(", "))
        assert db.sql("SELECT count(*) FROM s").fetchall() == [(total,)]
        assert db.check() == []
    with tsdb.open(tmp_path / "db") as db:
        assert len(_check(db, by.split(", "))) == 3


def _check(db: tsdb.Database, names: list[str]) -> set[int]:
    found = set()
    table = db._opened().snapshot().tables["s"]
    for file in table.files:
        if file.name == "memory":
            continue
        every = np.zeros(1, np.int64), np.array([file.row_count], np.int64)
        device = np.repeat(file.device_number, np.diff(file.file.row_start))
        vectors = [table.devices.values("k").take(device) if name == "k" else file.file.read(name, *every) for name in names]
        shards = set(shards_of(vectors, 3).tolist())
        assert shards == {file.shard}  # type: ignore[union-attr]
        found |= shards
    return found


def test_check_finds_rows_of_another_shard(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE STREAM s (k BIGINT, v BIGINT) PRIMARY KEY k SHARDS 4 BY (k, v)")
        db.write("s", [{"k": k, "v": None if k % 3 == 0 else k} for k in range(40)])
        db.flush()
        db.sql("ALTER STREAM s RENAME COLUMN v TO w")
        assert db.check() == []
    name = manifest.current_name(tmp_path / "db")
    assert name is not None
    path = tmp_path / "db" / name
    document = json.loads(path.read_text().partition("\n")[0])
    files = document["tables"][0]["files"]
    assert sorted(file[-1] for file in files) == [0, 1, 2, 3]
    files[0][-1], files[1][-1] = files[1][-1], files[0][-1]
    path.write_bytes(manifest.sealed(json.dumps(document)))
    with tsdb.open(tmp_path / "db") as db:
        problems = db.check()
    assert len(problems) == 2
    assert all("are of others" in problem.message for problem in problems)


def test_manifests_tell_shards_and_older_ones_none(tmp_path: Path) -> None:
    plain = FileEntry("table/1/1.tsf", 5, 1, 100, 0, 9, 1, 2, 0)
    for entry in (
        plain, FileEntry(*plain.to_json(), shard=0), FileEntry(*plain.to_json(), (Payload("1.blob", 5, 4),)),
        FileEntry(*plain.to_json(), (Payload("1.blob", 5, 4),), 3),
    ):  # fmt: skip
        assert FileEntry.from_json(json.loads(json.dumps(entry.to_json()))) == entry
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, k VARCHAR TAG, v BIGINT)")
        db.sql("INSERT INTO t VALUES ('2024-01-01', 'a', 1)")
        db.flush()
    name = manifest.current_name(tmp_path / "db")
    assert name is not None
    path = tmp_path / "db" / name
    document = json.loads(path.read_text().partition("\n")[0])
    assert document["format"] == manifest.FORMAT
    document["format"] = 3
    for entry in document["tables"]:
        del entry["forgotten"]
    path.write_bytes(manifest.sealed(json.dumps(document)))
    with tsdb.open(tmp_path / "db") as db:
        assert db.sql("SELECT v FROM t").fetchall() == [(1,)]
        assert db._opened().entry("t").files[0].shard is None


def test_deletes_that_were_forgotten_leave_their_number(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, k VARCHAR TAG, v BIGINT)")
        db.sql("INSERT INTO t VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'a', 1)")
        db.sql("DELETE FROM t WHERE time = '2024-01-01'")
        deleted = db._opened().newest()
        assert db._opened().entry("t").forgotten == 0
        db.flush()
        assert db._opened().entry("t").forgotten == deleted
        db.sql("DELETE FROM t")
        db.flush()
        assert db._opened().entry("t").forgotten == deleted
        db.compact()
        assert db._opened().entry("t").forgotten == deleted + 1
    with tsdb.open(tmp_path / "db", mode="r") as db:
        assert db._opened().snapshot().tables["t"].forgotten == deleted + 1
