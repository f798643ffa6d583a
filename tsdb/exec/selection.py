"""Selection: what a scan's predicate leaves to read, decided before any page is touched.

Its conjuncts are split by what answers them (``Conditions``): tags by the device table (one decision per device), time bounds and
TTL by the per-device time index and the page statistics, the rest by value statistics and then row by row. A ``Selection`` is
one scan's share of a snapshot; operators ask it for row sets.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.conditions import Conditions
from tsdb.exec.domains import NOTHING_KNOWN, Domains
from tsdb.exec.evaluate import evaluate
from tsdb.exec.kernels import ranges
from tsdb.exec.kernels import runs as run_kernels
from tsdb.exec.lane import FileLane, Lane, Ranges, lanes_of
from tsdb.exec.prune import CANNOT_MATCH, Verdicts, verdicts, worst
from tsdb.exec.rows import FileRows, RowSet, merge_rows
from tsdb.exec.source import NOTHING_COMPUTED, Computed, FileSource, ScanSources
from tsdb.plan.predicate import Compare, Predicate, compared_columns, members_in
from tsdb_format.statistics import Statistics
from tsdb_format.types import Role
from tsdb_format.vector import BoolArray, IntArray, Vector

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable
    from tsdb.exec.key_domain import KeyDomain
    from tsdb.exec.stats import ScanStats
    from tsdb.storage.snapshot import TableSnapshot

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
#: Rows that a scan hands on at a time: a few hundred kilobytes a column, so that a batch stays in the cache.
BATCH_ROWS = 65_536
#: So many times that where a filter keeps few of them.
_GROWTH_MAX = 4
#: Runs that span files and are looked at together.
MERGED_RUNS_MAX = 4_096
#: Device decisions kept per device table: dashboards ask for the same few devices again and again.
_DECISIONS_MAX = 64
_NO_MASK = np.empty(0, np.bool_)

_DECISIONS: WeakKeyDictionary[DeviceTable, OrderedDict[tuple[Predicate, ...], NDArray[np.bool_]]] = WeakKeyDictionary()


class Selection:
    """The rows of a table snapshot that satisfy a predicate."""

    def __init__(
        self,
        table: TableSnapshot,
        predicate: Predicate | Conditions | None,
        stats: ScanStats,
        domains: Domains = NOTHING_KNOWN,
        computed: Computed = NOTHING_COMPUTED,
    ) -> None:
        """``domains`` only leave out devices and pages: rows without any of their keys may still be among those given."""
        self.table = table
        self.stats = stats
        self.sources = ScanSources(table, stats, computed)
        held = predicate if isinstance(predicate, Conditions) else Conditions(predicate, table.table.schema, computed)
        self.time_low, self.time_high = held.time_low, held.time_high
        self._tag_conjuncts = held.of_tags
        self.row_conjuncts = held.of_rows
        self._tag_domains: list[KeyDomain] = []
        self._value_domains: list[KeyDomain] = []
        for part in held.of_members:
            for domain in part.members.domains(part.columns):
                self._place_domain(domain)
        self._apply_ttl()
        self._device_domains = domains.devices
        for domain in domains.columns:
            self._place_domain(domain)
        #: Device runs that were looked into (None: those of the pages read), and whether every wanted row was.
        self.runs_read: int | None = None
        self.completed = False
        #: Whether the operator above wants the best rows only: what it did not read, its thresholds have spared.
        self.best_first = stats.topk_id is not None
        #: Rows of the row sets that are handed out, unless a merged run alone has more.
        self.batch_rows = BATCH_ROWS
        #: As many after the first.
        self.full_batch_rows = BATCH_ROWS
        self._examined = self._kept = 0
        self._verdicts: dict[int, Verdicts] = {}
        self._excludes: dict[int, bool] = {}

    def _place_domain(self, domain: KeyDomain) -> None:
        role = self.sources.column(domain.column).role
        if role in (Role.TAG, Role.ATTRIBUTE):
            self._tag_domains.append(domain)
            return
        if role is Role.TIME:
            self.time_low, self.time_high = max(self.time_low, domain.low), min(self.time_high, domain.high)
        self._value_domains.append(domain)

    def _apply_ttl(self) -> None:
        ttl_ns = self.table.table.options.ttl_ns
        if ttl_ns is not None:
            units = self.table.table.schema.time.type.units_per_second
            oldest = -((ttl_ns - self.table.now_ns()) * units // 10**9)  # ceiling of (now − ttl) in the column's unit
            self.time_low = max(self.time_low, oldest)

    @property
    def filters_rows(self) -> bool:
        """Whether rows of a selected run may still be refused by their values."""
        return bool(self.row_conjuncts)

    @property
    def bounds_time(self) -> bool:
        """Whether some times are excluded."""
        return self.time_low > INT64_MIN or self.time_high < INT64_MAX

    @property
    def is_empty(self) -> bool:
        """Whether nothing can satisfy the predicate, whatever is stored."""
        return self.time_low > self.time_high or self._wants_no_device

    @cached_property
    def _wants_no_device(self) -> bool:
        mask = self.device_mask
        return len(mask) > 0 and not mask.any()

    @cached_property
    def device_mask(self) -> BoolArray:
        """The wanted table-wide devices; an empty array means all of them."""
        mask, devices = self._decided_devices(), self.table.devices
        found_by_key = (domain.contains(devices.values(domain.column)) for domain in self._tag_domains)
        for found in (*(domain.wanted(devices) for domain in self._device_domains), *found_by_key):
            if not found.all():
                mask = mask & found if len(mask) else found
        return mask

    def _decided_devices(self) -> BoolArray:
        """The devices that the predicate wants, as ``device_mask``; a decision that was made before is used again."""
        if not self._tag_conjuncts:
            return _NO_MASK
        devices = self.table.devices
        decisions = _DECISIONS.setdefault(devices, OrderedDict())
        key = self._tag_conjuncts
        mask = decisions.get(key)
        if mask is None and any(True for part in key for _ in members_in(part)):  # which nobody asks for again
            decisions = OrderedDict()
        if mask is None:
            mask = np.ones(devices.count, np.bool_)
            for part in self._tag_conjuncts:
                mask &= evaluate(part, devices.values, devices.count)
            decisions[key] = mask
            while len(decisions) > _DECISIONS_MAX:
                decisions.popitem(last=False)
        return mask

    def lanes(self) -> list[Lane]:
        """The lanes whose time range the selection meets."""
        if self.is_empty:
            return []
        return [lane for lane in lanes_of(self.table) if lane.last_time >= self.time_low and lane.first_time <= self.time_high]

    def wants_file(self, index: int) -> bool:
        """Whether a file's whole time range meets the selection's; known without opening it."""
        held = self.table.files[index]
        return held.max_time >= self.time_low and held.min_time <= self.time_high

    # ------------------------------------------------------------------------------------------------ runs and ranges

    def runs(self, lane: Lane) -> Ranges:
        """Row ranges of the lane's wanted runs in tag order, cut to the time bounds where that pays."""
        if isinstance(lane, FileLane) and self._takes_all(lane):
            return Ranges(lane.files, np.zeros((1, 1), np.int64), np.array([[self.table.files[lane.files[0]].row_count]]))
        found, partial = self.wanted_runs(lane)
        return self.cut_runs(lane, found, partial)

    def run_groups(self, lane: Lane) -> Iterator[Ranges]:
        """As ``runs``, some at a time where they span files: their dense form has a column for each."""
        if isinstance(lane, FileLane):
            yield self.runs(lane)
            return
        found, partial = self.wanted_runs(lane)
        for at in range(0, len(found), MERGED_RUNS_MAX):
            part = slice(at, at + MERGED_RUNS_MAX)
            yield self.cut_runs(lane, found[part], partial[part])

    def cut_runs(self, lane: Lane, runs: IntArray, partial: BoolArray) -> Ranges:
        """Row ranges of some runs, cut only at the ends where they leave the time bounds."""
        held = lane.bounds(runs)
        if np.count_nonzero(partial):
            held = self.cut_ranges(held, lane.min_time[runs] < self.time_low, self.time_low, INT64_MAX)
            held = self.cut_ranges(held, lane.max_time[runs] > self.time_high, INT64_MIN, self.time_high)
        return held

    def wanted_runs(self, lane: Lane) -> tuple[IntArray, BoolArray]:
        """The lane's wanted runs, and which of them have times outside of the bounds too."""
        found = np.empty(len(lane.min_time), np.int64)
        partial = np.empty(len(found), np.uint8)
        count = run_kernels.within(
            lane.min_time, lane.max_time, lane.device, _NO_MASK if lane.merged is None else lane.merged, self.device_mask,
            self.time_low, self.time_high, found, partial,
        )  # fmt: skip
        return found[:count], partial[:count].view(np.bool_)

    def cut_ranges(self, held: Ranges, which: BoolArray, low: int, high: int) -> Ranges:
        """The ranges, those of some runs (``which``) cut to the rows with low ≤ time ≤ high."""
        wanted = np.count_nonzero(which)
        if not wanted:
            return held
        if wanted == len(which) and len(held.files) == 1:
            starts, stops = self.cut(self.sources[held.files[0]], held.starts[:, 0], held.stops[:, 0], low, high)
            return Ranges(held.files, starts[:, None], stops[:, None])
        starts, stops = held.starts.copy(), held.stops.copy()
        for column, index in enumerate(held.files):
            some = which & (starts[:, column] < stops[:, column])
            count = np.count_nonzero(some)
            if count:
                cut = slice(None) if count == len(some) else some
                starts[cut, column], stops[cut, column] = self.cut(
                    self.sources[index], starts[cut, column], stops[cut, column], low, high
                )
        return Ranges(held.files, starts, stops)

    def _takes_all(self, lane: Lane) -> bool:
        """Whether every row of a lane that is one whole file is wanted."""
        if not isinstance(lane, FileLane) or lane.merged is not None or len(self.device_mask):
            return False
        held = self.table.files[lane.files[0]]
        return self.time_low <= held.min_time and held.max_time <= self.time_high

    def count_runs(self, count: int) -> None:
        """Count device runs that an operator looks into."""
        self.runs_read = (self.runs_read or 0) + count

    def cut(self, source: FileSource, starts: IntArray, stops: IntArray, low: int, high: int) -> tuple[IntArray, IntArray]:
        """The part of each run with low ≤ time ≤ high."""
        if low > INT64_MIN:
            starts = self._first_at_or_above(source, starts, stops, low, False)
        if high < INT64_MAX:
            stops = self._first_at_or_above(source, starts, stops, high, True)
        return starts, stops

    def _first_at_or_above(self, source: FileSource, starts: IntArray, stops: IntArray, key: int, side_right: bool) -> IntArray:
        """Per run (maybe empty) the first row with time ≥ key (> key), or its stop."""
        filled = starts < stops
        count = np.count_nonzero(filled)
        if count == 0:
            return starts
        if count < len(starts):
            found = starts.copy()
            found[filled] = self._first_at_or_above(source, starts[filled], stops[filled], key, side_right)
            return found
        first, last = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
        column = self.table.table.schema.time
        if count > 1 and int((last - first).sum()) < source.file.searched_rows_min * count:
            found = np.empty(count, np.int64)
            run_kernels.search(source.read(column, first, last).values, first, last, np.full(count, key), int(side_right), found)
            return found
        name = source.stored_name(column)
        assert name is not None
        found = source.file.search(name, first, last, key, side_right)
        inspected = np.minimum(found, last - 1)  # the search ends in the block of this row
        source.touch(name, inspected, inspected + 1)
        return found

    # ------------------------------------------------------------------------------------------------ rows

    def page_verdicts(self, source: FileSource) -> Verdicts | None:
        """What value statistics say about each page of a file; None where they exclude none. For clean rows only."""
        if not (self.row_conjuncts or self._value_domains) or source.file.row_count < source.file.summarized_rows_min:
            return None
        found = self.value_verdicts(source)
        return found if self._excludes[source.index] else None

    def value_verdicts(self, source: FileSource) -> Verdicts:
        """What value statistics say about each page of a file, whatever they say."""
        if source.index not in self._verdicts:

            def of(name: str) -> Statistics | None:
                column = self.sources.column(name)
                return None if column.role in (Role.TAG, Role.ATTRIBUTE) else source.statistics(column, "page")

            pages = source.file.page_count
            parts = [verdicts(part, of, pages) for part in self.row_conjuncts]
            parts += [domain.verdicts(of(domain.column), pages) for domain in self._value_domains]
            found = worst(parts, pages)
            self._excludes[source.index] = bool((found == CANNOT_MATCH).any())
            self._verdicts[source.index] = found
        return self._verdicts[source.index]

    def clip(self, source: FileSource, starts: IntArray, stops: IntArray) -> tuple[IntArray, IntArray]:
        """Ranges of clean rows without empty ones, and without the pages that cannot match."""
        some = starts < stops
        if np.count_nonzero(some) < len(some):
            starts, stops = starts[some], stops[some]
        starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
        verdict = self.page_verdicts(source)
        if verdict is None:
            return starts, stops
        room = len(starts) + source.file.page_count
        out_starts, out_stops = np.empty(room, np.int64), np.empty(room, np.int64)
        count = ranges.clip(starts, stops, source.rows_per_page, verdict, out_starts, out_stops)
        return out_starts[:count], out_stops[:count]

    def adapt(self, examined: int, kept: int) -> None:
        """Hand out more rows at a time after the first, or where few are kept: a batch costs something for each column."""
        self._examined += examined
        self._kept += kept
        if self.batch_rows >= BATCH_ROWS:
            often = self._examined // max(self._kept, 1) if self.filters_rows else 1
            grown = BATCH_ROWS * min(1 << max(often, 1).bit_length() - 1, _GROWTH_MAX)
            self.batch_rows = max(grown, self.full_batch_rows)

    def filtered(self, rows: RowSet) -> RowSet:
        """The rows whose values satisfy every remaining conjunct, each reading only what the ones before left."""
        for part in self.row_conjuncts:
            rows = self._not_excluded(part, rows)
            if rows.count == 0:
                break
            held: dict[str, Vector] = {}
            compared = compared_columns(part)

            def read(name: str, rows: RowSet = rows, held: dict[str, Vector] = held, compared: frozenset[str] = compared) -> Vector:
                if name not in held:
                    held[name] = rows.read(name) if name in compared else rows.read_cells(name)
                return held[name]

            rows = rows.select(evaluate(part, read, rows.count))
        return rows

    def _not_excluded(self, part: Predicate, rows: RowSet) -> RowSet:
        """The rows that a quick look does not exclude, where a condition is on what takes long to compute."""
        match part:
            case Compare(column, "<" | "<=" | ">" | ">=" as op, literal) if column in self.sources.computed:
                if isinstance(rows, FileRows):
                    look = self.sources.computed[column].may_reach
                    mask = look(rows.source, rows.starts, rows.stops, float(literal), descending=op[0] == ">", nulls=False)
                    return rows.select(mask)
        return rows

    def row_sets(self) -> Iterator[RowSet]:
        """All selected rows: file by file in tag and time order, then the merged ones; value filters not yet applied."""
        for lane in self.lanes():
            yield from self.rows_of_lane(lane)
        self.completed = True

    def rows_of_lane(self, lane: Lane) -> Iterator[RowSet]:
        """All selected rows of one lane."""
        for held in self.ranges_of_lane(lane):
            yield from self.rows_of_runs(lane, *held)

    def ranges_of_lane(self, lane: Lane) -> Iterator[Ranges]:
        """The row ranges of one lane's wanted runs, counted as looked into; neighbours may come as one."""
        for held in self.run_groups(lane):
            self.count_runs(len(lane.device) if self._takes_all(lane) else int(np.count_nonzero(held.stops > held.starts)))
            yield held

    def rows_of_runs(self, lane: Lane, files: tuple[int, ...], starts: IntArray, stops: IntArray) -> Iterator[RowSet]:
        """Row sets of runs, given as ``Ranges`` in ascending order: merged runs are never parted, rows of a file may be.

        A row set may have no row, where tombstones hide all that it was made from.
        """
        if isinstance(lane, FileLane):
            source = self.sources[lane.files[0]]
            for first, last in slices(*self.clip(source, starts[:, 0], stops[:, 0]), lambda: self.batch_rows):
                yield FileRows(source, first, last)
            return
        ends = np.cumsum((stops - starts).sum(axis=1))
        at = 0
        while at < len(ends):
            before = ends[at - 1] if at else 0
            until = max(at + 1, int(np.searchsorted(ends, before + self.batch_rows, "right")))
            if ends[until - 1] > before:
                held = Ranges(files, starts[at:until], stops[at:until])
                rows = merge_rows(self.sources, held, deletes=not lane.certain)
                self.stats.rows_merged += rows.stored_rows - rows.count
                yield rows
            at = until


def slices(starts: IntArray, stops: IntArray, rows_max: Callable[[], int]) -> Iterator[tuple[IntArray, IntArray]]:
    """Cut ranges into consecutive groups of as many rows as ``rows_max`` says each time, long ranges at multiples of it."""
    ends = np.cumsum(stops - starts)
    if len(ends) and ends[-1] <= rows_max():
        yield starts, stops
        return
    at, row = 0, int(starts[0]) if len(starts) else 0
    while at < len(starts):
        size = rows_max()
        given = int(ends[at]) - (int(stops[at]) - row)
        if given + size < ends[at]:
            cut = (row + size) // size * size
            yield np.array([row]), np.array([cut])
            row = cut
            continue
        until = int(np.searchsorted(ends, given + size, "right"))  # the first range that does not fit
        first, last = starts[at : until + 1].copy(), stops[at : until + 1].copy()
        first[0] = row
        if until < len(starts):
            full = int(first[-1]) + given + size - max(int(ends[until] - (stops[until] - starts[until])), given)
            row = full // size * size
            if row > first[-1]:
                last[-1] = row
            else:  # it is of the next group
                first, last, row = first[:-1], last[:-1], int(starts[until])
        yield first, last
        at = until
