"""A LATEST JOIN as a source: left rows, first those that are there, then those that come, each with its last arrived right row.

Both sides have one bound, the newest commit when the query starts: the right side up to it is loaded into the join table, the left
history meets that table, and from then on both sides go on in the same windows of commits, in which a right row serves the left
rows of its own commit and of later ones. A left row gives at most one row, in its place, so whoever drives a scan drives a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tsdb.exec.batch import Batch
from tsdb.exec.domains import NOTHING_KNOWN, Domains
from tsdb.exec.evaluate import evaluate, normalize
from tsdb.exec.hash_join import take_or_null
from tsdb.exec.join_key import compare
from tsdb.exec.selection import BATCH_ROWS
from tsdb.plan.node import Comparison, HashJoin
from tsdb.plan.predicate import Compare, Predicate, conjunction
from tsdb.stream.arrivals import Arrivals, joined
from tsdb.stream.gate import BoundaryGate
from tsdb.stream.join_table import JoinTable, Timeline
from tsdb.stream.key_domain_pushdown import ORDERED, Eligible, Pushdown, pushdown
from tsdb.stream.right_snapshot import keep, kept
from tsdb.stream.row_steps import RowSteps
from tsdb.stream.source import LiveSource
from tsdb.stream.version_table import VersionTable
from tsdb_format.vector import IntArray, null_vector

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.exec.stats import ScanStats
    from tsdb.settings import Settings
    from tsdb.storage.snapshot import Snapshot, TableSnapshot
    from tsdb.storage.tombstone import Tombstones
    from tsdb.stream.computed_rows import ComputedRows
    from tsdb_format.types import ColumnType

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RightSide:
    """The right side: ``history`` gives what a snapshot shows, ``source`` what comes, of which ``later`` says what counts.

    ``source`` is None for a side that stays as it is. ``conditions`` are on rows once they are joined. Its rows are found by
    ``keys``, and in an ASOF JOIN by the comparison ``asof``.
    """

    history: LiveSource | ComputedRows
    steps: RowSteps
    source: LiveSource | ComputedRows | None
    later: RowSteps
    conditions: tuple[Predicate, ...]
    keys: tuple[str, ...]
    asof: Comparison | None = None


class LatestJoin:
    """One execution of a LATEST JOIN, in one thread. It has the methods of a live source of its left side."""

    def __init__(
        self,
        node: HashJoin,
        types: Mapping[str, ColumnType],
        left: tuple[LiveSource | ComputedRows | LatestJoin, RowSteps],
        right: RightSide,
        shape: Eligible | str,
        settings: Settings,
    ) -> None:
        """``types`` are those of the node's outputs."""
        self._node = node
        self._types = types
        self._left, self._steps = left
        self._right = right
        self._shape = shape
        self._settings = settings
        self._keys = tuple(pair for pair in node.keys if pair[1] in right.keys)
        self._table = _table_of(right, [key for _, key in self._keys], settings)
        self.gate = BoundaryGate()
        self.pushdown = Pushdown("no history was read")
        #: Whether the right side had been loaded by another query.
        self.reused = False
        self._conditions = [normalize(condition) for condition in right.conditions]
        self._compared = [Comparison(left, "=", other) for left, other in node.keys if (left, other) not in self._keys]
        self._compared += [part for part in node.condition if isinstance(part, Comparison) and part is not right.asof]

    # ------------------------------------------------------------------------------------------------ as a source

    @property
    def table(self) -> Table:
        """The left side's table."""
        return self._left.table

    @property
    def history_stats(self) -> ScanStats:
        """Counters of the left history."""
        return self._left.history_stats

    @property
    def change_stats(self) -> ScanStats:
        """Counters of the left rows that came."""
        return self._left.change_stats

    @property
    def joins(self) -> list[LatestJoin]:
        """This join, and those that its left side is made of."""
        return [self, *(self._left.joins if isinstance(self._left, LatestJoin) else [])]

    @property
    def right_tables(self) -> list[int]:
        """The numbers of the tables on the right of all joins."""
        return [join._right.history.table.id for join in self.joins]

    def snapshot_of(self, snapshot: Snapshot) -> TableSnapshot:
        """The left side's table. Raises as that does, for either side that is followed."""
        if self._right.source is not None:
            self._right.source.snapshot_of(snapshot)
        return self._left.snapshot_of(snapshot)

    def prepare(self, snapshot: Snapshot, bound: int) -> None:
        """Load the right side up to ``bound``."""
        if isinstance(self._left, LatestJoin):
            self._left.prepare(snapshot, bound)
        side, table = self._right.history, self._right.history.snapshot_of(snapshot)
        shared = self._settings.enable_streaming_join_snapshot_reuse and isinstance(self._table, JoinTable)
        shared = shared and isinstance(side, LiveSource)
        what = (bound, side.scan, self._right.steps, self._right.keys)
        found = kept(table, what) if shared else None
        if found is not None:
            self._table, self.reused = found, True
        else:
            for rows in side.history(snapshot, bound):
                self._table.load(*self._right.steps.marked(rows), table.devices)
            self._table.loaded(table.devices)
            if shared and isinstance(self._table, JoinTable):
                keep(table, what, self._table)
        self.gate.right_loaded(bound)

    def history(
        self,
        snapshot: Snapshot,
        bound: int,
        domains: Domains = NOTHING_KNOWN,
        rows_max: int = BATCH_ROWS,
        first_rank: int = 0,
        since: int | None = None,
    ) -> Iterator[Arrivals]:
        """Left history, from the time ``since`` on, with its right rows; ``domains`` are those of a join above."""
        self.gate.left_begins(bound)
        self.pushdown = pushdown(self._shape, self._table, snapshot, self._settings)
        if self.pushdown.is_on and not self.pushdown.keys:
            return
        found = self._all_match()
        domains = domains & self.pushdown.domains
        for rows in self._within_bound().history(snapshot, bound, domains, rows_max, first_rank, since):
            left = self._steps.rows(rows)
            yield from self._output(left, None if found else self._places(left, None))

    def changes(self, snapshot: Snapshot, after: int, upto: int, rows_max: int = BATCH_ROWS) -> Iterator[Arrivals]:
        """Left rows of a window with the right rows that were the last when they came."""
        self.gate.opened(after, upto)
        timeline = self._advance(snapshot, after, upto)
        for rows in self._left.changes(snapshot, after, upto, rows_max):
            left = self._steps.rows(rows)
            yield from self._output(left, self._places(left, timeline))
        if isinstance(self._table, JoinTable):
            self._table.settle(timeline)
        elif self._right.source is not None:
            self._table.settle()

    def _all_match(self) -> bool:
        """Whether every left row of the history has a partner, and nothing of that is looked at."""
        looked_at = any(side == "right" for _, side, _ in self._node.outputs) or self._conditions or self._compared
        return bool(self.pushdown.domains.devices) and not looked_at and self._right.asof is None

    def _within_bound(self) -> LiveSource | ComputedRows | LatestJoin:
        """The left side; of an ASOF JOIN without the history before every right value, where the switch is on and types agree."""
        asof, table, left = self._right.asof, self._table, self._left
        on = self._settings.enable_streaming_join_asof_bound and self.pushdown.is_on
        if not on or asof is None or isinstance(table, JoinTable) or not isinstance(left, LiveSource):
            return left
        column, least = self._steps.origin(asof.left), table.least_value()
        stored = left.table.schema.by_name.get(column)
        if least is None or stored is None or stored.type.kind not in ORDERED or stored.type != table.value_type:
            return left
        self.pushdown.bound = f"{column} {asof.op} {least}"
        bound = Compare(column, asof.op, least)
        return left.narrowed(replace(left.scan, predicate=conjunction(left.scan.predicate, bound)))

    # ------------------------------------------------------------------------------------------------ right rows

    def _advance(self, snapshot: Snapshot, after: int, upto: int) -> Timeline:
        """Take in what comes on the right."""
        source = self._right.source
        if source is None:
            return self._table.unchanged() if isinstance(self._table, JoinTable) else Timeline.none()
        deletes = source.deletes(snapshot, after, upto)
        devices = source.snapshot_of(snapshot).devices
        if not deletes.complete:
            self._forget(snapshot, upto, deletes.tombstones)
        parts = [rows for rows in source.changes(snapshot, after, upto) if rows.count]
        rows, present = self._right.later.marked(joined(parts)) if parts else (None, None)
        if rows is not None and present is not None and source.table.options.mode == "append":
            rows, present = rows.select(present), None
        if isinstance(self._table, JoinTable):
            return self._table.advance(rows, present, deletes.tombstones, devices)
        self._table.advance(rows, present, deletes.tombstones, devices)
        return Timeline.none()

    def _forget(self, snapshot: Snapshot, upto: int, known: Tombstones) -> None:
        """Let go of held rows that other deletes of a window took: which these were is not known any more, so they count first."""
        visible = [rows for rows in self._right.history.history(snapshot, upto) if rows.count]
        self._table.keep(joined(visible) if visible else None, known)

    # ------------------------------------------------------------------------------------------------ left rows

    def _places(self, left: Arrivals, timeline: Timeline | None) -> IntArray:
        """The place of each left row's right row in the table; without a timeline the table is as it is now."""
        keys = [left.batch.vectors[name] for name, _ in self._keys]
        if not isinstance(self._table, JoinTable):
            assert self._right.asof is not None, "only an ASOF JOIN has versions"
            value = left.batch.vectors[self._right.asof.left]
            return self._table.places(keys, value, None if timeline is None else left.sequence)
        if timeline is None:
            return self._table.rows_of(keys)
        return timeline.rows_at(self._table.numbers_of(keys), left.sequence)

    def _output(self, left: Arrivals, right: IntArray | None) -> Iterator[Arrivals]:
        """The joined rows of some left rows, whose right rows are at these places of the table; −1: none.

        Without places each has a right row, of which nothing is looked at.
        """
        if not left.count:
            return
        held, right = (Batch({}, 0), _NONE) if right is None else self._table.shown(right)
        if self._node.kind == "inner" and len(right):
            kept = self._matched(left, held, right)
            if kept is not None:
                if not len(kept):
                    return  # before anything is read of where they stand
                left, right = left.take(kept), right[kept]
        vectors = {}
        for name, side, column in self._node.outputs:
            if side == "left":
                vectors[name] = left.batch.vectors[column]
            else:
                there = held.row_count > 0
                vectors[name] = take_or_null(held.vectors[column], right) if there else null_vector(self._types[name], left.count)
        yield replace(left, batch=Batch(vectors, left.count))

    def _matched(self, left: Arrivals, held: Batch, right: IntArray) -> IntArray | None:
        """The left rows that have a right row which satisfies the conditions; None: all."""
        matched = right >= 0
        if matched.all() and not self._compared and not self._conditions:
            return None
        kept = np.flatnonzero(matched)
        for part in self._compared:
            if len(kept):
                other = held.vectors[part.right].take(right[kept])
                kept = kept[compare(left.batch.vectors[part.left].take(kept), part.op, other)]
        for condition in self._conditions:
            if len(kept):
                vectors, rows = held.vectors, right[kept]
                true = evaluate(condition, lambda name, vectors=vectors, rows=rows: vectors[name].take(rows), len(rows))  # type: ignore[misc]
                kept = kept[true]
        return None if len(kept) == left.count else kept


def _table_of(right: RightSide, keys: list[str], settings: Settings) -> JoinTable | VersionTable:
    mode, asof = right.history.table.options.mode, right.asof
    if asof is None:
        return JoinTable(keys, mode)
    return VersionTable(keys, asof.right, mode, inclusive=asof.op == ">=", keep=settings.keep_versions)
