"""Lanes: the device runs of a table snapshot, arranged so that every row is read once and as its newest version.

A *run* is one device's rows in one file, in time order. Each file's clean runs form a ``FileLane``, read in place. Those that
share an instant with another run of their device, or that a tombstone touches, are read together, by device: they form
``MergeLane``s. Which are which is a fact of the snapshot, found once and kept with it; see ``arrangement``.
"""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.arrangement import arrangement_of
from tsdb.exec.bundle import Bundles, Taken
from tsdb_format.vector import BoolArray, IntArray

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableSnapshot

Int32Array = NDArray[np.int32]


class Ranges(NamedTuple):
    """Row ranges of runs, one row of ``starts`` and ``stops`` each, (n, files): one column per file (its position in the snapshot).

    Files ascend; a run that has no rows in one has an empty range there.
    """

    files: tuple[int, ...]
    starts: IntArray
    stops: IntArray


class FileLane:
    """The clean runs of one file. ``merged`` marks the file's other runs, None where there are none."""

    #: Whether there surely are rows at each run's first and last time.
    certain = True

    def __init__(self, table: TableSnapshot, index: int, taken: Taken | None) -> None:
        self.files = (index,)
        self.merged: BoolArray | None = None if taken is None else taken.marks
        self._held = table.files[index]
        self._taken = taken
        #: The first and the last time of all; known without opening the file.
        self.first_time, self.last_time = self._held.min_time, self._held.max_time

    @cached_property
    def device(self) -> Int32Array:
        """Table-wide device of each run."""
        return self._held.device_number

    @cached_property
    def min_time(self) -> IntArray:
        """Each run's first time."""
        return self._held.file.resource.min_time

    @cached_property
    def max_time(self) -> IntArray:
        """Each run's last time."""
        return self._held.file.resource.max_time

    def order(self, descending: bool) -> Int32Array:
        """Runs by their best time: newest first, or oldest first; ties in tag order. Merged ones may be among them."""
        resource = self._held.file.resource
        order = resource.by_max_time if descending else resource.by_min_time
        return order if self._taken is None else self._taken.thinned(order, descending)

    def bounds(self, runs: IntArray) -> Ranges:
        """Row ranges of runs."""
        row_start = self._held.file.row_start
        return Ranges(self.files, row_start[runs][:, None], row_start[runs + 1][:, None])


class MergeLane:
    """Runs that are read together, by device: one "run" here is a device's ranges in several files.

    ``merged`` marks those whose device is in a later lane. Where not ``certain``, tombstones touch some: rows may be gone.
    """

    def __init__(self, bundles: Bundles, taken: Taken | None) -> None:
        self.merged: BoolArray | None = None if taken is None else taken.marks
        self.certain = bundles.certain
        self.device = bundles.device
        self.min_time = bundles.min_time
        self.max_time = bundles.max_time
        self.first_time, self.last_time = bundles.first_time, bundles.last_time
        self._bundles = bundles
        self._taken = taken

    def order(self, descending: bool) -> Int32Array:
        """Runs by their best time: newest first, or oldest first; ties in tag order. Merged ones may be among them."""
        order = self._bundles.by_max_time if descending else self._bundles.by_min_time
        return order if self._taken is None else self._taken.thinned(order, descending)

    def bounds(self, runs: IntArray) -> Ranges:
        """Row ranges of runs, with a column for each file that one of them has rows in: a dense form, for some thousand runs."""
        entries, sizes = self._bundles.entries(runs)
        files, column = np.unique(self._bundles.file[entries], return_inverse=True)
        row = np.repeat(np.arange(len(runs)), sizes)
        starts, stops = np.zeros((2, len(runs), len(files)), np.int64)
        starts[row, column], stops[row, column] = self._bundles.start[entries], self._bundles.stop[entries]
        return Ranges(tuple(files.tolist()), starts, stops)


Lane: TypeAlias = FileLane | MergeLane

_LANES: weakref.WeakKeyDictionary[TableSnapshot, tuple[Lane, ...]] = weakref.WeakKeyDictionary()


def lanes_of(table: TableSnapshot) -> tuple[Lane, ...]:
    """The lanes of a snapshot: one per file, in file order, then those of runs that are read together. Found once per snapshot."""
    found = _LANES.get(table)
    if found is None:
        known = arrangement_of(table)
        lanes: list[Lane] = [FileLane(table, index, known.taken.get(index)) for index in range(len(table.files))]
        found = _LANES[table] = (*lanes, *(MergeLane(*group) for group in known.bundles))
    return found
