"""Vectors as Python values: every string of a pool, whatever is in it and however large the pool is beside the vector."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb_format.types import BLOB, STRING, ColumnType
from tsdb_format.vector import Pool, Vector

_TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["", "a", "a\0", "\0", "ä", "日本", "🙂", "host_1"]))


@given(st.lists(_TEXTS, max_size=30), st.sampled_from([STRING, BLOB]), st.booleans(), st.data())
def test_strings_are_those_of_their_codes(strings: list[str], kind: ColumnType, nulls: bool, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=40)) if strings else []
    valid = data.draw(st.lists(st.booleans(), min_size=len(codes), max_size=len(codes))) if nulls else [True] * len(codes)
    pool = Pool.of([text.encode() for text in strings])
    validity = np.array(valid, np.bool_) if nulls else None
    wanted = [strings[code] if ok else None for code, ok in zip(codes, valid, strict=True)]
    found = Vector(kind, np.array(codes, np.int32), validity, pool).to_physical_list()
    assert found == ([None if text is None else text.encode() for text in wanted] if kind == BLOB else wanted)


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("size", [0, 1, 5, 50])
def test_a_code_below_0_is_a_null(count: int, size: int) -> None:
    pool = Pool.of([b"%d" % at for at in range(size)])
    assert Vector(STRING, np.full(count, -1, np.int32), None, pool).to_physical_list() == [None] * count


@pytest.mark.parametrize("end", ["", "é"])
def test_all_strings_in_order(end: str) -> None:
    texts = [f"host_{at}{end}" for at in range(9)]
    pool = Pool.of([text.encode() for text in texts])
    part = Pool(pool.offsets[2:6], pool.data)  # of which the data hold more
    for codes in (np.arange(9), np.arange(9)[::-1], np.arange(9) // 2):
        assert Vector(STRING, codes.astype(np.int32), None, pool).to_physical_list() == [texts[code] for code in codes]
    assert Vector(STRING, np.arange(3, dtype=np.int32), None, part).to_physical_list() == texts[2:5]
    assert Vector(STRING, np.arange(1, dtype=np.int32), None, part).to_physical_list() == texts[2:3]
