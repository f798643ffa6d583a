"""What is kept between reads stays within its budget, and letting go of it changes no row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.file_case import every_encoding_case, same_values
from tsdb_format.encoding import compression, dictionary, text
from tsdb_format.encoding.kept import Kept
from tsdb_format.reader import TsFile


class _Owner:
    def __init__(self) -> None:
        self.slots: set[int] = set()

    def put(self, kept: Kept, slot: int, size: int) -> None:
        self.slots.add(slot)
        kept.note(self, slot, size)

    def let_go(self, slot: int) -> None:
        self.slots.remove(slot)


def test_the_oldest_goes_first_and_the_dead_count_no_more() -> None:
    kept, a, b = Kept(10), _Owner(), _Owner()
    a.put(kept, 1, 4)
    b.put(kept, 1, 4)
    a.put(kept, 1, 3)  # in place of the first, and the newest now
    assert (kept.bytes, a.slots, b.slots) == (7, {1}, {1})
    a.put(kept, 2, 5)
    assert (kept.bytes, a.slots, b.slots) == (8, {1, 2}, set())
    del a
    assert kept.bytes == 0
    b.put(kept, 3, 11)
    assert (kept.bytes, b.slots) == (0, set())


@pytest.mark.parametrize("budget", [0, 100_000, 1 << 20])
def test_rows_are_the_same_under_any_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    kept = Kept(budget)
    for module in (compression, dictionary, text):
        monkeypatch.setattr(module, "KEPT", kept)
    case = every_encoding_case(3_072, 16)  # three chunks
    case.write(tmp_path / "a.tsf")
    with TsFile(tmp_path / "a.tsf") as file:
        for start in (0, 1_000, 0, 2_000, 500):
            for name in ("words", "prose", "notes", "split", "blob"):
                stop = start + 1_072
                found = file.read(name, np.array([start]), np.array([stop]))
                assert same_values(found, case.columns[name].take(slice(start, stop)))
                assert kept.bytes <= budget
        held = [file.page_set(name) for name in ("words", "prose", "notes", "split", "blob")]
        assert any(pages.pools or pages.expanded or pages.joined_pool for pages in held) == (budget > 0)
    del held, file
    assert kept.bytes == 0
