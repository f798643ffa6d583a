"""Temporary data files: what a request writes because memory should not hold it, and nobody is to find afterwards.

    temporary/<pid>-<number>    locked for as long as files are made under it;    temporary/<pid>-<number>.<anything>    these files

A place is registered, by its locked file, before anything is written there. A file that is whole is mapped and then loses its name:
it lasts for as long as somebody reads it, however that ends, and no longer. So nothing is left but what a process leaves that dies
while it writes, which is swept: by the next writer that opens the database, and by the next place that is registered. Processes
that read the database have such files too, where they may write into its directory.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tsdb.storage.lease import hold
from tsdb_format.disk import DISK, Storage

#: Folder of temporary files in a database directory.
FOLDER = "temporary"
_NUMBERS = itertools.count(1)


@contextmanager
def place(root: Path, storage: Storage = DISK) -> Iterator[str]:
    """A path, relative to the database, that files may be made under (with a dot and more behind it) until the block is left.

    Then they lose their names. Raises OSError where nothing can be written.
    """
    sweep(root, storage)
    name = f"{FOLDER}/{os.getpid()}-{next(_NUMBERS)}"
    (root / FOLDER).mkdir(exist_ok=True)
    handle = hold(root / name)
    try:
        yield name
    finally:
        with suppress(OSError):  # what cannot be removed now is left to the next sweep
            _remove(root / name, storage)
        os.close(handle)


def is_possible(root: Path) -> bool:
    """Whether this process may have temporary files in a database."""
    try:
        (root / FOLDER).mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(root / FOLDER, os.W_OK | os.X_OK)


def sweep(root: Path, storage: Storage = DISK) -> None:
    """Remove what dead processes have left."""
    stems = {name.partition(".")[0] for name in storage.list(str(root / FOLDER))}
    for stem in sorted(stems):
        with suppress(OSError):
            _sweep(root / FOLDER / stem, storage)


def _sweep(path: Path, storage: Storage) -> None:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # files come after their lock, and go before it
        _remove(path, storage)
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path, storage)
    except BlockingIOError:
        return
    finally:
        os.close(handle)


def _remove(path: Path, storage: Storage) -> None:
    """Remove the files of a place, then its lock; one that cannot be removed keeps the lock for the next sweep."""
    for name in storage.list(str(path.parent)):
        if name.startswith(f"{path.name}."):
            storage.remove(str(path.parent / name))
    with suppress(FileNotFoundError):
        os.unlink(path)
