"""The boundary gate: an order that is not kept is an error."""

from __future__ import annotations

import pytest

from tsdb.stream.gate import BoundaryGate


def loaded(bound: int) -> BoundaryGate:
    gate = BoundaryGate()
    gate.right_loaded(bound)
    return gate


def test_right_then_left_then_windows_without_a_gap() -> None:
    gate = loaded(7)
    gate.left_begins(7)
    gate.opened(7, 9)
    gate.opened(9, 9)
    gate.opened(9, 12)
    assert gate.at == 12


def test_windows_may_follow_the_right_side_at_once() -> None:
    gate = loaded(7)
    gate.opened(7, 8)
    assert gate.at == 8


def test_what_would_lose_or_repeat_rows() -> None:
    with pytest.raises(AssertionError, match="same bound"):
        loaded(7).left_begins(8)
    with pytest.raises(AssertionError, match="same bound"):
        BoundaryGate().left_begins(7)
    with pytest.raises(AssertionError, match="once"):
        loaded(7).right_loaded(8)
    for after, upto in ((8, 9), (6, 9), (7, 6)):
        with pytest.raises(AssertionError, match="gap"):
            loaded(7).opened(after, upto)
    gate = loaded(7)
    gate.opened(7, 7)
    with pytest.raises(AssertionError, match="history comes once"):
        gate.left_begins(7)
