"""Live LATEST JOINs while others write, flush and compact: every left row once, with the right row that its commit saw."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.soak import SEED, pick

COMMITS = pick(250, 4_000)
SQL = "SELECT f.v, m.r FROM facts f {kind} LATEST JOIN mapping m ON f.k = m.k"
ON = {"enable_streaming_join_key_domain_pushdown": True, "enable_streaming_join_key_domain_shard_pruning": True}
LAST = 10**9


def write(db: tsdb.Database, seed: int, begun: threading.Event) -> None:
    """Commits of either side, at any pace; the last one is a left row that has a partner."""
    rng = random.Random(seed)
    for number in range(COMMITS):
        if rng.random() < 0.3:
            db.write("mapping", {"k": [rng.randrange(20) for _ in range(2)], "r": [2 * number, 2 * number + 1]})
        else:
            db.write("facts", {"k": [rng.randrange(30) for _ in range(4)], "v": [4 * number + i for i in range(4)]})
        if number == COMMITS // 4:
            begun.set()
        match rng.randrange(60):
            case 0:
                db.flush()
            case 1:
                db.compact()
    db.write("facts", {"k": [1_000], "v": [LAST]})


def expected(db: tsdb.Database, bound: int, kind: str) -> list[tuple[int, int | None]]:
    """What the order of commits says: the history with the right side at the bound, later rows with that of their commit."""
    rights = db.sql("SELECT _sn, time, k, r FROM mapping ORDER BY _sn, time").fetchall()
    lefts = db.sql("SELECT _sn, time, k, v FROM facts ORDER BY _sn, time").fetchall()
    latest: dict[int, int] = {}
    made: list[tuple[int, int | None]] = []
    at = 0

    def upto(commit: int) -> None:
        nonlocal at
        while at < len(rights) and rights[at][0] <= commit:
            latest[rights[at][2]] = rights[at][3]
            at += 1

    upto(bound)
    for commit, _, key, value in lefts:
        upto(max(commit, bound))
        if key in latest or kind == "LEFT":
            made.append((value, latest.get(key)))
    return made


@pytest.mark.parametrize("kind", ["INNER", "LEFT"])
@pytest.mark.parametrize("settings", [{}, ON], ids=["plain", "pushdown"])
def test_each_left_row_once_with_what_its_commit_saw(tmp_path: Path, kind: str, settings: dict[str, object]) -> None:
    with tsdb.open(tmp_path / "db", durability="off", threads=2) as db:
        db.sql("CREATE STREAM facts (k BIGINT, v BIGINT) PRIMARY KEY (k) SHARDS 3 BY (hash(k))")
        db.sql("CREATE STREAM mapping (k BIGINT, r BIGINT)")
        db.write("mapping", {"k": [1_000], "r": [-1]})
        begun = threading.Event()
        writer = threading.Thread(target=write, args=(db, 7 + SEED, begun))
        writer.start()
        begun.wait()
        rows: list[Any] = []
        with db.stream(SQL.format(kind=kind), settings={"seek_to": "earliest", "stream_batch_rows": 50, **settings}) as live:
            position = live._pipeline.position
            assert position is not None
            while not rows or rows[-1][0] != LAST:
                rows += next(live).fetchall()
        writer.join()
        found = expected(db, position["bound"], kind)
        assert len(rows) == len(found)
        assert sorted(rows, key=repr) == sorted(found, key=repr)
