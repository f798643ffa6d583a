"""Salvage where manifests are lost: an older one serves, or the files say what their tables are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.damage_case import PAGE_ROWS, SCHEMA, build, content, contents, copy, delete, files, flip, rewrite, write
from support.salvage_case import losses, one_row, salvaged, without
from tsdb.catalog.table import TableOptions, with_column_renamed, without_column
from tsdb.storage import manifest as manifests
from tsdb.storage.store import Store
from tsdb_format.reader import TsFile


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with one of everything."""
    return build(tmp_path / "db")


def test_without_current_the_newest_manifest_serves(database: Path) -> None:
    expected = content(database)
    (database / "CURRENT").unlink()
    assert salvaged(database)[1] == expected
    assert salvaged(database)[0].lost == []


def test_without_the_newest_manifest_an_older_one_and_the_files_serve(tmp_path: Path) -> None:
    path = tmp_path / "db"
    build(path)
    with Store.open(path, background=False) as store:
        held = store.snapshot()
        before = {name.name for name in files(path, "manifest/*.json")}
        write(store, (60, 61), "az", v=6.0)
        store.flush()
        write(store, (62,), "y", v=6.5)
        delete(store, 4, 4)
        store.create_table("new", SCHEMA, TableOptions(rows_per_page=PAGE_ROWS))
        write(store, (70,), "q", table="new", v=7.0)
        store.flush()
        database = copy(path, tmp_path / "damaged")
        assert held.sequence < store.snapshot().sequence
    assert before & {name.name for name in files(database, "manifest/*.json")}, "kept for the snapshot"
    expected = content(database)
    rewrite(database / manifests.load(database).name, b"")
    report, found = salvaged(database)
    assert "the tables are as of version" in losses(report)[-1]
    assert {name: without(rows, "owner", "floor") for name, rows in found.items()} == {
        name: without(rows, "owner", "floor") for name, rows in expected.items()
    }
    assert without(found["t"]) == expected["t"], "the newest device file is there"


def test_without_any_manifest_the_files_tell(database: Path) -> None:
    expected = content(database)
    tables = manifests.load(database).tables
    for path in files(database, "manifest/*.json"):
        path.unlink()
    nothing = dict.fromkeys(("owner", "floor"))
    for pattern, attributes in (("CURRENT", {}), ("absent", {}), ("*.dev", nothing)):
        for path in files(database, pattern):
            path.unlink()
        report, found = salvaged(database)
        assert "the tables are as their files tell" in losses(report)[0]
        assert set(found) == {"t", "every"}
        for name in found:
            assert [row | attributes for row in found[name]] == [row | attributes for row in expected[name]]
        with Store.open(report.path, "r") as store:
            for name in found:
                made, table = store.table(name), tables[name].table
                assert (made.options, list(made.schema)) == (table.options, list(table.schema))


def test_files_that_do_not_say_what_the_table_is(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = content(database)
    for path in [*files(database, "manifest/*.json"), *files(database, "CURRENT")]:
        path.unlink()
    for said in (b"", b"no table", b"{}"):
        monkeypatch.setattr(TsFile, "definition", said)
        report, found = salvaged(database)
        assert found["t"] == without(expected["t"], "owner", "floor")
        assert found["every"] == without(expected["every"], "owner", "floor", "note"), "none of its files has a note"
        with Store.open(report.path, "r") as store:
            assert store.table("every").options.mode == "append", "it has rows twice, as others cannot"
            assert [c.name for c in store.table("t").schema] == ["time", "host", "slot", "v", "note"]


def test_options_come_from_the_newest_file_that_says_them(tmp_path: Path) -> None:
    path = tmp_path / "db"
    first = TableOptions(mode="versioned_kv", primary_key=("host",), shards=2, shard_by=("host",), rows_per_page=PAGE_ROWS)
    with Store.open(path, background=False) as store:
        store.create_table("s", SCHEMA, first)
        write(store, range(4), "ab", table="s", v=1.0)
        store.flush()
        store.alter_table("s", lambda table: replace(table, options=replace(first, ttl_ns=10**18)))
        write(store, range(4), "ac", table="s", v=2.0)
        store.flush()
        expected, options = contents(store), store.table("s").options
    for each in [*files(path, "manifest/*.json"), path / "CURRENT"]:
        each.unlink()
    report, found = salvaged(path)
    assert found == expected
    with Store.open(report.path, "r") as made:
        assert made.table("s").options == options
    for each in files(path, "*.tsf"):
        with TsFile(each) as file:
            at, size = file.container.extent("definition")
            newest = file.max_sequence > 1
        if newest:
            flip(each, at + size // 2)
    report, _ = salvaged(path)
    with Store.open(report.path, "r") as made:
        assert made.table("s").options == first


def test_dropped_columns_and_tables_of_one_name_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with Store.open(path, background=False) as store:
        store.create_table("t", SCHEMA)
        write(store, [1], "a", v=1.0, note="old")
        store.flush()
        store.alter_table("t", lambda table: without_column(table, "note"))
        store.alter_table("t", lambda table: with_column_renamed(table, "v", "note"))
        store.write_batch("t", one_row(store.table("t").schema))
        store.flush()
        store.create_table("u", SCHEMA)
        write(store, [2], "b", table="u", v=2.0)
        store.flush()
        store.alter_table("u", lambda table: replace(table, name="v"))
    raw = files(path, "*.tsf")[-1].read_bytes()
    copied = path / "table" / "9" / "0000000001.tsf"
    copied.parent.mkdir()
    copied.write_bytes(raw)
    for each in [*files(path, "manifest/*.json"), path / "CURRENT"]:
        each.unlink()
    report, found = salvaged(path)
    assert set(found) == {"t", "u", "u_9"}
    assert without(found["u"], "floor") == without(found["u_9"], "floor"), "there is no device file in the other folder"
    [first] = [row for row in found["t"] if row["host"] == "a"]
    assert first == {"time": 1, "host": "a", "slot": 7, "note": 1.0, "owner": None, "floor": 97}  # what was dropped stays so
    assert report.rows == {"t": 2, "u": 1, "u_9": 1}


def test_rows_of_a_table_that_only_the_log_knows_are_listed(tmp_path: Path) -> None:
    path = build(tmp_path / "db")
    with Store.open(path, background=False) as store:
        store.create_table("new", SCHEMA)
        write(store, [1, 2], "a", table="new", v=1.0)
    for each in [*files(path, "manifest/*.json"), path / "CURRENT"]:
        each.unlink()
    report, _ = salvaged(path)
    assert any("nothing tells what the columns of table 4 are; 2 rows are lost" in text for text in losses(report))
