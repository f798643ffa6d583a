"""What became of every unit of a scan: the counters of EXPLAIN ANALYZE, computed from what was touched once somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tsdb.exec.kernels import ranges
from tsdb.exec.lane import lanes_of
from tsdb.exec.prune import CANNOT_MATCH
from tsdb.exec.stats import LEVELS
from tsdb_format.encoding import PAGES_PER_CHUNK
from tsdb_format.vector import BoolArray, IntArray

if TYPE_CHECKING:
    from tsdb.exec.selection import Selection
    from tsdb.exec.source import FileSource
    from tsdb.storage.snapshot import TableFile


class UnitCount:
    """Counts what became of every unit of a selection, level by level, once the scan is over."""

    def __init__(self, selection: Selection, unlearned: Selection | None = None) -> None:
        """``unlearned`` is the selection without what a join has taught it: what only that left out is counted apart."""
        self.selection = selection
        self.counts = selection.stats.counts
        self._unlearned = unlearned
        self._left_out = dict.fromkeys(LEVELS, 0)

    def finish(self) -> None:
        """Fill in the totals and fates of all levels."""
        self._count_all()
        if self._unlearned is not None:
            without = UnitCount(self._unlearned)
            without._count_all()
            for level in LEVELS:
                learned = max(self._left_out[level] - without._left_out[level], 0)
                self.counts[f"{level}_pruned_by_filter"] -= learned
                self.counts[f"{level}_pruned_by_key_domain"] += learned

    def _count_all(self) -> None:
        selection, counts = self.selection, self.counts
        selection.sources.count_touched()
        read = {source.index: source for source in selection.sources.opened()}
        rows_read = counts["rows_read"]
        for index, held in enumerate(selection.table.files):
            if not selection.wants_file(index) or selection.is_empty:
                self._count_unwanted(held)
                continue
            source = read.get(index)
            wanted, rows, devices = self._wanted(index)
            nothing = np.zeros(held.file.page_count, np.bool_)
            seen = nothing if source is None else source.page_seen.view(np.bool_)
            answered = nothing if source is None else self._answered(source, seen)
            self._count("pages", seen, answered, wanted)
            self._count("chunks", _any_by_chunk(seen), _any_by_chunk(answered), _any_by_chunk(wanted))
            for level in ("files", "resources"):
                self._count(level, *(np.array([pages.any()]) for pages in (seen, answered, wanted)))
            self._add("devices", len(devices), 0, int((~devices).sum()))
            if selection.runs_read is None:
                counts["devices_read"] += int((devices & _devices_of_pages(held, seen)).sum())
            self._add("rows", held.row_count, 0, held.row_count - rows)
        devices_read = counts["devices_read"] if selection.runs_read is None else selection.runs_read
        devices_read = max(devices_read - counts["devices_from_statistics"], 0)
        for level, done in (("rows", rows_read), ("devices", devices_read)):
            known = counts[f"{level}_total"] - counts[f"{level}_pruned_by_filter"] - counts[f"{level}_from_statistics"]
            counts[f"{level}_read"] = min(done, known)
            self._spare(level, known - counts[f"{level}_read"])

    def _answered(self, source: FileSource, seen: BoolArray) -> BoolArray:
        """Pages with rows that statistics answered for; such rows are counted here, and devices of which no row was read."""
        pages, runs = np.zeros(source.file.page_count, np.bool_), np.zeros(source.file.device_count, np.bool_)
        for starts, stops in source.answered:
            self.counts["rows_from_statistics"] += int((stops - starts).sum())
            pages |= _met(starts // source.rows_per_page, (stops - 1) // source.rows_per_page, len(pages))
            row_start = source.file.row_start
            runs |= _met(row_start.searchsorted(starts, "right") - 1, row_start.searchsorted(stops) - 1, len(runs))
        if runs.any():
            self.counts["devices_from_statistics"] += int((runs & ~_devices_of_pages(source.open_file, seen)).sum())
        return pages

    def _wanted(self, index: int) -> tuple[BoolArray, int, BoolArray]:
        """Pages of a file that the predicate alone would read, an upper bound of their rows, and the file's wanted devices."""
        selection = self.selection
        file = selection.table.files[index]
        resource = file.file.resource
        devices = (resource.max_time >= selection.time_low) & (resource.min_time <= selection.time_high)
        if len(selection.device_mask):
            devices &= selection.device_mask[file.device_number]
        source = selection.sources[index]
        time = source.statistics(selection.table.table.schema.time, "page")
        assert time is not None
        assert time.min is not None
        assert time.max is not None
        meets = (time.max >= selection.time_low) & (time.min <= selection.time_high)
        verdict = selection.page_verdicts(source)
        merged = lanes_of(selection.table)[index].merged
        if verdict is None:
            return *self._pages_of(source, devices, meets), devices
        clean = devices if merged is None else devices & ~merged
        pages, rows = self._pages_of(source, clean, meets & (verdict != CANNOT_MATCH))
        if merged is not None:  # stored values of merged rows prove nothing
            more_pages, more_rows = self._pages_of(source, devices & merged, meets)
            pages, rows = pages | more_pages, rows + more_rows
        return pages, rows, devices

    @staticmethod
    def _pages_of(source: FileSource, devices: BoolArray, pages: BoolArray) -> tuple[BoolArray, int]:
        """Those of some pages that hold rows of some of the file's devices, and how many rows."""
        chosen = np.flatnonzero(devices)
        starts, stops = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
        count = ranges.runs_of_devices(source.file.row_start, chosen, starts, stops)
        room = count + source.file.page_count
        pieces = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
        count = ranges.split_by_page(starts[:count], stops[:count], source.rows_per_page, *pieces)
        kept = pages[pieces[2][:count]]
        touched = np.zeros(source.file.page_count, np.bool_)
        touched[pieces[2][:count][kept]] = True
        return touched, int((pieces[1][:count] - pieces[0][:count])[kept].sum())

    def _count_unwanted(self, held: TableFile) -> None:
        file = held.file
        for level, units in (("resources", 1), ("files", 1), ("chunks", file.chunk_count), ("pages", file.page_count)):
            self._add(level, units, 0, units)
        self._add("devices", file.device_count, 0, file.device_count)
        self._add("rows", held.row_count, 0, held.row_count)

    def _count(self, level: str, seen: BoolArray, answered: BoolArray, wanted: BoolArray) -> None:
        """Units read, those answered from statistics, and those neither wanted nor read."""
        done = seen | answered
        self._add(level, len(seen), int(seen.sum()), int((~wanted & ~done).sum()))
        self.counts[f"{level}_from_statistics"] += int((answered & ~seen).sum())
        self._spare(level, int((wanted & ~done).sum()))

    def _add(self, level: str, total: int, read: int, filtered: int) -> None:
        self.counts[f"{level}_total"] += total
        self.counts[f"{level}_read"] += read
        self.counts[f"{level}_pruned_by_filter"] += filtered
        self._left_out[level] += filtered

    def _spare(self, level: str, units: int) -> None:
        """Units wanted at first and not read: the threshold's doing where there is one, else that of finer time bounds."""
        if self.selection.best_first:
            self.counts[f"{level}_pruned_by_topk"] += units
        elif self.selection.completed:
            self.counts[f"{level}_pruned_by_filter"] += units


def _met(first: IntArray, last: IntArray, count: int) -> BoolArray:
    """Of ``count`` units those that some of the ranges from ``first`` to ``last`` hold."""
    steps = np.zeros(count + 1, np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, last + 1, -1)
    found: BoolArray = np.cumsum(steps[:-1]) > 0
    return found


def _devices_of_pages(held: TableFile, seen: BoolArray) -> BoolArray:
    """File devices with a row in a page that was read."""
    before = np.concatenate(([0], np.cumsum(seen, dtype=np.int64)))
    row_start = held.file.row_start
    first, last = row_start[:-1] // held.file.rows_per_page, (row_start[1:] - 1) // held.file.rows_per_page
    found: BoolArray = before[last + 1] > before[first]
    return found


def _any_by_chunk(pages: BoolArray) -> BoolArray:
    return np.logical_or.reduceat(pages, np.arange(0, len(pages), PAGES_PER_CHUNK)) if len(pages) else pages
