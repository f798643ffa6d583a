"""Rows of a side that DuckDB computes from those of a live source, batch by batch: expressions, and conditions of any kind.

Each row keeps its commit, time and device: its text also selects the columns that tell them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tsdb.exec.batch import concat_batches
from tsdb.exec.context import ExecContext
from tsdb.exec.domains import NOTHING_KNOWN, Domains
from tsdb.exec.duck import run_duck_query
from tsdb.exec.selection import BATCH_ROWS
from tsdb.plan.node import DuckQuery, Given
from tsdb.plan.schema import output_schema
from tsdb.stream.arrivals import Arrivals, Places
from tsdb.stream.row_steps import RowSteps

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable
    from tsdb.catalog.table import Table
    from tsdb.exec.stats import ScanStats
    from tsdb.plan.node import TableScan
    from tsdb.settings import Settings
    from tsdb.storage.snapshot import Snapshot, TableSnapshot
    from tsdb.stream.source import Deletes, LiveSource

_ARRIVING = "arriving"


class ComputedRows:
    """A live source whose rows go through a ``DuckQuery`` over one input, of which ``arrival`` names commit, time and tags."""

    def __init__(
        self, source: LiveSource, query: DuckQuery, below: RowSteps, arrival: Sequence[str], settings: Settings, snapshot: Snapshot
    ) -> None:
        """``below`` is what stands between the source's rows and the query."""
        self._source = source
        self._below = below
        self._arrival = tuple(arrival)
        self._settings = settings
        name, child = query.inputs[0]
        self._given = Given(_ARRIVING, tuple(output_schema(child, snapshot)))
        self._query = replace(query, inputs=((name, self._given),))

    @property
    def scan(self) -> TableScan:
        """The scan below."""
        return self._source.scan

    @property
    def table(self) -> Table:
        """The table below."""
        return self._source.table

    @property
    def history_stats(self) -> ScanStats:
        """Counters of the rows that are there."""
        return self._source.history_stats

    @property
    def change_stats(self) -> ScanStats:
        """Counters of the rows that come."""
        return self._source.change_stats

    def snapshot_of(self, snapshot: Snapshot) -> TableSnapshot:
        """The table in a snapshot."""
        return self._source.snapshot_of(snapshot)

    def history(
        self,
        snapshot: Snapshot,
        bound: int,
        domains: Domains = NOTHING_KNOWN,
        rows_max: int = BATCH_ROWS,
        first_rank: int = 0,
        since: int | None = None,
    ) -> Iterator[Arrivals]:
        """What the rows that are there give, in their order."""
        return self._computed(self._source.history(snapshot, bound, domains, rows_max, first_rank, since), snapshot)

    def changes(self, snapshot: Snapshot, after: int, upto: int, rows_max: int = BATCH_ROWS) -> Iterator[Arrivals]:
        """What the rows of a window give, by commit."""
        return self._computed(self._source.changes(snapshot, after, upto, rows_max), snapshot)

    def deletes(self, snapshot: Snapshot, after: int, upto: int) -> Deletes:
        """The deletes of a window."""
        return self._source.deletes(snapshot, after, upto)

    def _computed(self, found: Iterator[Arrivals], snapshot: Snapshot) -> Iterator[Arrivals]:
        devices = self.snapshot_of(snapshot).devices
        for rows in found:
            made = self._of(self._below.rows(rows), snapshot, devices)
            if made is not None:
                yield made

    def _of(self, rows: Arrivals, snapshot: Snapshot, devices: DeviceTable) -> Arrivals | None:
        if not rows.count:
            return None
        context = ExecContext(snapshot, self._settings, given={_ARRIVING: [rows.batch]})
        batches = list(run_duck_query(self._query, context))
        if not batches:
            return None
        batch = concat_batches(batches)
        sequence, time, *tags = (batch.vectors[name] for name in self._arrival)
        names = [column.name for column in devices.schema.tags]
        device = devices.find(dict(zip(names, tags, strict=True)), batch.row_count)
        return Arrivals(batch, Places(sequence.values, device, time.values))
