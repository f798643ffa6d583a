"""The live LATEST JOIN of a bound plan: which node it is, and the execution that it becomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tsdb.plan.node import Comparison, DuckQuery, HashJoin, LastArrived, Plan, TableScan, children
from tsdb.plan.schema import output_schema
from tsdb.sql.join_source import ARRIVAL_PREFIX
from tsdb.sql.latest_join import NO_LEFT_SIDE, NO_RIGHT_SIDE
from tsdb.sql.series.bounded import is_bounded
from tsdb.stream.computed_rows import ComputedRows
from tsdb.stream.driver import ScanDriver
from tsdb.stream.key_domain_pushdown import Eligible, eligible
from tsdb.stream.latest_join import LatestJoin, RightSide
from tsdb.stream.row_steps import RowSteps, last_arrived_below, steps_of
from tsdb.stream.source import LiveSource
from tsdb_format.errors import InvalidInput

if TYPE_CHECKING:
    from tsdb.exec.batch import Batch
    from tsdb.exec.stats import QueryStats
    from tsdb.settings import Settings
    from tsdb.storage.snapshot import Snapshot
    from tsdb.stream.feed import Commits
    from tsdb.stream.seek import Seek


def live_latest_join(plan: Plan) -> HashJoin | None:
    """The topmost LATEST JOIN of a plan whose left side is live; None where there is none."""
    if isinstance(plan, HashJoin) and is_latest(plan) and any(map(_is_live, _scans(plan.left))):
        return plan
    found = (live_latest_join(child) for child in children(plan))
    return next((join for join in found if join is not None), None)


def is_latest(join: HashJoin) -> bool:
    """Whether a join is a LATEST JOIN."""
    return last_arrived_below(join.right) is not None


def latest_joins(plan: Plan) -> Iterator[HashJoin]:
    """The LATEST JOINs of a plan, the topmost first."""
    if isinstance(plan, HashJoin) and is_latest(plan):
        yield plan
    for child in children(plan):
        yield from latest_joins(child)


def eligibility(join: HashJoin, snapshot: Snapshot, settings: Settings, *, has_moment: bool) -> Eligible | str:
    """Whether the left history of a LATEST JOIN may be read through the keys of its right side, or why not."""
    found = last_arrived_below(join.right)
    assert found is not None, "it is a LATEST JOIN"
    return eligible(join, found[0].child, snapshot, settings, has_moment=has_moment)


def latest_join(join: HashJoin, snapshot: Snapshot, stats: QueryStats, settings: Settings, *, has_moment: bool) -> LatestJoin:
    """One execution of a live LATEST JOIN. Raises InvalidInput where a side cannot be followed."""
    found = last_arrived_below(join.right)
    assert found is not None, "it is a LATEST JOIN"
    left_steps = steps_of(join.left)
    left: LiveSource | ComputedRows | LatestJoin
    match left_steps.bottom:
        case TableScan() as scan:
            wanted = left_steps.needed(_left_columns(join))
            left = LiveSource(replace(scan, columns=wanted), snapshot.tables[scan.table].table, stats, settings.threads)
        case DuckQuery(columns=tuple() as shown) as query:
            arrival = [name for name, _ in shown if name.startswith(ARRIVAL_PREFIX)]
            left = _computed(query, arrival, NO_LEFT_SIDE, snapshot, stats, settings)
        case HashJoin() as below if is_latest(below):
            left = latest_join(below, snapshot, stats, settings, has_moment=has_moment)
        case _:
            raise InvalidInput(NO_LEFT_SIDE)
    right = _right_side(join, *found, snapshot, stats, settings)
    shape = eligibility(join, snapshot, settings, has_moment=has_moment)
    return LatestJoin(join, dict(output_schema(join, snapshot)), (left, left_steps), right, shape, settings)


def _left_columns(join: HashJoin) -> list[str]:
    compared = [part.left for part in join.condition if isinstance(part, Comparison)]
    return [column for _, side, column in join.outputs if side == "left"] + [left for left, _ in join.keys] + compared


def _right_side(
    join: HashJoin, side: LastArrived, conditions: tuple[Any, ...], snapshot: Snapshot, stats: QueryStats, settings: Settings
) -> RightSide:
    steps = steps_of(side.child)
    if isinstance(steps.bottom, DuckQuery):
        return _computed_side(join, side, conditions, snapshot, stats, settings)
    steps = steps.without(side.arrival)
    scan = steps.bottom
    if not isinstance(scan, TableScan):
        raise InvalidInput(NO_RIGHT_SIDE)
    table = snapshot.tables[scan.table].table
    top = [name for name, _ in output_schema(side, snapshot)]
    scan = replace(scan, columns=steps.needed(top))
    history = LiveSource(scan, table, stats, settings.threads)
    later: RowSteps = steps
    if scan.predicate is not None and table.options.mode != "append":  # a row that it refuses is one that is not what it was
        later = steps.with_condition_first(scan.predicate)
        scan = replace(scan, columns=later.needed(top), predicate=None)
    source = history.narrowed(scan)
    if table.options.mode == "versioned_kv":  # of which the history has every version, too
        history, steps = source, later
    asof = next((part for part in join.condition if isinstance(part, Comparison) and part.right == side.asof), None)
    return RightSide(history, steps, None if is_bounded(scan.table) else source, later, conditions, side.keys, asof)


def _computed_side(
    join: HashJoin, side: LastArrived, conditions: tuple[Any, ...], snapshot: Snapshot, stats: QueryStats, settings: Settings
) -> RightSide:
    """A right side that DuckDB computes, row by row."""
    steps = steps_of(side.child)
    assert isinstance(steps.bottom, DuckQuery), "whoever asks has looked"
    arrival = [steps.origin(name) for name in side.arrival]
    rows = _computed(steps.bottom, arrival, NO_RIGHT_SIDE, snapshot, stats, settings)
    if rows.table.options.mode != "append":
        raise InvalidInput("a right side that computes is over a stream or table that keeps every row: its mode is 'append'")
    asof = next((part for part in join.condition if isinstance(part, Comparison) and part.right == side.asof), None)
    steps = steps.without(side.arrival)
    return RightSide(rows, steps, None if is_bounded(rows.scan.table) else rows, steps, conditions, side.keys, asof)


def _computed(
    query: DuckQuery, arrival: Sequence[str], refused: str, snapshot: Snapshot, stats: QueryStats, settings: Settings
) -> ComputedRows:
    """What DuckDB computes of a table's rows, row by row; raises InvalidInput, ``refused``, where it is of anything else."""
    below = steps_of(query.inputs[0][1]) if len(query.inputs) == 1 else None
    scan = None if below is None else below.bottom
    if below is None or not isinstance(scan, TableScan) or not arrival:
        raise InvalidInput(refused)
    table = snapshot.tables[scan.table].table
    wanted = below.needed([name for name, _ in output_schema(query.inputs[0][1], snapshot)])
    source = LiveSource(replace(scan, columns=wanted), table, stats, settings.threads)
    return ComputedRows(source, query, below, arrival, settings, snapshot)


class JoinDriver(ScanDriver):
    """Runs a live LATEST JOIN: as its left side's scan, once the right side is loaded."""

    def __init__(
        self, join: LatestJoin, feed: Commits, snapshot: Snapshot, seek: Seek, resume: dict[str, Any] | None, rows_max: int
    ) -> None:
        """See ``ScanDriver``."""
        super().__init__(join, feed, snapshot, seek, resume, rows_max)
        self._join = join
        if resume is not None and resume.get("right") != join.right_tables:
            raise InvalidInput("the resume token is not of these tables: one was dropped, or the query was another")

    @property
    def position(self) -> dict[str, Any]:
        """See ``Driver``."""
        return {**super().position, "right": self._join.right_tables}

    @property
    def counters(self) -> dict[str, Any]:
        """See ``Driver``; what became of the pushdown is said in words."""
        made = super().counters
        made["streaming_join_key_domain_pushdown"] = "; ".join(join.pushdown.text() for join in self._join.joins)
        made["StreamingJoinSnapshotReused"] = sum(join.reused for join in self._join.joins)
        for join in self._join.joins:
            for name, count in join.pushdown.counters(join.history_stats).items():
                made[name] = made.get(name, 0) + count
        return made

    def batches(self) -> Iterator[Batch]:
        """See ``Driver``."""
        at, start = self._at, self._start
        assert start is not None, "a driver runs once"
        self._join.prepare(start, at.after if at.bound is None else at.bound)
        yield from super().batches()


def _scans(plan: Plan) -> Iterator[TableScan]:
    if isinstance(plan, TableScan):
        yield plan
    for child in children(plan):
        yield from _scans(child)


def _is_live(scan: TableScan) -> bool:
    return not is_bounded(scan.table)
