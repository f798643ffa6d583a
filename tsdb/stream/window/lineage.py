"""Which live table's own time a column is: then the watermark goes by all rows of the table, not by those that are left."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tsdb.plan.node import DuckQuery, Filter, Given, HashJoin, Plan, Project, TableScan
from tsdb.plan.schema import output_schema
from tsdb.sql.series.bounded import is_bounded
from tsdb.sql.tree import parse_query
from tsdb.stream.planner import LivePlan
from tsdb.stream.stage import is_live
from tsdb_format.errors import Error


def timed_by(plan: LivePlan, columns: Sequence[str], name: str) -> str | None:
    """The live table whose time column is the column ``name`` of a plan's ``columns``; None where that is another, or not known."""
    at = next((at for at, column in enumerate(columns) if column.lower() == name.lower()), None)
    if at is None:
        return None
    if isinstance(plan.above, DuckQuery):
        return _timed(plan.above, columns[at], plan)
    return _timed(plan.above, output_schema(plan.above, plan.snapshot)[at][0], plan)


def _timed(plan: Plan, column: str, live: LivePlan) -> str | None:
    match plan:
        case Given():
            return _timed(live.node, column, live)
        case TableScan(table=name):
            time_name = live.snapshot.definitions[name.lower()].schema.time.name
            return name if column == time_name and not is_bounded(name) else None
        case Filter(child=child):
            return _timed(child, column, live)
        case Project(child=child, outputs=outputs):
            return _timed(child, dict(outputs)[column], live)
        case HashJoin(left=left, right=right, outputs=outputs):
            side, below = next((side, below) for name, side, below in outputs if name == column)
            return _timed(left if side == "left" else right, below, live)
        case DuckQuery():
            found = _read_by(plan, column, live)
            return None if found is None else _timed(*found, live)
    return None


def _read_by(plan: DuckQuery, column: str, live: LivePlan) -> tuple[Plan, str] | None:
    """The live input of a text, and its column that is the output ``column`` as it is; None where that is not plain to see."""
    tree = parse_query(plan.sql)
    child = next((child for _, child in plan.inputs if is_live(child)), None)
    if not isinstance(tree, exp.Select) or child is None:
        return None
    tables = {table.name: table.alias_or_name for table in tree.find_all(exp.Table) if table.parent_select is tree}
    mine = next((tables.get(name) for name, each in plan.inputs if each is child), None)
    try:
        known = {name.lower(): name for name, _ in output_schema(child, live.snapshot)}
        others = {name.lower() for _, each in plan.inputs if each is not child for name, _ in output_schema(each, live.snapshot)}
    except Error:
        return None
    if mine is None or len(tables) < len(plan.inputs):
        return None
    for item in tree.expressions:
        source = item.unalias()
        star = isinstance(source, exp.Star) or (isinstance(source, exp.Column) and isinstance(source.this, exp.Star))
        if star and any(source.args.get(name) for name in ("except_", "replace", "rename")):
            return None
        if not star and item.output_name.lower() != column.lower():
            continue
        if not star and not isinstance(source, exp.Column):
            return None
        name = column.lower() if star else source.name.lower()
        own = source.table.lower() == mine.lower() if isinstance(source, exp.Column) and source.table else name not in others
        if own and name in known:
            return child, known[name]
    return None
