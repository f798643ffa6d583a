"""Versioned streams: every kind of query sees the newest version of each key, by a plain model of what arrived."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pytest

import tsdb
from tsdb.exec.newest_version import newest_of

START = datetime.datetime(2024, 1, 1)
#: (key, v, w, time)
Version = tuple[str, float, int, datetime.datetime]


def _same(db: tsdb.Database, model: dict[str, Version]) -> None:
    rows = list(model.values())
    asked: list[tuple[str, list[Any]]] = [
        ("SELECT k, v, w, time FROM kv", rows),
        ("SELECT count(*), sum(w), max(v), min(time) FROM kv", [(
            len(rows), sum(w for _, _, w, _ in rows) if rows else None, max((v for _, v, _, _ in rows), default=None),
            min((time for *_, time in rows), default=None),
        )]),
        ("SELECT k, count(*), last(v ORDER BY time) FROM kv GROUP BY k", [(k, 1, v) for k, v, _, _ in rows]),
        ("SELECT time FROM kv ORDER BY time DESC LIMIT 3", [(t,) for t in sorted((r[3] for r in rows), reverse=True)[:3]]),
        ("SELECT w FROM kv ORDER BY w LIMIT 2", [(w,) for w in sorted(r[2] for r in rows)[:2]]),
        ("SELECT DISTINCT ON (k) k, w FROM kv ORDER BY k, time DESC", [(k, w) for k, _, w, _ in rows]),
        ("SELECT w FROM kv WHERE v >= 5", [(w,) for _, v, w, _ in rows if v >= 5]),
        ("SELECT k FROM kv WHERE w = (SELECT max(w) FROM kv)", [(max(rows, key=lambda row: row[2])[0],)] if rows else []),
        ("SELECT a.w FROM kv a JOIN kv b ON a.w = b.w", [(w,) for _, _, w, _ in rows]),
        ("SELECT k, date_trunc('day', time) AS d, count(*) FROM kv GROUP BY k, d",
         [(k, time.replace(hour=0, minute=0, second=0), 1) for k, _, _, time in rows]),
    ]  # fmt: skip
    for sql, wanted in asked:
        assert sorted(db.sql(sql).fetchall(), key=str) == sorted(wanted, key=str), sql
    assert len(db.sql("SHOW DEVICES FROM kv").fetchall()) == len(rows)
    (shown,) = [row for row in db.sql("SHOW TABLES").fetchall() if row[0] == "kv"]
    assert shown[1] == len(rows)
    assert shown[5] >= len(rows)


@pytest.mark.parametrize("shards", ["", "SHARDS 2 BY (k)", "SHARDS 3 BY (w)"])
@pytest.mark.parametrize("seed", range(3))
def test_queries_see_the_newest_version(tmp_path: Path, seed: int, shards: str) -> None:
    chance = random.Random(seed)
    db = tsdb.open(tmp_path / "db", threads=2)
    db.sql(
        "CREATE STREAM kv (k VARCHAR, v DOUBLE, w BIGINT, time TIMESTAMP TIME) "
        f"PRIMARY KEY k {shards} WITH (mode = 'versioned_kv', page_rows = 4)"
    )
    model: dict[str, Version] = {}
    number = 0
    for _ in range(60):
        roll = chance.random()
        if roll < 0.6:
            rows: list[Version] = []
            for _ in range(chance.randrange(1, 6)):
                number += 1
                time = START + datetime.timedelta(seconds=chance.randrange(100) * 1_000 + number)
                rows.append((f"k{chance.randrange(8)}", float(chance.randrange(10)), number, time))
            db.write("kv", [{"k": k, "v": v, "w": w, "time": time} for k, v, w, time in rows])
            model |= {row[0]: row for row in sorted(rows, key=lambda row: row[3])}
        elif roll < 0.7:
            db.flush()
        elif roll < 0.78:
            db.compact()
        elif roll < 0.84:
            db.close()
            db = tsdb.open(tmp_path / "db", threads=2)
        else:
            limit = chance.randrange(10)
            first = START + datetime.timedelta(seconds=10_000 * limit)
            last = first + datetime.timedelta(seconds=20_000)
            condition, is_gone = chance.choice([
                (f"v < {limit - 6}", lambda row, limit=limit: row[1] < limit - 6),
                (f"k = 'k{limit}'", lambda row, limit=limit: row[0] == f"k{limit}"),
                (f"time >= '{first}' AND time <= '{last}'", lambda row, first=first, last=last: first <= row[3] <= last),
                (f"k >= 'k3' AND time < '{first}'", lambda row, first=first: row[0] >= "k3" and row[3] < first),
            ])  # fmt: skip
            gone = [k for k, row in model.items() if is_gone(row)]
            assert db.sql(f"DELETE FROM kv WHERE {condition}").fetchall() == [(len(gone),)]
            for k in gone:
                del model[k]
        _same(db, model)
    with tsdb.open(tmp_path / "db", mode="r") as reader:
        _same(reader, model)
    db.close()


def test_live_queries_see_every_version_and_bounded_sides_the_newest(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE STREAM kv (k VARCHAR, v BIGINT) PRIMARY KEY k WITH (mode = 'versioned_kv')")
        db.sql("CREATE STREAM s (k VARCHAR)")
        for v in range(3):
            db.sql(f"INSERT INTO kv VALUES ('a', {v}), ('b', {10 * v})")
        with (
            db.stream("SELECT v FROM kv WHERE k = 'a'", settings={"seek_to": "earliest"}) as rows,
            db.stream("SELECT s.k, kv.v FROM s JOIN table(kv) kv ON s.k = kv.k") as joined,
        ):
            assert next(rows).fetchall() == [(0,), (1,), (2,)]
            db.sql("INSERT INTO kv VALUES ('a', 3)")
            assert next(rows).fetchall() == [(3,)]
            db.sql("INSERT INTO s VALUES ('a'), ('b')")
            assert sorted(next(joined).fetchall()) == [("a", 2), ("b", 20)]  # as of the query's start
        assert sorted(db.sql("SELECT k, v FROM kv").fetchall()) == [("a", 3), ("b", 20)]


def test_expired_versions_are_not_there(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE STREAM kv (k VARCHAR, v BIGINT, time TIMESTAMP TIME) PRIMARY KEY k WITH (mode = 'versioned_kv', ttl = '1h')")
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        db.write("kv", [{"k": "a", "v": 1, "time": now}])
        db.write("kv", [{"k": "a", "v": 2, "time": now - datetime.timedelta(hours=2)}])
        for _ in range(2):
            assert db.sql("SELECT v FROM kv").fetchall() == [(1,)]
            db.flush()
            db.compact()


def test_a_delete_of_a_stretch_of_time_takes_the_keys_in_it_alone(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE STREAM f (time TIMESTAMP_NS TIME, k INT64, v INT64) PRIMARY KEY (k) WITH (mode = 'versioned_kv')")
        db.sql("INSERT INTO f SELECT make_timestamp_ns(t), k, t FROM (VALUES (8, 1), (4, 1), (5, 2), (9, 0)) r(t, k)")
        db.sql("INSERT INTO f VALUES (make_timestamp_ns(3), 1, 3)")
        where = "time >= make_timestamp_ns(7) AND time <= make_timestamp_ns(10)"
        assert db.sql(f"DELETE FROM f WHERE k >= 0 AND {where}").fetchall() == [(1,)]
        assert sorted(db.sql("SELECT k, v FROM f").fetchall()) == [(1, 3), (2, 5)]
        assert db.sql(f"DELETE FROM f WHERE {where}").fetchall() == [(0,)]
        assert db.sql("DELETE FROM f").fetchall() == [(2,)]
        assert db.sql("SELECT count(*) FROM f").fetchall() == [(0,)]


def test_few_of_many_keys_are_read_alone(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db", threads=2) as db:
        db.sql(
            "CREATE STREAM kv (k VARCHAR, v BIGINT, text VARCHAR, data BLOB) PRIMARY KEY k SHARDS 2 BY (k) "
            "WITH (mode = 'versioned_kv', page_rows = 4, blob_inline_max = 8)"
        )
        for version in range(4):
            db.write("kv", [
                {"k": f"k{n:03}", "v": n * 10 + version, "text": f"t{version}", "data": bytes([version]) * (n % 20)}
                for n in range(400) if version < 3 or n % 7 == 0
            ])  # fmt: skip
            db.flush()
        newest = {n: 3 if n % 7 == 0 else 2 for n in range(400)}
        for n in (7, 8, 399):
            found = db.sql("SELECT v, text, data FROM kv WHERE k = ?", [f"k{n:03}"]).fetchall()
            assert found == [(n * 10 + newest[n], f"t{newest[n]}", bytes([newest[n]]) * (n % 20))]
        table = newest_of(db._opened().snapshot().tables["kv"])
        assert table is newest_of(db._opened().snapshot().tables["kv"])
        (run,) = table.files
        assert not {"v", "text"} & set(run.rows.columns.keys())  # type: ignore[union-attr]
        assert db.sql("SELECT k, v FROM kv ORDER BY v DESC LIMIT 3").fetchall() == [("k399", 3993), ("k398", 3982), ("k397", 3972)]
        assert db.sql("SELECT sum(v), count(text) FROM kv").fetchall() == [(sum(n * 10 + v for n, v in newest.items()), 400)]
        (frame,) = db.sql("SELECT data FROM kv WHERE k = 'k019'").blobs("data")
        assert frame is not None
        assert frame.read() == b"\2" * 19
