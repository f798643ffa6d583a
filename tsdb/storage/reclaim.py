"""Taking away what no version of the database names any more, once nobody can ask for it.

A file is kept as long as a snapshot of this process (its pin) or of another one (its lease) is of a manifest version that names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tsdb.alive import Alive
from tsdb.catalog.table import FILES_FOLDER
from tsdb.storage.files import remove_files
from tsdb.storage.lease import oldest_leased
from tsdb.storage.snapshot import Pin
from tsdb_format.disk import DISK, Storage


class Pins:
    """The pins of one handle."""

    def __init__(self) -> None:
        self._alive: Alive[Pin] = Alive()

    def pin(self, version: int) -> Pin:
        """Keep the files of a version until the pin is gone."""
        made = Pin(version)
        self._alive.add(made)
        return made

    def oldest(self, newest: int) -> int:
        """The oldest version that is pinned, or ``newest``."""
        return min((pin.version for pin in self._alive), default=newest)


class Reclaimer:
    """The obsolete files of one writer's database. Used under the writer's lock."""

    def __init__(self, root: Path, storage: Storage = DISK) -> None:
        self._root = root
        self._storage = storage
        self.pins = Pins()
        self._obsolete: list[tuple[int, str]] = []

    def retire(self, version: int, names: Iterable[str]) -> None:
        """Note files that manifest ``version`` was the last to name."""
        self._obsolete += [(version, name) for name in names]

    def collect(self, current: int, *, pinned: bool = True) -> None:
        """Delete the files that no version from the oldest held one on names; ``current`` is the newest.

        Without ``pinned`` snapshots of this process do not count: they keep what they have open.
        """
        if not self._obsolete:
            return
        oldest = self.pins.oldest(current) if pinned else current
        leased = oldest_leased(self._root)
        oldest = min(oldest, current, current if leased is None else leased)
        free = [name for version, name in self._obsolete if version < oldest]
        self._obsolete = [(version, name) for version, name in self._obsolete if version >= oldest]
        remove_files(self._root, free, self._storage)
        for folder in sorted({(self._root / name).parent for name in free}):
            if folder.parent.name == FILES_FOLDER and not self._storage.list(str(folder)):
                folder.rmdir()
