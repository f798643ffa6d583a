"""Processes that follow a writer, killed without warning and going on from what they wrote down."""

from __future__ import annotations

from pathlib import Path

import tsdb
from benchmarks.stream import DDL, measure, start


def test_killed_followers_have_every_row_once(tmp_path: Path) -> None:
    outcomes = measure(tmp_path, rate=4_000, commits=40, seconds=3.0, kills=1, patience=90.0)
    assert [each.wrong for each in outcomes] == [0, 0, 0]
    assert [each.rows for each in outcomes] == [12_000] * 3


def test_a_writer_that_is_killed_and_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with tsdb.open(path) as db:
        db.sql(DDL)
    query = "SELECT n, sent_ns FROM facts"
    found: list[tuple[int, int]] = []
    with tsdb.open(path, mode="r") as reader, reader.stream(query, settings={"seek_to": "earliest"}) as rows:
        for _ in range(3):
            writer = start("write", str(path), "4000", "100", "600")
            goal = len(found) + 1_000
            while len(found) < goal:
                found += next(rows).fetchall()
            writer.kill()
            writer.wait()
        with tsdb.open(path) as db:
            db.flush()
            wanted = db.sql(query).fetchall()
            while len(found) < len(wanted):
                found += next(rows).fetchall()
    assert sorted(found) == sorted(wanted)
