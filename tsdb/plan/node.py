"""Logical plan nodes: frozen values, one node a line when printed.

A plan is data. Rules (``tsdb.plan.rule``) map plans to plans, the executor (``tsdb.exec``) turns a plan into batches. Names are
those of EXPLAIN: a verb, then what it needs. Columns of one-table plans are the table's own names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tsdb.plan.predicate import Predicate
from tsdb_format.types import ColumnType


@dataclass(frozen=True, slots=True)
class SortKey:
    """One ORDER BY key on a column."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class TableScan:
    """Read ``columns`` of the rows that satisfy ``predicate``. ``topk_id`` names the TopK whose filter the scan consults."""

    table: str
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    topk_id: int | None = None


@dataclass(frozen=True, slots=True)
class TopK:
    """The first ``limit`` rows after ``offset`` by ``keys``; ties in the order of storage: tags ascending, time, sequence number.

    ``topk_id`` is set by the rule ``topk_runtime_filter`` and makes this TopK publish its threshold to the scan with the same id.
    """

    child: Plan
    keys: tuple[SortKey, ...]
    limit: int
    offset: int = 0
    topk_id: int | None = None


@dataclass(frozen=True, slots=True)
class Sort:
    """All rows in the total order of ``keys``, then of storage: tags ascending, time, sequence number."""

    child: Plan
    keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``limit`` rows (None: all) after ``offset``, in the child's order."""

    child: Plan
    limit: int | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Project:
    """Columns of the child by name, in this order and under these output names; a name may repeat."""

    child: Plan
    outputs: tuple[tuple[str, str], ...]  # (output name, child column)


@dataclass(frozen=True, slots=True)
class DuckQuery:
    """SQL text that DuckDB runs over the children, each visible to it under its input name."""

    sql: str
    inputs: tuple[tuple[str, Plan], ...]
    parameters: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Literal rows, for SHOW and DESCRIBE: no table is read."""

    names: tuple[str, ...]
    types: tuple[ColumnType, ...]
    rows: tuple[tuple[object, ...], ...] = field(default=())


Plan: TypeAlias = TableScan | TopK | Sort | Limit | Project | DuckQuery | Rows


def children(plan: Plan) -> tuple[Plan, ...]:
    """The direct inputs of a node."""
    match plan:
        case TopK(child=child) | Sort(child=child) | Limit(child=child) | Project(child=child):
            return (child,)
        case DuckQuery(inputs=inputs):
            return tuple(child for _, child in inputs)
        case TableScan() | Rows():
            return ()
