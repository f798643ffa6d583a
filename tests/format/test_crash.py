"""Crashes: the storage that simulates them loses all that a disk may lose and nothing else, and data files survive it whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.file_case import random_case
from support.storage import SECTOR_BYTES, Crash, CrashStorage
from tsdb_format.disk import NewFile, Storage
from tsdb_format.errors import Error
from tsdb_format.reader import TsFile

OLD, NEW = b"old", b"newer than old"


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _replace(path: Path, storage: Storage) -> None:
    with NewFile(str(path), storage) as file:
        file.write(NEW[:5])
        file.write(NEW[5:])
        file.commit()


def _outcomes(storage: CrashStorage, place: Path, seeds: int = 60) -> list[dict[str, bytes]]:
    """What may be on the disk, one for each seed; the first is the least."""
    found = []
    for seed in range(-1, seeds):
        target = place / str(seed)
        storage.after_crash(target, np.random.default_rng(seed) if seed >= 0 else None)
        found.append({name: (target / name).read_bytes() for name in _names(target)})
    return found


def test_unsynced_bytes_are_kept_cut_or_torn(tmp_path: Path) -> None:
    storage = CrashStorage(tmp_path / "db")
    data = np.random.default_rng(5).integers(1, 256, 5 * SECTOR_BYTES, dtype=np.uint8).tobytes()
    file = storage.create(str(tmp_path / "db" / "log"))
    file.write(data[:700])
    file.sync(name=True)
    file.write(data[700:2000])
    file.write(data[2000:])
    found = [outcome["log"] for outcome in _outcomes(storage, tmp_path / "after")]
    assert found[0] == data[:700]
    assert all(each[:700] == data[:700] and len(each) <= len(data) for each in found)
    kinds = {
        "synced" if each == data[:700] else "all" if each == data else "cut" if data.startswith(each) else "torn" for each in found
    }
    assert kinds == {"synced", "all", "cut", "torn"}
    for each in found:
        differs = np.frombuffer(each, np.uint8) != np.frombuffer(data, np.uint8)[: len(each)]
        assert not np.frombuffer(each, np.uint8)[differs].any(), "torn parts are zeros"
    assert found == [outcome["log"] for outcome in _outcomes(storage, tmp_path / "again")], "a seed has one outcome"
    storage.after_kill(tmp_path / "killed")
    assert (tmp_path / "killed" / "log").read_bytes() == data
    file.sync()
    assert {outcome["log"] for outcome in _outcomes(storage, tmp_path / "synced")} == {data}
    file.close()


def test_a_name_lasts_once_its_folder_is_synced(tmp_path: Path) -> None:
    storage = CrashStorage(tmp_path / "db")
    file = storage.create(str(tmp_path / "db" / "wal" / "1.log"))
    file.write(NEW)
    file.sync()
    found = _outcomes(storage, tmp_path / "a")
    assert found[0] == {}
    assert {tuple(each.items()) for each in found} == {(), (("wal/1.log", NEW),)}
    other = storage.create(str(tmp_path / "db" / "other"))
    other.sync(name=True)
    assert {"wal/1.log" in each for each in _outcomes(storage, tmp_path / "b")} == {False, True}, "another folder was synced"
    file.sync(name=True)
    assert all(each == {"wal/1.log": NEW, "other": b""} for each in _outcomes(storage, tmp_path / "c"))
    file.close()
    other.close()


def test_renaming_without_a_folder_sync_may_be_undone_but_is_one_step(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    path = tmp_path / "db" / "a"
    path.write_bytes(OLD)
    storage = CrashStorage(tmp_path / "db")
    with NewFile(str(path), storage) as file:
        file.write(NEW)
        file.commit(sync_name=False)
    found = {tuple(sorted(each.items())) for each in _outcomes(storage, tmp_path / "x")}
    assert found == {(("a", OLD),), (("a", NEW),), (("a", OLD), ("a.tmp", NEW))}
    _replace(path.with_name("b"), storage)
    assert all(each == {"a": NEW, "b": NEW} for each in _outcomes(storage, tmp_path / "y")), "one sync serves the whole folder"


def test_a_new_name_for_unsynced_bytes(tmp_path: Path) -> None:
    storage = CrashStorage(tmp_path / "db")
    file = storage.create(str(tmp_path / "db" / "a.tmp"))
    file.write(NEW)
    file.close()
    storage.rename(str(tmp_path / "db" / "a.tmp"), str(tmp_path / "db" / "a"))
    found = _outcomes(storage, tmp_path / "x")
    assert found[0] == {"a": b""}
    assert {b"", NEW} < {each["a"] for each in found}


def test_what_was_removed_may_come_back(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "a").write_bytes(OLD)
    storage = CrashStorage(tmp_path / "db")
    storage.remove(str(tmp_path / "db" / "a"))
    storage.remove(str(tmp_path / "db" / "never"))
    assert {"a" in each for each in _outcomes(storage, tmp_path / "x")} == {False, True}
    _replace(tmp_path / "db" / "b", storage)
    assert all(each == {"b": NEW} for each in _outcomes(storage, tmp_path / "y"))


def test_a_file_made_empty_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "a").write_bytes(OLD)
    storage = CrashStorage(tmp_path / "db")
    for _ in range(2):
        file = storage.create(str(tmp_path / "db" / "a"))
        file.write(b"other")
        file.close()
    found = [each["a"] for each in _outcomes(storage, tmp_path / "x")]
    assert found[0] == OLD
    assert {OLD, b"", b"other"} < set(found)


@pytest.mark.parametrize("crash_at", [1, 2, 3, 4, 5])
def test_the_world_stops_at_the_nth_operation(tmp_path: Path, crash_at: int) -> None:
    storage = CrashStorage(tmp_path, crash_at)
    with pytest.raises(Crash):
        _replace(tmp_path / "a", storage)
    assert storage.crashed
    assert storage.operations == crash_at
    assert storage.calls == ["create a.tmp", "write a.tmp", "write a.tmp", "sync a.tmp", "rename a"][:crash_at]
    path = str(tmp_path / "a")
    for call in (
        lambda: storage.read(path), lambda: storage.create(path), lambda: storage.remove(path), lambda: storage.list(path),
        lambda: storage.rename(path, path),
    ):  # fmt: skip
        with pytest.raises(Crash):
            call()
    assert storage.operations == crash_at


def test_the_operation_that_crashes_may_have_happened(tmp_path: Path) -> None:
    seen = {}
    for crash_at in range(1, 6):
        storage = CrashStorage(tmp_path / str(crash_at), crash_at)
        with pytest.raises(Crash):
            _replace(tmp_path / str(crash_at) / "a", storage)
        seen[crash_at] = {tuple(sorted(each)) for each in _outcomes(storage, tmp_path / f"after {crash_at}")}
    assert seen == {number: {(), ("a.tmp",)} | ({("a",)} if number == 5 else set()) for number in range(1, 6)}


def test_a_file_stopped_at_its_sync_or_write_takes_no_more(tmp_path: Path) -> None:
    storage = CrashStorage(tmp_path, 2)
    file = storage.create(str(tmp_path / "a"))
    for call in (lambda: file.write(b"x"), lambda: file.write(b"y"), file.sync, lambda: file.sync(name=True)):
        with pytest.raises(Crash):
            call()
    file.close()
    assert {each.get("a") for each in _outcomes(storage, tmp_path / "after")} == {None, b"", b"x", b"\0"}


def _survivors(tmp_path: Path, *, sync: bool) -> Iterator[tuple[bool, Path]]:
    """A data file's writing stopped at each operation, and some of what may be there then; the last ones were not stopped."""
    case, crash_at, stopped = random_case(11, rows=60, rows_per_page=16), 0, True
    while stopped:
        crash_at += 1
        root = tmp_path / f"{sync}{crash_at}"
        storage = CrashStorage(root, crash_at)
        try:
            case.write(root / "a.tsf", sync=sync, storage=storage)
        except Crash:
            pass
        else:
            stopped = False
        for seed in range(-1, 4 if stopped else 20):
            target = root / f"after{seed}"
            storage.after_crash(target, np.random.default_rng([crash_at, seed]) if seed >= 0 else None)
            yield stopped, target / "a.tsf"
    assert crash_at > 20


def test_a_crash_leaves_a_data_file_whole_or_absent(tmp_path: Path) -> None:
    kinds = set()
    for stopped, path in _survivors(tmp_path, sync=True):
        kinds.add((stopped, path.exists()))
        if path.exists():
            with TsFile(path) as file:
                file.verify()
                assert file.row_count == 60
                assert file.resource.verify() == "" or (stopped and file.resource.reason == "absent")
    assert kinds == {(True, False), (True, True), (False, True)}


def test_without_syncs_a_crash_leaves_damage(tmp_path: Path) -> None:
    damaged = 0
    for _, path in _survivors(tmp_path, sync=False):
        if path.exists():
            try:
                with TsFile(path) as file:
                    file.verify()
            except Error:
                damaged += 1
    assert damaged
