"""Predicates as ranges of deletion, against brute force: random tables and predicates, row by row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.history_case import History
from support.snapshots import Row, build_snapshot, holds, make_schema, overlay, tag_order, vector_of
from tsdb.catalog.table import TableOptions
from tsdb.exec.context import ExecContext
from tsdb.exec.deletion import EVERY_DEVICE, Deletion, deletion_of_rows, deletion_ranges, present_devices
from tsdb.exec.executor import execute
from tsdb.plan.node import TableScan
from tsdb.plan.predicate import And, Compare, Constant, InSet, IsNull, Like, Not, Or, Predicate, columns_of
from tsdb.settings import Settings
from tsdb.storage.snapshot import Snapshot, TableSnapshot
from tsdb_format.schema import Schema
from tsdb_format.types import DOUBLE, INT32, STRING, TIMESTAMP_S, Role

SCHEMA = make_schema(
    ("time", TIMESTAMP_S, Role.TIME), ("host", STRING, Role.TAG), ("slot", INT32, Role.TAG), ("usage", DOUBLE, Role.FIELD),
    ("label", STRING, Role.ATTRIBUTE),
)  # fmt: skip
HOSTS, SLOTS, USAGES, LABELS = (None, "", "a", "b"), (None, 0, 1), (None, 0.0, 1.5, float("nan")), (None, "x", "y")
MIN, MAX = -(2**63), 2**63 - 1
TIMES = [MIN, MIN + 1, -3, 0, 1, 2, 3, 5, 8, MAX - 1, MAX]

_counter = itertools.count()


def rows() -> st.SearchStrategy[list[Row]]:
    row = st.fixed_dictionaries(
        {
            "time": st.one_of(st.integers(-4, 9), st.sampled_from(TIMES)), "host": st.sampled_from(HOSTS),
            "slot": st.sampled_from(SLOTS), "usage": st.sampled_from(USAGES),
        }
    )  # fmt: skip
    return st.lists(row, min_size=1, max_size=30)


def leaves(*names: str) -> st.SearchStrategy[Predicate]:
    literals: dict[str, Sequence[Any]] = {
        "time": TIMES, "host": ["", "a", "c"], "slot": [0, 1, 2], "usage": [0.0, 1.0], "label": ["x", "z"],
    }  # fmt: skip
    made: list[st.SearchStrategy[Predicate]] = [st.sampled_from([True, False, None]).map(Constant)]
    for name in names:
        one, column = st.sampled_from(literals[name]), st.just(name)
        made.append(st.builds(Compare, column, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), one))
        made.append(st.builds(InSet, column, st.lists(one, min_size=1, max_size=3, unique=True).map(tuple)))
        made.append(st.builds(IsNull, column))
    if "host" in names:
        made.append(st.builds(Like, st.just("host"), st.sampled_from(["%", "a", "_"]), st.booleans()))
    return st.one_of(made)


def predicates(*names: str) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        leaves(*names),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
        ),
        max_leaves=6,
    )


def labelled(table: TableSnapshot) -> TableSnapshot:
    """The snapshot with an attribute per device."""
    count = table.devices.count
    labels = vector_of(STRING, [LABELS[number % len(LABELS)] for number in range(count)])
    return replace(table, devices=table.devices.with_attributes(np.arange(count, dtype=np.int32), {"label": labels}))


def devices_of(table: TableSnapshot, given: Sequence[Row]) -> np.ndarray[Any, Any]:
    tags = {tag.name: vector_of(tag.type, [row.get(tag.name) for row in given]) for tag in SCHEMA.tags}
    return table.devices.find(tags, len(given))


def covered(deletion: Deletion, device: int, time: int) -> bool:
    hit = (deletion.device == device) | (deletion.device == EVERY_DEVICE)
    return bool((hit & (deletion.low <= time) & (deletion.high >= time)).any())


def check(table: TableSnapshot, written: Sequence[Row], predicate: Predicate | None, deletion: Deletion, oldest: int = MIN) -> None:
    """The ranges cover exactly the rows for which the predicate is true, and count those that are visible."""
    mode = table.table.options.mode
    seen = overlay(SCHEMA, written, mode)
    gone = 0
    for row, device in zip(seen, devices_of(table, seen).tolist(), strict=True):
        row = {**row, "label": LABELS[device % len(LABELS)]}
        wanted = predicate is None or holds(predicate, row) is True
        assert covered(deletion, device, row["time"]) == wanted, (row, predicate)
        gone += wanted and row["time"] >= oldest
    assert deletion.row_count == gone
    assert (deletion.low <= deletion.high).all()
    order = np.lexsort((deletion.low, deletion.device))
    assert (order == np.arange(len(order))).all()
    assert {array.dtype.str for array in (deletion.low, deletion.high)} == {"<i8"}
    assert deletion.device.dtype == np.int32


def build(folder: Path, commits: Sequence[Sequence[Row]], **options: Any) -> tuple[TableSnapshot, list[Row]]:
    chosen = TableOptions(**{"rows_per_page": 4, **options})
    snapshot, written = build_snapshot(folder / str(next(_counter)), SCHEMA, commits, options=chosen)
    return labelled(snapshot.tables["t"]), written


@given(commits=st.lists(rows(), min_size=1, max_size=3), predicate=predicates(*SCHEMA.by_name), ttl=st.booleans())
def test_any_predicate(tmp_path: Path, commits: list[list[Row]], predicate: Predicate, ttl: bool) -> None:
    table, written = build(tmp_path, commits, ttl_ns=10**9 if ttl else None)
    table = replace(table, now_ns=lambda: 3 * 10**9)
    check(table, written, predicate, deletion_ranges(table, predicate), 2 if ttl else MIN)


@given(commits=st.lists(rows(), min_size=1, max_size=3), predicate=predicates("time", "host", "label"))
def test_rows_that_are_not_unique(tmp_path: Path, commits: list[list[Row]], predicate: Predicate) -> None:
    table, written = build(tmp_path, commits, mode="append")
    check(table, written, predicate, deletion_ranges(table, predicate))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Writes to files and memory, deletes, and pieces rewritten as one."""
    tags = st.one_of(st.none(), st.fixed_dictionaries({"host": st.sampled_from(HOSTS), "slot": st.sampled_from(SLOTS)}))
    bounds = st.lists(st.one_of(st.integers(-4, 9), st.sampled_from([MIN, MAX])), min_size=2, max_size=2).map(sorted)
    write = st.tuples(st.just("write"), rows(), st.booleans())
    step = st.one_of(
        write, write, st.tuples(st.just("delete"), tags, bounds), st.tuples(st.just("compact"), st.integers(1, 3), st.booleans())
    )
    return draw(st.lists(step, min_size=1, max_size=7))


@given(
    steps=histories(),
    chosen=st.lists(predicates(*SCHEMA.by_name), min_size=1, max_size=2),
    mode=st.sampled_from(["table", "append"]),
)
def test_what_deletes_leave_of_a_history(tmp_path: Path, steps: list[Any], chosen: list[Predicate], mode: Any) -> None:
    """Deletes over files, rows in memory and earlier deletes: scans see the other rows, and counts are of visible ones."""
    history = History(tmp_path / str(next(_counter)), SCHEMA, TableOptions(rows_per_page=4, mode=mode))
    for step in steps:
        match step:
            case ("write", given_rows, memory):
                history.write(given_rows, memory)
            case ("delete", tags, (low, high)):
                history.delete(tags, low, high)
            case ("compact", count, memory):
                history.compact(count, memory)
    left = history.visible()
    table = labelled(history.table_snapshot())
    for sequence, predicate in enumerate(chosen, history.sequence + 1):
        if mode != "table" and "usage" in columns_of(predicate):
            continue
        device = devices_of(table, left).tolist() if left else []
        shown = [{**row, "label": LABELS[number % len(LABELS)]} for row, number in zip(left, device, strict=True)]
        keep = [holds(predicate, row) is not True for row in shown]
        found = deletion_ranges(table, predicate)
        assert found.row_count == keep.count(False)
        left = [row for row, kept in zip(left, keep, strict=True) if kept]
        table = replace(table, tombstones=table.tombstones.plus(found.device, found.low, found.high, sequence))
        scan = execute(TableScan("t", ("time", "host", "slot", "usage")), ExecContext(Snapshot(1, 0, {"t": table}), Settings()))
        rows_left = [row for batch in scan for row in zip(*(v.to_physical_list() for v in batch.vectors.values()), strict=True)]
        wanted = [tuple(row.get(name) for name in ("time", "host", "slot", "usage")) for row in left]
        assert sorted(map(repr, rows_left)) == sorted(map(repr, wanted))
        present = set(devices_of(table, left).tolist()) if left else set()
        assert set(np.flatnonzero(present_devices(table)).tolist()) == present


@given(commits=st.lists(rows(), min_size=1, max_size=3), ttl=st.booleans())
def test_devices_with_visible_rows(tmp_path: Path, commits: list[list[Row]], ttl: bool) -> None:
    table, written = build(tmp_path, commits, ttl_ns=10**9 if ttl else None)
    table = replace(table, now_ns=lambda: 3 * 10**9)
    given_rows = [row for row in written if not ttl or row["time"] >= 2]
    wanted = set(devices_of(table, given_rows).tolist()) if given_rows else set()
    assert set(np.flatnonzero(present_devices(table)).tolist()) == wanted


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> TableSnapshot:
    hosts = [{"time": time, "host": host, "slot": 0, "usage": float(time % 4)} for host in "abc" for time in range(20)]
    return build(tmp_path_factory.mktemp("deletion"), [hosts])[0]


def number(table: TableSnapshot, host: str) -> int:
    return int(devices_of(table, [{"host": host, "slot": 0}])[0])


def ranges(deletion: Deletion) -> list[tuple[int, int, int]]:
    return list(zip(deletion.device.tolist(), deletion.low.tolist(), deletion.high.tolist(), strict=True))


def test_tags_and_times_become_few_ranges(table: TableSnapshot) -> None:
    a, b = number(table, "a"), number(table, "b")
    host_a, host_b, early = Compare("host", "=", "a"), Compare("host", "=", "b"), Compare("time", "<", 5)
    cases: list[tuple[Predicate | None, list[tuple[int, int, int]]]] = [
        (None, [(-1, MIN, MAX)]),
        (Constant(True), [(-1, MIN, MAX)]),
        (Constant(None), []),
        (early, [(-1, MIN, 4)]),
        (host_a, [(a, MIN, MAX)]),
        (And((host_a, early)), [(a, MIN, 4)]),
        (Or((host_a, early)), [(-1, MIN, 4), (a, 5, MAX)]),
        (Or((And((host_a, early)), And((host_b, Not(early))))), [(a, MIN, 4), (b, 5, MAX)]),
        (Compare("time", "!=", 3), [(-1, MIN, 2), (-1, 4, MAX)]),
        (InSet("time", (3, 4, 9)), [(-1, 3, 4), (-1, 9, 9)]),
        (Not(InSet("time", (3, 4, 9))), [(-1, MIN, 2), (-1, 5, 8), (-1, 10, MAX)]),
        (Or((host_a, Not(host_a))), [(-1, MIN, MAX)]),
        (IsNull("time"), []),
        (Compare("time", ">", 100), []),  # nothing is stored there
        (And((host_a, host_b)), []),
        (Or((Compare("time", "<", 3), And((Compare("time", ">=", 3), Compare("time", "<=", 6))))), [(-1, MIN, 6)]),
    ]
    for predicate, wanted in cases:
        assert sorted(ranges(deletion_ranges(table, predicate))) == sorted(wanted), predicate


def test_neighbours_share_a_range(table: TableSnapshot) -> None:
    a = number(table, "a")
    found = deletion_ranges(table, And((Compare("host", "=", "a"), Compare("usage", ">=", 2.0))))
    assert ranges(found) == [(a, 4 * i + 2, 4 * i + 3) for i in range(5)]
    assert found.row_count == 10
    assert ranges(deletion_ranges(table, Compare("usage", ">=", 0.0))) == [(n, 0, 19) for n in range(3)]


def test_many_times_are_decided_row_by_row(table: TableSnapshot) -> None:
    found = deletion_ranges(table, InSet("time", tuple(range(1, 400, 2))))
    assert found.row_count == 30
    assert len(found.device) == 30


def test_rows_that_somebody_found(table: TableSnapshot) -> None:
    device, time = np.array([2, 0, 2, 0], np.int32), np.array([5, 1, 5, 0], np.int64)
    found = deletion_of_rows(table, device, time)
    assert ranges(found) == [(0, 0, 0), (0, 1, 1), (2, 5, 5)]
    assert found.row_count == 4
    assert ranges(deletion_of_rows(table, device[:0], time[:0])) == []


def test_a_table_without_rows() -> None:
    from tsdb.catalog.device import DeviceTable
    from tsdb.catalog.table import Table

    schema = Schema(SCHEMA.columns)
    empty = TableSnapshot(Table(1, "t", schema, TableOptions(), 9), (), DeviceTable.empty(schema), 0, lambda: 0)
    for predicate in (None, Compare("host", "=", "a"), Compare("usage", ">", 1.0)):
        found = deletion_ranges(empty, predicate)
        assert (len(found.device), found.row_count) == (0, 0)
    assert tag_order(schema)({"host": None}) is not None
