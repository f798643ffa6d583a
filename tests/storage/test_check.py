"""Checking: nothing is found in what is whole, and damage of every kind of file is found and named."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.damage_case import SCHEMA, build, copy, files, flip, image, rewrite, write
from support.reseal import reseal
from tsdb.catalog.table import TableOptions
from tsdb.storage import manifest as manifests
from tsdb.storage.check import Problem, check, examine
from tsdb.storage.lease import Lease
from tsdb.storage.log_replay import set_aside
from tsdb.storage.log_scan import scan
from tsdb.storage.store import Store
from tsdb_format.disk import DISK
from tsdb_format.errors import NotFound, UnsupportedFormat
from tsdb_format.reader import TsFile
from tsdb_format.resource import MAGIC
from tsdb_format.section import Container


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one of everything."""
    return build(tmp_path_factory.mktemp("check") / "db")


@pytest.fixture
def database(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to damage."""
    return copy(whole, tmp_path / "db")


def findings(path: Path, table: str | None = None) -> list[Problem]:
    return [found for found in examine(path, table) if not found.note]


def notes(path: Path) -> list[Problem]:
    return [found for found in examine(path) if found.note]


def test_a_whole_database_has_nothing_to_find(database: Path) -> None:
    kinds = {path.suffix for path in files(database, "*")}
    assert {".tsf", ".res", ".dev", ".del", ".log", ".json"} <= kinds
    before = image(database)
    assert list(examine(database)) == []
    after = image(database)
    assert before == after, "a check changes nothing"
    for mode in ("r", "rw"):
        with Store.open(database, mode) as store:
            assert list(check(store)) == []
            assert list(check(store, "T")) == []
            with pytest.raises(NotFound):
                list(check(store, "absent"))


def test_places_that_are_no_database(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("absent", "empty", "file"):
        with pytest.raises(NotFound):
            list(examine(tmp_path / name))


@pytest.mark.parametrize("pattern", ["*.tsf", "*.res", "*.dev", "*.del"])
def test_the_bytes_of_a_container_count(whole: Path, tmp_path: Path, pattern: str) -> None:
    """Each byte is covered by a checksum, but for the padding between sections, which nobody reads."""
    [name] = [path.relative_to(whole) for path in files(whole, pattern)][:1]
    raw = (whole / name).read_bytes()
    database = copy(whole, tmp_path / "db")
    missed = []
    offsets = range(0, len(raw), max(7, len(raw) // 120) | 1)
    for offset in offsets:
        flip(database / name, offset)
        found = findings(database)
        if not found:
            missed.append(offset)
        else:
            owner = (database / name).with_suffix(".tsf") if pattern == "*.res" else database / name
            assert {problem.path for problem in found} <= {str(database / name), str(owner)}, (offset, found)
            assert all(problem.message and problem.path not in problem.message for problem in found)
        rewrite(database / name, raw)
    assert all(raw[offset] == 0 for offset in missed)
    assert len(missed) < len(offsets) / 8
    assert findings(database) == []


def test_damaged_pages_are_named_one_by_one(database: Path) -> None:
    path = files(database, "*.tsf")[0]
    file = TsFile(path)
    pages = file.page_set("v")
    for page in (0, 2, 3):
        flip(path, int(pages.page_offset[page]))
    found = findings(database)
    assert [(each.path, each.offset) for each in found] == [
        (str(path), int(pages.page_offset[0])), (str(path), int(pages.page_offset[2])),
    ]  # fmt: skip
    assert [each.table for each in found] == ["t", "t"]
    assert found[0].message == "column 'v', page 0 (rows 0 to 3): page checksum does not match"
    assert found[1].message == "column 'v', pages 2 to 3 (rows 8 to 15): page checksum does not match"
    assert findings(database, "every") == []
    assert findings(database, "t") == found


@pytest.mark.parametrize("pattern", ["*.tsf", "*.res", "*.dev", "*.del"])
def test_a_missing_or_empty_file_is_named(database: Path, pattern: str) -> None:
    path = files(database, pattern)[0]
    owner = path.with_suffix(".tsf") if pattern == "*.res" else path
    path.unlink()
    assert str(owner) in {each.path for each in findings(database)}
    path.write_bytes(b"")
    assert str(path) in {each.path for each in findings(database)}


def test_the_bytes_of_the_manifest_and_of_current_count(whole: Path, tmp_path: Path) -> None:
    database = copy(whole, tmp_path / "db")
    for path in (database / "CURRENT", database / manifests.load(whole).name):
        raw = path.read_bytes()
        for offset in range(0, len(raw), 23):
            flip(path, offset)
            assert str(path) in {each.path for each in findings(database)}, offset
            rewrite(path, raw)
        rewrite(path, b"")
        assert str(path) in {each.path for each in findings(database)}
        path.unlink()
        assert findings(database)
        path.write_bytes(raw)
    assert findings(database) == []


def test_without_a_manifest_every_file_is_checked_by_itself(database: Path) -> None:
    for path in files(database, "manifest/*.json"):
        path.unlink()
    (database / "CURRENT").unlink()
    [only] = findings(database)
    assert "neither CURRENT nor manifests" in only.message
    damaged = [files(database, pattern)[0] for pattern in ("*.tsf", "*.dev", "*.del", "*.log")]
    for path in damaged:
        flip(path, 26)
    assert {each.path for each in findings(database)} >= {str(path) for path in damaged}


def test_an_older_manifest_is_checked_too(database: Path) -> None:
    now = manifests.load(database)
    older = replace(now, version=now.version - 1)
    manifests.write_whole(database / older.name, manifests.sealed(manifests.text_of(older)))
    newer = replace(now, version=now.version + 1)
    manifests.write_whole(database / newer.name, manifests.sealed(manifests.text_of(newer)))
    assert findings(database) == []
    assert [each.path for each in notes(database)] == [str(database / newer.name)]
    flip(database / older.name, 50)
    assert [each.path for each in findings(database)] == [str(database / older.name)]


def test_a_later_build_s_database_is_refused(database: Path) -> None:
    path = database / manifests.load(database).name
    text = path.read_text().partition("\n")[0].replace(f'"format":{manifests.FORMAT}', f'"format":{manifests.FORMAT + 1}')
    path.write_bytes(manifests.sealed(text))
    with pytest.raises(UnsupportedFormat):
        list(examine(database))


# ---------------------------------------------------------------------------------------------------------------- the log


def test_damage_in_the_log_is_an_error_and_an_unfinished_end_a_note(database: Path) -> None:
    [segment] = files(database, "*.log")
    *_, end = scan(np.fromfile(segment, np.uint8), str(segment))
    raw = segment.read_bytes()[: end.stop]
    for offset in range(0, len(raw) - 40, 13):
        flip(segment, offset)
        assert [each.path for each in findings(database)] == [str(segment)], offset
        rewrite(segment, raw)
    rewrite(segment, raw[: -(32 + 11)] + bytes(99))  # neither END nor the last record's end
    assert findings(database) == []
    [note] = notes(database)
    assert note.path == str(segment)
    assert "or a crash left it" in note.message
    rewrite(segment, raw[:-32] + bytes(99))
    assert list(examine(database)) == []


def test_segments_after_a_lost_commit_are_named(tmp_path: Path) -> None:
    database = tmp_path / "db"
    build(database, flushed=True)
    for time in (50, 51, 52):
        with Store.open(database, background=False) as store:
            write(store, [time], "a")
    one, two, three = files(database, "*.log")
    assert list(examine(database)) == []
    two.unlink()
    found = findings(database)
    assert [each.path for each in found] == [str(three)]
    assert "missing in the log" in found[0].message
    two.write_bytes(one.read_bytes()[:40])
    assert {each.path for each in findings(database)} == {str(two), str(three)}


def test_a_segment_set_aside_is_a_note(database: Path) -> None:
    [segment] = files(database, "*.log")
    raw = segment.read_bytes()
    set_aside(str(database / "log"), [segment.name], DISK)
    segment.with_name(segment.name + ".tmp").write_bytes(raw)
    assert findings(database) == []
    one, two = notes(database)
    assert one.path == f"{segment}.damaged"
    assert "3 commits in it" in one.message
    assert two.path == f"{segment}.tmp"


def test_records_that_do_not_fit_their_table(database: Path) -> None:
    manifest = manifests.load(database)
    entry = manifest.tables["t"]
    assert entry.device_file is not None
    without = {**manifest.tables, "t": replace(entry, device_file=None, files=(), tombstones=None)}
    manifests.save(database, replace(manifest, tables=without))
    assert any("adds devices from number" in each.message for each in findings(database))
    column = entry.table.schema.column("v")
    table = replace(entry.table, schema=replace_column(entry.table.schema, replace(column, type=SCHEMA.column("note").type)))
    manifests.save(database, replace(manifest, tables={**manifest.tables, "t": replace(entry, table=table)}))
    assert any("gives column" in each.message and each.path.endswith(".log") for each in findings(database))
    manifests.save(database, replace(manifest, next_table=2, tables={"t": entry}))
    assert any("which there never was" in each.message for each in findings(database))


def replace_column(schema: Any, column: Any) -> Any:
    return type(schema)(tuple(column if each.id == column.id else each for each in schema))


# ------------------------------------------------------------------------------------------------------- cross-references


Change = Callable[[manifests.FileEntry], manifests.FileEntry]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda file: replace(file, rows=file.rows + 1), "expects 61 rows, not 60"),
        (lambda file: replace(file, devices=4), "expects 4 devices, not 3"),
        (lambda file: replace(file, bytes=file.bytes - 1), "bytes with the sidecar"),
        (lambda file: replace(file, min_time=-1), "expects -1 as first time, not 0"),
        (lambda file: replace(file, max_time=20), "expects 20 as last time, not 19"),
        (lambda file: replace(file, max_sequence=2), "expects 2 as last commit, not 1"),
        (lambda file: replace(file, min_sequence=0), "expects 0 as first commit, not 1"),
        (lambda file: replace(file, max_time=-5), "impossible bounds"),
        (lambda file: replace(file, max_sequence=99), "has commit 99"),
        (lambda file: replace(file, max_sequence=3), "overlap in time and in commits"),
        (lambda file: replace(file, max_sequence=7), "order of their last commits"),
        (lambda file: replace(file, applied=999), "deletes up to commit 999"),
        (lambda file: replace(file, name="table/9/0000000001.tsf"), "is no name for a file of it"),
        (lambda file: replace(file, name="table/1/0000009999.tsf"), "is no name for a file of it"),
    ],
)
def test_what_the_manifest_says_of_a_file(database: Path, change: Change, says: str) -> None:
    manifest = manifests.load(database)
    entry = manifest.tables["t"]
    changed = replace(entry, files=(change(entry.files[0]), *entry.files[1:]))
    manifests.save(database, replace(manifest.with_table(changed), version=manifest.version))
    assert any(says in each.message for each in findings(database)), findings(database)
    with Store.open(database, "r") as store:
        assert any(says in each.message for each in check(store)), "also where it opens"


def test_what_the_manifest_says_of_a_table(database: Path) -> None:
    manifest = manifests.load(database)
    entry = manifest.tables["t"]
    cases = [
        (replace(entry, files=(*entry.files, entry.files[-1])), "named twice"),
        (replace(entry, device_file=None), "no device file"),
        (replace(entry, device_file=manifest.tables["every"].device_file), "is no name for a file of it"),
        (replace(entry, table=replace(entry.table, next_column_id=2)), "given again"),
        (replace(entry, table=replace(entry.table, id=99)), "given again"),
    ]
    for changed, says in cases:
        manifests.save(database, replace(manifest.with_table(changed), version=manifest.version))
        assert any(says in each.message for each in findings(database)), says
    twins = {"t": entry, "u": replace(entry, table=replace(entry.table, name="u"))}
    manifests.save(database, replace(manifest, tables=twins))
    assert any("one number" in each.message for each in findings(database))


def test_a_device_file_of_other_devices_is_found(database: Path) -> None:
    manifest = manifests.load(database)
    mine, other = (str(manifest.tables[name].device_file) for name in ("t", "every"))
    rewrite(database / mine, (database / other).read_bytes())
    messages = [each.message for each in findings(database)]
    assert any("devices are none of the table's" in message for message in messages)
    assert any("names device" in message or "adds devices" in message for message in messages)


def test_a_sidecar_of_another_file_and_one_that_lies(database: Path) -> None:
    one, two = files(database, "*.res")[:2]
    sidecar = one
    container = Container(str(sidecar), MAGIC)
    good = sidecar.read_bytes()
    rewrite(sidecar, two.read_bytes())
    assert any("belongs to another file" in each.message for each in findings(database))
    raw = bytearray(good)
    raw[container.extent("max_time")[0]] ^= 1
    rewrite(sidecar, bytes(reseal(raw)))
    assert [(each.path, each.message) for each in findings(database)] == [
        (str(sidecar), "its times by device are not those of the file")
    ]  # fmt: skip
    raw = bytearray(good)
    at, _ = container.extent("device_number")
    raw[at : at + 8] = raw[at + 4 : at + 8] + raw[at : at + 4]
    rewrite(sidecar, bytes(reseal(raw)))
    assert any("device numbers are not those" in each.message for each in findings(database))


def test_files_that_nobody_names_are_notes(database: Path) -> None:
    folder = database / "table" / "1"
    one = files(database, "*.tsf")[0]
    (folder / "0000000999.tsf").write_bytes(one.read_bytes())
    (folder / "0000000998.tsf.tmp").write_bytes(b"x")
    (folder / "0000000997.res").write_bytes(b"x")
    (database / "table" / "77").mkdir()
    (database / "table" / "77" / "0000000001.dev").write_bytes(b"x")
    assert findings(database) == []
    assert {Path(each.path).name for each in notes(database)} == {
        "0000000999.tsf", "0000000998.tsf.tmp", "0000000997.res", "0000000001.dev",
    }  # fmt: skip
    with Store.open(database) as store:
        assert list(check(store)) == []
    assert notes(database) == [], "the next writer has removed them"


def test_leases_that_readers_left(database: Path) -> None:
    held = Lease(database)
    held.renew(3)
    (database / "lease" / "1-1").write_text("00000000000000000002\n")
    [note] = notes(database)
    assert note.path.endswith("lease/1-1")
    held.release()


# ------------------------------------------------------------------------------------------------------ beside a writer


def test_nothing_is_found_beside_a_writer(tmp_path: Path) -> None:
    """A check of a database that is written to, flushed and altered all the while sees one version of it."""
    path = tmp_path / "db"
    with Store.open(path, background=False) as store:
        store.create_table("t", SCHEMA, TableOptions(rows_per_page=4))
        stop = threading.Event()

        def work() -> None:
            number = 0
            while not stop.is_set():
                write(store, [number, number % 7], chr(97 + number % 26), v=float(number), owner=str(number))
                number += 1
                if number % 5 == 0:
                    store.flush()
                if number % 40 == 0:
                    store.drop_table("u", if_exists=True)
                    store.create_table("u", SCHEMA)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            while store.snapshot().sequence < 100:
                assert findings(path) == []
        finally:
            stop.set()
            thread.join()
        assert list(examine(path)) == []


def test_a_database_that_another_process_writes(tmp_path: Path) -> None:
    path = build(tmp_path / "db")
    code = "import sys; from tsdb.storage.store import Store\n"
    code += "store = Store.open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        assert findings(path) == []
        flip(files(path, "*.tsf")[0], 30)
        assert len(findings(path)) == 1
        assert writer.stdin is not None
        writer.stdin.close()


def test_findings_are_the_same_every_time(database: Path) -> None:
    rng = np.random.default_rng(5)
    for path in files(database, "*.*"):
        if path.suffix in (".tsf", ".res"):
            flip(path, int(rng.integers(0, path.stat().st_size)))
    found = list(examine(database))
    assert found == list(examine(database))
    assert len(found) >= len(files(database, "*.tsf"))
