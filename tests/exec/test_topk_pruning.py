"""What a TopK does not read: every case asserts the answer and that units were pruned, with the counts that make the point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.snapshots import Row, build_snapshot, holds, make_schema, ordered, overlay
from tsdb.catalog.table import TableOptions
from tsdb.exec.context import ExecContext
from tsdb.exec.executor import execute
from tsdb.plan.node import Limit, SortKey, TableScan, TopK
from tsdb.plan.predicate import And, Compare, InSet, IsNull, Not, Predicate
from tsdb.settings import Settings
from tsdb.storage.snapshot import Snapshot
from tsdb_format.types import DOUBLE, STRING, TIMESTAMP_S, Role

SCHEMA = make_schema(
    ("time", TIMESTAMP_S, Role.TIME), ("host", STRING, Role.TAG), ("usage", DOUBLE, Role.FIELD), ("note", STRING, Role.FIELD)
)
NAMES = ("time", "host", "usage", "note")
NEWEST = (SortKey("time", True),)


def fleet(devices: int, ticks: int, *, aligned: bool, seed: int = 7, start: int = 0) -> list[Row]:
    """Rows of devices that report every 10 s; unaligned ones stop at different instants."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for device in range(devices):
        phase = 0 if aligned else int(random.integers(0, 10_000))
        values = np.round(random.uniform(0, 100, ticks), 2).tolist()
        for tick, value in enumerate(values):
            rows.append({"time": start + phase + tick * 10, "host": f"h{device:04d}", "usage": value, "note": f"n{value}"})
    return rows


def topk(
    snapshot: Snapshot,
    written: list[Row],
    keys: tuple[SortKey, ...],
    limit: int,
    predicate: Predicate | None = None,
    offset: int = 0,
) -> dict[str, Any]:
    """Run with the filter on and off, check both against brute force, and return the counters of the filtered run."""
    counters: list[dict[str, Any]] = []
    visible = overlay(SCHEMA, written, "table")
    expected = ordered(SCHEMA, [row for row in visible if predicate is None or holds(predicate, row)], keys)[
        offset : offset + limit
    ]
    for topk_id in (None, 1):
        context = ExecContext(snapshot, Settings())
        batches = list(execute(TopK(TableScan("t", NAMES, predicate, topk_id), keys, limit, offset, topk_id), context))
        got = [tuple(row) for b in batches for row in zip(*(b.vectors[name].to_physical_list() for name in NAMES), strict=True)]
        assert got == [tuple(row.get(name) for name in NAMES) for row in expected]
        counters.append(context.stats.as_dict())
    off, on = counters
    assert off["topk_first_threshold"] is None if "topk_first_threshold" in off else True
    assert on["pages_total"] == on["pages_pruned_by_filter"] + on["pages_pruned_by_topk"] + on["pages_read"]
    assert on["rows_read"] <= off["rows_read"]
    return on


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("devices", [50, 400])
def test_newest_reads_as_much_from_few_devices_as_from_many(tmp_path: Path, devices: int, aligned: bool) -> None:
    rows = fleet(devices, 4_000 // devices, aligned=aligned)
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [rows], rows_per_page=16)
    counters = topk(snapshot, written, NEWEST, 10)
    assert counters["topk_first_threshold"] == "statistics"
    assert counters["devices_read"] <= 10
    assert counters["pages_read"] <= 21
    assert counters["rows_read"] <= 100
    assert counters["pages_pruned_by_topk"] == counters["pages_total"] - counters["pages_read"] > 200


def test_equal_instants_do_not_defeat_the_threshold(tmp_path: Path) -> None:
    rows = [{"time": 100, "host": f"h{device:04d}", "usage": float(device), "note": None} for device in range(2_000)]
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [rows], rows_per_page=8)
    for keys in (NEWEST, (SortKey("time"),), (SortKey("time", True), SortKey("host"))):
        counters = topk(snapshot, written, keys, 10)
        assert (counters["rows_read"], counters["pages_read"]) == (10, 2)


def test_a_later_second_key_keeps_every_tied_row(tmp_path: Path) -> None:
    rows = [{"time": 100 - device % 3, "host": f"h{device:04d}", "usage": float(-device), "note": None} for device in range(300)]
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [rows], rows_per_page=8)
    counters = topk(snapshot, written, (SortKey("time", True), SortKey("usage")), 10)
    assert counters["rows_read"] == 100


def test_offset_counts_towards_the_heap(tmp_path: Path) -> None:
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [fleet(100, 20, aligned=False)], rows_per_page=8)
    counters = topk(snapshot, written, NEWEST, 5, offset=20)
    assert counters["pages_pruned_by_topk"] > counters["pages_total"] * 0.5


def test_limit_zero_reads_nothing_and_a_huge_limit_allocates_nothing(tmp_path: Path) -> None:
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [fleet(3, 5, aligned=True)], rows_per_page=4)
    assert topk(snapshot, written, NEWEST, 0)["pages_read"] == 0
    assert topk(snapshot, written, NEWEST, 2**62, offset=2**62)["pages_read"] == 0
    assert topk(snapshot, written, NEWEST, 2**62)["rows_read"] == 15


def test_value_filters_void_the_witness_but_not_the_heap(tmp_path: Path) -> None:
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [fleet(60, 100, aligned=True)], rows_per_page=16)
    counters = topk(snapshot, written, NEWEST, 10, Compare("usage", ">", 90.0))
    assert counters["topk_first_threshold"] == "heap"
    assert counters["pages_pruned_by_topk"] > counters["pages_total"] // 2


def test_tag_and_time_predicates_keep_the_witness(tmp_path: Path) -> None:
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [fleet(200, 20, aligned=True)], rows_per_page=8)
    wanted = InSet("host", tuple(f"h{number:04d}" for number in range(50, 90)))
    counters = topk(snapshot, written, NEWEST, 10, wanted)
    assert counters["topk_first_threshold"] == "statistics"
    assert counters["devices_pruned_by_filter"] == 160
    assert counters["rows_read"] <= 100
    bounded = And((wanted, Compare("time", "<=", 90)))
    counters = topk(snapshot, written, NEWEST, 10, bounded)
    assert counters["topk_first_threshold"] == "heap"  # a run's last row lies beyond the bound: it proves nothing
    assert counters["pages_pruned_by_topk"] > 0


def test_files_in_time_order_are_not_opened(tmp_path: Path) -> None:
    commits = [fleet(20, 10, aligned=True, start=1_000 * number) for number in range(8)]
    snapshot, written = build_snapshot(tmp_path, SCHEMA, commits, rows_per_page=8)
    counters = topk(snapshot, written, NEWEST, 10)
    assert (counters["files_read"], counters["files_pruned_by_topk"]) == (1, 7)
    counters = topk(snapshot, written, (SortKey("time"),), 10)
    assert (counters["files_read"], counters["files_pruned_by_topk"]) == (1, 7)


def test_file_order_is_per_device_not_global(tmp_path: Path) -> None:
    """A device that lags sits in the newest file with old rows; nothing may be cut because of it."""
    early = fleet(10, 10, aligned=True, start=10_000)
    late = [{"time": t, "host": "zz", "usage": 1.0, "note": None} for t in range(50)] + fleet(2, 3, aligned=True, start=5_000)
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [early, late], rows_per_page=4)
    for limit in (1, 10, 60, 120):
        topk(snapshot, written, NEWEST, limit)
        topk(snapshot, written, (SortKey("time"),), limit)


@pytest.mark.parametrize("descending", [False, True])
def test_value_order_reads_the_best_pages(tmp_path: Path, descending: bool) -> None:
    random = np.random.default_rng(3)
    rows = [{"time": t, "host": "h", "usage": float(v), "note": None} for t, v in enumerate(np.cumsum(random.normal(0, 1, 2_000)))]
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [rows], rows_per_page=16)
    counters = topk(snapshot, written, (SortKey("usage", descending),), 10)
    assert counters["topk_first_threshold"] == "statistics"
    assert counters["pages_read"] <= 12
    assert counters["pages_pruned_by_topk"] >= 113


def test_text_order_prunes_by_prefix(tmp_path: Path) -> None:
    rows = [{"time": t, "host": "h", "usage": 0.0, "note": f"{(t * 7919) % 2_000:04d} and a long tail"} for t in range(2_000)]
    rows.sort(key=lambda row: row["note"])
    for t, row in enumerate(rows):
        row["time"] = t
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [rows], rows_per_page=16)
    for descending in (False, True):
        assert topk(snapshot, written, (SortKey("note", descending),), 10)["pages_read"] <= 2


@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("descending", [False, True])
def test_three_classes_of_unit_by_nulls(tmp_path: Path, nulls_first: bool, descending: bool) -> None:
    """Only NULLs, some NULLs, no NULLs; and pages of NaN alone."""
    values = [None] * 40 + [None, 1.0, 2.0, None] * 10 + [float(v) for v in range(40)] + [float("inf")] * 8
    rows = [{"time": t, "host": "h", "usage": v, "note": None} for t, v in enumerate(values)]
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [rows], rows_per_page=4)
    for limit in (1, 5, 50, 70, 128):
        counters = topk(snapshot, written, (SortKey("usage", descending, nulls_first),), limit)
        assert counters["pages_pruned_by_topk"] > 0 or limit > 60


def test_tag_order_reads_the_first_devices(tmp_path: Path) -> None:
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [fleet(100, 20, aligned=False)], rows_per_page=8)
    counters = topk(snapshot, written, (SortKey("host"), SortKey("time", True)), 10)
    assert counters["devices_read"] <= 8
    counters = topk(snapshot, written, (SortKey("host", True),), 10)
    assert counters["rows_read"] <= 80


def test_overlapping_files_merge_only_what_can_win(tmp_path: Path) -> None:
    first = fleet(50, 40, aligned=True)
    second = [{**row, "usage": None, "note": "second"} for row in fleet(50, 40, aligned=True)]
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [first, second], rows_per_page=8)
    counters = topk(snapshot, written, NEWEST, 10)
    assert counters["topk_first_threshold"] == "statistics"
    assert counters["rows_read"] <= 200  # ten devices, ten rows, two versions
    assert counters["pages_pruned_by_topk"] >= counters["pages_total"] * 0.8
    counters = topk(snapshot, written, NEWEST, 10, And((Compare("usage", ">", 50.0), Compare("note", "=", "second"))))
    assert counters["rows_read"] < 4_000


def test_newer_versions_void_value_statistics(tmp_path: Path) -> None:
    """The old page says 100, the row is 1 by now: neither the bound nor the filter may use the old value."""
    first = [{"time": t, "host": "h", "usage": 100.0 if t == 7 else 5.0, "note": "old"} for t in range(64)]
    second = [{"time": 7, "host": "h", "usage": 1.0, "note": None}]
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [first, second], rows_per_page=4)
    for limit in (1, 3, 64):
        topk(snapshot, written, (SortKey("usage", True),), limit)
        topk(snapshot, written, (SortKey("usage"),), limit)
        topk(snapshot, written, NEWEST, limit, Compare("usage", "<", 2.0))
        topk(snapshot, written, NEWEST, limit, Compare("usage", ">", 50.0))
        topk(snapshot, written, NEWEST, limit, Not(IsNull("note")))


def test_ttl_hides_rows_and_voids_no_witness_that_is_alive(tmp_path: Path) -> None:
    rows = fleet(20, 10, aligned=True)
    snapshot, _ = build_snapshot(tmp_path, SCHEMA, [rows], options=TableOptions(ttl_ns=45 * 10**9, rows_per_page=4))
    table = snapshot.tables["t"]
    object.__setattr__(table, "now_ns", lambda: 100 * 10**9)
    for topk_id in (1, None):
        context = ExecContext(snapshot, Settings())
        plan = TopK(TableScan("t", NAMES, None, topk_id), (SortKey("time"),), 1_000, 0, topk_id)
        times = [t for batch in execute(plan, context) for t in batch.vectors["time"].to_physical_list()]
        assert times == [60] * 20 + [70] * 20 + [80] * 20 + [90] * 20


def test_value_statistics_spare_pages_under_a_time_order(tmp_path: Path) -> None:
    rows = fleet(20, 200, aligned=True)
    for row in rows:
        row["usage"] = 500.0 if (row["host"], row["time"]) == ("h0007", 40) else row["usage"]
    snapshot, written = build_snapshot(tmp_path, SCHEMA, [rows], rows_per_page=16)
    counters = topk(snapshot, written, NEWEST, 10, Compare("usage", ">", 400.0))
    assert counters["pages_read"] == 1
    assert counters["pages_pruned_by_filter"] == counters["pages_total"] - 1


def test_a_limit_reads_no_further_than_it_must(tmp_path: Path) -> None:
    snapshot, _ = build_snapshot(tmp_path, SCHEMA, [fleet(20, 500, aligned=True)], rows_per_page=64)
    context = ExecContext(snapshot, Settings())
    batches = list(execute(Limit(TableScan("t", NAMES), 10, 5), context))
    assert [b.row_count for b in batches] == [10]
    assert batches[0].vectors["time"].to_physical_list() == list(range(50, 150, 10))
    assert context.stats.as_dict()["rows_read"] == 1_024
