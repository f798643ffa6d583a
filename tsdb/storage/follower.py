"""The reading half of a store: following what another process commits.

A reader sees the newest manifest and, over it, the log's tail in memtables of its own. It moves on when it is asked to, pays a look
at CURRENT and at the log's end where nothing is new, and takes its lease along. The writer knows nothing of it but the lease.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tsdb.storage import manifest as manifests
from tsdb.storage.lease import Lease
from tsdb.storage.log_tail import LogTail
from tsdb.storage.reclaim import Pins
from tsdb.storage.versions import LOG_FOLDER, Versions
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Corruption, NotFound

#: Times that a flush may overtake a reader that is about to read the log before it gives up.
_TRIES = 64


class Follower:
    """Keeps ``versions`` up with the database's writer. Thread-safe."""

    def __init__(self, root: Path, versions: Versions, pins: Pins, lease: Lease, storage: Storage = DISK) -> None:
        self._root = root
        self._versions = versions
        self._storage = storage
        self._pins = pins
        self._lease = lease
        self._leased = versions.manifest.version
        self._broken = False  # the memory holds part of what the log has: it has to be read anew
        self._tail = LogTail(str(root / LOG_FOLDER), storage)
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Pick up what was committed since."""
        with self._lock:
            for _ in range(_TRIES):
                if self._broken or manifests.current_name(self._root, self._storage) != self._versions.manifest.name:
                    self._move()
                if self._read_log():
                    self._renew()
                    return
        raise Corruption("the log goes on later than the manifest ends", path=str(self._root / LOG_FOLDER), offset=0)

    def _move(self) -> None:
        """Go over to the newest manifest and read the log anew from where it ends."""
        newest = manifests.load(self._root, self._storage)
        if self._broken or newest.version > self._versions.manifest.version:
            self._broken = True
            self._versions.install(newest, forget=True)
            self._tail = LogTail(str(self._root / LOG_FOLDER), self._storage)

    def _renew(self) -> None:
        """Let go of the files that no snapshot of this handle can ask for any more."""
        newest = self._versions.manifest.version
        if self._leased != newest:
            oldest = self._pins.oldest(newest)
            if oldest != self._leased:
                self._lease.renew(oldest)
                self._leased = oldest

    def _read_log(self) -> bool:
        """Take in what is new in the log; False where a flush was faster and the next manifest has it."""
        versions = self._versions
        last = versions.visible
        try:
            found = self._tail.poll(last)
        except NotFound:
            return False
        if not found and not self._broken:
            return True
        if self._broken and manifests.current_name(self._root, self._storage) != versions.manifest.name:
            return False  # a flush came between the two looks: what the log had may be in files by now
        self._broken = True
        _ = versions.snapshot()  # stands for all until what follows is published
        for sequence, change in found:
            if sequence != last + 1:
                return False
            versions.apply(sequence, change)
            last = sequence
        versions.publish(last)
        self._broken = False
        return True

    def close(self) -> None:
        """Give up the lease."""
        self._lease.release()
