"""A table's history in small steps: writes to files or to memory, deletes, and pieces rewritten as one; and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from support.snapshots import Row, overlay, tag_order, vector_of
from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table, TableOptions
from tsdb.storage.arrange import SortedRows
from tsdb.storage.manifest import FileEntry
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.snapshot import OpenFile, Snapshot, TableFile, TableSnapshot
from tsdb.storage.tombstone import EVERY_DEVICE, Tombstones
from tsdb_format.schema import SEQUENCE_NAME, Schema
from tsdb_format.types import INT64, Role
from tsdb_format.vector import Vector
from tsdb_format.writer import write_file


@dataclass(frozen=True)
class Delete:
    """Rows of the device with ``tags`` (None: of every device) with low ≤ time ≤ high, written up to ``sequence``."""

    tags: Row | None
    low: int
    high: int
    sequence: int


class History:
    """One table ``t``. Every step takes the next sequence number; snapshots share what did not change."""

    def __init__(self, folder: Path, schema: Schema, options: TableOptions | None = None) -> None:
        self.schema = schema
        self.table = Table(1, "t", schema, options or TableOptions(), len(schema) + 1)
        self.devices = DeviceTable.empty(schema)
        self.sequence = 0
        self.deletes: list[Delete] = []
        self.tombstones = Tombstones.none()
        self._written: list[Row] = []
        self._pieces: list[tuple[list[Row], TableFile]] = []
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, rows: Sequence[Row], memory: bool) -> None:
        """One commit."""
        self.sequence += 1
        given = [{**row, SEQUENCE_NAME: self.sequence} for row in rows]
        self._written += given
        self._add(overlay(self.schema, given, self.table.options.mode), memory, applied=0)

    def delete(self, tags: Row | None, low: int, high: int) -> None:
        """One commit; the device need not exist."""
        self.sequence += 1
        self.deletes.append(Delete(tags, low, high, self.sequence))
        number = EVERY_DEVICE
        if tags is not None:
            vectors = {tag.name: vector_of(tag.type, [tags.get(tag.name)]) for tag in self.schema.tags}
            number = int(self.devices.find(vectors, 1)[0])
            if number < 0:
                return
        ranges = np.array([low], np.int64), np.array([high], np.int64)
        self.tombstones = self.tombstones.plus(np.array([number], np.int32), *ranges, self.sequence)

    def compact(self, count: int, memory: bool) -> None:
        """Replace the last pieces by one, with the deletes of by now carried out."""
        at = max(0, len(self._pieces) - count)
        taken, self._pieces = self._pieces[at:], self._pieces[:at]
        rows = [row for rows, _ in taken for row in rows if not self.is_gone(row)]
        if rows:
            self._add(overlay(self.schema, rows, self.table.options.mode), memory, applied=self.sequence)

    def is_gone(self, row: Row) -> bool:
        """Whether a delete took a version of a row."""
        device, time = tag_order(self.schema), row[self.schema.time.name]
        return any(
            row[SEQUENCE_NAME] <= delete.sequence
            and delete.low <= time <= delete.high
            and (delete.tags is None or device(delete.tags) == device(row))
            for delete in self.deletes
        )

    def visible(self) -> list[Row]:
        """The rows that a reader sees."""
        return overlay(self.schema, [row for row in self._written if not self.is_gone(row)], self.table.options.mode)

    def table_snapshot(self) -> TableSnapshot:
        """The table as of now."""
        files = tuple(file for _, file in self._pieces)
        return TableSnapshot(self.table, files, self.devices, self.sequence, lambda: 0, None, self.tombstones)

    def snapshot(self) -> Snapshot:
        """The database as of now."""
        return Snapshot(1, self.sequence, {"t": self.table_snapshot()})

    def _add(self, rows: list[Row], memory: bool, applied: int) -> None:
        order = tag_order(self.schema)
        rows = sorted(rows, key=lambda row: (order(row), row[self.schema.time.name], row[SEQUENCE_NAME]))
        starts = [i for i in range(len(rows)) if i == 0 or order(rows[i]) != order(rows[i - 1])]
        tags = {tag.name: vector_of(tag.type, [rows[i].get(tag.name) for i in starts]) for tag in self.schema.tags}
        numbers, self.devices = self.devices.resolve(tags, len(starts))
        given = {name for row in rows for name, value in row.items() if value is not None}
        stored = [c for c in self.schema if c.role is Role.TIME or (c.role is Role.FIELD and c.name in given)]
        columns = {column.name: vector_of(column.type, [row.get(column.name) for row in rows]) for column in stored}
        columns[SEQUENCE_NAME] = vector_of(INT64, [row[SEQUENCE_NAME] for row in rows])
        held = SortedRows(numbers, np.array([*starts, len(rows)], np.int64), columns, 0)
        file = MemoryRun(self.table, held, applied) if memory else self._file(held, tags, applied)
        self._pieces.append((rows, file))

    def _file(self, held: SortedRows, tags: dict[str, Vector], applied: int) -> OpenFile:
        name = f"{self.sequence}-{applied}.tsf"
        facts = write_file(
            str(self._folder / name),
            schema=Schema(tuple(c for c in self.schema if c.role is Role.TAG or c.name in held.columns)),
            device_tags=tags, row_start=held.row_start, columns=held.columns, rows_per_page=self.table.options.rows_per_page,
            device_number=held.numbers, sync=False,
        )  # fmt: skip
        bounds = facts.min_time, facts.max_time, facts.min_sequence, facts.max_sequence
        file = OpenFile(self._folder, FileEntry(name, facts.rows, facts.devices, facts.bytes, *bounds), lambda: self.devices)
        file.applied = applied
        return file
