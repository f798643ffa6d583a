"""The writer's lock: one process, and one handle in it, writes a database.

An advisory lock of the operating system on the file ``LOCK``, which dies with its process however that ends; the process id inside
only serves the error message. A forked child inherits the open file but not the right to write: it lets go of its copy at once,
since otherwise the lock would outlive the process that took it.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from tsdb_format.errors import Locked

#: Name of the lock file in the database directory.
LOCK_NAME = "LOCK"
_TAKEN: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class WriterLock:
    """Held from construction to ``release``. Raises Locked where somebody else holds it."""

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = self._holder()
            os.close(self._handle)
            if not isinstance(error, BlockingIOError):
                raise
            who = f"process {pid}" if pid not in (None, os.getpid()) else "this process" if pid else "another process"
            raise Locked(f"{folder} is open for writing in {who}", pid=pid) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)
        _TAKEN.add(self)

    @property
    def held(self) -> bool:
        """Whether this process holds the lock: not after ``release``, nor in a child that was forked since."""
        return self._handle >= 0

    def _holder(self) -> int | None:
        text = os.pread(self._handle, 32, 0).strip()
        return int(text) if text.isdigit() else None

    def release(self) -> None:
        """Let others write; does nothing when called again."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _let_go() -> None:
    """In a forked child: close the inherited copies, which leaves the parent's lock as it is."""
    for lock in list(_TAKEN):
        lock.release()


os.register_at_fork(after_in_child=_let_go)
