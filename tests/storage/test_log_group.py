"""Group commit: few syncs for many threads, each thread's commit durable when it is told so, and failures reach all of them."""

from __future__ import annotations

import errno
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.log_case import read_log, row
from support.storage import FailingStorage
from tsdb.storage.log import Log
from tsdb.storage.log_group import EVERYTHING, Group
from tsdb_format.disk import DISK, OutputFile
from tsdb_format.errors import Error


class SlowDisk:
    """The disk, where a sync takes a while and is counted; ``gate`` holds it up."""

    def __init__(self, seconds: float = 0.002) -> None:
        self.seconds = seconds
        self.syncs = 0
        self.gate = threading.Event()
        self.gate.set()
        self.read, self.rename, self.remove, self.list = DISK.read, DISK.rename, DISK.remove, DISK.list

    def create(self, path: str, *, ahead: int = 0) -> OutputFile:
        return _SlowFile(self, DISK.create(path))


class _SlowFile:
    def __init__(self, disk: SlowDisk, file: OutputFile) -> None:
        self._disk, self._file = disk, file
        self.write, self.close = file.write, file.close
        self._busy = threading.Lock()

    @property
    def position(self) -> int:
        return self._file.position

    def sync(self, *, name: bool = False) -> None:
        assert self._busy.acquire(blocking=False), "two threads sync at once"
        self._disk.syncs += 1
        self._disk.gate.wait(10)
        time.sleep(self._disk.seconds)
        self._busy.release()


def run(count: int, work: Callable[[int], object]) -> None:
    """Run ``work(number)`` in that many threads; an error in one is an error here."""
    errors: list[Exception] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


class Writer:
    """What the store does: a number and an append under its lock, the sync outside."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.lock = threading.Lock()
        self.sequence = 0

    def commit(self, rotate_every: int = 0) -> int:
        with self.lock:
            self.sequence += 1
            number = self.sequence
            if rotate_every and number % rotate_every == 0:
                self.log.rotate(number)
            position = self.log.append(number, row(number))
        self.log.sync(position)
        assert self.log.durable >= position
        assert self.log.durable_sequence >= number
        return number


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Let threads interleave more than they would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_many_threads_share_a_sync(tmp_path: Path) -> None:
    disk = SlowDisk()
    writer = Writer(Log(str(tmp_path), 1, disk))
    run(16, lambda number: [writer.commit() for _ in range(20)])
    writer.log.close()
    assert list(read_log(tmp_path)[1]) == list(range(1, 321))
    assert disk.syncs < 320 / 4


def test_all_who_wait_are_served_by_one_sync(tmp_path: Path) -> None:
    disk = SlowDisk(0)
    writer = Writer(Log(str(tmp_path), 1, disk))
    disk.gate.clear()
    first = threading.Thread(target=writer.commit)
    first.start()
    while not disk.syncs:
        time.sleep(0.001)
    others = [threading.Thread(target=writer.commit) for _ in range(9)]
    for thread in others:
        thread.start()
    while writer.sequence < 10 or len(writer.log._group._waiting) < 9:
        time.sleep(0.001)
    assert writer.log.durable_sequence == 0
    disk.gate.set()
    for thread in [first, *others]:
        thread.join(10)
        assert not thread.is_alive()
    assert disk.syncs == 2
    assert writer.log.durable_sequence == 10
    writer.log.close()


def test_appends_go_on_while_a_sync_runs(tmp_path: Path) -> None:
    disk = SlowDisk(0)
    log = Log(str(tmp_path), 1, disk)
    position = log.append(1, row(1))
    disk.gate.clear()
    thread = threading.Thread(target=log.sync, args=(position,))
    thread.start()
    while not disk.syncs:
        time.sleep(0.001)
    later = log.append(2, row(2))
    assert thread.is_alive()
    disk.gate.set()
    thread.join(10)
    assert log.durable == position
    log.sync(later)
    assert disk.syncs == 2
    log.close()


def test_rotating_between_syncs_loses_nothing(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1, SlowDisk(0.0005))
    writer = Writer(log)
    run(8, lambda number: [writer.commit(rotate_every=7) for _ in range(30)])
    log.close()
    found, changes = read_log(tmp_path)
    assert found.problem is None
    assert list(changes) == list(range(1, 241))
    assert len(log.segments) == 1 + 240 // 7


def test_rotating_beside_the_writers_loses_nothing(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1, SlowDisk(0.0005))
    writer = Writer(log)

    def work(number: int) -> None:
        for _ in range(30):
            if number:
                writer.commit()
                continue
            with suppress(ValueError):  # somebody appended since
                log.rotate(writer.sequence + 1)

    run(6, work)
    log.close()
    found, changes = read_log(tmp_path)
    assert found.problem is None
    assert list(changes) == list(range(1, 151))


def test_a_failed_sync_reaches_everybody(tmp_path: Path) -> None:
    storage = FailingStorage(30, errno.EIO, kinds={"sync"}, sticky=False)
    writer = Writer(Log(str(tmp_path), 1, storage))
    acknowledged: list[int] = []
    failed: list[Error] = []

    def work(number: int) -> None:
        for _ in range(200):
            try:
                acknowledged.append(writer.commit())
            except Error as error:
                failed.append(error)
                return

    run(8, work)
    assert len(failed) == 8
    assert all("takes no more writes" in str(error) for error in failed)
    assert storage.operations == 30
    assert max(acknowledged) <= writer.log.durable_sequence
    writer.log.close()
    assert set(acknowledged) <= set(read_log(tmp_path)[1])


def test_closing_waits_for_a_sync(tmp_path: Path) -> None:
    disk = SlowDisk(0)
    log = Log(str(tmp_path), 1, disk)
    position = log.append(1, row(1))
    disk.gate.clear()
    thread = threading.Thread(target=log.sync, args=(position,))
    thread.start()
    while not disk.syncs:
        time.sleep(0.001)
    closing = threading.Thread(target=log.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    disk.gate.set()
    thread.join(10)
    closing.join(10)
    assert not closing.is_alive()
    assert log.segments == () or read_log(tmp_path)[1].keys() == {1}


# ---- turns ----


def test_turns_go_round_until_all_is_reached() -> None:
    group = Group()
    done, turns, total = 0, 0, threading.Lock()
    busy = threading.Lock()

    def work(number: int) -> None:
        nonlocal done, turns
        for _ in range(300):
            with total:
                done += 1
                mine = done
            reached = 0
            try:
                if group.take_turn(EVERYTHING if mine % 50 == 0 else mine):
                    assert busy.acquire(blocking=False)
                    turns += 1
                    reached = done
                    busy.release()
            finally:
                group.end_turn(reached)
            assert group.reached >= mine

    run(8, work)
    assert group.reached == 2_400
    assert turns <= 2_400
    assert not group._waiting
    assert not group._leader


def test_a_turn_that_fails_is_tried_by_the_next() -> None:
    group = Group()
    assert group.take_turn(1)
    results = []

    def waiter(number: int) -> None:
        results.append(group.take_turn(5 + number))
        group.end_turn(0)

    threads = [threading.Thread(target=waiter, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    while len(group._waiting) < 3:
        time.sleep(0.001)
    group.end_turn(0)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert results == [True, True, True]
    assert not group.take_turn(0)
    group.end_turn(99)
    assert group.reached == 0
