"""The queries of one database handle that are under way, bounded and live ones, for SHOW QUERIES."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tsdb.alive import Alive
from tsdb.exec.stats import QueryStats

if TYPE_CHECKING:
    from tsdb.stream.live import LiveQuery

#: (number, text, seconds, rows, phase, commit) of a query; the last two of live ones, as far as they are known.
Progress: TypeAlias = tuple[int, str, float, int, str | None, int | None]


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    text: str
    started: float
    stats: QueryStats


class UnderWay:
    """A register of runs. Threads enter and leave it; who looks sees those inside, with what their scans have given so far.

    It takes no lock: the collector of garbage ends runs, too, within any step of any thread.
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._numbers = itertools.count(1)
        #: Live queries, until they go.
        self.live: Alive[LiveQuery] = Alive()

    @contextmanager
    def enter(self, text: str, stats: QueryStats) -> Iterator[None]:
        """Be listed for as long as the block runs."""
        number = next(self._numbers)
        self._entries[number] = _Entry(text, time.monotonic(), stats)
        try:
            yield
        finally:
            self._entries.pop(number, None)

    def follow(self, live: LiveQuery) -> None:
        """List a live query until it is closed."""
        live.number = next(self._numbers)
        self.live.add(live)

    def rows(self) -> list[Progress]:
        """What is under way, oldest first: of bounded queries the rows that their scans gave, of live ones those that they gave."""
        now = time.monotonic()
        bounded: list[Progress] = [
            (number, each.text, now - each.started, sum(scan.rows_returned for scan in list(each.stats.scans)), None, None)
            for number, each in self._entries.copy().items()
        ]
        return sorted(bounded + [live.progress() for live in self.live if not live.closed])
