"""Salvage: everything that can be read comes over, what cannot is listed, and the database itself stays as it is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.damage_case import SCHEMA, build, content, copy, delete, files, flip, rewrite, write
from support.salvage_case import keys, losses, salvaged, without
from support.storage import FailingStorage
from tsdb.catalog.table import with_column_renamed, without_column
from tsdb.storage import manifest as manifests
from tsdb.storage import salvage_table
from tsdb.storage.manifest import SourceEntry
from tsdb.storage.salvage import SalvageReport, salvage
from tsdb.storage.store import Store
from tsdb_format.errors import Error, InvalidInput, Locked, NotFound
from tsdb_format.reader import TsFile
from tsdb_format.section import Container

Row = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one of everything."""
    return build(tmp_path_factory.mktemp("salvage") / "db")


@pytest.fixture
def database(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to damage."""
    return copy(whole, tmp_path / "db")


def test_a_whole_database_comes_over_as_it_is(database: Path) -> None:
    report, found = salvaged(database)
    assert report.lost == []
    assert found == content(database)
    assert list(report.rows) == ["t", "every", "empty"]
    assert len(found["every"]) == 15
    with Store.open(database, "r") as one, Store.open(report.path, "r") as other:
        for name, table in one.tables().items():
            assert (table.schema, table.options) == (other.table(name).schema, other.table(name).options)


def test_what_it_says_survives_flushing_and_schema_changes(tmp_path: Path) -> None:
    path = build(tmp_path / "db", flushed=True)
    with Store.open(path, background=False) as store:
        store.alter_table("t", lambda table: with_column_renamed(without_column(table, "note"), "v", "volt"))
        store.alter_table("t", lambda table: replace(table, name="renamed"))
        store.drop_table("empty")
        source = SourceEntry("/data/a.csv", 10, 5, "ab", "cd", 3, 1, 9, 4, True)
        store.write_pieces("every", {}, [source])
    report, found = salvaged(path)
    assert report.lost == []
    assert found == content(path)
    with Store.open(report.path, "r") as store:
        assert store.entry("every").sources == {"/data/a.csv": source}


def test_places(database: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        salvage(tmp_path / "absent", tmp_path / "out")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(NotFound, match="nothing of a database"):
        salvage(tmp_path / "nothing", tmp_path / "out")
    for target in (database, database / "out", tmp_path):
        with pytest.raises(InvalidInput):
            salvage(database, target)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    with pytest.raises(InvalidInput, match="not empty"):
        salvage(database, tmp_path / "full")
    with Store.open(database), pytest.raises(Locked) as caught:
        salvage(database, tmp_path / "out")
    assert caught.value.pid == os.getpid()
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------------------ data files


def test_damaged_pages_cost_only_their_values(database: Path) -> None:
    expected = content(database)
    path = files(database, "*.tsf")[0]  # hosts a, b and c at 0 to 19
    pages = TsFile(path).page_set("v")
    for page in (1, 2, 14):
        flip(path, int(pages.page_offset[page]))
    report, found = salvaged(database)
    assert [each.path for each in report.lost] == [str(path)] * 2
    assert "column 'v', pages 1 to 2 (rows 4 to 11)" in losses(report)[0]
    assert losses(report)[0].endswith("8 values are NULL instead")
    assert report.lost[0].offset == int(pages.page_offset[1])
    assert without(found["t"], "v") == without(expected["t"], "v")
    assert found["every"] == expected["every"]
    damaged = {("a", 7, time) for time in range(4, 12)} | {("c", 7, time) for time in range(16, 20)}
    for row, good in zip(found["t"], expected["t"], strict=True):
        assert row["v"] == (None if (row["host"], row["slot"], row["time"]) in damaged else good["v"])


def test_damaged_times_cost_their_rows(database: Path) -> None:
    expected = content(database)
    path = files(database, "*.tsf")[0]
    flip(path, int(TsFile(path).page_set("time").page_offset[2]))
    report, found = salvaged(database)
    assert losses(report) == ["column 'time', page 2 (rows 8 to 11): page checksum does not match; 4 rows are lost"]
    assert keys(expected["t"]) - keys(found["t"]) == {("a", 7, time) for time in range(8, 12)}
    assert [row for row in expected["t"] if keys([row]) <= keys(found["t"])] == found["t"]


def test_damaged_commit_numbers_cost_nothing_here(database: Path) -> None:
    expected = content(database)
    for path in files(database, "*.tsf"):
        flip(path, int(TsFile(path).page_set("_sn").page_offset[0]))
    report, found = salvaged(database)
    assert len(losses(report)) == len(files(database, "*.tsf"))
    assert all("rows count as written by the file's last commit" in text for text in losses(report))
    assert found == expected


@pytest.mark.parametrize("section", ["stats.4", "pages.4"])
def test_a_damaged_section_of_a_field_costs_the_field(database: Path, section: str) -> None:
    expected = content(database)
    path = files(database, "*.tsf")[0]
    flip(path, TsFile(path).container.extent(section)[0])
    report, found = salvaged(database)
    assert "pages 0 to 14 (rows 0 to 59)" in losses(report)[0]
    assert without(found["t"], "v") == without(expected["t"], "v")


def test_tags_come_from_the_device_file_where_the_file_s_are_damaged(database: Path) -> None:
    expected = content(database)
    path = files(database, "*.tsf")[0]
    flip(path, TsFile(path).container.extent("tag.2.codes")[0])
    report, found = salvaged(database)
    assert (report.lost, found) == ([], expected)
    path.with_suffix(".res").unlink()
    report, found = salvaged(database)
    assert losses(report) == ["its tags cannot be read; 60 rows are lost"]
    assert len(found["t"]) < len(expected["t"])


@pytest.mark.parametrize("how", ["gone", "empty", "cut", "header", "rows"])
def test_a_file_that_cannot_be_read_is_listed_with_what_it_had(database: Path, how: str) -> None:
    expected = content(database)
    path = files(database, "*.tsf")[0]
    raw = path.read_bytes()
    if how == "header":
        flip(path, 3)
    elif how == "rows":
        flip(path, TsFile(path).container.extent("device.row_start")[0])
    else:
        rewrite(path, {"gone": b"", "empty": b"", "cut": raw[:-9]}[how])
    if how == "gone":
        path.unlink()
    report, found = salvaged(database)
    [text] = losses(report)
    assert text.endswith("60 rows from 1970-01-01 00:00:00 to 1970-01-01 00:00:19 are lost")
    assert report.lost[0].path == str(path)
    assert keys(found["t"]) == {key for key in keys(expected["t"]) if key[2] >= 10 and key[0] != "a"}
    assert found["every"] == expected["every"]


def test_every_flip_of_a_file_gives_right_values_or_none(whole: Path, tmp_path: Path) -> None:
    """Whatever byte is wrong: a row that comes over is one that was there, and what is missing is listed."""
    expected = content(whole)
    versions = _versions(whole)
    database = copy(whole, tmp_path / "db")
    path = files(database, "*.tsf")[1]
    raw = path.read_bytes()
    for number, offset in enumerate(range(1, len(raw), max(1, len(raw) // 25))):
        flip(path, offset, 1 << number % 8)
        target = tmp_path / f"out{number}"
        report = salvage(database, target)
        found = content(target)
        if found != expected:
            assert losses(report), offset
        for row in found["t"]:
            for name in ("v", "note"):
                assert row[name] is None or row[name] in versions[row["host"], row["time"], name], offset
        rewrite(path, raw)


def _versions(path: Path) -> dict[tuple[Any, ...], set[Any]]:
    """Every value that any version of a row of ``t`` has."""
    found: dict[tuple[Any, ...], set[Any]] = {}
    with Store.open(path, "r") as store:
        table = store.snapshot().tables["t"]
        hosts = table.devices.values("host").to_physical_list()
        for each in table.files:
            file = each.file
            device = np.repeat(each.device_number, np.diff(file.row_start)).tolist()
            every = np.zeros(1, np.int64), np.array([file.row_count])
            times = file.read("time", *every).to_physical_list()
            for name in ("v", "note"):
                if name in file.schema:
                    for number, time, value in zip(device, times, file.read(name, *every).to_physical_list(), strict=True):
                        found.setdefault((hosts[number], time, name), set()).add(value)
            for number, time in zip(device, times, strict=True):
                for name in ("v", "note"):
                    found.setdefault((hosts[number], time, name), set())
    return found


# -------------------------------------------------------------------------------------------- sidecars, devices, deletes


def test_sidecars_are_not_needed(database: Path) -> None:
    expected = content(database)
    for path in files(database, "*.res"):
        path.unlink()
    report, found = salvaged(database)
    assert (report.lost, found) == ([], expected)


def test_devices_come_from_the_files_where_the_device_file_is_damaged(database: Path) -> None:
    expected = content(database)
    for path in files(database, "*.dev"):
        rewrite(path, b"")
    report, found = salvaged(database)
    assert all("attributes may be lost" in text for text in losses(report))
    assert len(losses(report)) == 2
    assert without(found["t"], "owner", "floor") == without(expected["t"], "owner", "floor")
    assert {row["owner"] for row in found["t"] if row["host"] in "ce"} == {"eve"}, "that is still in the log"
    for path in files(database, "*.res"):
        path.unlink()
    report, found = salvaged(database)
    assert any("names devices that nobody knows" in text for text in losses(report))
    assert keys(found["t"]) < keys(expected["t"])


def test_each_attribute_counts_for_itself(database: Path) -> None:
    expected = content(database)
    path = database / str(manifests.load(database).tables["t"].device_file)
    container = Container(str(path), b"TSDBDEV1")
    flip(path, container.extent("rank")[0])
    assert salvaged(database)[1] == expected, "ranks are made anew"
    flip(path, container.extent("c7.values")[0])
    report, found = salvaged(database)
    assert losses(report) == ["the checksum of section 'c7.values' does not match; attribute 'floor' is lost"]
    assert without(found["t"], "floor") == without(expected["t"], "floor")


def test_deletes_that_cannot_be_read_are_listed(database: Path) -> None:
    expected = content(database)
    [path] = files(database, "*.del")
    flip(path, path.stat().st_size - 1)
    report, found = salvaged(database)
    assert losses(report)[0].endswith("; rows that were deleted may be back")
    assert keys(found["t"]) > keys(expected["t"])
    assert {key[2] for key in keys(found["t"]) - keys(expected["t"])} <= {12, 13, 14}


# ---------------------------------------------------------------------------------------------------------------- log


def _logged(path: Path) -> Path:
    with Store.open(path, background=False) as store:
        store.create_table("t", SCHEMA)
        for time in range(6):
            write(store, [time], "ab"[: 1 + (time > 2)], v=float(time))
        delete(store, 5, 5)
    return path


def test_commits_behind_a_damaged_one_are_read_too(tmp_path: Path) -> None:
    database = _logged(tmp_path / "db")
    expected = content(database)
    [segment] = files(database, "*.log")
    raw = segment.read_bytes()
    starts = [at for at in range(0, len(raw), 8) if raw[at + 12 : at + 16] == b"CHNG"]
    assert len(starts) == 7
    flip(segment, starts[1] + 40)
    report, found = salvaged(database)
    assert [(each.path, each.offset) for each in report.lost] == [(str(segment), starts[1]), (str(segment), None)]
    assert losses(report)[1] == "commit 2 is lost: the log goes on with 3"
    assert found["t"] == [row for row in expected["t"] if row["time"] != 1]
    flip(segment, starts[0] + 40)
    report, found = salvaged(database)
    assert losses(report)[1] == "commits 1 to 2 are lost: the log goes on with 3"
    assert "names devices that nobody knows" in losses(report)[2]
    assert keys(found["t"]) == {key for key in keys(expected["t"]) if key[0] == "b"}, "commit 4 names it"
    rewrite(segment, b"\0" * 32 + raw[32:])
    assert salvaged(database) == (SalvageReport(str(tmp_path / "out2"), {"t": 7}), expected), "only the head is damaged"
    rewrite(segment, raw[:-40])
    report, found = salvaged(database)
    assert (report.lost, max(row["time"] for row in found["t"])) == ([], 5), "as a crash leaves it, without the delete"


def test_a_missing_segment_is_listed(tmp_path: Path) -> None:
    database = _logged(tmp_path / "db")
    expected = content(database)
    for time in (50, 51):
        with Store.open(database, background=False) as store:
            write(store, [time], "b", v=1.0)
    one, two, _ = files(database, "*.log")
    two.unlink()
    report, found = salvaged(database)
    assert losses(report) == ["commit 8 is lost: the log goes on with 9"]
    assert keys(found["t"]) == keys(expected["t"]) | {("b", None, 51)}
    one.rename(one.with_name(one.name + ".damaged"))
    report, found = salvaged(database)
    assert any(each.note and each.path.endswith(".damaged") for each in report.lost)
    assert any("names devices that nobody knows" in text for text in losses(report))


# ------------------------------------------------------------------------------------------------------------- writing


def test_large_tables_are_written_in_slices_of_time(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = content(database)
    monkeypatch.setattr(salvage_table, "SLICE_ROWS", 7)
    report, found = salvaged(database)
    assert (report.lost, found) == ([], expected)
    assert len(files(Path(report.path), "*.tsf")) > 10


def test_a_disk_that_fails_leaves_no_database(database: Path, tmp_path: Path) -> None:
    expected = content(database)
    counting = FailingStorage(kinds=("create", "write", "sync", "folder", "rename"))
    salvage(database, tmp_path / "counted", counting)
    for number in [*range(1, counting.operations - 8, 47), *range(counting.operations - 8, counting.operations + 1)]:
        failing = FailingStorage(number, kinds=("create", "write", "sync", "folder", "rename"))
        target = tmp_path / f"out{number}"
        try:
            salvage(database, target, failing)
        except Error:
            if files(target, "manifest/*.json"):
                assert content(target) == expected
                continue
            with pytest.raises(NotFound):
                Store.open(target, "r")
            if any(target.rglob("*.tsf")):  # before the first file there is no difference to a database that was just begun
                with pytest.raises(InvalidInput, match="not empty"):
                    Store.open(target)
