"""Planning a live query: its one live node, which a driver runs, and the plan above it, which each batch goes through.

The query is bound as any other, over the database and one more table for each: ``table(s)`` is ``s`` as it is now. The scan of any
other table is live.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tsdb.exec.context import ExecContext
from tsdb.exec.newest_version import newest_of
from tsdb.plan.node import DuckQuery, Filter, Given, HashJoin, Limit, Plan, Project, TableScan, TopK, children
from tsdb.plan.predicate import Constant, conjunction
from tsdb.plan.schema import output_schema
from tsdb.plan.transform import transform
from tsdb.sql.changing import changing_token
from tsdb.sql.series import expand
from tsdb.sql.series.bounded import bounded_name, is_bounded
from tsdb.storage.snapshot import LazyTables, Snapshot, TableSnapshot
from tsdb.stream.driver import Driver, ScanDriver
from tsdb.stream.join_plan import JoinDriver, latest_join, live_latest_join
from tsdb.stream.seek import Seek
from tsdb.stream.shape import refuse_text, refuse_two, refuse_waiting
from tsdb.stream.source import LiveSource
from tsdb.stream.stage import ARRIVING, Stage, stage_of
from tsdb_format.errors import InvalidInput

if TYPE_CHECKING:
    from tsdb.exec.stats import QueryStats
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.sql.planner import BoundQuery, Planner
    from tsdb.stream.feed import Commits


@dataclass(frozen=True, slots=True)
class LivePlan:
    """A bound live query: ``node`` is what a driver runs, ``above`` the plan over ``Given(ARRIVING)`` of its rows.

    ``columns`` are the shown names where ``above`` is native. ``snapshot`` has the bounded tables too. ``has_moment`` says that the
    query computes with the time at which it runs, or with chance.
    """

    node: Plan
    above: Plan
    columns: tuple[str, ...] | None
    snapshot: Snapshot
    has_moment: bool = False

    def stage(self, context: ExecContext) -> Stage:
        """What the rows go through. What it needs no more of the snapshot when it is made is not kept."""
        stage = stage_of(self.above, self.columns, context)
        if not stage.reads_on:
            context.snapshot = replace(context.snapshot, tables={}, pin=None)
        return stage


def plan_live(planner: Planner, parameters: Parameters, settings: Settings, snapshot: Snapshot) -> LivePlan:
    """Bind a planner's query over the tables of a snapshot. Raises InvalidInput for what cannot be followed, NotFound."""
    snapshot, query = with_bounded(snapshot), planner.query
    live = {"enable_join_late_materialization": False}
    if query.has_word("LATEST") or query.has_word("ASOF"):  # joins that DuckDB cannot run live
        live["enable_native_operators"] = True
    settings = settings.changed(live)
    bound = planner.bind(parameters, snapshot.definitions, settings, time.time_ns(), snapshot)
    plan = with_pushed(with_empty_scans(bound), settings, snapshot)
    node = live_node(plan)
    is_live = _reached(plan, node)
    refuse_waiting(plan, is_live)
    if isinstance(plan, DuckQuery):
        from tsdb.sql.tree import parse_query

        driving, *others = (scan.table.lower() for scan in live_scans(node))
        written = expand(query, snapshot.definitions)
        refuse_text(parse_query(written.text), snapshot.definitions, driving, frozenset(others), _aggregates())
    given = Given(ARRIVING, tuple(output_schema(node, snapshot)))
    return LivePlan(node, _above(plan, node, given, is_live), bound.columns, snapshot, changing_token(query.tokens) is not None)


def driver_of(plan: LivePlan, feed: Commits, stats: QueryStats, settings: Settings, resume: dict[str, Any] | None) -> Driver:
    """What runs the live node of a plan from its snapshot on, or from the position ``resume``."""
    node, snapshot = plan.node, plan.snapshot
    seek = Seek.of(settings.seek_to)
    match node:
        case TableScan(table=name):
            source = LiveSource(node, snapshot.tables[name].table, stats, settings.threads)
            return ScanDriver(source, feed, snapshot, seek, resume, settings.stream_batch_rows)
        case HashJoin():
            join = latest_join(node, snapshot, stats, settings, has_moment=plan.has_moment)
            return JoinDriver(join, feed, snapshot, seek, resume, settings.stream_batch_rows)
    raise AssertionError(f"nothing runs a live {type(node).__name__}")


def live_node(plan: Plan) -> Plan:
    """The one node of a plan that is live. Raises InvalidInput where there is none, or more than one."""
    scans = list(live_scans(plan))
    if not scans:
        raise InvalidInput("there is nothing to follow: a live query has one table that is not in table(…)")
    join = live_latest_join(plan)
    inside = set() if join is None else {id(scan) for scan in live_scans(join)}
    others = [scan for scan in scans if id(scan) not in inside]
    if len(others) > (join is None):
        refuse_two([scan.table for scan in scans])
    return scans[0] if join is None else join


def live_scans(plan: Plan) -> Iterator[TableScan]:
    """The scans of a plan that are not of bounded tables, each once."""
    seen: dict[int, TableScan] = {}

    def visit(node: Plan) -> None:
        if isinstance(node, TableScan) and not is_bounded(node.table):
            seen[id(node)] = node
        for child in children(node):
            visit(child)

    visit(plan)
    yield from seen.values()


def with_bounded(snapshot: Snapshot) -> Snapshot:
    """The snapshot with every table a second time, under its bounded name."""
    twins = {bounded_name(name): name for name in snapshot.tables}
    definitions = dict(snapshot.definitions)
    definitions |= {twin: replace(definitions[name.lower()], name=twin) for twin, name in twins.items()}

    def make(name: str) -> TableSnapshot:
        return newest_of(snapshot.tables[twins[name]]) if name in twins else snapshot.tables[name]

    return replace(snapshot, tables=LazyTables((*snapshot.tables, *twins), make), definitions=definitions)


def _reached(plan: Plan, node: Plan) -> Mapping[int, bool]:
    """Which nodes the rows of the live node reach, by identity."""
    found: dict[int, bool] = {}

    def visit(each: Plan) -> bool:
        below = [visit(child) for child in children(each)]
        found[id(each)] = each is node or any(below)
        return found[id(each)]

    visit(plan)
    return found


def _above(plan: Plan, node: Plan, given: Given, is_live: Mapping[int, bool]) -> Plan:
    """The plan with ``given`` for the live node. Joins on the way hold their bounded sides."""

    def above(child: Plan) -> Plan:
        return _above(child, node, given, is_live)

    match plan:
        case _ if plan is node:
            return given
        case Project(child=child) | Filter(child=child):
            return replace(plan, child=above(child))
        case HashJoin(left=left, right=right) if is_live[id(left)]:
            return replace(plan, left=above(left), build="right")
        case HashJoin(left=left, right=right):
            return replace(plan, right=above(right), build="left")
        case DuckQuery(inputs=inputs):
            return replace(plan, inputs=tuple((name, above(child) if is_live[id(child)] else child) for name, child in inputs))
    raise AssertionError(f"no live form of {type(plan).__name__}")


def with_empty_scans(bound: BoundQuery) -> Plan:
    """A query's plan with scans of no rows for LIMIT 0, which a condition that is never true became; as it is if it has a LIMIT."""

    def visit(node: Plan) -> Plan:
        if isinstance(node, Limit) and node.limit == 0 and isinstance(node.child, TableScan):
            return replace(node.child, predicate=Constant(False))
        return node

    return bound.plan if _has_limit(bound.naive) else transform(bound.plan, visit)


def _has_limit(plan: Plan) -> bool:
    return isinstance(plan, Limit | TopK) or any(map(_has_limit, children(plan)))


def with_pushed(plan: Plan, settings: Settings, snapshot: Snapshot) -> Plan:
    """A DuckQuery whose scans have the predicates that DuckDB's optimizer brings down to them, and keys of bounded subqueries."""
    if not isinstance(plan, DuckQuery) or any(True for keys in plan.keys for _ in live_scans(keys.child)):
        return plan
    from tsdb.exec.duck import DuckRun

    run = DuckRun(plan, lambda: ExecContext(snapshot, settings, settings.threads))
    try:
        pushed = run.pushed()
        run.find_keys()
        for number, found in run.found_keys.items():
            pushed[number] = [*pushed.get(number, ()), *found]
    finally:
        run.close()

    def visit(node: Plan) -> Plan:
        more = pushed.get(id(node))
        if not more or not isinstance(node, TableScan):
            return node
        return replace(node, predicate=conjunction(node.predicate, *more))

    made = transform(plan, visit)
    return replace(made, keys=()) if isinstance(made, DuckQuery) else made


def _aggregates() -> frozenset[str]:
    from tsdb.exec.fold import aggregates

    return aggregates()
