"""Threads that work in the background, each for one owner, and end with it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

#: Seconds between two looks at the clock.
LOOK_SECONDS = 1.0


class Worker:
    """A thread that does one kind of work when it is due. While it waits it holds nothing that would keep its owner alive."""

    def __init__(self, name: str) -> None:
        self.changed = threading.Condition()
        self.due = False
        self.stopped = False
        self._name = name
        self._owner = os.getpid()
        self._thread: threading.Thread | None = None

    def start(self, owner: object, work: Callable[[], float]) -> None:
        """Start the thread where it does not run. ``work`` is a method of ``owner`` and returns the seconds until the next look."""
        with self.changed:
            if self._thread is None and not self.stopped:
                target = weakref.WeakMethod(work)
                self._thread = threading.Thread(target=self._run, args=(target,), name=self._name, daemon=True)
                weakref.finalize(owner, self.stop)
                self._thread.start()

    def wake(self) -> None:
        """Say that something is due."""
        if not self.due:
            with self.changed:
                self.due = True
                self.changed.notify_all()

    def stop(self) -> None:
        """End the thread; waits for what it is at. In a forked child, where there is no thread, nothing is to be done."""
        if self._owner != os.getpid():
            return
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, target: Callable[[], Callable[[], float] | None]) -> None:
        seconds = LOOK_SECONDS
        while self._wait(seconds):
            work = target()
            if work is None:
                return
            seconds = work()
            del work
            with self.changed:
                self.changed.notify_all()

    def _wait(self, seconds: float) -> bool:
        """Sleep until something is due or the time is over; whether to go on."""
        with self.changed:
            if not self.due and not self.stopped:
                self.changed.wait(seconds)
            self.due = False
            return not self.stopped
