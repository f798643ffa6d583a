"""A live source: one table as a live query reads it, first what is there, then what comes.

Rows carry the number of their commit, ``_sn``. The history is what a snapshot holds up to a bound, in the order of storage; what
comes is read in windows of commits, each from the snapshot that is newest by then. A window looks only at files that have rows of
its commits, which their entries in the manifest tell: what is old is not even opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from tsdb.exec.batch import Batch
from tsdb.exec.domains import NOTHING_KNOWN, Domains, wanted_files
from tsdb.exec.executor import computed_by
from tsdb.exec.key_domain import KeyFilter
from tsdb.exec.rows import RowSet
from tsdb.exec.selection import BATCH_ROWS, Selection
from tsdb.exec.stats import QueryStats, ScanStats
from tsdb.exec.unit_count import UnitCount
from tsdb.plan.node import TableScan
from tsdb.plan.predicate import Compare, Predicate, columns_of, conjunction
from tsdb.storage.tombstone import Tombstones
from tsdb.stream.arrivals import Arrivals, in_order_of_commit, joined
from tsdb.stream.ordered_rows import Blocks, OrderedRows, end_to_end, in_storage_order
from tsdb.stream.storage_order import Group, StorageOrder
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.parallel import ordered_map
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.types import Role

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.storage.snapshot import Snapshot, TableSnapshot
    from tsdb_format.vector import Vector

    #: Row sets with columns of theirs, end to end; rows of several row sets in order with theirs.
    _Read = tuple[list[RowSet], list[Vector]]
    _Ordered = tuple[OrderedRows, list[Vector]]

_EVERYONE = KeyFilter(())
#: Rows of a window that are brought into the order of their commits at once, unless one commit alone has more.
WINDOW_ROWS = 262_144
#: Rows that are read together: at least, so that handing them over pays, and at most, so that their memory is used again.
_CHUNK_ROWS_MIN, _CHUNK_ROWS_MAX = 8_192, 98_304
#: Shares of a group for each of several threads, about.
_CHUNKS_PER_THREAD = 4
#: Windows that old commits, which merged files hold together, are parted into at most: each looks at the numbers of all their rows.
_WINDOWS_MAX = 32


@dataclass(frozen=True, slots=True)
class Deletes:
    """The deletes of some commits. Where not ``complete``, others may have been carried out and forgotten meanwhile."""

    tombstones: Tombstones
    complete: bool


class LiveSource:
    """The rows of one scan over one table, in one thread at a time. Raises NotFound once the table is gone."""

    def __init__(self, scan: TableScan, table: Table, stats: QueryStats, threads: int = 1) -> None:
        """``table`` is the definition that ``scan`` was bound to; ``stats`` get a scan's counters for history and changes each."""
        self.scan = scan
        self.table = table
        self.threads = threads
        self._stats = stats
        self.history_stats = stats.scan(scan, scan.table, None)
        self.change_stats = stats.scan(self, scan.table, None)
        self._checked: Table = table

    def narrowed(self, scan: TableScan) -> LiveSource:
        """The same source by another scan of the table, with the same counters."""
        made = copy(self)
        made.scan = scan
        return made

    # ------------------------------------------------------------------------------------------------ history

    def history(
        self,
        snapshot: Snapshot,
        bound: int,
        domains: Domains = NOTHING_KNOWN,
        rows_max: int = BATCH_ROWS,
        first_rank: int = 0,
        since: int | None = None,
    ) -> Iterator[Arrivals]:
        """The rows of commits up to ``bound`` in the order of storage, of devices from ``first_rank`` in tag order on.

        Rows without a key of ``domains`` may be left out. ``since`` is the first time of rows, in the unit of the time column.
        """
        table = self.snapshot_of(snapshot)
        predicate = self.scan.predicate
        if since is not None:
            predicate = conjunction(predicate, Compare(table.table.schema.time.name, ">=", since))
        if snapshot.sequence > bound:
            predicate = conjunction(predicate, Compare(SEQUENCE_NAME, "<=", bound))
            table = _without_later(table, bound)
        table = wanted_files(table, predicate, domains, self.history_stats)
        computed = computed_by(self.scan, table)
        selection = Selection(table, predicate, self.history_stats, domains, computed)
        has_partner = KeyFilter(domains.columns)
        unlearned = Selection(table, predicate, ScanStats(self.scan.table), computed=computed) if domains else None
        for arrivals in self._found(selection, StorageOrder(selection).groups(first_rank), has_partner):
            self.history_stats.rows_returned += arrivals.count
            yield from arrivals.slices(rows_max)
        UnitCount(selection, unlearned).finish()

    def _found(self, selection: Selection, found: Iterable[Group], has_partner: KeyFilter = _EVERYONE) -> Iterator[Arrivals]:
        """The wanted rows of all groups, in the order of storage, some at a time."""
        stored = [name for name in self.scan.columns if selection.sources.column(name).role not in (Role.TAG, Role.ATTRIBUTE)]

        def read(parts: list[RowSet]) -> _Read:
            kept = []
            for rows in parts:
                selection.stats.add_rows(rows.stored_rows)
                kept.append(has_partner.filtered(selection.filtered(rows)))
            some = [rows for rows in kept if rows.count]
            return kept, [end_to_end([rows.read(name) for rows in some]) for name in stored] if some else []

        def by_threads(group: Group, *, first_alone: bool = False) -> Iterable[_Ordered]:
            chunks = _chunks(group.parts, self.threads)
            made = ordered_map(read, chunks, self.threads, first_alone=first_alone or len(chunks) == 1)
            return _ordered(group, list(made), selection)

        def alone(group: Group) -> Iterable[_Ordered]:
            return list(_ordered(group, [read(chunk) for chunk in _chunks(group.parts, 1)], selection))

        left = iter(found)
        for group in islice(left, 1):
            yield from self._arrivals(by_threads(group, first_alone=True), stored, selection)
        ahead = list(islice(left, 2))
        few = len(ahead) < 2  # a group's parts are read at once; of many groups each has a thread, which puts it in order too
        for each in map(by_threads, ahead) if few else ordered_map(alone, chain(ahead, left), self.threads):
            yield from self._arrivals(each, stored, selection)

    def _arrivals(self, found: Iterable[_Ordered], stored: list[str], selection: Selection) -> Iterator[Arrivals]:
        """A group's rows, of which ``stored`` columns were read; tags are made some at a time, which stay in the cache."""
        for rows, columns in found:
            held = dict(zip(stored, columns, strict=True))
            held |= {name: rows.tags(selection.sources.column(name)) for name in self.scan.columns if name not in held}
            yield Arrivals(Batch({name: held[name] for name in self.scan.columns}, rows.count), rows)

    # ------------------------------------------------------------------------------------------------ what comes

    def changes(self, snapshot: Snapshot, after: int, upto: int, rows_max: int = BATCH_ROWS) -> Iterator[Arrivals]:
        """The rows of commits ``after`` < number ≤ ``upto`` by commit, those of one in the order of storage."""
        whole = window(self.snapshot_of(snapshot), after)
        self._count_window(snapshot.tables[self.scan.table], whole)
        for first, last in _parted(whole, after, upto):
            table = _without_later(window(whole, first), last)
            commits = Compare(SEQUENCE_NAME, ">", first), Compare(SEQUENCE_NAME, "<=", last)
            wanted = conjunction(self.scan.predicate, *commits, *_times(table, first))
            selection = Selection(table, wanted, self.change_stats, computed=computed_by(self.scan, table))
            found: Iterator[Arrivals]
            if last == first + 1:
                alike = self._found(selection, StorageOrder(selection).groups())
                found = (replace(arrivals, places=arrivals.places.of_commit(last)) for arrivals in alike)
            else:
                parts = list(self._found(selection, [StorageOrder(selection).whole()]))
                found = iter([in_order_of_commit(joined(parts), table.devices)] if parts else [])
            seen: dict[int, int] = {}
            for arrivals in found:
                self._count_pages(selection, seen)
                self.change_stats.rows_returned += arrivals.count
                yield from arrivals.slices(rows_max)
            self._count_pages(selection, seen)

    def deletes(self, snapshot: Snapshot, after: int, upto: int) -> Deletes:
        """The deletes of commits ``after`` < number ≤ ``upto``, ascending by number."""
        table = self.snapshot_of(snapshot)
        number = table.tombstones.sequence
        found = table.tombstones.select((number > after) & (number <= upto))
        return Deletes(found, table.forgotten <= after)

    # ------------------------------------------------------------------------------------------------ the table

    def snapshot_of(self, snapshot: Snapshot) -> TableSnapshot:
        """The table in a snapshot, if it is still the one that was asked about and has the columns that are read."""
        now = snapshot.definitions.get(self.scan.table.lower())
        if now is None or now.id != self.table.id:
            raise NotFound(f"table {self.scan.table!r} was dropped or renamed while it was followed")
        if now is not self._checked:
            for name in self._names():
                if name not in now.schema or now.schema.column(name).id != self.table.schema.column(name).id:
                    raise InvalidInput(f"column {name!r} of {self.scan.table!r} was dropped or renamed while it was followed")
            self._checked = now
        return snapshot.tables[self.scan.table]

    def _names(self) -> set[str]:
        """The table's columns that are read."""
        read = {*self.scan.columns, *(() if self.scan.predicate is None else columns_of(self.scan.predicate))}
        read |= {distance.column for distance in self.scan.distances} | {column.name for column in self.table.schema.tags}
        return read & set(self.table.schema.by_name)

    def _count_window(self, whole: TableSnapshot, kept: TableSnapshot) -> None:
        counts = self.change_stats.counts
        counts["files_total"] += len(whole.files)
        counts["files_pruned_by_filter"] += len(whole.files) - len(kept.files)

    def _count_pages(self, selection: Selection, seen: dict[int, int]) -> None:
        """Count what was read since ``seen``, which are the pages of each file that were read before."""
        counts = self.change_stats.counts
        selection.sources.count_touched()
        for source in selection.sources.opened():
            pages, before = int(np.count_nonzero(source.page_seen)), seen.get(source.index, 0)
            counts["pages_read"] += pages - before
            counts["files_read"] += before == 0 < pages
            seen[source.index] = pages


def window(table: TableSnapshot, after: int) -> TableSnapshot:
    """The table with the files alone that hold rows of commits after ``after``, or earlier versions of such rows."""
    fresh = [file for file in table.files if file.max_sequence > after]
    if len(fresh) == len(table.files):
        return table
    if not table.table.options.overlays or not fresh:
        return replace(table, files=tuple(fresh))
    low, high = min(file.min_time for file in fresh), max(file.max_time for file in fresh)
    return replace(
        table,
        files=tuple(file for file in table.files if file.max_sequence > after or (file.min_time <= high and file.max_time >= low)),
    )


def _chunks(parts: list[RowSet], threads: int) -> list[list[RowSet]]:
    """Parts of a group that a thread reads one after another: handing over few rows takes longer than reading them."""
    if len(parts) <= 1:
        return [parts]
    ends = np.cumsum([rows.stored_rows for rows in parts])
    number = (ends - 1) // max(min(int(ends[-1]) // (_CHUNKS_PER_THREAD * threads), _CHUNK_ROWS_MAX), _CHUNK_ROWS_MIN)
    bounds = np.flatnonzero(np.append(True, number[1:] != number[:-1])).tolist()
    return [parts[begin:end] for begin, end in zip(bounds, [*bounds[1:], len(parts)], strict=True)]


def _ordered(group: Group, found: list[_Read], selection: Selection) -> Iterator[_Ordered]:
    """What was read of a group as rows in the order of storage, some at a time."""
    kept = [rows for each, _ in found for rows in each]
    some = [(lane, rows) for lane, rows in zip(group.lanes, kept, strict=True) if rows.count]
    lanes, parts = zip(*some, strict=True) if some else ((), ())
    every = in_storage_order(parts, lanes, group.runs, selection.table) if some else None
    selection.sources.count_touched()  # the fates of units are known at the end alone
    if every is None:
        return
    counts = [[rows.count for rows in each if rows.count] for each, _ in found]
    blocks = Blocks.of([each for each in counts if each], [vectors for _, vectors in found if vectors])
    for start in range(0, every.count, BATCH_ROWS):
        rows = every.slice(start, min(start + BATCH_ROWS, every.count))
        yield rows, rows.gathered(blocks)


def _times(table: TableSnapshot, after: int) -> tuple[Predicate, ...]:
    """Bounds of the times of rows of commits after ``after``: of an old file that they overlay no other part is read."""
    fresh = [file for file in table.files if file.max_sequence > after]
    if len(fresh) == len(table.files) or not fresh:
        return ()
    time = table.table.schema.time.name
    low, high = min(file.min_time for file in fresh), max(file.max_time for file in fresh)
    return Compare(time, ">=", low), Compare(time, "<=", high)


def _without_later(table: TableSnapshot, bound: int) -> TableSnapshot:
    """The table without the files of later commits. Where rows are overlaid they stay: what a later commit changed comes later."""
    if table.table.options.overlays:
        return table
    return replace(table, files=tuple(file for file in table.files if file.min_sequence <= bound))


def _parted(table: TableSnapshot, after: int, upto: int) -> Iterator[tuple[int, int]]:
    """Windows (first, last] with few rows each, as far as what is known of the files tells; one commit is one at least."""
    spans = [
        (max(file.min_sequence, after + 1), min(file.max_sequence, upto), file.row_count, file.max_sequence - file.min_sequence + 1)
        for file in table.files
        if file.max_sequence > after and file.min_sequence <= upto
    ]
    if not spans:
        return
    total = sum(rows for _, _, rows, _ in spans)
    most = max(WINDOW_ROWS, total // _WINDOWS_MAX)
    first = after
    while first < upto:
        last = upto
        while last > first + 1 and _rows_about(spans, first, last) > most:
            last = first + (last - first) // 2
        yield first, last
        first = last


def _rows_about(spans: list[tuple[int, int, int, int]], after: int, upto: int) -> float:
    """About how many rows the commits in a window have, were those of a file spread evenly over its commits."""
    return sum(rows * max(0, min(last, upto) - max(first, after + 1) + 1) / commits for first, last, rows, commits in spans)
