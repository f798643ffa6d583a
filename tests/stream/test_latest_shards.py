"""Shards that no key of the right side is in: left out of the history where their rule is known, and never of what comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.quiet import without_background

ROWS = 10
ON = {
    "seek_to": "earliest",
    "enable_streaming_join_key_domain_pushdown": True,
    "enable_streaming_join_key_domain_shard_pruning": True,
}
ONE = "SELECT f.k, f.v FROM facts f INNER LATEST JOIN (SELECT k FROM mapping WHERE entity = 1) m ON f.k = m.k"
TWO = "SELECT f.k, f.v FROM facts f INNER LATEST JOIN (SELECT k, s FROM mapping WHERE entity = 1) m ON f.s = m.s AND f.k = m.k"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tsdb.Database]:
    """An empty database."""
    made = without_background(tsdb.open(tmp_path / "db", durability="off"))
    yield made
    made.close()


def fill(db: tsdb.Database, shards: str, keys: int = 32, mode: str = "append") -> None:
    """Facts of some keys in files by shard, and a mapping of entity 1 to key 5."""
    db.sql(f"CREATE STREAM facts (time TIMESTAMP_NS TIME, k INT64 TAG, s STRING, v INT64) {shards} WITH (mode = '{mode}')")
    db.sql("CREATE STREAM mapping (entity INT64, k INT64, s STRING)")
    write(db, range(keys), 0)
    db.write("mapping", {"entity": [1, 2], "k": [5, 6], "s": ["s5", "s6"]})
    db.flush()


def write(db: tsdb.Database, keys: Any, at: int) -> None:
    rows = [(at + i, k, f"s{k}", at + k * ROWS + i) for k in keys for i in range(ROWS)]
    db.write("facts", {name: [row[i] for row in rows] for i, name in enumerate(("time", "k", "s", "v"))})


def follow(db: tsdb.Database, sql: str, count: int, **settings: object) -> tuple[list[Any], dict[str, Any]]:
    """The history, then a row that comes in every shard, and the counters."""
    rows: list[Any] = []
    with db.stream(sql, settings={**ON, **settings}) as live:
        while len(rows) < count:
            rows += next(live).fetchall()
        return rows, live.stats


@pytest.mark.parametrize(
    ("shards", "sql"),
    [("SHARDS 4 BY (k)", ONE), ("SHARDS 4 BY (hash(k))", ONE), ("SHARDS 4 BY (hash(k, s))", TWO), ("SHARDS 4 BY (k, s)", TWO)],
)
def test_files_of_other_shards_are_not_opened(opened: tsdb.Database, shards: str, sql: str) -> None:
    fill(opened, shards)
    rows, stats = follow(opened, sql, ROWS)
    plain, without = follow(opened, sql, ROWS, enable_streaming_join_key_domain_shard_pruning=False)
    assert rows == plain
    assert (stats["StreamingJoinKeyDomainShardPruned"], without["StreamingJoinKeyDomainShardPruned"]) == (1, 0)
    assert (stats["StreamingJoinKeyDomainStorageFilterPushed"], without["StreamingJoinKeyDomainStorageFilterPushed"]) == (1, 4)
    assert stats["files_pruned_by_key_domain"] >= 3
    assert "3 of 4 shards left out" in stats["streaming_join_key_domain_pushdown"]


@pytest.mark.parametrize(
    ("shards", "sql"),
    [
        pytest.param("SHARDS 4 BY (k % 7)", ONE, id="expression"),
        pytest.param("SHARDS 4 BY (k, s)", ONE, id="a column that is no key"),
        pytest.param("", ONE, id="no shards"),
    ],
)
def test_an_unknown_rule_leaves_no_shard_out(opened: tsdb.Database, shards: str, sql: str) -> None:
    fill(opened, shards)
    rows, stats = follow(opened, sql, ROWS)
    assert len(rows) == ROWS
    assert stats["StreamingJoinKeyDomainBuilt"] == 1
    assert stats["StreamingJoinKeyDomainShardPruned"] == 0


def test_an_empty_shard(opened: tsdb.Database) -> None:
    fill(opened, "SHARDS 64 BY (k)", keys=6)
    rows, stats = follow(opened, ONE, ROWS)
    assert {k for k, _ in rows} == {5}
    assert stats["StreamingJoinKeyDomainShardPruned"] == 1


def test_what_comes_is_read_from_all_shards(opened: tsdb.Database) -> None:
    fill(opened, "SHARDS 4 BY (k)")
    with opened.stream(ONE, settings=ON) as live:
        assert len(next(live).fetchall()) == ROWS
        opened.write("mapping", {"entity": [1] * 32, "k": list(range(32)), "s": [None] * 32})
        write(opened, range(32), 1_000)
        opened.flush()
        assert {k for k, _ in next(live).fetchall()} == set(range(32))
