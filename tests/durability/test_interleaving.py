"""Orders of events between a writer, its flushes, and readers that a test must force, since chance seldom brings them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tsdb.storage.flush
import tsdb.storage.manifest
from support.table_model import vectors_of
from tsdb.catalog.table import build_schema
from tsdb.session import Session
from tsdb.settings import Settings
from tsdb.storage.store import Store
from tsdb_format.types import Role

SCHEMA = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("host", "STRING", Role.TAG), ("v", "INT64", Role.FIELD)])


def _write(store: Store, *times: int, host: str = "a") -> None:
    store.write_batch("t", vectors_of(SCHEMA, [{"time": time, "host": host, "v": time} for time in times]))


def _values(store: Store) -> list[int]:
    return [row[0] for row in Session(store, Settings()).run("SELECT v FROM t ORDER BY v").fetchall()]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "db", background=False) as opened:
        opened.create_table("t", SCHEMA)
        yield opened


def _during_flush(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let ``action`` happen once in the next flush, after the memtables were frozen and before anything is written."""
    write = tsdb.storage.flush._write

    def first(*arguments: Any) -> None:
        monkeypatch.setattr(tsdb.storage.flush, "_write", write)
        action()
        write(*arguments)

    monkeypatch.setattr(tsdb.storage.flush, "_write", first)


def test_a_reader_keeps_what_was_committed_during_a_flush(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(store.root, "r") as reader:
        _write(store, 1, 2)

        def action() -> None:
            _write(store, 3)
            _write(store, 4)
            reader.refresh()
            assert _values(reader) == [1, 2, 3, 4]

        _during_flush(monkeypatch, action)
        store.flush()
        assert _values(store) == [1, 2, 3, 4]
        reader.refresh()
        assert _values(reader) == [1, 2, 3, 4]
        _write(store, 5)
        reader.refresh()
        assert _values(reader) == [1, 2, 3, 4, 5]


def test_a_flush_between_a_readers_looks_at_manifest_and_log_takes_nothing_from_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(store, 1)
    store.flush()
    _write(store, 2)
    with Store.open(store.root, "r") as reader:
        assert _values(reader) == [1, 2]
        store.create_table("u", SCHEMA)
        load = tsdb.storage.manifest.load

        def load_and_be_overtaken(*arguments: Any) -> Any:
            monkeypatch.setattr(tsdb.storage.manifest, "load", load)
            found = load(*arguments)
            store.flush()  # the log is empty from here on
            return found

        monkeypatch.setattr(tsdb.storage.manifest, "load", load_and_be_overtaken)
        assert reader.refresh().sequence == 2
        assert _values(reader) == [1, 2]


def test_a_reader_keeps_the_files_of_a_snapshot_that_it_still_holds(store: Store) -> None:
    _write(store, 1)
    store.flush()
    with Store.open(store.root, "r") as reader:
        held = reader.snapshot()
        assert len(held.tables["t"].files) == 1
        store.drop_table("t")
        store.create_table("t", SCHEMA)
        reader.refresh()
        store.create_table("u", SCHEMA)
        [file] = held.tables["t"].files
        assert file.file.row_count == 1


def test_names_of_files_that_a_crash_left_are_not_given_again_while_they_may_yet_be_removed(store: Store) -> None:
    _write(store, 1)
    store.flush()
    path = store.root
    with Store.open(path, "r") as reader:  # holds the version from before
        _write(store, 2)
        store.flush()
        newest = max((path / "table/1").glob("*.tsf"))
        store.close()
        number = int(newest.stem) + 1
        names = [f"{number + more:010}" for more in range(4)]
        for name in names:  # what a flush leaves that was killed before its commit
            os.link(newest, newest.with_name(f"{name}.tsf"))
            os.link(newest.with_suffix(".res"), newest.with_name(f"{name}.res"))
        with Store.open(path, background=False) as again:
            _write(again, 3)
            again.flush()
            reader.refresh()
            _write(again, 4)
            again.flush()
            _write(again, 5)
            again.flush()
            assert _values(again) == [1, 2, 3, 4, 5]
        with Store.open(path, background=False) as again:
            assert _values(again) == [1, 2, 3, 4, 5]


def test_a_manifest_that_a_crash_left_is_not_removed_under_its_successor_of_the_same_name(store: Store) -> None:
    _write(store, 1)
    store.flush()
    path = store.root
    with Store.open(path, "r") as reader:
        _write(store, 2)
        store.flush()
        current = max((path / "manifest").iterdir())
        store.close()
        following = current.with_name(f"{int(current.stem) + 1:010}.json")
        following.write_bytes(current.read_bytes())  # renamed into place, but CURRENT was not
        with Store.open(path, background=False) as again:
            _write(again, 3)
            again.flush()
            reader.refresh()  # nobody needs the version before any more: closing takes away what was left of it
            assert _values(again) == [1, 2, 3]
        with Store.open(path, background=False) as again:
            assert _values(again) == [1, 2, 3]


def test_columns_are_renamed_added_and_dropped_during_a_flush(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tsdb.sql.alter")
    _write(store, 1, 2)
    session = Session(store, Settings())

    def action() -> None:
        session.run("ALTER TABLE t RENAME COLUMN host TO machine")
        session.run("ALTER TABLE t RENAME COLUMN v TO w")
        session.run("ALTER TABLE t ADD COLUMN v DOUBLE")
        session.run("INSERT INTO t (time, machine, w, v) VALUES (TIMESTAMP '1970-01-01 00:00:03', 'b', 3, 0.5)")

    _during_flush(monkeypatch, action)
    store.flush()
    expected = [("a", 1, None), ("a", 2, None), ("b", 3, 0.5)]
    assert session.run("SELECT machine, w, v FROM t ORDER BY w").fetchall() == expected
    path = store.root
    store.close()
    for _ in range(2):
        with Store.open(path, background=False) as again:
            assert Session(again, Settings()).run("SELECT machine, w, v FROM t ORDER BY w").fetchall() == expected
            again.flush()


def test_a_table_dropped_and_made_anew_during_a_flush(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(store, 1, 2)

    def action() -> None:
        store.drop_table("t")
        store.create_table("t", SCHEMA)
        _write(store, 7)

    _during_flush(monkeypatch, action)
    store.flush()
    assert _values(store) == [7]
    path = store.root
    store.close()
    with Store.open(path, background=False) as again:
        assert _values(again) == [7]
