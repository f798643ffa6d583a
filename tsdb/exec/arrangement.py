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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.bundle import Bundles, Entries, Taken, bundles_of
from tsdb.exec.kernels import runs as run_kernels
from tsdb.exec.kernels import sorting
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.tombstone import Tombstones, least_unapplied
from tsdb_format.vector import BoolArray, IntArray

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableFile, TableSnapshot

Int32Array = NDArray[np.int32]

#: Runs of the newest files up to which what they change is found anew for each snapshot, and not kept.
_UNKEPT_RUNS_MAX = 256
#: Runs from which sorting each device's runs on its own is faster.
_KERNEL_SORTED_MIN = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """What is known of the first ``files`` of a table: the runs of each that are in bundles, and the bundles themselves."""

    files: tuple[weakref.ref[TableFile], ...]
    tombstones: Tombstones
    taken: dict[int, Taken] = field(default_factory=dict)
    bundles: tuple[tuple[Bundles, Taken | None], ...] = ()

    def describes(self, table: TableSnapshot) -> bool:
        """Whether it holds of that many first files of a snapshot, but for deletes that came later."""
        return (
            len(self.files) <= len(table.files)
            and all(mine() is theirs for mine, theirs in zip(self.files, table.files, strict=False))
            and table.tombstones.extends(self.tombstones)
        )


_KNOWN: weakref.WeakKeyDictionary[TableFile, Arrangement] = weakref.WeakKeyDictionary()


def arrangement_of(table: TableSnapshot) -> Arrangement:
    """The arrangement of all files of a snapshot, made from the longest one that is known."""
    made = _longest_known(table)
    if made.tombstones is not table.tombstones:
        made = _KNOWN[table.files[len(made.files) - 1]] = _touched(made, table)
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

    def select(self, chosen: BoolArray | slice) -> _Runs:
        """Some of the runs."""
        return _Runs._make(column[chosen] for column in self)


def _extended(known: Arrangement, table: TableSnapshot, stop: int) -> Arrangement:
    """The arrangement of the files up to ``stop``."""
    start = len(known.files)
    files = known.files + tuple(weakref.ref(file) for file in table.files[start:stop])
    overlays = table.table.options.overlays
    meeting = _meeting(table, start, stop) if overlays else []
    parts = [found for number in range(start, stop) if (found := _new_runs(table, number, number in meeting)) is not None]
    if parts and overlays:
        devices = np.concatenate([part.device for part in parts])
        parts += _old_runs(known, table, [number for number in meeting if number < start], devices)
    if not parts:
        return replace(known, files=files)
    runs = _together(table, parts)
    return _bundled(replace(known, files=files), table, runs, runs.device[runs.touched])


def _meeting(table: TableSnapshot, start: int, stop: int) -> list[int]:
    """The files before ``stop`` whose time range meets that of another, where one of both is not before ``start``."""
    low = np.array([file.min_time for file in table.files[:stop]], np.int64)
    high = np.array([file.max_time for file in table.files[:stop]], np.int64)
    meets: BoolArray = (low[start:, None] <= high) & (high[start:, None] >= low)
    meets[np.arange(stop - start), np.arange(start, stop)] = False
    found = np.asarray(meets.any(axis=0))
    found[start:] |= meets.any(axis=1)
    return [int(number) for number in np.flatnonzero(found)]


def _new_runs(table: TableSnapshot, number: int, meets: bool) -> _Runs | None:
    """All runs of a new file, unless it stays closed: it meets no other, and no tombstone meets it."""
    file, tombstones = table.files[number], table.tombstones
    least = least_unapplied(file)
    deletes = tombstones.may_hide(file) and tombstones.meet(file.min_time, file.max_time, least)
    if not (meets or deletes):
        return None
    times, device = file.file.resource, file.device_number
    none = np.zeros(len(device), np.bool_)
    touched = tombstones.index.touches(device, times.min_time, times.max_time, least) if deletes else none
    every = np.ones(len(device), np.bool_)
    return _Runs(device, times.min_time, times.max_time, np.full(len(device), number), np.arange(len(device)), every, none, touched)


def _touched(known: Arrangement, table: TableSnapshot) -> Arrangement:
    """The arrangement after the deletes that a snapshot has beyond it: only the devices that they name are looked at."""
    added = table.tombstones.select(np.arange(len(table.tombstones)) >= len(known.tombstones))
    devices = added.device
    if (devices < 0).any():
        devices = np.arange(table.devices.count, dtype=np.int32)
    parts = []
    for number in range(len(known.files)):
        file = table.files[number]
        least = least_unapplied(file)
        if added.meet(file.min_time, file.max_time, least):
            for runs in _old_runs(known, table, [number], devices):
                touched = added.index.touches(runs.device, runs.low, runs.high, least)
                parts.append(runs._replace(touched=touched).select(touched))
    changed = replace(known, tombstones=table.tombstones)
    if not parts:
        return changed
    runs = _Runs.joined(parts)
    held = np.zeros(table.devices.count, np.bool_)
    for bundles, gone in known.bundles:
        if bundles.certain:
            held[bundles.device if gone is None else bundles.device[~gone.marks]] = True
    return _bundled(changed, table, runs.select(~runs.held), runs.device[held[runs.device]])


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
    together = np.array(runs.touched)
    if table.table.options.overlays:
        order = _by_device_and_time(runs.device, runs.low)
        marks = np.empty(len(order), np.bool_)
        run_kernels.overlapping(runs.device[order], runs.low[order], runs.high[order], marks)
        together[order] |= marks
    wanted = np.zeros(table.devices.count, np.bool_)
    wanted[runs.device[together & runs.new]] = True
    return runs.select(together & wanted[runs.device] & ~runs.held)


def _by_device_and_time(device: Int32Array, time: IntArray) -> NDArray[Any]:
    """The order of runs by device, then first time."""
    if len(device) < _KERNEL_SORTED_MIN:
        return np.lexsort((time, device))
    order = np.argsort(device, kind="stable").astype(np.int32)  # quick where files have their devices in order
    device, time = device[order], time[order]
    bounds = np.concatenate([[0], np.flatnonzero(device[1:] != device[:-1]) + 1, [len(device)]])
    sorting.sort_runs(time, order, bounds, np.empty_like(time), np.empty_like(order))
    return order


def _bundled(known: Arrangement, table: TableSnapshot, runs: _Runs, doubtful: Int32Array) -> Arrangement:
    """The arrangement in which these runs, which are in no bundle yet, are in one with those of their device.

    The runs of each file come together. Bundles of ``doubtful`` devices are uncertain from now on.
    """
    if not len(runs.device) and not len(doubtful):
        return known
    rank = table.devices.rank
    taken = dict(known.taken)
    parts = []
    edges = np.flatnonzero(np.diff(runs.file)) + 1
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(runs.file)], strict=True):
        if start < stop:
            number = int(runs.file[start])
            of_file = runs.select(slice(start, stop))
            file = table.files[number].file
            before = taken.get(number)
            marks = np.zeros(file.device_count, np.bool_) if before is None else before.marks.copy()
            marks[of_file.run] = True
            taken[number] = Taken(marks)
            bounds = file.row_start[of_file.run], file.row_start[of_file.run + 1]
            parts.append(Entries(of_file.device, of_file.low, of_file.high, of_file.file, *bounds, ~of_file.touched))
    kept, moved = _taken_apart(known, rank, _in_tag_order(np.concatenate([runs.device, doubtful]), rank))
    entries = Entries._make(np.concatenate(columns) for columns in zip(*parts, *moved, strict=True))
    sure = np.ones(table.devices.count, np.bool_)
    sure[doubtful] = False
    sure[entries.device[~entries.certain]] = False
    certain = sure[entries.device]
    for kind in (True, False):
        some = certain == kind
        if some.any():
            kept.append((bundles_of(entries.select(some), rank, kind), None))
    return replace(known, taken=taken, bundles=tuple(kept))


def _taken_apart(
    known: Arrangement, rank: Int32Array, devices: Int32Array
) -> tuple[list[tuple[Bundles, Taken | None]], list[Entries]]:
    """Take the bundles of some devices (in tag order) out of the known ones: what stays there, and what they consisted of.

    The newest groups are taken out whole until one is much larger than all that was: so there are never more than a logarithm.
    """
    kept: list[tuple[Bundles, Taken | None]] = []
    moved: list[Entries] = []
    size = len(devices)
    for bundles, gone in reversed(known.bundles):
        live = len(bundles.device) - (0 if gone is None else gone.count)
        if live <= 2 * size:
            size += live
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
            moved.append(Entries(bundles.device[of], bundles.min_time[of], bundles.max_time[of], *where, certain))
            marks = np.zeros(len(bundles.device), np.bool_) if gone is None else gone.marks.copy()
            marks[found] = True
            gone = Taken(marks)
        if len(found) < live:
            kept.insert(0, (bundles, gone))
    return kept, moved


def _in_tag_order(devices: Int32Array, rank: Int32Array) -> Int32Array:
    """Each of some devices once, in tag order."""
    return devices[np.unique(rank[devices], return_index=True)[1]]
