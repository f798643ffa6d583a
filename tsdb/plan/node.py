"""Logical plan nodes: frozen values, one node a line when printed.

A plan is data. Rules (``tsdb.plan.rule``) map plans to plans, the executor (``tsdb.exec``) turns a plan into batches. Names are
those of EXPLAIN: a verb, then what it needs. Columns of one-table plans are the table's own names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tsdb.plan.grouping import Call, GroupKey
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
class Filter:
    """The child's rows that satisfy ``predicate``; above operators that compute, since a scan has a predicate of its own."""

    child: Plan
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group: the keys' values, then the calls', by their names. Groups come in ascending order of the keys.

    Without keys there is exactly one row, also over no rows.
    """

    child: TableScan
    keys: tuple[GroupKey, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class LastRow:
    """The newest ``limit`` rows (with ``oldest`` the oldest) of every distinct tuple of the tags ``keys``, newest (oldest) first.

    Groups come in ascending order of ``keys``. Of rows at the same time, those of the first device in tag order come first.
    """

    child: TableScan
    keys: tuple[str, ...]
    limit: int = 1
    oldest: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """Columns of the child by name, in this order and under these output names; a name may repeat."""

    child: Plan
    outputs: tuple[tuple[str, str], ...]  # (output name, child column)


@dataclass(frozen=True, slots=True)
class DuckQuery:
    """SQL text that DuckDB runs over the children, each visible to it under its input name.

    ``catalog`` are the definitions of tables that DuckDB's own catalog shows, for queries of information_schema and the like.
    ``place`` says where something at an offset of ``sql`` stands in the statement, for people.
    """

    sql: str
    inputs: tuple[tuple[str, Plan], ...]
    parameters: tuple[object, ...] = ()
    catalog: tuple[str, ...] = ()
    place: Callable[[int], str] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The user's own data under the name that a query gives it: pandas, polars, Arrow, whatever DuckDB reads."""

    name: str
    value: object


@dataclass(frozen=True, slots=True)
class Rows:
    """Literal rows, for SHOW and DESCRIBE: no table is read."""

    names: tuple[str, ...]
    types: tuple[ColumnType, ...]
    rows: tuple[tuple[object, ...], ...] = field(default=())


Plan: TypeAlias = TableScan | TopK | Sort | Limit | Filter | Aggregate | LastRow | Project | DuckQuery | Frame | Rows


def children(plan: Plan) -> tuple[Plan, ...]:
    """The direct inputs of a node."""
    match plan:
        case TopK(child=child) | Sort(child=child) | Limit(child=child) | Filter(child=child) | Project(child=child):
            return (child,)
        case Aggregate(child=child) | LastRow(child=child):
            return (child,)
        case DuckQuery(inputs=inputs):
            return tuple(child for _, child in inputs)
        case TableScan() | Frame() | Rows():
            return ()
