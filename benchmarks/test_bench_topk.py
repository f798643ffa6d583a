"""TopK: what the newest, the oldest and the largest rows cost, whatever is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tsdb_cli.fleet import Fleet

if TYPE_CHECKING:
    from tsdb.database import Database

QUESTIONS = {
    "newest 10": "SELECT * FROM cpu ORDER BY time DESC LIMIT 10",
    "oldest 100": "SELECT * FROM cpu ORDER BY time LIMIT 100",
    "newest 10 of a region above 90": "SELECT * FROM cpu WHERE region = 'eu-west-1' AND usage > 90 ORDER BY time DESC LIMIT 10",
    "newest 10 of one device": "SELECT * FROM cpu WHERE host = 'host_0003' ORDER BY time DESC LIMIT 10",
    "newest 10 after 1,000": "SELECT * FROM cpu ORDER BY time DESC LIMIT 10 OFFSET 1000",
    "10 largest values": "SELECT time, host, usage FROM cpu ORDER BY usage DESC LIMIT 10",
    "two keys": "SELECT time, host FROM cpu ORDER BY time DESC, usage LIMIT 10",
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_topk(benchmark: Any, database: Database, fleet: Fleet, name: str) -> None:
    rows = benchmark(lambda: database.sql(QUESTIONS[name]).fetchall())
    expected = 100 if name == "oldest 100" else 10
    assert len(rows) == expected or "region" in name


def test_newest_rows_leave_nearly_everything_unread(database: Database, fleet: Fleet) -> None:
    result = database.sql(QUESTIONS["newest 10"])
    assert len(result.fetchall()) == 10
    assert result.stats["rows_read"] <= max(fleet.rows // 4, 1_000)
