"""What is current: the newest manifest, the memtables over it, and the snapshots made of both.

Both kinds of handle keep one: the writer's moves on with its commits, a reader's with those of the writer it follows. Whatever was
handed out stays as it is. Open files and device tables are shared by all snapshots that name them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tsdb.alive import Alive
from tsdb.catalog.device import DeviceTable
from tsdb.catalog.device_file import read_device_file
from tsdb.catalog.table import Table
from tsdb.storage import manifest as manifests
from tsdb.storage.manifest import FileEntry, Manifest, TableEntry
from tsdb.storage.snapshot import LazyTables, OpenFile, Pin, Snapshot, TableSnapshot
from tsdb.storage.tombstone import Tombstones, read_tombstones
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Corruption, Error, NotFound
from tsdb_format.payload import PayloadFiles

if TYPE_CHECKING:
    from tsdb.storage.log_record import Change
    from tsdb.storage.memory_file import MemoryRun
    from tsdb.storage.memtable import MemoryView, Memtable

#: Folder of the log in a database directory.
LOG_FOLDER = "log"


class Listener(Protocol):
    """Whoever wants to know of commits."""

    def wake(self) -> None:
        """More may be visible."""


class Versions:
    """The state of one handle. ``install``, ``publish`` and ``memtable`` are for whoever moves it on, one at a time."""

    def __init__(
        self, root: Path, manifest: Manifest, clock_ns: Callable[[], int], pin: Callable[[int], Pin], storage: Storage = DISK
    ) -> None:
        """``pin`` keeps the files of a manifest version."""
        self.root = root
        self.manifest = manifest
        self.storage = storage
        #: The newest commit that snapshots show.
        self.visible = manifest.sequence
        #: Tables with commits in the log that could not be taken in, and why.
        self.unreadable: dict[str, Error] = {}
        self.clock_ns = clock_ns
        self._make_pin = pin
        self._pin = pin(manifest.version)
        self._memory: dict[int, Memtable] = {}
        self._files: dict[str, OpenFile] = {}
        self._devices: dict[str, DeviceTable] = {}
        self._tombstones: dict[str, Tombstones] = {}
        self._made: dict[str, tuple[TableEntry, MemoryView | None, TableSnapshot]] = {}
        self._snapshot: Snapshot | None = None
        #: Whoever is woken whenever more may be visible, by whoever commits.
        self.listeners: Alive[Listener] = Alive()
        self._lock = threading.Lock()

    # ------------------------------------------------------------------------------------------------ reading

    def snapshot(self) -> Snapshot:
        """The newest visible state; the same object until something changes."""
        found = self._snapshot
        if found is None:
            with self._lock:
                found = self._snapshot
                if found is None:
                    found = self._snapshot = self._capture(self.visible)
        return found

    def latest(self, sequence: int) -> Snapshot:
        """The state as of commit ``sequence``, visible or not yet: what the writer decides by."""
        with self._lock:
            return self._capture(sequence)

    def current(self) -> tuple[Manifest, Snapshot]:
        """The manifest, and the newest visible state over just that one."""
        with self._lock:
            return self.manifest, self._capture(self.visible)

    def _capture(self, sequence: int) -> Snapshot:
        manifest, pin = self.manifest, self._pin
        views = {number: memtable.view(sequence) for number, memtable in self._memory.items()}

        def make(name: str) -> TableSnapshot:
            entry = manifest.tables[name]
            return self._table(entry, views.get(entry.table.id), sequence, pin)

        definitions = {name.lower(): entry.table for name, entry in manifest.tables.items()}
        return Snapshot(
            manifest.version, max(sequence, manifest.sequence), LazyTables(tuple(manifest.tables), make), pin, definitions
        )

    def _table(self, entry: TableEntry, view: MemoryView | None, sequence: int, pin: Pin) -> TableSnapshot:
        """A table's snapshot: that of before where nothing of the table has changed, since operators keep things by it."""
        name = entry.table.name
        found = self._made.get(name)
        if found is not None and found[0] is entry and found[1] is view:
            return found[2]
        files = [self.open_file(entry, file) for file in entry.files]
        runs: tuple[MemoryRun, ...] = ()
        if view is None:
            devices, tombstones = self.device_table(entry), self.tombstones(entry)
        else:
            devices, tombstones = view.devices, view.tombstones
            memtable = self._memory.get(entry.table.id)
            runs = view.runs if memtable is None else memtable.merged(view, entry.table, self.visible)
        payloads = PayloadFiles(str(self.root / entry.table.folder), self.storage)
        made = TableSnapshot(
            entry.table, (*files, *runs), devices, sequence, self.clock_ns, pin, tombstones,
            entry.checkpoints if view is None else {**entry.checkpoints, **view.checkpoints}, payloads, forgotten=entry.forgotten,
        )  # fmt: skip
        if pin is self._pin:
            self._made[name] = entry, view, made
        return made

    def open_file(self, entry: TableEntry, file: FileEntry) -> OpenFile:
        """The one handle on a data file; nothing is opened yet."""
        found = self._files.get(file.name)
        if found is None:
            found = self._files.setdefault(file.name, OpenFile(self.root, file, lambda: self.device_table(entry), self.storage))
        return found

    def device_table(self, entry: TableEntry) -> DeviceTable:
        """The devices of a table version. Numbers never change, so a newer version of the file serves where the old one is gone."""
        table = entry.table
        if entry.device_file is None:
            return DeviceTable.empty(table.schema)
        devices = self._devices.get(entry.device_file)
        if devices is not None:
            return devices.under(table.schema)
        try:
            devices = read_device_file(str(self.root / entry.device_file), table.schema, self.storage)
        except NotFound:
            tables = manifests.load(self.root, self.storage).tables.values()
            newer = next((each for each in tables if each.table.id == table.id), None)
            if newer is None or newer.device_file in (None, entry.device_file):
                raise
            return self.device_table(newer).under(table.schema)
        self._keep(self._devices, entry, entry.device_file, devices)
        return devices

    def tombstones(self, entry: TableEntry) -> Tombstones:
        """The deletes that some file of a table version still needs."""
        name = entry.tombstones
        if name is None:
            return Tombstones.none()
        found = self._tombstones.get(name)
        if found is None:
            found = read_tombstones(str(self.root / name), self.storage)
            self._keep(self._tombstones, entry, name, found)
        return found

    def _keep(self, cache: dict[str, Any], entry: TableEntry, name: str, value: Any) -> None:
        current = self.manifest.tables.get(entry.table.name)
        if current is not None and name in (current.device_file, current.tombstones):
            cache[name] = value

    # ------------------------------------------------------------------------------------------------ moving on

    @property
    def memory(self) -> Mapping[int, Memtable]:
        """The memtables by table id."""
        return self._memory

    @property
    def memory_bytes(self) -> int:
        """Bytes of all memtables."""
        return sum(memtable.nbytes for memtable in list(self._memory.values()))

    def payload_names(self) -> set[str]:
        """The payload files of their tables that blobs in memory are in."""
        from tsdb.storage.blob_intake import payload_names

        runs = (run for memtable in self._memory.values() for run in memtable.view(self.visible).runs)
        return {name for run in runs for name in payload_names(run.table, run.rows.columns.values())}

    def memtable(self, entry: TableEntry) -> Memtable:
        """The memtable of a table, made when first needed. Raises Corruption where the table's devices cannot be read."""
        found = self._memory.get(entry.table.id)
        if found is None:
            from tsdb.storage.memtable import Memtable

            found = Memtable(entry.table, self.device_table(entry), self.tombstones(entry))
            with self._lock:
                self._memory = {**self._memory, entry.table.id: found}
        return found

    def apply(self, sequence: int, change: Change) -> None:
        """Take in a commit as the log has it; commits to tables that are gone are nothing.

        A table whose devices or deletes cannot be read is left out, and named in ``unreadable``: it raises when it is asked for.
        """
        for entry in self.manifest.tables.values():
            if entry.table.id == change.table:
                try:
                    memtable = self.memtable(entry)
                except (Corruption, NotFound) as error:
                    self.unreadable[entry.table.name] = error
                    return
                memtable.apply(sequence, change)
                return

    def publish(self, sequence: int) -> None:
        """Let snapshots show everything up to a commit."""
        with self._lock:
            if sequence > self.visible:
                self.visible = sequence
                for memtable in self._memory.values():
                    memtable.settle(sequence)
            self._snapshot = None
        self._wake()

    def _wake(self) -> None:
        for listener in self.listeners:
            listener.wake()

    def remember_devices(self, name: str, devices: DeviceTable) -> None:
        """Keep the devices that were just written to a device file."""
        self._devices[name] = devices

    def install(self, manifest: Manifest, memory: Iterable[Callable[[], None]] = (), *, forget: bool = False) -> None:
        """Go over to another manifest: rows that its files hold leave the memory, and what ``memory`` does to memtables is done.

        With ``forget`` all rows do, for the log to be read anew; until that is published the last snapshot stands for all.
        """
        if forget:
            _ = self.snapshot()
            self.unreadable = {}
        memory = tuple(memory)
        with self._lock:
            try:
                self._move(manifest, memory, forget)
            except BaseException:  # Ctrl-C: half moved, nothing could be read; every step may be done twice
                self._move(manifest, memory, forget)
                raise
        self._wake()

    def _move(self, manifest: Manifest, memory: Sequence[Callable[[], None]], forget: bool) -> None:
        tables = {entry.table.id: entry.table for entry in manifest.tables.values()}
        self._memory = {} if forget else {number: each for number, each in self._memory.items() if number in tables}
        for number, memtable in self._memory.items():
            memtable.drop(manifest.sequence)
            if memtable.table is not tables[number]:
                memtable.alter(tables[number])
        for change in memory:
            change()
        self.manifest = manifest
        self._pin = self._make_pin(manifest.version)
        if forget:
            self.visible = manifest.sequence
        else:
            self.visible = max(self.visible, manifest.sequence)
            self._snapshot = None
        self._made = {}
        names = manifest.names
        for cache in (self._files, self._devices, self._tombstones):
            for name in list(cache):  # a copy: readers open files of their snapshots meanwhile
                if name not in names:
                    cache.pop(name, None)

    def close(self) -> None:
        """Forget open files. Snapshots still held stay readable as far as they are open."""
        with self._lock:
            self._memory, self._snapshot = {}, None
            for cache in (self._files, self._devices, self._tombstones, self._made):
                cache.clear()


def table_names(manifest: Manifest) -> dict[str, Table]:
    """The tables by name."""
    return {name: entry.table for name, entry in manifest.tables.items()}
