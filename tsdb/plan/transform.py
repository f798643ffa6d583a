"""Rebuilding plans from the leaves up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tsdb.plan.node import Aggregate, DuckQuery, Filter, Frame, LastRow, Limit, Plan, Project, Rows, Sort, TableScan, TopK


def transform(plan: Plan, visit: Callable[[Plan], Plan]) -> Plan:
    """The plan with ``visit`` applied to every node, inputs first; what does not change is kept as it is."""
    match plan:
        case TopK(child=child) | Sort(child=child) | Limit(child=child) | Filter(child=child) | Project(child=child):
            made = transform(child, visit)
            return visit(plan if made is child else replace(plan, child=made))
        case Aggregate(child=scan) | LastRow(child=scan):
            made = transform(scan, visit)
            return visit(replace(plan, child=made) if isinstance(made, TableScan) and made is not scan else plan)
        case DuckQuery(inputs=inputs):
            children = tuple((name, transform(child, visit)) for name, child in inputs)
            same = all(new is old for (_, new), (_, old) in zip(children, inputs, strict=True))
            return visit(plan if same else replace(plan, inputs=children))
        case TableScan() | Frame() | Rows():
            return visit(plan)
