"""Live queries over random histories: exactly the rows that a plain model has, in its order, from whatever row one goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stream_case import TABLES, StreamCase

STEPS = 60


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mode", TABLES)
def test_every_row_comes_once_and_in_order(tmp_path: Path, mode: str, seed: int) -> None:
    case = StreamCase(tmp_path, mode, seed)
    for _ in range(STEPS):
        case.step()
    case.finish()
