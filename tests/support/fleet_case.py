"""A fleet in three tables, as most differential tests ask about it, and assertions that pruning happened or did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.oracle import Oracle, Question, TableCase
from support.random_table import EPOCH_S
from support.snapshots import Row, make_schema
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_NS, Role

NS = 10**9
FLEET = make_schema(
    ("time", TIMESTAMP_NS, Role.TIME), ("host", STRING, Role.TAG), ("usage", DOUBLE, Role.FIELD), ("count", INT64, Role.FIELD),
    ("note", STRING, Role.FIELD),
)  # fmt: skip
#: Pages that must be pruned, of tables with pages of four rows, where a question says that pruning is due.
PRUNED_MIN = 10


def fleet(devices: int, ticks: int, *, start: int = 0, stagger: int = 0) -> list[Row]:
    """Devices that report every ten seconds; with ``stagger``, each that much later than the one before."""
    return [
        {
            "time": (EPOCH_S + start + tick * 10 + device * stagger) * NS, "host": f"h{device:03}",
            "usage": float((device * 7919 + tick * 104_729) % 1000) / 4, "count": (device * 31 + tick * 17) % 97 - 48,
            "note": None if (device + tick) % 5 == 0 else f"note {(device * 13 + tick * 7) % 50:02}",
        }
        for device in range(devices)
        for tick in range(ticks)
    ]  # fmt: skip


def fleet_oracle(folder: Path) -> Oracle:
    """``t``: forty devices at the same instants, half of them overlaid by a later file; ``u``: staggered; ``d``: a few hosts."""
    again = [{"time": row["time"], "host": row["host"], "usage": 250.5 - row["usage"]} for row in fleet(20, 10)]
    hosts = [{"time": EPOCH_S * NS, "host": f"h{number:03}", "count": number} for number in range(0, 40, 3)]
    tables = [
        TableCase("t", FLEET, [fleet(40, 20), again, fleet(3, 5, start=1_000)]),
        TableCase("u", FLEET, [fleet(40, 20, stagger=3), fleet(5, 20, start=400)]),
        TableCase("d", FLEET, [hosts]),
    ]
    return Oracle.build(folder, tables)


def pruned(oracle: Oracle, text: str, *, ordered: bool = True, parameters: Any = None, least: int = PRUNED_MIN) -> dict[str, Any]:
    """Check a question whose TopK must prune pages, and return the counters with the filter on, at a page of four rows."""
    found = oracle.check(Question(text, ordered=ordered, parameters=parameters))
    counters, without = found[4, "filter"], found[4, "no filter"]
    assert counters["pages_pruned_by_topk"] >= least, counters
    assert counters["pages_read"] < without["pages_read"], (counters, without)
    return counters


def unpruned(oracle: Oracle, text: str, *, ordered: bool = True) -> None:
    """Check a question whose order says nothing about units: no threshold may come of it."""
    found = oracle.check(Question(text, ordered=ordered))
    assert all(counters["pages_pruned_by_topk"] == 0 for counters in found.values())
    assert all(counters.get("topk_first_threshold") is None for counters in found.values())
