"""Leases: how readers in other processes keep the files of their snapshot.

    lease/<pid>-<number>    one line: the manifest version that the reader's snapshot is of

A reader holds an advisory lock on its lease for as long as it lives, however it ends; a lease that nobody has locked is rubbish.
Version 0, which a lease begins with, keeps everything: between reading CURRENT and saying so nothing may go. Leases are a courtesy:
a reader that cannot write into the directory goes without one. The writer never waits for a reader.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from contextlib import suppress
from pathlib import Path

#: Folder of the leases in a database directory.
FOLDER = "lease"
_NUMBERS = itertools.count()


class Lease:
    """A reader's lease. ``renew`` it whenever the snapshot moves on, then ``release`` it."""

    def __init__(self, root: Path) -> None:
        self._path = root / FOLDER / f"{os.getpid()}-{next(_NUMBERS)}"
        self._handle = -1
        self._owner = os.getpid()
        with suppress(OSError):
            self._path.parent.mkdir(exist_ok=True)
            self._handle = hold(self._path)

    @property
    def held(self) -> bool:
        """Whether the writer will respect it."""
        return self._handle >= 0

    def renew(self, version: int) -> None:
        """From now on only files that manifest ``version`` or a later one names are kept."""
        if self._handle >= 0:
            with suppress(OSError):
                os.pwrite(self._handle, b"%020d\n" % version, 0)

    def release(self) -> None:
        """Give the lease up; a forked child leaves its parent's as it is."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            if self._owner == os.getpid():
                with suppress(OSError):
                    os.unlink(self._path)
            os.close(handle)

    def __del__(self) -> None:
        self.release()


def hold(path: Path) -> int:
    """Make a file that says version 0, and lock it: its handle, to be closed by whoever holds it. Raises OSError."""
    for _ in range(8):  # whoever sweeps may find it before it is locked, and take it for rubbish
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        held = False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.pwrite(handle, b"%020d\n" % 0, 0)
            with suppress(FileNotFoundError):
                held = os.stat(path).st_ino == os.fstat(handle).st_ino
            if held:
                return handle
        except OSError:  # a full disk, a file system without locks
            os.unlink(path)
            raise
        finally:
            if not held:
                os.close(handle)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))


def oldest_leased(root: Path) -> int | None:
    """The oldest manifest version that a living reader holds; None where there is none. Dead readers' leases are removed."""
    oldest: int | None = None
    folder = root / FOLDER
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in names:
        with suppress(OSError):
            version = _leased(folder / name)
            if version is not None:
                oldest = version if oldest is None else min(oldest, version)
    return oldest


def _leased(path: Path) -> int | None:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 32, 0).strip()
        return int(text) if text.isdigit() else 0
    else:
        os.unlink(path)
        return None
    finally:
        os.close(handle)
