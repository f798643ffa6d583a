"""CREATE STREAM, and the times that rows get by themselves."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdb


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db") as made:
        yield made


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM s (k BIGINT, v DOUBLE)",
        "CREATE STREAM IF NOT EXISTS s (k BIGINT, v DOUBLE) PRIMARY KEY k SHARDS 4 BY (hash(k))",
        "CREATE STREAM s (k BIGINT, n VARCHAR, v INT, t TIMESTAMP_MS TIME, PRIMARY KEY (k, n)) SHARDS 2 BY (v % 3)",
        "CREATE STREAM s (k BIGINT, v INT) PRIMARY KEY (k) WITH (mode = 'versioned_kv', page_rows = 4)",
        "CREATE TABLE s (time TIMESTAMP_NS TIME DEFAULT now(), h VARCHAR TAG) SHARDS 3",
        "CREATE STREAM s (time TIMESTAMP TIME DEFAULT current_timestamp, x INT, o INT ATTRIBUTE) SHARDS 3 BY (x, time) TTL '3d'",
    ],
)
def test_show_create_says_what_was_created(db: tsdb.Database, statement: str) -> None:
    db.sql(statement)
    text = db.sql("SHOW CREATE TABLE s").text
    assert text is not None
    made = db._opened().table("s")
    db.sql("DROP STREAM s")
    db.sql(text)
    again = db._opened().table("s")
    assert (again.schema.columns, again.options) == (made.schema.columns, made.options)
    assert db.sql("SHOW CREATE STREAM s").text == text
    assert [row[2] for row in db.sql("DESCRIBE s").fetchall()] == [column.role.name for column in made.schema]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE STREAM s (time INT)", "without a TIME column"), ("CREATE STREAM s (k DOUBLE) PRIMARY KEY k", "must be one of"),
        ("CREATE STREAM s (k INT) WITH (mode = 'table')", "'append' or 'versioned_kv'"),
        ("CREATE STREAM s (k INT) WITH (mode = 'versioned_kv')", "needs a PRIMARY KEY"),
        ("CREATE STREAM s (a INT, b INT) PRIMARY KEY (b, a)", "as they are declared"),
        ("CREATE STREAM s (a INT, b INT TAG) PRIMARY KEY (a)", "has no others"),
        ("CREATE STREAM s (a INT FIELD) PRIMARY KEY (a)", "must be TAG or nothing"),
        ("CREATE STREAM s (a INT) PRIMARY KEY (q)", "no column"), ("CREATE STREAM s (a INT) PRIMARY KEY a PRIMARY KEY a", "twice"),
        ("CREATE STREAM s (k INT) SHARDS 4", "needs BY"), ("CREATE STREAM s (k INT) SHARDS 4 BY (random())", "same for equal rows"),
        ("CREATE STREAM s (k INT) SHARDS 4 BY (q)", "no column"), ("CREATE STREAM s (k BLOB) SHARDS 4 BY (k)", "cannot be spread"),
        ("CREATE STREAM s (k INT) SHARDS 4 BY ()", "needs a column"), ("CREATE STREAM s (k INT) SHARDS 4 BY (k", "')'"),
        ("CREATE TABLE s (t TIMESTAMP, v INT) SHARDS 2 BY (v)", "'v' is a field"),
        ("CREATE TABLE s (t TIMESTAMP, v INT) WITH (mode = 'versioned_kv')", "needs a PRIMARY KEY"),
        ("CREATE TABLE s (t TIMESTAMP, v INT) PRIMARY KEY v", "expected"), ("CREATE STREAM s AS SELECT 1", "AS is not known"),
        ("CREATE STREAM s (t TIMESTAMP TIME DEFAULT 3)", "NOW"),
    ],
)  # fmt: skip
def test_what_no_stream_can_be(db: tsdb.Database, statement: str, words: str) -> None:
    with pytest.raises(tsdb.InvalidInput, match=words.replace("(", r"\(").replace(")", r"\)")):
        db.sql(statement)
    assert db.tables() == []


def test_columns_that_others_rest_on_stay(db: tsdb.Database) -> None:
    db.sql("CREATE STREAM s (k INT, a INT, b INT) PRIMARY KEY k SHARDS 2 BY (a)")
    db.sql("CREATE STREAM x (a INT, b INT) SHARDS 2 BY (a + b)")
    for statement, words in [
        ("ALTER TABLE s DROP COLUMN a", "what rows are sharded by"), ("ALTER TABLE s DROP COLUMN k", "tag"),
        ("ALTER TABLE x RENAME COLUMN a TO c", "sharded by a"),
    ]:  # fmt: skip
        with pytest.raises(tsdb.InvalidInput, match=words):
            db.sql(statement)
    db.sql("ALTER TABLE s RENAME COLUMN a TO c")
    db.sql("ALTER TABLE s RENAME COLUMN k TO key")
    assert (db.options("s").shard_by, db.options("s").primary_key) == (("c",), ("key",))
    db.sql("INSERT INTO s (key, c, b) VALUES (1, 2, 3)")
    db.flush()
    assert db.sql("SELECT key, c, b FROM s").fetchall() == [(1, 2, 3)]


def test_rows_get_the_moment_of_their_commit_in_order_of_arrival(db: tsdb.Database, tmp_path: Path) -> None:
    db.sql("CREATE STREAM s (k BIGINT, v DOUBLE)")
    before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    db.sql("INSERT INTO s VALUES (0, 0.5), (1, 0.5), (2, 0.5)")
    db.sql("INSERT INTO s (v, k) SELECT 0.5, i FROM range(3, 6) t(i)")
    db.sql("INSERT INTO s BY NAME SELECT 6 AS k")
    db.write("s", [{"k": 7}])
    db.write("s", [{"k": 8, "time": None}, {"k": 9}])
    db.write("s", {"k": np.arange(10, 5_000), "v": np.zeros(4_990)})
    (tmp_path / "rows.csv").write_text("k,v\n5000,1\n5001,2\n")
    assert db.ingest("s", tmp_path / "rows.csv").inserted == 2
    (tmp_path / "others.csv").write_text("other\n1\n")
    with pytest.raises(tsdb.NotFound, match="shares no column"):
        db.ingest("s", tmp_path / "others.csv")
    after = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(milliseconds=1)
    rows = db.sql("SELECT k, epoch_ns(time) AS t FROM s ORDER BY time").fetchall()
    assert [k for k, _ in rows] == list(range(5_002))
    times = [t for _, t in rows]
    assert all(a < b for a, b in zip(times, times[1:], strict=False))
    epoch = datetime.datetime(1970, 1, 1)
    assert (before - epoch) // datetime.timedelta(microseconds=1) * 1_000 <= times[0]
    assert times[-1] <= (after - epoch) // datetime.timedelta(microseconds=1) * 1_000
    db.sql("INSERT INTO s VALUES (-1, 0.5, '2001-01-01')")
    assert db.sql("SELECT k, time FROM s ORDER BY time LIMIT 1").fetchall() == [(-1, datetime.datetime(2001, 1, 1))]


@pytest.mark.parametrize("act", ["INSERT INTO t (v) VALUES (1)", "INSERT INTO t VALUES (1)"])
def test_tables_without_a_default_need_their_time(db: tsdb.Database, act: str) -> None:
    db.sql("CREATE TABLE t (v BIGINT, time TIMESTAMP TIME)")
    with pytest.raises(tsdb.InvalidInput):
        db.sql(act)
    with pytest.raises(tsdb.InvalidInput, match="time"):
        db.write("t", [{"v": 1}])


def test_streams_keep_every_row(db: tsdb.Database) -> None:
    db.sql("CREATE STREAM s (time TIMESTAMP TIME, k INT) PRIMARY KEY k")
    wanted: list[Any] = []
    for _ in range(3):
        db.sql("INSERT INTO s VALUES ('2024-01-01', 1), ('2024-01-01', 1), ('2024-01-01', NULL)")
        wanted += [(datetime.datetime(2024, 1, 1), 1), (datetime.datetime(2024, 1, 1), 1), (datetime.datetime(2024, 1, 1), None)]
        db.flush()
    db.compact()
    assert sorted(db.sql("SELECT * FROM s").fetchall(), key=str) == sorted(wanted, key=str)
