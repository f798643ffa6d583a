"""Fixtures of the storage tests."""

from __future__ import annotations

import pytest

from tsdb.storage import log


@pytest.fixture(autouse=True)
def short_segments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that look at every byte of a segment do without the zeros that are kept behind its end."""
    if request.module.__name__.rpartition(".")[2] in ("test_log_damage", "test_log_tail") or "ahead" not in request.node.name:
        monkeypatch.setattr(log, "AHEAD_BYTES", 0)
