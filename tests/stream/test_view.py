"""Materialized views: each row once, whatever is interrupted, restarted, flushed or killed."""

from __future__ import annotations

import datetime
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdb
from support.command import environment
from support.view_case import DAY, SETTINGS, VIEWS, create, rows_of, run, sites_of
from tsdb.ingest.arrow import columns_of
from tsdb.storage import writer
from tsdb.stream.live import result_of
from tsdb.stream.view import run as view_run

TEN = datetime.timedelta(seconds=10)
ROOT = Path(__file__).resolve().parent.parent.parent


def manual(path: Path) -> tsdb.Database:
    """A database whose views go on where they are asked to."""
    return tsdb.open(path, threads=1, enable_view_maintenance=False)


def rows(db: tsdb.Database, text: str) -> list[tuple[Any, ...]]:
    return sorted(db.sql(text).fetchall())


def joined(steps: int, first: int = 0) -> list[tuple[Any, ...]]:
    """What the view with a join has: each row with the last site of its host then; the first steps were history."""
    sites: dict[str, str] = {}
    made = []
    for step in range(first):
        sites |= {each["host"]: each["site"] for each in sites_of(step)}
    for step in range(steps):
        if step >= first:
            sites |= {each["host"]: each["site"] for each in sites_of(step)}
        made += [(row["time"], row["host"], row["x"], sites[row["host"]]) for row in rows_of(step) if row["host"] in sites]
    return sorted(made)


def check(db: tsdb.Database, steps: int, first: int = 0) -> None:
    """Every view has just the rows that it must, once it is up to date."""
    for name in VIEWS:
        db.refresh_view(name)
    assert rows(db, "FROM doubled") == rows(db, VIEWS["doubled"])
    (newest,) = db.sql("SELECT max(time) FROM s").fetchone()  # type: ignore[misc]
    over = f"SELECT * FROM ({VIEWS['minutes']}) WHERE window_end <= TIMESTAMP '{newest}' - INTERVAL 30 SECOND"
    assert rows(db, "FROM minutes") == rows(db, over)
    whole = joined(steps, first)
    assert rows(db, "SELECT time, host, x, site FROM joined") == whole
    groups: dict[tuple[Any, str], list[float]] = {}
    for time_of, _, x, site in whole:
        groups.setdefault((DAY + (time_of - DAY) // TEN * TEN, site), []).append(x)
    assert rows(db, "SELECT window_start, site, n, most FROM sites") == sorted(
        (*key, len(xs), max(xs)) for key, xs in groups.items() if key[0] + 4 * TEN <= newest
    )


@pytest.mark.parametrize("seed", range(6))
def test_views_have_each_row_once_whatever_is_interrupted(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(view_run, "COMMIT_ROWS", rng.choice((1, 7, 65_536)))
    db = manual(tmp_path / "db")
    first = rng.choice((0, 17))
    if first:
        create_tables(db)
        for step in range(first):
            run(db, step)
        create_views(db)
    else:
        create(db)
    for step in range(first, 70):
        run(db, step)
        if rng.random() < 0.3:
            db.refresh_view(rng.choice(list(VIEWS)))
        if rng.random() < 0.1:
            db.flush()
        if rng.random() < 0.1:
            db.close()
            db = manual(tmp_path / "db")
    check(db, 70, first)
    assert [(row[0], row[2], row[4]) for row in db.sql("SHOW MATERIALIZED VIEWS").fetchall()] == [
        (name, "live", None) for name in sorted(VIEWS)
    ]
    db.close()


def create_tables(db: tsdb.Database) -> None:
    from support.view_case import TABLES

    for text in TABLES:
        db.sql(text)


def create_views(db: tsdb.Database) -> None:
    for name, text in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}{SETTINGS.get(name, '')}")
        db.refresh_view(name)


def test_views_are_kept_up_in_the_background(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        create(db)
        for step in range(30):
            run(db, step)
        expected = rows(db, VIEWS["doubled"])
        wait_for(lambda: rows(db, "FROM doubled") == expected)
    with tsdb.open(tmp_path / "db") as db:
        run(db, 30)
        expected = rows(db, VIEWS["doubled"])
        wait_for(lambda: rows(db, "FROM doubled") == expected)
        check(db, 31)


def wait_for(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_view_that_is_dropped_meanwhile_ends_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The background thread is at one view while the next one is dropped."""
    begun, dropped, step = threading.Event(), threading.Event(), view_run.ViewRun.step

    def slow(self: view_run.ViewRun) -> int:
        if self.view.name == "first":
            begun.set()
            assert dropped.wait(20)
        return step(self)

    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE STREAM s (time TIMESTAMP TIME, x BIGINT)")
        monkeypatch.setattr(view_run.ViewRun, "step", slow)
        for name in ("first", "second"):
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS FROM s")
        assert begun.wait(20)
        db.sql("DROP MATERIALIZED VIEW second")
        dropped.set()
        db.sql("INSERT INTO s VALUES ('2024-01-01', 1)")
        wait_for(lambda: len(rows(db, "FROM first")) == 1)
        db.sql("INSERT INTO s VALUES ('2024-01-02', 2)")
        wait_for(lambda: len(rows(db, "FROM first")) == 2)


@pytest.mark.parametrize("count", [1, writer.DIRECT_ROWS])
def test_rows_of_a_view_that_was_dropped_are_not_written(tmp_path: Path, count: int) -> None:
    """Not to the table that is left, nor to one of that name, and not on behalf of a view of that name."""
    with manual(tmp_path / "db") as db:
        store = db._opened()
        for text in ("CREATE STREAM s (time TIMESTAMP TIME, x BIGINT)", "CREATE TABLE t (time TIMESTAMP TIME, x BIGINT)"):
            db.sql(text)
        db.sql("CREATE MATERIALIZED VIEW v INTO t AS FROM s")
        view = store.view("v")
        made = columns_of({"time": np.arange(count).astype("datetime64[us]"), "x": np.arange(count)}, store.table("t").schema)
        db.sql("DROP MATERIALIZED VIEW v")
        for text in ("SELECT 1", "CREATE MATERIALIZED VIEW v INTO t AS FROM s"):
            db.sql(text)
            with pytest.raises(tsdb.NotFound, match="was dropped"):
                store.write_view(view, made, "x")
        db.sql("DROP MATERIALIZED VIEW v")
        db.sql("DROP TABLE t")
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, x BIGINT)")
        with pytest.raises(tsdb.NotFound, match="was dropped"):
            store.write_view(view, made, "x")
        assert rows(db, "FROM t") == []


def test_killed_writers_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """A process is killed at any moment, again and again; its views go on behind just what they have written."""
    step, rng = 0, random.Random(1)
    path = f"{environment()['PYTHONPATH']}:{ROOT / 'tests'}"
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-m", "support.view_case", str(tmp_path / "db"), str(step)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(PYTHONPATH=path, TSDB_KERNELS="auto"),
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for _ in range(rng.randrange(20, 60)):
            step = int(process.stdout.readline()) + 1
        time.sleep(rng.random() / 50)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with manual(tmp_path / "db") as db:
            acknowledged, step = step, steps_in(db)
            assert step >= acknowledged
            if rows(db, "SELECT time, host, site FROM m") != expected_sites(step):
                db.write("s", rows_of(step))  # killed between the two commits of a step
                step += 1
            for name in VIEWS:
                assert not duplicates(db, name)
            check(db, step)


def steps_in(db: tsdb.Database) -> int:
    """How many steps have their rows."""
    found = db.sql("SELECT count(*) FROM s").fetchone()
    assert found is not None
    left, step = found[0], 0
    while left > 0:
        left -= len(rows_of(step))
        step += 1
    assert left == 0
    return step


def expected_sites(steps: int) -> list[tuple[Any, ...]]:
    return sorted((each["time"], each["host"], each["site"]) for step in range(steps) for each in sites_of(step))


def duplicates(db: tsdb.Database, name: str) -> bool:
    """Whether a view has windows twice."""
    return name == "minutes" and bool(db.sql("SELECT 1 FROM minutes GROUP BY window_start, host HAVING count(*) > 1").fetchall())


def test_a_view_into_a_table(tmp_path: Path) -> None:
    with manual(tmp_path / "db") as db:
        create_tables(db)
        db.sql("CREATE TABLE t (at TIMESTAMP_MS TIME, host VARCHAR TAG, x DOUBLE, more BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW v INTO t AS SELECT host, time AS at, x FROM s WHERE x > 2")
        db.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS v INTO t AS SELECT host, time AS at, x FROM s")
        db.write("s", rows_of(1))
        assert db.sql("DESCRIBE v").fetchall() == db.sql("DESCRIBE t").fetchall()
        text = 'CREATE MATERIALIZED VIEW "v" INTO "t" AS SELECT host, time AS at, x FROM s WHERE x > 2;'
        assert db.sql("SHOW CREATE MATERIALIZED VIEW v").fetchall() == [(text,)]
        assert db.refresh_view("V") == len([row for row in rows_of(1) if row["x"] > 2])
        assert rows(db, "SELECT at, host, x FROM t") == sorted(set(rows(db, "SELECT time, host, x FROM s WHERE x > 2")))
        db.sql("DROP MATERIALIZED VIEW v")
        assert "t" in db.tables()
        assert db.sql("SHOW MATERIALIZED VIEWS").fetchall() == []
        db.sql("DROP MATERIALIZED VIEW IF EXISTS v")
        with pytest.raises(tsdb.NotFound, match="no materialized view"):
            db.sql("DROP MATERIALIZED VIEW v")
        db.sql("CREATE MATERIALIZED VIEW v INTO t AS SELECT host, time AS at, x FROM s")  # it begins anew
        assert db.refresh_view("v") == len(rows_of(1))


def test_a_view_of_a_view(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db", threads=1) as db:
        create(db)
        db.sql("CREATE MATERIALIZED VIEW more AS SELECT time, host, x + 1 AS x FROM doubled")
        for step in range(10):
            run(db, step)
        expected = rows(db, "SELECT time, host, x * 2 + 1 AS x FROM s WHERE x > 2")
        wait_for(lambda: rows(db, "FROM more") == expected)


def test_what_stops_a_view_is_told(tmp_path: Path) -> None:
    with manual(tmp_path / "db") as db:
        create_tables(db)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT time, host, CAST(host AS BIGINT) AS n FROM s")
        db.write("s", rows_of(1))
        with pytest.raises(tsdb.Error):
            db.refresh_view("v")
        ((_, _, _, _, problem, _),) = db.sql("SHOW MATERIALIZED VIEWS").fetchall()
        assert "Could not convert string" in problem
    with tsdb.open(tmp_path / "db") as db:
        ((_, _, _, _, problem, _),) = db.sql("SHOW MATERIALIZED VIEWS").fetchall()
        assert "Could not convert string" in problem
        db.sql("DELETE FROM s")
        assert db.refresh_view("v") == 0
        assert db.sql("SHOW MATERIALIZED VIEWS").fetchall()[0][4] is None
        db.sql("ALTER TABLE s RENAME COLUMN host TO place")
        db.write("s", [{"time": rows_of(1)[0]["time"], "place": "1"}])
        wait_for(lambda: "was dropped or renamed" in str(db.sql("SHOW MATERIALIZED VIEWS").fetchall()[0][4]))


def test_what_a_view_needs_is_not_dropped(tmp_path: Path) -> None:
    with manual(tmp_path / "db") as db:
        create(db)
        db.sql("CREATE TABLE x (time TIMESTAMP TIME, host VARCHAR TAG, x BIGINT)")  # a name that views know as a column
        db.sql("CREATE MATERIALIZED VIEW more INTO x AS WITH y AS (FROM doubled) SELECT time, host, x + 1 AS x FROM y")
        for text, told in (
            ("DROP STREAM S", "materialized view 'doubled' reads 's': DROP MATERIALIZED VIEW \"doubled\" first"),
            ("DROP TABLE doubled", "materialized view 'doubled' writes to 'doubled'"),
            ("DROP MATERIALIZED VIEW doubled", "materialized view 'more' reads 'doubled': DROP MATERIALIZED VIEW \"more\" first"),
            ("DROP TABLE IF EXISTS x", "materialized view 'more' writes to 'x'"),
        ):
            with pytest.raises(tsdb.InvalidInput) as found:
                db.sql(text)
            assert told in str(found.value), text
        db.write("s", rows_of(1))
        assert (db.refresh_view("doubled"), db.refresh_view("more")) == (1, 1)
        with pytest.raises(tsdb.NotFound):
            db.sql("DROP TABLE y")
        with pytest.raises(tsdb.InvalidInput, match="a view that it reads from"):  # its rows would come back to it for ever
            db.sql("CREATE MATERIALIZED VIEW circle INTO s AS SELECT time, host, x FROM x")
        db.sql("DROP MATERIALIZED VIEW more")
        db.sql("DROP TABLE x")
        db.sql("DROP MATERIALIZED VIEW doubled")


def test_the_checkpoint_goes_with_a_backup_and_to_readers(tmp_path: Path) -> None:
    with manual(tmp_path / "db") as db:
        create(db)
        for step in range(10):
            run(db, step)
            db.refresh_view("doubled")
        db.backup(tmp_path / "copy")
        for step in range(10, 14):
            run(db, step)
        shown = db.sql("SHOW MATERIALIZED VIEWS").fetchall()
        with tsdb.open(tmp_path / "db", "r") as reader:
            assert reader.sql("SHOW MATERIALIZED VIEWS").fetchall() == shown
            with pytest.raises(tsdb.ReadOnly):
                reader.refresh_view("doubled")
    with manual(tmp_path / "copy") as db:
        for step in range(10, 14):
            run(db, step)
        check(db, 14)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM s", "needs all rows"),
        ("CREATE MATERIALIZED VIEW v AS SELECT time, [x] AS l FROM s", "cast it"),
        ("CREATE MATERIALIZED VIEW v AS SELECT time, x, x FROM s", "two columns of one name"),
        ("CREATE MATERIALIZED VIEW s AS SELECT time, x FROM s", "s"),
        ("CREATE MATERIALIZED VIEW v INTO s AS SELECT time, x FROM s", "which it reads"),
        ("CREATE MATERIALIZED VIEW v INTO m AS SELECT time, x FROM s", "no column 'x'"),
        ("CREATE MATERIALIZED VIEW v INTO wrong AS SELECT time, x FROM s", "wrong"),
        ("CREATE MATERIALIZED VIEW v AS DROP TABLE s", "a query is wanted"),
        ("CREATE MATERIALIZED VIEW v", "expected AS"),
    ],
)
def test_what_can_be_no_view_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with manual(tmp_path / "db") as db:
        create_tables(db)
        with pytest.raises((tsdb.InvalidInput, tsdb.NotFound), match=message):
            db.sql(text)
        assert db.sql("SHOW MATERIALIZED VIEWS").fetchall() == []
        assert db.tables() == ["m", "s"]


def test_a_view_without_a_time_has_the_moment_of_its_commit(tmp_path: Path) -> None:
    with manual(tmp_path / "db") as db:
        create_tables(db)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT host, x FROM s")
        db.write("s", rows_of(3))
        db.refresh_view("v")
        assert [column.name for column in db.schema("v").tags] == ["host"]
        assert rows(db, "SELECT host, x FROM v") == rows(db, "SELECT host, x FROM s")


def test_the_first_rows_are_read_through_the_keys_of_the_right_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history that a view begins with is pruned, also where it goes on with it after an interruption; the rows are the same."""
    monkeypatch.setattr(view_run, "COMMIT_ROWS", 50)
    seen: dict[bool, list[tuple[Any, ...]]] = {}
    for pushdown in (False, True):
        path = tmp_path / f"db {pushdown}"
        text = f"{VIEWS['joined']} SETTINGS enable_streaming_join_key_domain_pushdown = {pushdown}, stream_batch_rows = 10"
        with manual(path) as db:
            create_tables(db)
            db.sql(
                "INSERT INTO s SELECT TIMESTAMP '2024-01-01' + INTERVAL (i) SECOND, 'host ' || (i % 500), i FROM range(10000) r(i)"
            )
            db.sql("INSERT INTO m SELECT TIMESTAMP '2024-01-01', 'host ' || i, 'north' FROM range(7) r(i)")
            db.flush()
            db.sql(f"CREATE MATERIALIZED VIEW v AS {text}")
            run = view_run.ViewRun(db._opened(), db._opened().views()["v"], db.settings)
            outputs = run._outputs
            for _ in range(9):  # of fourteen batches
                run._write([result_of(run._pipeline.stage, next(outputs), db.settings).arrow()])
            run.close()
            assert db.sql("SHOW MATERIALIZED VIEWS").fetchall()[0][2:4] == ("history", None)
            db.sql("INSERT INTO m SELECT TIMESTAMP '2024-01-02', 'host ' || i, 'south' FROM range(9) r(i)")
        with manual(path) as db:
            run = view_run.ViewRun(db._opened(), db._opened().views()["v"], db.settings)
            assert run.step() == 50
            counters = run._pipeline.counters
            assert counters["StreamingJoinKeyDomainBuilt"] == pushdown
            assert counters["StreamingJoinKeyDomainStorageFilterPushed"] == pushdown
            run.close()
            db.write("s", [{**rows_of(1)[0], "host": "host 8"}])
            assert db.refresh_view("v") == 1
            assert db.sql("SHOW MATERIALIZED VIEWS").fetchall()[0][2] == "live"
            seen[pushdown] = rows(db, "SELECT time, host, x, site FROM v")
            assert len(seen[pushdown]) == 7 * 20 + 1
            assert {row[3] for row in seen[pushdown] if row[1] != "host 8"} == {"north"}
    assert seen[False] == seen[True]
