"""Snapshots: what one query sees. Immutable, and pinned for as long as somebody holds them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table
from tsdb.storage.data_file import StoredFile
from tsdb.storage.manifest import FileEntry
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.tombstone import Tombstones
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Corruption
from tsdb_format.payload import PayloadFiles
from tsdb_format.payload_table import Payload

if TYPE_CHECKING:
    from tsdb.resultset.member_set import MemberSet


class OpenFile:
    """One data file of a table. Opened when first needed, so that a damaged file is named then and hides no other.

    ``name`` is relative to the database; ``row_count``, ``device_count``, ``bytes``, ``min_time``, ``max_time`` and the sequence
    bounds come from the manifest and are known without opening it. ``file`` and ``device_number`` (file device → table-wide number)
    raise Corruption or NotFound.
    """

    def __init__(self, root: Path, entry: FileEntry, devices: Callable[[], DeviceTable], storage: Storage = DISK) -> None:
        """``devices`` gives a version of the device table that knows this file's devices."""
        self.name = entry.name
        self.path = str(root / entry.name)
        self.row_count = entry.rows
        self.device_count = entry.devices
        self.bytes = entry.bytes
        self.payloads: tuple[Payload, ...] = entry.payloads
        self.min_time = entry.min_time
        self.max_time = entry.max_time
        self.min_sequence = entry.min_sequence
        self.max_sequence = entry.max_sequence
        #: Every delete up to this sequence number was carried out when the file was written.
        self.applied = entry.applied
        #: The shard of all rows; None where the table has none, or it is not known.
        self.shard = entry.shard
        self._devices = devices
        self._storage = storage
        self._lock = threading.Lock()
        self._file: StoredFile | None = None
        self._device_number: NDArray[np.int32] | None = None

    def __repr__(self) -> str:
        return f"OpenFile({self.name!r}, rows={self.row_count})"

    @property
    def file(self) -> StoredFile:
        """The open file."""
        opened = self._file
        if opened is None:
            with self._lock:
                if self._file is None:
                    self._file = self._open()
                opened = self._file
        return opened

    @property
    def device_number(self) -> NDArray[np.int32]:
        """Table-wide number of each of the file's devices."""
        numbers = self._device_number
        if numbers is None:
            numbers = self._device_number = self._resolve()
        return numbers

    def _open(self) -> StoredFile:
        opened = StoredFile(self.path, self._storage)
        if opened.row_count != self.row_count:
            raise Corruption(f"the manifest expects {self.row_count:,} rows, not {opened.row_count:,}", path=self.path, offset=0)
        return opened

    def _resolve(self) -> NDArray[np.int32]:
        file, devices = self.file, self._devices()
        numbers = file.resource.device_number
        if numbers is not None and len(numbers) == file.device_count and numbers.min() >= 0 and numbers.max() < devices.count:
            return numbers
        if not devices.schema.tags:
            return np.zeros(file.device_count, np.int32)
        held = {column.id: column.name for column in file.schema}  # tags may have had other names when it was written
        tags = {column.name: file.device_tags[held[column.id]] for column in devices.schema.tags}
        numbers = devices.find(tags, file.device_count)
        if len(numbers) and int(numbers.min()) < 0:
            raise Corruption("the file has a device that the table does not know", path=self.path, offset=0)
        return numbers


#: Rows of a table, on disk or in memory.
TableFile: TypeAlias = OpenFile | MemoryRun


class Pin:
    """Alive as long as a snapshot of manifest ``version`` or one of its tables is: no file that the version names goes before."""

    __slots__ = ("__weakref__", "version")

    def __init__(self, version: int) -> None:
        self.version = version


@dataclass(frozen=True, eq=False)
class TableSnapshot:
    """A table as of one commit. ``files`` ascend by ``max_sequence``; ``now_ns`` is the clock that TTL is measured by.

    Files of a shard that overlap in time have disjoint ranges of sequence numbers. ``tombstones`` are the deletes that some of them
    has not carried out; up to number ``forgotten`` there may have been others.
    """

    table: Table
    files: tuple[TableFile, ...]
    devices: DeviceTable
    sequence: int
    now_ns: Callable[[], int]
    pin: Pin | None = None
    tombstones: Tombstones = field(default_factory=Tombstones.none)
    #: How far the views that write to the table are, by their ids: the commit that says so, and the text.
    checkpoints: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    #: Where rows in memory have blobs that are not in memory; None for tables of no database.
    payloads: PayloadFiles | None = None
    #: Whether scans give blobs outside of pages as cells, for handles, instead of reading them.
    gives_cells: bool = False
    forgotten: int = 0
    #: Of the newest versions of a versioned stream: the stream with every version.
    stored: TableSnapshot | None = None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The database as of one manifest version.

    ``tables`` are opened when they are first asked for. ``definitions``, by lower-case name, open nothing: whatever concerns one
    table goes on where another's files are damaged, or were dropped by another process.

    A multi-query's has the tables of its result sets too, and ``members`` by their names, None for an empty set. ``now_ns`` is the
    moment of whatever is asked of it; None: each statement has its own.
    """

    version: int
    sequence: int
    tables: Mapping[str, TableSnapshot]
    pin: Pin | None = None
    definitions: Mapping[str, Table] = field(default_factory=dict)
    members: Mapping[str, MemberSet | None] = field(default_factory=dict)
    now_ns: int | None = None

    def at(self, now_ns: int) -> Snapshot:
        """The same state, in which it is one moment for all that is asked of it."""

        def make(name: str) -> TableSnapshot:
            table = self.tables[name]  # the very one where no row expires: operators keep things by it
            return table if table.table.options.ttl_ns is None else replace(table, now_ns=lambda: now_ns)

        return replace(self, tables=LazyTables(tuple(self.tables), make), now_ns=now_ns)

    def with_sets(self, sets: Mapping[str, tuple[TableSnapshot, MemberSet | None]]) -> Snapshot:
        """The same state, with the tables and members of some result sets by the tables' names."""

        def make(name: str) -> TableSnapshot:
            return sets[name][0] if name in sets else self.tables[name]

        return replace(
            self,
            tables=LazyTables((*self.tables, *sets), make),
            definitions={**self.definitions, **{name: table.table for name, (table, _) in sets.items()}},
            members={**self.members, **{name: members for name, (_, members) in sets.items()}},
        )

    def giving_cells(self) -> Snapshot:
        """The same state, of which scans give blobs outside of pages as cells."""
        return replace(self, tables=LazyTables(tuple(self.tables), lambda name: replace(self.tables[name], gives_cells=True)))


class LazyTables(Mapping[str, TableSnapshot]):
    """Table snapshots by name, each made on first access."""

    def __init__(self, names: tuple[str, ...], make: Callable[[str], TableSnapshot]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make
        self._made: dict[str, TableSnapshot] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> TableSnapshot:
        made = self._made.get(name)
        if made is None:
            if name not in self._names:
                raise KeyError(name)
            with self._lock:
                made = self._made.get(name)
                if made is None:
                    made = self._made[name] = self._make(name)
        return made

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
