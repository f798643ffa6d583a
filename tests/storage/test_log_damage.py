"""Damage to the log: cuts and flips at every byte, zeros, missing segments. A prefix comes back, and what was lost is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.log_case import plain, put, read_log, row, write_log
from tsdb.storage.log import Log
from tsdb.storage.log_replay import DAMAGED_SUFFIX, set_aside
from tsdb.storage.log_segment import HEAD_BYTES, RECORD_BYTES, frame, read_record, segment_name
from tsdb_format.errors import Corruption


def bounds(raw: bytes) -> list[int]:
    """Where the records of a segment end, the head first."""
    found, view = [HEAD_BYTES], memoryview(raw)
    while (record := read_record(view, found[-1])) is not None:
        found.append(record.stop)
    return found


def whole_prefix(changes: dict[int, tuple], expected: dict[int, tuple]) -> bool:
    return changes == {number: expected[number] for number in sorted(expected)[: len(changes)]}


@pytest.mark.parametrize("close", [True, False])
def test_cut_at_every_byte_the_last_segment_gives_a_prefix(tmp_path: Path, close: bool) -> None:
    expected = write_log(tmp_path, [2, 4], close=close)
    path = tmp_path / segment_name(3)
    raw = path.read_bytes()
    ends = bounds(raw)
    for size in range(len(raw)):
        put(path, raw[:size])
        found, changes = read_log(tmp_path)
        whole = sum(end <= size for end in ends[1:5])
        assert changes == {number: expected[number] for number in range(1, 3 + whole)}
        assert found.last_sequence == 2 + whole
        assert found.problem is None
        good = max((end for end in ends if end <= size), default=0)
        assert found.unfinished_bytes == size - good


def test_cut_at_every_byte_an_earlier_segment_ends_the_replay(tmp_path: Path) -> None:
    expected = write_log(tmp_path, [3, 2, 1])
    path = tmp_path / segment_name(1)
    raw = path.read_bytes()
    ends = bounds(raw)
    for size in range(len(raw)):
        put(path, raw[:size])
        found, changes = read_log(tmp_path)
        whole = sum(end <= size for end in ends[1:4])
        if whole == 3:  # only the END is missing, and the next segment goes on
            assert found.problem is None
            assert changes == expected
            continue
        assert changes == {number: expected[number] for number in range(1, 1 + whole)}
        assert found.problem is not None
        if size in ends[:3]:  # between two records: the gap shows at the next segment
            assert found.problem.path == str(tmp_path / segment_name(4))
            assert found.damaged == (segment_name(4), segment_name(6))
        else:
            assert found.problem.path == str(path)
            assert found.problem.offset == max((end for end in ends if end <= size), default=0)
            assert found.damaged == (segment_name(1), segment_name(4), segment_name(6))


@pytest.mark.parametrize("close", [True, False])
def test_every_flipped_byte_of_what_was_durable_is_found(tmp_path: Path, close: bool) -> None:
    expected = write_log(tmp_path, [4], close=close)
    path = tmp_path / segment_name(1)
    raw = path.read_bytes()
    ends = bounds(raw)
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 1 << at % 8
        put(path, damaged)
        found, changes = read_log(tmp_path)
        bad = max((end for end in ends if end <= at), default=0)
        assert whole_prefix(changes, expected)
        assert found.last_sequence == len(changes) == max(0, ends.index(bad) if bad else 0)
        if at >= ends[-2]:  # the last record: nothing tells that it was ever whole
            assert found.problem is None
            continue
        assert found.problem is not None
        assert (found.problem.path, found.problem.offset) == (str(path), bad)
        assert found.damaged == (path.name,)


def test_every_flipped_byte_of_an_earlier_segment_ends_the_replay(tmp_path: Path) -> None:
    expected = write_log(tmp_path, [2, 2, 2])
    path = tmp_path / segment_name(3)
    raw = path.read_bytes()
    ends = bounds(raw)
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 0x40
        put(path, damaged)
        found, changes = read_log(tmp_path)
        if at >= ends[2]:  # the END
            assert (found.problem, changes) == (None, expected)
            continue
        assert found.problem is not None
        assert found.problem.path == str(path)
        assert found.damaged == (segment_name(3), segment_name(5))
        assert changes == {number: expected[number] for number in range(1, 3 if at < ends[1] else 4)}


def test_what_was_never_durable_may_be_lost_without_a_word(tmp_path: Path) -> None:
    """A crash of the machine can leave the later of several records and not the earlier. They were never acknowledged."""
    log = Log(str(tmp_path), 1)
    log.sync(log.append(1, row(1)))
    durable = log.position
    for number in range(2, 6):
        log.append(number, row(number))
    path = tmp_path / segment_name(1)
    raw = path.read_bytes()
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 0xFF
        put(path, damaged)
        found, changes = read_log(tmp_path)
        assert (found.problem is None) == (at >= durable)
        assert whole_prefix(changes, {number: plain(row(number)) for number in range(1, 6)})
        if at >= durable:
            assert found.unfinished_bytes > 0
            assert changes
    log.close()


@pytest.mark.parametrize("zeros", [1, 7, 8, 31, 32, 33, 4_096, 100_000])
def test_a_tail_of_zeros_is_no_damage(tmp_path: Path, zeros: int) -> None:
    expected = write_log(tmp_path, [3], close=False)
    path = tmp_path / segment_name(1)
    raw = path.read_bytes()
    for keep in (len(raw), len(raw) - 10, HEAD_BYTES, 5, 0):
        put(path, raw[:keep] + bytes(zeros))
        found, changes = read_log(tmp_path)
        assert found.problem is None
        assert whole_prefix(changes, expected)
        assert len(changes) == {len(raw): 3, len(raw) - 10: 2}.get(keep, 0)


def test_an_empty_segment_between_others_ends_the_replay(tmp_path: Path) -> None:
    expected = write_log(tmp_path, [2, 2, 2])
    (tmp_path / segment_name(3)).write_bytes(b"")
    found, changes = read_log(tmp_path)
    assert list(changes) == [1, 2]
    assert found.problem is not None
    assert (found.problem.path, found.problem.offset) == (str(tmp_path / segment_name(3)), 0)
    assert found.damaged == (segment_name(3), segment_name(5))
    assert read_log(tmp_path, 4)[1] == {number: expected[number] for number in (5, 6)}


@pytest.mark.parametrize("gone", [1, 3])
def test_a_missing_segment_ends_the_replay(tmp_path: Path, gone: int) -> None:
    expected = write_log(tmp_path, [2, 2, 2])
    (tmp_path / segment_name(gone)).unlink()
    found, changes = read_log(tmp_path)
    assert list(changes) == list(range(1, gone))
    assert found.last_sequence == gone - 1
    assert found.problem is not None
    assert f"commits {gone} to {gone + 1} are missing" in str(found.problem)
    assert found.problem.path == str(tmp_path / segment_name(gone + 2))
    assert found.damaged == tuple(segment_name(first) for first in (1, 3, 5) if first > gone)
    assert read_log(tmp_path, gone + 1)[1] == {number: expected[number] for number in range(gone + 2, 7)}


def test_a_segment_without_records_says_what_was_before_it(tmp_path: Path) -> None:
    write_log(tmp_path, [2, 2, 2])
    (tmp_path / segment_name(3)).unlink()
    path = tmp_path / segment_name(5)
    put(path, path.read_bytes()[:HEAD_BYTES])
    found, changes = read_log(tmp_path)
    assert list(changes) == [1, 2]
    assert found.problem is not None
    assert (found.problem.path, found.problem.offset, found.damaged) == (str(path), 0, (path.name,))


def test_a_missing_last_segment_cannot_be_noticed(tmp_path: Path) -> None:
    write_log(tmp_path, [2, 2])
    (tmp_path / segment_name(3)).unlink()
    found, changes = read_log(tmp_path)
    assert (found.problem, list(changes)) == (None, [1, 2])


def test_a_segment_under_another_s_name_ends_the_replay(tmp_path: Path) -> None:
    write_log(tmp_path, [2, 2])
    shutil.copy(tmp_path / segment_name(1), tmp_path / segment_name(3))
    found, changes = read_log(tmp_path)
    assert list(changes) == [1, 2]
    assert "says that it begins with commit 1" in str(found.problem)


def test_a_record_that_is_valid_and_impossible_ends_the_replay(tmp_path: Path) -> None:
    write_log(tmp_path, [2], close=False)
    path = tmp_path / segment_name(1)
    raw = path.read_bytes()
    nonsense = frame(int.from_bytes(b"CHNG", "little"), 3, 0, [b"\1" * 16])
    again = raw[HEAD_BYTES : bounds(raw)[1]]
    for tail, message in ((nonsense, "malformed"), (again, "commit 1 comes after 2")):
        put(path, raw + tail)
        found, changes = read_log(tmp_path)
        assert list(changes) == [1, 2]
        assert message in str(found.problem)
        assert found.problem is not None
        assert found.problem.offset >= len(raw)


def test_what_is_set_aside_is_out_of_the_way_and_kept(tmp_path: Path) -> None:
    write_log(tmp_path, [3, 2, 2])
    path = tmp_path / segment_name(1)
    raw = bytearray(path.read_bytes())
    raw[bounds(raw)[1] + RECORD_BYTES] ^= 1
    put(path, raw)
    found, changes = read_log(tmp_path)
    assert list(changes) == [1]
    log = Log(str(tmp_path), 2)
    with pytest.raises(Corruption):
        log.append(2, row(2))
    log.close()
    assert path.read_bytes() == raw

    renamed = set_aside(str(tmp_path), found.damaged)
    assert renamed == [segment_name(first) + DAMAGED_SUFFIX for first in (1, 4, 6)]
    assert (tmp_path / renamed[0]).read_bytes() == raw
    assert read_log(tmp_path, 1)[0].problem is None
    log = Log(str(tmp_path), 2)
    assert log.segments == ()
    for number in range(2, 6):
        log.append(number, row(number))
    log.close()
    assert list(read_log(tmp_path, 1)[1]) == [2, 3, 4, 5]
    assert set_aside(str(tmp_path), [segment_name(2)]) == [segment_name(2) + DAMAGED_SUFFIX]
    write_log(tmp_path, [1], first=2)
    assert set_aside(str(tmp_path), [segment_name(2)]) == [segment_name(2) + DAMAGED_SUFFIX + "2"]
    assert len(list(tmp_path.iterdir())) == 5


def test_setting_aside_part_of_it_brings_nothing_back(tmp_path: Path) -> None:
    """A crash between the renamings: what is still there does not go on from what was replayed."""
    write_log(tmp_path, [3, 2, 2])
    path = tmp_path / segment_name(1)
    put(path, path.read_bytes()[:-150])
    found, changes = read_log(tmp_path)
    assert found.problem is not None
    last = found.last_sequence
    for _ in range(len(found.damaged)):
        assert found.damaged
        set_aside(str(tmp_path), found.damaged[:1])
        found, changes = read_log(tmp_path, last)
        assert changes == {}
    assert found.problem is None
