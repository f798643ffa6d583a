"""Every operating-system call of the file format, in one place: map a file for reading, and write one that is whole or absent.

A new file is written under ``<path>.tmp``, synced, renamed, and its directory synced: after a crash there is the old state or the
new one, and a left-over ``.tmp`` is rubbish that nobody reads.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from tsdb_format.errors import Error, NotFound
from tsdb_format.vector import ByteArray

#: Suffix of files that are still being written.
PENDING_SUFFIX = ".tmp"
#: Reserve no swap for a private mapping that nobody writes to (Linux's value; Python names it from 3.13 on).
_NO_RESERVE = 0x4000 if os.uname().sysname == "Linux" else 0


def map_file(path: str) -> ByteArray:
    """The file's bytes as an array, mapped copy-on-write: kernels may take it as writable, nothing reaches the file.

    The mapping lives as long as an array that views it. Raises NotFound, and Error where the system refuses.
    """
    try:
        return _map(path)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no file {path}") from None
    except OSError as error:
        if error.errno != errno.EMFILE or not _raise_file_limit():
            raise Error(f"{path} cannot be read: {error.strerror}") from error
        return _map(path)


def _map(path: str) -> ByteArray:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(handle).st_size
        if size == 0:
            return np.empty(0, np.uint8)
        flags, access = mmap.MAP_PRIVATE | _NO_RESERVE, mmap.PROT_READ | mmap.PROT_WRITE
        return np.frombuffer(mmap.mmap(handle, size, flags=flags, prot=access), np.uint8)
    finally:
        os.close(handle)


def _raise_file_limit() -> bool:
    """Allow this process all the open files the system grants, since Python keeps mapped files open; whether that is more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class NewFile:
    """A file being written: ``write`` in order, then ``commit``; leaving the block without its name removes it."""

    __slots__ = ("_handle", "_named", "path", "position")

    def __init__(self, path: str) -> None:
        self.path = path
        self.position = 0
        self._named = False
        self._handle = os.open(path + PENDING_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def write(self, data: bytes | bytearray | memoryview | NDArray[np.generic]) -> None:
        """Append bytes; arrays must be C-contiguous."""
        view = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data).cast("B")
        self.position += len(view)
        while view:
            view = view[os.write(self._handle, view) :]

    def align(self, size: int) -> None:
        """Append zeros up to a multiple of ``size``."""
        self.write(bytes(-self.position % size))

    def commit(self, *, sync: bool = True, sync_name: bool = True) -> None:
        """Give the file its name. With ``sync`` its bytes survive a crash from then on; with ``sync_name`` too, its name."""
        if sync:
            os.fsync(self._handle)
        self._close()
        os.rename(self.path + PENDING_SUFFIX, self.path)
        self._named = True
        if sync and sync_name:
            sync_directory(str(Path(self.path).parent))

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()
        if not self._named:
            with suppress(FileNotFoundError):
                os.unlink(self.path + PENDING_SUFFIX)

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
