"""What nobody needs any more goes from the disk: queries that are over, and readers that moved on, hold nothing."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from support.sample_case import FLUSH, creates, session, writes
from tsdb.storage.store import Store
from tsdb_format.errors import InvalidInput

QUERIES = {
    "native": "SELECT * FROM t ORDER BY time DESC LIMIT 3",
    "aggregate": "SELECT host, count(*), sum(usage) FROM t GROUP BY host",
    "newest": "SELECT DISTINCT ON (host) * FROM t ORDER BY host, time DESC",
    "buckets": "SELECT time_bucket(INTERVAL 1 HOUR, time) AS h, count(*) FROM t GROUP BY h ORDER BY h DESC LIMIT 2",
    "native join": "SELECT a.host, b.usage FROM t a JOIN t b ON a.time = b.time ORDER BY a.time LIMIT 3",
    "median": "SELECT median(usage) FROM t",
    "join": "SELECT count(*) FROM t a JOIN t b USING (time, host)",
    "delete": "DELETE FROM t WHERE usage > (SELECT avg(usage) + 1e9 FROM t)",
    "show": "SHOW DEVICES FROM t WHERE upper(host) = 'A'",
    "failing": "SELECT error('no') FROM t",
}


def _open_files() -> int:
    """How many files this process has open; 0 where the system does not tell."""
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.mark.parametrize("way", ["fetchall", "some rows", "a stream begun", "nothing read"])
@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_queries_that_are_over_hold_no_files(tmp_path: Path, kind: str, way: str) -> None:
    root = tmp_path / "db"
    with Store.open(root, threads=1, background=False) as store:
        creates("t")[0](store)
        asking = session(store)
        opened = 0
        for number in range(12):
            writes("t", number, 3)[0](store)
            FLUSH[0](store)
            store.compact()
            try:
                result = asking.run(QUERIES[kind])
                if way == "fetchall":
                    result.fetchall()
                elif way == "some rows":
                    result.fetchone()
                elif way == "a stream begun":
                    next(iter(result), None)
                del result
            except InvalidInput:
                if kind != "failing":
                    raise
            gc.collect()
            opened = opened or _open_files()
        store.create_table("other", store.table("t").schema)  # the commit after which the last ones go
        assert len(list((root / "table").rglob("*.tsf"))) <= 3
        assert len(list((root / "manifest").iterdir())) <= 3
        assert _open_files() <= opened + 12


@pytest.mark.parametrize("kind", [kind for kind in QUERIES if kind != "failing"])
def test_results_need_no_collector_to_let_go(tmp_path: Path, kind: str) -> None:
    """Nothing that leads to a snapshot leads back to itself: it goes with the result, not when garbage happens to be collected."""
    root = tmp_path / "db"
    with Store.open(root, threads=1, background=False) as store:
        creates("t")[0](store)
        asking = session(store)
        gc.collect()
        gc.disable()
        try:
            for number in range(6):
                writes("t", number, 3)[0](store)
                FLUSH[0](store)
                store.compact()
                asking.run(QUERIES[kind]).fetchall()
            store.create_table("other", store.table("t").schema)
            left = [path.name for path in (root / "table").rglob("*.tsf")]
        finally:
            gc.enable()
        assert len(left) <= 3
