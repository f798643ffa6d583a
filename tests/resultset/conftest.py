"""The database of the tests of multi-queries: alarms of hosts, their racks, temperatures of racks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    """Hosts h0 to h99 in racks r0 to r9; h3, h13 and h24 have alarms of level 5, all others of level 1."""
    with tsdb.open(tmp_path / "db", threads=2) as made:
        made.sql("CREATE TABLE alarm (time TIMESTAMP TIME, host STRING TAG, level INT64)")
        made.sql("CREATE TABLE machine (time TIMESTAMP TIME, host STRING TAG, rack STRING, slot INT32)")
        made.sql("CREATE TABLE temperature (time TIMESTAMP TIME, rack STRING TAG, slot INT32 TAG, celsius DOUBLE)")
        made.sql("INSERT INTO alarm SELECT make_timestamp(n), 'h' || n, if(n IN (3, 13, 24), 5, 1) FROM range(100) r(n)")
        made.sql("INSERT INTO machine SELECT make_timestamp(0), 'h' || n, 'r' || n % 10, n // 10 FROM range(100) r(n)")
        made.sql("INSERT INTO temperature SELECT make_timestamp(n // 100), 'r' || n % 10, n // 10 % 10, n FROM range(2000) r(n)")
        made.flush()
        yield made
