"""Processes that follow a writer, killed without warning and going on from what they wrote down."""

from __future__ import annotations

from pathlib import Path

from benchmarks.stream import measure


def test_killed_followers_have_every_row_once(tmp_path: Path) -> None:
    outcomes = measure(tmp_path, rate=4_000, commits=40, seconds=3.0, kills=1, patience=90.0)
    assert [each.wrong for each in outcomes] == [0, 0, 0]
    assert [each.rows for each in outcomes] == [12_000] * 3
