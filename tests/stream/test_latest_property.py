"""Live LATEST JOINs over random histories: the reference, the plain plan and every way of reading less give the same rows."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from support.latest_case import LatestCase, random_shape
from support.soak import SEED, pick
from tsdb.stream import version_table

CASES = pick(60, 3_000)
_PARTS = 3


def _run(case: LatestCase, seen: Counter[str]) -> None:
    shape, rng = case.shape, case.rng
    for _ in range(rng.randint(0, 4)):
        case.group()
    expected = case.expected_start()
    queries = {name: case.follow(settings) for name, settings in case.variants().items()}
    for _ in range(rng.randint(1, 3)):
        sentinel = case.group()
        expected += case.expected()
        for name, query in queries.items():
            query.until(sentinel, going_on=name == "resumed" and case.resumable)
    plain = queries["off"]
    assert case.ordered(plain.rows) == case.ordered(expected), (shape, plain.rows, expected)
    for name, query in queries.items():
        assert query.rows == plain.rows, (name, shape)
        stats = query.query.stats
        built = int(stats["StreamingJoinKeyDomainBuilt"])
        assert not built or (name not in ("off", "reused again") and not shape.is_declined), (
            name,
            shape,
        )
        seen[f"{name} built"] += built
        seen[f"{name} devices"] += int(stats["devices_pruned_by_key_domain"])
        seen[f"{name} pages"] += int(stats["pages_pruned_by_key_domain"])
        seen[f"{name} shards"] += int(stats["StreamingJoinKeyDomainShardPruned"])
        seen[f"{name} rows"] += int(stats["stream_history_rows"])
        query.query.close()
    if shape.asof:  # where several fit alike DuckDB takes any
        return
    whole = case.database.sql(case.shape.sql).fetchall()
    assert sorted(map(str, whole)) == sorted(map(str, case.expected_bounded())), shape


@pytest.mark.parametrize("part", range(_PARTS))
def test_every_plan_gives_the_rows_of_the_reference(tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if part:  # versions in several tiers
        monkeypatch.setattr(version_table, "_SMALL_ROWS", 1)
    seen: Counter[str] = Counter()
    for number in range(part, CASES, _PARTS):
        rng = random.Random(1_000_003 * SEED + number)
        case = LatestCase(tmp_path / f"{number}.db", rng, random_shape(rng))
        try:
            _run(case, seen)
        except BaseException:
            print(f"case {number} of seed {SEED}: {case.shape}")
            raise
        finally:
            case.database.close()
    assert all(seen[f"{name} built"] for name in ("on", "set", "bloom")), seen
    assert not seen["on shards"], seen
    assert seen["on rows"] < seen["off rows"], seen
