"""About how much a plan gives, from what is known without reading: for choices between plans that mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsdb.plan.node import (
    Aggregate,
    DuckQuery,
    Filter,
    Frame,
    HashJoin,
    LastArrived,
    LastRow,
    Limit,
    Plan,
    Project,
    Sort,
    TableScan,
    Take,
    TopK,
    children,
)
from tsdb.plan.predicate import Compare, InSet, Member, Predicate, conjuncts
from tsdb.plan.schema import output_schema
from tsdb.storage.width import value_bytes

if TYPE_CHECKING:
    from tsdb.storage.snapshot import Snapshot

#: What a group of rows is guessed to hold where nothing says it, and the part of rows that a condition is guessed to leave.
_GROUP_ROWS = 100
_LEFT_BY_EQUALITY, _LEFT_BY_OTHERS = 0.1, 0.5
#: Rows of the caller's data that does not tell.
_FRAME_ROWS = 1_000
#: Bytes that a row in memory takes besides its values, to be found by its key.
_ENTRY_BYTES = 48
#: Bytes guessed for a value of which nothing is known.
_VALUE_BYTES = 16.0


def rows_about(plan: Plan, snapshot: Snapshot) -> int:
    """About how many rows a native plan gives; filters are not looked at."""
    match plan:
        case TableScan(table=name):
            return sum(file.row_count for file in snapshot.tables[name].files)
        case TopK(child=child, limit=int() as limit) | Limit(child=child, limit=int() as limit):
            return min(limit, rows_about(child, snapshot))
        case LastRow(child=child, limit=limit):
            return min(snapshot.tables[child.table].devices.count * limit, rows_about(child, snapshot))
        case Aggregate(child=child, keys=keys):
            return rows_about(child, snapshot) // _GROUP_ROWS + 1 if keys else 1
        case Limit(child=child) | Sort(child=child) | Filter(child=child) | Project(child=child) | Take(child=child):
            return rows_about(child, snapshot)
        case LastArrived(child=child):
            return rows_about(child, snapshot)
        case HashJoin(left=left, right=right):
            return max(rows_about(left, snapshot), rows_about(right, snapshot))
        case Frame(value=value):
            return _frame_rows(value)
        case DuckQuery(rows=int() as rows):
            return rows
        case DuckQuery(inputs=inputs) if inputs:
            return max(rows_about(child, snapshot) for _, child in inputs)
    return 1


def bytes_about(plan: Plan, snapshot: Snapshot) -> float:
    """About how many bytes it would take to hold a plan's rows, its conditions taken into account."""
    rows = float(rows_about(plan, snapshot))
    for part in _conditions(plan):
        equal = isinstance(part, InSet | Member) or (isinstance(part, Compare) and part.op == "=")
        rows *= _LEFT_BY_EQUALITY if equal else _LEFT_BY_OTHERS
    return rows * _row_bytes(plan, snapshot)


def held_bytes(plan: Plan, snapshot: Snapshot) -> float:
    """About how many bytes the joins of a plan hold in memory."""
    own = 0.0
    if isinstance(plan, HashJoin):
        side = plan.left if plan.build == "left" else plan.right
        own = bytes_about(side, snapshot) + rows_about(side, snapshot) * _ENTRY_BYTES
    return own + sum(held_bytes(child, snapshot) for child in children(plan))


def _conditions(plan: Plan) -> list[Predicate]:
    match plan:
        case TableScan(predicate=predicate):
            return list(conjuncts(predicate))
        case Filter(child=child, predicate=predicate):
            return [*conjuncts(predicate), *_conditions(child)]
        case Project(child=child) | Sort(child=child) | Take(child=child) | LastArrived(child=child):
            return _conditions(child)
        case HashJoin(left=left, right=right):
            return [*_conditions(left), *_conditions(right)]
    return []


def _row_bytes(plan: Plan, snapshot: Snapshot) -> float:
    if isinstance(plan, TableScan):
        computed = {each.name for each in plan.distances}
        stored = [name for name in plan.columns if name not in computed]
        return sum(value_bytes(snapshot.tables[plan.table], name) for name in stored) + 4 * len(computed) + 1
    try:
        return sum(float(kind.physical.itemsize * max(kind.width, 1)) for _, kind in output_schema(plan, snapshot)) + 1
    except TypeError:  # columns that only DuckDB knows
        return _VALUE_BYTES


def _frame_rows(value: object) -> int:
    for name in ("num_rows", "height"):
        found = getattr(value, name, None)
        if isinstance(found, int):
            return found
    return len(value) if hasattr(value, "__len__") and not isinstance(value, dict) else _FRAME_ROWS
