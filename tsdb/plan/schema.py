"""Names and types of what a plan of native nodes gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from tsdb.plan.grouping import ColumnKey
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
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME
from tsdb_format.types import FLOAT, INT64, ColumnType, Kind

if TYPE_CHECKING:
    from tsdb.catalog.table import Table

_DUCKDB_NAMES = {
    Kind.STRING: "VARCHAR", Kind.INT32: "INTEGER", Kind.INT64: "BIGINT", Kind.TIMESTAMP_US: "TIMESTAMP",
}  # fmt: skip


class Defined(Protocol):
    """What has a table's definition, such as its snapshot."""

    @property
    def table(self) -> Table:
        """The definition."""


class Catalog(Protocol):
    """Tables by name: a snapshot, or definitions alone."""

    @property
    def tables(self) -> Mapping[str, Defined]:
        """The tables."""


def output_schema(plan: Plan, snapshot: Catalog) -> list[tuple[str, ColumnType]]:
    """(name, type) of each column. The columns of a DuckQuery are known only to DuckDB."""
    match plan:
        case TableScan(table=name, columns=columns, row_id=row_id, distances=distances):
            schema = snapshot.tables[name].table.schema
            known = {SEQUENCE_NAME: SEQUENCE_COLUMN.type, **{each.name: FLOAT for each in distances}}
            made = [(c, known.get(c) or schema.column(c).type) for c in columns]
            return made if row_id is None else [*made, (row_id, INT64)]
        case Project(child=child, outputs=outputs):
            kinds = dict(output_schema(child, snapshot))
            return [(shown, kinds[name]) for shown, name in outputs]
        case TopK(child=child) | Sort(child=child) | Limit(child=child) | Filter(child=child) | LastRow(child=child):
            return output_schema(child, snapshot)
        case LastArrived(child=child, arrival=arrival):
            return [(name, kind) for name, kind in output_schema(child, snapshot) if name not in arrival]
        case Aggregate(child=child, keys=keys, calls=calls):
            schema = snapshot.tables[child.table].table.schema
            grouped = [(key.name, schema.column(key.column).type if isinstance(key, ColumnKey) else key.type) for key in keys]
            return [*grouped, *((call.name, call.type) for call in calls)]
        case HashJoin(left=left, right=right, outputs=outputs):
            sides = {"left": dict(output_schema(left, snapshot)), "right": dict(output_schema(right, snapshot))}
            return [(name, sides[side][column]) for name, side, column in outputs]
        case Take(child=child, table=table, columns=columns, key=key):
            early = [(name, kind) for name, kind in output_schema(child, snapshot) if name != key]
            late = output_schema(TableScan(table, tuple(column for _, column in columns)), snapshot)
            return [*early, *((name, kind) for (name, _), (_, kind) in zip(columns, late, strict=True))]
        case DuckQuery(inputs=((_, child),), looks_at=frozenset()):
            return output_schema(child, snapshot)
        case DuckQuery(columns=columns) if columns:
            return list(columns)
        case Given(columns=columns):
            return list(columns)
        case Rows(names=names, types=types):
            return list(zip(names, types, strict=True))
        case DuckQuery() | Frame():
            raise TypeError(f"a {type(plan).__name__}'s columns are known only when DuckDB has bound it")


def duckdb_name(kind: ColumnType) -> str:
    """A type's name as DuckDB shows it."""
    if kind.kind is Kind.VECTOR:
        return f"FLOAT[{kind.width}]"
    return _DUCKDB_NAMES.get(kind.kind, kind.kind.name)
