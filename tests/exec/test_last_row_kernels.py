"""The kernels that find the best row of each group, and rows at the edges of runs, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.page_case import MODES, run
from tsdb.exec.kernels import runs

_MOST = 2**63 - 1
_DEVICES = 6
_ROWS = st.lists(st.tuples(st.integers(0, _DEVICES - 1), st.integers(-3, 3), st.integers(0, 9)), max_size=30)


@pytest.mark.parametrize("mode", MODES)
@given(
    parts=st.lists(_ROWS, min_size=1, max_size=3),
    groups=st.lists(st.integers(0, 3), min_size=_DEVICES, max_size=_DEVICES),
    ranks=st.permutations(range(_DEVICES)),
    bound=st.sampled_from([_MOST, 1, -3]),
)
def test_improve(mode: str, parts: list[list[tuple[int, int, int]]], groups: list[int], ranks: list[int], bound: int) -> None:
    threshold = np.full(4, bound)
    device, (key, address, origin, ordinal) = np.full(4, -1, np.int32), (np.zeros(4, np.int64) for _ in range(4))
    for number, rows in enumerate(parts):
        columns = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
        described = np.array(groups, np.int64), np.array(ranks, np.int32)
        run(runs.improve, mode)(
            columns[0].astype(np.int32), *columns[1:], number, *described, threshold, device, key, address, origin, ordinal
        )
    for group in range(4):
        held = [
            (row[1], ranks[row[0]], row[2], number, at)
            for number, rows in enumerate(parts)
            for at, row in enumerate(rows)
            if groups[row[0]] == group and row[1] <= bound
        ]
        if not held:
            assert (device[group], threshold[group]) == (-1, bound)
            continue
        best = min(held)
        found = (key[group], ranks[device[group]], address[group], origin[group], ordinal[group])
        assert found == best
        assert threshold[group] == best[0]


@pytest.mark.parametrize("mode", MODES)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.sets(st.integers(0, 40)), st.booleans())
def test_at_edge(mode: str, sizes: list[int], wanted: set[int], last: bool) -> None:
    row_start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    edges = (row_start[1:] - 1 if last else row_start[:-1]).tolist()
    rows = sorted({row for row in wanted if row < row_start[-1]} or {edges[-1]})
    for positions in (rows, [row for row in rows if row in edges], edges):
        found = np.empty(len(positions), np.int64)
        count = run(runs.at_edge, mode)(row_start, np.array(positions, np.int64), int(last), found)
        right = next((at for at, row in enumerate(positions) if row not in edges), len(positions))
        assert count == right
        assert found[:count].tolist() == [edges.index(row) for row in positions[:right]]
