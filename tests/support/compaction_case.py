"""A table's files as planning sees them, and as they come out of rewriting: the rules they must keep, and a store in small."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from support.snapshots import Row, overlay, tag_order, vector_of
from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table, TableOptions
from tsdb.storage.arrange import SortedRows
from tsdb.storage.compaction import Task, ttl_bound
from tsdb.storage.cuts import Cuts, free_times
from tsdb.storage.manifest import FileEntry, TableEntry
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.rewrite import rewrite
from tsdb.storage.snapshot import OpenFile, TableFile, TableSnapshot
from tsdb.storage.tombstone import EVERY_DEVICE, Tombstones
from tsdb_format.schema import SEQUENCE_NAME, Schema
from tsdb_format.types import INT64, Role
from tsdb_format.writer import write_file


def check_layout(files: Sequence[FileEntry]) -> None:
    """Files that overlap in time have disjoint ranges of sequence numbers."""
    low, high = np.array([f.min_time for f in files], np.int64), np.array([f.max_time for f in files], np.int64)
    oldest, newest = np.array([f.min_sequence for f in files], np.int64), np.array([f.max_sequence for f in files], np.int64)
    meets = (low[:, None] <= high) & (high[:, None] >= low) & (oldest[:, None] <= newest) & (newest[:, None] >= oldest)
    np.fill_diagonal(meets, False)
    assert not meets.any(), [(files[i], files[j]) for i, j in np.argwhere(meets).tolist()]


def depth(files: Sequence[FileEntry]) -> int:
    """The most files that hold one instant."""
    low, high = np.sort([f.min_time for f in files]), np.sort([f.max_time for f in files])
    return int((np.searchsorted(low, low, "right") - np.searchsorted(high, low, "left")).max()) if len(files) else 0


class FileSimulation:
    """Writes and tasks over files of which only times and sequence numbers are kept: every row has a time of its own."""

    def __init__(self, table: Table, *, cut_at_flush: bool = True) -> None:
        self.table = table
        self.files: dict[str, FileEntry] = {}
        self.written = self.rewritten = self.sequence = 0
        self._times: dict[str, Any] = {}
        self._cut_at_flush = cut_at_flush
        self._count = 0

    def write(self, times: Any) -> None:
        """One commit, flushed at once."""
        times = np.sort(np.asarray(times, np.int64))
        self.sequence += 1
        self.written += len(times)
        taken = [(file.min_time, file.max_time) for file in self.files.values()]
        cuts = Cuts(free=free_times(taken, int(times[0]), int(times[-1]))) if self._cut_at_flush else Cuts()
        self._put(times, np.full(len(times), self.sequence), np.full(len(times), self.sequence), cuts)

    def entry(self) -> TableEntry:
        """The table as the manifest would have it."""
        return TableEntry(self.table, tuple(sorted(self.files.values(), key=lambda file: file.max_sequence)))

    def run(self, task: Task) -> None:
        """Carry out a task, knowing of each row no more than the bounds of the file that it was in."""
        self.rewritten += task.rows
        times = np.concatenate([self._times.pop(file.name) for file in task.inputs])
        oldest = np.concatenate([np.full(file.rows, file.min_sequence) for file in task.inputs])
        newest = np.concatenate([np.full(file.rows, file.max_sequence) for file in task.inputs])
        for file in task.inputs:
            del self.files[file.name]
        order = np.argsort(times, kind="stable")
        self._put(times[order], oldest[order], newest[order], task.cuts)

    def _put(self, times: Any, oldest: Any, newest: Any, cuts: Cuts) -> None:
        edges = [0, *np.searchsorted(times, cuts.place(times, 1.0, self.table.options.file_rows_max)).tolist(), len(times)]
        for first, stop in zip(edges[:-1], edges[1:], strict=True):
            if first < stop:
                self._count += 1
                name = f"f{self._count}"
                bounds = int(times[first]), int(times[stop - 1]), int(oldest[first:stop].min()), int(newest[first:stop].max())
                self._times[name] = times[first:stop]
                self.files[name] = FileEntry(name, stop - first, 10, 100, *bounds)


class SmallStore:
    """One table in memory and in files, written, deleted from, flushed and compacted; beside it, what it ought to hold."""

    def __init__(self, folder: Path, schema: Schema, options: TableOptions, now_ns: Callable[[], int] = lambda: 0) -> None:
        self.table = Table(1, "t", schema, options, len(schema) + 1)
        self.devices = DeviceTable.empty(schema)
        self.sequence = 0
        self.tombstones = Tombstones.none()
        self.memory: list[MemoryRun] = []
        self.files: dict[str, OpenFile] = {}
        self.entries: dict[str, FileEntry] = {}
        self.now_ns = now_ns
        self._written: list[Row] = []
        self._deletes: list[tuple[Any, int, int, int]] = []
        self._folder = folder
        self._count = 0
        folder.mkdir(parents=True, exist_ok=True)

    # ------------------------------------------------------------------------------------------------ steps

    def write(self, rows: Sequence[Row]) -> None:
        """One commit into memory."""
        self.sequence += 1
        schema, order = self.table.schema, tag_order(self.table.schema)
        given = [{**row, SEQUENCE_NAME: self.sequence} for row in rows]
        self._written += given
        kept = sorted(overlay(schema, given, self.table.options.mode), key=lambda row: (order(row), row[schema.time.name]))
        starts = [i for i in range(len(kept)) if i == 0 or order(kept[i]) != order(kept[i - 1])]
        tags = {tag.name: vector_of(tag.type, [kept[i].get(tag.name) for i in starts]) for tag in schema.tags}
        numbers, self.devices = self.devices.resolve(tags, len(starts))
        names = {name for row in rows for name in row}
        stored = [c for c in schema if c.role in (Role.TIME, Role.FIELD) and c.name in names]
        columns = {column.name: vector_of(column.type, [row.get(column.name) for row in kept]) for column in stored}
        columns[SEQUENCE_NAME] = vector_of(INT64, [self.sequence] * len(kept))
        self.memory.append(MemoryRun(self.table, SortedRows(numbers, np.array([*starts, len(kept)], np.int64), columns, 0)))

    def delete(self, tags: Row | None, low: int, high: int) -> None:
        """One commit."""
        self.sequence += 1
        number = EVERY_DEVICE
        if tags is not None:
            vectors = {tag.name: vector_of(tag.type, [tags.get(tag.name)]) for tag in self.table.schema.tags}
            number = int(self.devices.find(vectors, 1)[0])
        self._deletes.append((None if tags is None else tag_order(self.table.schema)(tags), low, high, self.sequence))
        if number >= EVERY_DEVICE and (tags is None or number >= 0):
            ranges = np.array([low], np.int64), np.array([high], np.int64)
            self.tombstones = self.tombstones.plus(np.array([number], np.int32), *ranges, self.sequence)

    def flush(self, rows_max: int) -> None:
        """What is in memory becomes files."""
        if self.memory:
            low, high = min(run.min_time for run in self.memory), max(run.max_time for run in self.memory)
            free = free_times(((entry.min_time, entry.max_time) for entry in self.entries.values()), low, high)
            made = list(self.rewritten(tuple(self.memory), rows_max, Cuts(free=free)))
            self.memory = []
            self.put(made)

    def run(self, inputs: Sequence[FileEntry], cuts: Cuts, rows_max: int) -> list[FileEntry]:
        """Replace files by what is left of them."""
        ordered = sorted(inputs, key=lambda entry: entry.max_sequence)
        made = list(self.rewritten(tuple(self.files[entry.name] for entry in ordered), rows_max, cuts))
        self.drop(inputs)
        return self.put(made)

    def drop(self, entries: Sequence[FileEntry]) -> None:
        """Take files away."""
        for entry in entries:
            del self.files[entry.name], self.entries[entry.name]

    # ------------------------------------------------------------------------------------------------ state

    def entry(self) -> TableEntry:
        """The table as the manifest has it."""
        return TableEntry(self.table, tuple(sorted(self.entries.values(), key=lambda each: each.max_sequence)))

    def snapshot(self, files: tuple[TableFile, ...] | None = None) -> TableSnapshot:
        """The table as of now, or just some of its files."""
        if files is None:
            files = (*sorted(self.files.values(), key=lambda file: file.max_sequence), *self.memory)
        return TableSnapshot(self.table, files, self.devices, self.sequence, self.now_ns, None, self.tombstones)

    def rewritten(self, files: tuple[TableFile, ...], rows_max: int, cuts: Cuts) -> Iterator[SortedRows]:
        """The outputs, checked to be disjoint in time, ascending, and not to span a cut that has to be."""
        last = None
        time = self.table.schema.time.name
        for rows in rewrite(self.snapshot(files), rows_max=rows_max, cuts=cuts):
            times = rows.columns[time].values
            low, high = int(times.min()), int(times.max())
            assert last is None or low > last
            assert not any(low < cut <= high for cut in cuts.required)
            last = high
            yield rows

    def visible(self) -> list[Row]:
        """What a reader must see."""
        schema, order = self.table.schema, tag_order(self.table.schema)
        bound = ttl_bound(self.table.options, schema.time.type, self.now_ns())
        left = []
        for row in self._written:
            time, sequence, device = row[schema.time.name], row[SEQUENCE_NAME], order(row)
            gone = any(
                sequence <= until and low <= time <= high and (which is None or which == device)
                for which, low, high, until in self._deletes
            )
            if not gone and (bound is None or time >= bound):
                left.append(row)
        return _without_nulls(overlay(schema, left, self.table.options.mode), schema)

    def stored(self) -> list[Row]:
        """What the files and the rows in memory come to, by brute force: deletes and TTL first, then the overlay by age."""
        schema = self.table.schema
        bound = ttl_bound(self.table.options, schema.time.type, self.now_ns())
        rows = []
        for held in self.snapshot().files:
            for device, row in self.rows_of(held):
                time, sequence = row[schema.time.name], row[SEQUENCE_NAME]
                gone = any(
                    held.applied < until and sequence <= until and low <= time <= high and which in (EVERY_DEVICE, device)
                    for which, low, high, until in zip(*self._tombstone_lists(), strict=True)
                )
                if not gone and (bound is None or time >= bound):
                    rows.append(row)
        return _without_nulls(overlay(schema, rows, self.table.options.mode), schema)

    def rows_of(self, held: TableFile) -> list[tuple[int, Row]]:
        """(device, row) of everything that a file holds, checked to be as files must be."""
        schema, file = self.table.schema, held.file
        assert (np.diff(self.devices.rank[held.device_number]) > 0).all()
        whole = np.zeros(1, np.int64), np.array([file.row_count], np.int64)
        ids = {column.id: column.name for column in file.schema}
        columns = {
            c.name: file.read(ids[c.id], *whole).to_physical_list() for c in schema if c.id in ids and c.role is not Role.TAG
        }
        columns[SEQUENCE_NAME] = file.read(SEQUENCE_NAME, *whole).to_physical_list()
        device = np.repeat(held.device_number, np.diff(file.row_start))
        for tag in schema.tags:
            columns[tag.name] = self.devices.tags[tag.name].take(device).to_physical_list()
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        time = schema.time.name
        keys = [(d, row[time], row[SEQUENCE_NAME]) for d, row in zip(self.devices.rank[device].tolist(), rows, strict=True)]
        assert keys == sorted(keys)
        assert self.table.options.mode != "table" or len({key[:2] for key in keys}) == len(keys)
        assert (held.min_time, held.max_time) == (min(columns[time]), max(columns[time]))
        assert (held.min_sequence, held.max_sequence) == (min(columns[SEQUENCE_NAME]), max(columns[SEQUENCE_NAME]))
        return list(zip(device.tolist(), rows, strict=True))

    def check(self) -> None:
        """The rules that files keep, and that nothing was lost or came back."""
        check_layout(list(self.entries.values()))
        assert comparable(self.stored()) == comparable(self.visible())

    def _tombstone_lists(self) -> tuple[list[int], ...]:
        marks = self.tombstones
        return marks.device.tolist(), marks.low.tolist(), marks.high.tolist(), marks.sequence.tolist()

    def put(self, made: Sequence[SortedRows]) -> list[FileEntry]:
        """Write files, with all deletes so far carried out."""
        schema = self.table.schema
        entries = []
        for rows in made:
            self._count += 1
            name = f"{self._count}.tsf"
            facts = write_file(
                str(self._folder / name),
                schema=Schema(tuple(c for c in schema if c.role is Role.TAG or c.name in rows.columns)),
                device_tags={tag.name: self.devices.tags[tag.name].take(rows.numbers) for tag in schema.tags},
                row_start=rows.row_start, columns=rows.columns, rows_per_page=self.table.options.rows_per_page,
                device_number=rows.numbers, sync=False,
            )  # fmt: skip
            bounds = facts.min_time, facts.max_time, facts.min_sequence, facts.max_sequence
            entry = FileEntry(name, facts.rows, facts.devices, facts.bytes, *bounds, applied=self.sequence)
            self.entries[name] = entry
            self.files[name] = OpenFile(self._folder, entry, lambda: self.devices)
            entries.append(entry)
        return entries


def comparable(rows: Sequence[Row]) -> list[str]:
    """Rows in an order and a form that compare to the bit."""
    return sorted(repr(sorted(row.items())) for row in rows)


def _without_nulls(rows: Sequence[Row], schema: Schema) -> list[Row]:
    names = [column.name for column in schema] + [SEQUENCE_NAME]
    return [{name: row[name] for name in names if row.get(name) is not None} for row in rows]
