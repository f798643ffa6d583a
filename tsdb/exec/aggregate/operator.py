"""The Aggregate operator: a scan's rows folded into one row per group, batch by batch on several threads, in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from tsdb.catalog.tag_order import value_ranks
from tsdb.exec.aggregate.bucket import Buckets
from tsdb.exec.aggregate.call import Found, Program
from tsdb.exec.aggregate.cell import Cells
from tsdb.exec.aggregate.segment import RowBatch, Segmenter
from tsdb.exec.aggregate.unit import Part, StatisticsReader
from tsdb.exec.batch import Batch
from tsdb.exec.device_group import groups_of
from tsdb.exec.lane import FileLane, Lane
from tsdb.exec.rows import RowSet
from tsdb.plan.grouping import BucketKey
from tsdb_format.parallel import ordered_map
from tsdb_format.vector import IntArray

#: Rows that are folded at a time: what storage folds by itself needs no cache, and threads that meet less often wait less.
_BATCH_ROWS = 262_144
#: Rows from which handing them to threads pays.
_THREADED_ROWS_MIN = 32_768
#: A window of time is so many times as long as the one before.
_GROWTH = 4

if TYPE_CHECKING:
    from tsdb.exec.selection import Selection
    from tsdb.plan.node import Aggregate
    from tsdb_format.schema import Schema


class Form:
    """What an Aggregate over a table with these columns is, whatever its rows are: kept with the plan."""

    def __init__(self, node: Aggregate, schema: Schema) -> None:
        self.keys = node.keys
        self.time = schema.time.name
        self.buckets = Buckets([key for key in node.keys if isinstance(key, BucketKey)], schema.time.type)
        self.device_keys = [key for key in node.keys if not isinstance(key, BucketKey)]
        self.program = Program(node.calls, schema)


class Aggregation:
    """One run of an Aggregate over a selection."""

    def __init__(self, form: Form, selection: Selection, threads: int, *, statistics: bool) -> None:
        """With ``statistics``, units that these describe wholly are not read."""
        table = selection.table
        selection.batch_rows = _BATCH_ROWS
        self._form = form
        self._selection = selection
        self._threads = threads
        self._buckets = form.buckets
        self._groups, self._values = groups_of(table.devices, form.device_keys, selection.device_mask)
        self._segmenter = Segmenter(self._groups, self._buckets, indexed=statistics)
        self._gatherers = form.program.of(table)
        self._statistics = StatisticsReader(selection, self._segmenter, form.program, self._gatherers) if statistics else None
        lanes = self._lanes = selection.lanes()
        self._low = max((min((lane.first_time for lane in lanes), default=0)), selection.time_low)
        self._high = min((max((lane.last_time for lane in lanes), default=-1)), selection.time_high)
        self._cells = Cells(self._gatherers, self._groups.count, self._buckets, self._low, self._high)

    def run(self) -> Batch:
        """One row per group, in ascending order of the keys."""
        self._gather(self._lanes)
        return self._result()

    def run_from(self, newest: bool, ticks: int, enough: Callable[[Batch], bool]) -> Batch:
        """As ``run``, from the newest (oldest) bucket on, and no further than until the groups of whole buckets are ``enough``.

        Rows are read by windows of time, the first of about ``ticks``, each several times as long as the one before.
        """
        selection = self._selection
        bounds = selection.time_low, selection.time_high
        low, high = self._low, self._high
        batch = self._result()
        try:
            while low <= high:
                edge = max(low, high - ticks) if newest else min(high, low + ticks)
                selection.time_low, selection.time_high = (edge, high) if newest else (low, edge)
                self._gather(selection.lanes())
                low, high, ticks = (low, edge - 1, ticks * _GROWTH) if newest else (edge + 1, high, ticks * _GROWTH)
                whole = None if low > high else int(self._buckets.first_ticks(np.array([edge]))[0])
                batch = self._result(whole, newest)
                if enough(batch):
                    break
        finally:
            selection.time_low, selection.time_high = bounds
            selection.runs_read = None  # windows look into the same ones; those of the pages read count
        return batch

    def _gather(self, lanes: Sequence[Lane]) -> None:
        """Fold all selected rows of some lanes into their cells."""
        for found in self._mapped(self._pieces(lanes)):
            if found is not None:
                self._cells.add(*found)

    def _mapped(self, pieces: Iterator[RowSet | Part]) -> Iterator[Part | None]:
        """The parts of all pieces, made in several threads where there are rows enough."""
        first: list[RowSet | Part] = []
        rows = 0
        for piece in pieces:
            first.append(piece)
            rows += 0 if isinstance(piece, Part) else piece.count
            if rows > _THREADED_ROWS_MIN:
                return ordered_map(self._fold, chain(first, pieces), self._threads)
        return map(self._fold, first)

    def _pieces(self, lanes: Sequence[Lane]) -> Iterator[RowSet | Part]:
        """What statistics answer of each lane, then the rows that are left of it."""
        selection = self._selection
        for lane in lanes:
            for held in selection.ranges_of_lane(lane):
                left = held
                if self._statistics is not None and isinstance(lane, FileLane):
                    answered, left = self._statistics.take(lane, held)
                    yield from answered
                yield from selection.rows_of_runs(lane, *left)
        selection.completed = True

    def _fold(self, rows: RowSet | Part) -> Part | None:
        """A row set's segments, and each accumulator's part of them."""
        if isinstance(rows, Part):
            return rows
        self._selection.stats.add_rows(rows.stored_rows)
        rows = self._selection.filtered(rows)
        if rows.count == 0:
            return None
        batch = RowBatch(rows, self._form.time, self._form.program.wants)
        segments = self._segmenter.segments(batch)
        return Part(segments.group, segments.start, [each.part(batch, segments) for each in self._gatherers])

    def _result(self, beyond: int | None = None, newest: bool = True) -> Batch:
        """The groups that have rows, of them those of buckets after (unless ``newest``: before) the one named ``beyond``."""
        cells = self._cells
        group, start = cells.finish()
        slots = np.zeros(1, np.int64)
        if self._form.keys:
            held = cells.held(0)[0] > 0
            if beyond is not None:
                held &= (start > beyond) if newest else (start < beyond)
            slots = self._ordered(np.flatnonzero(held), group, start)
            group, start = group[slots], start[slots]
        vectors = {}
        devices, buckets = iter(self._values), iter(range(len(self._buckets)))
        for key in self._form.keys:
            if isinstance(key, BucketKey):
                vectors[key.name] = self._buckets.values(next(buckets), start)
            else:
                vectors[key.name] = next(devices).take(self._groups.members[group])
        with np.errstate(all="ignore"):
            vectors.update(self._form.program.vectors(Found(cells, slots, filled=bool(self._form.keys))))
        return Batch(vectors, len(slots))

    def _ordered(self, slots: IntArray, group: IntArray, start: IntArray) -> IntArray:
        """Slots in ascending order of the keys; they come in that of groups, then buckets. Raises what a key of theirs does."""
        if self._groups.failures:
            self._groups.check(group[slots])
        kinds = [isinstance(key, BucketKey) for key in self._form.keys]
        if kinds == sorted(kinds):
            return slots
        while not kinds[-1]:  # slots ascend by these already, and sorting leaves equals in order
            kinds.pop()
        numbers = self._cells.bucket_numbers(slots) if kinds == [True] else None
        if numbers is not None:
            return slots[np.argsort(numbers, kind="stable")]
        members = self._groups.members
        ranks = (value_ranks(values.take(members))[group[slots]] for values in self._values)
        buckets = (self._buckets.values(number, start[slots]).values for number in range(len(self._buckets)))
        keys = [next(buckets) if bucket else next(ranks) for bucket in kinds]
        ordered: IntArray = slots[np.lexsort(keys[::-1])]
        return ordered
