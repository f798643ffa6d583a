"""Writes against a dictionary: any order, duplicates, NULLs, overlaps across files, small pages and small files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.snapshots import vector_of
from support.table_model import TableModel, merged_rows, stored_rows, vectors_of
from tsdb.catalog.table import TableOptions, build_schema
from tsdb.storage.store import Store, WriteReport
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.types import DOUBLE, FLOAT, INT64, STRING, TIMESTAMP_MS, Role
from tsdb_format.vector import Pool, Vector

SCHEMA = build_schema(
    [
        ("time", "TIMESTAMP_MS", Role.TIME),
        ("host", "STRING", Role.TAG),
        ("rack", "INT32", Role.TAG),
        ("usage", "DOUBLE", Role.FIELD),
        ("note", "STRING", Role.FIELD),
        ("up", "BOOLEAN", Role.FIELD),
        ("payload", "BLOB", Role.FIELD),
        ("place", "VECTOR(2)", Role.FIELD),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "time": st.integers(-20, 20),
        "host": st.sampled_from([None, "", "a", "b", "null"]),
        "rack": st.sampled_from([None, 0, -5]),
        "usage": st.sampled_from([None, 1.5, -2.0]),
        "note": st.sampled_from([None, "", "x", "y"]),
        "up": st.sampled_from([None, True, False]),
        "payload": st.sampled_from([None, b"", b"\0\1"]),
        "place": st.sampled_from([None, [1.0, 2.0]]),
    }
)
BATCHES = st.lists(st.lists(ROW, min_size=1, max_size=25), min_size=1, max_size=4)


@given(BATCHES, st.sampled_from([1, 3, 64]), st.sampled_from([4, 1_000]), st.sampled_from([None, 10_000_000]), st.integers(0, 4))
def test_any_history_equals_the_dictionary(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Any], page: int, file_rows: int, partition: int | None, flushed: int
) -> None:
    model = TableModel(SCHEMA)
    with Store.open(tmp_path_factory.mktemp("db"), threads=1) as store:
        store.create_table("t", SCHEMA, TableOptions(rows_per_page=page, file_rows_max=file_rows, partition_ns=partition))
        for number, rows in enumerate(batches, 1):
            report = store.write_batch("t", vectors_of(SCHEMA, rows))
            assert report == WriteReport(*model.write(rows), number)
            if number <= flushed:
                store.flush()
        snapshot = store.snapshot().tables["t"]
        assert merged_rows(snapshot) == model.sorted_rows()
        if partition is not None and flushed >= len(batches):
            assert all(file.min_time // 10 == file.max_time // 10 for file in snapshot.files)
        sequences = [file.max_sequence for file in snapshot.files]
        assert sequences == sorted(sequences)
        assert snapshot.sequence == len(batches)


@given(BATCHES)
def test_append_mode_keeps_every_row(tmp_path_factory: pytest.TempPathFactory, batches: list[Any]) -> None:
    with Store.open(tmp_path_factory.mktemp("db"), threads=1) as store:
        store.create_table("t", SCHEMA, TableOptions(mode="append"))
        for rows in batches:
            assert store.write_batch("t", vectors_of(SCHEMA, rows)).inserted == len(rows)
        found = merged_rows(store.snapshot().tables["t"])
        everything = [row for rows in batches for row in rows]
        assert sorted(map(repr, found)) == sorted(repr({name: row[name] for name in found[0]}) for row in everything)


def test_equal_times_of_a_stream_stay_in_order_of_arrival(tmp_path: Path) -> None:
    rows = [{"time": 5 - number // 3, "host": "a", "usage": float(number)} for number in range(9)]
    with Store.open(tmp_path / "db") as store:
        store.create_table("t", SCHEMA, TableOptions(mode="append"))
        store.write_batch("t", vectors_of(SCHEMA, rows, ["time", "host", "usage"]))
        assert [row["usage"] for row in stored_rows(store.snapshot().tables["t"])] == [6, 7, 8, 3, 4, 5, 0, 1, 2]


def test_one_commit_of_several_files_has_one_sequence_number(tmp_path: Path) -> None:
    rows = [{"time": number, "host": f"h{number % 3}"} for number in range(100)]
    with Store.open(tmp_path / "db") as store:
        store.create_table("t", SCHEMA, TableOptions(file_rows_max=10))
        store.write_batch("t", vectors_of(SCHEMA, rows, ["time", "host"]))
        store.flush()
        files = store.snapshot().tables["t"].files
        assert len(files) >= 8
        assert {(file.min_sequence, file.max_sequence) for file in files} == {(1, 1)}
        assert max(file.row_count for file in files) <= 20
        ranges = sorted((file.min_time, file.max_time) for file in files)
        assert all(before[1] < after[0] for before, after in zip(ranges, ranges[1:], strict=False)), "time ranges are apart"


def test_columns_left_out_are_not_stored_and_do_not_overwrite(tmp_path: Path) -> None:
    with Store.open(tmp_path / "db") as store:
        store.create_table("t", SCHEMA)
        store.write_batch("t", vectors_of(SCHEMA, [{"time": 1, "host": "a", "usage": 5.0, "note": "n"}]))
        store.flush()
        store.write_batch("t", vectors_of(SCHEMA, [{"time": 1, "host": "a", "usage": 6.0}], ["time", "host", "usage"]))
        snapshot = store.snapshot().tables["t"]
        assert not snapshot.files[1].file.has_column(SCHEMA.column("note"))
        [row] = merged_rows(snapshot)
        assert (row["usage"], row["note"], row["rack"]) == (6.0, "n", None)


def test_attributes_hold_one_value_per_device(tmp_path: Path) -> None:
    schema = build_schema(
        [
            ("time", "TIMESTAMP_S", Role.TIME),
            ("host", "STRING", Role.TAG),
            ("owner", "STRING", Role.ATTRIBUTE),
            ("v", "DOUBLE", Role.FIELD),
        ]
    )
    rows = [
        {"time": 1, "host": "a", "owner": "ann"},
        {"time": 2, "host": "b", "owner": None},
        {"time": 3, "host": "a", "owner": "bob"},
    ]
    with Store.open(tmp_path / "db") as store:
        store.create_table("t", schema)
        store.write_batch("t", vectors_of(schema, rows, ["time", "host", "owner"]))
        store.write_batch(
            "t", vectors_of(schema, [{"time": 4, "host": "b", "owner": "cyd"}, {"time": 4, "host": "a"}], ["time", "host", "owner"])
        )
    with Store.open(tmp_path / "db", "r") as store:
        devices = store.snapshot().tables["t"].devices
        assert devices.tags["host"].to_physical_list() == ["a", "b"]
        assert devices.attributes["owner"].to_physical_list() == ["bob", "cyd"]


@pytest.mark.parametrize("order", ["time", "device", "random"])
def test_a_larger_batch_in_any_order(tmp_path: Path, order: str) -> None:
    count, devices = 300_000, 500
    rng = np.random.default_rng(7)
    host, time = np.arange(count) % devices, np.arange(count) // devices
    rows = {"time": np.arange(count), "device": np.lexsort((time, host)), "random": rng.permutation(count)}[order]
    host, time, usage = host[rows], time[rows], rng.random(count)[rows]
    names = Pool.of([f"h{number:03}".encode() for number in range(devices)])
    columns = {
        "time": Vector(TIMESTAMP_MS, time.astype(np.int64)),
        "host": Vector(STRING, host.astype(np.int32), None, names),
        "usage": Vector(DOUBLE, usage, usage < 0.9),
    }
    with Store.open(tmp_path / "db", threads=2) as store:
        store.create_table("t", SCHEMA)
        assert store.write_batch("t", columns).inserted == count
        assert store.write_batch("t", {name: vector.take(slice(0, 1000)) for name, vector in columns.items()}).updated == 1000
        file = store.snapshot().tables["t"].files[0].file
        found = file.read("usage", np.zeros(1, np.int64), np.array([count]))
        by_storage = np.lexsort((time, host))
        assert (found.valid() == (usage < 0.9)[by_storage]).all()
        assert (found.values[found.valid()] == usage[by_storage][(usage < 0.9)[by_storage]]).all()
        assert (file.row_start == np.arange(devices + 1) * (count // devices)).all()


def test_updates_are_counted_across_files_and_inside_a_batch(tmp_path: Path) -> None:
    def rows(*times: int, host: str = "a") -> dict[str, Vector]:
        return vectors_of(SCHEMA, [{"time": time, "host": host} for time in times], ["time", "host"])

    with Store.open(tmp_path / "db") as store:
        store.create_table("t", SCHEMA)
        assert store.write_batch("t", rows(1, 3, 5)) == WriteReport(3, 0, 1)
        assert store.write_batch("t", rows(3, 3, 4, 9)) == WriteReport(2, 2, 2)
        assert store.write_batch("t", rows(3, 4, 5, 6)) == WriteReport(1, 3, 3)
        assert store.write_batch("t", rows(1, 3, 5, host="b")) == WriteReport(3, 0, 4)
        assert store.write_batch("t", rows()) == WriteReport(0, 0, 4)


TIME = vector_of(TIMESTAMP_MS, [1, 2])


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ({"usage": vector_of(DOUBLE, [1.0])}, InvalidInput, "TIME column 'time'"),
        ({"time": TIME, "usge": vector_of(DOUBLE, [1.0])}, NotFound, "usge"),
        ({"time": TIME, "usage": vector_of(DOUBLE, [1.0])}, InvalidInput, "1 values"),
        ({"time": TIME, "usage": vector_of(FLOAT, [1.0, 2.0])}, InvalidInput, "'usage' is DOUBLE, not FLOAT"),
        ({"time": vector_of(INT64, [1, 2])}, InvalidInput, "TIMESTAMP_MS"),
        ({"time": vector_of(TIMESTAMP_MS, [1, None])}, InvalidInput, "row 1: the time of a row cannot be NULL"),
        ({"time": TIME, "note": Vector(STRING, np.array([0, 7], np.int32), None, Pool.of([b"x"]))}, InvalidInput, "row 1.*code 7"),
        ({"time": TIME, "usage": Vector(DOUBLE, np.zeros(2, np.float32))}, InvalidInput, "float64"),
        ({"time": TIME, "usage": Vector(DOUBLE, np.zeros(2), np.ones(3, np.bool_))}, InvalidInput, "2 booleans"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    tmp_path: Path, columns: dict[str, Vector], error: type, says: str
) -> None:
    with Store.open(tmp_path / "db") as store:
        store.create_table("t", SCHEMA)
        with pytest.raises(error, match=says):
            store.write_batch("t", columns)
        assert store.snapshot().tables["t"].files == ()
        assert store.write_batch("t", vectors_of(SCHEMA, [{"time": 1}])).sequence == 1
        assert [row[SEQUENCE_NAME] for row in stored_rows(store.snapshot().tables["t"])] == [1]


def test_codes_under_null_may_be_anything(tmp_path: Path) -> None:
    note = Vector(STRING, np.array([-1, 99, 0], np.int32), np.array([False, False, True]), Pool.of([b"x"]))
    columns = {"time": vector_of(TIMESTAMP_MS, [1, 2, 3]), "note": note, "host": note}
    with Store.open(tmp_path / "db") as store:
        store.create_table("t", SCHEMA)
        store.write_batch("t", columns)
        assert [(row["host"], row["note"]) for row in merged_rows(store.snapshot().tables["t"])] == [
            ("x", "x"),
            (None, None),
            (None, None),
        ]


def test_a_few_late_rows_do_not_stretch_the_file_of_the_new_ones(tmp_path: Path) -> None:
    def rows(*times: int) -> dict[str, Any]:
        return vectors_of(SCHEMA, [{"time": time, "host": "a"} for time in times], ["time", "host"])

    with Store.open(tmp_path / "db", background=False) as store:
        store.create_table("t", SCHEMA)
        store.write_batch("t", rows(*range(1000)))
        store.flush()
        store.write_batch("t", rows(*range(2000, 2990), *range(5, 15), 1000))
        store.flush()
        ranges = sorted((file.min_time, file.max_time, file.rows) for file in store.entry("t").files)
        assert ranges == [(0, 999, 1000), (5, 14, 10), (1000, 2989, 991)]
