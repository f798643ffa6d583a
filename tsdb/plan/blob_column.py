"""Blobs of a plan: which table they are a column of, and whether the plan needs to know what is in one."""

from __future__ import annotations

from tsdb.plan.node import Filter, HashJoin, LastArrived, LastRow, Limit, Plan, Project, Sort, TableScan, Take, TopK, children
from tsdb.plan.predicate import compared_columns
from tsdb.plan.schema import output_schema
from tsdb.storage.snapshot import Snapshot
from tsdb_format.types import Kind


def table_of(plan: Plan, name: str) -> str | None:
    """The table that an output column is a column of; None where it is not, or not surely."""
    match plan:
        case TableScan(table=table):
            return table
        case TopK(child=child) | Sort(child=child) | Limit(child=child) | Filter(child=child) | LastRow(child=child):
            return table_of(child, name)
        case Project(child=child, outputs=outputs):
            return table_of(child, dict(outputs)[name])
        case Take(child=child, table=table, columns=columns):
            return table if name in dict(columns) else table_of(child, name)
        case HashJoin(outputs=outputs):
            _, side, column = next(each for each in outputs if each[0] == name)
            return table_of(plan.left if side == "left" else plan.right, column)
        case _:
            return None


def compares_blobs(plan: Plan, snapshot: Snapshot) -> bool:
    """Whether some operator needs to know what is in a blob."""
    below = children(plan)
    if any(compares_blobs(child, snapshot) for child in below):
        return True
    match plan:
        case TableScan(table=table, predicate=predicate):
            schema = snapshot.tables[table].table.schema.by_name
            names = frozenset() if predicate is None else compared_columns(predicate)
            return any(name in schema and schema[name].type.kind is Kind.BLOB for name in names)
        case TopK(keys=sort_keys) | Sort(keys=sort_keys):
            compared = {key.column for key in sort_keys}
        case Filter(predicate=predicate):
            compared = set(compared_columns(predicate))
        case Limit() | Project() | LastRow() | Take():
            return False
        case LastArrived(keys=keys):
            compared = set(keys)
        case HashJoin(keys=pairs, condition=()):
            compared = {name for pair in pairs for name in pair}
        case _:
            return True
    return any(kind.kind is Kind.BLOB for child in below for name, kind in output_schema(child, snapshot) if name in compared)
