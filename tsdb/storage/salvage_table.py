"""Salvaging one table: its devices from wherever they are named, its rows from files and log, without what was deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tsdb.catalog.device import DeviceTable, Int32Array
from tsdb.catalog.device_file import MAGIC as DEVICE_MAGIC
from tsdb.catalog.device_file import SUFFIX as DEVICE_SUFFIX
from tsdb.catalog.device_file import read_values, write_device_file
from tsdb.storage.arrange import SortedRows, arrange, stamp
from tsdb.storage.batch import RowBatch
from tsdb.storage.files import FILE_SUFFIX, payload_paths, write_rows
from tsdb.storage.finding import Problem, problem_of
from tsdb.storage.log_record import Change
from tsdb.storage.manifest import FileEntry, TableEntry
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.memtable import gather
from tsdb.storage.salvage_catalog import Remains
from tsdb.storage.salvage_source import BatchSource, FileSource, Source
from tsdb.storage.table_check import overlapping
from tsdb.storage.tombstone import EVERY_DEVICE, Tombstones, read_tombstones
from tsdb_format.blob import with_paths
from tsdb_format.disk import Storage
from tsdb_format.errors import Corruption, Error, UnsupportedFormat
from tsdb_format.inspect import value_text
from tsdb_format.reader import TsFile
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME, Column
from tsdb_format.section import Container
from tsdb_format.types import Role
from tsdb_format.vector import IntArray, Vector, concat, null_vector

#: Rows that are put in order together.
SLICE_ROWS = 2**21


class Numbers:
    """From device numbers of the damaged database to those of the new one."""

    def __init__(self) -> None:
        self._new: Int32Array = np.full(64, -1, np.int32)

    def put(self, old: Int32Array | IntArray, new: Int32Array) -> None:
        """Note that devices ``old`` are ``new``."""
        if len(old) and int(old.max()) >= len(self._new):
            grown = np.full(2 * int(old.max()) + 1, -1, np.int32)
            grown[: len(self._new)] = self._new
            self._new = grown
        self._new[old] = new

    def get(self, old: Int32Array | IntArray) -> Int32Array:
        """The new numbers; −1 for devices that nobody knows."""
        inside = (old >= 0) & (old < len(self._new))
        found: Int32Array = np.where(inside, self._new[np.where(inside, old, 0)], np.int32(-1))
        return found


class TableSalvage:
    """Writes one table anew. ``lost`` collects what could not be read."""

    def __init__(self, root: Path, target: Path, remains: Remains, names: Iterator[int], storage: Storage) -> None:
        """``names`` numbers the files of the new database."""
        self._root = root
        self._target = target
        self._remains = remains
        self._names = names
        self._storage = storage
        self._table = remains.table
        self._numbers = Numbers()
        self._devices = DeviceTable.empty(remains.table.schema)
        self._tombstones = Tombstones.none()
        self._runs: list[MemoryRun] = []
        self.lost: list[Problem] = []

    def run(self, changes: Sequence[tuple[int, Change, str]]) -> TableEntry:
        """Write what can be read of the table, the commits of the log that concern it among that. Raises OSError."""
        files = self._open_files()
        self._read_devices(files)
        sources: list[Source] = list(self._file_sources(files))
        for name in self._remains.tombstone_files:
            self._read_tombstones(name)
        for sequence, change, path in changes:
            self._take(sequence, change, path)
        found = gather(self._table, self._runs, self._tombstones)
        if found is not None:
            sources.append(BatchSource(*found))
        entries = [entry for group in _groups(sources) for entry in self._write(group)]
        entry = TableEntry(self._table, tuple(sorted(entries, key=lambda file: (file.max_sequence, file.min_time))))
        if self._devices.count:
            name = self._name(DEVICE_SUFFIX)
            write_device_file(str(self._target / name), self._devices, self._storage)
            entry = TableEntry(self._table, entry.files, name)
        return entry

    # ------------------------------------------------------------------------------------------------ files and devices

    def _open_files(self) -> list[TsFile]:
        files = []
        for name, entry in self._remains.files.items():
            path = str(self._root / name)
            try:
                file = TsFile(path, self._storage)
                _ = file.row_start
                if entry is not None and not _is_meant(entry, file):
                    raise Corruption("is another file than the manifest means", path=path, offset=0)
                files.append(file)
            except UnsupportedFormat:
                raise
            except Error as error:
                problem = problem_of(self._table.name, path, error)
                self._lose(path, f"{problem.message}; {self._size_text(entry)}", problem.offset)
        return files

    def _size_text(self, entry: FileEntry | None) -> str:
        if entry is None:
            return "all its rows are lost"
        kind = self._table.schema.time.type
        return f"{entry.rows:,} rows from {value_text(kind, entry.min_time)} to {value_text(kind, entry.max_time)} are lost"

    def _read_devices(self, files: Sequence[TsFile]) -> None:
        """The devices by their old numbers: from the newest device file that can be read, and from files with their sidecars."""
        schema = self._table.schema
        for place, name in enumerate(self._remains.device_files):
            path = str(self._root / name)
            try:
                self._read_device_file(path)
                if not all(self._is_known(file) for file in files):
                    raise Corruption("has other devices than the data files", path=path, offset=0)
            except Error as error:
                self._report(problem_of(self._table.name, path, error), "; attributes may be lost")
                self._numbers, self._devices = Numbers(), DeviceTable.empty(schema)
                continue
            if place and any(column.role is Role.ATTRIBUTE for column in schema):
                self._lose(str(self._root / name), "is an older version of the devices: attributes that were set later are lost")
            return
        for file in files:
            stored = file.resource.device_number
            if stored is not None:
                tags = self._tags_of(file)
                if tags is not None:
                    self._numbers.put(stored, self._resolve(tags, file.device_count))

    def _read_device_file(self, path: str) -> None:
        container = Container(path, DEVICE_MAGIC, self._storage)
        count = container.attributes.get("count")
        if not isinstance(count, int) or count < 0:
            raise container.corrupt("a device file without its count", container.directory_offset)
        tags = {c.name: read_values(container, c, count) or null_vector(c.type, count) for c in self._table.schema.tags}
        numbers = self._resolve(tags, count) if count else np.empty(0, np.int32)
        self._numbers.put(np.arange(count), numbers)
        for column in self._table.schema:
            if column.role is Role.ATTRIBUTE:
                try:
                    vector = read_values(container, column, count)
                except Error as error:
                    self._report(problem_of(self._table.name, path, error), f"; attribute {column.name!r} is lost")
                    continue
                if vector is not None:
                    self._devices = self._devices.with_attributes(numbers, {column.name: vector})

    def _is_known(self, file: TsFile) -> bool:
        """Whether a file's devices have the numbers that its sidecar says, as far as both can be read."""
        stored, tags = file.resource.device_number, self._tags_of(file)
        if stored is None or tags is None or not self._table.schema.tags:
            return True
        return bool((self._numbers.get(stored) == self._devices.find(tags, file.device_count)).all())

    def _resolve(self, tags: dict[str, Vector], count: int) -> Int32Array:
        numbers, self._devices = self._devices.resolve(tags, count)
        return numbers

    def _tags_of(self, file: TsFile) -> dict[str, Vector] | None:
        """A file's tags by the names that the table has for them; None where they cannot be read."""
        try:
            by_id = {column.id: file.device_tags[column.name] for column in file.schema.tags}
        except Error:
            return None
        tags = self._table.schema.tags
        if any(column.id in by_id and by_id[column.id].type != column.type for column in tags):
            return None
        return {column.name: by_id[column.id] for column in tags if column.id in by_id}

    def _file_sources(self, files: Sequence[TsFile]) -> Iterator[FileSource]:
        for file in files:
            tags = self._tags_of(file)
            if tags is not None:
                yield FileSource(self._table.name, file, self._resolve(tags, file.device_count))
                continue
            stored = file.resource.device_number  # the sidecar and the device file tell what the file cannot
            if stored is None:
                self._lose(file.path, f"its tags cannot be read; {file.row_count:,} rows are lost")
            else:
                yield FileSource(self._table.name, file, self._numbers.get(stored))

    def _read_tombstones(self, name: str) -> None:
        path = str(self._root / name)
        try:
            found = read_tombstones(path, self._storage)
        except Error as error:
            self._report(problem_of(self._table.name, path, error), "; rows that were deleted may be back")
            return
        for sequence in np.unique(found.sequence).tolist():
            mine = found.select(found.sequence == sequence)
            self._delete(mine.device, mine.low, mine.high, sequence)

    def _delete(self, device: Int32Array, low: IntArray, high: IntArray, sequence: int) -> None:
        """Note a delete; that of a device which nobody knows deletes nothing."""
        numbers = np.where(device == EVERY_DEVICE, np.int32(EVERY_DEVICE), self._numbers.get(device))
        known = (device == EVERY_DEVICE) | (numbers >= 0)
        self._tombstones = self._tombstones.plus(numbers[known].astype(np.int32), low[known], high[known], sequence)

    # ------------------------------------------------------------------------------------------------ the log

    def _take(self, sequence: int, change: Change, path: str) -> None:
        """Take in a commit of the log."""
        columns = {column.id: column for column in self._table.schema}
        if change.new_devices:
            tags = _named(columns, change.device_tags, Role.TAG)
            first = np.arange(change.new_devices) + change.first_device
            self._numbers.put(first, self._resolve(tags, change.new_devices))
        if len(change.attribute_devices):
            numbers = self._numbers.get(change.attribute_devices)
            values = _named(columns, change.attributes, Role.ATTRIBUTE)
            known = numbers >= 0
            known_values = {name: vector.take(known) for name, vector in values.items()}
            self._devices = self._devices.with_attributes(numbers[known], known_values, nulls=True)
        if len(change.deleted_device):
            self._delete(change.deleted_device, change.deleted_low, change.deleted_high, sequence)
        if len(change.numbers):
            self._take_rows(sequence, change, columns, path)

    def _take_rows(self, sequence: int, change: Change, columns: dict[int, Column], path: str) -> None:
        folder = str(self._root / self._table.folder)
        given = {name: with_paths(each, folder) for name, each in _named(columns, change.columns, Role.TIME, Role.FIELD).items()}
        if self._table.schema.time.name not in given:
            self._lose(path, f"commit {sequence:,} has no times of the table's; {change.row_count:,} rows are lost")
            return
        numbers, sizes = self._numbers.get(change.numbers), np.diff(change.row_start)
        known = numbers >= 0
        if not known.all():
            lost = int(sizes[~known].sum())
            self._lose(path, f"commit {sequence:,} names devices that nobody knows; {lost:,} rows are lost")
            rows = np.repeat(known, sizes)
            given = {name: vector.take(rows) for name, vector in given.items()}
            numbers, sizes = numbers[known], sizes[known]
        if len(numbers):
            row_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            self._runs.append(MemoryRun(self._table, stamp(SortedRows(numbers, row_start, given, 0), sequence)))

    # ------------------------------------------------------------------------------------------------ writing

    def _write(self, group: Sequence[Source]) -> Iterator[FileEntry]:
        """Write the rows of sources that have to be merged, in slices of time."""
        for source in group:
            self.lost += source.load(self._tombstones)
        applied = int(self._tombstones.sequence.max()) if len(self._tombstones) else 0
        for low, high in _slices([source.times for source in group]):
            found = self._merged(group, low, high)
            if found is None:
                continue
            batch, numbers = found
            for rows in arrange(batch, numbers, self._devices.rank, self._devices.by_rank, self._table.options):
                name = self._name(FILE_SUFFIX)
                yield write_rows(
                    self._target, name, self._table, self._devices, rows, 1,
                    applied=applied, moved=payload_paths(self._root / self._table.folder, self._storage), storage=self._storage,
                )  # fmt: skip
        for source in group:
            source.release()

    def _merged(self, group: Sequence[Source], low: int, high: int) -> tuple[RowBatch, Int32Array] | None:
        """The rows of some times in the order of their commits, each once."""
        places = [np.flatnonzero((source.times >= low) & (source.times <= high)) for source in group]
        sequences = np.concatenate([source.sequences[place] for source, place in zip(group, places, strict=True)])
        numbers = np.concatenate([source.devices[place] for source, place in zip(group, places, strict=True)])
        if not len(numbers):
            return None
        order: IntArray | None = None
        if len(group) > 1:
            times = np.concatenate([source.times[place] for source, place in zip(group, places, strict=True)])
            origin = np.repeat(np.arange(len(group)), [len(place) for place in places])
            twins = not self._table.options.overlays  # elsewhere two versions of a row complement each other
            order = _in_order(numbers, times, sequences, origin) if twins else np.argsort(sequences, kind="stable")
        columns: dict[str, tuple[Vector, ...]] = {}
        for column in self._table.schema:
            if column.role in (Role.TIME, Role.FIELD):
                pieces = [source.read(column, place) for source, place in zip(group, places, strict=True)]
                if any(piece is not None for piece in pieces):
                    filled = [
                        null_vector(column.type, len(place)) if piece is None else piece
                        for piece, place in zip(pieces, places, strict=True)
                    ]
                    whole = concat(filled)
                    columns[column.name] = (whole if order is None else whole.take(order),)
        kept = slice(None) if order is None else order
        columns[SEQUENCE_NAME] = (Vector(SEQUENCE_COLUMN.type, sequences[kept]),)
        return RowBatch(self._table.schema, len(numbers[kept]), dict(columns)), numbers[kept]

    def _name(self, suffix: str) -> str:
        return f"{self._table.folder}/{next(self._names):010}{suffix}"

    def _lose(self, path: str, text: str, offset: int | None = None) -> None:
        self.lost.append(Problem(self._table.name, path, text, offset))

    def _report(self, problem: Problem, then: str) -> None:
        self.lost.append(Problem(problem.table, problem.path, problem.message + then, problem.offset))


def _is_meant(entry: FileEntry, file: TsFile) -> bool:
    """Whether a file has what its entry says."""
    names = ("min_time", "max_time", "min_sequence", "max_sequence")
    same = all(getattr(entry, name) == getattr(file, name) for name in names)
    return same and (entry.rows, entry.devices) == (file.row_count, file.device_count)


def _named(columns: dict[int, Column], vectors: dict[int, Vector], *roles: Role) -> dict[str, Vector]:
    """Vectors by the names that the table has for their columns; what it has no more is left out."""
    named = {}
    for number, vector in vectors.items():
        column = columns.get(number)
        if column is not None and column.role in roles and column.type == vector.type:
            named[column.name] = vector
    return named


def _groups(sources: Sequence[Source]) -> list[list[Source]]:
    """Sources that overlap in time and in commits together, so that their rows are merged; most are alone."""
    group = list(range(len(sources)))

    def find(place: int) -> int:
        while group[place] != place:
            group[place] = place = group[group[place]]
        return place

    for one, other in overlapping(sources):
        group[find(one)] = find(other)
    found: dict[int, list[Source]] = {}
    for place, source in enumerate(sources):
        found.setdefault(find(place), []).append(source)
    return list(found.values())


def _slices(times: Sequence[IntArray]) -> Iterator[tuple[int, int]]:
    """Ranges of time with about ``SLICE_ROWS`` rows at most, ascending."""
    total = sum(len(each) for each in times)
    if not total:
        return
    bounds = np.iinfo(np.int64)
    if total <= SLICE_ROWS:
        yield int(bounds.min), int(bounds.max)
        return
    step = max(1, total // 65_536)
    sample = np.sort(np.concatenate([each[::step] for each in times]))
    parts = -(-total // SLICE_ROWS)
    cuts = np.unique(sample[np.arange(1, parts) * len(sample) // parts]).tolist()
    for low, high in zip([int(bounds.min), *cuts], [*(cut - 1 for cut in cuts), int(bounds.max)], strict=True):
        if low <= high:
            yield low, high


def _in_order(numbers: Int32Array, times: IntArray, sequences: IntArray, origin: IntArray) -> IntArray:
    """Rows in the order of their commits; of those that several sources have, the same device, time and commit, one source's."""
    order = np.lexsort((origin, sequences, times, numbers))
    same = np.zeros(len(order), np.bool_)
    same[1:] = (
        (numbers[order[1:]] == numbers[order[:-1]])
        & (times[order[1:]] == times[order[:-1]])
        & (sequences[order[1:]] == sequences[order[:-1]])
    )
    first = np.flatnonzero(~same)
    leader = origin[order[first]]
    kept = order[origin[order] == np.repeat(leader, np.diff(np.append(first, len(order))))]
    found: IntArray = kept[np.argsort(sequences[kept], kind="stable")]
    return found
