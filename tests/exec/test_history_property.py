"""TopK and scans over files, memory and deletes, against brute force: at every step of random histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.history_case import History
from support.snapshots import Row, holds, make_schema, ordered
from tsdb.catalog.table import TableOptions
from tsdb.exec import arrangement, last_row
from tsdb.exec.context import ExecContext
from tsdb.exec.executor import execute
from tsdb.exec.lane import FileLane, lanes_of
from tsdb.plan.node import DuckQuery, LastRow, SortKey, TableScan, TopK
from tsdb.plan.predicate import And, Compare, InSet, IsNull, Not, Predicate
from tsdb.settings import Settings
from tsdb.storage.memory_file import MemoryFile
from tsdb.storage.snapshot import Snapshot, TableSnapshot
from tsdb.storage.tombstone import least_unapplied
from tsdb_format.types import DOUBLE, INT32, STRING, TIMESTAMP_MS, Role

SCHEMA = make_schema(
    ("time", TIMESTAMP_MS, Role.TIME), ("host", STRING, Role.TAG), ("slot", INT32, Role.TAG), ("usage", DOUBLE, Role.FIELD),
    ("note", STRING, Role.FIELD),
)  # fmt: skip
NAMES = ("time", "host", "slot", "usage", "note", "_sn")
TIMES = st.one_of(st.integers(0, 6), st.integers(-3, 40), st.sampled_from([-(2**63), 2**63 - 1]))
TAGS = st.fixed_dictionaries({"host": st.sampled_from([None, "", "a", "b", "ä"]), "slot": st.sampled_from([None, 0, 1])})
ROWS = st.lists(
    st.builds(
        lambda tags, values: {**tags, **values},
        TAGS,
        st.fixed_dictionaries(
            {
                "time": TIMES, "usage": st.sampled_from([None, 0.0, 1.5, -1.5, 90.0, float("nan"), float("inf")]),
                "note": st.sampled_from([None, "", "x", "a longer note than sixteen bytes"]),
            }
        ),
    ),
    min_size=1, max_size=20,
)  # fmt: skip
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), ROWS, st.booleans()),
        st.tuples(st.just("write"), ROWS.map(lambda rows: rows[:1]), st.just(True)),
        st.tuples(st.just("delete"), st.none() | TAGS, TIMES, TIMES),
        st.tuples(st.just("delete"), TAGS, TIMES.map(lambda time: (time, time))),
        st.tuples(st.just("compact"), st.integers(0, 4), st.booleans()),
    ),
    min_size=1, max_size=9,
)  # fmt: skip
PREDICATES: st.SearchStrategy[Predicate | None] = st.one_of(
    st.none(),
    st.builds(Compare, st.just("usage"), st.sampled_from(["<", ">=", "="]), st.sampled_from([0.0, 1.5, 50.0])),
    st.builds(lambda low, high: And((Compare("time", ">=", low), Compare("time", "<", high))), TIMES, TIMES),
    st.builds(InSet, st.just("host"), st.sampled_from([("a",), ("a", "", "nobody")])),
    st.sampled_from([IsNull("note"), Not(IsNull("note")), And((Compare("host", "=", "b"), Compare("note", "=", "x")))]),
)
KEYS = st.one_of(
    st.builds(lambda descending: [SortKey("time", descending)], st.booleans()),
    st.lists(
        st.builds(SortKey, st.sampled_from(["time", "host", "slot", "usage", "note"]), st.booleans(), st.booleans()),
        min_size=1, max_size=3, unique_by=lambda key: key.column,
    ),
)  # fmt: skip
COUNTER = iter(range(10**9))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("history")


def take(history: History, step: tuple[Any, ...]) -> None:
    match step:
        case ("write", rows, memory):
            history.write(rows, memory)
        case ("delete", tags, (low, high)) | ("delete", tags, low, high):
            history.delete(tags, min(low, high), max(low, high))
        case ("compact", count, memory):
            history.compact(count, memory)


def run(plan: TopK | TableScan | LastRow, snapshot: Snapshot, threads: int, **settings: bool) -> tuple[list[Row], dict[str, Any]]:
    context = ExecContext(snapshot, Settings(**settings), threads)
    rows: list[Row] = []
    for batch in execute(plan, context):
        columns = {name: vector.to_physical_list() for name, vector in batch.vectors.items()}
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return rows, context.stats.as_dict()


def comparable(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [tuple(repr(row.get(name)) for name in NAMES) for row in rows]


def check_lanes(table: TableSnapshot) -> None:
    """Every run is in one lane, and among the clean ones just where it overlaps no other and no tombstone touches it."""
    clean: set[tuple[int, int]] = set()
    bundled: dict[tuple[int, int, int], bool] = {}
    for lane in lanes_of(table):
        live = np.flatnonzero(np.ones(len(lane.device), np.bool_) if lane.merged is None else ~lane.merged)
        if isinstance(lane, FileLane):
            clean |= {(lane.files[0], run) for run in live.tolist()}
            continue
        held = lane.bounds(live)
        for row, run in enumerate(live.tolist()):
            for column, index in enumerate(held.files):
                if held.starts[row, column] < held.stops[row, column]:
                    key = (index, int(held.starts[row, column]), int(held.stops[row, column]))
                    assert key not in bundled
                    bundled[key] = lane.certain
            assert lane.first_time <= lane.min_time[run] <= lane.max_time[run] <= lane.last_time
    runs = []
    for index, held in enumerate(table.files):
        times, start = held.file.resource, held.file.row_start.tolist()
        touched = table.tombstones.index.touches(held.device_number, times.min_time, times.max_time, least_unapplied(held))
        for run, device in enumerate(held.device_number.tolist()):
            bounds = int(times.min_time[run]), int(times.max_time[run])
            runs.append((device, *bounds, (index, run), (index, start[run], start[run + 1]), bool(touched[run])))
    overlay = table.table.options.mode == "table"
    for device, low, high, place, key, touched in runs:
        overlaps = overlay and any(
            device == d and low <= h and l <= high and place != p
            for d, l, h, p, _, _ in runs  # noqa: E741
        )
        assert (place in clean) == (not overlaps and not touched)
        assert (key in bundled) == (overlaps or touched)
        assert not touched or not bundled[key]


@given(
    steps=STEPS, predicate=PREDICATES, keys=KEYS, limit=st.integers(1, 12), offset=st.integers(0, 3),
    page=st.sampled_from([1, 4, 8192]), mode=st.sampled_from(["table", "table", "append"]), threads=st.sampled_from([1, 2]),
    unkept=st.sampled_from([0, 3, 256]),
)  # fmt: skip
def test_every_step_of_a_history(
    root: Path, steps: list[tuple[Any, ...]], predicate: Predicate | None, keys: list[SortKey], limit: int, offset: int, page: int,
    mode: Any, threads: int, unkept: int,
) -> None:  # fmt: skip
    history = History(root / str(next(COUNTER)), SCHEMA, TableOptions(rows_per_page=page, mode=mode))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrangement, "_UNKEPT_RUNS_MAX", unkept)
        patch.setattr(arrangement, "_KERNEL_SORTED_MIN", unkept)
        for step in steps:
            take(history, step)
            check_lanes(history.table_snapshot())
        patch.setattr(MemoryFile, "summarized_rows_min", unkept)
        check_queries(history, predicate, keys, limit, offset, threads)


def check_queries(
    history: History, predicate: Predicate | None, keys: list[SortKey], limit: int, offset: int, threads: int
) -> None:
    """A TopK with and without its filter, and a scan with its counters, as of now."""
    snapshot = history.snapshot()
    wanted = [row for row in history.visible() if predicate is None or holds(predicate, row)]
    expected = ordered(SCHEMA, wanted, keys)[offset : offset + limit]
    for topk_id in (1, None):
        plan = TopK(TableScan("t", NAMES, predicate, topk_id), tuple(keys), limit, offset, topk_id)
        got, counts = run(plan, snapshot, threads)
        assert comparable(got) == comparable(expected), f"filter {'on' if topk_id else 'off'}"
    scanned, counts = run(TableScan("t", NAMES, predicate), snapshot, threads)
    assert sorted(comparable(scanned)) == sorted(comparable(wanted))
    for level in ("files", "pages", "rows", "devices"):
        assert counts[f"{level}_total"] == sum(counts[f"{level}_{fate}"] for fate in ("pruned_by_filter", "read"))


@given(
    steps=STEPS, predicate=PREDICATES, keys=st.sampled_from([("host", "slot"), ("slot", "host"), ("host",), ("slot",), ()]),
    limit=st.integers(0, 4), oldest=st.booleans(), page=st.sampled_from([1, 4, 8192]),
    mode=st.sampled_from(["table", "table", "append"]), threads=st.sampled_from([1, 2]),
)  # fmt: skip
def test_last_rows_of_a_history(
    root: Path, steps: list[tuple[Any, ...]], predicate: Predicate | None, keys: tuple[str, ...], limit: int, oldest: bool,
    page: int, mode: Any, threads: int,
) -> None:  # fmt: skip
    history = History(root / str(next(COUNTER)), SCHEMA, TableOptions(rows_per_page=page, mode=mode))
    for step in steps:
        take(history, step)
    wanted = [row for row in history.visible() if predicate is None or holds(predicate, row)]
    expected: list[Row] = []
    taken: dict[tuple[Any, ...], int] = {}
    for row in ordered(SCHEMA, wanted, [*(SortKey(key) for key in keys), SortKey("time", not oldest)]):
        group = tuple(row.get(key) for key in keys)
        taken[group] = taken.get(group, 0) + 1
        expected += [row] if taken[group] <= limit else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(last_row, "_PIECE_MIN", 1)
        patch.setattr(last_row, "_PIECE_MAX", 2)
        plan = LastRow(TableScan("t", NAMES, predicate), keys, limit, oldest)
        got, counts = run(plan, history.snapshot(), threads)
        unpruned, all_counts = run(plan, history.snapshot(), threads, enable_topk_runtime_filter=False)
    assert comparable(got) == comparable(unpruned) == comparable(expected)
    assert all_counts["pages_pruned_by_topk"] == 0
    if limit:
        fates = "pruned_by_filter", "pruned_by_topk", "read"
        for level in ("files", "pages", "rows", "devices"):
            assert counts[f"{level}_total"] == sum(counts[f"{level}_{fate}"] for fate in fates)


@given(steps=STEPS, mode=st.sampled_from(["table", "append"]))
def test_aggregates_by_duckdb(root: Path, steps: list[tuple[Any, ...]], mode: Any) -> None:
    history = History(root / str(next(COUNTER)), SCHEMA, TableOptions(rows_per_page=4, mode=mode))
    for step in steps:
        take(history, step)
    scan = TableScan("t", ("host", "note", "_sn"))
    text = "SELECT host, count(*), count(note), max(_sn) FROM s GROUP BY host"
    context = ExecContext(history.snapshot(), Settings())
    batches = execute(DuckQuery(text, (("s", scan),)), context)
    got = [row for b in batches for row in zip(*(vector.to_physical_list() for vector in b.vectors.values()), strict=True)]
    rows = history.visible()
    expected = []
    for host in {row.get("host") for row in rows}:
        mine = [row for row in rows if row.get("host") == host]
        noted = [row for row in mine if row.get("note") is not None]
        expected.append((host, len(mine), len(noted), max(row["_sn"] for row in mine)))
    assert sorted(got, key=repr) == sorted(expected, key=repr)
    assert context.stats.as_dict()["rows_returned"] == len(rows)
