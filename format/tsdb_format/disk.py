"""Where bytes are kept: the six operations that files need (``Storage``), the operating system's (``DISK``), and whole new files.

Whoever reads or writes takes a ``Storage``, so that tests can stop the world between any two operations or let one fail.

A new file is written under ``<path>.tmp``, synced, renamed, and its folder synced: after a crash there is the old state or the new
one, and a left-over ``.tmp`` is rubbish that nobody reads.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import resource
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tsdb_format.errors import Error, NotFound
from tsdb_format.vector import ByteArray

#: Suffix of files that are still being written.
PENDING_SUFFIX = ".tmp"
#: What files take: any bytes, or an array, which must be C-contiguous.
Writable = bytes | bytearray | memoryview | NDArray[np.generic]
#: Names in a folder. (Within ``Storage``, ``list`` is the method.)
Names = list[str]
#: Reserve no swap for a private mapping that nobody writes to (Linux's value; Python names it from 3.13 on).
_NO_RESERVE = 0x4000 if os.uname().sysname == "Linux" else 0
#: Arrays that the system fills in one call.
_PARTS_MAX = 1024
_T = TypeVar("_T")


class OutputFile(Protocol):
    """A file that grows at its end. One thread writes; another may ``sync`` meanwhile, but not while the file is closed."""

    @property
    def position(self) -> int:
        """Bytes written so far: where the next ones go. After a failed write it counts those that were written nevertheless."""

    def write(self, data: Writable) -> None:
        """Append bytes. They outlive this process, but not a crash of the machine. Raises OSError."""

    def sync(self, *, name: bool = False) -> None:
        """Make what was written until now survive a crash; with ``name`` that the file is there, by the name it was created under.

        Raises OSError; after that nothing is known of the bytes since the last sync, and another sync proves nothing.
        """

    def close(self) -> None:
        """Release the file; does not sync. Once closed it stays so without error. Raises OSError."""


class InputFile(Protocol):
    """A file that is read here and there. Stays readable after it is removed; threads may share it."""

    @property
    def size(self) -> int:
        """Its bytes when it was opened."""

    def read(self, position: int, parts: Sequence[ByteArray]) -> int:
        """Fill the arrays, end to end, with the bytes from ``position``; how many there were. Raises Error where refused."""


class Storage(Protocol):
    """A place for files. Paths are those of the operating system; a change is seen by every process at once.

    Whether it survives a crash of the machine is another matter: bytes do once their file is synced, names (and their removal) once
    their folder is, which ``rename`` and ``OutputFile.sync`` do where asked.
    """

    def read(self, path: str) -> ByteArray:
        """The bytes that the file has now. They stay readable after it is removed. Raises NotFound, and Error where refused.

        The array is typed writable for the kernels' sake, copy-on-write: nothing reaches the file.
        """

    def open(self, path: str) -> InputFile:
        """The file, for reading parts of it: where it is large, and little of it is to be in memory. Raises as ``read`` does."""

    def create(self, path: str, *, ahead: int = 0) -> OutputFile:
        """A new, empty file in the place of what has that name; missing folders are made, durably. Raises OSError.

        With ``ahead`` up to so many zero bytes may follow the end, for good: syncing a small write then changes bytes only and
        not the file's length, which takes the disk half as long. (Cutting them off would pull them away under whoever maps them.)
        """

    def rename(self, source: str, target: str, *, sync: bool = True) -> None:
        """Replace ``target`` by ``source`` in one step, durably unless ``sync`` is off: that makes all names in its folder durable.

        Raises OSError. Where syncing is what failed, the new name is there and may or may not survive a crash.
        """

    def remove(self, path: str) -> None:
        """Delete a file, if there is one; not durably. Raises OSError."""

    def list(self, folder: str) -> Names:
        """The names of a folder's files and folders, sorted; none where it does not exist. Raises OSError."""


class _DiskFile:
    __slots__ = ("_ahead", "_folder", "_handle", "_reserved", "position")

    def __init__(self, path: str) -> None:
        self.position = 0
        self._folder = os.path.dirname(path)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._ahead = self._reserved = 0

    def reserve(self, ahead: int) -> None:
        """Keep zero bytes after the end from now on."""
        self._ahead = ahead

    def write(self, data: Writable) -> None:
        view = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data).cast("B")
        if len(view) < self._ahead and self.position + len(view) > self._reserved:
            size = os.pwritev(self._handle, [view, bytes(self._ahead)], self.position)
            self._reserved = self.position + size
            size = min(size, len(view))
            self.position += size
            view = view[size:]
        while view:
            size = os.pwrite(self._handle, view, self.position)
            self.position += size
            view = view[size:]

    def sync(self, *, name: bool = False) -> None:
        _sync_bytes(self._handle)
        if name:
            _sync_folder(self._folder)

    def close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class _DiskInput:
    __slots__ = ("_handle", "path", "size")

    def __init__(self, path: str) -> None:
        self.path = path
        self._handle = -1
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._handle).st_size

    def read(self, position: int, parts: Sequence[ByteArray]) -> int:
        done = 0
        left = [part.data for part in parts if len(part)]
        try:
            while left:
                count = os.preadv(self._handle, left[:_PARTS_MAX], position + done)
                if not count:
                    break
                done += count
                while left and count >= len(left[0]):
                    count -= len(left.pop(0))
                if count:
                    left[0] = left[0][count:]
        except OSError as error:
            raise Error(f"{self.path} cannot be read: {error.strerror}") from error
        return done

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)


class _Disk:
    def read(self, path: str) -> ByteArray:
        try:
            return _with_more_files(_map, path)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"no file {path}") from None
        except OSError as error:
            raise Error(f"{path} cannot be read: {error.strerror}") from error

    def open(self, path: str) -> InputFile:
        try:
            return _with_more_files(_DiskInput, path)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"no file {path}") from None
        except OSError as error:
            raise Error(f"{path} cannot be read: {error.strerror}") from error

    def create(self, path: str, *, ahead: int = 0) -> OutputFile:
        try:
            file = _with_more_files(_DiskFile, path)
        except FileNotFoundError:
            _make_folder(os.path.dirname(path))
            file = _DiskFile(path)
        file.reserve(ahead)
        return file

    def rename(self, source: str, target: str, *, sync: bool = True) -> None:
        os.rename(source, target)
        if sync:
            _sync_folder(os.path.dirname(target))

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def list(self, folder: str) -> Names:
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []


#: The operating system's files.
DISK: Storage = _Disk()


class NewFile:
    """A file being written: ``write`` in order, then ``commit``; leaving the block without its name removes it."""

    __slots__ = ("_file", "_named", "_storage", "path")

    def __init__(self, path: str, storage: Storage = DISK) -> None:
        self.path = path
        self._storage = storage
        self._named = False
        self._file = storage.create(path + PENDING_SUFFIX)

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return self._file.position

    def write(self, data: Writable) -> None:
        """Append bytes; arrays must be C-contiguous. Raises OSError."""
        self._file.write(data)

    def align(self, size: int) -> None:
        """Append zeros up to a multiple of ``size``."""
        self.write(bytes(-self.position % size))

    def commit(self, *, sync: bool = True, sync_name: bool = True) -> None:
        """Give the file its name. With ``sync`` its bytes survive a crash from then on; with ``sync_name`` too, its name.

        Raises OSError; then there is what was there before, or, where only the name's sync failed, the new file.
        """
        if sync:
            self._file.sync()
        self._file.close()
        self._storage.rename(self.path + PENDING_SUFFIX, self.path, sync=sync and sync_name)
        self._named = True

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._named:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self._storage.remove(self.path + PENDING_SUFFIX)


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


def _with_more_files(call: Callable[[str], _T], path: str) -> _T:
    """Do what opens a file, and again where too many were open and more are allowed: Python keeps mapped files open."""
    try:
        return call(path)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == hard:
            raise
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return call(path)


def _sync_bytes(handle: int) -> None:
    """Make a file's bytes and length durable."""
    if sys.platform == "darwin":  # where fsync stops at the drive's cache, and some volumes know nothing better
        with suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
        os.fsync(handle)
    else:
        os.fdatasync(handle)


def _sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_folder(path: str) -> None:
    """Make a folder and those it lies in, each durable in the one above."""
    if path and not os.path.isdir(path):
        above = os.path.dirname(path)
        _make_folder(above)
        with suppress(FileExistsError):
            os.mkdir(path)
        _sync_folder(above)
