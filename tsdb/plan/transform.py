"""Rebuilding plans from the leaves up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tsdb.plan.node import (
    Aggregate,
    DuckQuery,
    Filter,
    Frame,
    Given,
    HashJoin,
    LastArrived,
    LastRow,
    Limit,
    Plan,
    Project,
    Rows,
    Sort,
    TableScan,
    Take,
    TopK,
)  # fmt: skip


def transform(plan: Plan, visit: Callable[[Plan], Plan]) -> Plan:
    """The plan with ``visit`` applied to every node, inputs first; what does not change is kept as it is."""
    match plan:
        case (
            TopK(child=child)
            | Sort(child=child)
            | Limit(child=child)
            | Filter(child=child)
            | Project(child=child)
            | LastArrived(child=child)
            | Take(child=child)
        ):
            made = transform(child, visit)
            return visit(plan if made is child else replace(plan, child=made))
        case Aggregate(child=scan) | LastRow(child=scan):
            made = transform(scan, visit)
            return visit(replace(plan, child=made) if isinstance(made, TableScan) and made is not scan else plan)
        case HashJoin(left=left, right=right):
            both = transform(left, visit), transform(right, visit)
            return visit(plan if both[0] is left and both[1] is right else replace(plan, left=both[0], right=both[1]))
        case DuckQuery(inputs=inputs, keys=keys):
            children = tuple((name, transform(child, visit)) for name, child in inputs)
            found = tuple(replace(each, child=transform(each.child, visit)) for each in keys)
            same = all(new is old for (_, new), (_, old) in zip(children, inputs, strict=True))
            same = same and all(new.child is old.child for new, old in zip(found, keys, strict=True))
            return visit(plan if same else replace(plan, inputs=children, keys=found))
        case TableScan() | Frame() | Rows() | Given():
            return visit(plan)
