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


def in_storage_order(parts: list[Arrivals], devices: DeviceTable) -> Arrivals:
    """Rows of parts, by tags, time, commit; those of one commit that are alike in these as they came.

    Where parts are ordered, as those of files are, runs of one device are put in order, not rows.
    """
    if len(parts) == 1:
        return parts[0]
    runs = [_runs(part.device) for part in parts]
    part = np.repeat(np.arange(len(parts)), [len(starts) for starts, _ in runs])
    starts, stops = (np.concatenate([pair[at] for pair in runs]) for at in (0, 1))
    device = np.concatenate([each.device[begins] for each, (begins, _) in zip(parts, runs, strict=True)])
    rank = devices.ranks_of(device)[0]
    order = np.argsort(rank, kind="stable")
    first, last = (_places(parts, [pair[at] - at for pair in runs])[:, order] for at in (0, 1))
    part, starts, stops, rank = part[order], starts[order], stops[order], rank[order]
    follows = (first[0, 1:] > last[0, :-1]) | ((first[0, 1:] == last[0, :-1]) & (first[1, 1:] >= last[1, :-1]))
    within = all(_ordered_within(each, begins) for each, (begins, _) in zip(parts, runs, strict=True))
    if not within or not (follows | (rank[1:] != rank[:-1])).all():
        rows = joined(parts)
        return _ordered(rows, (rows.sequence, rows.time, devices.ranks_of(rows.device)[0]))
    if sum(each.count for each in parts) < _RUN_ROWS * len(starts):
        lengths = stops - starts
        starts = starts + np.append(0, np.cumsum([each.count for each in parts]))[part]
        place = np.cumsum(lengths) - lengths
        return joined(parts).take(np.arange(int(lengths.sum())) + np.repeat(starts - place, lengths))
    slices = zip(part.tolist(), starts.tolist(), stops.tolist(), strict=True)
    return _copied([(parts[at], slice(start, stop)) for at, start, stop in slices])


def _copied(pieces: list[tuple[Arrivals, slice]]) -> Arrivals:
    """Ranges of rows, end to end."""
    vectors = {name: concat([each.batch.vectors[name].take(rows) for each, rows in pieces]) for name in pieces[0][0].batch.vectors}
    sequence = np.concatenate([each.sequence[rows] for each, rows in pieces])
    device = np.concatenate([each.device[rows] for each, rows in pieces])
    return Arrivals(Batch(vectors, len(device)), sequence, device, np.concatenate([each.time[rows] for each, rows in pieces]))


def _places(parts: list[Arrivals], rows: list[IntArray]) -> IntArray:
    """Times and commits of some rows of each part, end to end: two rows of an array."""
    times = [part.time[at] for part, at in zip(parts, rows, strict=True)]
    commits = [part.sequence[at] for part, at in zip(parts, rows, strict=True)]
    return np.stack((np.concatenate(times), np.concatenate(commits)))


def _ordered_within(rows: Arrivals, starts: IntArray) -> bool:
    """Whether the rows of each run are by time, then by commit."""
    time, sequence = rows.time, rows.sequence
    right: BoolArray = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (sequence[1:] >= sequence[:-1]))
    right[starts[1:] - 1] = True
    return bool(right.all())


def _runs(device: Int32Array) -> tuple[IntArray, IntArray]:
    """Where runs of one device start and stop."""
    cuts = np.flatnonzero(device[1:] != device[:-1]) + 1
    return np.append(0, cuts), np.append(cuts, len(device))


def in_order_of_commit(rows: Arrivals, devices: DeviceTable) -> Arrivals:
    """The rows by commit, those of one in the order of storage."""
    return _ordered(rows, (rows.time, devices.ranks_of(rows.device)[0], rows.sequence))


def _ordered(rows: Arrivals, keys: tuple[NDArray[np.int64] | Int32Array, ...]) -> Arrivals:
    order = np.lexsort(keys)
    if (order[1:] > order[:-1]).all():
        return rows
    return rows.take(order)
