"""The order of a history over several files: by what the time index says where runs follow each other, else by the rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tsdb
from tsdb.exec.kernels import pieces
from tsdb.stream import storage_order

FIELDS = "v, s, p"
SQL = f"SELECT k, time, {FIELDS} FROM s"


def written(path: Path, times: str, rows_per_page: int) -> tsdb.Database:
    """A stream of several files and rows in memory, whose times follow each other, meet or overlap from commit to commit."""
    rng = random.Random(7)
    db = tsdb.open(path, durability="off", threads=2)
    db.sql(
        "CREATE STREAM s (time TIMESTAMP_NS TIME, k VARCHAR TAG, v BIGINT, s VARCHAR, p FLOAT[3]) "
        f"WITH (mode = 'append', rows_per_page = {rows_per_page})"
    )
    for commit in range(6):
        rows = []
        for number in range(40):
            start = {"apart": 1_000 * commit, "meeting": 39 * commit, "overlapping": 7 * commit}[times]
            text = None if rng.random() < 0.3 else f"text {commit} {number % 5}"
            place = None if rng.random() < 0.3 else [float(commit), float(number), 0.5]
            rows.append((start + number, f"k{number % 7}", 100 * commit + number, text, place))
        columns: dict[str, list[Any]] = dict(zip(("time", "k", "v", "s", "p"), map(list, zip(*rows, strict=True)), strict=True))
        db.write("s", columns)
        if commit < 5:
            db.flush()
    return db


def history(db: tsdb.Database, sql: str, count: int, **settings: object) -> tuple[list[Any], dict[str, Any]]:
    rows: list[Any] = []
    with db.stream(sql, settings={"seek_to": "earliest", **settings}) as live:
        while len(rows) < count:
            rows += next(live).fetchall()
        return rows, dict(live.stats)


@pytest.mark.parametrize("rows_per_page", [4, 8192])
@pytest.mark.parametrize("times", ["apart", "meeting", "overlapping"])
def test_history_is_in_the_order_of_storage(tmp_path: Path, times: str, rows_per_page: int) -> None:
    with written(tmp_path / "db", times, rows_per_page) as db:
        expected = db.sql(f"{SQL} ORDER BY k, time, _sn").fetchall()
        assert history(db, SQL, len(expected))[0] == expected
        assert history(db, SQL, len(expected), stream_batch_rows=11)[0] == expected
        some = db.sql(f"{SQL} WHERE v % 3 = 1 ORDER BY k, time, _sn").fetchall()
        assert history(db, f"{SQL} WHERE v % 3 = 1", len(some))[0] == some


@pytest.mark.parametrize("times", ["apart", "meeting", "overlapping"])
def test_runs_are_found_some_devices_after_others(tmp_path: Path, times: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    wanted = pieces.wanted
    monkeypatch.setattr(pieces, "wanted", lambda *given: calls.append(1) or wanted(*given))
    with written(tmp_path / "db", times, 4) as db:
        expected = db.sql(f"{SQL} ORDER BY k, time, _sn").fetchall()
        some = [row for row in expected if row[0] in ("k1", "k4", "k6")]
        counts: list[int] = []
        for runs_max in (1_000, 30, 1):
            monkeypatch.setattr(storage_order, "_RUNS_MAX", runs_max)
            calls.clear()
            assert history(db, SQL, len(expected))[0] == expected
            counts.append(len(calls))
            assert history(db, f"{SQL} WHERE k IN ('k1', 'k4', 'k6')", len(some))[0] == some
            with db.stream(SQL, settings={"seek_to": "earliest", "stream_batch_rows": 100}) as live:
                given = next(live).fetchall()
            rest: list[Any] = []
            with db.stream(SQL, resume=live.token) as later:
                while len(given) + len(rest) < len(expected):
                    rest += next(later).fetchall()
            assert given + rest == expected
        assert counts[0] < counts[1] < counts[2] == 7 * counts[0], "every device on its own"


@pytest.mark.parametrize("times", ["apart", "overlapping"])
def test_every_token_goes_on_after_its_row(tmp_path: Path, times: str) -> None:
    with written(tmp_path / "db", times, 4) as db:
        expected = db.sql(f"{SQL} ORDER BY k, time, _sn").fetchall()
        with db.stream(SQL, settings={"seek_to": "earliest", "stream_batch_rows": 17}) as live:
            given = 0
            while given < len(expected):
                given += len(next(live).fetchall())
                rest: list[Any] = []
                with db.stream(SQL, resume=live.token) as later:
                    while len(rest) < len(expected) - given:
                        rest += next(later).fetchall()
                assert rest == expected[given:]


def test_times_and_commits_are_not_read_where_runs_follow_each_other(tmp_path: Path) -> None:
    read = {}
    for times in ("apart", "overlapping"):
        with written(tmp_path / times, times, 4) as db:
            db.flush()
            expected = db.sql("SELECT k, v FROM s ORDER BY k, time, _sn").fetchall()
            plain = db.sql("SELECT k, v FROM s")
            plain.fetchall()
            rows, stats = history(db, "SELECT k, v FROM s", len(expected))
            assert rows == expected
            read[times] = stats["bytes_read"] / plain.stats["bytes_read"]
    assert read["apart"] < 1.2 < 2 < read["overlapping"]


def test_rows_alike_are_in_one_order_from_memory_and_from_files(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db", durability="off") as db:
        db.sql("CREATE STREAM s (time TIMESTAMP_NS TIME, v BIGINT) SHARDS 4 BY (v) WITH (mode = 'append')")
        db.write("s", {"time": [5] * 40 + [6], "v": [number * 7 % 11 for number in range(41)]})
        found = [history(db, "SELECT time, v FROM s", 41)[0]]
        db.flush()
        found.append(history(db, "SELECT time, v FROM s", 41)[0])
        db.compact()
        found.append(history(db, "SELECT time, v FROM s", 41)[0])
        assert found[0] == found[1] == found[2]
        assert [v for _, v in found[0]][:40] != [number * 7 % 11 for number in range(40)]
