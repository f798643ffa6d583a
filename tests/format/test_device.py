"""Device tables: tags as sorted dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.file_case import text_vector
from tsdb_format.device import sorted_pool
from tsdb_format.types import STRING
from tsdb_format.vector import Pool, Vector

TEXTS = st.one_of(st.none(), st.binary(max_size=18), st.sampled_from([b"", b"a", b"a\0", b"a\0\0", b"x" * 16, b"x" * 17]))


@given(st.lists(TEXTS, max_size=25), st.lists(st.binary(max_size=18), max_size=9))
def test_sorted_pool_is_sorted_distinct_and_faithful(values: list[bytes | None], unused: list[bytes]) -> None:
    vector = text_vector(values)
    assert vector.pool is not None
    vector.pool = Pool.of([*vector.pool.tolist(), *unused])
    pool, codes = sorted_pool(vector)
    texts = pool.tolist()
    assert texts == sorted({value for value in values if value is not None})
    assert [None if code < 0 else texts[code] for code in codes.tolist()] == values
    assert codes.dtype == np.int32


def test_equal_strings_under_different_codes_become_one() -> None:
    vector = Vector(STRING, np.array([0, 1, 2, 3], np.int32), None, Pool.of([b"b", b"a", b"b", b"a"]))
    pool, codes = sorted_pool(vector)
    assert (pool.tolist(), codes.tolist()) == ([b"a", b"b"], [1, 0, 1, 0])
    long = Vector(STRING, np.array([0, 1, 2], np.int32), None, Pool.of([b"c" * 20, b"a", b"c" * 20]))
    pool, codes = sorted_pool(long)
    assert (pool.tolist(), codes.tolist()) == ([b"a", b"c" * 20], [1, 0, 1])
