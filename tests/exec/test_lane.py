"""Which files can hold versions of one row, against comparing each with each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tsdb.exec.lane import _overlapping_files


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 6)), max_size=9))
def test_files_that_meet_another(spans: list[tuple[int, int]]) -> None:
    files = [SimpleNamespace(min_time=low, max_time=low + size) for low, size in spans]
    table: Any = SimpleNamespace(files=files)
    meet = [
        index
        for index, a in enumerate(files)
        if any(a is not b and a.min_time <= b.max_time and b.min_time <= a.max_time for b in files)
    ]
    assert _overlapping_files(table) == meet
