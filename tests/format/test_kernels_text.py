"""Kernels of strings, against Python's bytes and dicts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.page_case import MODES, run
from tsdb_format.kernels import text
from tsdb_format.vector import Pool

picks_of_rows = st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), min_size=1, max_size=50)
texts = st.lists(st.binary(max_size=4), min_size=1, max_size=30)


@pytest.mark.parametrize("mode", MODES)
@given(strings=texts, picks=picks_of_rows, limit=st.integers(1, 40))
def test_distinct(mode: str, strings: list[bytes], picks: list[tuple[int, bool]], limit: int) -> None:
    pool = Pool.of(strings)
    codes = np.array([pick % len(strings) for pick, _ in picks], np.int32)
    validity = np.array([valid for _, valid in picks])
    numbers: dict[bytes, int] = {}
    expected, last = [], 0
    for code, valid in zip(codes.tolist(), validity.tolist(), strict=True):
        if valid:
            last = numbers.setdefault(strings[code], len(numbers))
        expected.append(last)
    out, first = np.zeros(len(codes), np.uint64), np.zeros(limit, np.int64)
    renamed, table = np.full(int(codes.max()) + 1, -1, np.int32), np.full(128, -1, np.int32)
    count = run(text.distinct, mode)(pool.offsets, pool.data, codes, validity, 0, limit, renamed, table, out, first)
    if len(numbers) > limit:
        assert count == -1
    else:
        assert count == len(numbers)
        assert out.tolist() == expected
        assert [strings[code] for code in first[:count]] == list(numbers)


@pytest.mark.parametrize("mode", MODES)
@given(data=st.binary(min_size=1, max_size=60), cuts=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=20))
def test_gather_bytes(mode: str, data: bytes, cuts: list[tuple[int, int]]) -> None:
    places = [min(place, len(data)) for place, _ in cuts]
    sizes = [min(size, len(data) - place) for place, (_, size) in zip(places, cuts, strict=True)]
    out = np.zeros(sum(sizes), np.uint8)
    arrays = (np.array(places, np.int64), np.array(sizes, np.int64))
    run(text.gather_bytes, mode)(np.frombuffer(data, np.uint8), *arrays, out)
    assert out.tobytes() == b"".join(data[a : a + n] for a, n in zip(places, sizes, strict=True))
