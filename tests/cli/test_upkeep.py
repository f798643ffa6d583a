"""The commands that look after a database: check, salvage, backup, flush, compact."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import environment, run
from support.damage_case import build, content, copy, files, flip, image
from tsdb.storage.store import Store

COMMANDS = ("check", "backup", "flush", "compact")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one of everything, its log included."""
    return build(tmp_path_factory.mktemp("upkeep") / "x.db")


@pytest.fixture
def database(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return copy(whole, tmp_path / "x.db")


def test_help_lists_them() -> None:
    listed = run("--help").out
    for name in COMMANDS:
        assert f"  {name} " in listed
        assert run(name, "--help").code == 0


def test_check_of_a_whole_database(database: Path) -> None:
    ran = run("check", database)
    assert (ran.code, ran.out, ran.err) == (0, "", "no damage found\n")


def test_check_names_path_and_offset_one_a_line(database: Path) -> None:
    path = files(database, "*.tsf")[0]
    sidecar = files(database, "*.res")[1]
    flip(path, 30)
    sidecar.write_bytes(b"")
    (database / "table" / "1" / "0000000999.tsf").write_bytes(b"x")
    ran = run("check", database)
    assert ran.code == 1
    first, second = ran.out.splitlines()
    assert first.startswith(f"{path} at byte ")
    assert "column 'time', page 0" in first
    assert second.startswith(f"{sidecar} at byte 0: ")
    assert ran.err.splitlines()[-1] == "2 findings"
    assert "note: " in ran.err
    assert "0000000999.tsf: no version names it" in ran.err


def test_check_of_what_cannot_be_opened(database: Path) -> None:
    manifest = files(database, "manifest/*.json")[-1]
    flip(manifest, 40)
    ran = run("check", database)
    assert ran.code == 1
    assert ran.out == f"{manifest} at byte 0: the manifest's checksum does not match\n"
    assert run("query", database, "SELECT 1").code == 1


def test_salvage_lists_what_is_lost(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    ran = run("check", database, "--salvage", out)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines()[-1] == "nothing is lost"
    assert f"15 rows of table every to {out}" in ran.err
    assert content(out) == content(database)
    assert "not empty" in run("check", database, "--salvage", out).err
    path = files(database, "*.tsf")[0]
    path.unlink()
    before = image(database)
    ran = run("check", database, "--salvage", tmp_path / "again.db")
    assert ran.code == 1
    assert ran.out.startswith(f"{path}: ")
    assert ran.out.endswith("60 rows from 1970-01-01 00:00:00 to 1970-01-01 00:00:19 are lost\n")
    assert ran.err.splitlines()[-1] == "1 loss"
    assert image(database) == before
    assert run("check", tmp_path / "again.db").code == 0


def test_backup_and_its_update(database: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    expected = content(database)
    ran = run("backup", database, out)
    assert (ran.code, ran.out) == (0, "")
    assert f"{out} is as of commit 9: " in ran.err
    assert " linked (" in ran.err
    assert run("flush", database).code == 0
    assert "0 removed" not in run("backup", database, out).err
    again = run("backup", database, out).err
    assert "0 linked" not in again
    assert "0 copied (0 B), " in again
    assert ", 0 files kept, 0 removed in" in run("backup", database, out, "--copy").err, "shared files are replaced by copies"
    shutil.rmtree(database)
    assert content(out) == expected
    assert run("check", out).code == 0
    failed = run("backup", database, out)
    assert (failed.code, failed.err) == (1, f"error: no database {database}\n")


def test_flush(database: Path) -> None:
    expected = content(database)
    ran = run("flush", database)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("flushed 6 rows, ")
    assert run("flush", database).err == "nothing to flush: all is in data files\n"
    assert content(database) == expected
    assert run("check", database).code == 0


def test_compact(database: Path) -> None:
    expected = content(database)
    ran = run("compact", database, "--table", "EVERY")
    assert (ran.code, ran.out) == (0, "")
    assert " before, 1 file of " in ran.err
    assert " written, write amplification 1.00" in ran.err
    ran = run("compact", database)
    assert ran.code == 0
    assert "rewrite" in ran.err
    assert run("compact", database).err.startswith("nothing to compact: ")
    assert content(database) == expected
    assert run("check", database).code == 0
    failed = run("compact", database, "--table", "evry")
    assert failed.code == 1
    assert "did you mean 'every'?" in failed.err


@pytest.mark.parametrize("name", ["flush", "compact"])
def test_nothing_is_made_where_there_is_no_database(tmp_path: Path, name: str) -> None:
    ran = run(name, tmp_path / "absent.db")
    assert (ran.code, ran.err) == (1, f"error: no database {tmp_path / 'absent.db'}\n")
    assert list(tmp_path.iterdir()) == []


def test_who_holds_the_database_is_said_in_one_line(database: Path, tmp_path: Path) -> None:
    code = "import sys; from tsdb.storage.store import Store\n"
    code += "store = Store.open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(database)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as writer:  # fmt: skip
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "open\n"
        for arguments in (("flush", database), ("compact", database), ("check", database, "--salvage", tmp_path / "out.db")):
            ran = run(*arguments)
            assert ran.code == 1
            assert ran.out == ""
            assert ran.err.startswith(f"error: {database} is open for writing in process {writer.pid}")
            assert len(ran.err.splitlines()) == 1
        assert run("check", database).code == 0
        assert run("backup", database, tmp_path / "backup.db").code == 0
        writer.stdin.close()
    assert content(tmp_path / "backup.db") == content(database)
    with Store.open(tmp_path / "backup.db"):
        ran = run("backup", database, tmp_path / "backup.db")
        assert ran.code == 1
        assert "open for writing in this process" in ran.err
