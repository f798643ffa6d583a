"""The log's writer and its replay: what was appended comes back, what failed stays failed, nothing acknowledged is lost."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from support.log_case import plain, random_change, read_log, row, write_log
from support.storage import Crash, CrashStorage, FailingStorage
from tsdb.storage.log import AHEAD_BYTES, Log
from tsdb.storage.log_replay import replay
from tsdb.storage.log_segment import head_bytes, segment_name
from tsdb_format.disk import DISK
from tsdb_format.errors import Closed, Corruption, Error, UnsupportedFormat


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_commits_come_back_in_order(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 5)
    expected = {}
    for number in range(5, 25):
        change = random_change(number, rows=number)
        log.append(number, change)
        expected[number] = plain(change)
    log.close()
    for after in (4, 5, 17, 24, 99):
        found, changes = read_log(tmp_path, after)
        assert changes == {number: change for number, change in expected.items() if number > after}
        assert found.last_sequence == max(24, after)
        assert found.applied == len(changes)
        assert found.problem is None
        assert found.unfinished_bytes == 0


def test_an_empty_folder_and_none_are_empty_logs(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        assert read_log(folder, 3)[0].last_sequence == 3
        log = Log(str(folder), 4)
        assert (log.bytes, log.segments, log.position, log.durable) == (0, (), 0, 0)
        log.rotate(4)
        log.sync(log.position)
        log.close()
    assert names(tmp_path) == []


def test_segments_are_named_by_their_first_commit(tmp_path: Path) -> None:
    expected = write_log(tmp_path, [3, 2, 4], first=7)
    assert names(tmp_path) == [segment_name(7), segment_name(10), segment_name(12)]
    found, changes = read_log(tmp_path, 6)
    assert changes == expected
    assert found.last_sequence == 15
    log = Log(str(tmp_path), 16)
    assert log.segments == ((segment_name(7), 7), (segment_name(10), 10), (segment_name(12), 12))
    assert log.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_positions_and_sizes_go_on_over_segments(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1)
    positions = [log.append(1, row(1)), log.append(2, row(2))]
    assert log.durable == 0
    assert log.durable_sequence == 0
    log.sync(positions[0])
    assert log.durable == positions[1]
    assert log.durable_sequence == 2
    log.rotate(3)
    assert log.durable == log.position
    positions.append(log.append(3, row(3)))
    assert positions == sorted(positions)
    assert log.durable_sequence == 2
    assert log.bytes == log.position == sum(path.stat().st_size for path in tmp_path.iterdir())
    log.sync(positions[1])
    assert log.durable < log.position
    with pytest.raises(ValueError, match="the log ends at"):
        log.sync(log.position + 1)
    log.close()


def test_numbers_that_go_back_are_refused(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 5)
    log.append(5, row(5))
    for wrong in (4, 5):
        with pytest.raises(ValueError, match="comes after 5"):
            log.append(wrong, row(wrong))
        with pytest.raises(ValueError, match="comes after 5"):
            log.rotate(wrong)
    log.append(6, row(6))
    log.close()
    assert list(read_log(tmp_path, 4)[1]) == [5, 6]


def test_dropping_removes_what_is_in_files(tmp_path: Path) -> None:
    write_log(tmp_path, [3, 2, 4])
    log = Log(str(tmp_path), 10)
    log.append(10, row(10))
    for logged, left in ((2, [1, 4, 6, 10]), (3, [4, 6, 10]), (4, [4, 6, 10]), (9, [10]), (10, [10])):
        log.drop(logged)
        assert [first for _, first in log.segments] == left
        assert names(tmp_path) == [segment_name(first) for first in left]
    log.rotate(11)
    log.drop(9)
    assert len(log.segments) == 1
    log.drop(10)
    assert log.segments == ()
    assert log.bytes == 0
    log.close()


def test_what_cannot_be_removed_is_dropped_later(tmp_path: Path) -> None:
    storage = FailingStorage(kinds={"remove"}, error=errno.EIO, sticky=True)
    write_log(tmp_path, [1, 1])
    log = Log(str(tmp_path), 3, storage)
    storage.fail_at = 1
    log.drop(2)
    assert len(log.segments) == 2
    storage.fail_at = 0
    log.drop(2)
    assert log.segments == ()


def test_commits_that_went_to_files_are_left_out(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1)
    for number in (1, 2, 5):
        log.append(number, row(number))
    log.close()
    assert list(read_log(tmp_path, 4)[1]) == [5]
    found, changes = read_log(tmp_path, 0)
    assert list(changes) == [1, 2]
    assert "commits 3 to 4 are missing" in str(found.problem)
    assert found.damaged == (segment_name(1),)


def test_closed_is_closed(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1)
    position = log.append(1, row(1))
    log.close()
    log.close()
    log.sync(position)
    with pytest.raises(Closed):
        log.append(2, row(2))


def test_a_later_build_s_log_is_refused_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path, [2])
    with monkeypatch.context() as patch:
        patch.setattr("tsdb.storage.log_segment.VERSION", 2)
        (tmp_path / segment_name(3)).write_bytes(head_bytes(3))
    with pytest.raises(UnsupportedFormat, match="log format 2"):
        read_log(tmp_path)
    (tmp_path / segment_name(3)).unlink()
    with monkeypatch.context() as patch:
        patch.setattr("tsdb.storage.log_record.CHANGE", 99)
        log = Log(str(tmp_path), 3)
        log.append(3, row(3))
        log.close()
    with pytest.raises(UnsupportedFormat, match="kind 0x63"):
        read_log(tmp_path)


def test_what_apply_raises_goes_through(tmp_path: Path) -> None:
    write_log(tmp_path, [2])
    with pytest.raises(KeyError):
        replay(str(tmp_path), 0, lambda sequence, change: {}[sequence])


# ---- a process that dies leaves an unfinished segment ----


def test_the_next_process_finishes_the_segment_before_it_appends(tmp_path: Path) -> None:
    expected = write_log(tmp_path, [3], close=False)
    path = tmp_path / segment_name(1)
    torn = path.read_bytes() + b"\1" * 100
    path.write_bytes(torn)
    assert read_log(tmp_path)[0].unfinished_bytes == 100
    (tmp_path / (segment_name(1) + ".tmp")).write_bytes(b"of a crash while finishing")
    log = Log(str(tmp_path), 4)
    assert path.read_bytes() == torn
    log.append(4, row(4))
    assert path.read_bytes() == torn[:-100] + path.read_bytes()[-32:]
    assert names(tmp_path) == [segment_name(1), segment_name(4)]
    log.close()
    found, changes = read_log(tmp_path)
    assert changes == expected | {4: plain(row(4))}
    assert (found.problem, found.unfinished_bytes) == (None, 0)


def test_a_finished_segment_is_left_alone(tmp_path: Path) -> None:
    write_log(tmp_path, [3])
    before = (tmp_path / segment_name(1)).stat()
    log = Log(str(tmp_path), 4)
    log.append(4, row(4))
    log.close()
    after = (tmp_path / segment_name(1)).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("left", [b"", bytes(500), head_bytes(4)[:-1], head_bytes(4), head_bytes(4) + b"\1" * 40])
def test_a_segment_without_a_record_gives_way(tmp_path: Path, left: bytes) -> None:
    expected = write_log(tmp_path, [3])
    (tmp_path / segment_name(4)).write_bytes(left)
    assert read_log(tmp_path)[0].problem is None
    mapped = DISK.read(str(tmp_path / segment_name(4)))
    log = Log(str(tmp_path), 4)
    log.append(4, row(4))
    log.close()
    assert mapped.tobytes() == left
    assert read_log(tmp_path)[1] == expected | {4: plain(row(4))}


def test_commits_that_were_not_replayed_are_not_built_upon(tmp_path: Path) -> None:
    write_log(tmp_path, [3])
    log = Log(str(tmp_path), 3)
    with pytest.raises(Corruption, match="holds commit 3, which was not replayed"):
        log.append(3, row(3))
    with pytest.raises(Error, match="takes no more writes"):
        log.append(3, row(3))
    log.close()
    assert len(read_log(tmp_path)[1]) == 3


# ---- failing disks ----


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_whatever_fails_nothing_acknowledged_is_lost(tmp_path: Path, error: int) -> None:
    """The k-th operation of a log's life fails, for every k; then a new process reads what is there."""
    for fail_at in range(1, 100):
        folder = tmp_path / str(fail_at)
        expected = write_log(folder, [2], close=False)
        storage = FailingStorage(fail_at, error)
        log, acknowledged = None, 2
        try:
            log = Log(str(folder), 3, storage)
            for number in range(3, 9):
                log.sync(log.append(number, row(number)))
                acknowledged = number
                if number % 2 == 0:
                    log.rotate(number + 1)
            log.close()
        except Error:
            if log is not None and log.failure is not None:
                assert storage.failed
                for _ in range(2):
                    with pytest.raises(Error, match="takes no more writes"):
                        log.append(acknowledged + 10, row(1))
                log.sync(log.durable)
                log.close()
        found, changes = read_log(folder)
        assert found.problem is None
        assert acknowledged <= found.last_sequence <= acknowledged + 1
        expected = {number: plain(row(number)) for number in range(1, found.last_sequence + 1)}
        assert changes == expected
        if not storage.failed:
            assert fail_at > 20
            break
    else:
        pytest.fail("the log never came to its end")


def test_after_a_failed_sync_nothing_is_acknowledged(tmp_path: Path) -> None:
    storage = FailingStorage(kinds={"sync"}, error=errno.EIO)
    log = Log(str(tmp_path), 1, storage)
    log.sync(log.append(1, row(1)))
    first = log.position
    storage.fail_at = 2
    second = log.append(2, row(2))
    for _ in range(3):
        with pytest.raises(Error, match="takes no more writes"):
            log.sync(second)
    log.sync(first)
    assert log.durable_sequence == 1
    assert isinstance(log.failure, OSError)
    assert storage.operations == 2
    with pytest.raises(Error, match="takes no more writes"):
        log.rotate(3)
    log.close()


def test_after_a_failed_write_what_was_written_before_can_be_synced(tmp_path: Path) -> None:
    storage = FailingStorage(3, kinds={"write"})
    log = Log(str(tmp_path), 1, storage)
    position = log.append(1, row(1))
    with pytest.raises(Error, match="No space left") as caught:
        log.append(2, row(2))
    assert isinstance(caught.value.__cause__, OSError)
    log.sync(position)
    assert log.durable_sequence == 1
    with pytest.raises(Error):
        log.append(2, row(2))
    log.close()
    found, changes = read_log(tmp_path)
    assert list(changes) == [1]
    assert found.problem is None
    assert found.unfinished_bytes > 0


@pytest.mark.parametrize("whole", [1, 2])
def test_nothing_follows_a_record_that_was_written_in_part(tmp_path: Path, whole: int) -> None:
    """A commit, or the END after it."""
    storage = FailingStorage(3 if whole == 1 else 4, kinds={"write"})
    log = Log(str(tmp_path), 1, storage)
    for number in range(1, whole + 1):
        log.append(number, row(number))
    with pytest.raises(Error, match="No space left"):
        log.append(2, row(2)) if whole == 1 else log.rotate(3)
    for _ in range(2):
        with pytest.raises(Error, match="takes no more writes"):
            log.rotate(3)
        with pytest.raises(Error, match="takes no more writes"):
            log.append(3, row(3))
    log.close()
    assert storage.operations == storage.fail_at
    found, changes = read_log(tmp_path)
    assert len(changes) == whole
    assert (found.problem, found.unfinished_bytes > 0) == (None, True)


def test_the_first_sync_of_a_segment_makes_its_name_durable(tmp_path: Path) -> None:
    storage = FailingStorage()
    write_log(tmp_path, [2, 1], storage=storage)
    relevant = [call.split()[0] for call in storage.calls if call.split()[0] in ("create", "write", "sync", "folder")]
    # Per segment: its head and records, each synced, and an END.
    assert relevant == [
        "create", "write", "write", "sync", "folder", "write", "sync", "write", "sync",
        "create", "write", "write", "sync", "folder", "write", "sync",
    ]  # fmt: skip


# ---- crashes of the machine, at every operation and at random ----


class Life:
    """Processes that come and go over one disk, what they acknowledged, and what the manifest would say is in files."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.acknowledged = 0
        self.logged = 0

    def run(self, storage: CrashStorage) -> None:
        """One process: recover, then append, sync, rotate and drop, until it dies."""
        found, changes = read_log(Path(storage.root) / "log", self.logged, storage)
        assert found.problem is None
        assert found.last_sequence >= self.acknowledged
        assert changes == {number: plain(row(number)) for number in range(self.logged + 1, found.last_sequence + 1)}
        log = Log(f"{storage.root}/log", found.last_sequence + 1, storage)
        number = found.last_sequence
        for _ in range(int(self.rng.integers(1, 25))):
            what = self.rng.choice(["append", "sync", "settle", "rotate", "drop", "close"], p=[0.55, 0.25, 0.05, 0.07, 0.05, 0.03])
            if what == "append":
                number += 1
                log.append(number, row(number))
            elif what == "sync":
                log.sync(log.position)
            elif what == "settle":
                log.settle()
            elif what == "rotate":
                log.rotate(number + 1)
            elif what == "drop":
                self.logged = int(self.rng.integers(self.logged, max(self.logged, log.durable_sequence) + 1))
                log.drop(self.logged)
            else:
                log.close()
                return
            assert log.durable_sequence == number or what in ("append", "drop", "settle") or not log.position
            self.acknowledged = max(self.acknowledged, log.durable_sequence)


@pytest.mark.parametrize("seed", range(25))
def test_through_crashes_and_kills_every_acknowledged_commit_stays(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    life = Life(rng)
    storage = CrashStorage(tmp_path / "0")
    for number in range(1, 12):
        storage.crash_at = storage.operations + int(rng.integers(1, 60))
        try:
            while not storage.crashed and rng.random() < 0.6:
                life.run(storage)  # and is killed after it: what it wrote is there, and not durable
            continue
        except Crash:
            pass
        storage.after_crash(tmp_path / str(number), rng if rng.random() < 0.8 else None)
        storage = CrashStorage(tmp_path / str(number))


def test_an_interrupted_append_breaks_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(str(tmp_path), 1)
    log.append(1, row(1))

    def interrupted(data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(log, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.append(2, row(2))
    monkeypatch.undo()
    with pytest.raises(Error, match="takes no more writes"):
        log.append(2, row(2))
    log.sync(log.position)
    log.close()


def test_zeros_ahead_are_no_records(tmp_path: Path) -> None:
    log = Log(str(tmp_path), 1)
    for sequence in range(1, 4):
        log.sync(log.append(sequence, row(sequence)))
    path = tmp_path / segment_name(1)
    assert path.stat().st_size > AHEAD_BYTES > 2 * log.bytes
    raw = path.read_bytes()
    assert not any(raw[log.position :])
    for size in (len(raw), len(raw) - 1, log.position + 1, log.position):
        path.write_bytes(raw[:size])
        found, changes = read_log(tmp_path)
        assert (found.last_sequence, sorted(changes), found.problem) == (3, [1, 2, 3], None)
    path.write_bytes(raw)
    again = Log(str(tmp_path), 4)
    again.settle()
    assert path.stat().st_size == log.position + 32, "the copy has its END and no zeros"
    log = Log(str(tmp_path), 4)
    log.append(4, row(4))
    log.close()
    found, changes = read_log(tmp_path)
    assert (found.last_sequence, len(changes), found.unfinished_bytes) == (4, 4, 0)
