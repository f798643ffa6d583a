"""Binary search inside stored columns, against numpy's, and that it does not decode them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.page_case import INT64, INTEGERS, page_set
from tsdb_format.encoding import EncodedChunk, Encoding, search_sorted
from tsdb_format.encoding.number import Choice, as_numbers, write_numbers
from tsdb_format.errors import Corruption
from tsdb_format.types import INT32, TIMESTAMP_NS, ColumnType
from tsdb_format.types import INT64 as INT64_TYPE
from tsdb_format.vector import Vector

EDGE_KEYS = (INT64.min, INT64.max, 0, INT64.min - 1, INT64.max + 1)


def expected(values: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64], key: int, right: bool) -> list[int]:
    """By counting, in Python's unbounded integers."""
    rows = zip(starts.tolist(), stops.tolist(), strict=True)
    return [a + sum(value < key or (right and value == key) for value in values[a:b].tolist()) for a, b in rows]


def devices(values: NDArray[np.int64], cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort the values between the cuts."""
    values = values.copy()
    for a, b in zip(cuts[:-1], cuts[1:], strict=True):
        values[a:b].sort()
    return values


@pytest.mark.parametrize("kind", [TIMESTAMP_NS, INT32], ids=str)
@given(
    shape=st.sampled_from(sorted(INTEGERS)), rows=st.integers(1, 3000), page=st.sampled_from([1, 4, 100, 1024, 2048]),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_search(kind: ColumnType, shape: str, rows: int, page: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = min(rows, page * 200)
    cuts = np.unique(np.concatenate([[0, rows], rng.integers(0, rows + 1, int(rng.integers(0, 12)))])).astype(np.int64)
    with np.errstate(all="ignore"):
        values = devices(INTEGERS[shape](rng, rows).astype(kind.physical), cuts)
    pages = page_set(Vector(kind, values), page)
    starts, stops = cuts[:-1].copy(), cuts[1:].copy()
    stops[0] = starts[0] + (stops[0] - starts[0]) // 2
    for key in (*EDGE_KEYS, *rng.choice(values, 3).tolist(), int(values[0]) + 1):
        for right in (False, True):
            found = search_sorted(pages, starts, stops, key, right)
            assert found.tolist() == expected(values, starts, stops, key, right)


@pytest.mark.parametrize("choice", [Choice(0, Encoding.RLE), Choice(0, Encoding.FOR), Choice(0, Encoding.BYTE_SPLIT)])
def test_search_in_encodings_that_no_time_column_gets(choice: Choice) -> None:
    def encode(vector: Vector, rows_per_page: int) -> EncodedChunk:
        nothing = np.empty(0, np.bool_)
        return write_numbers(as_numbers(vector, nothing), nothing, rows_per_page, choice)

    values = np.arange(5000) // 3
    pages = page_set(Vector(INT64_TYPE, values), 1024, encode)
    starts, stops = np.array([10, 3000]), np.array([2500, 5000])
    for key in (0, 500, 833, 1400, 9999):
        assert search_sorted(pages, starts, stops, key, False).tolist() == expected(values, starts, stops, key, False)


def test_only_pages_on_the_way_are_verified() -> None:
    values = np.arange(64_000) * 1000 + np.arange(64_000) % 7
    pages = page_set(Vector(TIMESTAMP_NS, values), 1024)
    assert search_sorted(pages, np.array([0]), np.array([64_000]), int(values[33_333]), False).tolist() == [33_333]
    assert 1 <= pages.verified.sum() <= 8


def test_a_damaged_page_is_reported() -> None:
    pages = page_set(Vector(TIMESTAMP_NS, np.arange(3000) * 1000), 1024)
    pages.buffer[pages.page_offset[1]] ^= 1
    with pytest.raises(Corruption) as caught:
        search_sorted(pages, np.array([0]), np.array([3000]), 1_500_000, False)
    assert (caught.value.path, caught.value.offset) == ("memory", pages.page_offset[1])
    with pytest.raises(IndexError):
        search_sorted(pages, np.array([0]), np.array([3001]), 0, False)
