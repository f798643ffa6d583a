"""Live queries over random histories: exactly the rows that a plain model has, in its order, from whatever row one goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stream_case import TABLES, StreamCase
from tsdb.stream import source, storage_order

STEPS = 60


@pytest.mark.parametrize("beside", [False, True], ids=["same handle", "beside"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", TABLES)
def test_every_row_comes_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, seed: int, beside: bool
) -> None:
    if seed % 2:  # what is read at once, of a history and of commits, is as little as can be
        monkeypatch.setattr(storage_order, "GROUP_ROWS", 2)
        monkeypatch.setattr(storage_order, "_LANE_ROWS", 0)
        monkeypatch.setattr(source, "WINDOW_ROWS", 3)
        monkeypatch.setattr(source, "_WINDOWS_MAX", 1_000)
    case = StreamCase(tmp_path, mode, seed, beside=beside)
    for _ in range(STEPS):
        case.step()
    case.finish()
