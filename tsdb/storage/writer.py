"""The writing half of a store: how a change becomes a commit.

A commit takes the next sequence number, is appended to the log, and lives in the memtable until a flush. With durability 'commit'
it becomes visible, and is acknowledged, once the log is synced, which one thread does for all that wait. Large writes, and those
that record how far a source was read, skip the log: they go to files of their own (``direct``). Changes of the tables themselves
are commits of the manifest alone: log and files name tables and columns by ids, which are never used again.

Lock order: the compactor's lock or ``flushing``, then the writer's turn, then the locks of ``Versions`` and of its memtables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tsdb.catalog.device import DeviceTable, Int32Array
from tsdb.catalog.table import FILES_FOLDER, Table, TableOptions, check_columns
from tsdb.storage import manifest as manifests
from tsdb.storage.arrange import SortedRows, arrange_whole, detached, stamp
from tsdb.storage.batch import Pieces, RowBatch, check_batch
from tsdb.storage.blob_intake import PutBlob, has_large, payload_names, without_large
from tsdb.storage.compaction import needed
from tsdb.storage.counters import Counters
from tsdb.storage.direct import write_direct
from tsdb.storage.existing import count_existing
from tsdb.storage.files import FILE_SUFFIX, highest_number, own_payloads, remove, remove_files
from tsdb.storage.flush import flush
from tsdb.storage.handover import Handover
from tsdb.storage.log import Log
from tsdb.storage.log_record import Change, Recorded
from tsdb.storage.manifest import FileEntry, Manifest, SourceEntry, TableEntry, ViewEntry
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.memtable import Memtable
from tsdb.storage.moment import Moments
from tsdb.storage.one_row import Row, plain_vector
from tsdb.storage.reclaim import Reclaimer
from tsdb.storage.report import Edit, WriteReport
from tsdb.storage.snapshot import TableSnapshot
from tsdb.storage.tombstone import EVERY_DEVICE, write_tombstones
from tsdb.storage.tombstone import SUFFIX as TOMBSTONE_SUFFIX
from tsdb.storage.versions import Versions
from tsdb.storage.view import check_writes
from tsdb_format.blob import PAYLOAD_SUFFIX
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Error, NotFound
from tsdb_format.payload_writer import write_payload
from tsdb_format.schema import Schema
from tsdb_format.types import STRING
from tsdb_format.vector import ByteArray, Vector

#: Rows from which a write goes to files of its own: sorting and encoding them at once costs less than logging them first.
DIRECT_ROWS = 1_000_000
_NO_DEVICES = np.empty(0, np.int32)
_FIRST_TIME = np.iinfo(np.int64).min


class Writer:
    """Commits to one database. Thread-safe: changes take turns, their syncs are shared."""

    def __init__(
        self, root: Path, versions: Versions, log: Log, reclaimer: Reclaimer, *, threads: int, durability: str = "commit",
        check_held: Callable[[], None] = lambda: None, storage: Storage = DISK,
    ) -> None:  # fmt: skip
        """``check_held`` raises where this process may not write any more."""
        self.root = root
        self.versions = versions
        self.log = log
        self.threads = threads
        self.durability = durability
        self.counters = Counters()
        #: The last commit's number, durable or not.
        self.sequence = versions.visible
        #: Whether some memtable has many runs, which nobody has merged yet.
        self.untidy = False
        #: Payload files that commits name and no manifest does yet, and the first of these commits.
        self.loose = dict.fromkeys(versions.payload_names(), versions.visible)
        #: Why the handle takes no more writes; None while it does.
        self.failure: str | None = None
        self._reclaimer = reclaimer
        self._check_held = check_held
        self.storage = storage
        self._next_file = max(versions.manifest.next_file, 1 + highest_number(root / FILES_FOLDER))
        self._next_version = 1 + max(versions.manifest.version, highest_number(root / manifests.FOLDER))
        self.flushing = threading.RLock()
        self._writing = threading.RLock()
        self._naming = threading.Lock()
        self._moments = Moments(versions.clock_ns)

    # ------------------------------------------------------------------------------------------------ tables

    def create_table(self, name: str, schema: Schema, options: TableOptions | None, *, if_not_exists: bool) -> Table:
        """Add an empty table; raises InvalidInput where the name is taken, unless ``if_not_exists``."""
        with self._writing:
            self._check_writable()
            manifest = self.versions.manifest
            if if_not_exists:
                with suppress(NotFound):
                    return manifests.require(manifest, name).table
            manifests.check_name(manifest, name)
            check_columns(schema.columns)
            next_column = 1 + max(column.id for column in schema)
            table = Table(manifest.next_table, name, schema, options or TableOptions(), next_column)
            self.commit(replace(manifest.with_table(TableEntry(table)), next_table=table.id + 1))
            return table

    def drop_table(self, name: str, *, if_exists: bool) -> bool:
        """Remove a table and its files; whether there was one. Raises NotFound unless ``if_exists``."""
        with self._writing:
            self._check_writable()
            try:
                entry = manifests.require(self.versions.manifest, name)
            except NotFound:
                if if_exists:
                    return False
                raise
            self.commit(self.versions.manifest.without_table(entry.table.name), Handover(entry.names))
            return True

    def alter_table(self, name: str, change: Callable[[Table], Table]) -> Table:
        """Replace a table's definition by what ``change`` makes of it; the same id, and columns keep theirs."""
        with self._writing:
            self._check_writable()
            entry = manifests.require(self.versions.manifest, name)
            table = change(entry.table)
            if table == entry.table:
                return table
            check_columns(table.schema.columns)
            if entry.expired is not None and table.options.ttl_ns != entry.table.options.ttl_ns:
                self._forget_expired(entry, entry.expired)
                entry = replace(entry, expired=None)
            others = self.versions.manifest.without_table(entry.table.name)
            manifests.check_name(others, table.name)
            tables = {table.name if key == entry.table.name else key: each for key, each in self.versions.manifest.tables.items()}
            tables[table.name] = replace(entry, table=table)
            self.commit(replace(self.versions.manifest, tables=tables))
            return table

    def _forget_expired(self, entry: TableEntry, bound: int) -> None:
        """Delete what is left before ``bound``: newer versions of it may be gone, and another TTL must not show the older ones."""
        every = np.full(1, EVERY_DEVICE, np.int32)
        self.edit(entry.table.name, lambda _: Edit(every, np.full(1, _FIRST_TIME), np.full(1, bound - 1)))

    # ------------------------------------------------------------------------------------------------ commits

    def write(
        self,
        table: str,
        columns: Mapping[str, Vector | Pieces] | RowBatch,
        sources: Sequence[SourceEntry] = (),
        checkpoint: tuple[ViewEntry, str] | None = None,
    ) -> WriteReport:
        """Commit rows; see ``Store.write_pieces`` and ``Store.write_view``."""
        if isinstance(columns, RowBatch):
            count = columns.row_count
        else:
            count = max((_length(given) for given in columns.values()), default=0)
            columns = self._moments.filled(manifests.require(self.versions.manifest, table).table, columns, count)
        if sources or count >= DIRECT_ROWS:
            with self.flushing:
                flush(self)  # most of what is in memory, while others commit
                with self.writing():
                    flush(self)
                    return write_direct(self, table, columns, sources, checkpoint)
        held = manifests.require(self.versions.manifest, table).table
        if has_large(columns, held.options):
            with self.blobs(held) as put:
                return self._write(table, without_large(columns, held.options, put), count, checkpoint)
        return self._write(table, columns, count, checkpoint)

    def _write(
        self, table: str, columns: Mapping[str, Vector | Pieces] | RowBatch, count: int, checkpoint: tuple[ViewEntry, str] | None
    ) -> WriteReport:
        with self._writing:
            self._check_writable()
            entry = manifests.require(self.versions.manifest, table)
            if checkpoint is not None:
                check_writes(self.versions.manifest, entry, checkpoint[0])
            batch = check_batch(entry.table.schema, columns) if count else None
            if batch is None:
                return WriteReport(0, 0, self.sequence)
            report, position = self._write_memory(entry, batch, checkpoint, shared=batch is not columns)
        self.settle(position, report.sequence)
        return report

    @contextmanager
    def blobs(self, table: Table) -> Iterator[PutBlob]:
        """Writes payload files for a commit that is made in the block; those that no commit names are removed at its end."""
        names: list[str] = []

        def put(parts: Iterable[ByteArray | bytes]) -> tuple[str, int, int]:
            names.append(self.new_name(table, PAYLOAD_SUFFIX))
            size, checksum = write_payload(str(self.root / names[-1]), parts, sync_name=True, storage=self.storage)
            return names[-1].rpartition("/")[2], size, checksum

        try:
            yield put
        except OSError as error:
            if isinstance(error, Error):
                raise
            raise Error(f"nothing was written to table {table.name!r}: {error}") from error
        finally:
            self.undo([name for name in names if name not in self.loose])

    def let_go_loose(self, changed: Manifest) -> list[str]:
        """The payload files of commits up to a manifest's that it does not name; none of these commits has loose ones then."""
        gone = [name for name, sequence in self.loose.items() if sequence <= changed.sequence]
        for name in gone:
            del self.loose[name]
        named = changed.names if gone else frozenset()
        return [name for name in gone if name not in named]

    def write_row(self, table: str, row: Row) -> WriteReport | None:
        """Commit one row, if its device is known and it is surely new; None, and nothing was done, leaves it to ``write``."""
        with self._writing:
            self._check_writable()
            entry = manifests.require(self.versions.manifest, table)
            if row.shape.columns != entry.table.schema.columns:  # altered meanwhile
                return None
            memtable = self.versions.memtable(entry)
            number = memtable.number(row.tags)
            if number is None or (entry.table.options.overlays and not memtable.is_new(number, row.time, entry.files)):
                return None
            row.place(entry.table, memtable.devices, number)
            sequence = self.sequence + 1
            position = self._append(sequence, row, lambda: memtable.add_row(row, sequence))
            self.untidy = self.untidy or memtable.is_untidy
        self.settle(position, sequence)
        return WriteReport(1, 0, sequence)

    def _write_memory(
        self, entry: TableEntry, batch: RowBatch, checkpoint: tuple[ViewEntry, str] | None, *, shared: bool
    ) -> tuple[WriteReport, int]:
        """Log a commit and keep its rows; ``shared``: somebody else may still write to the batch's arrays."""
        table = entry.table
        memtable = self.versions.memtable(entry)
        numbers, devices = memtable.devices.resolve(batch.given(batch.schema.tags), batch.row_count)
        new = devices.count - memtable.devices.count
        attribute_devices, attributes = _NO_DEVICES, {}
        given = batch.given(batch.schema.attributes)
        changed = devices.with_attributes(numbers, given) if given else devices
        if changed is not devices:
            devices = changed
            attribute_devices = np.unique(numbers)
            attributes = {table.schema.column(name).id: devices.values(name).take(attribute_devices) for name in given}
        rows = arrange_whole(batch, numbers, devices, table.options.mode)
        if shared:
            rows = detached(rows, batch)
        existing = self._existing(entry, memtable, devices, rows)
        sequence = self.sequence + 1
        columns = {table.schema.column(name).id: vector for name, vector in rows.columns.items()}
        tags = _new_tags(batch, numbers, memtable.devices.count) if new else {}
        change = Change(
            table.id, memtable.devices.count, tags, new, attribute_devices, attributes, rows.numbers, rows.row_start, columns,
            checkpoints={} if checkpoint is None else {checkpoint[0].id: plain_vector(STRING, [checkpoint[1].encode()])},
        )  # fmt: skip
        run = MemoryRun(table, stamp(rows, sequence))
        self.loose |= dict.fromkeys(payload_names(table, rows.columns.values()), sequence)

        def take_in() -> None:
            memtable.add(run, devices, sequence)
            memtable.note(sequence, change.checkpoints)

        position = self._append(sequence, change, take_in)
        self.untidy = self.untidy or memtable.is_untidy
        updated = rows.overlaid + existing
        return WriteReport(batch.row_count - updated, updated, sequence), position

    def _existing(self, entry: TableEntry, memtable: Memtable, devices: DeviceTable, rows: SortedRows) -> int:
        """How many of the rows are there already."""
        if not entry.table.options.overlays:
            return 0
        time = entry.table.schema.time.name
        times = rows.columns[time].values
        first = times.item(0) if len(times) == 1 else int(times[rows.row_start[:-1]].min())
        if first > memtable.last_time and all(file.max_time < first for file in entry.files):
            return 0
        snapshot = self.versions.latest(self.sequence).tables[entry.table.name]
        reached = memtable.last_times(snapshot.files).reached(rows, time)
        if not reached.any():
            return 0
        return count_existing(snapshot.files, devices.count, rows, time, snapshot.tombstones, reached)

    def edit(self, table: str, select: Callable[[TableSnapshot], Edit]) -> int:
        """Commit the edit that ``select`` finds in the newest state; the commit's number, or the last one's for no change."""
        with self._writing:
            self._check_writable()
            entry = manifests.require(self.versions.manifest, table)
            edit = select(self.versions.latest(self.sequence).tables[entry.table.name])
            if not len(edit.deleted_device) and not len(edit.attribute_devices):
                return self.sequence
            sequence, schema = self.sequence + 1, entry.table.schema
            change = Change(
                entry.table.id,
                attribute_devices=edit.attribute_devices,
                attributes={schema.column(name).id: vector for name, vector in edit.attributes.items()},
                deleted_device=edit.deleted_device,
                deleted_low=edit.deleted_low,
                deleted_high=edit.deleted_high,
            )
            memtable = self.versions.memtable(entry)
            position = self._append(sequence, change, lambda: memtable.apply(sequence, change))
        self.settle(position, sequence)
        return sequence

    def _append(self, sequence: int, change: Recorded, take_in: Callable[[], None]) -> int:
        """Put a commit into the log, and into memory; the position to sync to."""
        before = self.log.position
        try:
            position = self.log.append(sequence, change)
            self.sequence = sequence
            take_in()
        except BaseException as error:
            if self.log.position != before:  # later commits would build on what memory lacks
                self.failure = self.failure or f"memory does not hold what the log does ({error!r})"
            elif isinstance(error, Error):
                raise Error(f"nothing was written: {error}") from error
            raise
        self.counters.bytes_logged += position - before
        return position

    def settle(self, position: int, sequence: int) -> None:
        """Make a commit durable as far as it is to be, and visible."""
        if self.durability == "commit":
            try:
                self.log.sync(position)
            except Error as error:
                raise Error(f"whether the write was kept is not known: {error}") from error
        self.versions.publish(sequence)

    def tidy(self) -> None:
        """Merge the runs of memtables that have many."""
        self.untidy = False
        for memtable in list(self.versions.memory.values()):
            memtable.tidy(self.versions.visible)

    # ------------------------------------------------------------------------------------------------ files

    def flush(self) -> bool:
        """Write what is in memory to files; whether there was anything. After a failure the handle takes no more writes."""
        with self.flushing:
            return flush(self)

    def with_files(
        self, entry: TableEntry, files: tuple[FileEntry, ...], memtable: Memtable | None, boundary: int, handover: Handover
    ) -> TableEntry:
        """The table with other files, and the deletes that one of them still needs, which its memtable is to have then."""
        files = tuple(sorted(files, key=lambda file: (file.max_sequence, file.min_time)))
        known = self.versions.tombstones(entry) if memtable is None else memtable.tombstones
        kept = known.select(needed(known, files) | (known.sequence > boundary)) if len(known) else known
        changed = replace(entry, files=files)
        if len(kept) < len(known):
            gone = known.sequence[~np.isin(known.sequence, kept.sequence)]
            changed = replace(changed, forgotten=max([entry.forgotten, *gone[-1:].tolist()]))
            if memtable is not None:
                handover.memory.append(partial(memtable.keep, kept))
        logged = kept.select(kept.sequence <= boundary) if len(kept) else kept
        stored = self.versions.tombstones(entry)
        if len(logged) == len(stored) and np.array_equal(logged.sequence, stored.sequence):
            return changed
        handover.obsolete += [entry.tombstones] if entry.tombstones is not None else []
        if not len(logged):
            return replace(changed, tombstones=None)
        name = self.new_name(entry.table, TOMBSTONE_SUFFIX)
        write_tombstones(str(self.root / name), logged, self.storage)
        return replace(changed, tombstones=name)

    def new_name(self, table: Table, suffix: str) -> str:
        """A name for a new file of a table, never given before."""
        with self._naming:
            number, self._next_file = self._next_file, self._next_file + 1
        return f"{table.folder}/{number:010}{suffix}"

    def close(self, flush_bytes: int) -> None:
        """Make everything durable, in files where the log holds more than ``flush_bytes``."""
        with suppress(Error):
            if self.failure is None and self.log.bytes > flush_bytes:
                self.flush()
        with self.flushing, self._writing:
            try:
                self.log.close()
            finally:
                self._reclaimer.collect(self.versions.manifest.version, pinned=False)

    # ------------------------------------------------------------------------------------------------ manifest

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The writer's turn, for a commit made elsewhere. Raises what a write would raise."""
        with self._writing:
            self._check_writable()
            yield

    def commit(self, changed: Manifest, handover: Handover | None = None) -> None:
        """Make a manifest the current one. Where that fails half-way the handle takes no more writes."""
        handover = handover or Handover()
        before = self.versions.manifest
        changed = replace(changed, version=self._next_version, next_file=self._next_file)
        self._next_version += 1
        try:
            self.log.sync(self.log.position)  # a version must not outlive commits that came before it
            manifests.save(self.root, changed, self.storage)
            self.sequence = max(self.sequence, changed.sequence)
            self.versions.install(changed, handover.memory)
        except BaseException as error:
            if manifests.current_name(self.root, self.storage) == before.name:
                remove(self.root / changed.name, self.storage)
            else:
                self.failure = f"a commit failed half-way ({error!r}); open the database again to see how far it got"
            if isinstance(error, OSError):
                raise Error(f"the commit to {self.root} failed: {error}") from error
            raise
        self._reclaimer.retire(before.version, [before.name, *handover.obsolete, *_let_go(before, changed)])
        with suppress(OSError):
            if changed.sequence > before.sequence:
                self.log.drop(changed.sequence)
            self._reclaimer.collect(changed.version)

    def reclaim(self) -> None:
        """Delete what snapshots and readers have let go of since the last commit."""
        with self._writing, suppress(OSError):
            self._reclaimer.collect(self.versions.manifest.version)

    def undo(self, names: Sequence[str]) -> None:
        """Take away files whose commit did not come about. What the disk says decides: an error may come after the fact."""
        with suppress(Error):
            named = manifests.load(self.root, self.storage).names
            gone = [name for name in names if name not in named]
            gone += [each for name in gone if name.endswith(FILE_SUFFIX) for each in own_payloads(self.root, name, self.storage)]
            remove_files(self.root, gone, self.storage)

    def _check_writable(self) -> None:
        self._check_held()
        failure = self.failure or self.log.failure
        if failure is not None:
            raise Error(f"{self.root} takes no more writes until it is opened again: {failure}")


def _let_go(before: Manifest, after: Manifest) -> set[str]:
    """The payload files that no data file of the later version has blobs in."""
    found: set[str] = set()
    for name, entry in before.tables.items():
        now = after.tables.get(name)
        if now is None or now.files is not entry.files:
            found |= entry.payloads.keys()
    kept = (entry.payloads.keys() for name, entry in after.tables.items() if entry is not before.tables.get(name))
    return found.difference(*kept) if found else found


def _length(given: Vector | Pieces) -> int:
    return len(given) if isinstance(given, Vector) else sum(len(piece) for piece in given)


def _new_tags(batch: RowBatch, numbers: Int32Array, known: int) -> dict[int, Vector]:
    """The tags of the devices that the batch brings, by column id, in order of their numbers."""
    rows = np.flatnonzero(numbers >= known)
    first = rows[np.unique(numbers[rows], return_index=True)[1]]
    return {batch.schema.column(name).id: vector.take(first) for name, vector in batch.given(batch.schema.tags).items()}
