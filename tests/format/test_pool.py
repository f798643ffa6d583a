"""Strings of a pool against Python's own: taking them, and their bytewise order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsdb_format.pool as pool_module
from support.page_case import MODES, run
from tsdb_format.kernels import text
from tsdb_format.pool import order_strings, rank_strings, repeat_strings, take_strings
from tsdb_format.vector import Pool, concat_pools

_LONG = [b"x" * size + end for size in (15, 16, 17, 31, 32, 33) for end in (b"", b"\0", b"\0\0", b"a", b"b")]
TEXTS = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"a", b"a\0", b"a\0\0", b"ab", *_LONG]))


@given(st.lists(TEXTS, max_size=40), st.data())
def test_order_and_ranks(strings: list[bytes], data: st.DataObject) -> None:
    pool = Pool.of(strings)
    codes = data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=60)) if strings else []
    order, fresh = order_strings(pool, np.array(codes, np.int32))
    texts = [strings[code] for code in codes]
    assert order.tolist() == sorted(range(len(texts)), key=lambda at: (texts[at], at))
    ordered = [texts[at] for at in order.tolist()]
    assert fresh.tolist() == [at == 0 or ordered[at] != ordered[at - 1] for at in range(len(ordered))]
    distinct = sorted(set(strings))
    assert rank_strings(pool).tolist() == [distinct.index(text) for text in strings]


@given(st.lists(TEXTS, min_size=1, max_size=9), st.data())
def test_take(strings: list[bytes], data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=20))
    taken = take_strings(Pool.of(strings), np.array(codes, np.int32))
    assert taken.tolist() == [strings[code] for code in codes]


@pytest.mark.parametrize("mode", MODES)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.data())
def test_repeat(mode: str, strings: list[bytes], data: st.DataObject) -> None:
    """Runs of a code of any length, and single ones."""
    runs = data.draw(st.lists(st.tuples(st.integers(0, len(strings) - 1), st.integers(1, 40)), max_size=8))
    codes = [code for code, count in runs for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "repeat_text", run(text.repeat_text, mode))
        found = repeat_strings(Pool.of(strings), np.array(codes, np.int32))
    assert found is not None
    ends, written = found
    assert [written[a:b].tobytes() for a, b in zip(ends[:-1], ends[1:], strict=True)] == [strings[code] for code in codes]


def test_repeated_strings_have_an_end() -> None:
    pool = Pool.of([b"x" * (1 << 20)])
    assert repeat_strings(pool, np.zeros(2048, np.int32)) is None


def test_pools_whose_data_has_more_than_their_strings_are_joined() -> None:
    data = np.frombuffer(b"..abcde..", np.uint8)
    first = Pool(np.array([2, 3, 5], np.int64), data)
    second = Pool(np.array([5, 5, 7], np.int64), data)
    joined, shifts = concat_pools([first, second, first])
    assert joined.tolist() == [b"a", b"bc", b"", b"de", b"a", b"bc"]
    assert shifts.tolist() == [0, 2, 4]
