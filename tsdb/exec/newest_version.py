"""What queries see of a versioned stream: of each key the version that arrived last.

Every version is stored, and a key's versions lie in any of the files. Which is the newest is found file by file, by the sequence
numbers alone, and kept with each file. The newest ones then stand for the table as rows in memory, one for each device, whose
columns are read when they are first asked for: whatever a query does with a table it does with these, statistics included.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tsdb.catalog.device import Int32Array
from tsdb.exec.row_range import rows_in
from tsdb.exec.selection import INT64_MIN, Selection
from tsdb.exec.source import FileSource, ScanSources
from tsdb.exec.stats import ScanStats
from tsdb.storage.arrange import SortedRows
from tsdb.storage.memory_file import MemoryFile, MemoryRun
from tsdb.storage.snapshot import LazyTables, Snapshot, TableFile, TableSnapshot
from tsdb.storage.tombstone import Tombstones
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME
from tsdb_format.types import Role
from tsdb_format.vector import IntArray, Vector, concat, null_vector

#: Part of the rows below which a column is read for those that are asked for, and not kept.
_FEW = 16


class _Newest(NamedTuple):
    """The newest versions in a file: their devices, sequence numbers, times and rows."""

    device: Int32Array
    sequence: IntArray
    time: IntArray
    row: IntArray


_OF_FILE: WeakKeyDictionary[TableFile, _Newest] = WeakKeyDictionary()
_OF_TABLE: WeakKeyDictionary[TableSnapshot, TableSnapshot] = WeakKeyDictionary()
_OF_SNAPSHOT: WeakKeyDictionary[Snapshot, Snapshot | None] = WeakKeyDictionary()


def newest_versions(snapshot: Snapshot) -> Snapshot:
    """The state as queries see it: itself where no table is a versioned stream."""
    if snapshot in _OF_SNAPSHOT:
        return _OF_SNAPSHOT[snapshot] or snapshot
    made = None
    if any(table.options.mode == "versioned_kv" for table in snapshot.definitions.values()):
        tables = snapshot.tables
        made = replace(snapshot, tables=LazyTables(tuple(tables), lambda name: newest_of(tables[name])))
    _OF_SNAPSHOT[snapshot] = made
    return made or snapshot


def newest_of(table: TableSnapshot) -> TableSnapshot:
    """The newest version of each key; itself where the table is no versioned stream, or is that already."""
    if table.table.options.mode != "versioned_kv" or table.stored is not None:
        return table
    found = _OF_TABLE.get(table)
    if found is None:
        found = _newest_of(replace(table))  # of a twin: what is kept by a snapshot must not lead back to it
        if table.table.options.ttl_ns is None:
            _OF_TABLE[table] = found
    return found


def _newest_of(table: TableSnapshot) -> TableSnapshot:
    sources = ScanSources(table, ScanStats(table.table.name))
    count = table.devices.count
    sequence, time, row, file = np.full(count, -1, np.int64), *np.zeros((2, count), np.int64), np.zeros(count, np.int32)
    oldest = Selection(table, None, sources.stats).time_low
    for index in range(len(table.files)):
        newest = _newest_in(sources[index], table, oldest)
        best = sequence[newest.device]
        later = (newest.sequence > best) | ((newest.sequence == best) & (newest.time >= time[newest.device]))
        chosen = newest.device[later]
        sequence[chosen], time[chosen] = newest.sequence[later], newest.time[later]
        row[chosen], file[chosen] = newest.row[later], index
    numbers = table.devices.by_rank[sequence[table.devices.by_rank] >= 0]
    columns = _Columns(sources, file[numbers], row[numbers])
    columns[table.table.schema.time.name] = Vector(table.table.schema.time.type, time[numbers])
    columns[SEQUENCE_NAME] = Vector(SEQUENCE_COLUMN.type, sequence[numbers])
    run = _NewestRun(table.table, SortedRows(numbers, np.arange(len(numbers) + 1, dtype=np.int64), columns, 0))
    return replace(table, files=(run,) if len(numbers) else (), tombstones=Tombstones.none(), stored=table)


def _newest_in(source: FileSource, table: TableSnapshot, oldest: int) -> _Newest:
    """The newest versions in a file, without those that are deleted or expired."""
    held = source.open_file
    whole = not table.tombstones.may_hide(held) and (oldest == INT64_MIN or held.min_time >= oldest)
    known = _OF_FILE.get(held) if whole else None
    if known is not None:
        return known
    file, device, runs = source.file, held.device_number, np.diff(source.file.row_start)
    every = np.zeros(1, np.int64), np.array([file.row_count], np.int64)
    name = source.stored_name(table.table.schema.time)
    assert name is not None, "every file has times"
    sequence = file.read(SEQUENCE_NAME, *every).values
    if not whole:
        time = file.read(name, *every).values
        gone = table.tombstones.hidden(held, np.repeat(device, runs), time, lambda unsure: sequence[unsure]) | (time < oldest)
        sequence = np.where(gone, -1, sequence)
    first = np.ascontiguousarray(file.row_start[:-1])
    highest = np.maximum.reduceat(sequence, first)
    last = np.maximum.reduceat(np.where(sequence == np.repeat(highest, runs), np.arange(len(sequence)), -1), first)
    some = np.flatnonzero(highest >= 0)
    row = last[some]
    made = _Newest(device[some], highest[some], file.read(name, row, row + 1).values if len(row) else row, row)
    if whole:
        _OF_FILE[held] = made
    return made


class _Columns(dict[str, Vector]):
    """The stored columns of chosen rows, each read when it is first asked for."""

    def __init__(self, sources: ScanSources, file: Int32Array, row: IntArray) -> None:
        super().__init__()
        self._sources = sources
        self._file, self._row = file, row
        schema = sources.table.table.schema
        self._stored = {column.name: column for column in schema if column.role in (Role.TIME, Role.FIELD)}
        self._stored[SEQUENCE_NAME] = SEQUENCE_COLUMN

    def __contains__(self, name: object) -> bool:
        return name in self._stored

    def __missing__(self, name: str) -> Vector:
        found = self[name] = self.gathered(name, slice(None))
        return found

    def gathered(self, name: str, rows: IntArray | slice) -> Vector:
        """A column of some of the rows, read where they are."""
        if name in self.keys():
            return self[name].take(rows)
        column, files, places = self._stored[name], self._file[rows], self._row[rows]
        parts, order = list[Vector](), list[IntArray]()
        for index in np.unique(files).tolist():
            chosen = np.flatnonzero(files == index)
            chosen = chosen[np.argsort(places[chosen])]
            parts.append(self._sources[index].read_cells(column, places[chosen], places[chosen] + 1))
            order.append(chosen)
        if not parts:
            return null_vector(column.type, 0)
        back = np.empty(len(files), np.int64)
        back[np.concatenate(order)] = np.arange(len(back))
        return concat(parts).take(back)


class _NewestFile(MemoryFile):
    """The rows behind the ``DataFile`` protocol; of few of them a column is read for these alone."""

    def read(self, name: str, starts: IntArray, stops: IntArray) -> Vector:
        """As ``MemoryFile.read``."""
        columns = self._columns
        if not isinstance(columns, _Columns) or int((stops - starts).sum()) * _FEW > self.row_count:
            return super().read(name, starts, stops)
        return columns.gathered(name, rows_in(starts, stops))


class _NewestRun(MemoryRun):
    @cached_property
    def file(self) -> MemoryFile:
        """The rows as a data file."""
        return _NewestFile(self.table, self.rows)
