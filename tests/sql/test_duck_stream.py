"""How rows come to DuckDB: as many at a time as leave work for all of its threads, and no more than memory easily holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdb
from tsdb.exec import executor, selection
from tsdb.exec.arrow import Converter
from tsdb.exec.batch import Batch

BATCH = 1_024
ROWS = 40 * BATCH


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the batches that come to DuckDB, as they come."""
    found: list[int] = []
    whole = Converter.record_batch

    def record_batch(self: Converter, batch: Batch) -> Any:
        found.append(batch.row_count)
        return whole(self, batch)

    monkeypatch.setattr(Converter, "record_batch", record_batch)
    for module in (executor, selection):
        monkeypatch.setattr(module, "BATCH_ROWS", BATCH)
    return found


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with tsdb.open(tmp_path / "a.db", enable_native_operators=False) as made:
        made.sql("CREATE TABLE t (time TIMESTAMP_S TIME, host STRING TAG, v BIGINT, w DOUBLE)")
        for start in (0, ROWS // 2):
            rows = np.arange(start, start + ROWS // 2)
            made.write("t", {"time": rows, "host": np.array(["a", "b"])[rows * 2 // ROWS], "v": rows, "w": rows * 0.5})
            made.flush()
        yield made


def _sums(db: tsdb.Database, sizes: list[int], threads: int) -> list[int]:
    sizes.clear()
    made = db.sql("SELECT sum(v), count(DISTINCT host), sum(w) FROM t", settings={"threads": threads}).fetchall()
    assert made == [(ROWS * (ROWS - 1) // 2, 2, ROWS * (ROWS - 1) / 4)]
    assert sum(sizes) == ROWS
    return sizes


def test_few_batches_are_large_and_many_threads_have_one_each(db: tsdb.Database, sizes: list[int]) -> None:
    found = _sums(db, sizes, 2)
    assert found[0] == BATCH
    assert set(found[1:-1]) <= {BATCH, 2 * BATCH}
    assert len(found) <= 22
    assert set(_sums(db, sizes, 4)) == {BATCH}


def test_wide_rows_are_few_at_a_time(db: tsdb.Database, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_BATCH_BYTES", 3 * 8 * 2 * BATCH - 1)
    assert set(_sums(db, sizes, 2)) == {BATCH}


def test_who_wants_few_rows_has_few_read(db: tsdb.Database, sizes: list[int]) -> None:
    assert len(db.sql("SELECT v + 1 FROM t LIMIT 10", settings={"threads": 1}).fetchall()) == 10
    assert sizes[0] == BATCH
    assert len(sizes) <= 2


def test_other_results_have_batches_of_the_usual_size(db: tsdb.Database, sizes: list[int]) -> None:
    batches = db.sql("SELECT * FROM t", settings={"enable_native_operators": True, "threads": 2}).batches()
    assert {batch.num_rows for batch in batches} == {BATCH}
