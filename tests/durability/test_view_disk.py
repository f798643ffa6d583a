"""Materialized views on a disk that is full, or fails, at any one operation: each row once, when the disk is well again."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tsdb.storage.writer
from support.soak import SOAK
from support.storage import GROWING, CrashStorage, FailingStorage
from tsdb.session import Session
from tsdb.settings import Settings
from tsdb.storage.store import Store
from tsdb.stream.view import run as view_run
from tsdb.stream.view.keeper import ViewKeeper
from tsdb_format.errors import Error

VIEWS = {
    "plain": "SELECT time, host, x + 1 AS x FROM s",
    "joined": "SELECT s.time, s.host, s.x, m.site FROM s INNER LATEST JOIN m ON s.host = m.host",
    "minutes": "SELECT window_start AS time, count(*) AS n, max(x) AS x FROM TUMBLE(s, time, 10s) GROUP BY window_start",
}
ROWS = "INSERT INTO s SELECT make_timestamp(1704067200000000 + i * 3000000), chr((97 + i % 3)::INT), i FROM range($1, $2) r(i)"
SETTINGS = Settings().changed({"threads": 1, "watermark_idle_timeout": "never"})
#: Errors, and the operations that have them; None is all.
DISKS: dict[str, tuple[int, frozenset[str] | None]] = {"full": (errno.ENOSPC, GROWING), "broken": (errno.EIO, None)}
#: Bytes of memory that make every commit flush.
TINY = 16
#: About how many of the operations fail in `make test`.
_SAMPLE = 5


class _Opened:
    """A store with what runs statements and keeps views up when it is asked to."""

    def __init__(self, path: Path, storage: FailingStorage | CrashStorage, memory_limit: int) -> None:
        self.store = Store.open(path, threads=1, background=False, storage=storage, memory_limit=memory_limit)
        self.session = Session(self.store, SETTINGS)
        self.keeper = ViewKeeper(self.store, SETTINGS)

    def rows(self, text: str) -> list[Any]:
        return sorted(self.session.run(text, None, None).fetchall())

    def step(self) -> None:
        """More rows, later ones, and the views brought up to date. Raises Error where the disk does."""
        ((count,),) = self.rows("SELECT count(*) FROM s")
        self.session.run(ROWS, [count, count + 20], None)
        self.refresh()

    def refresh(self) -> None:
        for name in VIEWS:
            self.keeper.refresh(name)

    def check(self) -> None:
        for name, text in VIEWS.items():
            closed = "time + INTERVAL 10 SECOND <= (SELECT max(time) FROM s)"
            bounded = f"SELECT time, n, x FROM ({text}) WHERE {closed}" if name == "minutes" else text
            columns = "time, n, x" if name == "minutes" else "time, host, * EXCLUDE (time, host)"
            assert self.rows(f"SELECT {columns} FROM {name}") == self.rows(bounded), name
        assert all(view.problem is None for view in self.store.views().values())

    def close(self) -> None:
        self.keeper.close()
        self.store.close()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("views") / "db"
    opened = _Opened(path, CrashStorage(path), 2**30)
    for text in (
        "CREATE STREAM s (time TIMESTAMP TIME, host VARCHAR TAG, x BIGINT)",
        "CREATE STREAM m (time TIMESTAMP TIME, host VARCHAR TAG, site VARCHAR)",
        "INSERT INTO m VALUES ('2024-01-01', 'a', 'north'), ('2024-01-01', 'b', 'south')",
        *(f"CREATE MATERIALIZED VIEW {name} AS {text}" for name, text in VIEWS.items()),
    ):
        opened.session.run(text, None, None)
    opened.session.run(ROWS, [0, 20], None)
    opened.close()
    return path


def _places(operations: int) -> Iterable[int]:
    return range(1, operations + 1, 1 if SOAK else 1 + operations // _SAMPLE)


_CASES = [
    (kind, sticky, memory_limit)
    for kind in DISKS
    for sticky in (True, False)
    for memory_limit in (2**30, TINY)
    if SOAK or (kind == "full") == sticky
]


@pytest.mark.parametrize(("kind", "sticky", "memory_limit"), _CASES)
def test_each_row_once(
    sample: Path, tmp_path: Path, kind: str, sticky: bool, memory_limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, kinds = DISKS[kind]
    monkeypatch.setattr(tsdb.storage.writer, "DIRECT_ROWS", 12)
    monkeypatch.setattr(view_run, "COMMIT_ROWS", 5)
    shutil.copytree(sample, counted := tmp_path / "counted")
    storage = FailingStorage(error=error, kinds=kinds, storage=CrashStorage(counted))
    opened = _Opened(counted, storage, memory_limit)
    before = storage.operations
    opened.step()
    opened.check()
    operations = storage.operations - before
    opened.close()
    failures = 0
    for at in _places(operations):
        path = tmp_path / str(at)
        shutil.copytree(sample, path)
        storage = FailingStorage(error=error, sticky=sticky, kinds=kinds, storage=CrashStorage(path))
        opened = _Opened(path, storage, memory_limit)
        storage.fail_at = storage.operations + at
        with suppress(Error):
            opened.step()
        failures += bool(storage.failed)
        storage.fail_at = 0
        if at % 2 and not opened.store._closed:
            with suppress(Error):  # a handle may refuse further work after an error
                opened.refresh()
                opened.check()
        with suppress(Error):
            opened.close()
        opened = _Opened(path, CrashStorage(path), 2**30)
        opened.refresh()
        opened.check()
        opened.step()
        opened.check()
        opened.close()
        shutil.rmtree(path)
    assert failures
