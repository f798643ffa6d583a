"""The disk's five operations, and files that are whole or absent whichever operation fails."""

from __future__ import annotations

import errno
import os
import resource as limits
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.file_case import random_case
from support.storage import GROWING, FailingStorage
from tsdb_format import disk
from tsdb_format.disk import DISK, NewFile, Storage
from tsdb_format.errors import Error, NotFound
from tsdb_format.reader import TsFile

OLD, NEW = b"old", b"newer than old"


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _replace(path: Path, storage: Storage) -> None:
    with NewFile(str(path), storage) as file:
        file.write(NEW[:5])
        file.write(NEW[5:])
        file.commit()


def test_bytes_of_any_kind_are_appended(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    parts = [b"a", bytearray(b"bc"), memoryview(b"def"), np.arange(6, dtype="<i8").reshape(2, 3), np.empty(0, "<f8"), b""]
    file, expected = DISK.create(path), b""
    for part in parts:
        file.write(part)
        expected += bytes(part) if not isinstance(part, np.ndarray) else part.tobytes()
        assert file.position == len(expected)
        assert DISK.read(path).tobytes() == expected, "a change is seen at once"
    file.sync()
    file.close()
    file.close()
    assert file.position == len(expected)
    assert DISK.create(path).position == 0
    assert len(DISK.read(path)) == 0, "creating takes the place of what has the name"


def test_what_was_read_stays_readable_and_is_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    found = DISK.read(str(path))
    found[0] = 0
    assert path.read_bytes() == OLD
    DISK.remove(str(path))
    assert found[1:].tobytes() == OLD[1:]


def test_names(tmp_path: Path) -> None:
    for name in ("b", "c", "a"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "folder").mkdir()
    folder = str(tmp_path)
    assert DISK.list(folder) == ["a", "b", "c", "folder"]
    DISK.rename(f"{folder}/a", f"{folder}/b")
    DISK.remove(f"{folder}/c")
    assert DISK.list(folder) == ["b", "folder"]
    assert DISK.read(f"{folder}/b").tobytes() == b"a"


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(OLD)
    for missing in ("b", "b/c", "a/b"):
        path = str(tmp_path / missing)
        with pytest.raises(NotFound, match=missing):
            DISK.read(path)
        DISK.remove(path)
        assert DISK.list(path) == []
        with pytest.raises(OSError, match="b"):
            DISK.rename(path, str(tmp_path / "d"))
    with pytest.raises(Error, match="cannot be read"):
        DISK.read(str(tmp_path))


def test_missing_folders_are_made_durably(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = disk._sync_folder
    monkeypatch.setattr(disk, "_sync_folder", lambda path: synced.append(path) or sync(path))
    DISK.create(str(tmp_path / "a" / "b" / "c")).close()
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    file = DISK.create(str(tmp_path / "a" / "b" / "d"))
    file.sync()
    assert len(synced) == 2
    file.sync(name=True)
    assert synced[2:] == [str(tmp_path / "a" / "b")]
    file.close()
    DISK.rename(str(tmp_path / "a" / "b" / "d"), str(tmp_path / "a" / "e"), sync=False)
    assert len(synced) == 3
    DISK.rename(str(tmp_path / "a" / "e"), str(tmp_path / "a" / "d"))
    assert synced[3:] == [str(tmp_path / "a")]
    with pytest.raises(OSError, match="c"):
        DISK.create(str(tmp_path / "a" / "b" / "c" / "file"))


def test_names_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = DISK.create("a")
    file.sync(name=True)
    file.close()
    DISK.rename("a", "b")
    DISK.create("new/c").close()
    assert _names(tmp_path) == ["b", "new/c"]


def test_a_file_counts_the_bytes_that_were_written_before_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, sizes = os.pwrite, [4, 3]

    def short(handle: int, data: memoryview, at: int) -> int:
        if not sizes:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[: sizes.pop()], at)

    file = DISK.create(str(tmp_path / "a"))
    monkeypatch.setattr(disk.os, "pwrite", short)
    with pytest.raises(OSError, match="No space"):
        file.write(b"0123456789")
    monkeypatch.undo()
    assert file.position == 7
    assert DISK.read(str(tmp_path / "a")).tobytes() == b"0123456"
    file.close()


def test_more_open_files_are_asked_for_once_they_are_needed(tmp_path: Path) -> None:
    soft, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    held = []
    try:
        limits.setrlimit(limits.RLIMIT_NOFILE, (60, hard))
        held = [DISK.create(str(tmp_path / str(number))) for number in range(100)]
        limits.setrlimit(limits.RLIMIT_NOFILE, (50, hard))
        assert len(DISK.read(str(tmp_path / "7"))) == 0
    finally:
        for file in held:
            file.close()
        limits.setrlimit(limits.RLIMIT_NOFILE, (soft, hard))


def test_an_unfinished_file_is_not_there(tmp_path: Path) -> None:
    with NewFile(str(tmp_path / "a")) as file:
        file.write(NEW)
        file.align(8)
        assert _names(tmp_path) == ["a.tmp"]
        assert file.position == 16
    assert _names(tmp_path) == []
    with pytest.raises(KeyError), NewFile(str(tmp_path / "a")) as file:
        raise KeyError
    assert _names(tmp_path) == []


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("before", [None, OLD])
def test_a_failure_of_any_operation_leaves_the_old_file_or_the_new(tmp_path: Path, before: bytes | None, sticky: bool) -> None:
    path, outcomes = tmp_path / "a", []
    for storage in _failing_once(sticky=sticky):
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)
        try:
            _replace(path, storage)
        except OSError:
            failed = storage.failed[0].split()[0]
            outcomes.append(failed)
            expected = NEW if failed == "folder" else before
        else:
            expected = NEW
        assert (path.read_bytes() if path.exists() else None) == expected
        if not sticky:
            assert not (tmp_path / "a.tmp").exists()
    assert outcomes == ["create", "write", "write", "sync", "rename", "folder"]


def test_a_removal_that_fails_hides_no_other_error(tmp_path: Path) -> None:
    storage = FailingStorage(2, sticky=True)
    with pytest.raises(OSError, match="No space") as caught:
        _replace(tmp_path / "a", storage)
    assert caught.value.__context__ is None
    assert storage.failed == ["write a.tmp", "remove a.tmp"]
    assert _names(tmp_path) == ["a.tmp"], "which nobody reads, and the next one replaces"
    _replace(tmp_path / "a", DISK)
    assert _names(tmp_path) == ["a"]


def _failing_once(**options: object) -> Iterator[FailingStorage]:
    """A storage for every operation that can fail; the last one fails none."""
    number = 0
    while True:
        number += 1
        storage = FailingStorage(number, **options)
        yield storage
        if not storage.failed:
            return


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("replaces", [False, True])
def test_a_data_file_is_written_whole_or_not_at_all(tmp_path: Path, replaces: bool, sticky: bool) -> None:
    old, new = random_case(1, rows=30), random_case(2, rows=50)
    path, failures = tmp_path / "a.tsf", 0
    for storage in _failing_once(sticky=sticky, kinds=GROWING if sticky else None):
        for name in _names(tmp_path):
            (tmp_path / name).unlink()
        if replaces:
            old.write(path)
        try:
            new.write(path, sync=True, storage=storage)
        except OSError:
            failures += 1
            expected = 50 if storage.failed[0].startswith("folder") else 30 if replaces else 0
        else:
            expected = 50
            assert _names(tmp_path) == ["a.res", "a.tsf"]
        assert set(_names(tmp_path)) <= {"a.res", "a.tsf"}, "removing works, so nothing is left over"
        if expected:
            with TsFile(path) as file:
                file.verify()
                assert file.row_count == expected
                assert file.resource.verify() in ("", "absent", "belongs to another file")
        else:
            assert _names(tmp_path) == []
    assert failures > 20


def test_reading_fails_with_an_error_of_ours_and_an_unreadable_sidecar_is_made_up_for(tmp_path: Path) -> None:
    case = random_case(3, rows=40)
    case.write(tmp_path / "a.tsf")
    with pytest.raises(Error, match=r"a\.tsf cannot be read: Input/output error"):
        TsFile(tmp_path / "a.tsf", FailingStorage(1, errno.EIO))
    with TsFile(tmp_path / "a.tsf") as file:
        expected = file.resource.max_time.tolist()
    storage = FailingStorage(2, errno.EIO)
    with TsFile(tmp_path / "a.tsf", storage) as file:
        assert file.resource.rebuilt
        assert file.resource.max_time.tolist() == expected
        assert "Input/output error" in file.resource.reason
    assert storage.calls == ["read a.tsf", "read a.res"]


def test_counting_and_kinds(tmp_path: Path) -> None:
    storage = FailingStorage()
    _replace(tmp_path / "a", storage)
    storage.read(str(tmp_path / "a"))
    storage.list(str(tmp_path))
    writing = ["create a.tmp", "write a.tmp", "write a.tmp", "sync a.tmp", "rename a", f"folder {tmp_path.name}"]
    assert storage.calls == [*writing, "read a", f"list {tmp_path.name}"]
    assert (storage.operations, storage.count("write"), storage.failed) == (8, 2, [])
    syncs = FailingStorage(1, errno.EIO, kinds={"sync"})
    with pytest.raises(OSError, match="Input/output error"):
        _replace(tmp_path / "b", syncs)
    assert syncs.calls == syncs.failed == ["sync b.tmp"]
    _replace(tmp_path / "b", syncs)
    syncs.fail_at, syncs.kinds = syncs.operations + 1, {"folder"}
    file = syncs.create(str(tmp_path / "c"))
    file.sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync(name=True)
    file.close()


def test_a_failing_write_has_written_a_part(tmp_path: Path) -> None:
    storage = FailingStorage(2, kinds={"write"})
    file = storage.create(str(tmp_path / "a"))
    file.write(b"whole")
    with pytest.raises(OSError, match="No space"):
        file.write(np.frombuffer(b"halved", np.uint8))
    assert file.position == 8
    file.close()
    assert (tmp_path / "a").read_bytes() == b"wholehal"
