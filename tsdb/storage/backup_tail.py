"""What a snapshot has beyond its manifest, as files of a backup: commits that are in the log and in memory only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.device_file import SUFFIX as DEVICE_SUFFIX
from tsdb.catalog.device_file import read_device_file, write_device_file
from tsdb.catalog.table import Table
from tsdb.storage.arrange import PARALLEL_ROWS_MIN, SortedRows, arrange
from tsdb.storage.compaction import needed
from tsdb.storage.files import FILE_SUFFIX, payload_paths, write_rows
from tsdb.storage.manifest import FileEntry, Manifest, TableEntry
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.memtable import gather
from tsdb.storage.snapshot import Snapshot, TableSnapshot
from tsdb.storage.tombstone import SUFFIX as TOMBSTONE_SUFFIX
from tsdb.storage.tombstone import Tombstones, read_tombstones, write_tombstones
from tsdb_format.blob import with_paths
from tsdb_format.disk import Storage
from tsdb_format.vector import Vector


class Tail:
    """Writes to ``target`` what ``snapshot`` has and ``manifest``, which it builds on, has not in files below ``source``.

    Names begin with "tail" and the backup's own ``version``: the database itself never gives them to a file.
    """

    def __init__(self, source: Path, target: Path, snapshot: Snapshot, manifest: Manifest, version: int, storage: Storage) -> None:
        self._source = source
        self._target = target
        self._snapshot = snapshot
        self._manifest = manifest
        self._version = version
        self._storage = storage

    def write(self, threads: int) -> Manifest:
        """Write the files durably; the manifest of all that the snapshot has. Raises OSError, Corruption, NotFound."""
        manifest, sequence = self._manifest, self._snapshot.sequence
        if sequence > manifest.sequence:
            for name, entry in manifest.tables.items():
                manifest = manifest.with_table(self._write_table(entry, self._snapshot.tables[name], threads))
        return replace(manifest, version=self._version, sequence=sequence)

    def _write_table(self, entry: TableEntry, table: TableSnapshot, threads: int) -> TableEntry:
        files = (*entry.files, *self._write_rows(table, threads))
        entry = replace(entry, files=tuple(sorted(files, key=lambda file: (file.max_sequence, file.min_time))))
        entry = entry.with_checkpoints(table.checkpoints, self._manifest.views.values())
        return self._with_tombstones(self._with_devices(entry, table.devices), table.tombstones)

    def _write_rows(self, table: TableSnapshot, threads: int) -> list[FileEntry]:
        """The rows in memory, as files."""
        runs = [run for run in table.files if isinstance(run, MemoryRun)]
        found = gather(table.table, runs, table.tombstones)
        if found is None:
            return []
        batch, numbers = found
        threads = threads if batch.row_count >= PARALLEL_ROWS_MIN else 1
        applied = int(table.tombstones.sequence[-1]) if len(table.tombstones) else 0
        devices, files = table.devices, list[FileEntry]()
        moved = payload_paths(self._source / table.table.folder, self._storage)
        for rows in arrange(batch, numbers, devices.rank, devices.by_rank, table.table.options, threads):
            name = self._name(table.table.folder, f"-{len(files)}{FILE_SUFFIX}")
            files.append(
                write_rows(
                    self._target, name, table.table, devices, self._with_paths(table.table, rows), threads,
                    applied=applied, moved=moved, storage=self._storage,
                )
            )  # fmt: skip
        return files

    def _with_paths(self, table: Table, rows: SortedRows) -> SortedRows:
        """Rows whose blobs outside of pages are found from another folder too."""
        folder = str(self._source / table.folder)
        return replace(rows, columns={name: with_paths(vector, folder) for name, vector in rows.columns.items()})

    def _with_devices(self, entry: TableEntry, devices: DeviceTable) -> TableEntry:
        schema = entry.table.schema
        stored = DeviceTable.empty(schema)
        if entry.device_file is not None:
            stored = read_device_file(str(self._source / entry.device_file), schema, self._storage)
        if _is_same(stored, devices):
            return entry
        name = self._name(entry.table.folder, DEVICE_SUFFIX)
        write_device_file(str(self._target / name), devices, self._storage)
        return replace(entry, device_file=name)

    def _with_tombstones(self, entry: TableEntry, tombstones: Tombstones) -> TableEntry:
        kept = tombstones.select(needed(tombstones, entry.files)) if len(tombstones) else tombstones
        if not len(kept):
            return replace(entry, tombstones=None)
        if entry.tombstones is not None:
            stored = read_tombstones(str(self._source / entry.tombstones), self._storage)
            if np.array_equal(stored.sequence, kept.sequence):
                return entry
        name = self._name(entry.table.folder, TOMBSTONE_SUFFIX)
        write_tombstones(str(self._target / name), kept, self._storage)
        return replace(entry, tombstones=name)

    def _name(self, folder: str, end: str) -> str:
        return f"{folder}/tail-{self._version:010}{end}"


def _is_same(one: DeviceTable, other: DeviceTable) -> bool:
    """Whether two versions of a table's devices, of which numbers stay, have the same devices and attributes."""
    if one.count != other.count or one.attributes.keys() != other.attributes.keys():
        return False
    return all(_is_equal(vector, other.attributes[name]) for name, vector in one.attributes.items())


def _is_equal(one: Vector, other: Vector) -> bool:
    if not np.array_equal(one.valid(), other.valid()) or one.values.tobytes() != other.values.tobytes():
        return False
    if one.pool is None or other.pool is None:
        return one.pool is other.pool
    return np.array_equal(one.pool.offsets, other.pool.offsets) and np.array_equal(one.pool.data, other.pool.data)
