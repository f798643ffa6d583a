"""Backups: a commit boundary whatever happens meanwhile, little to do the second time, and never half of one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from support.damage_case import SCHEMA, build, content, contents, copy, delete, files, flip, image, rewrite, write
from support.storage import Crash, CrashStorage, FailingStorage
from tsdb.catalog.table import TableOptions
from tsdb.database import open_database
from tsdb.storage import manifest as manifests
from tsdb.storage.backup import BackupReport, backup
from tsdb.storage.check import examine
from tsdb.storage.store import Store
from tsdb_format.errors import Closed, Corruption, Error, InvalidInput, Locked, NotFound


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one of everything, its log included."""
    return build(tmp_path_factory.mktemp("backup") / "db")


@pytest.fixture
def database(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return copy(whole, tmp_path / "db")


def backed_up(path: Path, target: Path, mode: str = "r", **how: bool) -> BackupReport:
    with Store.open(path, mode, background=False) as store:
        report = backup(store, target, **how)
        assert contents(store) == content(target)
        assert report.sequence == store.snapshot().sequence
    assert list(examine(target)) == []
    return report


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_backup_is_a_complete_database(database: Path, tmp_path: Path, mode: str) -> None:
    before = image(database)
    report = backed_up(database, tmp_path / "out", mode)
    assert report.files_linked > 10
    assert report.files_copied == report.files_kept == report.files_removed == 0
    if mode == "r":
        assert {k: v for k, v in image(database).items() if not k.startswith("lease/")} == before, "a reader changes nothing"
    expected = content(database)
    shutil.rmtree(database)
    assert content(tmp_path / "out") == expected
    with Store.open(tmp_path / "out") as store:
        assert store.snapshot().sequence == report.sequence
        write(store, [90], "az", v=1.0)
        delete(store, 0, 20)
        store.flush()
        assert len(contents(store)["t"]) == len([row for row in expected["t"] if row["time"] > 20]) + 2
        assert store.create_table("more", SCHEMA).id == 4
    assert list(examine(tmp_path / "out")) == []


def test_only_data_files_share_their_bytes(database: Path, tmp_path: Path) -> None:
    with Store.open(database) as store:
        store.flush()
    backed_up(database, tmp_path / "out")
    shared = {each.suffix for each in files(tmp_path / "out", "*") if each.stat().st_nlink > 1}
    assert shared == {".tsf", ".res", ".dev", ".del"}
    for name in ("CURRENT", "LOCK", "BACKUP"):
        assert (tmp_path / "out" / name).stat().st_nlink == 1
    assert not (tmp_path / "out" / "log").exists()
    report = backed_up(database, tmp_path / "copied", link=False)
    assert (report.files_linked, report.bytes_linked) == (0, 0)
    assert report.bytes_copied > 10_000
    assert all(each.stat().st_nlink == 1 for each in files(tmp_path / "copied", "*"))
    again = backed_up(database, tmp_path / "out", link=False)
    assert (again.files_copied, again.files_kept) == (report.files_copied, 0), "what is shared is replaced"
    assert all(each.stat().st_nlink == 1 for each in files(tmp_path / "out", "*"))


def test_files_are_copied_where_there_are_no_links(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    report = backed_up(database, tmp_path / "out")
    assert (report.files_linked, report.bytes_linked) == (0, 0)
    assert report.files_copied > 10


def test_the_second_backup_adds_what_is_new(tmp_path: Path) -> None:
    path, out = build(tmp_path / "db", flushed=True), tmp_path / "out"
    first = backed_up(path, out)
    again = backed_up(path, out)
    assert again == BackupReport(str(out), first.sequence, files_kept=first.files_linked)
    before = {each.name: each.stat().st_ino for each in files(out / "table", "*.tsf")}
    with Store.open(path, background=False) as store:
        write(store, [80], "ab", v=1.0)
        store.flush()
    third = backed_up(path, out)
    assert (third.files_linked, third.files_removed) == (2, 0), "one file and its sidecar: the devices are as they were"
    assert before.items() < {each.name: each.stat().st_ino for each in files(out / "table", "*.tsf")}.items()
    with Store.open(path, background=False) as store:
        store.drop_table("every")
    last = backed_up(path, out)
    assert last.files_removed == len(files(tmp_path / "out" / "table" / "2", "*")) + last.files_removed > 0
    assert not (out / "table" / "2").exists()
    assert len(files(out, "manifest/*.json")) == 1


def test_what_is_only_in_the_log_gets_files_of_the_backup_s_own(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    backed_up(database, out)
    tails = files(out, "tail-*.tsf")
    assert len(tails) == 2
    with Store.open(database, background=False) as store, Store.open(database, "r") as reader:
        for time in range(100, 104):
            write(store, [time], "ax", v=float(time), owner=f"o{time}")
            delete(store, time - 60, time - 60)
            backup(reader, out)
            assert content(out) == contents(store)
            assert list(examine(out)) == []
        store.flush()
        backup(reader, out)
        assert files(out, "tail-*") == []
        assert content(out) == contents(store)


# ------------------------------------------------------------------------------------------------------------ meanwhile


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_backup_beside_a_writer_is_a_commit_boundary(tmp_path: Path, mode: str) -> None:
    """Each commit writes one row to each of three devices, and every seventh deletes the oldest times: threes, without a hole."""
    path, out = tmp_path / "db", tmp_path / "out"
    with Store.open(path, background=False, memory_limit=1 << 20) as store:
        store.create_table("t", SCHEMA, TableOptions(rows_per_page=4))
        stop = threading.Event()

        def work() -> None:
            time = 0
            while not stop.is_set():
                write(store, [time], "abc", v=float(time))
                if time % 7 == 0:
                    delete(store, 0, time - 50)
                if time % 11 == 0:
                    store.flush()
                time += 1

        thread = threading.Thread(target=work)
        thread.start()
        last = 0
        try:
            with Store.open(path, "r") as reader:
                for _ in range(12):
                    acknowledged = store.snapshot().sequence
                    report = backup(store if mode == "rw" else reader, out)
                    assert report.sequence >= max(last, acknowledged)
                    last = report.sequence
                    assert list(examine(out)) == []
                    rows = content(out)["t"]
                    times = sorted({row["time"] for row in rows})
                    assert len(rows) == 3 * len(times)
                    assert times == list(range(times[0], times[-1] + 1)) if times else True
        finally:
            stop.set()
            thread.join()


def test_another_process_is_backed_up_while_it_writes(tmp_path: Path) -> None:
    path, out = tmp_path / "db", tmp_path / "out"
    code = """
import sys
from support.damage_case import SCHEMA, write
from tsdb.storage.store import Store

with Store.open(sys.argv[1], background=False) as store:
    store.create_table("t", SCHEMA)
    print("ready", flush=True)
    for time in range(100_000):
        write(store, [time], "abc", v=float(time))
        if time % 9 == 0:
            store.flush()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        try:
            with Store.open(path, "r") as reader:
                while reader.refresh().sequence < 60:
                    report = backup(reader, out)
                    rows = content(out).get("t", [])
                    assert len(rows) == 3 * report.sequence
        finally:
            writer.kill()
    assert list(examine(out)) == []


def test_a_reader_of_the_backup_keeps_what_it_reads(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    backed_up(database, out)
    expected = content(out)
    with Store.open(out, "r") as reader:
        assert reader.snapshot().tables["empty"].files == ()
        with Store.open(database, background=False) as store:
            store.drop_table("t")
            assert backup(store, out).files_removed == 0
        held = {name: len(reader.snapshot().tables[name].files) for name in expected}
        assert contents(reader)["every"] == expected["every"]
        assert held["t"] > 0
    assert backed_up(database, out).files_removed > 0


def test_damage_in_the_log_is_not_passed_over(database: Path, tmp_path: Path) -> None:
    [segment] = files(database, "*.log")
    flip(segment, 100)
    with Store.open(database, "r") as store, pytest.raises(Corruption) as caught:
        backup(store, tmp_path / "out")
    assert caught.value.path == str(segment)


def test_a_missing_file_is_named_and_leaves_the_earlier_backup(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    backed_up(database, out)
    before = content(out)
    with Store.open(database, background=False) as store:
        write(store, [99], "a")
        store.flush()
    files(database, "*.tsf")[0].unlink()
    with Store.open(database, "r") as store, pytest.raises(NotFound, match=r"0000000001\.tsf"):
        backup(store, out)
    assert content(out) == before
    files(database, "*.res")[1].unlink()


def test_a_missing_sidecar_is_no_hindrance(database: Path, tmp_path: Path) -> None:
    for path in files(database, "*.res"):
        path.unlink()
    with Store.open(database, "r") as store:
        backup(store, tmp_path / "out")
    assert content(tmp_path / "out") == content(database)


# --------------------------------------------------------------------------------------------------------------- places


def test_places_that_are_no_backup_of_this_database(database: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    other = build(tmp_path / "other")
    with Store.open(database, "r") as store:
        for place, says in (
            (tmp_path / "file", "is a file"), (tmp_path / "full", "holds 'thesis.txt'"), (other, "neither empty nor a backup"),
            (database, "lies in the other"), (database / "out", "lies in the other"), (tmp_path, "lies in the other"),
        ):  # fmt: skip
            with pytest.raises(InvalidInput, match=says):
                backup(store, place)
    with pytest.raises(Closed):
        backup(store, tmp_path / "out")
    assert image(tmp_path / "full") == {"thesis.txt": b"x"}


def test_the_backup_of_another_database_is_not_overwritten(tmp_path: Path) -> None:
    one, out = build(tmp_path / "one", flushed=True), tmp_path / "out"
    backed_up(one, out)
    before = image(out)
    other = tmp_path / "other"
    with Store.open(other, background=False) as store:
        with pytest.raises(InvalidInput, match="later state, or of another database"):
            backup(store, out)
        store.create_table("t", SCHEMA)
        for time in range(20):
            write(store, [time], "z", v=5.0)
        store.flush()
        with pytest.raises(InvalidInput, match="of another database: table/1/0000000001"):
            backup(store, out)
    shutil.rmtree(other)
    with Store.open(other, background=False) as store:
        store.create_table("x", SCHEMA)
        store.drop_table("x")
        for number in range(14):
            store.create_table(f"t{number}", SCHEMA)
            write(store, [number], "z", table=f"t{number}", v=5.0)
            store.flush()
            store.drop_table(f"t{number}")
        with pytest.raises(InvalidInput, match=f"is a backup of {one}"):
            backup(store, out)
    assert {name: raw for name, raw in image(out).items() if name != "LOCK"} == {n: r for n, r in before.items() if n != "LOCK"}
    moved = tmp_path / "moved"
    one.rename(moved)
    assert backed_up(moved, out).files_kept > 0, "the same database at another place"


def test_a_backup_that_was_written_to_is_a_database_of_its_own(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    backed_up(database, out)
    Store.open(out).close()
    backed_up(database, out)
    with Store.open(out, background=False) as store:
        with Store.open(database, "r") as source, pytest.raises(Locked):
            backup(source, out)
        write(store, [99], "a", v=1.0)
    with Store.open(database, "r") as source:
        with pytest.raises(InvalidInput, match="was written to"):
            backup(source, out)
        with Store.open(out, background=False) as store:
            store.flush()
        with pytest.raises(InvalidInput, match="was written to"):
            backup(source, out)
    third = tmp_path / "third"
    backed_up(out, third)
    assert content(third) == content(out), "and it can be backed up in turn"


def test_a_damaged_marker_is_refused(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    backed_up(database, out)
    flip(out / "BACKUP", 3)
    with Store.open(database, "r") as store, pytest.raises(InvalidInput, match="BACKUP in it is damaged"):
        backup(store, out)


def test_the_database_s_own_method(tmp_path: Path) -> None:
    with open_database(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP_S TIME, v DOUBLE FIELD)")
        db.write("t", [{"time": 1, "v": 2.0}])
        assert db.backup(tmp_path / "out").sequence == 1
        with open_database(tmp_path / "db", mode="r") as reader:
            assert reader.backup(str(tmp_path / "copied"), link=False).files_copied > 0
    with open_database(tmp_path / "out") as db:
        assert len(db.sql("SELECT * FROM t").fetchall()) == 1
        assert db.check() == []


# ------------------------------------------------------------------------------------------------------------- crashes


@pytest.mark.parametrize("earlier", [False, True])
def test_a_crash_leaves_the_earlier_backup_or_none(database: Path, tmp_path: Path, earlier: bool) -> None:
    """The machine stops at every operation: what is there is the old backup, the new one, or refused; and repeating it works."""
    base = tmp_path / "base"
    base.mkdir()
    old = None
    if earlier:
        backed_up(database, base / "out", link=False)
        old = content(base / "out")
        with Store.open(database, background=False) as store:
            write(store, [77], "ay", v=7.0)
            delete(store, 20, 22)
            write(store, [78], "ay", v=7.0)
            store.drop_table("empty")
    new = content(database)
    rng = np.random.default_rng(7)
    with Store.open(database, "r") as store:
        counting = CrashStorage(copy(base, tmp_path / "work"))
        backup(store, tmp_path / "work" / "out", link=False, storage=counting)
        seen = set()
        for number in _some(counting.operations):
            crashing = CrashStorage(copy(base, tmp_path / "work"), number)
            with pytest.raises(Crash):
                backup(store, tmp_path / "work" / "out", link=False, storage=crashing)
            after = tmp_path / "after"
            shutil.rmtree(after, ignore_errors=True)
            crashing.after_crash(after, rng if number % 3 else None)
            seen.add(_state(after / "out", old, new))
            backup(store, after / "out", link=False)
            assert content(after / "out") == new, number
            assert list(examine(after / "out")) == []
            assert len(files(after / "out", "manifest/*.json")) == 1
    assert seen == ({"old", "new"} if earlier else {"refused", "new"})


def _some(operations: int) -> list[int]:
    """Operations to stop at: some of those that write files, and all around the commit."""
    return [*range(1, operations - 14, 31), *range(operations - 14, operations + 1)]


def _state(out: Path, old: object, new: object) -> str:
    """What is at a place after a crash: the old backup, the new one, or something that does not open."""
    if not files(out, "manifest/*.json"):
        with pytest.raises(NotFound):
            Store.open(out, "r")
        if out.is_dir() and files(out, "*.tsf"):
            with pytest.raises(InvalidInput, match="is no database and not empty: it holds 'BACKUP'"):
                Store.open(out)
        return "refused"
    found = content(out)
    assert [each for each in examine(out) if not each.note] == []
    assert found in (old, new)
    return "new" if found == new else "old"


def test_a_full_disk_leaves_the_earlier_backup(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    backed_up(database, out, link=False)
    old = content(out)
    with Store.open(database, background=False) as store:
        write(store, [77], "ay", v=7.0)
        store.flush()
    new = content(database)
    kinds = ("create", "write", "sync", "folder", "rename")
    counting = FailingStorage(kinds=kinds)
    with Store.open(database, "r") as store:
        backup(store, copy(out, tmp_path / "work"), link=False, storage=counting)
        for number in _some(counting.operations):
            work = copy(out, tmp_path / "work")
            with pytest.raises(Error, match="No space left"):
                backup(store, work, link=False, storage=FailingStorage(number, kinds=kinds))
            assert content(work) in (old, new)
            assert [each for each in examine(work) if not each.note] == []
            backup(store, work, link=False)
            assert content(work) == new
            assert list(examine(work)) == []


def test_a_database_whose_disk_is_full_can_be_backed_up(tmp_path: Path) -> None:
    failing = FailingStorage(kinds=("create", "write", "sync", "folder", "rename"))
    with Store.open(tmp_path / "db", background=False, storage=failing) as store:
        store.create_table("t", SCHEMA)
        write(store, range(5), "ab", v=1.0)
        failing.sticky, failing.fail_at = True, failing.operations + 1
        with pytest.raises(Error, match="No space left"):
            store.flush()
        with pytest.raises(Error, match="takes no more writes"):
            write(store, [9], "a")
        assert backup(store, tmp_path / "out").sequence == 1
        assert contents(store) == content(tmp_path / "out")
    assert len(content(tmp_path / "out")["t"]) == 10


def test_an_unfinished_backup_is_gone_on_with(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    backed_up(database, out)
    for path in [*files(out, "manifest/*.json"), out / "CURRENT"]:
        path.unlink()
    [first, *_] = files(out, "*.tsf")
    rewrite(first, b"half a file")
    with Store.open(database, "r") as store:
        report = backup(store, out)
    assert report.files_kept > 5
    assert report.files_linked == 1
    assert content(out) == content(database)
    assert manifests.load(out).version == 1
