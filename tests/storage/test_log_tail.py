"""Another process follows the log while it is written: every commit once, in order, and only whole ones."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from support.log_case import plain, put, random_change, row, write_log
from tsdb.storage.log import Log
from tsdb.storage.log_replay import set_aside
from tsdb.storage.log_segment import CHANGE, frame, head_bytes, segment_name
from tsdb.storage.log_tail import LogTail
from tsdb_format.errors import Corruption, NotFound, UnsupportedFormat

ROOT = Path(__file__).resolve().parent.parent.parent


def numbers(tail: LogTail, after: int = 0) -> list[int]:
    found = tail.poll(after)
    assert all(plain(change) == plain(row(number)) for number, change in found)
    return [number for number, _ in found]


def test_each_commit_is_seen_once_over_rotations(tmp_path: Path) -> None:
    tail = LogTail(str(tmp_path))
    assert numbers(tail) == []
    log = Log(str(tmp_path), 1)
    seen = []
    rng = np.random.default_rng(1)
    for number in range(1, 200):
        log.append(number, row(number))
        if rng.random() < 0.1:
            log.rotate(number + 1)
        if rng.random() < 0.3:
            seen += numbers(tail)
            assert seen == list(range(1, number + 1))
            assert numbers(tail) == []
    log.close()
    assert seen + numbers(tail) == list(range(1, 200))
    assert numbers(LogTail(str(tmp_path)), 150) == list(range(151, 200))


def test_a_new_reader_begins_in_the_right_segment(tmp_path: Path) -> None:
    write_log(tmp_path, [3, 4, 2])
    for after in range(10):
        assert numbers(LogTail(str(tmp_path)), after) == list(range(after + 1, 10))


def test_changes_of_every_kind_come_through(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1)
    tail = LogTail(str(tmp_path))
    for number in range(1, 20):
        log.append(number, random_change(number))
        [(found, change)] = tail.poll(0)
        assert (found, plain(change)) == (number, plain(random_change(number)))
        assert all(vector.values.flags.aligned for vector in change.columns.values())
    log.close()


def test_a_half_written_record_is_not_there_yet(tmp_path: Path) -> None:
    expected = write_log(tmp_path, [2, 2])
    whole = {first: (tmp_path / segment_name(first)).read_bytes() for first in (1, 3)}
    for first in whole:
        (tmp_path / segment_name(first)).unlink()
    tail = LogTail(str(tmp_path))
    seen: list[int] = []
    for first, raw in whole.items():
        path = tmp_path / segment_name(first)
        for size in range(len(raw) + 1):
            if size % 3 == 0:  # the length may be there before the bytes
                put(path, raw[:size] + bytes(min(40, len(raw) - size)))
                seen += numbers(tail)
            put(path, raw[:size])
            seen += numbers(tail)
            assert seen == list(range(1, len(seen) + 1))
    assert seen == list(expected)


def test_what_a_crash_left_unfinished_is_passed_when_the_next_process_goes_on(tmp_path: Path) -> None:
    write_log(tmp_path, [3], close=False)
    path = tmp_path / segment_name(1)
    put(path, path.read_bytes() + b"\1" * 100)
    tail = LogTail(str(tmp_path))
    assert numbers(tail) == [1, 2, 3]
    assert numbers(tail) == []
    log = Log(str(tmp_path), 4)
    assert numbers(tail) == []
    log.append(4, row(4))
    assert numbers(tail) == [4]
    log.close()


def test_commits_already_known_are_not_returned(tmp_path: Path) -> None:
    write_log(tmp_path, [3, 3])
    tail = LogTail(str(tmp_path))
    assert numbers(tail, 4) == [5, 6]
    log = Log(str(tmp_path), 7)
    for number in (7, 8, 9):
        log.append(number, row(number))
    assert numbers(tail, 8) == [9]
    log.close()


def test_a_reader_left_behind_is_told_and_goes_on(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1)
    tail, other = LogTail(str(tmp_path)), LogTail(str(tmp_path))
    log.append(1, row(1))
    assert numbers(tail) == numbers(other) == [1]
    log.append(2, row(2))
    log.rotate(3)
    log.drop(2)
    assert numbers(tail) == []  # nothing says that there was more
    log.append(3, row(3))
    for _ in range(2):
        with pytest.raises(NotFound, match="no commits 2 to 2"):
            tail.poll(0)
    assert numbers(tail, 2) == [3]
    assert numbers(other, 2) == [3]
    log.append(4, row(4))
    assert numbers(tail, 2) == [4]
    log.close()


def test_commits_that_went_to_files_are_waited_for(tmp_path: Path) -> None:
    """Commit 3 is in files, of a manifest that the reader has not seen yet: it must not see 4 without it."""
    log = Log(str(tmp_path), 1)
    for number in (1, 2, 4):
        log.append(number, row(number))
    tail = LogTail(str(tmp_path))
    assert numbers(tail) == [1, 2]
    for _ in range(2):
        with pytest.raises(NotFound, match="no commits 3 to 3"):
            tail.poll(0)
    assert numbers(tail, 3) == [4]
    log.close()


def test_a_segment_set_aside_leaves_the_reader_behind(tmp_path: Path) -> None:
    write_log(tmp_path, [3])
    tail = LogTail(str(tmp_path))
    assert numbers(tail) == [1, 2, 3]
    set_aside(str(tmp_path), [segment_name(1)])
    assert numbers(tail) == []
    write_log(tmp_path, [2], first=4)
    assert numbers(tail) == [4, 5]


def test_damage_in_the_middle_is_where_a_reader_stops(tmp_path: Path) -> None:
    write_log(tmp_path, [5])
    path = tmp_path / segment_name(1)
    raw = bytearray(path.read_bytes())
    raw[500] ^= 1
    put(path, raw)
    tail = LogTail(str(tmp_path))
    seen = numbers(tail)
    assert seen == list(range(1, len(seen) + 1))
    assert 0 < len(seen) < 5
    assert numbers(tail) == []


def test_errors_come_after_what_was_found_before(tmp_path: Path) -> None:
    write_log(tmp_path, [2], close=False)
    path = tmp_path / segment_name(1)
    good = path.read_bytes()
    for tail_bytes, error in ((frame(CHANGE, 3, 0, [b"\1" * 8]), Corruption), (frame(99, 3, 0), UnsupportedFormat)):
        put(path, good + tail_bytes)
        tail = LogTail(str(tmp_path))
        assert numbers(tail) == [1, 2]
        for _ in range(2):
            with pytest.raises(error):
                tail.poll(0)


def test_a_later_build_s_segment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tsdb.storage.log_segment.VERSION", 2)
        (tmp_path / segment_name(1)).write_bytes(head_bytes(1))
    with pytest.raises(UnsupportedFormat, match="log format 2"):
        LogTail(str(tmp_path)).poll(0)


def test_polling_keeps_no_file_open(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1)
    tail = LogTail(str(tmp_path))
    log.append(1, row(1))
    kept = tail.poll(0)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for number in range(2, 50):
        log.append(number, row(number))
        kept += tail.poll(0)
    assert len(kept) == 49
    assert not before or len(os.listdir("/proc/self/fd")) == before
    log.close()


def test_a_reader_beside_a_writer_in_threads(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1)
    count = 2_000
    known = [0]

    def write() -> None:
        for number in range(1, count + 1):
            log.append(number, row(number))
            if number % 170 == 0:
                log.rotate(number + 1)
                known[0] = number - 90
                log.drop(known[0])

    thread = threading.Thread(target=write)
    thread.start()
    tail, last = LogTail(str(tmp_path)), 0
    end = time.monotonic() + 60
    while last < count and time.monotonic() < end:
        after = known[0]
        try:
            found = tail.poll(after)
        except NotFound:
            continue
        for number, change in found:
            assert number == last + 1 or (number > last and number - 1 <= after)
            assert plain(change) == plain(row(number))
            last = number
    thread.join()
    log.close()
    assert last == count


WRITER = """
import sys
sys.path[:0] = {path!r}
from support.log_case import row
from tsdb.storage.log import Log
log = Log({folder!r}, {first})
for number in range({first}, {stop}):
    log.sync(log.append(number, row(number))) if number % 5 == 0 else log.append(number, row(number))
    if number % 40 == 0:
        log.rotate(number + 1)
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_reader_beside_writers_in_processes_that_are_killed(tmp_path: Path) -> None:
    tail, seen = LogTail(str(tmp_path)), []
    path = [str(ROOT), str(ROOT / "format"), str(ROOT / "tests")]
    for first, stop in ((1, 130), (130, 300)):
        script = WRITER.format(path=path, folder=str(tmp_path), first=first, stop=stop)
        with subprocess.Popen([sys.executable, "-c", script]) as process:
            while process.poll() is None:
                seen += numbers(tail)
                time.sleep(0.001)
        assert process.returncode == -9
        seen += numbers(tail)
        assert seen == list(range(1, stop))
