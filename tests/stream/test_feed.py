"""Feeds: whoever waits is woken by a commit, of this process or another, by a deadline, and by being closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb
from tsdb.stream.feed import Feed


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db") as made:
        made.sql("CREATE STREAM s (v BIGINT)")
        yield made


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_a_commit_wakes_who_waits(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch, beside: bool, large: bool) -> None:
    if large:  # around the log
        monkeypatch.setattr("tsdb.storage.writer.DIRECT_ROWS", 1)
    handle = tsdb.open(db.path, mode="r") if beside else db
    feed = Feed(handle._opened())
    newest = feed.snapshot().sequence
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(feed.wait(newest)))
    waiting.start()
    db.write("s", [{"v": 1}])
    waiting.join(timeout=30)
    assert found == [newest + 1]
    assert feed.snapshot().sequence == newest + 1
    assert feed.wait(newest) == newest + 1  # at once
    feed.close()
    if beside:
        handle.close()


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_waiting_ends(db: tsdb.Database, mode: str) -> None:
    handle = db if mode == "rw" else tsdb.open(db.path, mode="r")
    feed = Feed(handle._opened())
    newest = feed.snapshot().sequence
    assert feed.wait(newest, timeout=0.01) == newest
    waiting = threading.Thread(target=lambda: feed.wait(newest))
    waiting.start()
    feed.close()
    waiting.join(timeout=30)
    assert not waiting.is_alive()
    assert feed.wait(newest) == newest
    with pytest.raises(tsdb.Closed):
        feed.snapshot()
    assert not len(handle._opened()._versions.listeners)
    if mode == "r":
        handle.close()


def test_many_who_wait_are_woken_by_each_commit(db: tsdb.Database) -> None:
    seen: list[list[int]] = [[] for _ in range(5)]

    def follow(found: list[int]) -> None:
        with db.stream("SELECT v FROM s", settings={"seek_to": "earliest"}) as rows:
            while len(found) < 200:
                found += [v for (v,) in next(rows).fetchall()]

    threads = [threading.Thread(target=follow, args=(found,)) for found in seen]
    for thread in threads:
        thread.start()
    for v in range(200):
        db.write("s", [{"v": v}])
    for thread in threads:
        thread.join(timeout=60)
    assert seen == [list(range(200))] * 5
