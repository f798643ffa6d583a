"""Rewriting files against brute force: whatever is merged with whatever, in any order, readers see the same rows."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from support.compaction_case import SmallStore, comparable
from support.snapshots import Row, make_schema
from tsdb.catalog.table import TableOptions
from tsdb.exec.kernels import compaction as kernels
from tsdb.exec.selection import Selection
from tsdb.exec.stats import ScanStats
from tsdb.storage import compaction
from tsdb.storage.arrange import SortedRows
from tsdb.storage.compaction import expired, plan
from tsdb.storage.cuts import Cuts
from tsdb.storage.layout import Layout
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.rewrite import UnreadableInput, rewrite
from tsdb_format.errors import Corruption, NotFound
from tsdb_format.kernels.registry import Kernel
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.types import BLOB, BOOLEAN, DOUBLE, FLOAT, INT32, INT64, STRING, TIMESTAMP_MS, TIMESTAMP_S, ColumnType, Kind, Role
from tsdb_format.vector import Vector

SCHEMA = make_schema(
    ("time", TIMESTAMP_MS, Role.TIME), ("host", STRING, Role.TAG), ("slot", INT32, Role.TAG), ("usage", DOUBLE, Role.FIELD),
    ("note", STRING, Role.FIELD), ("up", BOOLEAN, Role.FIELD), ("raw", BLOB, Role.FIELD), ("small", FLOAT, Role.FIELD),
    ("place", ColumnType(Kind.VECTOR, 2), Role.FIELD),
)  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "usage": (None, 0.0, -0.0, 1.5, float("nan")), "note": (None, "", "x", "a longer note"), "up": (None, True, False),
    "raw": (None, b"", b"\0\1"), "small": (None, 0.5), "place": (None, [1.0, 2.0]),
}  # fmt: skip
HOSTS, SLOTS = (None, "", "a", "b"), (None, 0)
ROWS_MAX = 12


class Clock:
    """A clock that only goes forward."""

    def __init__(self) -> None:
        self.time_ns = 0

    def __call__(self) -> int:
        return self.time_ns


def merge(store: SmallStore, picks: list[int], widely: bool) -> None:
    """Merge some files with what has to come along."""
    entries = store.entry().files
    layout = Layout(entries, [entry.rows for entry in entries])
    chosen = layout.closure(np.unique([pick % len(entries) for pick in picks]))
    if widely:
        chosen = layout.filled(layout.gathered(chosen))
    inputs = [entries[place] for place in layout.order[chosen].tolist()]
    outputs = store.run(inputs, layout.cuts(chosen, ROWS_MAX // 4), ROWS_MAX)
    assert sum(entry.rows for entry in outputs) <= sum(entry.rows for entry in inputs)


def some_rows(random: Random) -> list[Row]:
    """A commit: a stretch of time that is short or long, few devices or many, some of the columns."""
    low, width = random.choice((0, random.randrange(60), 40)), random.choice((1, 4, 15, 60))
    names = random.sample(sorted(VALUES), random.randrange(1, 4))
    hosts = random.sample(HOSTS, random.randrange(1, 4))
    rows: list[Row] = []
    for _ in range(random.randrange(1, 10)):
        time = low + random.randrange(width)
        if random.random() < 0.01:
            time = random.choice((-(2**63), 2**63 - 1))
        row = {"time": time, "host": random.choice(hosts), "slot": random.choice(SLOTS)}
        rows.append({**row, **{name: random.choice(VALUES[name]) for name in names}})
    return rows


def take_step(store: SmallStore, clock: Clock, random: Random) -> None:
    """One thing that can happen to a table."""
    chance = random.random()
    if chance < 0.43:
        store.write(some_rows(random))
        if random.random() < 0.8:
            store.flush(ROWS_MAX)
    elif chance < 0.6:
        low = random.randrange(60)
        tags = {"host": random.choice(HOSTS), "slot": random.choice(SLOTS)} if random.random() < 0.7 else None
        store.delete(tags, low, low + random.choice((0, 3, 30)))
    elif chance < 0.8 and store.entries:
        merge(store, [random.randrange(30) for _ in range(random.randrange(1, 4))], random.random() < 0.5)
    elif chance < 0.92:
        carry_out(store, clock(), random, everything=random.random() < 0.2)
    else:
        clock.time_ns += random.randrange(40) * 10**6


def carry_out(store: SmallStore, now_ns: int, random: Random, everything: bool) -> bool:
    """What is planned, in any order; whether there was anything to do."""
    gone = expired(store.entry(), now_ns, store.tombstones)
    store.drop(gone)
    store.check()
    tasks = plan(store.entry(), store.tombstones, now_ns, everything=everything)
    random.shuffle(tasks)
    for task in tasks:
        if random.random() < 0.3:
            store.write(some_rows(random))
            store.flush(ROWS_MAX)
        store.run(task.inputs, task.cuts, ROWS_MAX)
        store.check()
    return bool(tasks or gone)


def scanned(store: SmallStore) -> list[Row]:
    """The rows as a query reads them."""
    names = [column.name for column in store.table.schema] + [SEQUENCE_NAME]
    rows: list[Row] = []
    for batch in Selection(store.snapshot(), None, ScanStats("t")).row_sets():
        columns = {name: batch.read(name).to_physical_list() for name in names}
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_tasks_leaves_the_same_rows(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    partition, ttl = random.choice((None, None, 20)), random.choice((None, None, None, 25))
    options = TableOptions(
        mode=random.choice(("table", "table", "append")), rows_per_page=random.choice((4, 8192)), file_rows_max=ROWS_MAX,
        partition_ns=None if partition is None else partition * 10**6, ttl_ns=None if ttl is None else ttl * 10**6,
    )  # fmt: skip
    clock = Clock()
    store = SmallStore(tmp_path, SCHEMA, options, clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "DEPTH_MAX", random.choice((2, 8)))
        for _ in range(40):
            take_step(store, clock, random)
            store.check()
            if partition is not None:
                assert all(entry.min_time // partition == entry.max_time // partition for entry in store.entries.values())
    assert comparable(scanned(store)) == comparable(store.visible())
    store.flush(ROWS_MAX)
    quiet = Random(0)
    quiet.random = lambda: 1.0  # type: ignore[method-assign]
    assert any(not carry_out(store, clock(), quiet, everything=True) for _ in range(20)), "there is always something to do"
    files = sorted(store.entries.values(), key=lambda file: file.min_time)
    assert all(before.max_time < after.min_time for before, after in zip(files, files[1:], strict=False))
    assert not compaction.needed(store.tombstones, files).any()
    assert comparable(scanned(store)) == comparable(store.visible())


# -------------------------------------------------------------------------------------------------- single cases

PLAIN = make_schema(
    ("time", TIMESTAMP_S, Role.TIME), ("host", STRING, Role.TAG), ("usage", DOUBLE, Role.FIELD), ("note", STRING, Role.FIELD)
)


def filled_store(folder: Path, commits: list[list[Row]], **options: Any) -> SmallStore:
    """A file for each commit."""
    store = SmallStore(folder, PLAIN, TableOptions(**options))
    for rows in commits:
        store.write(rows)
        store.flush(10**6)
    return store


def one(store: SmallStore, rows_max: int = 10**6, cuts: Cuts = Cuts()) -> list[Any]:  # noqa: B008
    return list(rewrite(store.snapshot(), rows_max=rows_max, cuts=cuts))


def test_fields_of_all_versions_come_together_and_the_newest_wins(tmp_path: Path) -> None:
    store = filled_store(
        tmp_path,
        [
            [{"time": 1, "host": "a", "usage": 1.0, "note": "old"}],
            [{"time": 1, "host": "a", "note": "new"}],
            [{"time": 1, "host": "a", "usage": None}, {"time": 2, "host": "b"}],
        ],
    )
    (rows,) = one(store)
    assert rows.columns["usage"].to_physical_list() == [1.0, None]
    assert rows.columns["note"].to_physical_list() == ["new", None]
    assert rows.columns[SEQUENCE_NAME].to_physical_list() == [3, 3]
    assert rows.overlaid == 2


def test_a_stream_keeps_rows_of_one_time_in_order(tmp_path: Path) -> None:
    commits = [[{"time": 1, "host": "a", "usage": float(10 * n + k)} for k in range(3)] for n in range(3)]
    store = filled_store(tmp_path, commits, mode="append")
    (rows,) = one(store)
    assert rows.columns["usage"].to_physical_list() == [row["usage"] for commit in commits for row in commit]
    assert rows.columns[SEQUENCE_NAME].to_physical_list() == [1] * 3 + [2] * 3 + [3] * 3


def test_fields_that_no_input_has_are_left_out(tmp_path: Path) -> None:
    store = filled_store(tmp_path, [[{"time": 1, "host": "a"}], [{"time": 2, "host": "a", "note": "x"}]])
    (rows,) = one(store)
    assert set(rows.columns) == {"time", "note", SEQUENCE_NAME}
    assert rows.columns["note"].to_physical_list() == [None, "x"]


def test_columns_go_by_id_when_they_are_renamed_dropped_and_added_again(tmp_path: Path) -> None:
    store = filled_store(tmp_path, [[{"time": 1, "host": "a", "usage": 1.0, "note": "x"}]])
    changed = (*PLAIN.columns[:2], Column("load", DOUBLE, Role.FIELD, 3), Column("note", STRING, Role.FIELD, 9))
    store.table = replace(store.table, schema=Schema(changed))
    store.write([{"time": 2, "host": "a", "load": 2.0, "note": "y"}])
    (rows,) = one(store)
    assert rows.columns["load"].to_physical_list() == [1.0, 2.0]
    assert rows.columns["note"].to_physical_list() == [None, "y"]
    assert "usage" not in rows.columns


def test_nothing_is_left_where_all_rows_are_deleted_or_expired(tmp_path: Path) -> None:
    store = filled_store(tmp_path / "a", [[{"time": 1, "host": "a"}], [{"time": 9, "host": "b"}]])
    store.delete(None, 0, 5)
    store.delete({"host": "b"}, 9, 9)
    assert one(store) == []
    store = filled_store(tmp_path / "b", [[{"time": 1, "host": "a"}]], ttl_ns=10**9)
    store.now_ns = lambda: 10 * 10**9
    assert one(store) == []


def test_rows_written_after_a_delete_stay(tmp_path: Path) -> None:
    store = filled_store(tmp_path, [[{"time": t, "host": h, "usage": 1.0} for t in range(4) for h in "ab"]])
    store.delete({"host": "a"}, 1, 2)
    store.write([{"time": 1, "host": "a", "note": "again"}])
    (rows,) = one(store)
    kept = list(zip(rows.columns["time"].to_physical_list(), rows.columns["usage"].to_physical_list(), strict=True))
    assert kept == [(0, 1.0), (1, None), (3, 1.0), (0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]


def test_a_delete_between_the_versions_that_one_input_holds(tmp_path: Path) -> None:
    store = filled_store(tmp_path, [[{"time": t, "host": "a", "usage": t * 1.0} for t in range(4)]])
    (rows,) = one(store)
    rows.columns[SEQUENCE_NAME].values[:] = [1, 3, 1, 3]  # of two commits, with a delete between them that nobody carried out yet
    store.tombstones = store.tombstones.plus(np.array([-1], np.int32), np.array([0]), np.array([2]), 2)
    for applied, left in ((0, [1, 3]), (1, [1, 3]), (2, [0, 1, 2, 3])):
        (found,) = rewrite(store.snapshot((MemoryRun(store.table, rows, applied),)), rows_max=100)
        assert found.columns["time"].to_physical_list() == left


def test_slices_are_bounded_and_end_at_cuts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    commits = [
        [{"time": int(t), "host": f"h{d}", "usage": float(t)} for d in range(5) for t in rng.choice(2_000, 60, replace=False)]
        for _ in range(4)
    ]
    store = filled_store(tmp_path, commits)
    found = one(store, rows_max=200, cuts=Cuts(required=(777,)))
    bounds = [(int(rows.columns["time"].values.min()), int(rows.columns["time"].values.max())) for rows in found]
    assert all(before[1] < after[0] for before, after in zip(bounds, bounds[1:], strict=False))
    assert not any(low < 777 <= high for low, high in bounds)
    assert len(found) < 12
    assert max(len(rows.columns["time"]) for rows in found) <= 200
    assert sum(len(rows.columns["time"]) for rows in found) == len(store.visible())


def test_memory_is_that_of_a_slice_and_not_of_all_rows(tmp_path: Path) -> None:
    rng, devices, rows = np.random.default_rng(0), 50, 40_000
    store = filled_store(tmp_path, [[{"time": 0, "host": f"h{d:02}"} for d in range(devices)]])
    numbers = np.argsort(store.devices.rank).astype(np.int32)
    store.drop(store.entry().files)
    for sequence in range(2, 10):
        times = np.sort(rng.integers(0, 10**9, (devices, rows // devices)), axis=1).reshape(-1)
        columns = {
            "time": Vector(TIMESTAMP_S, times), SEQUENCE_NAME: Vector(INT64, np.full(rows, sequence)),
            "usage": Vector(DOUBLE, rng.normal(size=rows)),
        }  # fmt: skip
        store.put([SortedRows(numbers, np.arange(devices + 1) * (rows // devices), columns, 0)])
    total = 8 * rows
    peaks = []
    for rows_max in (total, total // 16, total // 16):  # the first only makes things ready: what files keep, compiled kernels
        tracemalloc.start()
        assert sum(int(each.row_start[-1]) for each in rewrite(store.snapshot(), rows_max=rows_max)) > 0.99 * total
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] > 24 * total
    assert peaks[2] < 24 * total / 3


def test_rows_of_one_instant_stay_together(tmp_path: Path) -> None:
    store = filled_store(tmp_path, [[{"time": 5, "host": f"h{d}"} for d in range(40)], [{"time": 6, "host": "h1"}]])
    assert [len(rows.columns["time"]) for rows in one(store, rows_max=10)] == [40, 1]


def test_a_file_never_spans_partitions_although_it_did_before(tmp_path: Path) -> None:
    store = filled_store(tmp_path, [[{"time": t, "host": h, "usage": t * 1.0} for t in range(-3, 12) for h in "ab"]])
    store.table = replace(store.table, options=TableOptions(partition_ns=4 * 10**9))
    found = one(store)
    assert [sorted(set(rows.columns["time"].values.tolist())) for rows in found] == [[-3, -2, -1], [0, 1, 2, 3], [4, 5, 6, 7],
                                                                                   [8, 9, 10, 11]]  # fmt: skip
    assert all(rows.row_start[-1] == len(rows.columns["usage"]) and len(rows.numbers) == 2 for rows in found)


def test_a_damaged_input_is_named(tmp_path: Path) -> None:
    commits = [[{"time": t, "host": "a", "usage": t * 0.1} for t in range(n, n + 50)] for n in (0, 20)]
    for damage in ("bytes", "missing", "truncated"):
        store = filled_store(tmp_path / damage, commits)
        name = store.entry().files[1].name
        path = tmp_path / damage / name
        store.files = {key: store.files[key] for key in store.files}
        if damage == "missing":
            path.unlink()
        else:
            raw = bytearray(path.read_bytes())
            raw[40:400] = bytes(360)
            path.write_bytes(raw if damage == "bytes" else raw[:100])
        with pytest.raises(UnreadableInput) as caught:
            one(store)
        assert caught.value.name == name
        assert isinstance(caught.value.__cause__, Corruption | NotFound)


# -------------------------------------------------------------------------------------------------- kernels


@pytest.fixture(params=["python", "jit"])
def run(request: pytest.FixtureRequest) -> Any:
    def call(kernel: Kernel, *args: Any) -> Any:
        return kernel.resolve(request.param)(*args)

    return call


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("overlay", [0, 1])
def test_merging_runs_is_a_stable_sort_by_device_and_time(run: Any, seed: int, overlay: int) -> None:
    rng = np.random.default_rng(seed)
    devices = int(rng.integers(1, 6))
    runs = [np.sort(rng.integers(0, 12 if seed % 2 else 10_000, rng.integers(1, 20))) for _ in range(devices * 4)]
    owner = np.sort(rng.integers(0, devices, len(runs)))
    bounds = np.searchsorted(owner, np.append(np.unique(owner), devices)).astype(np.int64)
    # the runs lie in the buffer in another order than that of devices
    place = rng.permutation(len(runs))
    starts = np.zeros(len(runs), np.int64)
    buffer: list[int] = []
    for number in place.tolist():
        starts[number] = len(buffer)
        buffer += runs[number].tolist()
    time, stops = np.array(buffer, np.int64), starts + np.array([len(each) for each in runs])
    total = len(time)
    merged, order = np.empty(total, np.int64), np.empty(total, np.int32)
    edges = np.empty(int(np.diff(bounds).max()) + 1, np.int64)
    run(kernels.merge_runs, time, starts, stops, bounds, edges, merged, order, np.empty(total, np.int64), np.empty(total, np.int32))
    expected = sorted(
        ((owner[number], time[i], number, i) for number in range(len(runs)) for i in range(starts[number], stops[number])),
        key=lambda each: each[:3],
    )
    assert order.tolist() == [each[3] for each in expected]
    assert merged.tolist() == [each[1] for each in expected]

    sizes = np.add.reduceat(stops - starts, bounds[:-1])
    rows = np.concatenate([[0], np.cumsum(sizes)])
    row_start, position = np.empty_like(rows), np.empty(total, np.int32)
    places = run(kernels.number_rows, merged, order, rows, overlay, row_start, position)
    keys = [(each[0], each[1]) if overlay else each for each in expected]
    distinct = list(dict.fromkeys(keys))
    assert places == len(distinct)
    assert merged[:places].tolist() == [key[1] for key in distinct]
    number_of = {key: place for place, key in enumerate(distinct)}
    assert [int(position[each[3]]) for each in expected] == [number_of[key] for key in keys]
    found = np.unique(owner)
    assert row_start.tolist() == [sum(key[0] < device for key in distinct) for device in found.tolist()] + [places]
