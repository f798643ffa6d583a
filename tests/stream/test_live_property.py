"""Live queries over random histories: exactly the rows that a plain model has, in its order, from whatever row one goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stream_case import TABLES, StreamCase

STEPS = 60


@pytest.mark.parametrize("beside", [False, True], ids=["same handle", "beside"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mode", TABLES)
def test_every_row_comes_once_and_in_order(tmp_path: Path, mode: str, seed: int, beside: bool) -> None:
    case = StreamCase(tmp_path, mode, seed, beside=beside)
    for _ in range(STEPS):
        case.step()
    case.finish()
