"""Kernels over pieces against plain twins, through the compiled code and through the plain function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.exec.kernels import pieces

MODES = ("auto", "jit", "python")


@pytest.mark.parametrize("mode", MODES)
@given(lengths=st.lists(st.integers(0, 70), max_size=9), seed=st.integers(0, 2**32 - 1))
def test_bytes_are_moved_to_their_places(mode: str, lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = np.array(lengths, np.int64)
    stops = np.cumsum(size)
    order = rng.permutation(len(size))
    places = np.empty(len(size), np.int64)
    places[order] = np.cumsum(size[order]) - size[order]
    values = rng.integers(0, 256, int(size.sum()), np.uint8)
    out = np.zeros(len(values), np.uint8)
    pieces.move.resolve(mode)(values, stops - size, stops, places, out)
    parts = np.split(values, stops[:-1]) if len(size) else []
    assert out.tobytes() == b"".join(parts[at].tobytes() for at in order)


@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
def test_wanted_runs_are_written_down(mode: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 12))
    devices = data.draw(st.integers(count, 20))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rank = rng.permutation(devices).astype(np.int32)
    device = np.argsort(rank)[np.sort(rng.choice(devices, count, replace=False))].astype(np.int32)
    first = rng.integers(0, 20, count)
    last = first + rng.integers(0, 9, count)
    rows = np.cumsum(rng.integers(1, 5, count + 1)) if data.draw(st.booleans()) else np.empty(0, np.int64)
    skip, mask = (rng.random(size) < 0.5 if data.draw(st.booleans()) else np.empty(0, np.bool_) for size in (count, devices))
    low, high = sorted(data.draw(st.tuples(st.integers(-2, 30), st.integers(-2, 30))))
    least, most = sorted(data.draw(st.tuples(st.integers(0, 21), st.integers(0, 21))))
    expected = [
        (i, d, rank[d], first[i], last[i], rows[i] if len(rows) else 0, rows[i + 1] if len(rows) else 0)
        for i, d in enumerate(device.tolist())
        if least <= rank[d] <= most and last[i] >= low and first[i] <= high
        if not (len(skip) and skip[i]) and not (len(mask) and not mask[d])
    ]
    out = np.full((7, count + 3), -1, np.int64)
    limits = np.array([low, high, least, most, 2], np.int64)
    found = pieces.wanted.resolve(mode)(first, last, device, skip, mask, rank, rows, limits, out)
    assert [tuple(column) for column in out[:, 2:found].T.tolist()] == expected
    assert (out[:, :2] == -1).all()
    assert (out[:, found:] == -1).all()
