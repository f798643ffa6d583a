"""Taking rows by their place: scattered, neighbours and repeated, of 1 KiB (in pages) and of 64 KiB (beside them)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tsdb
from benchmarks.take import SIZES, TAKEN, load, patterns, taker


@pytest.fixture(scope="module", params=SIZES)
def images(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tsdb.Database, int, int]]:
    """Images of one size, and how many; few where the benchmarks only run as tests."""
    rows = 10_000 if request.config.getoption("--benchmark-enable") else 300
    with tsdb.open(tmp_path_factory.mktemp("take") / "db") as db:
        load(db, rows, request.param)
        yield db, rows, request.param


@pytest.mark.parametrize("pattern", list(patterns(1_000)))
def test_take(benchmark: Any, images: tuple[tsdb.Database, int, int], pattern: str) -> None:
    db, rows, size = images
    take, places = taker(db), patterns(rows)[pattern]
    found = benchmark(lambda: take(places))
    assert [len(image) for image in found] == [size] * TAKEN
    chosen = dict(zip(places.tolist(), found, strict=True))
    everything = [image for (image,) in db.sql("SELECT image FROM image ORDER BY time").fetchall()] if rows < 1_000 else []
    assert all(everything[place] == image for place, image in chosen.items() if everything)


def test_take_through_a_join(benchmark: Any, images: tuple[tsdb.Database, int, int]) -> None:
    """The same rows as a query asks for them."""
    db, rows, size = images
    wanted = {"time": db.sql("SELECT time FROM image ORDER BY time").arrow()["time"].to_numpy()[patterns(rows)["random"]]}
    found = benchmark(lambda: db.sql("SELECT i.image FROM wanted w JOIN image i USING (time)").fetchall())
    assert len(wanted["time"]) == len(found) == TAKEN
    assert all(len(image) == size for (image,) in found)
