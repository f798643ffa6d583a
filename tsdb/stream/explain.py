"""What EXPLAIN says of a query that could be followed live: what its LATEST JOINs do about the history of their left sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsdb.sql.planner import Planner
from tsdb.sql.series import expand
from tsdb.stream.join_plan import eligibility, latest_joins
from tsdb.stream.key_domain_pushdown import described
from tsdb.stream.planner import plan_live
from tsdb.stream.row_steps import steps_of
from tsdb_format.errors import Error

if TYPE_CHECKING:
    from tsdb.plan.node import Plan
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.sql.statement import Query
    from tsdb.storage.snapshot import Snapshot


def join_remarks(query: Query, parameters: Parameters, settings: Settings, snapshot: Snapshot) -> list[str]:
    """One line for each LATEST JOIN, and ASOF JOIN where the pushdown is on, the topmost first."""
    latest = bool(expand(query, snapshot.definitions).latest_joins)
    if not latest and not settings.enable_streaming_join_key_domain_pushdown:
        return []
    try:
        plan = plan_live(Planner(query), parameters, settings, snapshot)
    except Error as error:
        if not latest:
            return []
        return [f"key_domain_pushdown: declined: the query cannot be followed live: {error}"]
    joins = list(latest_joins(plan.node))
    return [
        f"key_domain_pushdown: {_scanned(join.left)} with {_scanned(join.right)}: "
        + described(eligibility(join, plan.snapshot, settings, has_moment=plan.has_moment), settings)
        for join in joins
    ]


def _scanned(plan: Plan) -> str:
    """The table at the bottom of a side."""
    from tsdb.plan.node import TableScan, children

    bottom = steps_of(plan).bottom
    while not isinstance(bottom, TableScan) and children(bottom):
        bottom = steps_of(children(bottom)[0]).bottom
    return bottom.table if isinstance(bottom, TableScan) else type(bottom).__name__
