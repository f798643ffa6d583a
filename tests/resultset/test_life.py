"""What a multi-query leaves behind: nothing, however it ends; and what it sees: one moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.result_set_case import SCRIPT, leftovers
from support.storage import FailingStorage
from tsdb.resultset import run as runs
from tsdb.storage import temporary

TABLES = {"result_set_materialization_max_size": 0}
ROOT = Path(__file__).resolve().parent.parent.parent


def _rows(db: tsdb.Database, settings: dict[str, object] | None = None) -> list[tuple[Any, ...]]:
    with db.multi_query(SCRIPT, settings=settings or TABLES) as m:
        return m.results[0].fetchall()


def _mapped(db: tsdb.Database) -> int | None:
    """How many temporary data files this process has mapped; None where the system does not tell."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    lines = maps.read_text().splitlines()
    return sum(f"{db.path}/{temporary.FOLDER}/" in line and ".tsf" in line for line in lines)


def test_a_table_has_no_name_and_lasts_as_long_as_somebody_reads_it(db: tsdb.Database) -> None:
    m = db.multi_query(SCRIPT, settings=TABLES)
    assert m.stats["result_sets_table_backed"] == 2
    assert leftovers(db) == []
    tables = [weakref.ref(each.table) for each in m._outcome.sets]
    rows = m.results[0].fetchall()
    assert len(rows) == 400
    assert m.results[0].fetchall() == rows  # again, from the same tables
    read = m.results[0].stats["rows_read"]
    assert _mapped(db) in (2, None)
    m.close()
    assert m.results[0].stats["rows_read"] == read
    assert _mapped(db) in (0, None)
    with pytest.raises(tsdb.Closed):
        m.results[0].arrow()
    del m
    assert [each() for each in tables] == [None, None]
    again = db.multi_query(SCRIPT, settings=TABLES)
    kept = again.results[0]
    half = iter(kept)
    next(half)
    tables = [weakref.ref(each.table) for each in again._outcome.sets]
    del again
    assert next(half) is not None  # the result alone keeps what it needs
    del half, kept
    assert [each() for each in tables] == [None, None]
    assert leftovers(db) == []


def test_every_failure_of_the_disk_is_an_error_and_leaves_nothing(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _rows(db)
    storage = FailingStorage(kinds=("create", "write", "rename", "folder", "sync"))
    monkeypatch.setattr(db._store._versions, "storage", storage)
    failed = 0
    for at in range(1, 10_000):
        storage.calls.clear()
        storage.fail_at = at
        with contextlib.suppress(tsdb.Error):
            assert _rows(db) == expected
            assert storage.operations < at
            break
        failed += 1
        assert leftovers(db) == []
    assert failed > 10
    storage.fail_at, storage.sticky = 1, True
    with pytest.raises(tsdb.Error, match=r"cannot be written to .*temporary: No space left"):
        _rows(db)


def test_files_that_cannot_be_removed_go_with_the_next_request(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FailingStorage(1, sticky=True, kinds=("remove",))
    monkeypatch.setattr(db._store._versions, "storage", storage)
    expected = _rows(db)
    assert leftovers(db)
    storage.fail_at = 0
    assert _rows(db) == expected
    assert leftovers(db) == []


def test_where_no_file_can_be_made_sets_are_repeated(db: tsdb.Database) -> None:
    expected = _rows(db)
    folder = Path(db.path) / temporary.FOLDER
    folder.rmdir()
    folder.write_bytes(b"in the way")
    with db.multi_query(SCRIPT, settings=TABLES) as m:
        assert [each.fate for each in m.sets] == ["repeated", "repeated"]
        assert m.results[0].fetchall() == expected


def test_readers_have_tables_too(db: tsdb.Database) -> None:
    expected = _rows(db)
    with tsdb.open(db.path, mode="r") as reader:
        with reader.multi_query(SCRIPT, settings=TABLES) as m:
            assert m.stats["result_sets_table_backed"] == 2
            assert m.results[0].fetchall() == expected
        assert leftovers(reader) == []


@pytest.mark.parametrize("broken", ["set", "second level", "query", "query while it is read"])
def test_an_error_at_any_level_ends_the_others_and_leaves_nothing(db: tsdb.Database, broken: str) -> None:
    wrong = "CAST(host AS INTEGER) > 0"
    first, second = (f"AND {wrong}" if broken == level else "" for level in ("set", "second level"))
    script = f"""
    RESULT SET many AS (SELECT celsius FROM temperature WHERE sin(celsius) < 2);
    RESULT SET hosts AS (SELECT host FROM alarm WHERE level > 3 {first});
    RESULT SET racks AS (SELECT rack FROM machine WHERE host IN RESULT SET hosts {second});
    SELECT * FROM temperature WHERE rack IN RESULT SET racks AND celsius IN RESULT SET many;
    SELECT {"nothing" if broken == "query" else "*"} FROM machine WHERE rack IN RESULT SET racks AND {wrong};
    """
    with pytest.raises(tsdb.Error):
        _ = [result.fetchall() for result in db.multi_query(script, settings=TABLES)]
    assert leftovers(db) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tsdb-set")]


@pytest.mark.parametrize("step", ["_level", "_started", "_collect", "_query"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_ctrl_c_at_any_step_leaves_nothing(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch, step: str, number: int) -> None:
    count = 0
    do = getattr(runs.Run, step)

    def interrupted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        found = do(*arguments)
        if count == number:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(runs.Run, step, interrupted)
    try:
        _rows(db)
    except KeyboardInterrupt:
        assert count == number
    else:
        assert count < number
    assert leftovers(db) == []


_KILLED = """
import os, signal, sys
import tsdb
from support.result_set_case import SCRIPT
from support.storage import FailingStorage

class Killing(FailingStorage):
    def _failure(self, path):
        os.kill(os.getpid(), signal.SIGKILL)

db = tsdb.open(sys.argv[1], mode=sys.argv[2])
db._store._versions.storage = Killing(int(sys.argv[3]), kinds=("create", "write", "rename", "remove"))
db.multi_query(SCRIPT, settings={"result_set_materialization_max_size": 0}).results[0].fetchall()
print("alive")
"""


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_what_a_killed_process_leaves_is_swept_when_the_database_is_opened(db: tsdb.Database, mode: str) -> None:
    expected = _rows(db)
    path = db.path
    db.close()
    left = 0
    for at in (1, 2, 9, 20, 33, 40, 10_000):
        paths = os.pathsep.join(str(ROOT / part) for part in (".", "format", "cli", "tests"))
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, path, mode, str(at)], env={**os.environ, "PYTHONPATH": paths}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == (-signal.SIGKILL if at < 10_000 else 0), done.stderr
        folder = Path(path) / temporary.FOLDER
        left += len(list(folder.iterdir())) if folder.exists() else 0
        with tsdb.open(path) as opened:
            assert leftovers(opened) == []
            assert _rows(opened) == expected
    assert left > 5


def test_what_is_being_written_is_not_swept(db: tsdb.Database) -> None:
    root = Path(db.path)
    with temporary.place(root) as name:
        (root / f"{name}.0.tsf").write_bytes(b"half a file")
        (root / f"{temporary.FOLDER}/999-1.0.tsf").write_bytes(b"of nobody")
        temporary.sweep(root)
        assert leftovers(db) == [name.rpartition("/")[2], f"{name.rpartition('/')[2]}.0.tsf"]
        with tsdb.open(db.path, mode="r") as reader:
            assert _rows(reader)
        assert len(leftovers(db)) == 2
    assert leftovers(db) == []


def test_sixteen_threads_never_meet(db: tsdb.Database) -> None:
    expected = _rows(db)
    readers = [tsdb.open(db.path, mode="r") for _ in range(2)]
    start = threading.Barrier(16)

    def ask(number: int) -> bool:
        start.wait()
        cap = {"result_set_materialization_max_size": number % 3}
        return all(_rows((db, *readers)[number % 3], cap) == expected for _ in range(3))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(16)))
    for reader in readers:
        reader.close()
    assert leftovers(db) == []


def test_sets_of_a_level_run_at_the_same_time(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(3)
    collect = runs.Run._collect

    def met(self: runs.Run, run: runs.SetRun) -> None:
        if run.level == 1:
            together.wait(timeout=60)
        collect(self, run)

    monkeypatch.setattr(runs.Run, "_collect", met)
    script = "".join(f"RESULT SET s{n} AS (SELECT host FROM alarm WHERE level > {n});" for n in range(3))
    script += "SELECT count(*) FROM machine WHERE " + " AND ".join(f"host IN RESULT SET s{n}" for n in range(3))
    with db.multi_query(script, settings={"threads": 3}) as m:
        assert m.results[0].fetchall() == [(3,)]


def test_everything_sees_one_moment(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _rows(db)
    level = runs.Run._level

    def disturbed(self: runs.Run, number: int, declarations: Any) -> None:
        level(self, number, declarations)
        db.sql("DELETE FROM machine WHERE host = 'h3'")
        db.sql("DELETE FROM temperature")

    monkeypatch.setattr(runs.Run, "_level", disturbed)
    m = db.multi_query(SCRIPT, settings=TABLES)
    db.compact()
    assert m.results[0].fetchall() == expected
    m.close()


def test_rows_expire_for_all_queries_or_for_none(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10**18]
    monkeypatch.setattr(db._store._versions, "clock_ns", lambda: now[0])
    monkeypatch.setattr("tsdb.session.time.time_ns", lambda: now[0])
    db.sql("CREATE TABLE fresh (time TIMESTAMP TIME, v INT64) WITH (ttl = '1h')")
    db.write("fresh", {"time": [now[0] // 1000 - 3_599_000_000], "v": [1]})
    query = {
        "queries": [{"table": "fresh", "result_sets": {"v": {"value": "v"}}}, {"table": "fresh", "filter": "v IN RESULT SET v"}]
    }
    m = db.multi_query(query)
    now[0] += 3_600 * 10**9
    assert [len(result.fetchall()) for result in m] == [1, 1]
    assert [len(result.fetchall()) for result in db.multi_query(query)] == [0, 0]


def test_a_set_of_several_runs(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUN_MEMBERS_MAX", 150)
    monkeypatch.setattr("tsdb.exec.executor.BATCH_ROWS", 100)
    script = """RESULT SET some AS (SELECT celsius FROM temperature WHERE celsius < 700 OR celsius > 1500);
    RESULT SET pairs AS (SELECT celsius, rack FROM temperature WHERE celsius IN RESULT SET some);
    SELECT celsius FROM temperature WHERE celsius IN RESULT SET some AND (celsius, rack) IN RESULT SET pairs ORDER BY celsius;
    SELECT count(*) FROM temperature WHERE celsius NOT IN RESULT SET some"""
    with db.multi_query(script, settings=TABLES) as m:
        assert [len(each.table.files) > 2 for each in m._outcome.sets] == [True, True]
        assert [row[0] for row in m.results[0].fetchall()] == [n for n in range(2000) if n < 700 or n > 1500]
        assert m.results[1].fetchall() == [(801,)]
