"""Where a column of a plan comes from."""

from __future__ import annotations

from tsdb.plan.node import Filter, HashJoin, Plan, Project, Sort, TableScan


def scanned_column(plan: Plan, name: str) -> tuple[TableScan, str] | None:
    """The scan that gives a column, and the column there, if the plan's rows without some of its values are those of the scan
    without them; None where rows are chosen by others on the way, or come from elsewhere.
    """
    match plan:
        case TableScan():
            return plan, name
        case Filter(child=child) | Sort(child=child):
            return scanned_column(child, name)
        case Project(child=child, outputs=outputs):
            return scanned_column(child, dict(outputs)[name])
        case HashJoin(kind=kind, outputs=outputs):
            side, column = next((side, column) for shown, side, column in outputs if shown == name)
            if side == "left":
                return scanned_column(plan.left, column)
            return scanned_column(plan.right, column) if kind == "inner" else None
    return None
