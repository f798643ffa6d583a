"""Rows written one by one go a short way: the same log, the same reports and the same answers as by the long one."""

from __future__ import annotations

import datetime
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsdb
from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table, TableOptions, build_schema
from tsdb.database import Database
from tsdb.ingest import few_rows
from tsdb.ingest.few_rows import batch_of, row_of
from tsdb.storage import memtable as memtables
from tsdb.storage.arrange import arrange_whole
from tsdb.storage.log_record import Change, encode
from tsdb.storage.memtable import Memtable
from tsdb.storage.one_row import Row
from tsdb.storage.tombstone import Tombstones
from tsdb_format.types import Role

SCHEMA = build_schema(
    [
        ("up", "BOOLEAN", Role.FIELD),
        ("host", "STRING", Role.TAG),
        ("time", "TIMESTAMP_US", Role.TIME),
        ("rack", "INT32", Role.TAG),
        ("usage", "DOUBLE", Role.FIELD),
        ("note", "STRING", Role.FIELD),
        ("seen", "TIMESTAMP_MS", Role.FIELD),
        ("small", "INT32", Role.FIELD),
        ("large", "INT64", Role.FIELD),
        ("text", "STRING", Role.FIELD),
        ("ratio", "FLOAT", Role.FIELD),
        ("owner", "STRING", Role.ATTRIBUTE),
    ]
)
TABLE = Table(3, "t", SCHEMA, TableOptions(), 20)
_TEXTS = st.sampled_from([None, "", "a", "ä", "12345678", "longer than eight", "\ud800", 5])
_TIMES = st.one_of(
    st.integers(-(2**63), 2**63),
    st.sampled_from([datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC), "2026", 1.0]),
)
ROW = st.fixed_dictionaries(
    {"time": _TIMES},
    optional={
        "up": st.sampled_from([None, True, False, 1]),
        "host": _TEXTS,
        "rack": st.one_of(st.none(), st.integers(-(2**31) - 1, 2**31)),
        "usage": st.one_of(st.none(), st.floats(), st.just(1)),
        "note": _TEXTS,
        "seen": st.one_of(st.none(), _TIMES),
        "small": st.one_of(st.none(), st.integers(-(2**31) - 1, 2**31)),
        "large": st.one_of(st.none(), st.integers(-(2**63) - 1, 2**63)),
        "text": _TEXTS,
    },
)


@given(row=ROW, number=st.integers(0, 2**31 - 1), devices=st.integers(0, 2**31 - 1), shuffled=st.randoms(use_true_random=False))
def test_the_record_is_the_same(row: dict[str, Any], number: int, devices: int, shuffled: random.Random) -> None:
    names = list(row)
    shuffled.shuffle(names)
    row = {name: row[name] for name in names}
    batch, found = batch_of([row], SCHEMA), row_of(row, SCHEMA)
    assert (found is None) == (batch is None)
    if batch is None or found is None:
        return
    numbers = np.array([number], np.int32)
    rows = arrange_whole(batch, numbers, DeviceTable.empty(SCHEMA), "table")
    columns = {SCHEMA.column(name).id: vector for name, vector in rows.columns.items()}
    change = Change(TABLE.id, devices, numbers=rows.numbers, row_start=rows.row_start, columns=columns)
    known = DeviceTable(SCHEMA, devices, None, None)
    found.place(TABLE, known, number)
    assert found.record(77, 55) == encode(77, change, 55)


@pytest.mark.parametrize("row", [{"time": 1, "owner": ""}, {"time": 1, "ratio": 1.0}, {"time": 1, "?": 1}, {"usage": 1.0}, {}, 7])
def test_what_is_not_plain_goes_the_long_way(row: Any) -> None:
    assert row_of(row, SCHEMA) is None
    assert row_of({"time": 1, "note": "x" * 5_000}, SCHEMA) is None


def _text(*columns: str) -> str:
    return f"({', '.join(columns)})"


_COLUMNS = _text(
    "time TIMESTAMP_US TIME", "host STRING TAG", "rack INT32 TAG", "usage DOUBLE", "note STRING", "owner STRING ATTRIBUTE"
)


def _history(seed: int) -> list[Callable[[Database], object]]:
    """Rows one by one, mostly in order of time, and between them everything else that happens to a table."""
    rng = random.Random(seed)
    acts: list[Callable[[Database], object]] = []
    note = "note"
    for turn in range(160):
        kind = rng.random()
        name = rng.choice("tu")
        row: dict[str, Any] = {
            "time": turn if rng.random() < 0.9 else rng.randint(0, 160),
            "host": rng.choice(["a", "b", "ä", None]),
        }
        row.update({key: rng.choice(values) for key, values in _VALUES.items() if rng.random() < 0.6})
        row.update({"owner": "o"} if rng.random() < 0.05 else {})
        if "note" in row and name == "t":
            row[note] = row.pop("note")
        if kind < 0.86:
            acts.append(lambda db, name=name, row=row: db.write(name, [row]))
        elif kind < 0.89:
            acts.append(lambda db, name=name, row=row: db.write(name, [row, row]))
        elif kind < 0.92:
            acts.append(
                lambda db, name=name, turn=turn: db.sql(f"DELETE FROM {name} WHERE host = 'a' AND time < make_timestamp({turn})")
            )
        elif kind < 0.94:
            acts.append(lambda db: db.flush())
        elif kind < 0.96:
            note, old = rng.choice(["note", "remark"]), note
            acts.append(lambda db, old=old, new=note: db.sql(f"ALTER TABLE t RENAME COLUMN {old} TO {new}") if old != new else None)
        elif kind < 0.98:
            acts.append(lambda db: db.sql("UPDATE t SET owner = 'me' WHERE host = 'b'"))
        else:
            acts.append(lambda db, name=name: db.sql(f"SELECT * FROM {name} ORDER BY ALL").fetchall())
    return acts


_VALUES: dict[str, list[Any]] = {
    "rack": [None, 1, 2],
    "usage": [None, 1.5, -0.0],
    "note": [None, "", "x", "some text"],
}


@pytest.mark.parametrize("mode", ["table", "append"])
@pytest.mark.parametrize("seed", range(3))
def test_the_history_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, mode: str) -> None:
    monkeypatch.setattr(memtables, "_TAIL_ROWS", 8)
    monkeypatch.setattr(memtables, "_TOGETHER_MIN", 2)
    taken: list[Row] = []

    def counted(data: Any, schema: Any) -> Row | None:
        found = row_of(data, schema)
        taken.extend([found] if found is not None else [])
        return found

    def run(name: str) -> list[object]:
        seen: list[object] = []
        with tsdb.open(tmp_path / name) as db:
            for table in "tu":
                db.sql(f"CREATE TABLE {table} {_COLUMNS} WITH (mode = '{mode}')")
            for act in _history(seed):
                found = act(db)
                seen.append(found.fetchall() if hasattr(found, "fetchall") else found)
            seen.append([path.read_bytes() for path in sorted((tmp_path / name / "log").iterdir())])
            seen += [db.sql(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in "tu"]
        with tsdb.open(tmp_path / name, "r") as db:
            seen += [db.sql(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in "tu"]
        return seen

    monkeypatch.setattr(few_rows, "row_of", counted)
    short = run("short")
    assert sum(row.number >= 0 for row in taken) > 40
    monkeypatch.setattr(few_rows, "row_of", lambda data, schema: None)
    assert short == run("long")


def test_a_view_has_the_rows_up_to_its_commit_and_later_ones_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memtables, "_TOGETHER_MIN", 3)
    _, devices = DeviceTable.empty(SCHEMA).resolve({}, 1)
    memtable = Memtable(TABLE, devices, Tombstones.none())
    times = [50, 20, 90, 30, 70]
    for sequence, time in enumerate(times, 1):
        row = row_of({"time": time, "usage": 1.0, **({"note": "x"} if sequence % 2 else {})}, SCHEMA)
        assert row is not None
        row.place(TABLE, devices, 0)
        memtable.add_row(row, sequence)
    assert memtable.rows == 5
    memtable.settle(3)
    assert [run.row_count for run in memtable.view(4).runs] == [3, 1]  # snapshots as of commit 3 are still to be taken
    assert memtable.view(4).runs[0].rows.columns["time"].values.tolist() == [20, 50, 90]
    assert [run.row_count for run in memtable.view(3).runs] == [3]
    assert [run.row_count for run in memtable.view(5).runs] == [3, 1, 1]
    assert memtable.nbytes == sum(run.nbytes for run in memtable.view(5).runs)
    memtable.drop(3)
    assert memtable.rows == 2


def test_threads_that_write_row_by_row_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memtables, "_TAIL_ROWS", 16)
    monkeypatch.setattr(memtables, "_TOGETHER_MIN", 4)
    with tsdb.open(tmp_path / "db") as db:
        db.sql(f"CREATE TABLE t {_COLUMNS}")
        counts: list[int] = []

        def write(host: str) -> None:
            for time in range(100):
                report = db.write("t", [{"time": time, "host": host, "usage": float(time)}])
                assert (report.inserted, report.updated) == (1, 0)

        threads = [threading.Thread(target=write, args=(host,)) for host in "abcd"]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            counts.append(db.sql("SELECT count(*) FROM t").fetchall()[0][0])
        for thread in threads:
            thread.join()
        assert counts == sorted(counts)
        assert db.sql("SELECT host, count(*), sum(usage) FROM t GROUP BY host ORDER BY host").fetchall() == [
            (host, 100, 4950.0) for host in "abcd"
        ]
