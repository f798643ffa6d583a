"""The newest (or oldest) buckets of an Aggregate, where a limit asks for no more: time is read from that end until they are whole.

``ORDER BY bucket DESC LIMIT k`` over groups of time buckets is a TopK whose sort key the scan below can be held against: rows
before the k-th newest group cannot matter. How many groups a stretch of time has is not known before it is read, so windows of
growing length are, each once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tsdb.exec.aggregate.operator import Aggregation, Form
from tsdb.exec.batch import Batch
from tsdb.exec.sort import filtered_rows
from tsdb.plan.grouping import BucketKey, Calendar
from tsdb.plan.node import Aggregate, Filter, Limit, Plan, SortKey, TopK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tsdb.exec.selection import Selection
    from tsdb.storage.snapshot import TableSnapshot

#: Days of a calendar month, as far as the length of a first window needs them.
_MONTH_DAYS = 31
#: Functions whose result does not depend on the order in which windows are read; others go by time alone.
_ORDERLESS = frozenset({"count", "sum", "avg", "min", "max", "var_samp", "var_pop", "stddev_samp", "stddev_pop"})


class BucketEnd(NamedTuple):
    """``groups_wanted`` groups from the newest (oldest) bucket on, of those that ``having`` leaves."""

    aggregate: Aggregate
    having: Filter | None
    newest: bool
    groups_wanted: int

    def run(self, form: Form, selection: Selection, threads: int, *, statistics: bool) -> Batch:
        """The groups of the buckets that were read whole, in ascending order of the keys, ``having`` not applied."""
        units = selection.table.table.schema.time.type.units_per_second
        bucket = next(key.bucket for key in self.aggregate.keys if isinstance(key, BucketKey))
        width = bucket.months * _MONTH_DAYS * 86_400 * units if isinstance(bucket, Calendar) else bucket.width
        aggregation = Aggregation(form, selection, threads, statistics=statistics)
        return aggregation.run_from(self.newest, (self.groups_wanted + 1) * width, self._is_enough)

    def _is_enough(self, batch: Batch) -> bool:
        if self.having is None:
            return batch.row_count >= self.groups_wanted
        return sum(part.row_count for part in filtered_rows([batch], self.having.predicate)) >= self.groups_wanted


def bucket_end(plan: Plan, tables: Mapping[str, TableSnapshot]) -> BucketEnd | None:
    """What a plan wants of the Aggregate below it, if groups of its newest (oldest) buckets come first; None for other plans."""
    if not isinstance(plan, TopK | Limit) or plan.limit is None:
        return None
    having = plan.child if isinstance(plan.child, Filter) else None
    aggregate: Plan = plan.child if having is None else having.child
    if not isinstance(aggregate, Aggregate) or sum(isinstance(key, BucketKey) for key in aggregate.keys) != 1:
        return None
    leading = plan.keys[0] if isinstance(plan, TopK) else SortKey(aggregate.keys[0].name)
    bucket = next(key for key in aggregate.keys if isinstance(key, BucketKey))
    time = tables[aggregate.child.table].table.schema.time.name
    if leading.column != bucket.name or any(
        call.function not in _ORDERLESS and call.by not in (None, time) for call in aggregate.calls
    ):
        return None
    return BucketEnd(aggregate, having, leading.descending, plan.limit + plan.offset)
