"""Which runs of a table must be read together, found file by file, so that a commit costs what it brought and not what is there.

A *run* is one device's rows in one file. Runs of a device that share an instant may hold versions of one row; a run that a
tombstone touches may hold rows that are gone. Either kind is read as part of a *bundle*: those of one device's runs that need it.
All other runs are read in place.

An arrangement of some files becomes one of these and the next few by looking at the devices of the next ones only. Snapshots that
follow each other share all files but the last, so arrangements are kept, each with the last file that it knows.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import ranges
from tsdb.exec.kernels import runs as run_kernels
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.tombstone import Tombstones, least_unapplied
from tsdb_format.vector import BoolArray, IntArray

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableFile, TableSnapshot

Int32Array = NDArray[np.int32]

#: Runs of the newest files up to which what they change is found anew for each snapshot, and not kept.
_UNKEPT_RUNS_MAX = 1_024
#: Share of taken runs from which an order without them is worth keeping.
_DENSE = 0.25


class Taken:
    """Marks of runs (or bundles) that a bundle elsewhere holds."""

    __slots__ = ("_orders", "count", "marks")

    def __init__(self, marks: BoolArray) -> None:
        self.marks = marks
        self.count = int(np.count_nonzero(marks))
        self._orders: dict[bool, Int32Array] = {}

    def thinned(self, order: Int32Array, descending: bool) -> Int32Array:
        """A best-first order of the runs without those that are taken, as far as leaving them out once is cheaper."""
        if self.count < _DENSE * len(self.marks):
            return order
        found = self._orders.get(descending)
        if found is None:
            found = self._orders[descending] = order[~self.marks[order]]
        return found


@dataclass(frozen=True, eq=False)
class Bundles:
    """Bundles of different devices, in tag order. Bundle i consists of the rows start:stop of ``file`` of the entries
    first[i]:first[i+1], which ascend by file.

    ``certain``: no tombstone touches them, so that there surely are rows at ``min_time`` and ``max_time``.
    """

    device: Int32Array
    min_time: IntArray
    max_time: IntArray
    first: IntArray
    file: IntArray
    start: IntArray
    stop: IntArray
    certain: bool

    @cached_property
    def first_time(self) -> int:
        """The first time of all."""
        return int(self.min_time.min())

    @cached_property
    def last_time(self) -> int:
        """The last time of all."""
        return int(self.max_time.max())

    @cached_property
    def by_max_time(self) -> Int32Array:
        """Bundles by max time descending; ties in tag order."""
        return np.argsort(~self.max_time, kind="stable").astype(np.int32)

    @cached_property
    def by_min_time(self) -> Int32Array:
        """Bundles by min time ascending; ties in tag order."""
        return np.argsort(self.min_time, kind="stable").astype(np.int32)

    def entries(self, bundles: IntArray) -> tuple[IntArray, IntArray]:
        """The entries of some bundles, and how many each has."""
        first, stop = self.first[bundles], self.first[bundles + 1]
        out = np.empty(int((stop - first).sum()), np.int64)
        ranges.expand(first, stop, out)
        return out, stop - first


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """What is known of the first ``files`` of a table: the runs of each that are in bundles, and the bundles themselves."""

    files: tuple[weakref.ref[TableFile], ...]
    tombstones: Tombstones
    taken: dict[int, Taken] = field(default_factory=dict)
    bundles: tuple[tuple[Bundles, Taken | None], ...] = ()

    def describes(self, table: TableSnapshot) -> bool:
        """Whether it holds of that many first files of a snapshot."""
        return (
            self.tombstones is table.tombstones
            and len(self.files) <= len(table.files)
            and all(mine() is theirs for mine, theirs in zip(self.files, table.files, strict=False))
        )


_KNOWN: weakref.WeakKeyDictionary[TableFile, Arrangement] = weakref.WeakKeyDictionary()


def arrangement_of(table: TableSnapshot) -> Arrangement:
    """The arrangement of all files of a snapshot, made from the longest one that is known."""
    made = _longest_known(table)
    for stop in _steps(table, len(made.files)):
        made = _extended(made, table, stop)
        if stop < len(table.files) or not isinstance(table.files[-1], MemoryRun):
            _KNOWN[table.files[stop - 1]] = made
    return made


def _longest_known(table: TableSnapshot) -> Arrangement:
    for file in reversed(table.files):
        found = _KNOWN.get(file)
        if found is not None and found.describes(table):
            return found
    return Arrangement((), table.tombstones)


def _steps(table: TableSnapshot, start: int) -> Iterator[int]:
    """Where to stop and keep what is known: behind the stored files, then so that less and less is left: the newest go first."""
    stored = start
    while stored < len(table.files) and not isinstance(table.files[stored], MemoryRun):
        stored += 1
    if stored > start:
        yield stored
    sizes = [file.device_count for file in table.files[stored:]]
    left = sum(sizes)
    while left > _UNKEPT_RUNS_MAX and len(sizes) > 1:
        goal = left / 2
        while left > goal and len(sizes) > 1:
            left -= sizes.pop(0)
            stored += 1
        yield stored
    if sizes:
        yield len(table.files)


class _Runs(NamedTuple):
    """Runs of some files: ``new`` of a new file, ``held`` by a bundle already, ``touched`` by a tombstone."""

    device: Int32Array
    low: IntArray
    high: IntArray
    file: IntArray
    run: IntArray
    new: BoolArray
    held: BoolArray
    touched: BoolArray

    @classmethod
    def joined(cls, parts: list[_Runs]) -> _Runs:
        """The runs of all parts."""
        return cls._make(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def select(self, chosen: BoolArray) -> _Runs:
        """Some of the runs."""
        return _Runs._make(column[chosen] for column in self)


class _Entries(NamedTuple):
    """Row ranges of devices, as bundles hold them, with bounds of their times; ``certain`` where no tombstone touches them."""

    device: Int32Array
    low: IntArray
    high: IntArray
    file: IntArray
    start: IntArray
    stop: IntArray
    certain: BoolArray

    def select(self, chosen: NDArray[Any]) -> _Entries:
        """Some of the entries, by mask or index."""
        return _Entries._make(column[chosen] for column in self)


def _extended(known: Arrangement, table: TableSnapshot, stop: int) -> Arrangement:
    """The arrangement of the files up to ``stop``."""
    start = len(known.files)
    files = known.files + tuple(weakref.ref(file) for file in table.files[start:stop])
    overlays = table.table.options.mode == "table"
    meeting = _meeting(table, start, stop) if overlays else []
    parts = [found for number in range(start, stop) if (found := _new_runs(table, number, number in meeting)) is not None]
    if parts and overlays:
        devices = np.concatenate([part.device for part in parts])
        parts += _old_runs(known, table, [number for number in meeting if number < start], devices)
    found = _together(table, parts) if parts else None
    if found is None or not len(found.device):
        return Arrangement(files, known.tombstones, known.taken, known.bundles)
    return _bundled(known, table, files, found)


def _meeting(table: TableSnapshot, start: int, stop: int) -> list[int]:
    """The files before ``stop`` whose time range meets that of another, where one of both is not before ``start``."""
    low = np.array([file.min_time for file in table.files[:stop]], np.int64)
    high = np.array([file.max_time for file in table.files[:stop]], np.int64)
    meets = (low[start:, None] <= high) & (high[start:, None] >= low)
    meets[np.arange(stop - start), np.arange(start, stop)] = False
    found = meets.any(axis=0)
    found[start:] |= meets.any(axis=1)
    return [int(number) for number in np.flatnonzero(found)]


def _new_runs(table: TableSnapshot, number: int, meets: bool) -> _Runs | None:
    """All runs of a new file, unless it stays closed: it meets no other, and no tombstone meets it."""
    file, tombstones = table.files[number], table.tombstones
    least = least_unapplied(file)
    deletes = len(tombstones) > 0 and tombstones.meet(file.min_time, file.max_time, least)
    if not (meets or deletes):
        return None
    times, device = file.file.resource, file.device_number
    none = np.zeros(len(device), np.bool_)
    touched = tombstones.index.touches(device, times.min_time, times.max_time, least) if deletes else none
    every = np.ones(len(device), np.bool_)
    return _Runs(device, times.min_time, times.max_time, np.full(len(device), number), np.arange(len(device)), every, none, touched)


def _old_runs(known: Arrangement, table: TableSnapshot, numbers: list[int], devices: Int32Array) -> list[_Runs]:
    """The runs that known files have of some devices."""
    parts = []
    rank = table.devices.rank
    wanted = _in_tag_order(devices, rank) if numbers else devices
    for number in numbers:
        file = table.files[number]
        found = np.empty(len(wanted), np.int64)
        run_kernels.of_devices(file.device_number, rank, wanted, found)
        found = found[found >= 0]
        taken = known.taken.get(number)
        none = np.zeros(len(found), np.bool_)
        held = none if taken is None else taken.marks[found]
        times = file.file.resource
        low, high = times.min_time[found], times.max_time[found]
        parts.append(_Runs(file.device_number[found], low, high, np.full(len(found), number), found, none, held, none))
    return parts


def _together(table: TableSnapshot, parts: list[_Runs]) -> _Runs:
    """The runs that must newly be read together: they overlap or are touched, their device has a new one that does or is."""
    runs = _Runs.joined(parts)
    together: BoolArray = runs.touched.copy()
    if table.table.options.mode == "table":
        order = np.lexsort((runs.low, runs.device))
        marks = np.empty(len(order), np.bool_)
        run_kernels.overlapping(runs.device[order], runs.low[order], runs.high[order], marks)
        together[order] |= marks
    wanted = np.zeros(table.devices.count, np.bool_)
    wanted[runs.device[together & runs.new]] = True
    return runs.select(together & wanted[runs.device] & ~runs.held)


def _bundled(known: Arrangement, table: TableSnapshot, files: tuple[weakref.ref[TableFile], ...], runs: _Runs) -> Arrangement:
    """The arrangement in which these runs of ``files``, and the bundles that their devices have already, are bundles."""
    rank = table.devices.rank
    taken = dict(known.taken)
    parts = []
    for number in np.unique(runs.file).tolist():
        of_file = runs.select(runs.file == number)
        file = table.files[number].file
        before = taken.get(number)
        marks = np.zeros(file.device_count, np.bool_) if before is None else before.marks.copy()
        marks[of_file.run] = True
        taken[number] = Taken(marks)
        bounds = file.row_start[of_file.run], file.row_start[of_file.run + 1]
        parts.append(_Entries(of_file.device, of_file.low, of_file.high, of_file.file, *bounds, ~of_file.touched))
    kept, moved = _taken_apart(known, rank, _in_tag_order(runs.device, rank))
    entries = _Entries._make(np.concatenate(columns) for columns in zip(*parts, *moved, strict=True))
    sure = np.ones(table.devices.count, np.bool_)
    sure[entries.device[~entries.certain]] = False
    certain = sure[entries.device]
    for kind in (True, False):
        some = certain == kind
        if some.any():
            kept.append((_bundles(entries.select(some), rank, kind), None))
    return Arrangement(files, known.tombstones, taken, tuple(kept))


def _taken_apart(
    known: Arrangement, rank: Int32Array, devices: Int32Array
) -> tuple[list[tuple[Bundles, Taken | None]], list[_Entries]]:
    """Take the bundles of some devices (in tag order) out of the known ones: what stays there, and what they consisted of.

    Where these are many beside what is there, all is taken out: so there are never more groups than a logarithm.
    """
    kept: list[tuple[Bundles, Taken | None]] = []
    moved: list[_Entries] = []
    for bundles, gone in known.bundles:
        live = len(bundles.device) - (0 if gone is None else gone.count)
        if live <= 2 * len(devices):
            found = np.arange(len(bundles.device)) if gone is None else np.flatnonzero(~gone.marks)
        else:
            found = np.empty(len(devices), np.int64)
            run_kernels.of_devices(bundles.device, rank, devices, found)
            found = found[found >= 0]
            found = found if gone is None else found[~gone.marks[found]]
        if len(found):
            entries, sizes = bundles.entries(found)
            of = np.repeat(found, sizes)
            where = bundles.file[entries], bundles.start[entries], bundles.stop[entries]
            certain = np.full(len(entries), bundles.certain)
            moved.append(_Entries(bundles.device[of], bundles.min_time[of], bundles.max_time[of], *where, certain))
            marks = np.zeros(len(bundles.device), np.bool_) if gone is None else gone.marks.copy()
            marks[found] = True
            gone = Taken(marks)
        if len(found) < live:
            kept.append((bundles, gone))
    return kept, moved


def _bundles(entries: _Entries, rank: Int32Array, certain: bool) -> Bundles:
    order = np.lexsort((entries.file, rank[entries.device]))
    entries = entries.select(order)
    new = np.ones(len(order), np.bool_)
    new[1:] = entries.device[1:] != entries.device[:-1]
    first = np.flatnonzero(new)
    low, high = np.minimum.reduceat(entries.low, first), np.maximum.reduceat(entries.high, first)
    bounds = np.append(first, len(order))
    return Bundles(entries.device[first], low, high, bounds, entries.file, entries.start, entries.stop, certain)


def _in_tag_order(devices: Int32Array, rank: Int32Array) -> Int32Array:
    """Each of some devices once, in tag order."""
    return devices[np.unique(rank[devices], return_index=True)[1]]
