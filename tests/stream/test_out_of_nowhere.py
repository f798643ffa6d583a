"""What signals do to live queries: handlers that raise between any two steps, or that close; and what goes as garbage."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tsdb
from tsdb.alive import Alive
from tsdb.exec.duck_call import interruptible
from tsdb.exec.duck_instance import cursor
from tsdb.stream.feed import Feed
from tsdb_format.parallel import ordered_map


class OutOfNowhere(Exception):
    pass


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db") as made:
        made.sql("CREATE STREAM s (v BIGINT)")
        made.sql("INSERT INTO s SELECT range FROM range(100)")
        yield made


def steps(act: Callable[[], object], files: tuple[str, ...], at: int, then: Callable[[], None]) -> int:
    """Do ``act`` and call ``then`` at step number ``at`` in these files: before a line, or after a function's last one.

    Returns how many steps there were.
    """
    count = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event in ("line", "return"):
            count += 1
            if count == at:
                then()
        return step

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return step if frame.f_code.co_filename.endswith(files) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def out_of_nowhere() -> None:
    raise OutOfNowhere


def ends(act: Callable[[], object]) -> bool:
    """Whether something ends within a reasonable time, in a thread of its own."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(timeout=20)
    return not thread.is_alive()


LOCKS = ("parallel.py", "threading.py", "futures/thread.py", "futures/_base.py")


def test_threads_work_on_wherever_whoever_waits_for_them_is_interrupted() -> None:
    def act() -> None:
        assert list(ordered_map(abs, range(-5, 0), 2)) == [5, 4, 3, 2, 1]

    total = steps(act, LOCKS, 0, out_of_nowhere)
    assert total > 50
    for at in range(1, total + 1, 3):
        with suppress(OutOfNowhere):
            steps(act, LOCKS, at, out_of_nowhere)
        assert ends(act), at


def test_duckdb_works_on_wherever_whoever_waits_for_it_is_interrupted() -> None:
    connection = cursor()

    def act() -> None:
        assert interruptible(lambda: connection.execute("SELECT 7").fetchall(), connection) == [(7,)]

    files = (*LOCKS, "duck_call.py")
    total = steps(act, files, 0, out_of_nowhere)
    for at in range(1, total + 1):
        with suppress(OutOfNowhere):
            steps(act, files, at, out_of_nowhere)
        steps(act, files, 0, out_of_nowhere)
    connection.close()


@pytest.mark.parametrize("how", ["wake", "close"])
def test_a_feed_is_woken_and_closed_by_who_interrupts_its_wait(db: tsdb.Database, how: str) -> None:
    files = ("feed.py", "threading.py", "alive.py")
    for at in range(1, 30):
        feed = Feed(db._opened())
        newest = feed.snapshot().sequence

        def act(feed: Feed = feed, newest: int = newest) -> None:
            assert feed.wait(newest, timeout=0.002) == newest

        assert ends(lambda act=act, at=at, feed=feed: steps(act, files, at, getattr(feed, how))), at
        feed.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what Python drops in a weak reference's callback
def test_what_a_handler_raises_comes_out_of_duckdb_as_itself(db: tsdb.Database) -> None:
    def handler(*_: object) -> None:
        raise OutOfNowhere

    text = "SELECT sqrt(v) AS r FROM s JOIN table(s) AS t USING (v)"
    with db.stream(text, settings={"seek_to": "earliest"}) as rows:
        next(rows).fetchall()  # an import that is interrupted leaves half a module, which is Python's affair
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for delay in (0.0005, 0.002, 0.004, 0.008, 0.016, 0.03, 0.06, 0.12) * 3:
            with pytest.raises(OutOfNowhere):  # noqa: PT012 (the timer is part of it)
                for turn in count():
                    if turn % 100 == 0:  # again: Python may have dropped what the handler raised the time before
                        signal.setitimer(signal.ITIMER_REAL, delay)
                    with db.stream(text, settings={"seek_to": "earliest"}) as rows:
                        next(rows).fetchall()
            assert db.sql("SELECT sqrt(49), count(*) FROM s").fetchall() == [(7, 100)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_may_close_what_waits(db: tsdb.Database) -> None:
    rows = db.stream("SELECT v FROM s")
    before = signal.signal(signal.SIGALRM, lambda *_: rows.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert list(rows) == []
    finally:
        signal.signal(signal.SIGALRM, before)
    assert rows.closed
    assert db.sql("SHOW QUERIES").fetchall() == []


@pytest.mark.parametrize("from_thread", [False, True], ids=["handler", "thread"])
def test_whoever_closes_between_any_two_steps_leaves_the_token_of_what_was_given(db: tsdb.Database, from_thread: bool) -> None:
    db.sql("INSERT INTO s SELECT range FROM range(100, 120)")
    db.flush()
    files = ("stream/live.py", "stream/position.py", "exec/source.py", "exec/stats.py")
    settings: dict[str, object] = {"seek_to": "earliest", "stream_batch_rows": 50, "threads": 1}

    def given(at: int) -> int:
        with db.stream("SELECT v FROM s", settings=settings) as rows:
            taken: list[int] = []

            def act() -> None:
                for _ in range(2):
                    taken.extend(v for (v,) in next(rows, None).fetchall())

            def close() -> None:
                if not from_thread:
                    return rows.close()
                closer = threading.Thread(target=rows.close)
                closer.start()
                return closer.join()

            with suppress(AttributeError):  # of None, where there was no second one
                count = steps(act, files, at, close)
        rest: list[int] = []
        with db.stream("SELECT v FROM s", resume=rows.token, settings={**settings, "seek_to": "earliest"}) as later:
            while len(taken) + len(rest) < 120:
                rest.extend(v for (v,) in next(later).fetchall())
        assert taken + rest == list(range(120)), at
        return count if at == 0 else 0

    total = given(0)
    assert total > 100
    some, done = range(1, total + 1, 7 if from_thread else 2), []
    assert ends(lambda: done.extend(map(given, some)))
    assert len(done) == len(some)


def test_nothing_of_pythons_runs_when_what_is_known_weakly_goes() -> None:
    """Else a handler's exception would be lost there, and a lock wanted that the same thread holds."""

    class Item:
        pass

    known: Alive[Item] = Alive()
    item = Item()
    known.add(item)
    assert list(known) == [item]
    calls: list[str] = []
    sys.setprofile(lambda frame, event, argument: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        del item
    finally:
        sys.setprofile(None)
    assert not calls
    assert not len(known)
    other = Item()
    known.add(other)
    known.discard(other)
    assert not list(known)


def test_many_live_queries_are_closed_by_the_collector(db: tsdb.Database) -> None:
    """Two hundred at once, in cycles with what their owners keep, let go while others wait."""
    kept: list[weakref.ref[Any]] = []
    for _ in range(200):
        rows = db.stream("SELECT v FROM s WHERE v % 2 = 0", settings={"seek_to": "earliest"})
        assert len(next(rows).fetchall()) == 50
        owner: dict[str, Any] = {"rows": rows}
        owner["self"] = owner
        kept.append(weakref.ref(rows))
    assert len(db.sql("SHOW QUERIES").fetchall()) >= 1
    del rows, owner
    gc.collect()
    assert not any(each() is not None for each in kept)
    assert db.sql("SHOW QUERIES").fetchall() == []
    assert not len(db._opened()._versions.listeners)
