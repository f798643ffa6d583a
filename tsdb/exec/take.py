"""Take: columns of rows that were found earlier, read once for each distinct row, in the order of storage.

A scan numbers the rows that it hands on (``RowIds``); operators pass the number on, drop it, repeat it or put it in another order.
Take collects their rows until there are enough of them, leaves out repetitions, reads what is left in ascending order, neighbours
together, and brings the values into the rows' order. What was read for the rows before is kept while it is small, so that a row
which many rows repeat is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.gather import BY_ADDRESS, gather
from tsdb.exec.hash_join import take_or_null
from tsdb.exec.rows import ROW_ID_BITS, FileRows, MergedRows, RowSet
from tsdb.exec.source import ScanSources
from tsdb.plan.node import Take
from tsdb.storage.width import outside_bytes, value_bytes
from tsdb_format.types import INT64
from tsdb_format.vector import IntArray, Vector, concat, null_vector

if TYPE_CHECKING:
    from tsdb.exec.source import FileSource
    from tsdb.exec.stats import TakeStats
    from tsdb.storage.snapshot import TableSnapshot

#: Rows that are taken together at most, and about how many bytes these may have.
TAKEN_ROWS_MAX = 65_536
TAKEN_BYTES_MAX = 64 * 2**20
#: Row ids from here on name rows that several files hold versions of: a row set by number, and a place in it.
_MERGED = np.int64(2**62)
_ORDINAL_BITS = 32


@dataclass
class RowIds:
    """Numbers of the rows that one execution of one scan hands on: addresses in ``table``, and places in merged row sets kept here.

    The scan may have left out some of the table's files.
    """

    table: TableSnapshot
    merged: dict[int, MergedRows] = field(default_factory=dict)
    #: Rows that were numbered.
    count: int = 0

    def __post_init__(self) -> None:
        self._places = {id(file): place for place, file in enumerate(self.table.files)}

    def of(self, rows: RowSet) -> Vector:
        """The ids of some rows."""
        self.count += rows.count
        if isinstance(rows, FileRows):
            return Vector(INT64, rows.positions() | np.int64(self.file(rows.source) << ROW_ID_BITS))
        number = len(self.merged)
        self.merged[number] = rows
        return Vector(INT64, (_MERGED | np.int64(number << _ORDINAL_BITS)) + np.arange(rows.count, dtype=np.int64))

    def file(self, source: FileSource) -> int:
        """The place of a scan's file among all of the table."""
        return self._places[id(source.open_file)]


class Taking:
    """One execution of a ``Take``."""

    def __init__(self, node: Take, table: TableSnapshot, ids: RowIds, stats: TakeStats, threads: int) -> None:
        self.node = node
        self._table = table
        self._ids = ids
        self._stats = stats
        self._threads = threads
        self._sources = ScanSources(table, stats)
        self._names = list(dict.fromkeys(column for _, column in node.columns))
        self._width = sum(value_bytes(table, name) for name in self._names)
        self._rows_max = int(max(min(TAKEN_ROWS_MAX, TAKEN_BYTES_MAX // max(self._width, 1)), 1))
        self._known = np.empty(0, np.int64)
        self._values: dict[str, Vector] = {}

    def finish(self) -> None:
        """Complete the counters."""
        self._sources.count_touched()
        self._stats.take_candidates = self._ids.count
        self._stats.take_bytes_naive = round(self._ids.count * self._width)
        self._stats.blob_bytes_skipped = max(outside_bytes(self._table, self._names) - self._stats.blob_bytes_read, 0)

    def run(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The rows with their late columns."""
        held: list[Batch] = []
        count = 0
        for batch in batches:
            held.append(batch)
            count += batch.row_count
            if count >= TAKEN_ROWS_MAX:
                yield from self._parts(concat_batches(held))
                held, count = [], 0
        if held:
            yield from self._parts(concat_batches(held))

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The rows in parts with so few distinct late rows that memory holds these."""
        at = 0
        while at < batch.row_count:
            ids = batch.vectors[self.node.key]
            some = slice(at, None)
            wanted = ids.values[some] if ids.validity is None else np.where(ids.validity[some], ids.values[some], -1)
            distinct, first, place = np.unique(wanted, return_index=True, return_inverse=True)
            stop = batch.row_count
            if len(distinct) > self._rows_max + 1:
                stop = at + int(np.partition(first, self._rows_max)[self._rows_max])  # the first row with a late row too many
                distinct, place = np.unique(wanted[: stop - at], return_inverse=True)
            yield self._with_late(batch.slice(at, stop), distinct, place)
            at = stop

    def _with_late(self, batch: Batch, distinct: IntArray, place: IntArray) -> Batch:
        none = int(len(distinct) > 0 and distinct[0] < 0)  # ids are ascending, and -1 stands for no row
        values = self._taken(distinct[none:])
        made = {name: vector for name, vector in batch.vectors.items() if name != self.node.key}
        rows = place.astype(np.int64) - none
        self._stats.take_rows += int(np.count_nonzero(rows >= 0)) if none else len(rows)
        for name, column in self.node.columns:
            vector = values[column]
            made[name] = take_or_null(vector, rows) if len(vector) else null_vector(vector.type, len(rows))
        return Batch(made, batch.row_count)

    def _taken(self, ids: IntArray) -> dict[str, Vector]:
        """The late values of distinct rows, by ascending ids."""
        if not len(ids):
            return {name: null_vector(self._sources.column(name).type, 0) for name in self._names}
        at = np.searchsorted(self._known, ids)
        known = np.zeros(len(ids), np.bool_)
        inside = at < len(self._known)
        known[inside] = self._known[at[inside]] == ids[inside]
        fresh = ids[~known]
        if not len(fresh):
            return {name: vector.take(at) for name, vector in self._values.items()}
        values = self._read(fresh)
        if known.any():
            order = np.empty(len(ids), np.int64)
            order[np.concatenate((np.flatnonzero(known), np.flatnonzero(~known)))] = np.arange(len(ids), dtype=np.int64)
            values = {n: concat([self._values[n].take(at[known]), vector]).take(order) for n, vector in values.items()}
        self._remember(ids, values, known)
        return values

    def _remember(self, ids: IntArray, values: dict[str, Vector], known: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Keep what was read, with what was before where both are few."""
        if not len(self._known) or known.all() or len(self._known) + len(ids) > self._rows_max:
            self._known, self._values = ids, values
            return
        older = ~np.isin(self._known, ids, assume_unique=True)
        joined = np.concatenate((self._known[older], ids))
        order = np.argsort(joined)
        self._values = {n: concat([self._values[n].take(older), vector]).take(order) for n, vector in values.items()}
        self._known = joined[order]

    def _read(self, ids: IntArray) -> dict[str, Vector]:
        merged = ids >= _MERGED
        place = ids - _MERGED
        origin = np.where(merged, place >> _ORDINAL_BITS, BY_ADDRESS)
        ordinal = np.where(merged, place & ((1 << _ORDINAL_BITS) - 1), 0)
        self._stats.take_rows_unique += len(ids)
        self._stats.take_ranges += 1 + int(np.count_nonzero(np.diff(ids) != 1))
        used = {number: self._own(self._ids.merged[number]) for number in np.unique(origin[merged]).tolist()}
        return gather(self._sources, used, ids, origin, ordinal, self._names, self._threads)

    def _own(self, rows: MergedRows) -> MergedRows:
        """The same rows, whose reading is counted here and not as the scan's."""
        sources = [self._sources[self._ids.file(source)] for source in rows.sources]
        return MergedRows(sources, rows.entry_source, rows.entry_row, rows.groups, rows.device(), rows.time(), rows.stored_rows)
