"""Which files are looked into for runs that must be read together, and what is kept from snapshot to snapshot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tsdb.exec.arrangement import _meeting


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 6)), max_size=9), st.integers(0, 9))
def test_files_that_meet_a_new_one(spans: list[tuple[int, int]], start: int) -> None:
    files = [SimpleNamespace(min_time=low, max_time=low + size) for low, size in spans]
    start = min(start, len(files))
    meet = [
        index
        for index, a in enumerate(files)
        if any(
            a is not b and max(index, other) >= start and a.min_time <= b.max_time and b.min_time <= a.max_time
            for other, b in enumerate(files)
        )
    ]
    table: Any = SimpleNamespace(files=files)
    assert _meeting(table, start, len(files)) == meet
