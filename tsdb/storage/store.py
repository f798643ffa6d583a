"""The store: one database directory, its manifest, its lock, and the way that batches become commits.

    LOCK  CURRENT  manifest/<version>.json  table/<id>/<number>.tsf .res  table/<id>/<number>.dev

Every change is a new manifest version. The files of a commit are durable before the manifest that names them is, so that a crash at
any point leaves the old state or the new one, and at most files that nobody names, which the next writer removes. Readers in other
processes never take part in locking: they read CURRENT, and files never change. Files of dropped tables are deleted once no
snapshot of this process uses them; other processes keep what they have mapped, as the operating system does for deleted files.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.device_file import SUFFIX, read_device_file, write_device_file
from tsdb.catalog.table import FILES_FOLDER, Table, TableOptions, check_columns
from tsdb.settings import cpu_count
from tsdb.storage import manifest as manifests
from tsdb.storage.arrange import PARALLEL_ROWS_MIN, arrange
from tsdb.storage.batch import Pieces, RowBatch, check_batch
from tsdb.storage.existing import count_existing
from tsdb.storage.flush import FILE_SUFFIX, remove, remove_files, sweep, write_rows
from tsdb.storage.lock import LOCK_NAME, WriterLock
from tsdb.storage.manifest import FileEntry, Manifest, SourceEntry, TableEntry
from tsdb.storage.snapshot import LazyTables, OpenFile, Pin, Snapshot, TableSnapshot
from tsdb_format.errors import Closed, Error, InvalidInput, Locked, NotFound, ReadOnly
from tsdb_format.schema import Schema
from tsdb_format.types import Role
from tsdb_format.vector import Vector

#: Entries of a directory that may become a database although it is not empty: what editors and file managers leave behind.
_HARMLESS = frozenset({LOCK_NAME, ".DS_Store", ".gitkeep", "lost+found"})


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a write did: rows new to the table, rows that overlaid another one, and the commit's sequence number."""

    inserted: int
    updated: int
    sequence: int


class Store:
    """An open database directory. Thread-safe: writes take turns, snapshots are free."""

    def __init__(
        self, root: Path, mode: str, lock: WriterLock | None, loaded: Manifest, threads: int, clock_ns: Callable[[], int]
    ) -> None:
        self.root = root
        self.path = str(root)
        self.mode = mode
        self.threads = threads
        self._clock_ns = clock_ns
        self._lock = lock
        self._failure: str | None = None
        self._closed = False
        self._writing = threading.RLock()
        self._state = threading.Lock()
        self._files: dict[str, OpenFile] = {}
        self._devices: dict[str, DeviceTable] = {}
        self._pins: weakref.WeakSet[Pin] = weakref.WeakSet()
        self._dropped: set[str] = set()
        self._retired: list[str] = []
        self._manifest = loaded
        self._snapshot = self._make_snapshot(loaded)

    @classmethod
    def open(cls, path: str | Path, mode: str = "rw", *, threads: int = 0, clock_ns: Callable[[], int] = time.time_ns) -> Store:
        """Open for writing ('rw', created if absent, one handle at a time) or reading ('r'). ``threads`` 0 means one per CPU.

        Raises Locked, NotFound, Corruption, UnsupportedFormat, InvalidInput, and Error where the system refuses.
        """
        if mode not in ("r", "rw"):
            raise InvalidInput(f"mode is 'r' or 'rw', not {mode!r}")
        root = Path(os.path.abspath(os.path.expanduser(path)))
        try:
            return cls._open(root, mode, threads or cpu_count(), clock_ns)
        except Error:  # Locked is an OSError too
            raise
        except OSError as error:
            purpose = "reading" if mode == "r" else "writing"
            raise Error(f"{root} cannot be opened for {purpose}: {error.strerror}: {error.filename}") from error

    @classmethod
    def _open(cls, root: Path, mode: str, threads: int, clock_ns: Callable[[], int]) -> Store:
        if mode == "r":
            if not root.is_dir():
                raise NotFound(f"no database {root}")
            return cls(root, mode, None, manifests.load(root), threads, clock_ns)
        _check_place(root)
        root.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(root)
        try:
            loaded = _load_or_create(root)
            sweep(root, FILES_FOLDER, loaded.names)
            for name in manifests.versions(root):
                if name != loaded.name:
                    remove(root / name)
            return cls(root, mode, lock, loaded, threads, clock_ns)
        except BaseException:
            lock.release()
            raise

    def snapshot(self) -> Snapshot:
        """The newest committed state this handle knows; a reader sees other processes' commits after ``refresh``."""
        self._check_open()
        return self._snapshot

    def refresh(self) -> Snapshot:
        """Pick up what another process committed since; cheap where there is nothing new. A writer's state is always the newest."""
        self._check_open()
        if self.mode == "r" and manifests.current_name(self.root) != self._manifest.name:
            newest = manifests.load(self.root)
            with self._state:
                if newest.version > self._manifest.version:
                    self._install(newest)
        return self._snapshot

    def tables(self) -> dict[str, Table]:
        """The tables by name, opening no file."""
        self._check_open()
        return {name: entry.table for name, entry in self._manifest.tables.items()}

    def table(self, name: str) -> Table:
        """A table by its exact name or, failing that, whatever the case. Raises NotFound with the nearest name."""
        return self.entry(name).table

    def entry(self, name: str) -> TableEntry:
        """A table with its files and sources. Raises NotFound."""
        self._check_open()
        return manifests.require(self._manifest, name)

    def open_file(self, entry: TableEntry, file: FileEntry) -> OpenFile:
        """The one handle that this store has of a data file; nothing is opened yet."""
        found = self._files.get(file.name)
        if found is None:
            found = OpenFile(self.root, file, lambda: self._device_table(entry))
            found = self._files.setdefault(file.name, found)
        return found

    def create_table(self, name: str, schema: Schema, options: TableOptions | None = None, *, if_not_exists: bool = False) -> Table:
        """Add an empty table; raises InvalidInput where the name is taken, unless ``if_not_exists``."""
        with self._writing:
            self._check_writable()
            if if_not_exists:
                try:
                    return self.table(name)
                except NotFound:
                    pass
            manifests.check_name(self._manifest, name)
            check_columns(schema.columns)
            next_column = 1 + max(column.id for column in schema)
            table = Table(self._manifest.next_table, name, schema, options or TableOptions(), next_column)
            self._commit(replace(self._manifest.with_table(TableEntry(table)), next_table=table.id + 1))
            return table

    def drop_table(self, name: str, *, if_exists: bool = False) -> bool:
        """Remove a table and its files; whether there was one. Raises NotFound unless ``if_exists``."""
        with self._writing:
            self._check_writable()
            try:
                table = self.table(name)
            except NotFound:
                if if_exists:
                    return False
                raise
            self._commit(self._manifest.without_table(table.name))
            self._dropped.add(table.folder)
            with suppress(OSError):  # the table is gone; what cannot be deleted now is tried again
                self._delete_unpinned()
            return True

    def write_batch(self, table: str, columns: Mapping[str, Vector]) -> WriteReport:
        """Commit rows, unsorted and with duplicates as they come. Columns left out are NULL; types must match exactly.

        Raises InvalidInput (nothing was changed), NotFound, ReadOnly, Closed, Error where the disk refuses (nothing was changed).
        """
        return self.write_pieces(table, columns)

    def write_pieces(self, table: str, columns: Mapping[str, Vector | Pieces], sources: Sequence[SourceEntry] = ()) -> WriteReport:
        """As ``write_batch``, of columns that come in pieces; ``sources`` are recorded in the same commit, also without rows."""
        with self._writing:
            self._check_writable()
            entry = self.entry(table)
            batch = check_batch(entry.table.schema, columns) if columns else None
            recorded = {**entry.sources, **{source.path: source for source in sources}}
            if batch is None or not batch.row_count:
                if sources:
                    self._commit(self._manifest.with_table(replace(entry, sources=recorded)))
                return WriteReport(0, 0, self._manifest.sequence)
            threads = self.threads if batch.row_count >= PARALLEL_ROWS_MIN else 1
            return self._write(replace(entry, sources=recorded), batch, threads)

    def close(self) -> None:
        """Release the lock and forget open files. Snapshots still held stay readable as far as they are open."""
        with self._writing, self._state:
            if self._closed:
                return
            self._closed = True
            self._files.clear()
            self._devices.clear()
            if self._lock is not None and self._lock.held:
                remove_files(self.root, self._retired)
                self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, entry: TableEntry, batch: RowBatch, threads: int) -> WriteReport:
        table, sequence, before = entry.table, self._manifest.sequence + 1, self._manifest.name
        known = self._device_table(entry)
        numbers, devices = known.resolve(batch.given(Role.TAG), batch.row_count)
        attributes = batch.given(Role.ATTRIBUTE)
        if attributes:
            devices = devices.with_attributes(numbers, attributes)
        older = [self.open_file(entry, file) for file in entry.files] if table.options.mode == "table" else []
        (self.root / table.folder).mkdir(parents=True, exist_ok=True)
        number = self._manifest.next_file
        files: list[FileEntry] = []
        names: list[str] = []
        overlaid = existing = 0
        try:
            for rows in arrange(batch, numbers, devices.rank, devices.by_rank, table.options, threads):
                names.append(f"{table.folder}/{number:010}{FILE_SUFFIX}")
                overlaid += rows.overlaid
                existing += count_existing(older, devices.count, rows, table.schema.time.name)
                files.append(write_rows(self.root, names[-1], table, devices, rows, sequence, threads))
                number += 1
            device_file = entry.device_file
            if devices is not known or device_file is None:
                device_file = f"{table.folder}/{number:010}{SUFFIX}"
                names.append(device_file)
                write_device_file(str(self.root / device_file), devices)
                self._devices[device_file] = devices
                number += 1
            changed = replace(entry, files=entry.files + tuple(files), device_file=device_file)
            self._commit(replace(self._manifest.with_table(changed), sequence=sequence, next_file=number))
        except BaseException as error:
            if manifests.current_name(self.root) == before:
                remove_files(self.root, names)
                for name in names:
                    self._devices.pop(name, None)
            if isinstance(error, OSError):
                raise Error(f"nothing was written to table {table.name!r}: {error}") from error
            raise
        return WriteReport(batch.row_count - overlaid - existing, overlaid + existing, sequence)

    def _commit(self, changed: Manifest) -> None:
        """Make a manifest the current one. Where that fails half-way the handle takes no more writes."""
        before = self._manifest
        changed = replace(changed, version=before.version + 1)
        try:
            manifests.save(self.root, changed)
            with self._state:
                self._install(changed)
        except BaseException as error:
            if manifests.current_name(self.root) == before.name:
                remove(self.root / changed.name)
            elif self._manifest is not changed:
                self._failure = f"a commit failed half-way ({error!r}); open the database again to see how far it got"
            if isinstance(error, OSError):
                raise Error(f"the commit to {self.root} failed: {error}") from error
            raise
        with suppress(OSError):
            self._retire(before, changed)

    def _retire(self, before: Manifest, changed: Manifest) -> None:
        """Delete what became obsolete with the commit before this one, and keep in mind what did with this one."""
        remove_files(self.root, self._retired)
        old = {entry.device_file for entry in before.tables.values()} - {entry.device_file for entry in changed.tables.values()}
        self._retired = [before.name, *(name for name in old if name is not None)]
        self._delete_unpinned()

    def _delete_unpinned(self) -> None:
        """Delete the folders of dropped tables that no snapshot of this process can still ask for."""
        if not self._dropped:
            return
        pinned = frozenset().union(*(pin.folders for pin in list(self._pins)))
        for folder in sorted(self._dropped - pinned):
            sweep(self.root, folder, frozenset())
            if (self.root / folder).is_dir() and not any((self.root / folder).iterdir()):
                (self.root / folder).rmdir()
            self._dropped.discard(folder)

    def _install(self, changed: Manifest) -> None:
        self._manifest = changed
        self._snapshot = self._make_snapshot(changed)
        names = changed.names
        for cache in (self._files, self._devices):
            for name in list(cache):  # a copy: readers open files of their snapshots meanwhile
                if name not in names:
                    cache.pop(name, None)

    def _make_snapshot(self, manifest: Manifest) -> Snapshot:
        pin = Pin(frozenset(entry.table.folder for entry in manifest.tables.values()))
        self._pins.add(pin)

        def make(name: str) -> TableSnapshot:
            entry = manifest.tables[name]
            files = tuple(self.open_file(entry, file) for file in entry.files)
            return TableSnapshot(entry.table, files, self._device_table(entry), manifest.sequence, self._clock_ns, pin)

        definitions = {name.lower(): entry.table for name, entry in manifest.tables.items()}
        return Snapshot(manifest.version, manifest.sequence, LazyTables(tuple(manifest.tables), make), pin, definitions)

    def _device_table(self, entry: TableEntry) -> DeviceTable:
        """The devices of a table version. Numbers never change, so a newer version of the file serves where the old one is gone."""
        table = entry.table
        if entry.device_file is None:
            return DeviceTable.empty(table.schema)
        devices = self._devices.get(entry.device_file)
        if devices is not None:
            return devices
        try:
            devices = read_device_file(str(self.root / entry.device_file), table.schema)
        except NotFound:
            newer = manifests.load(self.root).tables.get(table.name)
            if newer is None or newer.table.id != table.id or newer.device_file in (None, entry.device_file):
                raise
            return self._device_table(newer)
        current = self._manifest.tables.get(table.name)
        if current is not None and current.device_file == entry.device_file:
            self._devices[entry.device_file] = devices
        return devices

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the database {self.root} was closed")

    def _check_writable(self) -> None:
        self._check_open()
        if self.mode == "r":
            raise ReadOnly(f"{self.root} was opened for reading")
        if self._lock is not None and not self._lock.held:
            raise Locked(f"{self.root} was opened for writing before this process was forked; open it again", pid=os.getppid())
        if self._failure is not None:
            raise Error(f"{self.root} takes no more writes: {self._failure}")


def _check_place(root: Path) -> None:
    """Refuse to make a database out of a file, or of a directory that holds something else."""
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"{root} is a file, not a database directory")
    if root.is_dir() and not (root / manifests.CURRENT_NAME).exists() and not manifests.versions(root):
        begun = {name for name in (manifests.FOLDER, FILES_FOLDER) if (root / name).is_dir() and not any((root / name).iterdir())}
        others = sorted({path.name for path in root.iterdir()} - _HARMLESS - begun)
        if others:
            raise InvalidInput(f"{root} is no database and not empty: it holds {others[0]!r}")


def _load_or_create(root: Path) -> Manifest:
    try:
        loaded = manifests.load(root)
    except NotFound:
        (root / manifests.FOLDER).mkdir(exist_ok=True)
        (root / FILES_FOLDER).mkdir(exist_ok=True)
        loaded = Manifest()
        manifests.save(root, loaded)
    if manifests.current_name(root) is None:
        manifests.save(root, loaded)  # CURRENT was lost: name again what was found
    return loaded
