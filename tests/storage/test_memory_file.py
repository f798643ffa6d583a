"""Rows in memory against the file that they become: whatever a query may ask, both give the same answer."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.file_case import FileCase, random_case, same_values
from tsdb.catalog.table import Table, TableOptions
from tsdb.storage.arrange import SortedRows
from tsdb.storage.data_file import DataFile, StoredFile
from tsdb.storage.memory_file import MemoryRun
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME, Column
from tsdb_format.statistics import HAS_BOUNDS, HAS_EDGES, HAS_SUM, Statistics
from tsdb_format.types import INT64, Role
from tsdb_format.vector import Vector


def both(folder: Path, case: FileCase) -> tuple[MemoryRun, StoredFile]:
    case.write(folder / "a.tsf")
    assert case.device_number is not None
    table = Table(7, "t", case.schema, TableOptions(rows_per_page=case.rows_per_page), 99)
    return MemoryRun(table, SortedRows(case.device_number, case.row_start, case.columns, 0)), StoredFile(folder / "a.tsf")


def same_statistics(mine: Statistics, theirs: Statistics) -> None:
    assert mine.row_count.tolist() == theirs.row_count.tolist()
    assert mine.null_count.tolist() == theirs.null_count.tolist()
    assert mine.flags.tolist() == theirs.flags.tolist()
    for name, flag in (("min", HAS_BOUNDS), ("max", HAS_BOUNDS), ("sum", HAS_SUM), ("first", HAS_EDGES), ("last", HAS_EDGES)):
        left, right = getattr(mine, name), getattr(theirs, name)
        assert (left is None) == (right is None)
        if left is not None:
            has = (mine.flags & flag) != 0
            assert left[has].tobytes() == right[has].tobytes()
    if theirs.min_prefix is not None:
        has = (mine.flags & HAS_BOUNDS) != 0
        for name in ("min_prefix", "max_prefix"):
            assert getattr(mine, name)[has].tolist() == getattr(theirs, name)[has].tolist()


@pytest.mark.parametrize(("rows", "devices", "page"), [(1, 1, 8192), (100, 4, 16), (100, 100, 1), (3_000, 7, 1024), (700, 3, 4)])
def test_everything_a_query_asks(tmp_path: Path, rows: int, devices: int, page: int) -> None:
    case = random_case(rows + devices, devices=devices, rows=rows, rows_per_page=page)
    run, stored = both(tmp_path, case)
    mine: DataFile = run.file
    for name in ("row_count", "rows_per_page", "page_count", "chunk_count", "device_count"):
        assert getattr(mine, name) == getattr(stored, name)
    assert mine.row_start.tolist() == stored.row_start.tolist()
    assert [column.id for column in mine.schema] == [column.id for column in stored.schema]
    for name in ("min_time", "max_time", "by_min_time", "by_max_time"):
        assert getattr(mine.resource, name).tolist() == getattr(stored.resource, name).tolist()
        assert getattr(mine.resource, name).dtype == getattr(stored.resource, name).dtype
    for name in case.columns:
        assert not mine.page_bytes(name).any()
        assert len(mine.page_bytes(name)) == len(stored.page_bytes(name)) == mine.page_count
        for level in ("page", "chunk", "file", "all"):
            same_statistics(mine.statistics(name, level), stored.statistics(name, level))


@given(data=st.data(), seed=st.integers(0, 5))
def test_rows_of_ranges(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int) -> None:
    run, stored = both(tmp_path_factory.mktemp("m"), random_case(seed, devices=5, rows=60))
    cuts = sorted(data.draw(st.sets(st.integers(0, 60), min_size=2, max_size=8)))
    starts, stops = (np.array(cuts[i::2][: len(cuts) // 2], np.int64) for i in (0, 1))
    for name in (SEQUENCE_NAME, "time", *(column.name for column in stored.schema.fields)):
        assert same_values(run.file.read(name, starts, stops), stored.read(name, starts, stops))


@given(key=st.integers(-3, 60), right=st.booleans(), seed=st.integers(0, 5), page=st.sampled_from([1, 4, 8192]))
def test_search(tmp_path_factory: pytest.TempPathFactory, key: int, right: bool, seed: int, page: int) -> None:
    run, stored = both(tmp_path_factory.mktemp("m"), random_case(seed, devices=5, rows=60, rows_per_page=page, fields=()))
    edges = run.file.row_start
    wanted = int(run.min_time) + key * 10**9 // 2
    found = run.file.search("time", edges[:-1], edges[1:], wanted, right)
    assert found.tolist() == stored.search("time", edges[:-1], edges[1:], wanted, right).tolist()
    times = run.rows.columns["time"].values
    side: Any = "right" if right else "left"
    spans = zip(edges[:-1], edges[1:], strict=True)
    assert found.tolist() == [int(a + np.searchsorted(times[a:b], wanted, side)) for a, b in spans]


def test_what_is_known_of_a_run(tmp_path: Path) -> None:
    case = random_case(3)
    run, stored = both(tmp_path, case)
    assert (run.row_count, run.device_count) == (stored.row_count, stored.device_count)
    assert (run.min_time, run.max_time) == (stored.min_time, stored.max_time)
    assert (run.min_sequence, run.max_sequence) == (stored.min_sequence, stored.max_sequence)
    assert run.applied == 0
    assert run.device_number.tolist() == [] or run.device_number is case.device_number
    assert run.nbytes > sum(vector.values.nbytes for vector in case.columns.values())
    assert run.name == run.path == "memory"
    assert "rows=100" in repr(run)


def test_columns_are_known_by_their_ids(tmp_path: Path) -> None:
    """A run knows the columns it was given, by the names of then: a later rename is the reader's business."""
    case = random_case(4, fields=("INT32", "STRING"))
    del case.columns["field1"]
    assert case.device_number is not None
    table = Table(7, "t", case.schema, TableOptions(), 99)
    file = MemoryRun(table, SortedRows(case.device_number, case.row_start, case.columns, 0)).file
    fields = {column.name: column for column in case.schema.fields}
    assert file.has_column(fields["field0"])
    assert not file.has_column(fields["field1"])
    assert file.has_column(Column("renamed", fields["field0"].type, Role.FIELD, fields["field0"].id))
    assert file.has_column(SEQUENCE_COLUMN)


def test_making_a_run_works_nothing_out(tmp_path: Path) -> None:
    """One is made per commit: what it costs is a few assignments, whatever its size. Counted, not timed."""
    case = random_case(5)
    run, _ = both(tmp_path, case)
    assert set(vars(run)) == {"table", "rows", "applied", "row_count", "device_count"}
    _ = run.file
    assert "resource" not in vars(run.file)


def test_threads_find_the_same(tmp_path: Path) -> None:
    case = random_case(6, rows=4_000, rows_per_page=64)
    run, stored = both(tmp_path, case)
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for name in case.columns:
                same_statistics(run.file.statistics(name, "page"), stored.statistics(name, "page"))
            assert run.file.resource.by_max_time.tolist() == stored.resource.by_max_time.tolist()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_one_row() -> None:
    case = random_case(8, devices=1, rows=1, fields=("DOUBLE",))
    assert case.device_number is not None
    table = Table(7, "t", case.schema, TableOptions(), 99)
    columns = {**case.columns, SEQUENCE_NAME: Vector(INT64, np.array([12]))}
    run = MemoryRun(table, SortedRows(case.device_number, case.row_start, columns, 0), applied=11)
    assert (run.min_sequence, run.max_sequence, run.applied) == (12, 12, 11)
    assert run.file.resource.by_max_time.tolist() == run.file.resource.by_min_time.tolist() == [0]
    whole = np.zeros(1, np.int64), np.ones(1, np.int64)
    assert same_values(run.file.read("field0", *whole), columns["field0"])


@pytest.mark.parametrize("bounds", [([0], [100]), ([5], [9]), ([1, 50], [3, 60])])
def test_who_reads_may_write_to_what_he_got(tmp_path: Path, bounds: tuple[list[int], list[int]]) -> None:
    case = random_case(9)
    run, stored = both(tmp_path, case)
    starts, stops = (np.array(edges, np.int64) for edges in bounds)
    for name in case.columns:
        found = run.file.read(name, starts, stops)
        found.values[...] = 0
        if found.validity is not None:
            found.validity[...] = False
        assert same_values(run.file.read(name, starts, stops), stored.read(name, starts, stops))
