"""A feed whose steps end where a window is over: no rows of later commits come together with those of earlier ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tsdb.exec.context import ExecContext
from tsdb.exec.executor import execute
from tsdb.exec.stats import QueryStats
from tsdb.plan.grouping import Call
from tsdb.plan.node import Aggregate, TableScan
from tsdb.plan.predicate import Compare
from tsdb.stream.source import LiveSource
from tsdb.stream.window.span import microseconds
from tsdb.stream.window.watermark import NEVER, Watermark
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.vector import IntArray

#: Rows whose times are looked at before the first of them are read, unless one commit has more.
AHEAD_ROWS_MAX = 1_048_576

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.settings import Settings
    from tsdb.storage.snapshot import Snapshot
    from tsdb.stream.feed import Feed


class SourceTimes:
    """The times of all rows of a live table, whatever the query leaves out of them."""

    def __init__(self, table: Table, settings: Settings) -> None:
        self._kind = table.schema.time.type
        self._settings = settings
        self._source = LiveSource(TableScan(table.name, (table.schema.time.name,)), table, QueryStats(), settings.threads)

    def greatest(self, snapshot: Snapshot, bound: int) -> int:
        """The greatest time of commits up to ``bound``, in microseconds; NEVER where there is no row."""
        self._source.snapshot_of(snapshot)
        time = self._source.table.schema.time
        scan = replace(self._source.scan, predicate=Compare(SEQUENCE_NAME, "<=", bound))
        plan = Aggregate(scan, (), (Call("greatest", "max", time.name, time.type),))
        found = next(iter(execute(plan, ExecContext(snapshot, self._settings, self._settings.threads)))).vectors["greatest"]
        return int(microseconds(found.values[:1].astype(np.int64), self._kind)[0]) if found.valid()[0] else NEVER

    def after(self, snapshot: Snapshot, after: int) -> tuple[IntArray, IntArray, int]:
        """(commits, times in microseconds, last commit) of the rows of commits after ``after``, in order: of all or the first.

        Of the last commit and those before it no row is left out.
        """
        commits, times, count, last = [], [], 0, snapshot.sequence
        for part in self._source.changes(snapshot, after, last):
            commits.append(part.sequence)
            times.append(microseconds(part.time, self._kind))
            count += part.count
            if count > AHEAD_ROWS_MAX and part.sequence[-1] > commits[0][0]:
                last = int(part.sequence[-1]) - 1  # of this one there may be more
                break
        if not commits:
            return np.empty(0, np.int64), np.empty(0, np.int64), last
        sequence = np.concatenate(commits)
        whole = int(np.searchsorted(sequence, last, side="right"))
        return sequence[:whole], np.concatenate(times)[:whole], last


class PacedFeed:
    """Has the methods of a ``Feed``; ``turned`` is to be called after each step.

    Without ``times`` the watermark goes by the rows that arrive, and steps end wherever a snapshot does.
    """

    def __init__(self, feed: Feed, times: SourceTimes | None, watermark: Watermark, history: Snapshot, upto: int) -> None:
        """``history`` is the state whose rows come first. At commit ``upto`` a step ends in any case."""
        self.times = times
        #: How long may be waited for the next commit.
        self.timeout: Callable[[], float | None] = lambda: None
        #: Whether rows were committed since this was last cleared, and without ``times`` the greatest time of those that arrived.
        self.arrived = False
        self.reached = NEVER
        self._feed = feed
        self._watermark = watermark
        self._history: Snapshot | None = history
        self._upto = upto
        self._ahead: deque[tuple[int, int]] = deque()
        self._snapshot: Snapshot | None = None

    def starts_live(self) -> None:
        """No history comes first."""
        self._history = None

    @property
    def closed(self) -> bool:
        """Whether nothing comes any more."""
        return self._feed.closed

    def wait(self, after: int, timeout: float | None = None) -> int:
        """See ``Feed``: the next commit at which a step ends, or none after the timeout."""
        if not self._ahead:
            newest = self._feed.wait(after, self.timeout() if timeout is None else timeout)
            if newest <= after or self._feed.closed:
                return newest
            self._look_ahead(after)
        return self._ahead[0][0]

    def snapshot(self) -> Snapshot:
        """The state up to the commit that ``wait`` gave."""
        if not self._ahead or self._snapshot is None:
            return self._feed.snapshot()
        return replace(self._snapshot, sequence=self._ahead[0][0])

    @property
    def repeats(self) -> bool:
        """Whether the step under way was taken before, by an earlier query."""
        return bool(self._ahead) and self._ahead[0][0] <= self._upto

    def turned(self, sequence: int) -> None:
        """All up to a commit has been given: set the watermark to what it is there."""
        seen = self.reached
        if self._history is not None:
            if self.times is not None:
                seen = self.times.greatest(self._history, sequence)
            self._history, self.arrived = None, True
        elif self._ahead and sequence >= self._ahead[0][0]:
            seen = max(seen, self._ahead.popleft()[1])
            if not self._ahead:
                self._snapshot = None
        self._watermark.seen = max(self._watermark.seen, seen)

    def _look_ahead(self, after: int) -> None:
        """Find where the next steps end: with commits by which a window is over, with ``upto``, and where no more is looked at."""
        snapshot = self._feed.snapshot()
        last, ends = snapshot.sequence, dict[int, int]()
        if self.times is not None:
            sequence, times, last = self.times.after(snapshot, after)
            self.arrived = self.arrived or len(times) > 0
            greatest = np.maximum(np.maximum.accumulate(times), self._watermark.seen)
            ends = dict(self._watermark.turns(sequence, times))
        for end in (self._upto, last):
            if after < end <= last and end not in ends:
                before = int(np.searchsorted(sequence, end, side="right")) if self.times is not None else 0
                ends[end] = int(greatest[before - 1]) if before else self._watermark.seen
        self._ahead = deque(sorted(ends.items()))
        self._snapshot = snapshot
