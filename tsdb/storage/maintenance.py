"""Work that nobody waits for: flushes when memory or the log is full or old, syncs by the clock, compaction.

In the background two threads do it, one that keeps memory within its bounds and one that compacts, which may take long and holds up
nobody. They end with their store however that ends. Without them the same work is done by the commit after which it is due, so
that tests decide when things happen.
"""

from __future__ import annotations

import time

from tsdb.storage.compactor import Compactor
from tsdb.storage.worker import LOOK_SECONDS, Worker
from tsdb.storage.writer import Writer

#: Seconds between two syncs under durability 'interval'.
SYNC_SECONDS = 0.2
#: Seconds after which rows leave the memory even where they are few: whoever opens the database reads the log first.
FLUSH_SECONDS = 60.0
#: Commits after which they do, however small.
COMMITS_MAX = 20_000
#: Bytes of the log after which commits look how full the memory is, or a small share of what it may hold.
_LOOK_BYTES = 65_536


class Maintenance:
    """Keeps one writer's memory and files in shape."""

    def __init__(self, writer: Writer, *, memory_bytes: int, background: bool) -> None:
        """``memory_bytes``: what memtables may hold before they are flushed; commits wait at twice as much."""
        self.compactor = Compactor(writer, 2 * memory_bytes)
        self._writer = writer
        self._limit = memory_bytes
        self._background = background
        self._flushing = Worker("tsdb-flush")
        self._compacting = Worker("tsdb-compact")
        self._flushed_at = time.monotonic()
        #: The position of the log from which the next commit looks how much is in memory.
        self._look_at = 0

    def start(self) -> None:
        """Begin the background work: also what nobody writes to grows old."""
        if self._background:
            self._flushing.start(self._writer, self._tend)

    def after_commit(self) -> None:
        """Called by every commit: see to it that memory does not grow beyond its bounds."""
        if self._background:
            position = self._writer.log.position
            if position < self._look_at and not self._writer.untidy:
                return
            self._look_at = position + min(_LOOK_BYTES, self._limit // 64)
        full = self._is_full(1)
        due = full or self._writer.untidy
        if not self._background:
            if due:
                self._tend()
                self._compact()
            return
        worker = self._flushing
        if due:
            worker.wake()
        if full and self._is_full(2):
            with worker.changed:  # the next flush empties the memory, or fails and stops all commits
                while self._is_full(2) and self._writer.failure is None and not worker.stopped:
                    worker.changed.wait(LOOK_SECONDS)

    def _is_full(self, times: int) -> bool:
        versions, writer = self._writer.versions, self._writer
        if writer.sequence - versions.manifest.sequence >= times * COMMITS_MAX:
            return True
        return versions.memory_bytes >= times * self._limit or writer.log.bytes >= 4 * times * self._limit

    def stop(self) -> None:
        """End the background work; waits for what it is at."""
        self._flushing.stop()
        self._compacting.stop()

    def _tend(self) -> float:
        """Keep memory and log within their bounds. Failures are kept by the writer, which tells the next who commits."""
        writer = self._writer
        try:
            if writer.untidy:
                writer.tidy()
            if writer.durability == "interval":
                writer.log.sync(writer.log.position)
            if self._is_full(1) or time.monotonic() - self._flushed_at > FLUSH_SECONDS:
                self._flushed_at = time.monotonic()
                writer.flush()
        except Exception as error:  # noqa: BLE001 (commits wait for this work, and must hear what became of it)
            writer.failure = writer.failure or f"{type(error).__name__}: {error}"
        if self._background and self.compactor.is_due:
            self._compacting.start(self._writer, self._compact)
            self._compacting.wake()
        return SYNC_SECONDS if writer.durability == "interval" else LOOK_SECONDS

    def _compact(self) -> float:
        if self._writer.failure is None:
            self._writer.reclaim()
            self.compactor.run_due(lambda: self._compacting.stopped)
        return 60 * LOOK_SECONDS  # files expire without anybody writing
