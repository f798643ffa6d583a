"""Materialized views in storage: a checkpoint is where the rows that it stands for are: memory, log, files, backups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tsdb.catalog.table import TableOptions, build_schema
from tsdb.storage import writer as writers
from tsdb.storage.log_record import Change, decode, encode
from tsdb.storage.log_segment import HEAD_BYTES, read_record
from tsdb.storage.manifest import ViewEntry
from tsdb.storage.one_row import plain_vector
from tsdb.storage.store import Store
from tsdb.storage.view import create_view, drop_view, note_problem
from tsdb_format.errors import Corruption, NotFound
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_US, Role
from tsdb_format.vector import Vector

COLUMNS = [("time", "TIMESTAMP", Role.TIME), ("host", "STRING", Role.TAG), ("x", "DOUBLE", Role.FIELD)]


def opened(path: Path, **options: Any) -> Store:
    return Store.open(path, background=False, **options)


def rows(*times: int) -> dict[str, Vector]:
    count = len(times)
    return {
        "time": Vector(TIMESTAMP_US, np.array(times, np.int64)),
        "host": plain_vector(STRING, [b"a"] * count),
        "x": Vector(DOUBLE, np.ones(count)),
    }


def made(store: Store, name: str = "v") -> ViewEntry:
    return create_view(store.writer, name, "SELECT 1", (build_schema(COLUMNS), TableOptions(mode="append")), "begin")


def count(store: Store, table: str = "v") -> int:
    return sum(file.row_count for file in store.snapshot().tables[table].files)


def test_a_checkpoint_is_as_durable_as_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "DIRECT_ROWS", 5)
    store = opened(tmp_path / "db")
    view = made(store)
    assert store.checkpoint(view) == "begin"
    for number, (text, after) in enumerate((("log", None), ("file", "flush"), ("again", "reopen"), ("merged", "compact"))):
        store.write_view(view, rows(number), text)
        if after == "flush":
            store.flush()
        elif after == "reopen":
            store.close()
            store = opened(tmp_path / "db")
        elif after == "compact":
            store.compact("v")
        assert (store.checkpoint(view), count(store)) == (text, number + 1)
        reader = Store.open(tmp_path / "db", "r")
        assert (reader.checkpoint(view), count(reader)) == (text, number + 1)
        reader.close()
        store.backup(tmp_path / f"copy {number}")
        copy = opened(tmp_path / f"copy {number}")
        assert (copy.checkpoint(view), count(copy)) == (text, number + 1)
        copy.close()
    store.write_view(view, rows(*range(10, 20)), "direct")
    assert (store.checkpoint(view), count(store)) == ("direct", 14)
    store.write_view(view, rows(20), "later")
    assert store.checkpoint(view) == "later"
    held = store.snapshot().tables["v"]
    store.write_view(view, rows(21), "latest")
    assert held.checkpoints[view.id][1] == "later"
    store.close()


def test_views_into_one_table_do_not_meet(tmp_path: Path) -> None:
    store = opened(tmp_path / "db")
    store.create_table("t", build_schema(COLUMNS))
    one, other = (create_view(store.writer, name, "SELECT 1", "t", f"{name} begins") for name in ("one", "other"))
    store.write_view(one, rows(1), "one 1")
    store.write_view(other, rows(2), "other 1")
    assert [store.checkpoint(view) for view in (one, other)] == ["one 1", "other 1"]
    drop_view(store.writer, "ONE")
    store.flush()
    assert store.entry("t").checkpoints.keys() == {other.id}
    with pytest.raises(NotFound, match="'one' was dropped"):
        store.write_view(one, rows(3), "one 2")
    again = create_view(store.writer, "one", "SELECT 1", "t", "anew")
    assert store.checkpoint(again) == "anew"
    store.drop_table("t")
    with pytest.raises(NotFound, match="writes to was dropped"):
        store.write_view(other, rows(3), "other 2")
    store.close()


def test_problems_are_kept(tmp_path: Path) -> None:
    store = opened(tmp_path / "db")
    view = made(store)
    note_problem(store.writer, view, "no reason")
    store.close()
    store = opened(tmp_path / "db")
    assert store.view("V").problem == "no reason"
    note_problem(store.writer, view, None)
    assert store.view("v").problem is None
    drop_view(store.writer, "v")
    assert store.tables() == {}
    note_problem(store.writer, view, "too late")
    assert store.views() == {}
    store.close()


def test_records_have_checkpoints() -> None:
    change = Change(7, checkpoints={3: plain_vector(STRING, ["ü, and so on".encode()]), 4: plain_vector(STRING, [b""])})
    record = memoryview(bytes(HEAD_BYTES) + bytes(encode(5, change)))
    found = read_record(record, HEAD_BYTES)
    assert found is not None
    back = decode(bytes(record[found.start : found.stop]))
    assert {view: text.to_physical_list() for view, text in back.checkpoints.items()} == {3: ["ü, and so on"], 4: [""]}
    assert back.row_count == 0
    for wrong in (Vector(INT64, np.zeros(1, np.int64)), plain_vector(STRING, [None])):
        record = memoryview(bytes(HEAD_BYTES) + bytes(encode(5, Change(7, checkpoints={3: wrong}))))
        found = read_record(record, HEAD_BYTES)
        assert found is not None
        with pytest.raises(Corruption, match="a checkpoint is no text"):
            decode(bytes(record[found.start : found.stop]))
