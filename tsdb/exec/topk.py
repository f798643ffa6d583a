"""The TopK scan: ORDER BY … LIMIT k over one table, reading what can still win and nothing else.

Before any read, statistics that name rows which surely exist give a first threshold. Then units are visited best bound first:
where the leading key is the time or a tag, units are device runs (from the per-device time index, in the order it keeps),
newest rows first; where it is a value, units are pages, by their page statistics. Every batch of rows tightens the shared
filter, every next unit asks it first, and the first unit that cannot qualify ends its queue. Only sort and filter columns are
read on the way.
"""

from __future__ import annotations

from tsdb.exec.batch import Batch
from tsdb.exec.candidates import Candidates, empty_batch
from tsdb.exec.intake import Intake
from tsdb.exec.lane import FileLane
from tsdb.exec.run_scan import RunScan
from tsdb.exec.runtime_filter import TopKFilter
from tsdb.exec.selection import Selection
from tsdb.plan.node import TopK
from tsdb_format.types import Role


def topk(node: TopK, names: tuple[str, ...], selection: Selection, topk_filter: TopKFilter, threads: int = 1) -> Batch:
    """The rows of one TopK over a table scan, in order, with the columns ``names``."""
    table = selection.table
    k = min(node.limit + node.offset, sum(file.row_count for file in table.files))
    if node.limit == 0 or k <= node.offset or selection.is_empty:
        return empty_batch(selection.sources, names)
    candidates = Candidates(table, node.keys, k, topk_filter, selection.sources)
    intake = Intake(selection, candidates, threads)
    if not topk_filter.enabled:
        intake.take(selection.row_sets())
    elif selection.sources.column(node.keys[0].column).role in (Role.TIME, Role.TAG, Role.ATTRIBUTE):
        RunScan(selection, candidates, intake).run()
    else:
        _page_scan(selection, candidates, intake)
    return candidates.batch(names, node.offset)


def _page_scan(selection: Selection, candidates: Candidates, intake: Intake) -> None:
    """Value-led order: pages best bound first, then the merged rows, whose stored bounds prove less."""
    from tsdb.exec.page_queue import PageQueue

    lanes = selection.lanes()
    queue = PageQueue(selection, candidates, [lane for lane in lanes if isinstance(lane, FileLane)])
    witness = queue.witness()
    if witness is not None:
        candidates.filter.offer(witness, "statistics")
    while (row_sets := queue.next(candidates.filter.threshold)) is not None:
        intake.take(row_sets, queue)
    for lane in lanes:
        if not isinstance(lane, FileLane):
            for held in selection.run_groups(lane):
                for rows in selection.rows_of_runs(lane, *held):
                    intake.take([rows], queue)
