"""How long the searches for faults go on: as long as everybody waits for tests, or as long as ``make soak`` takes."""

from __future__ import annotations

import os
from typing import TypeVar

_T = TypeVar("_T")
#: Whether this is the long run.
SOAK = bool(os.environ.get("TSDB_SOAK"))
#: Added to every seed, so that another long run searches elsewhere.
SEED = int(os.environ.get("TSDB_SEED", "0"))


def pick(short: _T, long: _T) -> _T:
    """``short`` in `make test`, ``long`` in `make soak`."""
    return long if SOAK else short
