"""Rows on their way to a consumer of a live table: the columns that its scan reads, and where each row stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable
from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.rows import RowSet
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.vector import BoolArray, IntArray, concat

Int32Array = NDArray[np.int32]
#: Rows of a run, on average, from which ranges are copied rather than rows picked.
_RUN_ROWS = 256


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``batch`` has the columns of the scan; per row there are its commit (``sequence``), table-wide ``device`` and ``time``."""

    batch: Batch
    sequence: IntArray
    device: Int32Array
    time: IntArray

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.batch.row_count

    @classmethod
    def of(cls, rows: RowSet, columns: tuple[str, ...]) -> Arrivals:
        """Rows of a table, read."""
        batch = Batch({name: rows.read(name) for name in columns} if rows.count else {}, rows.count)
        if not rows.count:
            nothing = np.empty(0, np.int64)
            return cls(batch, nothing, np.empty(0, np.int32), nothing)
        sequence = batch.vectors[SEQUENCE_NAME] if SEQUENCE_NAME in batch.vectors else rows.read(SEQUENCE_NAME)
        return cls(batch, sequence.values, rows.device(), rows.time())

    def take(self, rows: NDArray[np.int64]) -> Arrivals:
        """The rows at the given indices, in that order."""
        return Arrivals(self.batch.take(rows), self.sequence[rows], self.device[rows], self.time[rows])

    def take_runs(self, starts: IntArray, stops: IntArray) -> Arrivals:
        """The rows of some ranges, end to end."""
        if self.count < _RUN_ROWS * len(starts):
            ends = np.cumsum(stops - starts)
            return self.take(np.arange(self.count) + np.repeat(starts - np.append(0, ends[:-1]), stops - starts))
        parts = [slice(start, stop) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
        vectors = {name: concat([vector.take(part) for part in parts]) for name, vector in self.batch.vectors.items()}
        arrays = (np.concatenate([values[part] for part in parts]) for values in (self.sequence, self.device, self.time))
        return Arrivals(Batch(vectors, self.count), *arrays)

    def select(self, mask: BoolArray) -> Arrivals:
        """The rows whose mask is set."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slices(self, rows_max: int) -> Iterator[Arrivals]:
        """The rows in order, at most ``rows_max`` at a time."""
        if 0 < self.count <= rows_max:
            yield self
            return
        for start in range(0, self.count, rows_max):
            part = slice(start, start + rows_max)
            batch = self.batch.slice(start, start + rows_max)
            yield Arrivals(batch, self.sequence[part], self.device[part], self.time[part])


def joined(parts: list[Arrivals]) -> Arrivals:
    """Rows of several parts end to end; at least one."""
    if len(parts) == 1:
        return parts[0]
    return Arrivals(
        concat_batches([part.batch for part in parts]),
        np.concatenate([part.sequence for part in parts]),
        np.concatenate([part.device for part in parts]),
        np.concatenate([part.time for part in parts]),
    )


def in_storage_order(rows: Arrivals, devices: DeviceTable) -> Arrivals:
    """The rows by tags, time, commit; those of one commit that are alike in these as they came.

    What is ordered already, such as each of several files, is put in order by runs of one device, not row by row.
    """
    device = rows.device
    starts = np.concatenate(([0], np.flatnonzero(device[1:] != device[:-1]) + 1))
    stops = np.append(starts[1:], rows.count)
    rank = devices.ranks_of(device[starts])[0]
    order = np.argsort(rank, kind="stable")
    goes_on = np.flatnonzero(rank[order[1:]] == rank[order[:-1]])
    before, after = stops[order[goes_on]] - 1, starts[order[goes_on + 1]]
    later = (rows.time[before] < rows.time[after]) | (
        (rows.time[before] == rows.time[after]) & (rows.sequence[before] <= rows.sequence[after])
    )
    if not later.all() or not _ordered_within(rows, starts):
        return _ordered(rows, (rows.sequence, rows.time, devices.ranks_of(device)[0]))
    if (order[1:] > order[:-1]).all():
        return rows
    return rows.take_runs(starts[order], stops[order])


def _ordered_within(rows: Arrivals, starts: IntArray) -> bool:
    """Whether the rows of each run are by time, then by commit."""
    time, sequence = rows.time, rows.sequence
    right: BoolArray = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (sequence[1:] >= sequence[:-1]))
    right[starts[1:] - 1] = True
    return bool(right.all())


def in_order_of_commit(rows: Arrivals, devices: DeviceTable) -> Arrivals:
    """The rows by commit, those of one in the order of storage."""
    return _ordered(rows, (rows.time, devices.ranks_of(rows.device)[0], rows.sequence))


def _ordered(rows: Arrivals, keys: tuple[NDArray[np.int64] | Int32Array, ...]) -> Arrivals:
    order = np.lexsort(keys)
    if (order[1:] > order[:-1]).all():
        return rows
    return rows.take(order)
