"""Rows on their way to a consumer of a live table: the columns that its scan reads, and where each row stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable
from tsdb.exec.batch import Batch, concat_batches
from tsdb.stream.ordered_rows import OrderedRows
from tsdb_format.vector import BoolArray, IntArray

Int32Array = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Places:
    """Per row its commit (``sequence``), table-wide ``device`` and ``time``, as arrays."""

    sequence: IntArray
    device: Int32Array
    time: IntArray

    @property
    def is_of_one_device(self) -> bool:
        """Whether the first and the last row have the same device."""
        return bool(self.device[0] == self.device[-1])

    def of_commit(self, number: int) -> Places:
        """The same, of rows that are known to be of one commit."""
        return Places(np.full(len(self.device), number), self.device, self.time)

    def uncounted(self) -> Places:
        """The same: nothing is left to be read."""
        return self

    def slice(self, first: int, last: int) -> Places:
        """Those of the rows ``first`` up to ``last``."""
        return Places(self.sequence[first:last], self.device[first:last], self.time[first:last])


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``batch`` has the columns of the scan; where its rows stand may not have been read yet."""

    batch: Batch
    places: Places | OrderedRows

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.batch.row_count

    @property
    def sequence(self) -> IntArray:
        """The commit of every row."""
        return self.places.sequence

    @property
    def device(self) -> Int32Array:
        """The table-wide device of every row."""
        return self.places.device

    @property
    def time(self) -> IntArray:
        """Every row's time."""
        return self.places.time

    def take(self, rows: NDArray[np.int64]) -> Arrivals:
        """The rows at the given indices, in that order."""
        return Arrivals(self.batch.take(rows), Places(self.sequence[rows], self.device[rows], self.time[rows]))

    def select(self, mask: BoolArray) -> Arrivals:
        """The rows whose mask is set."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slices(self, rows_max: int) -> Iterator[Arrivals]:
        """The rows in order, at most ``rows_max`` at a time."""
        for start in range(0, self.count, rows_max):
            stop = min(start + rows_max, self.count)
            yield Arrivals(self.batch.slice(start, stop), self.places.slice(start, stop))


def joined(parts: list[Arrivals]) -> Arrivals:
    """Rows of several parts end to end; at least one. Of these nothing is left to be read."""
    places = (np.concatenate(columns) for columns in zip(*((part.sequence, part.device, part.time) for part in parts), strict=True))
    return Arrivals(concat_batches([part.batch for part in parts]), Places(*places))


def in_order_of_commit(rows: Arrivals, devices: DeviceTable) -> Arrivals:
    """The rows by commit, those of one in the order of storage."""
    order = np.lexsort((rows.time, devices.ranks_of(rows.device)[0], rows.sequence))
    if (order[1:] > order[:-1]).all():
        return rows
    return rows.take(order)
