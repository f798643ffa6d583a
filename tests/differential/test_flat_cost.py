"""What the newest rows cost does not depend on how many devices there are, nor on whether all of them report at the same instant.

Counts, never times: a thousand devices of a thousand rows against a hundred thousand devices of ten.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tsdb
from support.quiet import without_background
from tsdb_cli.fleet import CREATE_SQL, Fleet

ROWS = 1_000_000
DEVICES = (1_000, 100_000)
GROWTH_MAX = 1.5
COUNTED = ("pages_read", "rows_read", "chunks_read")
#: Statements whose cost is flat: k rows at either end of time, of everything or of some devices.
QUESTIONS = (
    "SELECT * FROM cpu ORDER BY time DESC LIMIT 10",
    "SELECT * FROM cpu ORDER BY time LIMIT 10",
    "SELECT * FROM cpu ORDER BY time DESC LIMIT 10 OFFSET 5",
    "SELECT host, usage FROM cpu ORDER BY time DESC, host LIMIT 10",
    "SELECT * FROM cpu WHERE region = 'eu-west-1' ORDER BY time DESC LIMIT 10",
    "SELECT * FROM cpu ORDER BY host, time DESC LIMIT 10",
    "SELECT max(usage) FROM (SELECT * FROM cpu ORDER BY time DESC LIMIT 10) x",
)


class Fleets:
    """Databases by device count, filled with the same number of rows; ``files`` cuts the rows by time into that many commits."""

    def __init__(self, folder: Path, aligned: bool, files: int) -> None:
        self.databases: dict[int, tsdb.Database] = {}
        for devices in DEVICES:
            database = self.databases[devices] = without_background(tsdb.open(folder / str(devices)))
            database.sql(CREATE_SQL.format(table="cpu"))
            order = "device" if files == 1 else "time"
            rows = pa.concat_tables(Fleet(devices, ROWS // devices, aligned).tables(order))
            for number in range(files):
                start, stop = (number * len(rows) // files, (number + 1) * len(rows) // files)
                database.write("cpu", rows.slice(start, stop - start))
                database.flush()

    def close(self) -> None:
        for database in self.databases.values():
            database.close()


@pytest.fixture(scope="module", params=[(False, 1), (True, 1), (True, 4)], ids=["staggered", "aligned", "aligned, four files"])
def fleets(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleets]:
    made = Fleets(tmp_path_factory.mktemp("fleet"), *request.param)
    yield made
    made.close()


@pytest.mark.parametrize("text", QUESTIONS)
def test_cost_does_not_grow_with_devices(fleets: Fleets, text: str) -> None:
    counters: dict[int, dict[str, Any]] = {}
    for devices, database in fleets.databases.items():
        result = database.sql(text)
        rows = result.fetchall()
        counters[devices] = result.stats
        assert rows == database.sql(text, settings={"enable_topk_runtime_filter": False}).fetchall()
        assert counters[devices]["topk_first_threshold"] is not None
        assert counters[devices]["pages_read"] <= 20
        assert counters[devices]["rows_total"] == ROWS
    few, many = (counters[devices] for devices in DEVICES)
    for name in COUNTED:
        assert many[name] <= GROWTH_MAX * few[name], (
            f"{name}: {few[name]} of {DEVICES[0]:,} devices, {many[name]} of {DEVICES[1]:,}"
        )
