"""Vectors as Python values: every string of a pool, whatever is in it and however large the pool is beside the vector."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsdb_format.vector
from tsdb_format.pool import separated
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
    vector = Vector(kind, np.array(codes, np.int32), validity, pool)
    told = [None if text is None else text.encode() for text in wanted] if kind == BLOB else wanted
    for parted_min in (1, 10**9):
        with mock.patch.object(tsdb_format.vector, "_PARTED_MIN", parted_min):
            assert vector.to_physical_list() == told
            objects = vector.to_objects()
            assert (objects.dtype, objects.tolist()) == (np.dtype(object), told)


@given(st.lists(st.one_of(_TEXTS.map(str.encode), st.binary(max_size=3)), min_size=1, max_size=20), st.data())
def test_all_strings_of_a_part_of_a_pool_at_once(strings: list[bytes], data: st.DataObject) -> None:
    whole = Pool.of(strings)
    start = data.draw(st.integers(0, len(strings) - 1))
    stop = data.draw(st.integers(start + 1, len(strings)))
    part, held = Pool(whole.offsets[start : stop + 1], whole.data), strings[start:stop]
    assert separated(part) == (None if any(b"\0" in each for each in held) else b"\0".join(held))
    with mock.patch.object(tsdb_format.vector, "_PARTED_MIN", 1):
        try:
            wanted = [each.decode() for each in held]
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError):
                part.texts()
        else:
            assert part.texts() == wanted


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
