"""The memtable: a table's rows that no file holds yet, and its devices and deletes as of the last commit.

Rows are kept as immutable sorted runs, one per commit, by the number of the last commit in them; those of commits of one row are
collected as they are, and made a run when they are asked for or have become many. Neighbouring runs are merged in
tiers, by whoever reads or when there are many: a run is merged with the one before it as long as that is not much larger, so that n
rows make O(log n) runs and each row is moved O(log n) times. Only neighbours are merged: the order of versions stays the order of
runs. What a snapshot took stays as it is, since runs never change.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sortedcontainers import SortedDict

from tsdb.catalog.device import DeviceTable, Int32Array
from tsdb.catalog.table import Table
from tsdb.storage.arrange import SortedRows, arrange_whole, stamp
from tsdb.storage.batch import RowBatch
from tsdb.storage.existing import LastTimes
from tsdb.storage.log_record import Change
from tsdb.storage.manifest import FileEntry
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.one_row import Row, plain_vector, run_of
from tsdb.storage.snapshot import TableFile
from tsdb.storage.tombstone import Tombstones
from tsdb_format.errors import Error
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME
from tsdb_format.types import Role
from tsdb_format.vector import IntArray, Vector, null_vector

#: Runs up to this many rows are merged with their neighbours whatever the sizes: a run costs a reader more than moving its rows.
_SMALL_ROWS = 256
#: Runs after which a writer merges them itself, where nobody reads.
_RUNS_MAX = 256
#: Bytes that a delete's range takes, with its share of the index.
_DELETE_BYTES = 64
#: Rows of commits of one row that are made a run at once.
_TAIL_ROWS = 1_024
#: Fewer of them become a run each: to sort them takes the order of the devices, which may be new and many.
_TOGETHER_MIN = 32
#: Devices whose numbers are kept by their tags, for commits of one row.
_NUMBERS_MAX = 16_384
#: Later than every commit.
_ALL = 2**63
#: A last time before every other.
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, eq=False)
class MemoryView:
    """A memtable as of one commit. Views of the same content are the same object."""

    runs: tuple[MemoryRun, ...]
    devices: DeviceTable
    tombstones: Tombstones
    checkpoints: dict[int, tuple[int, str]]


class Memtable:
    """One table's part of the database that is in memory. Changed under the writer's lock; views are free."""

    def __init__(self, table: Table, devices: DeviceTable, tombstones: Tombstones) -> None:
        """``devices`` and ``tombstones`` are those of the table's files."""
        self.table = table
        #: The devices as of the last commits, each with its number: the newest, and those that are visible until it is.
        self._devices: list[tuple[int, DeviceTable]] = [(0, devices)]
        self.tombstones = tombstones
        #: Devices as the table's device file has them.
        self.saved_devices = devices
        #: Bytes that a flush takes out of memory: rows, and deletes that no file has.
        self.nbytes = 0
        #: How far views that write to the table were with some commits, ascending: the commit, the id of the view, and the text.
        self._checkpoints: list[tuple[int, int, str]] = []
        #: By the number of the last commit in each, ascending.
        self._runs: SortedDict[int, MemoryRun] = SortedDict()
        #: The last time of all rows that were ever in memory.
        self.last_time = _NEVER
        self._last_times: LastTimes | None = None
        #: Rows of commits of one row, not in a run yet: later than all that are.
        self._tail: list[tuple[int, Row]] = []
        self._visible = 0
        self._numbers: dict[tuple[object, ...], int] = {}
        self._barrier = 0
        self._lock = threading.Lock()
        self._view: MemoryView | None = None

    # ------------------------------------------------------------------------------------------------ commits

    @property
    def devices(self) -> DeviceTable:
        """The devices as of the last commit."""
        return self._devices[-1][1]

    def put_devices(self, devices: DeviceTable, sequence: int) -> None:
        """Go on with the devices as of commit ``sequence``."""
        if devices is not self.devices:
            self._devices.append((sequence, devices))

    def put_direct(self, devices: DeviceTable, sequence: int) -> None:
        """Go on with the devices as of a commit that went to files, its rows and its devices."""
        self.put_devices(devices, sequence)
        self.saved_devices = devices
        self._last_times = None

    def keep(self, tombstones: Tombstones) -> None:
        """Go on with these deletes: no file needs the others any more."""
        self.tombstones = tombstones

    def settle(self, sequence: int) -> None:
        """Commits up to ``sequence`` are visible: nobody asks for an earlier state any more."""
        self._visible = sequence
        while len(self._devices) > 1 and self._devices[1][0] <= sequence:
            del self._devices[0]

    def apply(self, sequence: int, change: Change) -> None:
        """Take in a commit as the log has it. Raises Error where it does not follow on what is here."""
        self.note(sequence, change.checkpoints)
        schema = self.table.schema
        names = {column.id: column.name for column in schema}
        if change.new_devices:
            self._add_devices(change, names, sequence)
        if len(change.attribute_devices):
            values = {names[key]: vector for key, vector in change.attributes.items() if key in names}
            self.put_devices(self.devices.with_attributes(change.attribute_devices, values, nulls=True), sequence)
        if len(change.deleted_device):
            self.delete(change.deleted_device, change.deleted_low, change.deleted_high, sequence)
        if len(change.numbers):
            columns = {names[key]: vector for key, vector in change.columns.items() if key in names}
            rows = SortedRows(change.numbers, change.row_start, columns, 0)
            self.add(MemoryRun(self.table, stamp(rows, sequence)), self.devices, sequence)
            self.tidy(sequence)

    def note(self, sequence: int, checkpoints: Mapping[int, Vector]) -> None:
        """Remember how far views are with a commit."""
        for view, text in checkpoints.items():
            self._checkpoints.append((sequence, view, str(text.to_physical_list()[0])))

    def _add_devices(self, change: Change, names: dict[int, str], sequence: int) -> None:
        known, end = self.devices.count, change.first_device + change.new_devices
        if end <= known:
            return  # the device file was written later than the commit
        if change.first_device != known:
            raise Error(f"table {self.table.name!r} has {known:,} devices, and the log goes on with number {change.first_device:,}")
        tags = {names[key]: vector for key, vector in change.device_tags.items()}
        numbers, devices = self.devices.resolve(tags, change.new_devices)
        self.put_devices(devices, sequence)
        if devices.count != end or int(numbers[-1]) != end - 1:
            raise Error(f"the log adds devices to table {self.table.name!r} that it has already")

    def add(self, run: MemoryRun, devices: DeviceTable, sequence: int) -> None:
        """Add the rows of commit ``sequence``, and the devices as of it."""
        self.put_devices(devices, sequence)
        times = run.rows.columns[self.table.schema.time.name].values
        last = times.item(0) if len(times) == 1 else int(times[run.rows.row_start[1:] - 1].max())
        self.last_time = max(self.last_time, last)
        if self._last_times is not None:
            self._last_times.note(run.rows, self.table.schema.time.name)
        with self._lock:
            self._gather_tail(_ALL)
            self._runs[sequence] = run
            self.nbytes += run.nbytes

    def number(self, tags: tuple[object, ...]) -> int | None:
        """The device with these tags, in the table's order; None where it is none yet."""
        number = self._numbers.get(tags)
        if number is None:
            columns = zip(self.table.schema.tags, tags, strict=True)
            number = int(self.devices.find({column.name: plain_vector(column.type, [tag]) for column, tag in columns}, 1)[0])
            if number < 0:
                return None
            if len(self._numbers) >= _NUMBERS_MAX:
                self._numbers.clear()
            self._numbers[tags] = number
        return number

    def is_new(self, number: int, time: int, files: Sequence[FileEntry]) -> bool:
        """Whether a device has surely no row at a time, neither here nor in the table's ``files``."""
        known = self._last_times
        if known is not None:
            return time > known.of(number)
        return time > self.last_time and all(file.max_time < time for file in files)

    def add_row(self, row: Row, sequence: int) -> None:
        """Add the one row of commit ``sequence``."""
        if row.time > self.last_time:
            self.last_time = row.time
        if self._last_times is not None:
            self._last_times.note_row(row.number, row.time)
        with self._lock:
            if len(self._tail) >= _TAIL_ROWS:
                self._gather_tail(self._visible)
            self._tail.append((sequence, row))
            self.nbytes += row.nbytes

    def _gather_tail(self, sequence: int) -> None:
        """Make runs of the rows that came one by one, up to commit ``sequence``: one of those that are visible if they are many.

        Called under the lock.
        """
        rows = [(number, row) for number, row in self._tail if number <= sequence]
        if not rows:
            return
        settled = sum(number <= self._visible for number, _ in rows)  # the first ones
        settled = settled if settled >= _TOGETHER_MIN else 0
        groups = [rows[:settled]] if settled else []
        groups += [[each] for each in rows[settled:]]
        runs = {group[-1][0]: run_of(self.table, group, self.devices) for group in groups}
        nbytes = self.nbytes + sum(run.nbytes for run in runs.values()) - sum(row.nbytes for _, row in rows)
        self._runs, self._tail, self.nbytes = SortedDict({**self._runs, **runs}), self._tail[len(rows) :], nbytes

    @property
    def is_untidy(self) -> bool:
        """Whether there are many runs."""
        return len(self._runs) >= _RUNS_MAX

    def tidy(self, sequence: int) -> None:
        """Merge the runs up to commit ``sequence`` where they have become many."""
        if self.is_untidy:
            view = self.view(sequence)
            if len(view.runs) >= _RUNS_MAX:
                self.merged(view, self.table, sequence)

    def delete(self, device: Int32Array, low: IntArray, high: IntArray, sequence: int) -> None:
        """Delete what was written before commit ``sequence``."""
        with self._lock:
            self._gather_tail(_ALL)  # no run has rows from before and after
        before = len(self.tombstones)
        self.tombstones = self.tombstones.plus(device, low, high, sequence)
        with self._lock:
            self.nbytes += (len(self.tombstones) - before) * _DELETE_BYTES

    def last_times(self, files: Sequence[TableFile]) -> LastTimes:
        """The last time of each device; ``files`` are all that the table has now, those in memory included."""
        if self._last_times is None:
            self._last_times = LastTimes(files)
        return self._last_times

    def alter(self, table: Table) -> None:
        """Go on under another schema; columns keep their ids."""
        with self._lock:
            self._gather_tail(_ALL)
        known = [(sequence, devices.under(table.schema)) for sequence, devices in self._devices]
        saved = known[-1][1] if self.saved_devices is self.devices else self.saved_devices.under(table.schema)
        self.table, self._devices, self.saved_devices, self._numbers = table, known, saved, {}  # in one step, whoever may interrupt

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def rows(self) -> int:
        """Rows in memory, versions of the same row counted singly."""
        with self._lock:
            held: int = sum(run.row_count for run in self._runs.values())
            return held + len(self._tail)

    def view(self, sequence: int) -> MemoryView:
        """Everything up to commit ``sequence``."""
        known = self._devices.copy()  # ``settle`` may shorten it meanwhile
        devices = next((devices for number, devices in reversed(known) if number <= sequence), known[0][1])
        tombstones, checkpoints = self.tombstones, self.checkpoints(sequence)
        with self._lock:
            self._gather_tail(sequence)
            runs = tuple(self._runs[key] for key in self._runs.irange(maximum=sequence))
        if len(tombstones) and int(tombstones.sequence[-1]) > sequence:  # they ascend
            return MemoryView(runs, devices, tombstones.select(tombstones.sequence <= sequence), checkpoints)
        view = self._view
        same = view is not None and view.devices is devices and view.tombstones is tombstones and view.checkpoints == checkpoints
        if view is None or not same or view.runs != runs:
            view = self._view = MemoryView(runs, devices, tombstones, checkpoints)
        return view

    def checkpoints(self, sequence: int) -> dict[int, tuple[int, str]]:
        """How far views that write to the table are with a commit, by their ids: the commit that says so, and the text."""
        return {view: (commit, text) for commit, view, text in self._checkpoints.copy() if commit <= sequence}

    def merged(self, view: MemoryView, table: Table, visible: int) -> tuple[MemoryRun, ...]:
        """The runs of a view with neighbours merged in tiers, under ``table``; the memtable goes on with the merged ones.

        Commits after ``visible`` are left out of that, their rows and their deletes: snapshots without them are still to be taken.
        """
        tombstones = view.tombstones
        if len(tombstones) and int(tombstones.sequence[-1]) > visible:  # they ascend
            tombstones = tombstones.select(tombstones.sequence <= visible)
        settled = sum(run.max_sequence <= visible for run in view.runs)  # the first ones: runs are in order
        tiers: list[list[MemoryRun]] = []
        sizes: list[int] = []
        for run in view.runs[:settled]:
            tiers.append([run])
            sizes.append(run.row_count)
            while len(tiers) > 1 and sizes[-2] <= max(_SMALL_ROWS, 2 * sizes[-1]) and self._may_merge(tiers[-2][0], tiers[-1][-1]):
                tiers[-2:] = [tiers[-2] + tiers[-1]]
                sizes[-2:] = [sizes[-2] + sizes[-1]]
        out: list[MemoryRun] = []
        for tier in tiers:
            if len(tier) == 1:
                out.append(tier[0])
                continue
            made = merge_runs(table, tier, view.devices, tombstones)
            self._replace(tier, made)
            out += [made] if made is not None else []
        return (*out, *view.runs[settled:])

    def _may_merge(self, first: MemoryRun, last: MemoryRun) -> bool:
        return not first.min_sequence <= self._barrier < last.max_sequence

    def _replace(self, old: Sequence[MemoryRun], new: MemoryRun | None) -> None:
        """Put a merged run in the place of its parts, unless they are gone or are being flushed apart by now."""
        with self._lock:
            held = {run: key for key, run in self._runs.items()}  # the last row of a run may be older: what was newer was deleted
            keys = [held[run] for run in old if run in held]
            if len(keys) < len(old) or not self._may_merge(old[0], old[-1]):
                return
            runs = {**self._runs, keys[-1]: new}
            left = SortedDict({key: run for key, run in runs.items() if run is not None and key not in keys[:-1]})
            nbytes = self.nbytes - sum(run.nbytes for run in old) + (0 if new is None else new.nbytes)
            self._runs, self.nbytes = left, nbytes  # in one step: an interrupted query must not lose rows

    # ------------------------------------------------------------------------------------------------ flushing

    def freeze(self, boundary: int) -> tuple[MemoryRun, ...]:
        """The runs up to commit ``boundary``, which no later one is merged into from now on."""
        with self._lock:
            self._barrier = boundary
        return self.view(boundary).runs

    def drop(self, boundary: int) -> None:
        """Forget the runs up to ``boundary``: files have them."""
        with self._lock:
            runs = SortedDict({key: self._runs[key] for key in self._runs.irange(boundary, inclusive=(False, True))})
            deleted = int(np.count_nonzero(self.tombstones.sequence > boundary)) * _DELETE_BYTES
            tail = [(number, row) for number, row in self._tail if number > boundary]
            nbytes = sum(run.nbytes for run in runs.values()) + sum(row.nbytes for _, row in tail) + deleted
            self._runs, self._tail, self.nbytes = runs, tail, nbytes
            self._checkpoints = [each for each in self._checkpoints if each[0] > boundary]


def merge_runs(
    table: Table, runs: Sequence[MemoryRun], devices: DeviceTable, tombstones: Tombstones, threads: int = 1
) -> MemoryRun | None:
    """One run of the rows of several, given in the order of their commits, without deleted ones; None where nothing is left."""
    found = gather(table, runs, tombstones)
    if found is None:
        return None
    batch, numbers = found
    rows = arrange_whole(batch, numbers, devices, table.options.mode, threads)
    return MemoryRun(table, rows, int(tombstones.sequence[-1]) if len(tombstones) else 0)


def gather(table: Table, runs: Sequence[MemoryRun], tombstones: Tombstones) -> tuple[RowBatch, Int32Array] | None:
    """The rows of runs that are not deleted, end to end and as unsorted as that is, with their device numbers."""
    given = {column.id for run in runs for column in run.table.schema if column.name in run.rows.columns}
    stored = [column for column in table.schema if column.role in (Role.TIME, Role.FIELD) and column.id in given]
    pieces: dict[str, list[Vector]] = {column.name: [] for column in (*stored, SEQUENCE_COLUMN)}
    kept: list[Int32Array] = []
    for run in runs:
        columns, device = _columns_under(table, run), run.rows.numbers
        if len(device) != run.row_count:
            device = np.repeat(device, np.diff(run.rows.row_start))
        alive = alive_rows(tombstones, device, columns[table.schema.time.name], columns[SEQUENCE_NAME])
        if alive is not None and not alive.any():
            continue
        for name, vectors in pieces.items():
            vector = columns.get(name)
            if vector is None:
                vector = null_vector(table.schema.column(name).type, len(device))
            vectors.append(vector if alive is None else vector.take(alive))
        kept.append(device if alive is None else device[alive])
    if not kept:
        return None
    together = np.concatenate(kept) if len(kept) > 1 else kept[0]
    return RowBatch(table.schema, len(together), dict(pieces)), together


def _columns_under(table: Table, run: MemoryRun) -> dict[str, Vector]:
    """A run's columns by the names that the table has for them now; those that it has no more are left out."""
    held = run.rows.columns
    if run.table.schema is table.schema:
        return held
    names = {column.id: column.name for column in table.schema}
    kept = [column for column in run.table.schema if column.name in held and column.id in names]
    return {SEQUENCE_NAME: held[SEQUENCE_NAME], **{names[column.id]: held[column.name] for column in kept}}


def alive_rows(tombstones: Tombstones, device: Int32Array, time: Vector, sequence: Vector) -> np.ndarray | None:
    """Which rows no tombstone has deleted; None for all."""
    if not len(tombstones):
        return None
    gone = tombstones.index.sequence_at(device, time.values) >= sequence.values
    return ~gone if gone.any() else None
