"""The executor: one ``match`` from plan nodes to iterators of batches. Only stateful operators have modules of their own.

Those that simple queries do without are imported where they are first met: a fresh process answers sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tsdb.exec.batch import Batch
from tsdb.exec.conditions import Conditions
from tsdb.exec.domains import NOTHING_KNOWN, Domains, wanted_files
from tsdb.exec.rows import RowSet
from tsdb.exec.runtime_filter import TopKFilter
from tsdb.exec.selection import BATCH_ROWS, Selection
from tsdb.exec.sort import filtered_rows, sorted_rows
from tsdb.exec.source import NOTHING_COMPUTED, Computed
from tsdb.exec.stats import ScanStats
from tsdb.exec.topk import topk
from tsdb.exec.unit_count import UnitCount
from tsdb.plan.newest import newest_rows
from tsdb.plan.node import (
    Aggregate,
    DuckQuery,
    Filter,
    Given,
    HashJoin,
    LastArrived,
    LastRow,
    Limit,
    Plan,
    Project,
    Rows,
    Sort,
    SortKey,
    TableScan,
    Take,
    TopK,
)  # fmt: skip
from tsdb.plan.scanned import scanned_column
from tsdb.plan.schema import output_schema
from tsdb.plan.size import rows_about
from tsdb.quoting import quoted_name
from tsdb.storage.width import outside_bytes, value_bytes
from tsdb_format.blob import of_sizes
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.types import Kind, Role

if TYPE_CHECKING:
    from tsdb.exec.bucket_end import BucketEnd
    from tsdb.exec.context import ExecContext
    from tsdb.exec.key_domain import KeyFilter
    from tsdb.storage.snapshot import TableSnapshot
    from tsdb_format.vector import Vector


#: Selected rows up to which ORDER BY without LIMIT is sorted here.
_NATIVE_SORT_ROWS = 262_144


#: Rows of a join's streamed side for each key, from which a digest of many keys pays.
_DIGEST_RATIO = 4
#: Keys up to which devices are looked up one by one.
_POINTS_MAX = 1_024
#: About the bytes that a scan reads at a time: of blobs and vectors, and at most where it reads many rows.
_BATCH_BYTES = 16 * 2**20
#: Batches for each thread of DuckDB's, and the bytes of most values.
_FED_BATCHES_MIN, _VALUE_BYTES = 8, 8
#: Rows that a scan under a LIMIT reads at a time at least.
_BATCH_ROWS_MIN = 1_024


def execute(plan: Plan, context: ExecContext) -> Iterator[Batch]:
    """Run a plan; the batches are non-empty, and no batch at all means no rows."""
    for batch in _run(plan, context):
        if batch.row_count:
            yield batch


def _run(plan: Plan, context: ExecContext) -> Iterator[Batch]:
    match plan:
        case TableScan():
            return _scan(plan, context)
        case TopK(child=TableScan() as scan):
            return iter([_topk(plan, scan, context)])
        case LastRow(child=scan):
            return iter([_last_row(plan, scan, context)])
        case Sort(child=TableScan() as scan):
            return _sort(plan, scan, context)
        case Limit(limit=0):
            return iter(())
        case TopK(child=Aggregate() | Filter(child=Aggregate())) | Limit(child=Aggregate() | Filter(child=Aggregate())):
            return _of_groups(plan, context)
        case TopK(child=child, keys=keys, limit=limit, offset=offset):
            return sorted_rows(execute(child, context), keys, limit, offset)
        case Sort(child=child, keys=keys):
            return sorted_rows(execute(child, context), keys)
        case Filter(child=child, predicate=predicate):
            return filtered_rows(execute(child, context), predicate)
        case Aggregate(child=scan):
            return _chosen_blobs(iter([_aggregate(plan, context)]), scan, context)
        case Limit(child=TableScan() as scan, limit=int() as limit, offset=offset):
            return _limit(_scan(scan, context, limit + offset), limit, offset)
        case Limit(child=child, limit=limit, offset=offset):
            return _limit(execute(child, context), limit, offset)
        case Project(child=child, outputs=outputs):
            return (
                Batch({out: batch.vectors[name] for out, name in outputs}, batch.row_count) for batch in execute(child, context)
            )
        case HashJoin():
            return _join(plan, context)
        case LastArrived(child=child, keys=names, arrival=arrival, asof=None):
            from tsdb.exec.last_arrived import last_arrived

            return iter(last_arrived(execute(child, context), names, arrival))
        case Take():
            return _take(plan, context)
        case DuckQuery():
            from tsdb.exec.duck import run_duck_query

            return run_duck_query(plan, context)
        case Given(name=name):
            return iter(context.given[name])
        case Rows():
            from tsdb.exec.literal import literal_batch

            return iter([literal_batch(plan)])
        case _:
            raise AssertionError(f"no operator for {plan}")


def _selection(scan: TableScan, context: ExecContext) -> Selection:
    whole = context.snapshot.tables[scan.table]
    domains = context.domains.get(id(scan), NOTHING_KNOWN)
    stats = context.stats.scan(scan, scan.table, scan.topk_id)
    table = wanted_files(whole, scan.predicate, domains, stats)
    computed = computed_by(scan, table)
    conditions = context.kept.of(scan, Conditions, scan.predicate, table.table.schema, computed.keys())
    selection = Selection(table, conditions, stats, domains, computed)
    unlearned = Selection(table, conditions, ScanStats(scan.table), computed=computed) if domains else None
    unit_count = UnitCount(selection, unlearned)

    def finish() -> None:
        unit_count.finish()
        stats.blob_bytes_skipped = max(outside_bytes(whole, scan.columns) - stats.blob_bytes_read, 0)

    context.stats.when_asked(stats, finish)
    return selection


def computed_by(scan: TableScan, table: TableSnapshot) -> Computed:
    """The columns that a scan computes."""
    if not scan.distances:
        return NOTHING_COMPUTED
    from tsdb.exec.distance import distance_columns

    return distance_columns(scan.distances, table.table.schema)


def _scan(scan: TableScan, context: ExecContext, rows_wanted: int = BATCH_ROWS) -> Iterator[Batch]:
    selection = _selection(scan, context)
    selection.batch_rows = min(max(rows_wanted, _BATCH_ROWS_MIN), BATCH_ROWS)
    if context.feeds:
        selection.full_batch_rows = _fed_rows(scan, selection.table, context.threads)
    has_partner = _key_filter(scan, selection, context)

    def column(rows: RowSet, name: str) -> Vector:
        return of_sizes(rows.read_cells(name)) if name in scan.sizes else rows.read(name)

    def chosen(rows: RowSet) -> RowSet:
        selection.stats.add_rows(rows.stored_rows)
        examined, rows = rows.count, selection.filtered(rows)
        selection.adapt(examined, rows.count)
        return rows if has_partner is None else has_partner.filtered(rows)

    def read(rows: RowSet) -> tuple[Batch, RowSet]:
        return Batch({name: column(rows, name) for name in scan.columns} if rows.count else {}, rows.count), rows

    found = selection.row_sets()
    rows_max = _rows_at_once(scan, selection.table)
    if rows_max < BATCH_ROWS:
        parted = (part for rows in context.mapped(chosen, found) for part in rows.parts(rows_max))
        reading = context.mapped(read, parted)
    else:
        reading = context.mapped(lambda rows: read(chosen(rows)), found)
    for batch, rows in reading:
        selection.stats.rows_returned += batch.row_count
        if scan.row_id is not None and rows.count:  # in this order, whatever thread read them
            batch.vectors[scan.row_id] = context.row_ids[scan.row_id].of(rows)
        yield batch


def _fed_rows(scan: TableScan, table: TableSnapshot, threads: int) -> int:
    """Rows that are read at a time for DuckDB: more where that leaves batches enough for all threads, and is not much memory."""
    rows = 2 * BATCH_ROWS
    many = sum(file.row_count for file in table.files) >= _FED_BATCHES_MIN * threads * rows
    return rows if many and len(scan.columns) * rows * _VALUE_BYTES <= _BATCH_BYTES else BATCH_ROWS


def _rows_at_once(scan: TableScan, table: TableSnapshot) -> int:
    """Rows whose values are read together: of blobs and vectors so many as memory easily holds, also several times."""
    if table.gives_cells:
        return BATCH_ROWS
    fields = [table.table.schema.by_name.get(name) for name in scan.columns if name not in scan.sizes]
    large = [field.name for field in fields if field is not None and field.type.kind in (Kind.BLOB, Kind.VECTOR)]
    width = sum(value_bytes(table, name) for name in large)
    return int(max(min(_BATCH_BYTES // max(width, 1), BATCH_ROWS), 1))


def _key_filter(scan: TableScan, selection: Selection, context: ExecContext) -> KeyFilter | None:
    """What finds the rows with a partner before their other columns are read; None where that does not pay."""
    domains = context.domains.get(id(scan), NOTHING_KNOWN).columns
    if not domains or not context.settings.enable_join_late_materialization:
        return None
    from tsdb.exec.key_domain import KeyFilter

    columns = [selection.sources.column(name) for name in scan.columns]
    wide = any(column.role is Role.FIELD and (column.type.is_pooled or column.type.width) for column in columns)
    return KeyFilter(domains) if wide else None


def _join(node: HashJoin, context: ExecContext) -> Iterator[Batch]:
    """The side to be held first, then the other, of which rows without a partner need not be read."""
    from tsdb.exec.hash_join import Join

    build, probe = (node.left, node.right) if node.build == "left" else (node.right, node.left)
    join = Join(node, dict(output_schema(node, context.snapshot)), execute(build, context))
    if join.ignores_partnerless and context.settings.enable_join_key_filter:
        _teach(probe, join.key_values(), context)
    return join.run(lambda: execute(probe, context), context.mapped)


def _teach(probe: Plan, keys: Mapping[str, Vector], context: ExecContext) -> None:
    """Tell the scans of a streamed side which keys there are, by its columns."""
    keys_max = context.settings.join_key_filter_max_keys
    told: dict[int, tuple[TableScan, dict[str, Vector]]] = {}
    for name, values in keys.items():
        found = scanned_column(probe, name)
        if found is not None and (len(values) <= keys_max or rows_about(probe, context.snapshot) > _DIGEST_RATIO * len(values)):
            scan, column = found
            told.setdefault(id(scan), (scan, {}))[1].setdefault(column, values)
    for scan, columns in told.values():
        table = context.snapshot.tables[scan.table].table
        made = Domains.of(table, tuple(columns), tuple(columns.values()), exact_max=keys_max, points_max=_POINTS_MAX)
        context.domains[id(scan)] = context.domains.get(id(scan), NOTHING_KNOWN) & made


def _take(node: Take, context: ExecContext) -> Iterator[Batch]:
    """The late columns of the rows that are left, by the row ids that a scan below gives them."""
    from tsdb.exec.take import RowIds, Taking

    ids = RowIds(context.snapshot.tables[node.table])
    stats = context.stats.take(node, node.table)
    taking = Taking(node, context.snapshot.tables[node.table], ids, stats, context.threads)
    context.stats.when_asked(stats, taking.finish)
    return taking.run(execute(node.child, replace(context, row_ids={**context.row_ids, node.key: ids})))


def _topk(node: TopK, scan: TableScan, context: ExecContext) -> Batch:
    selection = _selection(scan, context)
    marked = node.topk_id is not None and node.topk_id == scan.topk_id
    topk_filter = TopKFilter(enabled=marked)
    batch = topk(node, scan.columns, selection, topk_filter, context.threads)
    selection.stats.topk_first_threshold = topk_filter.first_source
    selection.stats.topk_threshold_updates = topk_filter.generation
    selection.stats.rows_returned += batch.row_count
    return batch


def _last_row(node: LastRow, scan: TableScan, context: ExecContext) -> Batch:
    from tsdb.exec.last_row import last_row

    selection = _selection(scan, context)
    selection.best_first = context.settings.enable_topk_runtime_filter
    batch = last_row(node, scan.columns, selection, context.threads, context.settings.last_cache_bytes)
    selection.stats.rows_returned += batch.row_count
    return batch


def _aggregate(node: Aggregate, context: ExecContext, end: BucketEnd | None = None) -> Batch:
    """All groups, or those of one end of time that are wanted."""
    from tsdb.exec.aggregate.operator import Aggregation, Form

    statistics = context.settings.enable_statistics_aggregation
    schema = context.snapshot.tables[node.child.table].table.schema
    newest = newest_rows(node, schema.time.name) if statistics and end is None else None
    if newest is not None:
        scan = newest.rows.child
        rows = _last_row(newest.rows, scan, context)
        if not rows.row_count or all(rows.vectors[column].valid().all() for column in newest.valued):
            context.stats.show(scan, node.child)
            return Batch({name: rows.vectors[column] for name, column in newest.outputs}, rows.row_count)
    selection = _selection(node.child, context)
    selection.best_first = end is not None
    form = context.kept.of(node, Form, node, schema)
    if end is None:
        batch = Aggregation(form, selection, context.threads, statistics=statistics).run()
    else:
        batch = end.run(form, selection, context.threads, statistics=statistics)
    selection.stats.rows_returned += batch.row_count
    return batch


def _of_groups(plan: TopK | Limit, context: ExecContext) -> Iterator[Batch]:
    """The first groups in an order; where that is of time, no more of it is read than they take."""
    from tsdb.exec.bucket_end import bucket_end

    end = bucket_end(plan, context.snapshot.tables) if context.settings.enable_topk_runtime_filter else None
    having = plan.child if isinstance(plan.child, Filter) else None
    node = plan.child if having is None else having.child
    assert isinstance(node, Aggregate)
    groups = iter([_aggregate(node if end is None else end.aggregate, context, end)])
    groups = groups if having is None else filtered_rows(groups, having.predicate)
    if isinstance(plan, TopK):
        groups = sorted_rows(groups, plan.keys, plan.limit, plan.offset)
    else:
        groups = _limit(groups, plan.limit, plan.offset)
    return _chosen_blobs(groups, node.child, context)


def _chosen_blobs(groups: Iterator[Batch], scan: TableScan, context: ExecContext) -> Iterator[Batch]:
    """Groups with the blobs of the rows that they have chosen."""
    table = context.snapshot.tables[scan.table]
    if not any(field.type.kind is Kind.BLOB for field in table.table.schema.fields):
        return groups
    from tsdb.exec.late_payload import with_payloads

    return with_payloads(groups, table, context.stats.of(scan))


def _sort(node: Sort, scan: TableScan, context: ExecContext) -> Iterator[Batch]:
    """All rows in the total order; many rows are DuckDB's to sort, which spills what memory cannot hold."""
    table = context.snapshot.tables[scan.table]
    if _rows_at_most(scan, table) <= _NATIVE_SORT_ROWS:
        yield _topk(TopK(scan, node.keys, limit=2**62), scan, context)
        return
    from tsdb.exec.duck import run_duck_query

    schema = table.table.schema
    ties = [SortKey(name) for name in (*(tag.name for tag in schema.tags), schema.time.name, SEQUENCE_NAME)]
    keys = [*node.keys, *(tie for tie in ties if tie.column not in {key.column for key in node.keys})]
    inner = replace(scan, columns=tuple(dict.fromkeys((*scan.columns, *(key.column for key in keys)))))
    columns = ", ".join(quoted_name(name) for name in scan.columns)
    order = ", ".join(
        f"{quoted_name(key.column)}{' DESC' if key.descending else ''} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in keys
    )
    query = DuckQuery(f"SELECT {columns} FROM unsorted ORDER BY {order}", (("unsorted", inner),))
    yield from run_duck_query(query, context)
    context.stats.show(inner, scan)


def _rows_at_most(scan: TableScan, table: TableSnapshot) -> int:
    """Rows that the predicate's devices and times leave of a table; what its values will leave out is not known yet."""
    stored = sum(file.row_count for file in table.files)
    if scan.predicate is None or stored <= _NATIVE_SORT_ROWS:
        return stored
    selection = Selection(table, scan.predicate, ScanStats(scan.table), computed=computed_by(scan, table))
    return sum(int((held.stops - held.starts).sum()) for lane in selection.lanes() for held in selection.run_groups(lane))


def _limit(batches: Iterator[Batch], limit: int | None, offset: int) -> Iterator[Batch]:
    """Rows [offset, offset + limit) of the stream; nothing more is pulled once they are out."""
    at = 0
    for batch in batches:
        start = max(offset - at, 0)
        stop = batch.row_count if limit is None else min(batch.row_count, offset + limit - at)
        at += batch.row_count
        if start < stop:
            yield batch.slice(start, stop)
        if limit is not None and at >= offset + limit:
            return
