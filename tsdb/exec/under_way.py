"""The queries of one database handle that are under way, for SHOW QUERIES."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tsdb.exec.stats import QueryStats


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    text: str
    started: float
    stats: QueryStats


class UnderWay:
    """A register of runs. Threads enter and leave it; who looks sees those inside, with what their scans have given so far."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @contextmanager
    def enter(self, text: str, stats: QueryStats) -> Iterator[None]:
        """Be listed for as long as the block runs."""
        entry = _Entry(text, time.monotonic(), stats)
        with self._lock:
            number = next(self._numbers)
            self._entries[number] = entry
        try:
            yield
        finally:
            with self._lock:
                del self._entries[number]

    def rows(self) -> list[tuple[int, str, float, int]]:
        """(number, text, seconds, rows that the scans gave) of each run, oldest first."""
        with self._lock:
            entries = list(self._entries.items())
        now = time.monotonic()
        return [
            (number, each.text, now - each.started, sum(scan.rows_returned for scan in list(each.stats.scans)))
            for number, each in entries
        ]
