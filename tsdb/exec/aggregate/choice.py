"""Choosing one row per cell: first, last, arg_min, arg_max, and the least and greatest strings.

Of the rows with the best key the first in storage order is chosen: tags ascending, time, sequence number. The candidates of each
batch, one per segment, wait until there are enough of them; then the best of each cell stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tsdb.catalog.device import DeviceTable, compacted
from tsdb.catalog.tag_order import value_ranks
from tsdb.exec.aggregate.segment import RowBatch, Segments, both
from tsdb.exec.kernels import aggregate as kernels
from tsdb.exec.order import ascending
from tsdb.plan.predicate import Predicate
from tsdb_format.types import ColumnType
from tsdb_format.vector import IntArray, Vector, concat, null_vector

if TYPE_CHECKING:
    from tsdb.exec.aggregate.unit import Units
    from tsdb.storage.snapshot import TableSnapshot

#: Candidates that wait at least.
_WAITING_MIN = 1 << 16


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows that may be chosen: the segment, later the slot, that each is of; its key (never NULL); device rank, time and value."""

    slot: IntArray
    key: Vector
    rank: IntArray
    time: IntArray
    value: Vector

    def take(self, rows: IntArray) -> Candidates:
        """Some of the candidates."""
        key, value = compacted(self.key.take(rows)), compacted(self.value.take(rows))
        return Candidates(self.slot[rows], key, self.rank[rows], self.time[rows], value)


class Choice:
    """The value of ``name`` at the row with the least or greatest ``by``, of those that satisfy a condition.

    Rows whose ``by`` is NULL are left out; with ``valued`` also those whose value is.
    """

    _devices: DeviceTable

    def __init__(self, name: str, kind: ColumnType, by: str, condition: Predicate | None, *, greatest: bool, valued: bool) -> None:
        self.name = name
        self.kind = kind
        self.by = by
        self.condition = condition
        self.greatest = greatest
        self.valued = valued

    def of(self, table: TableSnapshot) -> Choice:
        """The same for a run over a snapshot, whose devices order rows."""
        made = Choice(self.name, self.kind, self.by, self.condition, greatest=self.greatest, valued=self.valued)
        made._devices = table.devices
        return made

    def started(self, count: int) -> Chosen:
        """What is held before anything was seen."""
        return Chosen(self, count)

    def part(self, batch: RowBatch, segments: Segments) -> Candidates:
        """The best row of each segment that has one."""
        by = batch.read(self.by)
        chosen = both(batch.mask(self.condition), by.validity)
        if self.valued and self.name != self.by:
            chosen = both(chosen, batch.cells(self.name).validity)
        row = np.empty(len(segments), np.int64)
        kernels.first_least(self.keys(by), chosen, segments.stop, row)
        found = np.flatnonzero(row >= 0)
        return self._candidates(batch, found, row[found])

    def summary(self, units: Units) -> None:
        """No statistics name rows."""
        del units

    def _candidates(self, batch: RowBatch, segment: IntArray, at: IntArray) -> Candidates:
        rank = self._devices.rank[batch.rows.device()[at]].astype(np.int64)
        key = batch.taken(self.by, at)
        time = batch.taken(batch.time_name, at).values
        value = key if self.name == self.by else batch.taken(self.name, at)
        # What waits must not hold a whole file's strings.
        return Candidates(segment, compacted(replace(key, validity=None)), rank, time, compacted(value))

    def keys(self, by: Vector) -> IntArray:
        """Integers that order as the values do, best first; under a NULL any."""
        if by.pool is not None:
            by = compacted(by)
            keys = value_ranks(replace(by, validity=None))
        else:
            keys = ascending(by.values)
        return np.ascontiguousarray(~keys if self.greatest else keys)

    def merge(self, held: Chosen, slots: IntArray, part: Candidates) -> None:
        """Take in a part's rows."""
        held.add(replace(part, slot=slots[part.slot]))

    def resized(self, held: Chosen, moved: IntArray, count: int) -> Chosen:
        """What is held, of ``count`` slots, of which moved[i] is what slot i was."""
        held.resize(moved, count)
        return held


class Chosen:
    """The best row of each slot. Candidates that come wait until there are enough of them."""

    def __init__(self, choice: Choice, slots: int) -> None:
        self._choice = choice
        self._waiting: list[Candidates] = []
        self._waiting_count = 0
        self._best: Candidates | None = None
        self._slots = slots

    def add(self, found: Candidates) -> None:
        """Let candidates wait."""
        self._waiting.append(found)
        self._waiting_count += len(found.slot)
        if self._waiting_count > max(_WAITING_MIN, 2 * self._slots):
            self._settle()

    def resize(self, moved: IntArray, count: int) -> None:
        """Have ``count`` slots, of which moved[i] is what slot i was."""
        self._settle()
        self._slots = count
        if self._best is not None:
            self._best = replace(self._best, slot=moved[self._best.slot])

    def _settle(self) -> None:
        """Keep the best candidate of each slot."""
        parts = [*([] if self._best is None else [self._best]), *self._waiting]
        if not self._waiting:
            return
        slot = np.concatenate([part.slot for part in parts])
        rank, time = np.concatenate([part.rank for part in parts]), np.concatenate([part.time for part in parts])
        key, value = concat([part.key for part in parts]), concat([part.value for part in parts])
        row = np.full(self._slots, -1, np.int64)
        kernels.best_rows(slot, self._choice.keys(key), rank, time, row)
        self._best = Candidates(slot, key, rank, time, value).take(row[row >= 0])
        self._waiting, self._waiting_count = [], 0

    def values(self, slots: IntArray) -> Vector:
        """The value of each slot, NULL where no row was chosen."""
        self._settle()
        if self._best is None:
            return null_vector(self._choice.kind, len(slots))
        place = np.full(self._slots, -1, np.int64)
        place[self._best.slot] = np.arange(len(self._best.slot))
        at = place[slots]
        if (at < 0).all():
            return null_vector(self._choice.kind, len(slots))
        found = self._best.value.take(np.maximum(at, 0))
        valid = found.valid() & (at >= 0)
        return Vector(self._choice.kind, found.values, None if valid.all() else valid, found.pool)
