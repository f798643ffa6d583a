"""Units that are answered from statistics: device runs and pages that lie wholly in one cell and are wholly selected.

Only for rows that have one version: of others statistics prove nothing. What is not answered so is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tsdb.exec.kernels import ranges, unit
from tsdb.exec.lane import FileLane, Ranges
from tsdb.exec.prune import ALL_MATCH, CANNOT_MATCH, Verdicts, verdicts
from tsdb.exec.source import table_column
from tsdb_format.statistics import HAS_BOUNDS, Statistics
from tsdb_format.types import Role
from tsdb_format.vector import BoolArray, IntArray

if TYPE_CHECKING:
    from tsdb.exec.aggregate.call import Gatherer, Program
    from tsdb.exec.aggregate.segment import Segmenter
    from tsdb.exec.selection import Selection
    from tsdb.exec.source import FileSource
    from tsdb.plan.predicate import Predicate
    from tsdb.storage.data_file import DataFile

_NO_ROWS = np.empty(0, np.int64)


class Part(NamedTuple):
    """What is known of some segments: the cell of each, and each accumulator's part; None: it has seen nothing in them."""

    group: IntArray
    start: IntArray
    parts: list[Any]


@dataclass(frozen=True, eq=False)
class Units:
    """Some units of rows: how many rows each has, and what statistics say of a column; None where they say nothing.

    ``devices`` gives the device of each, -1 where it is not of one.
    """

    rows: IntArray
    statistics: Callable[[str], Statistics | None]
    devices: Callable[[], IntArray]

    def chosen(self, condition: Predicate | None) -> tuple[BoolArray | None, BoolArray | None]:
        """Units whose rows all satisfy a condition, and those of which none does; None, None: there is no condition."""
        if condition is None:
            return None, None
        found = verdicts(condition, self.statistics, len(self.rows))
        return found == ALL_MATCH, found == CANNOT_MATCH


class StatisticsReader:
    """Answers for what it can of a lane's rows."""

    def __init__(self, selection: Selection, segmenter: Segmenter, program: Program, gatherers: Sequence[Gatherer]) -> None:
        """``gatherers`` are those of the program for the selection's table."""
        self._selection = selection
        self._segmenter = segmenter
        self._buckets = segmenter.buckets
        self._gatherers = gatherers
        self._time = selection.table.table.schema.time
        self._beyond_index = program.beyond_index

    def take(self, lane: FileLane, held: Ranges) -> tuple[list[Part], Ranges]:
        """What is answered of some ranges of a lane's clean rows, and the ranges that are left."""
        source = self._selection.sources[lane.files[0]]
        if not (self._may_be_runs(source) or self._may_be_pages(source, held.starts[:, 0], held.stops[:, 0])):
            return [], held
        if source.file.row_count < source.file.summarized_rows_min:
            return [], held
        some = held.starts[:, 0] < held.stops[:, 0]
        starts, stops = np.ascontiguousarray(held.starts[some, 0]), np.ascontiguousarray(held.stops[some, 0])
        made: list[Part] = []
        if len(starts) and self._may_be_runs(source):
            found, starts, stops = self._of_runs(source, starts, stops)
            made += [] if found is None else [found]
        if self._may_be_pages(source, starts, stops):
            found, starts, stops = self._of_pages(source, starts, stops)
            made += [] if found is None else [found]
        return made, Ranges(held.files, starts.reshape(-1, 1), stops.reshape(-1, 1))

    def _may_be_runs(self, source: FileSource) -> bool:
        """Whether the time index knows all that is asked of rows: of a column that a file has it does not."""
        return not self._selection.row_conjuncts and not any(map(source.stored_name, self._beyond_index))

    @staticmethod
    def _may_be_pages(source: FileSource, starts: IntArray, stops: IntArray) -> bool:
        """Whether the ranges may hold a page: one has it whole, several at least as many rows as the smallest page has."""
        rows, step = source.file.row_count, source.rows_per_page
        if len(starts) == 1:
            start, stop = -(-starts.item() // step) * step, stops.item()
            return start < stop and (start + step <= stop or stop == rows)
        return len(starts) > 0 and int(stops.sum() - starts.sum()) >= rows - step * (source.file.page_count - 1)

    # ------------------------------------------------------------------------------------------------ device runs

    def _of_runs(self, source: FileSource, starts: IntArray, stops: IntArray) -> tuple[Part | None, IntArray, IntArray]:
        """Answer for the parts of device runs whose first and last times are in one bucket, from the time index."""
        first, last, run = _pieces_of_runs(source.file, starts, stops)
        rows = last - first
        count = len(rows)
        bounds: list[IntArray] = []

        def times() -> tuple[IntArray, IntArray]:
            if not bounds:
                bounds.extend(self._run_times(source, first, last, run))
            return bounds[0], bounds[1]

        def statistics(name: str) -> Statistics | None:
            if name != self._time.name:
                return self._absent(source, name, rows)
            low, high = times()
            flags = np.full(count, HAS_BOUNDS, np.uint8)
            return Statistics(rows, np.zeros(count, np.int64), flags, low, high)

        numbers = source.open_file.device_number
        found = self._summaries(Units(rows, statistics, lambda: numbers[run].astype(np.int64)))
        if found is None or not found[1].any():
            return None, starts, stops
        parts, known = found
        begin = np.zeros(count, np.int64)
        if len(self._buckets):
            low, high = times()
            begin = self._buckets.first_ticks(low)
            known &= begin == self._buckets.first_ticks(high)
        group = self._segmenter.of_runs(source)[run]
        if known.all():
            self._count(source, first, last)
            return Part(group, begin, parts), _NO_ROWS, _NO_ROWS
        answered = np.flatnonzero(known)
        self._count(source, first[answered], last[answered])
        return Part(group[answered], begin[answered], _taken(parts, answered)), first[~known], last[~known]

    def _run_times(self, source: FileSource, first: IntArray, last: IntArray, run: IntArray | slice) -> tuple[IntArray, IntArray]:
        """The first and last times of parts of runs: those of the time index, or read where a run was cut."""
        row_start, index = source.file.row_start, source.file.resource
        if isinstance(run, slice):
            return index.min_time, index.max_time
        found = []
        for whole, cut, at in (
            (index.min_time[run], first > row_start[run], first), (index.max_time[run], last < row_start[run + 1], last - 1),
        ):  # fmt: skip
            if cut.any():
                rows = np.ascontiguousarray(at[cut])
                whole[cut] = source.read(self._time, rows, rows + 1).values
            found.append(whole)
        return found[0], found[1]

    # ------------------------------------------------------------------------------------------------ pages

    def _of_pages(self, source: FileSource, starts: IntArray, stops: IntArray) -> tuple[Part | None, IntArray, IntArray]:
        """Answer for pages."""
        file = source.file
        group = np.empty(file.page_count, np.int64)
        unit.groups_of_pages(file.row_start, self._segmenter.of_runs(source), starts, stops, source.rows_per_page, group)
        known = group >= 0
        verdict = self._verdicts(source)
        if verdict is not None:
            known &= verdict == ALL_MATCH
        start = np.zeros(file.page_count, np.int64)
        if known.any() and len(self._buckets):
            time = source.statistics(self._time, "page")
            assert time is not None
            assert time.min is not None
            assert time.max is not None
            start = self._buckets.first_ticks(time.min)
            known &= start == self._buckets.first_ticks(time.max)
        if not known.any():
            return None, starts, stops
        rows = np.full(file.page_count, source.rows_per_page, np.int64)
        rows[-1] = file.row_count - source.rows_per_page * (file.page_count - 1)
        units = Units(rows, lambda name: self._page_statistics(source, name, rows), lambda: _devices_of_pages(source, rows))
        found = self._summaries(units)
        if found is None:
            return None, starts, stops
        parts, summed = found
        known &= summed
        pages = np.flatnonzero(known)
        if not len(pages):
            return None, starts, stops
        self._count(source, pages * source.rows_per_page, pages * source.rows_per_page + rows[pages])
        room = len(starts) + file.page_count
        left_starts, left_stops = np.empty(room, np.int64), np.empty(room, np.int64)
        count = ranges.clip(starts, stops, source.rows_per_page, (~known).view(np.uint8), left_starts, left_stops)
        return Part(group[pages], start[pages], _taken(parts, pages)), left_starts[:count], left_stops[:count]

    def _verdicts(self, source: FileSource) -> Verdicts | None:
        return self._selection.value_verdicts(source) if self._selection.row_conjuncts else None

    def _page_statistics(self, source: FileSource, name: str, rows: IntArray) -> Statistics | None:
        column = table_column(self._selection.table, name)
        if column.role in (Role.TAG, Role.ATTRIBUTE):
            return None
        return source.statistics(column, "page") or self._absent(source, name, rows)

    # ------------------------------------------------------------------------------------------------ both

    def _absent(self, source: FileSource, name: str, rows: IntArray) -> Statistics | None:
        """Statistics of NULLs alone, for a column that the file was written without; None for others."""
        column = table_column(self._selection.table, name)
        if column.role in (Role.TAG, Role.ATTRIBUTE) or source.stored_name(column) is not None:
            return None
        if column.type.is_pooled:  # no numbers: a text compares with none
            return Statistics(rows, rows, np.zeros(len(rows), np.uint8))
        zeros = np.zeros(len(rows), np.float64 if column.type.is_float else np.int64)
        return Statistics(rows, rows, np.zeros(len(rows), np.uint8), zeros, zeros, zeros)

    def _summaries(self, units: Units) -> tuple[list[Any], BoolArray] | None:
        """Each accumulator's part with an element per unit, and the units for which all are known; None: never all."""
        parts: list[Any] = []
        known = np.ones(len(units.rows), np.bool_)
        for gatherer in self._gatherers:
            found = gatherer.summary(units)
            if found is None:
                return None
            parts.append(found[0])
            known &= found[1]
        return parts, known

    def _count(self, source: FileSource, starts: IntArray, stops: IntArray) -> None:
        """Note which rows statistics answered for."""
        source.answered.append((starts, stops))


def _pieces_of_runs(file: DataFile, starts: IntArray, stops: IntArray) -> tuple[IntArray, IntArray, IntArray | slice]:
    """Some ranges cut where devices change: first row, last row + 1 and run of each piece; of a whole file just its runs."""
    if len(starts) == 1 and starts[0] == 0 and stops[0] == file.row_count:
        return file.row_start[:-1], file.row_start[1:], slice(None)
    room = len(starts) + file.device_count
    pieces = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    count = unit.split_by_run(file.row_start, starts, stops, *pieces)
    return pieces[0][:count], pieces[1][:count], pieces[2][:count]


def _devices_of_pages(source: FileSource, rows: IntArray) -> IntArray:
    """The device of each page that is of one, -1 for others."""
    first = np.arange(len(rows)) * source.rows_per_page
    row_start = source.file.row_start
    run, last = (row_start.searchsorted(row, "right") - 1 for row in (first, first + rows - 1))
    return np.where(run == last, source.open_file.device_number[run], -1).astype(np.int64)


def _taken(parts: list[Any], units: IntArray) -> list[Any]:
    return [None if part is None else tuple(array[units] for array in part) for part in parts]
