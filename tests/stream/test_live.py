"""Live queries as people use them: what they give, what they refuse, how they wait and end, and what a step reads."""

from __future__ import annotations

import asyncio
import datetime
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdb
from tsdb.stream.live import LiveQuery

EARLIEST = {"seek_to": "earliest"}
DAY = datetime.datetime(2024, 1, 1)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db", threads=2) as made:
        made.sql("CREATE STREAM s (time TIMESTAMP TIME, host VARCHAR TAG, v BIGINT) WITH (page_rows = 4)")
        made.sql("CREATE TABLE names (time TIMESTAMP TIME, host VARCHAR TAG, name VARCHAR)")
        made.sql("INSERT INTO names VALUES ('2024-01-01', 'a', 'Anna'), ('2024-01-01', 'b', 'Bob')")
        yield made


def insert(db: tsdb.Database, *rows: tuple[str, int], table: str = "s") -> None:
    db.write(table, [{"time": DAY + datetime.timedelta(seconds=v), "host": host, "v": v} for host, v in rows])


def taken(rows: LiveQuery, count: int) -> list[tuple[Any, ...]]:
    """At least so many rows."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        found += next(rows).fetchall()
    return found


# ---------------------------------------------------------------------------------------------------- what they give


NAMES = {"a": "Anna", "b": "Bob"}
#: Queries, and what they make of a row: None where that is nothing.
QUERIES: list[tuple[str, Callable[[str, int], Any]]] = [
    ("SELECT host, v FROM s", lambda host, v: (host, v)),
    ("SELECT v, v AS again, host FROM s WHERE v > 2", lambda host, v: (v, v, host) if v > 2 else None),
    ("SELECT v * 2 + 0.5 AS w FROM s WHERE v % 2 = 1", lambda host, v: (v * 2 + 0.5,) if v % 2 else None),
    (
        "SELECT s.v, n.name FROM s JOIN table(names) n ON s.host = n.host",
        lambda host, v: (v, NAMES[host]) if host in NAMES else None,
    ),
    ("SELECT v, name FROM s LEFT JOIN table(names) USING (host)", lambda host, v: (v, NAMES.get(host))),
    ("SELECT s.v FROM s ANTI JOIN table(names) n ON s.host = n.host", lambda host, v: None if host in NAMES else (v,)),
    ("SELECT v FROM table(names) n JOIN s ON s.host = n.host", lambda host, v: (v,) if host in NAMES else None),
    ("WITH x AS (SELECT v + 1 AS y, host FROM s) SELECT y FROM x WHERE y <> 3", lambda host, v: (v + 1,) if v != 2 else None),
    (
        "SELECT v FROM s WHERE host IN (SELECT host FROM table(names) WHERE name = 'Bob')",
        lambda host, v: (v,) if host == "b" else None,
    ),
    ("SELECT v FROM (SELECT * FROM s WHERE v > 1) WHERE host = $1", lambda host, v: (v,) if v > 1 and host == "b" else None),
]


@pytest.mark.parametrize(("sql", "shown"), QUERIES)
@pytest.mark.parametrize("settings", [{}, {"enable_native_operators": False}, {"stream_batch_rows": 1}])
def test_history_then_live_as_the_query_says(
    db: tsdb.Database, sql: str, shown: Callable[[str, int], Any], settings: dict[str, object]
) -> None:
    stored, later = [("a", 1), ("b", 2), ("c", 3), ("a", 4)], [("c", 5), ("a", 6), ("b", 7), ("a", 8)]
    insert(db, *stored[:2])
    db.flush()
    insert(db, *stored[2:])
    parameters = ["b"] if "$1" in sql else None
    history = [row for each in sorted(stored) if (row := shown(*each)) is not None]
    live = [row for each in later if (row := shown(*each)) is not None]
    with db.stream(sql, parameters, settings={**EARLIEST, **settings}) as rows:
        assert sorted(taken(rows, len(history))) == sorted(history)
        for each in later:
            insert(db, each)
        found = taken(rows, len(live))
        assert found == live or (sorted(found) == sorted(live) and "JOIN" in sql and "enable_native_operators" in settings)
        assert rows.columns == db.sql(sql, parameters).columns
        assert rows.types == db.sql(sql, parameters).types


def test_seek(db: tsdb.Database) -> None:
    for number in range(1, 7):
        insert(db, ("a", number))
    first = db._opened().newest() - 5  # of the six commits
    for seek, wanted in [
        ("earliest", [1, 2, 3, 4, 5, 6]), ("2024-01-01 00:00:04", [4, 5, 6]), (str(first + 2), [3, 4, 5, 6]), (first + 5, [6]),
        ("latest", []), (DAY + datetime.timedelta(seconds=6), [6]),
    ]:  # fmt: skip
        with db.stream("SELECT v FROM s", settings={"seek_to": seek}) as rows:
            insert(db, ("a", 1_000))
            assert [v for (v,) in taken(rows, len(wanted) + 1)] == [*wanted, 1_000]
        db.sql("DELETE FROM s WHERE time > '2024-01-01 00:01:00'")
    with db.stream(f"SELECT v FROM s SETTINGS seek_to = {first}") as rows:
        assert len(taken(rows, 6)) == 6
    db.sql("SET seek_to = 'earliest'")
    with db.stream("SELECT v FROM s") as rows:
        assert len(taken(rows, 6)) == 6
    with pytest.raises(tsdb.InvalidInput, match="seek_to cannot be 'yesterday'"):
        db.stream("SELECT v FROM s", settings={"seek_to": "yesterday"})


@pytest.mark.parametrize(
    ("seek", "found"), [("0001-01-01", 2), ("1600-01-01 00:00:00", 2), ("2300-01-01", 0), ("9999-12-31T23:59:59Z", 0)]
)
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"])
def test_seek_to_any_time(db: tsdb.Database, kind: str, seek: str, found: int) -> None:
    db.sql(f"CREATE STREAM x (time {kind} TIME, v BIGINT)")
    db.sql("INSERT INTO x VALUES ('1970-01-01', 1), ('2261-01-01', 2)")
    with db.stream("SELECT v FROM x", settings={"seek_to": seek}) as rows:
        db.sql("INSERT INTO x VALUES ('2000-01-01', 3)")
        assert taken(rows, found + 1) == [*[(1,), (2,)][:found], (3,)]


@pytest.mark.parametrize("seek", ["\u00b2", "\u0663", "-1", "+5", "1e5", "2024-13-01", "2024-01-01 00:00:00+02:00", "now"])
def test_seek_to_what_is_nowhere(db: tsdb.Database, seek: str) -> None:
    with pytest.raises(tsdb.InvalidInput, match="seek_to cannot be"):
        db.stream("SELECT v FROM s", settings={"seek_to": seek})


def test_blobs_and_large_commits_come_whole(db: tsdb.Database) -> None:
    db.sql("CREATE STREAM b (k INT, data BLOB, time TIMESTAMP TIME) PRIMARY KEY k WITH (blob_inline_max = 4, blob_packed_max = 64)")
    with db.stream("SELECT k, data FROM b") as rows:
        sent = [(number, bytes([number]) * (10**number)) for number in range(4)]
        for number, data in sent:
            db.write("b", [{"k": number, "data": data, "time": DAY}])
        assert taken(rows, 4) == sent
        db.flush()
    with db.stream("SELECT k, data FROM b", settings=EARLIEST) as rows:
        assert taken(rows, 4) == sent


def test_forms_of_select_over_each_batch(db: tsdb.Database) -> None:
    db.sql("CREATE STREAM p (k INT, v FLOAT[2])")
    near = "array_distance(v, [0, 0]::FLOAT[2])"
    for sql, wanted in [
        (f"SELECT k, {near} AS d FROM p", [(1, 5.0), (2, 13.0)]), (f"SELECT k FROM p WHERE {near} < 6", [(1,)]),
        ("SELECT unnest([k, -k]) FROM p WHERE k = 1", [(1,), (-1,)]),
        ("SELECT * EXCLUDE (time) FROM p", [(1, (3.0, 4.0)), (2, (5.0, 12.0))]),
        ("SELECT k, (SELECT count(*) FROM table(names)) FROM p", [(1, 2), (2, 2)]),
        ("SELECT p.k FROM p, range(2)", [(1,), (1,), (2,), (2,)]),
        ("SELECT k FROM p WHERE EXISTS (SELECT 1 FROM table(names) WHERE host = 'a')", [(1,), (2,)]),
        ("SELECT x.k FROM (SELECT k FROM p) x SEMI JOIN table(p) y ON x.k = y.k", [(1,), (2,)]),
    ]:  # fmt: skip
        db.sql("INSERT INTO p VALUES (1, [3, 4]), (2, [5, 12])")
        with db.stream(sql, settings=EARLIEST) as rows:
            assert sorted(taken(rows, len(wanted)), reverse=True) == sorted(wanted, reverse=True), sql
            db.sql("INSERT INTO p VALUES (1, [3, 4]), (2, [5, 12])")
            assert sorted(taken(rows, len(wanted)), reverse=True) == sorted(wanted, reverse=True), sql
        db.sql("DELETE FROM p")


def test_the_callers_data_is_a_bounded_side(db: tsdb.Database) -> None:
    insert(db, ("a", 1), ("z", 2))
    owners = {"host": np.array(["a", "b"], dtype=object), "owner": np.array([7, 8])}
    assert owners
    for sql, wanted in [
        ("SELECT v, owner FROM s JOIN owners USING (host)", [(1, 7)]),
        ("SELECT v + 1, owner FROM s LEFT JOIN owners USING (host)", [(2, 7), (3, None)]),
    ]:  # fmt: skip
        with db.stream(sql, settings=EARLIEST) as rows:
            assert sorted(taken(rows, len(wanted))) == wanted


def test_what_is_dropped_is_let_go(db: tsdb.Database) -> None:
    listeners = db._opened()._versions.listeners
    before = len(listeners)
    rows = db.stream("SELECT v FROM s")
    assert len(listeners) == before + 1
    gc.disable()  # nothing of it is a cycle, whose end would come within any step of any thread
    try:
        del rows
        assert len(listeners) == before
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------------------------- what they refuse


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT count(*) FROM s", "needs all rows"), ("SELECT host, max(v) FROM s GROUP BY host", "needs all rows"),
        ("SELECT * FROM s ORDER BY v", "ORDER BY"), ("SELECT * FROM s ORDER BY time LIMIT 3", "ORDER BY"),
        ("SELECT * FROM s LIMIT 3", "LIMIT"), ("SELECT DISTINCT host FROM s", "needs all rows"),
        ("SELECT v, sum(v) OVER () FROM s", "window function"), ("SELECT product(v) FROM s", "aggregate"),
        ("SELECT * FROM s, names", "follows one table"), ("SELECT * FROM table(s)", "nothing to follow"),
        ("SELECT * FROM s JOIN s AS t ON s.v = t.v", "follows one table"),
        ("SELECT * FROM table(names) n LEFT JOIN s ON s.host = n.host", "right side"),
        ("SELECT * FROM s FULL JOIN table(names) n ON s.host = n.host", "FULL"),
        ("SELECT host FROM s UNION ALL SELECT host FROM table(names)", "UNION"),
        ("SELECT (SELECT max(v) FROM s) FROM table(names)", "needs all rows"),
        ("SELECT * FROM table(names) WHERE host IN (SELECT host FROM s)", "live"),
        ("SELECT * FROM (SELECT v FROM s ORDER BY v LIMIT 2)", "needs all rows"),
        ("WITH x AS (SELECT v FROM s) SELECT sum(v) FROM x", "needs all rows"),
        ("SELECT * FROM s TABLESAMPLE 10%", "TABLESAMPLE"), ("SELECT * FROM s USING SAMPLE 3", "needs all rows"),
        ("PIVOT s ON host USING sum(v)", "cannot be followed"),
        ("SELECT * FROM table(names), (SELECT max(v) FROM s)", "needs all rows"),
        ("INSERT INTO s VALUES (1)", "only queries"), ("SELECT 1", "nothing to follow"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("native", [True, False])
def test_what_needs_all_rows_is_refused(db: tsdb.Database, sql: str, words: str, native: bool) -> None:
    with pytest.raises(tsdb.InvalidInput, match=words):
        db.stream(sql, settings={"enable_native_operators": native})


def test_names_that_are_unknown_are_told_as_they_are_written(db: tsdb.Database) -> None:
    for text in ("SELECT v FROM qqqqqqq", "SELECT v FROM s, table(qqqqqqq)"):
        with pytest.raises(tsdb.NotFound) as found:
            db.stream(text)
        assert "there are: " in str(found.value)
        assert "table(" not in str(found.value), text


def test_tokens_that_fit_nothing(db: tsdb.Database) -> None:
    insert(db, ("a", 1))
    with db.stream("SELECT v FROM s", settings=EARLIEST) as rows:
        next(rows)
        token = rows.token
    db.sql("INSERT INTO names VALUES ('2024-01-01', 'c', 'Carl')")
    for wrong, words in [("nonsense", "no resume token"), ("", "no resume token"), (token, "not of table 'names'")]:
        with pytest.raises(tsdb.InvalidInput, match=words):
            db.stream("SELECT name FROM names", resume=wrong)
    db.sql("DROP STREAM s")
    db.sql("CREATE STREAM s (v BIGINT)")
    with pytest.raises(tsdb.InvalidInput, match="not of table 's'"):
        db.stream("SELECT v FROM s", resume=token)


# ---------------------------------------------------------------------------------------------------- waiting and ending


def test_close_from_another_thread_wakes_who_waits(db: tsdb.Database) -> None:
    for end in (lambda rows: rows.close(), lambda _: db.close()):
        rows = db.stream("SELECT v FROM s")
        found: list[Any] = []
        waiting = threading.Thread(target=lambda rows=rows, found=found: found.extend(rows))
        waiting.start()
        insert(db, ("a", 1))
        end(rows)
        waiting.join(timeout=30)
        assert not waiting.is_alive()
        assert rows.closed
        assert list(rows) == []


def test_who_is_ended_by_the_database_may_open_it_again(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(db, ("a", 1))
    rows, opened = db.stream("SELECT v FROM s"), []

    def follow() -> None:
        assert list(rows) == []
        opened.append(tsdb.open(db.path))

    versions = db._opened()._versions
    closes, ended = versions.close, threading.Event()
    finish = rows._pipeline.close
    monkeypatch.setattr(rows._pipeline.__class__, "close", lambda _: (finish(), ended.set()))
    monkeypatch.setattr(versions, "close", lambda: (ended.wait(30), closes()))  # the lock is let go after it
    waiting = threading.Thread(target=follow)
    waiting.start()
    db.close()
    waiting.join(timeout=30)
    assert [each.closed for each in opened] == [False]
    opened[0].close()


def test_a_table_that_goes_ends_the_query(db: tsdb.Database) -> None:
    with db.stream("SELECT v, host FROM s") as rows:
        insert(db, ("a", 1))
        db.sql("ALTER TABLE s ADD COLUMN more DOUBLE")
        insert(db, ("a", 2))
        assert taken(rows, 2) == [(1, "a"), (2, "a")]
        db.sql("ALTER TABLE s RENAME COLUMN v TO w")
        db.write("s", [{"time": DAY, "host": "b", "w": 3}])
        with pytest.raises(tsdb.InvalidInput, match="column 'v'"):
            next(rows)
        assert rows.closed
    with db.stream("SELECT w FROM s") as rows:
        db.sql("DROP TABLE s")
        db.sql("INSERT INTO names VALUES ('2024-01-02', 'b', 'Bo')")
        with pytest.raises(tsdb.NotFound, match="dropped"):
            next(rows)


GONE = [
    ("DROP STREAM s", tsdb.NotFound, "was dropped"),
    ("ALTER TABLE s RENAME TO other", tsdb.NotFound, "was dropped or renamed"),
    ("ALTER TABLE s RENAME COLUMN v TO w", tsdb.InvalidInput, "column 'v'"),
    ("ALTER TABLE s DROP COLUMN v", tsdb.InvalidInput, "column 'v'"),
    ("ALTER TABLE s RENAME COLUMN host TO place", tsdb.InvalidInput, "column 'host'"),
    ("DROP STREAM m", tsdb.NotFound, "'m' was dropped"),
    ("ALTER TABLE m DROP COLUMN site", tsdb.InvalidInput, "column 'site'"),
]


@pytest.mark.parametrize("phase", ["history", "live"])
@pytest.mark.parametrize("mode", ["rw", "r"])
@pytest.mark.parametrize(("ddl", "error", "words"), GONE)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT host, v FROM s",
        "SELECT s.v, m.site FROM s INNER LATEST JOIN m ON s.host = m.host",
        "SELECT window_start, host, sum(v) AS v FROM TUMBLE(s, time, 1s) GROUP BY window_start, host",
    ],
)
def test_what_goes_ends_the_query_though_nothing_is_committed(
    db: tsdb.Database, sql: str, ddl: str, error: type[tsdb.Error], words: str, mode: str, phase: str
) -> None:
    db.sql("CREATE STREAM m (time TIMESTAMP TIME, host VARCHAR, site VARCHAR)")
    db.sql("INSERT INTO m VALUES ('2024-01-01', 'a', 'north')")
    if " m " in ddl + " " and "LATEST" not in sql:
        return
    with (
        tsdb.open(db.path, mode="r") if mode == "r" else nullcontext(db) as beside,
        beside.stream(sql, settings={**EARLIEST, "watermark_idle_timeout": "never"}) as rows,
    ):
        if phase == "live":
            insert(db, ("a", 1), ("a", 2))
            next(rows)
        db.sql(ddl)
        with pytest.raises(error, match=words):
            for _ in rows:
                pass
        assert rows.closed


def test_asyncio(db: tsdb.Database) -> None:
    async def follow() -> list[int]:
        found: list[int] = []
        async with db.stream("SELECT v FROM s") as rows:
            for number in range(3):
                insert(db, ("a", number))
            async for batch in rows:
                found += [v for (v,) in batch.fetchall()]
                if len(found) == 3:
                    break
        assert rows.closed
        assert [batch async for batch in rows] == []
        return found

    async def cancel() -> None:
        rows = db.stream("SELECT v FROM s")
        waiting = asyncio.ensure_future(rows.__anext__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert rows.closed

    assert asyncio.run(follow()) == [0, 1, 2]
    asyncio.run(cancel())


def test_an_idle_query_pins_no_files(db: tsdb.Database) -> None:
    for number in range(3):
        insert(db, ("a", number))
        db.flush()
    with db.stream("SELECT v FROM s", settings=EARLIEST) as rows:
        assert len(taken(rows, 3)) == 3
        insert(db, ("a", 9))
        assert taken(rows, 1) == [(9,)]
        before = {file.name for file in db._opened().entry("s").files}
        waiting = threading.Thread(target=next, args=(rows, None))
        waiting.start()
        db.compact()
        folder = Path(db.path)
        gone = before - {file.name for file in db._opened().entry("s").files}
        assert gone
        rows.close()
        waiting.join(timeout=30)
        db._opened().writer.reclaim()
        assert not any((folder / name).exists() for name in gone)


# ---------------------------------------------------------------------------------------------------- what they read


@pytest.mark.parametrize("mode", ["append", "table"])
def test_a_step_opens_no_old_file(db: tsdb.Database, mode: str) -> None:
    db.sql(f"CREATE TABLE t (time TIMESTAMP TIME, host VARCHAR TAG, v BIGINT) WITH (mode = '{mode}', page_rows = 4)")
    for start in range(0, 60, 20):
        insert(db, *((host, start + number) for number in range(20) for host in "ab"), table="t")
        db.flush()
    with db.stream("SELECT v FROM t") as rows:
        insert(db, ("a", 100), ("b", 101), table="t")
        assert taken(rows, 2) == [(100,), (101,)]
        stats = rows.stats
        assert stats["files_total"] == 4
        assert stats["files_pruned_by_filter"] == 3
        assert (stats["files_read"], stats["rows_read"], stats["stream_windows"]) == (1, 2, 1)
        old = [file for file in db._opened().snapshot().tables["t"].files if file.name != "memory"]
        assert len(old) == 3
        assert all(file._file is None for file in old)  # type: ignore[union-attr]


def test_a_late_update_reads_its_own_time_alone(db: tsdb.Database) -> None:
    db.sql("CREATE TABLE t (time TIMESTAMP TIME, host VARCHAR TAG, v BIGINT, w BIGINT) WITH (page_rows = 4)")
    db.write("t", [{"time": DAY + datetime.timedelta(seconds=n), "host": "a", "v": n, "w": n} for n in range(400)])
    db.flush()
    with db.stream("SELECT v, w FROM t") as rows:
        db.write("t", [{"time": DAY + datetime.timedelta(seconds=200), "host": "a", "v": -1}])
        assert taken(rows, 1) == [(-1, 200)]
        assert rows.stats["rows_read"] <= 8


def test_history_leaves_out_what_the_filter_excludes(db: tsdb.Database) -> None:
    insert(db, *((host, number) for host in "abcdefgh" for number in range(40)))
    db.flush()
    for sql in ("SELECT v FROM s WHERE host = 'c'", "SELECT v + 1 FROM s WHERE host = 'c' AND abs(v) >= 0"):
        with db.stream(sql, settings=EARLIEST) as rows:
            assert len(taken(rows, 40)) == 40
            assert rows.stats["bytes_read"] > 0  # what has been read is counted before the history is known to be over
            insert(db, ("c", 1_000))
            taken(rows, 1)
            assert rows.stats["pages_pruned_by_filter"] >= 60
            assert rows.stats["stream_history_rows"] == 40
        db.sql("DELETE FROM s WHERE time > '2024-01-01 00:10:00'")
