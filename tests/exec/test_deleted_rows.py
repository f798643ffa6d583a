"""What deletes and rows in memory cost a TopK: the devices they name, and no other. All cases assert the answer and the counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.history_case import History
from support.snapshots import Row, holds, make_schema, ordered
from tsdb.catalog.table import TableOptions
from tsdb.exec.context import ExecContext
from tsdb.exec.executor import execute
from tsdb.exec.lane import MergeLane, lanes_of
from tsdb.plan.node import SortKey, TableScan, TopK
from tsdb.plan.predicate import Compare, Predicate
from tsdb.settings import Settings
from tsdb_format.types import DOUBLE, STRING, TIMESTAMP_S, Role

SCHEMA = make_schema(
    ("time", TIMESTAMP_S, Role.TIME), ("host", STRING, Role.TAG), ("usage", DOUBLE, Role.FIELD), ("note", STRING, Role.FIELD)
)
NAMES = ("time", "host", "usage", "note", "_sn")
NEWEST = (SortKey("time", True),)
BUSIEST = (SortKey("usage", True),)


def host(number: int) -> Row:
    return {"host": f"h{number:04d}"}


def fleet(devices: int, ticks: int, start: int = 0, **given: Any) -> list[Row]:
    """Rows of devices that all report every 10 s; the usage tells them apart."""
    return [
        {"time": start + 10 * tick, **host(number), "usage": float(tick * devices + number), "note": None, **given}
        for number in range(devices)
        for tick in range(ticks)
    ]


def topk(history: History, keys: Sequence[SortKey], limit: int, predicate: Predicate | None = None) -> dict[str, Any]:
    """Run with the filter on and off, check both against brute force, and return the counters of the filtered run."""
    wanted = [row for row in history.visible() if predicate is None or holds(predicate, row)]
    expected = [tuple(row.get(name) for name in NAMES) for row in ordered(SCHEMA, wanted, keys)[:limit]]
    counters = []
    for topk_id in (None, 1):
        context = ExecContext(history.snapshot(), Settings())
        plan = TopK(TableScan("t", NAMES, predicate, topk_id), tuple(keys), limit, 0, topk_id)
        got = [
            row
            for batch in execute(plan, context)
            for row in zip(*(batch.vectors[name].to_physical_list() for name in NAMES), strict=True)
        ]
        assert got == expected
        counters.append(context.stats.as_dict())
        counts = counters[-1]
        fates = "pruned_by_filter", "pruned_by_topk", "read"
        for level in ("pages", "rows", "devices", "files", "chunks", "resources"):
            assert counts[f"{level}_total"] == sum(counts[f"{level}_{fate}"] for fate in fates)
    return counters[1]


@pytest.mark.parametrize("memory", [False, True])
def test_a_delete_costs_the_device_it_names_and_no_other(tmp_path: Path, memory: bool) -> None:
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=16))
    history.write(fleet(200, 40), memory)
    untouched = topk(history, NEWEST, 10)
    assert untouched["topk_first_threshold"] == "statistics"
    history.delete(host(3), 0, 390)
    history.delete(host(150), 100, 110)
    counters = topk(history, NEWEST, 10)
    assert counters["topk_first_threshold"] == "statistics", "198 devices still have a witness"
    assert counters["rows_read"] <= untouched["rows_read"] + 2
    assert counters["pages_read"] <= untouched["pages_read"] + 2
    lanes = [lane for lane in lanes_of(history.table_snapshot()) if isinstance(lane, MergeLane)]
    assert [len(lane.device) for lane in lanes] == [2]
    assert topk(history, BUSIEST, 10)["pages_pruned_by_topk"] > 400
    busy = topk(history, NEWEST, 10, Compare("usage", ">", 7_990.0))
    assert busy["pages_pruned_by_filter"] > 400


def test_a_deleted_row_is_no_witness(tmp_path: Path) -> None:
    """Each device's last row is gone: were it a witness, the threshold would exclude the rows before it."""
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=4))
    history.write(fleet(30, 20), False)
    history.delete(None, 190, 190)
    counters = topk(history, NEWEST, 10)
    assert counters["topk_first_threshold"] == "heap"
    assert topk(history, (SortKey("time"),), 10)["rows_read"] <= 600


def test_as_many_rows_may_be_gone_as_were_wanted(tmp_path: Path) -> None:
    """The better k rows of a run are no longer enough where some of them are gone."""
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=16))
    history.write(fleet(3, 400), False)
    for number in range(3):
        history.delete(host(number), 3_000 - number, 3_980)
    for limit in (1, 10, 300):
        topk(history, NEWEST, limit)
    history.delete(host(1), -5, 2_000)
    topk(history, (SortKey("time"),), 10)
    topk(history, (SortKey("host"), SortKey("time", True)), 10)


def test_a_row_written_after_the_delete_is_there(tmp_path: Path) -> None:
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=4))
    history.write(fleet(4, 10, note="first"), False)
    history.delete(host(2), 40, 60)
    history.write([{"time": 50, **host(2), "usage": 1.0, "note": None}], True)
    rows = [row for row in history.visible() if row["host"] == "h0002"]
    assert [(row["time"], row.get("note")) for row in rows if 40 <= row["time"] <= 60] == [(50, None)], "nothing shows through"
    topk(history, NEWEST, 40)
    history.compact(2, memory=False)
    topk(history, NEWEST, 40)
    history.delete(host(2), 50, 50)
    topk(history, NEWEST, 40)


def test_files_that_carried_a_delete_out_are_clean(tmp_path: Path) -> None:
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=4))
    history.write(fleet(4, 10), False)
    history.delete(None, 0, 40)
    assert len(lanes_of(history.table_snapshot())) == 2
    history.compact(1, memory=False)
    assert len(lanes_of(history.table_snapshot())) == 1
    assert topk(history, NEWEST, 4)["topk_first_threshold"] == "statistics"


def test_everything_deleted_is_read_and_counted(tmp_path: Path) -> None:
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=4))
    history.write(fleet(5, 10), True)
    history.delete(None, -(2**63), 2**63 - 1)
    counters = topk(history, NEWEST, 10)
    assert (counters["rows_read"], counters["rows_returned"], counters["bytes_read"]) == (50, 0, 0)
    assert counters["rows_merged"] == 50
    assert topk(history, BUSIEST, 10)["rows_read"] == 50


def test_rows_in_memory_are_pruned_like_stored_ones(tmp_path: Path) -> None:
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=16))
    history.write(fleet(100, 40), False)
    history.write(fleet(100, 40, start=400), True)
    counters = topk(history, NEWEST, 10)
    assert counters["topk_first_threshold"] == "statistics"
    assert (counters["rows_read"], counters["files_read"], counters["bytes_read"]) == (100, 1, 0)
    assert counters["pages_total"] == 500
    assert topk(history, (SortKey("time"),), 10)["bytes_read"] > 0
    counters = topk(history, BUSIEST, 10)
    assert counters["pages_read"] <= 16
    assert counters["topk_first_threshold"] == "statistics"
    assert topk(history, NEWEST, 10, Compare("usage", "=", 3_999.0))["pages_pruned_by_filter"] >= 490


@pytest.mark.parametrize("runs", [1, 30])
def test_the_newest_rows_in_many_small_runs(tmp_path: Path, runs: int) -> None:
    """One commit a device and instant, as a writer of single rows makes them; only what can win is looked into."""
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=16))
    history.write(fleet(100, 40), False)
    for number in range(runs):
        history.write([{"time": 400 + number, **host(number), "usage": 1.0, "note": None}], True)
    counters = topk(history, NEWEST, 10)
    assert counters["topk_first_threshold"] == "statistics"
    assert counters["rows_read"] <= runs + (100 if runs < 10 else 0), "ten rows of ten devices at most"
    assert counters["files_read"] <= min(runs + 1, 10)


def test_overwritten_rows_in_memory_void_stored_statistics(tmp_path: Path) -> None:
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=4))
    history.write(fleet(20, 20), False)
    history.write([{"time": 190, **host(19), "usage": -1.0, "note": None}], True)
    history.write([{"time": 190, **host(19), "usage": None, "note": "late"}], True)
    for limit in (1, 5, 400):
        counters = topk(history, BUSIEST, limit)
    assert topk(history, BUSIEST, 1)["pages_pruned_by_topk"] > 80
    counters = topk(history, NEWEST, 5, Compare("note", "=", "late"))
    assert counters["rows_returned"] == 1
    assert topk(history, NEWEST, 400)["rows_merged"] == 2, "the one row that there are three versions of"


@pytest.mark.parametrize("memory", [False, True])
def test_append_mode_keeps_every_version_that_is_not_deleted(tmp_path: Path, memory: bool) -> None:
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=4, mode="append"))
    for _ in range(3):
        history.write(fleet(10, 10) + fleet(10, 10), memory)
    assert all(not isinstance(lane, MergeLane) for lane in lanes_of(history.table_snapshot()))
    history.delete(host(4), 20, 50)
    history.write(fleet(5, 3, start=30), memory)
    counters = topk(history, NEWEST, 25)
    assert counters["topk_first_threshold"] == "heap" or counters["rows_read"] < 600
    topk(history, BUSIEST, 25)
    topk(history, (SortKey("host"),), 150)
    assert sum(lane.device.tolist() == [4] for lane in lanes_of(history.table_snapshot()) if isinstance(lane, MergeLane)) == 1


def test_a_time_predicate_spares_what_deletes_touched(tmp_path: Path) -> None:
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=16))
    for number in range(6):
        history.write(fleet(50, 20, start=1_000 * number), False)
    history.delete(None, 1_000, 1_050)
    counters = topk(history, NEWEST, 10, Compare("time", ">=", 4_000))
    assert counters["files_read"] == 1
    assert counters["files_pruned_by_filter"] == 4
    assert counters["topk_first_threshold"] == "statistics"
    counters = topk(history, NEWEST, 10)
    assert (counters["files_read"], counters["files_pruned_by_topk"]) == (1, 5), "five files stay closed"


def test_many_row_deletes_of_one_device(tmp_path: Path) -> None:
    """A condition on fields deletes single rows: what is left of the device is right, and the others are read as before."""
    history = History(tmp_path, SCHEMA, TableOptions(rows_per_page=16))
    history.write(fleet(30, 60), False)
    random = np.random.default_rng(2)
    for tick in random.choice(60, 40, replace=False).tolist():
        history.delete(host(7), 10 * tick, 10 * tick)
    counters = topk(history, NEWEST, 10)
    assert counters["topk_first_threshold"] == "statistics"
    assert counters["rows_read"] <= 101
    topk(history, BUSIEST, 200)
    topk(history, NEWEST, 100, Compare("host", "=", "h0007"))
