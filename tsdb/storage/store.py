"""The store: one database directory, opened for writing or for reading.

    LOCK  CURRENT  manifest/<version>.json  log/<sequence>.log  lease/…  table/<id>/<number>.tsf .res .dev .del

Commits go to the log and to memory, and in larger units to files that the next manifest version names (``writer``). The files of a
version are durable before the manifest that names them is, and the log is cut after it, so that a crash at any point leaves every
acknowledged commit and at most files that nobody names, which the next writer removes. Readers in other processes never take part
in locking: they read CURRENT and the log's tail (``follower``), and files never change. They load nothing of what writes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tsdb.catalog.device import Int32Array
from tsdb.catalog.table import FILES_FOLDER, Table, TableOptions
from tsdb.settings import cpu_count, memory_default
from tsdb.storage import manifest as manifests
from tsdb.storage import temporary
from tsdb.storage.files import remove_pending, sweep
from tsdb.storage.follower import Follower
from tsdb.storage.lease import Lease
from tsdb.storage.lock import LOCK_NAME, WriterLock
from tsdb.storage.manifest import FileEntry, Manifest, SourceEntry, TableEntry, ViewEntry
from tsdb.storage.reclaim import Pins, Reclaimer
from tsdb.storage.report import Edit, WriteReport
from tsdb.storage.snapshot import OpenFile, Snapshot, TableSnapshot
from tsdb.storage.versions import LOG_FOLDER, Versions, table_names
from tsdb_format.disk import DISK, PENDING_SUFFIX, Storage
from tsdb_format.errors import Closed, Error, InvalidInput, Locked, NotFound, ReadOnly
from tsdb_format.schema import Schema
from tsdb_format.vector import IntArray, Vector

if TYPE_CHECKING:
    from tsdb.alive import Alive
    from tsdb.storage.backup import BackupReport
    from tsdb.storage.batch import Pieces, RowBatch
    from tsdb.storage.maintenance import Maintenance
    from tsdb.storage.one_row import Row
    from tsdb.storage.versions import Listener
    from tsdb.storage.writer import Writer

__all__ = ["Edit", "Store", "WriteReport"]

#: Entries of a directory that may become a database although it is not empty: what editors and file managers leave behind.
_HARMLESS = frozenset({LOCK_NAME, ".DS_Store", ".gitkeep", "lost+found"})
#: The memtables' share of ``memory_limit``, and what they take at most: a flush needs a few times that.
_MEMORY_SHARE = 16
_MEMORY_MAX = 128 * 2**20
#: Bytes of the log from which closing flushes: the next open reads less of them anew than it would cost.
_CLOSE_FLUSH_BYTES = 4 * 2**20


class Store:
    """An open database directory. Thread-safe: writes take turns, snapshots are free."""

    def __init__(self, root: Path, mode: str, versions: Versions) -> None:
        self.root = root
        self.path = str(root)
        self.mode = mode
        self.threads = cpu_count()
        self._versions = versions
        self._writer: Writer | None = None
        self._maintenance: Maintenance | None = None
        self._follower: Follower | None = None
        self._lock: WriterLock | None = None
        self._closed = False
        #: Held by whoever closes the database, for those who want to go on when that is done.
        self.closing = threading.RLock()

    @classmethod
    def open(
        cls, path: str | Path, mode: str = "rw", *, threads: int = 0, clock_ns: Callable[[], int] = time.time_ns,
        durability: str = "commit", memory_limit: int = 0, background: bool = True, storage: Storage = DISK,
    ) -> Store:  # fmt: skip
        """Open for writing ('rw', created if absent, one handle at a time) or reading ('r'). ``threads`` 0 means one per CPU.

        ``memory_limit`` 0 is a quarter of the machine's; without ``background`` flushes and compaction are done by the commit
        after which they are due. Raises Locked, NotFound, Corruption, UnsupportedFormat, InvalidInput, and Error where the system
        refuses.
        """
        if mode not in ("r", "rw"):
            raise InvalidInput(f"mode is 'r' or 'rw', not {mode!r}")
        root = Path(os.path.abspath(os.path.expanduser(path)))
        try:
            if mode == "r":
                store = cls._open_reader(root, clock_ns, storage)
            else:
                memory = min((memory_limit or memory_default()) // _MEMORY_SHARE, _MEMORY_MAX)
                store = cls._open_writer(root, clock_ns, storage, threads or cpu_count(), durability, memory, background)
            store.threads = threads or cpu_count()
            return store
        except Error:  # Locked is an OSError too
            raise
        except OSError as error:
            purpose = "reading" if mode == "r" else "writing"
            raise Error(f"{root} cannot be opened for {purpose}: {error.strerror}: {error.filename}") from error

    @classmethod
    def _open_reader(cls, root: Path, clock_ns: Callable[[], int], storage: Storage) -> Store:
        if not root.is_dir():
            raise NotFound(f"no database {root}")
        _ = manifests.load(root, storage)  # or there is no database that a lease could be of
        lease = Lease(root)
        try:
            loaded = manifests.load(root, storage)
            lease.renew(loaded.version)
            pins = Pins()
            versions = Versions(root, loaded, clock_ns, pins.pin, storage)
            store = cls(root, "r", versions)
            store._follower = Follower(root, versions, pins, lease, storage)
        except BaseException:
            lease.release()
            raise
        return store

    @classmethod
    def _open_writer(
        cls, root: Path, clock_ns: Callable[[], int], storage: Storage, threads: int, durability: str, memory: int, background: bool
    ) -> Store:
        from tsdb.storage.log import Log
        from tsdb.storage.log_replay import replay, set_aside
        from tsdb.storage.maintenance import Maintenance
        from tsdb.storage.writer import Writer

        _check_place(root)
        root.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(root)
        try:
            loaded = _load_or_create(root, storage)
            reclaimer = Reclaimer(root, storage)
            remove_pending(root, ("", manifests.FOLDER), storage)
            temporary.sweep(root, storage)
            old = [name for name in manifests.versions(root) if name != loaded.name]
            left = sweep(root, FILES_FOLDER, loaded.names, storage)
            versions = Versions(root, loaded, clock_ns, reclaimer.pins.pin, storage)
            folder = str(root / LOG_FOLDER)
            found = replay(folder, loaded.sequence, versions.apply, storage)
            versions.publish(found.last_sequence)
            in_log = versions.payload_names()
            reclaimer.retire(loaded.version - 1, [*(name for name in left if name not in in_log), *old])
            store = cls(root, "rw", versions)
            store._lock = lock
            log = Log(folder, versions.visible + 1, storage, found.damaged)
            writer = Writer(
                root,
                versions,
                log,
                reclaimer,
                threads=threads,
                durability=durability,
                check_held=store._check_held,
                storage=storage,
            )
            store._writer = writer
            store._maintenance = Maintenance(writer, memory_bytes=memory, background=background)
            for name, error in versions.unreadable.items():  # a flush would cut the log, and its commits with it
                writer.failure = f"table {name!r} has commits in the log and cannot be read: {error}"
            if found.damaged and writer.failure is None:  # what could be read is made safe before the rest is put aside
                if not writer.flush():
                    writer.commit(versions.manifest)  # readers may have seen commits that there are no more
                set_aside(folder, found.damaged, storage)
            log.settle()
            reclaimer.collect(loaded.version)
            store._maintenance.start()
            return store
        except BaseException:
            lock.release()
            raise

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def storage(self) -> Storage:
        """Where the files are kept."""
        return self._versions.storage

    def snapshot(self) -> Snapshot:
        """The newest committed state this handle knows; a reader sees other processes' commits after ``refresh``."""
        self._check_open()
        return self._versions.snapshot()

    def refresh(self) -> Snapshot:
        """Pick up what another process committed since; cheap where there is nothing new. A writer's state is always the newest."""
        self._check_open()
        if self._follower is not None:
            self._follower.refresh()
        return self._versions.snapshot()

    def newest(self) -> int:
        """The number of the newest commit that a snapshot would show, picking up what another process committed."""
        self._check_open()
        if self._follower is not None:
            self._follower.refresh()
        return self._versions.visible

    @property
    def version(self) -> int:
        """The number of the manifest that this handle is at: as long as it is the same, tables and their columns are."""
        return self._versions.manifest.version

    @property
    def listeners(self) -> Alive[Listener]:
        """As those of ``Versions``; a reader's handle wakes them by its own ``refresh`` only."""
        self._check_open()
        return self._versions.listeners

    def tables(self) -> dict[str, Table]:
        """The tables by name, opening no file."""
        self._check_open()
        return table_names(self._versions.manifest)

    def table(self, name: str) -> Table:
        """A table by its exact name or, failing that, whatever the case. Raises NotFound with the nearest name."""
        return self.entry(name).table

    def entry(self, name: str) -> TableEntry:
        """A table with its files and sources. Raises NotFound."""
        self._check_open()
        return manifests.require(self._versions.manifest, name)

    def open_file(self, entry: TableEntry, file: FileEntry) -> OpenFile:
        """The one handle that this store has of a data file; nothing is opened yet."""
        return self._versions.open_file(entry, file)

    # ------------------------------------------------------------------------------------------------ writing

    def create_table(self, name: str, schema: Schema, options: TableOptions | None = None, *, if_not_exists: bool = False) -> Table:
        """Add an empty table; raises InvalidInput where the name is taken, unless ``if_not_exists``."""
        return self.writer.create_table(name, schema, options, if_not_exists=if_not_exists)

    def drop_table(self, name: str, *, if_exists: bool = False) -> bool:
        """Remove a table and its files; whether there was one. Raises NotFound unless ``if_exists``."""
        return self.writer.drop_table(name, if_exists=if_exists)

    def alter_table(self, name: str, change: Callable[[Table], Table]) -> Table:
        """Replace a table's definition by what ``change`` makes of it. Raises NotFound, InvalidInput."""
        return self.writer.alter_table(name, change)

    def write_batch(self, table: str, columns: Mapping[str, Vector]) -> WriteReport:
        """Commit rows, unsorted and with duplicates as they come. Columns left out are NULL; types must match exactly.

        Raises InvalidInput (nothing was changed), NotFound, ReadOnly, Closed, Error where the disk refuses (nothing was changed).
        """
        return self.write_pieces(table, columns)

    def write_pieces(
        self, table: str, columns: Mapping[str, Vector | Pieces] | RowBatch, sources: Sequence[SourceEntry] = ()
    ) -> WriteReport:
        """As ``write_batch``, of columns that come in pieces; ``sources`` are recorded in the same commit, also without rows."""
        report = self.writer.write(table, columns, sources)
        self._after_commit()
        return report

    def write_view(self, view: ViewEntry, columns: Mapping[str, Vector | Pieces], checkpoint: str) -> WriteReport:
        """As ``write_batch``, of rows that a materialized view made; how far it is with them is part of the same commit.

        Raises NotFound where the view or its table was dropped.
        """
        report = self.writer.write(self.target(view).name, columns, checkpoint=(view, checkpoint))
        self._after_commit()
        return report

    def views(self) -> dict[str, ViewEntry]:
        """The materialized views by name."""
        self._check_open()
        return self._versions.manifest.views

    def view(self, name: str) -> ViewEntry:
        """A materialized view by its name, whatever the case. Raises NotFound with the nearest name."""
        return manifests.require_view(self.views(), name)

    def target(self, view: ViewEntry) -> Table:
        """The table that a view writes to. Raises NotFound where it was dropped."""
        found = self._versions.manifest.target_of(view)
        if found is None:
            raise NotFound(f"the table that materialized view {view.name!r} writes to was dropped")
        return found.table

    def checkpoint(self, view: ViewEntry) -> str | None:
        """How far a view is, as it said with its last rows; None where it has none. Raises NotFound where its table was dropped."""
        found = self.refresh().tables[self.target(view).name].checkpoints.get(view.id)
        return None if found is None else found[1]

    def write_row(self, table: str, row: Row) -> WriteReport | None:
        """Commit one row the short way; None, and nothing was done, where ``write_pieces`` has to take it."""
        report = self.writer.write_row(table, row)
        if report is not None:
            self._after_commit()
        return report

    def delete(self, table: str, select: Callable[[TableSnapshot], tuple[Int32Array, IntArray, IntArray]]) -> int:
        """Delete the ranges (device number or −1 for all, low, high inclusive) that ``select`` finds in the newest state.

        Hits what was written before and nothing later. Returns the commit's sequence number, or the last one's for no range.
        """
        return self.edit(table, lambda snapshot: Edit(*select(snapshot)))

    def set_attributes(self, table: str, select: Callable[[TableSnapshot], tuple[Int32Array, dict[str, Vector]]]) -> int:
        """Give devices attribute values, by column name, that ``select`` finds in the newest state; NULL takes one away."""

        def edit(snapshot: TableSnapshot) -> Edit:
            numbers, values = select(snapshot)
            return Edit(attribute_devices=numbers, attributes=values)

        return self.edit(table, edit)

    def edit(self, table: str, select: Callable[[TableSnapshot], Edit]) -> int:
        """Commit the edit that ``select`` finds in the newest state. Returns as ``delete`` does."""
        sequence = self.writer.edit(table, select)
        self._after_commit()
        return sequence

    def flush(self) -> bool:
        """Write what is in memory to files; whether there was anything."""
        return self.writer.flush()

    def compact(self, table: str | None = None) -> int:
        """Merge files, and drop what is deleted, expired or overwritten; how many rewrites that took."""
        writer, maintenance = self.writer, self._maintenance
        assert maintenance is not None
        writer.flush()
        tasks = maintenance.compactor.run_all(table)
        writer.reclaim()
        return tasks

    def backup(self, path: str | Path, *, link: bool = True) -> BackupReport:
        """Make ``path`` a backup of what this handle sees, or bring one up to date; see ``tsdb.storage.backup``."""
        from tsdb.storage.backup import backup

        return backup(self, path, link=link)

    @property
    def compaction_problem(self) -> str | None:
        """Why the last compaction left files as they are; None where it did not."""
        return None if self._maintenance is None else self._maintenance.compactor.problem

    def counters(self) -> dict[str, int | float]:
        """What this handle has written so far, and the write amplification."""
        return self.writer.counters.to_dict()

    @property
    def writer(self) -> Writer:
        """The writing half. Raises Closed, ReadOnly."""
        self._check_open()
        if self._writer is None:
            raise ReadOnly(f"{self.root} was opened for reading")
        return self._writer

    def _after_commit(self) -> None:
        if self._maintenance is not None:
            self._maintenance.after_commit()

    def close(self) -> None:
        """Sync the log, release the lock and forget open files. Snapshots still held stay readable as far as they are open."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._follower is not None:
                self._follower.close()
            if self._maintenance is not None:
                self._maintenance.stop()
            if self._writer is not None and self._lock is not None and self._lock.held:
                self._writer.close(_CLOSE_FLUSH_BYTES)
        finally:
            self._versions.close()
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the database {self.root} was closed")

    def _check_held(self) -> None:
        if self._lock is not None and not self._lock.held:
            raise Locked(f"{self.root} was opened for writing before this process was forked; open it again", pid=os.getppid())


def _check_place(root: Path) -> None:
    """Refuse to make a database out of a file, or of a directory that holds something else."""
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"{root} is a file, not a database directory")
    if root.is_dir() and not (root / manifests.CURRENT_NAME).exists() and not manifests.versions(root):
        begun = {name for name in (manifests.FOLDER, FILES_FOLDER) if (root / name).is_dir() and _is_barely_begun(root / name)}
        others = sorted({path.name for path in root.iterdir()} - _HARMLESS - begun)
        if others:
            raise InvalidInput(f"{root} is no database and not empty: it holds {others[0]!r}")


def _is_barely_begun(folder: Path) -> bool:
    """Whether a folder holds nothing but what a crash in the first moments leaves."""
    return all(path.name.endswith(PENDING_SUFFIX) for path in folder.iterdir())


def _load_or_create(root: Path, storage: Storage) -> Manifest:
    try:
        loaded = manifests.load(root, storage)
    except NotFound:
        (root / manifests.FOLDER).mkdir(exist_ok=True)
        (root / FILES_FOLDER).mkdir(exist_ok=True)
        loaded = Manifest()
        manifests.save(root, loaded, storage)
    if manifests.current_name(root, storage) is None:
        manifests.save(root, loaded, storage)  # CURRENT was lost: name again what was found
    return loaded
