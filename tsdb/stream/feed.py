"""A feed: how somebody who follows a database learns that more was committed.

In the writer's process a commit that becomes visible wakes it; in another process it looks at the log, often while commits come and
more and more seldom while none do. It carries no rows: who is slow finds more of them later, and nothing is kept for anybody.
"""

from __future__ import annotations

import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from tsdb_format.errors import Closed
from tsdb_format.parallel import LOOK_UP_S

if TYPE_CHECKING:
    from tsdb.storage.snapshot import Snapshot
    from tsdb.storage.store import Store

#: Seconds between two looks at another process's log: at first, and at most.
_POLL_FIRST = 0.001
_POLL_MAX = 0.010


class Commits(Protocol):
    """Commits as they come, as whoever follows them sees them: a ``Feed``, or what decides where its steps end."""

    @property
    def closed(self) -> bool:
        """Whether nothing comes any more."""

    def snapshot(self) -> Snapshot:
        """The state at the end of the next step."""

    def wait(self, after: int, timeout: float | None = None) -> int:
        """The number of the commit at which the next step ends; ``after`` where there is none."""


class Feed:
    """The commits of one database as one consumer sees them.

    ``wake`` and ``close`` may be called by any thread and by signal handlers, also by one that interrupts ``wait``: no lock of
    Python's is involved.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._polls = store.mode == "r"
        self._version = store.version
        self._listeners = store.listeners
        self._listeners.add(self)
        self.closed = False

    def snapshot(self) -> Snapshot:
        """The newest visible state."""
        if self.closed:
            raise Closed("the live query was closed")
        return self._store.refresh()

    def wait(self, after: int, timeout: float | None = None) -> int:
        """The number of the newest visible commit: once it is above ``after``, after ``timeout`` seconds, or when it is closed.

        Also once tables may be others: what is followed may be gone, though no commit comes any more.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _POLL_FIRST
        while True:
            newest = after if self.closed else self._store.newest()
            if newest > after or self.closed:
                return newest
            version = self._store.version
            if version != self._version:
                self._version = version
                return newest
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return newest
            if self._polls:
                left, pause = pause if left is None else min(left, pause), min(2 * pause, _POLL_MAX)
            with suppress(Empty):
                self._woken.get(timeout=LOOK_UP_S if left is None else min(left, LOOK_UP_S))
                while True:  # one look serves all that woke it so far
                    self._woken.get_nowait()

    def wake(self) -> None:
        """More may be visible."""
        if self._woken.empty():
            self._woken.put(None)

    def close(self) -> None:
        """Wake whoever waits; nothing comes any more."""
        self.closed = True
        self._listeners.discard(self)
        self._woken.put(None)
