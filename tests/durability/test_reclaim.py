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
