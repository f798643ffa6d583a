"""Logical plan nodes: frozen values, one node a line when printed.

A plan is data. Rules (``tsdb.plan.rule``) map plans to plans, the executor (``tsdb.exec``) turns a plan into batches. Names are
those of EXPLAIN: a verb, then what it needs. Columns of one-table plans are the table's own names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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
class Distance:
    """A column ``name`` that a scan computes: DuckDB's ``function`` of the VECTOR ``column`` and of ``target``, which is as many
    little-endian 4-byte floats. FLOAT; NULL where the column is.
    """

    name: str
    function: str
    column: str
    target: bytes


@dataclass(frozen=True, slots=True)
class TableScan:
    """Read ``columns`` of the rows that satisfy ``predicate``. ``topk_id`` names the TopK whose filter the scan consults.

    ``distances`` may be among the columns, and rows may be sorted by them. ``row_id`` is the name of one more column, by which a
    ``Take`` above finds the rows again. Of blobs in ``sizes`` the size alone is right.
    """

    table: str
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    topk_id: int | None = None
    row_id: str | None = None
    sizes: frozenset[str] = frozenset()
    distances: tuple[Distance, ...] = ()


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
class LastArrived:
    """Of the child's rows that are equal in ``keys`` the one that arrived last; a row with a NULL there is nobody's.

    ``arrival`` are the columns that tell when a row arrived: sequence number, time, then tags. They are not given on. With ``asof``
    it is all rows, of which each left row gets the one with the nearest value there: the right side of a live ASOF JOIN.
    """

    child: Plan
    keys: tuple[str, ...]
    arrival: tuple[str, ...]
    asof: str | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """Columns of the child by name, in this order and under these output names; a name may repeat."""

    child: Plan
    outputs: tuple[tuple[str, str], ...]  # (output name, child column)


JoinKind: TypeAlias = Literal["inner", "left", "semi", "anti"]
Side: TypeAlias = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right`` between a column of the left side and one of the right; not true where either is NULL."""

    left: str
    op: str
    right: str


@dataclass(frozen=True, slots=True)
class HashJoin:
    """Pairs of rows of both sides whose ``keys`` (left column, right column) are equal and for which ``condition`` holds.

    NULL equals nothing, NaN itself, −0.0 is 0.0. A predicate among ``condition`` is on columns of the left side. ``left`` also
    gives left rows without a partner, with NULLs for the right side; ``semi`` and ``anti`` give the left rows that have one, or
    none. Rows of side ``build`` are kept in memory by key, the other's are streamed past them, in their order. ``outputs`` are
    (name, side, column of that side).
    """

    left: Plan
    right: Plan
    kind: JoinKind
    keys: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, Side, str], ...]
    condition: tuple[Comparison | Predicate, ...] = ()
    build: Side = "right"


@dataclass(frozen=True, slots=True)
class Take:
    """The child's rows with ``columns`` (name, column) of ``table``, read once for each distinct row that column ``key`` names.

    ``key`` is the ``row_id`` of a scan below, and none of the outputs; where it is NULL, an outer join found no row, so are they.
    """

    child: Plan
    table: str
    columns: tuple[tuple[str, str], ...]
    key: str


@dataclass(frozen=True, slots=True)
class Keys:
    """A subquery that is run first: the scan of the input ``target`` reads rows alone whose ``column`` has one of its values."""

    target: str
    column: str
    child: Plan


@dataclass(frozen=True, slots=True)
class DuckQuery:
    """SQL text that DuckDB runs over the children, each visible to it under its input name.

    ``catalog`` are the definitions of tables that DuckDB's own catalog shows, for queries of information_schema and the like.
    ``place`` says where something at an offset of ``sql`` stands in the statement, for people. ``columns`` are the names and types
    of what it gives, where these are known and ours; ``rows`` is about how many there are, where that is known. With ``looks_at``
    it gives those rows of its one input, whatever its columns, for which a condition on these columns is true. Where it gives rows
    that it computes one by one, ``unchanged`` are columns that are as they come in: (name, the input's name).
    """

    sql: str
    inputs: tuple[tuple[str, Plan], ...]
    parameters: tuple[object, ...] = ()
    catalog: tuple[str, ...] = ()
    keys: tuple[Keys, ...] = ()
    place: Callable[[int], str] | None = field(default=None, compare=False, repr=False)
    columns: tuple[tuple[str, ColumnType], ...] = ()
    rows: int | None = None
    looks_at: frozenset[str] | None = None
    unchanged: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The user's own data under the name that a query gives it: pandas, polars, Arrow, whatever DuckDB reads.

    Where the query is not understood it may not be ``certain`` that the name means the data.
    """

    name: str
    value: object
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Rows:
    """Literal rows, for SHOW and DESCRIBE: no table is read."""

    names: tuple[str, ...]
    types: tuple[ColumnType, ...]
    rows: tuple[tuple[object, ...], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that whoever runs the plan hands to it: of a live table as they come, or of a bounded one that was read before."""

    name: str
    columns: tuple[tuple[str, ColumnType], ...]


Plan: TypeAlias = (
    TableScan
    | TopK
    | Sort
    | Limit
    | Filter
    | Aggregate
    | LastRow
    | LastArrived
    | Project
    | HashJoin
    | Take
    | DuckQuery
    | Frame
    | Rows
    | Given
)


def children(plan: Plan) -> tuple[Plan, ...]:
    """The direct inputs of a node."""
    match plan:
        case TopK(child=child) | Sort(child=child) | Limit(child=child) | Filter(child=child) | Project(child=child):
            return (child,)
        case Aggregate(child=child) | LastRow(child=child) | LastArrived(child=child) | Take(child=child):
            return (child,)
        case HashJoin(left=left, right=right):
            return left, right
        case DuckQuery(inputs=inputs, keys=keys):
            return (*(child for _, child in inputs), *(each.child for each in keys))
        case TableScan() | Frame() | Rows() | Given():
            return ()
