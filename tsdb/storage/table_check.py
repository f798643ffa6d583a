"""Verifying one table: its device file, its deletes, every data file with its sidecar, and what the manifest says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.device_file import MAGIC as DEVICE_MAGIC
from tsdb.catalog.device_file import read_device_file
from tsdb.catalog.shard import shards_of
from tsdb.catalog.tag_order import tag_ranks
from tsdb.storage.damage import damaged_blobs, damaged_pages
from tsdb.storage.finding import Problem, problem_of
from tsdb.storage.manifest import FileEntry, Manifest, TableEntry
from tsdb.storage.tombstone import MAGIC as TOMBSTONE_MAGIC
from tsdb.storage.tombstone import read_tombstones
from tsdb_format.disk import Storage
from tsdb_format.encoding import PAGES_PER_CHUNK
from tsdb_format.errors import Error, NotFound
from tsdb_format.inspect import stored_columns
from tsdb_format.reader import TsFile
from tsdb_format.resource import MAGIC as RESOURCE_MAGIC
from tsdb_format.resource import device_orders, resource_path
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.section import Container, checksum
from tsdb_format.types import Kind, Role
from tsdb_format.vector import IntArray, null_vector


class TableCheck:
    """One table of a manifest version. What is wrong with its devices and deletes is in ``problems`` at once."""

    def __init__(self, root: Path, entry: TableEntry, manifest: Manifest, storage: Storage) -> None:
        self._root = root
        self._entry = entry
        self._manifest = manifest
        self._storage = storage
        self._name = entry.table.name
        self.problems: list[Problem] = []
        #: The devices that files know; None where the device file cannot be read.
        self.devices = self._read_devices()
        self._read_tombstones()

    @property
    def device_count(self) -> int | None:
        """How many devices files know; None where that cannot be told."""
        return None if self.devices is None else self.devices.count

    def _read_devices(self) -> DeviceTable | None:
        name, schema = self._entry.device_file, self._entry.table.schema
        if name is None:
            if self._entry.files:
                self._wrong(self._manifest.name, "names files of the table, and no device file")
            return DeviceTable.empty(schema)
        path = str(self._root / name)
        found = list(check_container(self._name, path, DEVICE_MAGIC, self._storage))
        self.problems += found
        if found:
            return None
        try:
            devices = read_device_file(path, schema, self._storage)
        except Error as error:
            self.problems.append(problem_of(self._name, path, error))
            return None
        rank, by_rank = tag_ranks([devices.tags[column.name] for column in schema.tags], devices.count)
        if not (np.array_equal(rank, devices.rank) and np.array_equal(by_rank, devices.by_rank)):
            self._wrong(name, "its devices are not ranked in the order of their tags")
        if devices.count and devices.resolve(devices.tags, devices.count)[0].tolist() != list(range(devices.count)):
            self._wrong(name, "a device is in it twice")
        return devices

    def _read_tombstones(self) -> None:
        name = self._entry.tombstones
        if name is None:
            return
        path = str(self._root / name)
        found = list(check_container(self._name, path, TOMBSTONE_MAGIC, self._storage))
        self.problems += found
        if found:
            return
        try:
            tombstones = read_tombstones(path, self._storage)
        except Error as error:
            self.problems.append(problem_of(self._name, path, error))
            return
        if len(tombstones) and (np.diff(tombstones.sequence) < 0).any():
            self._wrong(name, "its deletes are not in the order of their commits")
        if len(tombstones) and int(tombstones.sequence.max()) > self._manifest.sequence:
            self._wrong(name, f"has a delete of commit {int(tombstones.sequence.max()):,}, which the manifest does not know")
        if self.devices is not None and len(tombstones) and int(tombstones.device.max()) >= self.devices.count:
            self._wrong(name, f"deletes from device {int(tombstones.device.max()):,} where there are {self.devices.count:,}")

    def check_file(self, entry: FileEntry) -> Iterator[Problem]:
        """Everything about one data file. Raises NotFound where it is missing."""
        path = str(self._root / entry.name)
        try:
            file = TsFile(path, self._storage)
        except NotFound:
            raise
        except Error as error:
            yield problem_of(self._name, path, error)
            return
        found = list(check_data(self._name, file))
        yield from found
        if entry.payloads != file.payloads:
            yield Problem(self._name, path, "the manifest expects other payload files than it names")
        for text in self._disagreements(entry, file):
            yield Problem(self._name, path, text)
        if not found:
            yield from self._check_devices(file)
            yield from self._check_shard(entry, file)
        sidecar = list(check_sidecar(self._name, file, self._storage, whole=not found))
        yield from sidecar
        if not sidecar:
            size = file.size_bytes + len(self._storage.read(resource_path(path)))
            if size != entry.bytes:
                yield Problem(self._name, path, f"the manifest expects {entry.bytes:,} bytes with the sidecar, not {size:,}")

    def _disagreements(self, entry: FileEntry, file: TsFile) -> Iterator[str]:
        """What the manifest says of a file, and the file does not."""
        pairs = (
            ("rows", entry.rows, file.row_count), ("devices", entry.devices, file.device_count),
            ("as first time", entry.min_time, file.min_time), ("as last time", entry.max_time, file.max_time),
            ("as first commit", entry.min_sequence, file.min_sequence), ("as last commit", entry.max_sequence, file.max_sequence),
        )  # fmt: skip
        for what, said, found in pairs:
            if said != found:
                number = f"{said:,} {what}, not {found:,}" if what in ("rows", "devices") else f"{said} {what}, not {found}"
                yield f"the manifest expects {number}"
        known = {column.id: column for column in self._entry.table.schema}
        for column in [*stored_columns(file)[2:], file.schema.time, *file.schema.tags]:
            mine = known.get(column.id)
            if column.id >= self._entry.table.next_column_id or (mine and (mine.type, mine.role) != (column.type, column.role)):
                yield f"column {column.name!r} (id {column.id}, {column.type} {column.role.name}) is none of the table's"

    def _check_devices(self, file: TsFile) -> Iterator[Problem]:
        """The devices are the table's, in tag order, and the sidecar's numbers are theirs."""
        devices = self.devices
        if devices is None:
            return
        names = {column.id: column.name for column in devices.schema}
        tags = {names[c.id]: file.device_tags[c.name] for c in file.schema.tags if c.id in names}
        numbers = devices.find(tags, file.device_count) if devices.schema.tags else np.zeros(file.device_count, np.int32)
        if int(numbers.min()) < 0 or int(numbers.max()) >= devices.count:
            yield Problem(self._name, file.path, f"{int((numbers < 0).sum()) or 1:,} of its devices are none of the table's")
            return
        if (np.diff(devices.rank[numbers]) <= 0).any():
            yield Problem(self._name, file.path, "its devices are not in the order of their tags")
        stored = file.resource.device_number
        if stored is not None and not np.array_equal(stored, numbers):
            yield Problem(self._name, resource_path(file.path), "its device numbers are not those of the table")

    def _check_shard(self, entry: FileEntry, file: TsFile) -> Iterator[Problem]:
        """Every row is of the shard that the manifest says."""
        table = self._entry.table
        if entry.shard is None or not table.options.shard_by:
            return
        names = {column.id: column.name for column in file.schema}
        of_row = np.repeat(np.arange(file.device_count), np.diff(file.row_start))
        vectors = []
        for column in map(table.schema.column, table.options.shard_by):
            if column.id not in names:
                vectors.append(null_vector(column.type, file.row_count))
            elif column.role is Role.TAG:
                vectors.append(file.device_tags[names[column.id]].take(of_row))
            else:
                vectors.append(file.read(names[column.id], np.zeros(1, np.int64), np.array([file.row_count])))
        others = int(np.count_nonzero(shards_of(vectors, table.options.shards) != entry.shard))
        if others:
            yield Problem(self._name, file.path, f"the manifest expects rows of shard {entry.shard}, and {others:,} are of others")

    def _wrong(self, name: str, text: str) -> None:
        self.problems.append(Problem(self._name, str(self._root / name), text))


def check_container(table: str, path: str, magic: bytes, storage: Storage) -> Iterator[Problem]:
    """The checksums of a file that is nothing but sections."""
    try:
        container = Container(path, magic, storage)
    except Error as error:
        yield problem_of(table, path, error)
        return
    for name, offset in bad_sections(container):
        yield Problem(table, path, f"the checksum of section {name!r} does not match", offset)


def bad_sections(container: Container) -> list[tuple[str, int]]:
    """Names and offsets of the sections whose checksum does not match."""
    return [
        (name, offset)
        for name, offset, size, _, _, digest in container.listing()
        if checksum(container.buffer[offset : offset + size]) != digest
    ]


def check_data(table: str, file: TsFile) -> Iterator[Problem]:
    """The checksums of a data file's sections and pages, and where these are right the order and the bounds of its rows."""
    bad = bad_sections(file.container)
    for name, offset in bad:
        yield Problem(table, file.path, f"the checksum of section {name!r} does not match", offset)
    unread = {name.partition(".")[2] for name, _ in bad}
    whole = not bad
    for column in stored_columns(file):
        if str(column.id) not in unread:
            for damage in damaged_pages(file, column.name):
                whole = False
                yield Problem(table, file.path, str(damage), damage.offset)
        if column.type.kind is Kind.BLOB:
            for rows, error in damaged_blobs(file, column.name):
                found = problem_of(table, file.path, error)
                yield Problem(table, found.path, f"{found.message}: {blob_text(column.name, rows)}", found.offset)
    if whole:
        try:
            yield from (Problem(table, file.path, text) for text in _check_rows(file))
        except Error as error:
            yield problem_of(table, file.path, error)


def blob_text(name: str, rows: IntArray) -> str:
    """Which blobs these are."""
    more = f" and {len(rows) - 1:,} more" if len(rows) > 1 else ""
    return f"the blob of column {name!r} in row {int(rows.min()):,}{more}"


def _check_rows(file: TsFile) -> Iterator[str]:
    """Rows are in the order of time and commit within their device, and within the bounds that the file claims."""
    _ = file.device_tags
    starts, size = file.row_start, file.rows_per_page * PAGES_PER_CHUNK
    before: tuple[int, int] | None = None
    bounds = [np.iinfo(np.int64).max, np.iinfo(np.int64).min] * 2
    for start in range(0, file.row_count, size):
        stop = min(start + size, file.row_count)
        rows = np.array([start]), np.array([stop])
        time, sequence = file.read(file.schema.time.name, *rows).values, file.read(SEQUENCE_NAME, *rows).values
        bounds = [
            min(bounds[0], int(time.min())), max(bounds[1], int(time.max())),
            min(bounds[2], int(sequence.min())), max(bounds[3], int(sequence.max())),
        ]  # fmt: skip
        if before is not None:
            time, sequence = np.append(before[0], time), np.append(before[1], sequence)
        falls = (time[1:] < time[:-1]) | ((time[1:] == time[:-1]) & (sequence[1:] < sequence[:-1]))
        first = start if before is not None else start + 1
        inside = starts[(starts >= first) & (starts < stop)]
        falls[inside - first] = False
        if falls.any():
            yield f"row {first + int(falls.argmax()):,} is earlier than the one before it"
            return
        before = int(time[-1]), int(sequence[-1])
    claimed = [file.min_time, file.max_time, file.min_sequence, file.max_sequence]
    if bounds != claimed:
        yield f"its times and commits are {bounds}, and it claims {claimed}"


def check_sidecar(table: str, file: TsFile, storage: Storage, *, whole: bool) -> Iterator[Problem]:
    """The sidecar's checksums, and where the file is ``whole`` that it says what the file does."""
    path = resource_path(file.path)
    try:
        container = Container(path, RESOURCE_MAGIC, storage)
    except NotFound:
        yield Problem(table, file.path, "the sidecar is not used: absent")
        return
    except Error as error:
        yield problem_of(table, path, error)
        return
    bad = bad_sections(container)
    for name, offset in bad:
        yield Problem(table, path, f"the checksum of section {name!r} does not match", offset)
    if bad or not whole:
        return
    resource = file.resource
    reason = resource.verify()
    if reason:
        yield Problem(table, file.path, f"the sidecar is not used: {reason}")
        return
    first, stop, time = file.row_start[:-1], file.row_start[1:], file.schema.time.name
    min_time, max_time = file.read(time, first, first + 1).values, file.read(time, stop - 1, stop).values
    by_min, by_max = device_orders(min_time, max_time)
    times = np.array_equal(resource.min_time, min_time) and np.array_equal(resource.max_time, max_time)
    if not (times and np.array_equal(resource.by_min_time, by_min) and np.array_equal(resource.by_max_time, by_max)):
        yield Problem(table, path, "its times by device are not those of the file")


def check_entries(entry: TableEntry, manifest: Manifest) -> Iterator[str]:
    """What a manifest says of a table and cannot be."""
    table = entry.table
    ids = [column.id for column in table.schema]
    if table.id >= manifest.next_table or len(set(ids)) < len(ids) or max(ids) >= table.next_column_id:
        yield "its number or those of its columns could be given again"
    for name in entry.names:
        stem = Path(name).stem
        if not name.startswith(f"{table.folder}/") or (stem.isdigit() and int(stem) >= manifest.next_file):
            yield f"{name} is no name for a file of it"
    if len(set(entry.names)) < len(entry.names):
        yield "a file is named twice"
    for file in entry.files:
        if not (file.rows > 0 and file.devices > 0 and file.min_time <= file.max_time and file.min_sequence <= file.max_sequence):
            yield f"{file.name} has impossible bounds"
        if file.max_sequence > manifest.sequence:
            yield f"{file.name} has commit {file.max_sequence:,}, and files have those up to {manifest.sequence:,}"
    order = [file.max_sequence for file in entry.files]
    if order != sorted(order):
        yield "its files are not in the order of their last commits"
    for one, other in overlapping(entry.files):
        if entry.files[one].shard != entry.files[other].shard:
            continue
        names = f"{entry.files[one].name} and {entry.files[other].name}"
        yield f"{names} overlap in time and in commits, so that nobody can tell which row is newer"


class Bounded(Protocol):
    """What has rows of some times and commits."""

    @property
    def min_time(self) -> int:
        """The first time."""

    @property
    def max_time(self) -> int:
        """The last time."""

    @property
    def min_sequence(self) -> int:
        """The first commit."""

    @property
    def max_sequence(self) -> int:
        """The last commit."""


def overlapping(files: Sequence[Bounded]) -> Iterator[tuple[int, int]]:
    """Places of files that overlap in time, and whose ranges of commits do so too."""
    if len(files) < 2:
        return
    bounds = np.array([[file.min_time, file.max_time, file.min_sequence, file.max_sequence] for file in files], np.int64)
    order = np.argsort(bounds[:, 0], kind="stable")
    bounds = bounds[order]
    stops = np.searchsorted(bounds[:, 0], bounds[:, 1], side="right")
    for place, stop in enumerate(stops.tolist()):
        later = bounds[place + 1 : stop]
        both = (later[:, 2] <= bounds[place, 3]) & (later[:, 3] >= bounds[place, 2])
        for index in np.flatnonzero(both).tolist():
            yield int(order[place]), int(order[place + 1 + index])
