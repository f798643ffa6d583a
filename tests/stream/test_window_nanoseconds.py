"""Live windows over times in nanoseconds: how these are rounded, and the first and last there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

import tsdb
from tsdb.stream.window.span import microseconds, ticks
from tsdb_format.types import TIMESTAMP_NS

NS = [-(2**63) + 1, -(2**63) + 499, -1_501, -1_500, -1_499, -501, -500, -499, -1, 0, 1, 499, 500, 501, 1_499, 1_500, 2**63 - 2]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db", threads=2, durability="off") as made:
        yield made


@pytest.mark.parametrize("start", [28_000_000, 0, -1_000], ids=["later", "epoch", "earlier"])
def test_a_position_has_the_rows_that_are_rounded_into_its_first_window(db: tsdb.Database, start: int) -> None:
    """Nanoseconds are rounded to microseconds: half of one before a window starts is in it."""
    db.sql("CREATE STREAM ns (time TIMESTAMP_NS TIME, v BIGINT)")
    first = start * 60 * 10**9
    half = 500 if start > 0 else 499
    for v in (-half, -half + 1, -1, 0, 1):
        db.write("ns", {"time": np.array([first + v], "datetime64[ns]"), "v": [v]})
    text = "SELECT window_start, list(v ORDER BY v) AS v FROM TUMBLE(ns, time, 1m) GROUP BY window_start"
    assert (row := db.sql(text).fetchall()[0])[1] == [-half, -half + 1, -1, 0, 1]
    settings = {"seek_to": "earliest", "watermark_idle_timeout": "never"}
    with db.stream(text, settings=settings) as live:
        while (position := live._pipeline.position) is None or position["upto"] < 0:
            next(live._outputs)
        token = live._here().token()
    with db.stream(text, settings=settings, resume=token) as live:
        db.write("ns", {"time": np.array([first + 60 * 10**9], "datetime64[ns]"), "v": [5]})
        assert next(live).fetchall() == [row]


def test_nanoseconds_are_microseconds_as_duckdb_casts_them() -> None:
    made = microseconds(np.array(NS, np.int64), TIMESTAMP_NS).tolist()
    text = "SELECT epoch_us(make_timestamp_ns(x)::TIMESTAMP) FROM (SELECT unnest($1) AS x)"
    assert [(each,) for each in made[2:]] == duckdb.execute(text, [NS[2:]]).fetchall()  # which has no time as early as the first
    for tick, time in zip(NS, made, strict=True):
        first = ticks(time, TIMESTAMP_NS)
        assert first <= tick
        assert microseconds(np.array([first], np.int64), TIMESTAMP_NS)[0] == time
        assert first == -(2**63) or microseconds(np.array([first - 1], np.int64), TIMESTAMP_NS)[0] < time


@pytest.mark.parametrize("size", ["1 second", "1 month", "10000 days", "100 years"])
def test_windows_of_the_first_and_last_nanoseconds(db: tsdb.Database, size: str) -> None:
    db.sql("CREATE STREAM ns (time TIMESTAMP_NS TIME, v BIGINT)")
    db.write("ns", {"time": np.array([-(2**63) + 10**15, 0, 2**63 - 2], "datetime64[ns]"), "v": [1, 2, 3]})
    text = f"SELECT window_start, window_end, v FROM TUMBLE(ns, time, INTERVAL '{size}')"
    expected = sorted(db.sql(text).fetchall())
    with db.stream(text, settings={"seek_to": "earliest", "emit": "on update"}) as live:
        assert sorted(next(live).fetchall()) == expected
