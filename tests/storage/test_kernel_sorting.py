"""Sorting kernels against plain Python, compiled and as plain functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tsdb.exec.kernels import sorting
from tsdb_format.kernels.registry import Kernel


@pytest.fixture(params=["python", "jit"])
def run(request: pytest.FixtureRequest) -> Any:
    def call(kernel: Kernel, *args: Any) -> Any:
        return kernel.resolve(request.param)(*args)

    return call


def _rows(seed: int, count: int, devices: int, times: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, devices, count).astype(np.int32), rng.integers(-times, times, count)


@pytest.mark.parametrize(
    ("rank", "time", "state"),
    [
        ([], [], 2),
        ([3], [1], 2),
        ([0, 0, 1], [1, 2, 0], 2),
        ([0, 0, 1], [1, 1, 0], 1),
        ([0, 0, 1], [2, 1, 0], 0),
        ([1, 0], [1, 2], 0),
        ([0, 0, 0], [1, 1, 0], 0),
        ([0, 0], [-(2**63), 2**63 - 1], 2),
    ],
)
def test_order_state(run: Any, rank: list[int], time: list[int], state: int) -> None:
    assert run(sorting.order_state, np.array(rank, np.int32), np.array(time, np.int64)) == state


@pytest.mark.parametrize("seed", range(6))
def test_place_rows_is_a_stable_order_by_rank(run: Any, seed: int) -> None:
    rank, time = _rows(seed, 200, 7, 5)
    counts = np.zeros(7, np.int64)
    run(sorting.count_ranks, rank, counts)
    assert counts.tolist() == np.bincount(rank, minlength=7).tolist()
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    position = np.empty(len(rank), np.int32)
    state = run(sorting.place_rows, rank, time, start, start.copy(), np.zeros(8, np.int64), position)
    order = np.argsort(rank, kind="stable")
    assert position[order].tolist() == list(range(len(rank)))
    assert state == run(sorting.order_state, rank[order], time[order])
    inverse = np.empty_like(position)
    run(sorting.invert, position, inverse)
    assert inverse.tolist() == order.tolist()


@pytest.mark.parametrize("sizes", [[0], [1, 2, 3], [31, 32, 33], [64, 65, 1, 300], [1000]])
@pytest.mark.parametrize("spread", [3, 10_000])
def test_sort_runs_is_stable(run: Any, sizes: list[int], spread: int) -> None:
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    time = np.random.default_rng(sum(sizes) + spread).integers(-spread, spread, int(bounds[-1]))
    order = np.arange(len(time), dtype=np.int32)
    expected: list[int] = []
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        expected += (start + np.argsort(time[start:stop], kind="stable")).tolist()
    ordered = time.copy()
    run(sorting.sort_runs, ordered, order, bounds, np.empty_like(time), np.empty_like(order))
    assert order.tolist() == expected
    assert ordered.tolist() == time[expected].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_newest_valid_per_group(run: Any, seed: int) -> None:
    rank, time = _rows(seed, 120, 4, 6)
    order = np.lexsort((time, rank))
    rank, time = rank[order], time[order]
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(rank)) + 1, [len(rank)]]).astype(np.int64)
    valid = np.random.default_rng(seed).random(len(rank)) < 0.4
    last = np.empty(len(rank), np.bool_)
    groups = run(sorting.mark_last, time, bounds, last)
    keys = list(zip(rank.tolist(), time.tolist(), strict=True))
    assert groups == len(set(keys)) == int(last.sum())
    source = np.empty(groups, np.int32)
    run(sorting.newest_valid, last, valid, source)
    expected = []
    for key in sorted(set(keys)):
        rows = [row for row, each in enumerate(keys) if each == key]
        expected.append(max((row for row in rows if valid[row]), default=rows[-1]))
    assert source.tolist() == expected


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.float32, np.int32, np.bool_])
def test_scatter(kind: type) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2, 50).astype(kind)
    position = rng.permutation(50).astype(np.int32)
    out = np.empty_like(values)
    sorting.scatter(values, position, out)
    assert out[position].tolist() == values.tolist()


def test_scatter_of_vectors_and_read_only_values() -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    values.flags.writeable = False
    out = np.empty_like(values)
    sorting.scatter(values, np.array([3, 1, 0, 2], np.int32), out)
    assert out[:, 0].tolist() == [6, 3, 9, 0]


def test_scatter_kernels_as_plain_functions() -> None:
    position = np.array([2, 0, 1], np.int32)
    for kernel, kind in ((sorting.scatter_8, np.uint64), (sorting.scatter_4, np.uint32), (sorting.scatter_1, np.uint8)):
        out = np.zeros(3, kind)
        kernel.py_func(np.array([5, 6, 7], kind), position, out)
        assert out.tolist() == [6, 7, 5]


def test_mark_present(run: Any) -> None:
    time = np.array([1, 3, 3, 5, 10, 20, 30], np.int64)
    present = np.zeros(7, np.bool_)
    starts, stops = np.array([4, 0], np.int64), np.array([7, 4], np.int64)
    other, bounds = np.array([5, 20, 40, 0, 3, 4, 6], np.int64), np.array([0, 3, 7], np.int64)
    assert run(sorting.mark_present, time, starts, stops, other, bounds, present) == 3
    assert present.tolist() == [False, True, True, False, False, True, False]
    assert run(sorting.mark_present, time, starts, stops, other, bounds, present) == 0
