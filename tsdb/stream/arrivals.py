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
from tsdb_format.vector import BoolArray, IntArray

Int32Array = NDArray[np.int32]


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
    """The rows by tags, time, commit; those of one commit that are alike in these as they came."""
    rank = devices.ranks_of(rows.device)[0]
    order = np.argsort(rank, kind="stable")  # fast where ordered parts follow each other
    parted = np.flatnonzero((np.diff(order) != 1) & (np.diff(rank[order]) == 0))  # a device goes on in another part
    before, after = order[parted], order[parted + 1]
    later = (rows.time[before] < rows.time[after]) | (
        (rows.time[before] == rows.time[after]) & (rows.sequence[before] <= rows.sequence[after])
    )
    if later.all():
        return rows.take(order)
    return _ordered(rows, (rows.sequence, rows.time, rank))


def in_order_of_commit(rows: Arrivals, devices: DeviceTable) -> Arrivals:
    """The rows by commit, those of one in the order of storage."""
    return _ordered(rows, (rows.time, devices.ranks_of(rows.device)[0], rows.sequence))


def _ordered(rows: Arrivals, keys: tuple[NDArray[np.int64] | Int32Array, ...]) -> Arrivals:
    order = np.lexsort(keys)
    if (order[1:] > order[:-1]).all():
        return rows
    return rows.take(order)
