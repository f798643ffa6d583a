"""Work that nobody waits for: flushes when memory or the log is full or old, syncs by the clock, compaction.

In the background one thread does it, which ends with its store however that ends. Without it the same work is done by the commit
after which it is due, so that tests decide when things happen.
"""

from __future__ import annotations

import threading
import time
import weakref
from contextlib import suppress

from tsdb.storage.compactor import Compactor
from tsdb.storage.writer import Writer
from tsdb_format.errors import Error

#: Seconds between two syncs under durability 'interval'.
SYNC_SECONDS = 0.2
#: Seconds after which rows leave the memory even where they are few.
FLUSH_SECONDS = 300.0


class _Signal:
    """What the thread and those who commit tell each other. The thread holds nothing else while it waits."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.due = False
        self.stopped = False
        self.thread: threading.Thread | None = None

    def wait(self, seconds: float) -> bool:
        """Sleep until something is due or the time is over; whether to go on."""
        with self.changed:
            if not self.due and not self.stopped:
                self.changed.wait(seconds)
            return not self.stopped

    def set(self, *, due: bool) -> None:
        """Say that something is due, or no longer."""
        with self.changed:
            self.due = due
            self.changed.notify_all()

    def stop(self) -> None:
        """End the thread; waits for what it is at."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        thread = self.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


class Maintenance:
    """Keeps one writer's memory and files in shape."""

    def __init__(self, writer: Writer, *, memory_bytes: int, background: bool) -> None:
        """``memory_bytes``: what memtables may hold before they are flushed; commits wait at twice as much."""
        self.compactor = Compactor(writer, 2 * memory_bytes)
        self._writer = writer
        self._limit = memory_bytes
        self._background = background
        self._signal = _Signal()
        self._flushed_at = time.monotonic()

    def after_commit(self) -> None:
        """Called by every commit: see to it that memory does not grow beyond its bounds."""
        full = self._is_full(1)
        due = full or self._writer.untidy
        if not self._background:
            if due:
                self.tend()
            return
        signal = self._signal
        if signal.thread is None:
            self._start()
        if due and not signal.due:
            signal.set(due=True)
        if full and self._is_full(2):
            with signal.changed:  # the next flush empties the memory, or fails and stops all commits
                while self._is_full(2) and self._writer.failure is None and not signal.stopped:
                    signal.changed.wait(1.0)

    def _is_full(self, times: int) -> bool:
        return self._writer.versions.memory_bytes >= times * self._limit or self._writer.log.bytes >= 4 * times * self._limit

    def stop(self) -> None:
        """End the background work; waits for what it is at."""
        self._signal.stop()

    def _start(self) -> None:
        signal = self._signal
        with signal.changed:
            if signal.thread is None and not signal.stopped:
                signal.thread = threading.Thread(
                    target=_run, args=(signal, weakref.ref(self)), name="tsdb-maintenance", daemon=True
                )  # fmt: skip
                weakref.finalize(self._writer, signal.stop)
                signal.thread.start()

    @property
    def pause(self) -> float:
        """Seconds between two looks at the clock."""
        return SYNC_SECONDS if self._writer.durability == "interval" else 1.0

    def tend(self) -> None:
        """Do what is due. Failures are kept by the writer, which tells the next who commits."""
        writer = self._writer
        if writer.untidy:
            writer.tidy()
        with suppress(Error, OSError):
            if writer.durability == "interval":
                writer.log.sync(writer.log.position)
            if self._is_full(1) or time.monotonic() - self._flushed_at > FLUSH_SECONDS:
                self._flushed_at = time.monotonic()
                writer.flush()
        self._signal.set(due=False)
        if writer.failure is None:
            self.compactor.run_due(lambda: self._signal.stopped or self._is_full(1))


def _run(signal: _Signal, reference: weakref.ref[Maintenance]) -> None:
    seconds = 1.0
    while signal.wait(seconds):
        maintenance = reference()
        if maintenance is None:
            return
        maintenance.tend()
        seconds = maintenance.pause
        del maintenance
