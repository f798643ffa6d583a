"""Instances of DuckDB: what their memory does not hold is written where temporary files belong, whoever made them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdb
from tsdb.exec import duck_instance
from tsdb.exec.arrow import Converter
from tsdb.exec.batch import Batch
from tsdb.exec.duck_instance import CalledBack, catalog_cursor, cursor, instance
from tsdb.ingest.ingest import _Reader

MAKERS = {
    "queries": lambda: cursor(),
    "catalog": lambda: catalog_cursor(["CREATE TABLE t (v INT)"]),
    "ingest": lambda: _Reader(1, 2**30).connection(),
}


def folder_of(connection: Any) -> Path:
    return Path(connection.execute("SELECT current_setting('temp_directory')").fetchone()[0])


@pytest.mark.parametrize("maker", MAKERS)
def test_nothing_is_written_to_the_current_directory(maker: str) -> None:
    connection = MAKERS[maker]()
    assert folder_of(connection).parent == Path(tempfile.gettempdir())
    assert connection.execute("SELECT current_setting('TimeZone')").fetchone() == ("UTC",)
    connection.close()


def test_what_is_too_large_for_memory_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    one, other = instance(memory_limit="32MB", threads=1), instance()
    assert folder_of(one) != folder_of(other)
    one.execute("CREATE TEMP TABLE t AS SELECT range AS v, hash(range) AS h, hash(range + 1) AS g FROM range(3_000_000)")
    assert [path.name for path in tmp_path.iterdir()] == [folder_of(one).name]
    one.close()
    other.close()
    assert not list(tmp_path.iterdir())


def test_python_goes_on_knowing_duckdb_threads_as_far_as_there_are_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a thread leaves in Python is there at its next call: else it is made anew each time."""
    held = threading.local()
    callers: dict[int, list[bool]] = {}
    whole = Converter.record_batch

    def record_batch(self: Converter, batch: Batch) -> Any:
        callers.setdefault(threading.get_ident(), []).append(hasattr(held, "mark"))
        held.mark = True
        return whole(self, batch)

    monkeypatch.setattr(Converter, "record_batch", record_batch)
    monkeypatch.setattr(duck_instance, "_PLACES", deque([None] * 9))
    with tsdb.open(tmp_path / "a.db", enable_native_operators=False, threads=3) as db:
        db.sql("CREATE TABLE t (time TIMESTAMP_S TIME, v BIGINT)")
        db.write("t", {"time": np.arange(500_000), "v": np.arange(500_000)})
        for _ in range(9):
            assert db.sql("SELECT sum(v), count(DISTINCT v % 1000) FROM t").fetchall() == [(124999750000, 1000)]
            assert all(all(marks[1:]) for marks in callers.values())
    assert len(duck_instance._PLACES) >= 9 - len(callers)


def test_threads_that_end_properly_leave_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck_instance, "_PLACES", deque([None]))

    def call() -> None:
        for _ in range(2):
            with CalledBack():
                assert not duck_instance._PLACES

    for _ in range(2):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert len(duck_instance._PLACES) == 1
    duck_instance._PLACES.clear()
    call()  # without a place it works as well


def test_a_process_ends_while_python_knows_threads_of_duckdb(tmp_path: Path) -> None:
    code = """
import sys, threading
import numpy as np
import tsdb

db = tsdb.open(sys.argv[1], enable_native_operators=False, threads=3)
db.sql("CREATE TABLE t (time TIMESTAMP_S TIME, v BIGINT)")
db.write("t", {"time": np.arange(500_000), "v": np.arange(500_000)})
for threads in (3, 2, 4, 3):
    ask = lambda: print(db.sql("SELECT sum(v) FROM t", settings={"threads": threads}).fetchone())
    ask()
    other = threading.Thread(target=ask)
    other.start()
    other.join()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.db")], env=environment, capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("(124999750000,)\n" * 8, "")
