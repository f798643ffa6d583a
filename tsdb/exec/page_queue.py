"""Pages in order of the best value they can hold: the units of a TopK whose leading key is a field.

Where that key is a distance, units are parts of pages, whose bounds come from the balls that their vectors lie in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.candidates import Candidates, key_of_rows
from tsdb.exec.kernels import ranges
from tsdb.exec.order import NULLS_FIRST, VALUE, ascending, float_of, null_class, prefix_keys
from tsdb.exec.rows import FileRows, MergedRows, RowSet
from tsdb.exec.runtime_filter import ANY_TIE, Threshold
from tsdb.exec.selection import BATCH_ROWS, slices
from tsdb.exec.source import table_column
from tsdb.plan.node import SortKey
from tsdb_format.statistics import HAS_BOUNDS, HAS_NAN, Statistics
from tsdb_format.vector import IntArray, Pool

if TYPE_CHECKING:
    from tsdb.exec.distance import BallBounds
    from tsdb.exec.lane import FileLane
    from tsdb.exec.selection import Selection
    from tsdb.exec.source import FileSource

#: Pages read in the first step; twice as many in each next one, as far as the threshold lets them.
_FIRST_PAGES = 1
_PAGES_MAX = 64
#: Floats of vectors that are looked at by one thread at a time: so many rows that each finds its share in the cache.
_WIDE_BATCH_ITEMS, _WIDE_BATCH_ROWS_MIN = 1 << 21, 1_024
_INT64 = np.iinfo(np.int64)


class Units(NamedTuple):
    """Units of a TopK: where they are, their best (class, key, tie), and whether a row of that key surely exists."""

    file: IntArray
    number: IntArray
    key_class: NDArray[np.int8]
    key: IntArray
    tie: IntArray
    worst_tie: IntArray
    exact: NDArray[np.bool_]

    @classmethod
    def none(cls) -> Units:
        """No units."""
        empty = np.empty(0, np.int64)
        return cls(empty, empty, np.empty(0, np.int8), empty, empty, empty, np.empty(0, np.bool_))


class PageQueue:
    """The wanted pages of a table's clean rows, best bound first."""

    def __init__(self, selection: Selection, candidates: Candidates, lanes: list[FileLane]) -> None:
        self._selection = selection
        self._candidates = candidates
        self._key = candidates.keys[0]
        self._distance = selection.sources.computed.get(self._key.column)
        #: Whether reading the leading key takes longer than most conditions on other columns.
        self.key_is_wide = self._distance is not None
        self._batch_rows = BATCH_ROWS
        self._step, self._step_max = _FIRST_PAGES, _PAGES_MAX
        self._at = 0
        self._pieces: dict[int, tuple[IntArray, IntArray, IntArray]] = {}
        found = [units for lane in lanes if (units := self._file(lane)) is not None]
        self._units = Units(*(np.concatenate(parts) for parts in zip(*found, strict=True))) if found else Units.none()
        self._order = np.lexsort((self._units.tie, self._units.key, self._units.key_class))

    def _file(self, lane: FileLane) -> Units | None:
        """The wanted pages of one file."""
        selection = self._selection
        source = selection.sources[lane.files[0]]
        held = selection.runs(lane)
        first, last = selection.clip(source, held.starts[:, 0], held.stops[:, 0])
        if len(first) == 0:
            return None
        bounds, of_class, of_key, row_count = self._best(source)
        room = len(first) + len(bounds)
        pieces = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
        count = ranges.split_at(first, last, bounds, *pieces)
        piece_start, piece_stop, piece_unit = (array[:count] for array in pieces)
        self._pieces[source.index] = piece_start, piece_stop, piece_unit
        units, at = np.unique(piece_unit, return_index=True)
        exact = np.add.reduceat(piece_stop - piece_start, at) == row_count[units]
        pages = bounds[units] // source.rows_per_page
        best_tie, worst_tie = self._ties(lane, pages, piece_start[at], np.maximum.reduceat(piece_stop, at) - 1)
        return Units(np.full(len(units), source.index), units, of_class[units], of_key[units], best_tie, worst_tie, exact)

    def _best(self, source: FileSource) -> tuple[IntArray, NDArray[np.int8], IntArray, IntArray]:
        """Where a file's units begin, the best (class, key) of each, and the rows of which one surely has that key (−1: none)."""
        file = source.file
        if self._distance is not None:
            bounds = self._distance.bounds(source)
            count = len(bounds.start) - 1
            self._batch_rows = min(self._batch_rows, max(_WIDE_BATCH_ITEMS // len(self._distance.target), _WIDE_BATCH_ROWS_MIN))
            self._step_max = max(self._step_max, -(-_PAGES_MAX * count // file.page_count))
            return bounds.start, *best_of_balls(bounds, self._key), np.full(count, -1)
        pages = np.minimum(np.arange(file.page_count + 1) * file.rows_per_page, file.row_count)
        statistics = source.statistics(table_column(self._selection.table, self._key.column), "page")
        if statistics is None:
            null, nothing = np.full(file.page_count, null_class(self._key)), np.zeros(file.page_count, np.int64)
            return pages, null, nothing, np.diff(pages)
        key_class, key, sure = best_of_units(statistics, self._key)
        return pages, key_class, key, np.where(sure, statistics.row_count, -1)

    def _ties(self, lane: FileLane, pages: IntArray, first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
        """The best and the worst tie that a row of each page can have, given the first and last wanted row of each."""
        source = self._selection.sources[lane.files[0]]
        if self._candidates.tie == "rank":
            row_start, rank = source.file.row_start, self._selection.table.devices.rank
            best, worst = (rank[lane.device[np.searchsorted(row_start, rows, "right") - 1]] for rows in (first, last))
            return best.astype(np.int64), worst.astype(np.int64)
        if self._candidates.tie is None:
            return np.zeros(len(pages), np.int64), np.full(len(pages), ANY_TIE)
        times = source.statistics(self._selection.table.table.schema.time, "page")
        assert times is not None
        assert times.min is not None
        assert times.max is not None
        if self._candidates.keys[1].descending:
            return ~times.max[pages], ~times.min[pages]
        return times.min[pages], times.max[pages]

    def witness(self) -> Threshold | None:
        """The k-th best of rows that page statistics prove to exist, one per page; None where they prove fewer."""
        k, units = self._candidates.k, self._units
        sure = np.flatnonzero(units.exact)
        if self._selection.filters_rows or len(sure) < k:
            return None
        last = sure[np.lexsort((units.worst_tie[sure], units.key[sure], units.key_class[sure]))[k - 1]]
        return Threshold(int(units.key_class[last]), int(units.key[last]), int(units.worst_tie[last]))

    def next(self, threshold: Threshold | None) -> list[FileRows] | None:
        """The rows of the next units that may qualify, by file; None when no later one can."""
        units = self._units
        end = min(self._at + self._step, len(self._order))
        chosen = self._order[self._at : end]
        if threshold is not None:
            chosen = chosen[threshold.admits(units.key_class[chosen], units.key[chosen], units.tie[chosen])]
        if len(chosen) == 0:
            return None
        self._at, self._step = end, min(self._step * 2, self._step_max)
        out = []
        for index in np.unique(units.file[chosen]).tolist():
            starts, stops, number = self._pieces[index]
            keep = np.isin(number, units.number[chosen[units.file[chosen] == index]])
            parts = slices(starts[keep], stops[keep], lambda: self._batch_rows)
            out += [FileRows(self._selection.sources[index], *part) for part in parts]
        return out

    def qualifying(self, rows: RowSet, threshold: Threshold | None) -> RowSet:
        """The rows whose leading key may qualify; of distances those that a quick look does not exclude."""
        if threshold is None:
            return rows
        if self._distance is None:
            return rows.select(threshold.admits(*key_of_rows(self._selection.sources, rows, self._key)[:2]))
        descending = self._key.descending
        limit = float_of(~threshold.key if descending else threshold.key)
        if threshold.key_class != VALUE or np.isnan(limit) or isinstance(rows, MergedRows) or rows.count == 0:
            return rows
        nulls = bool(null_class(self._key) == NULLS_FIRST)
        return rows.select(
            self._distance.may_reach(rows.source, rows.starts, rows.stops, limit, descending=descending, nulls=nulls)
        )


def best_of_balls(bounds: BallBounds, key: SortKey) -> tuple[NDArray[np.int8], IntArray]:
    """Per ball the best (class, key) that a distance in it can have."""
    best = ascending(bounds.high if key.descending else bounds.low)
    keys = ~best if key.descending else best
    keys[np.isinf(bounds.low) & np.isinf(bounds.high)] = _INT64.min  # nothing is known: NaN, the greatest, too is possible
    nulls_lead = ~bounds.has_values if null_class(key) != NULLS_FIRST else bounds.has_nulls
    return np.where(nulls_lead, null_class(key), VALUE), np.where(nulls_lead, 0, keys)


def best_of_units(statistics: Statistics, key: SortKey) -> tuple[NDArray[np.int8], IntArray, NDArray[np.bool_]]:
    """Per unit the best (class, key) that it can hold, and whether a row of exactly that key surely exists in it.

    Three kinds of unit, by NULLs: only, some, none. A unit whose bounds are unknown may hold the best of all.
    """
    count = len(statistics.row_count)
    classes = np.full(count, VALUE)
    keys = np.full(count, _INT64.min)
    bounded = (statistics.flags & HAS_BOUNDS) != 0
    has_nan = (statistics.flags & HAS_NAN) != 0
    exact = np.zeros(count, np.bool_)
    if statistics.min_prefix is not None and statistics.max_prefix is not None:
        prefixes = statistics.max_prefix if key.descending else statistics.min_prefix
        best = prefix_keys(Pool(np.arange(count + 1, dtype=np.int64) * 16, np.ascontiguousarray(prefixes).reshape(-1)))
        keys[bounded] = (~best if key.descending else best)[bounded]
    elif statistics.min is not None and statistics.max is not None:
        best = ascending(statistics.max if key.descending else statistics.min)
        if key.descending:
            best = np.where(has_nan, _INT64.max, best)
        else:
            best = np.where(bounded | ~has_nan, best, _INT64.max)
        known = bounded | has_nan
        keys[known] = (~best if key.descending else best)[known]
        exact = known.copy()
    only_nulls = statistics.null_count == statistics.row_count
    nulls_lead = only_nulls if null_class(key) != NULLS_FIRST else statistics.null_count > 0
    classes[nulls_lead] = null_class(key)
    keys[nulls_lead] = 0
    exact[nulls_lead] = True
    return classes, keys, exact
