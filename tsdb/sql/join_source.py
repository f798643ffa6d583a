"""The sides of a join: what stands in FROM under one name, with the columns that are known of it.

That is a table, a SELECT of plain columns over one table, in parentheses or named by WITH, the caller's data, or anything else that
DuckDB has rows for (``tsdb.sql.join_query``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import DuckQuery, Filter, Frame, HashJoin, LastArrived, Plan, Project, Side, TableScan
from tsdb.plan.predicate import And, Predicate, columns_of, conjunction
from tsdb.plan.transform import transform
from tsdb.quoting import quoted_name
from tsdb.sql.environment import Environment
from tsdb.sql.last_row import bind_last_row
from tsdb.sql.literal import only
from tsdb.sql.select import bind_select, plain_table, refer
from tsdb.sql.statement import Query
from tsdb.sql.tree import definition_of
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME, Column
from tsdb_format.types import Role, parse_type

#: Columns by which the right side of a LATEST JOIN tells when its rows arrived, in front of their number.
ARRIVAL_PREFIX = "__arrival_"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from if each is one of a table's: a plan that picks them, and the table's columns by the names shown."""

    table: Table
    rows: Plan
    columns: Mapping[str, str]

    def last_arrived(self, names: tuple[str, ...], keys: tuple[str, ...], asof: str | None = None) -> LastArrived:
        """The last arrived of the rows that are equal in ``keys``, with the columns of these names, or all for an ASOF JOIN."""
        schema, arrival = self.table.schema, arrival_columns(self.table)
        shown = tuple((name, self.columns[name]) for name in dict.fromkeys((*names, *keys)))
        needed = tuple(dict.fromkeys((*(column.name for column in schema), SEQUENCE_NAME)))

        def with_arrival(node: Plan) -> Plan:
            return replace(node, columns=needed) if isinstance(node, TableScan) else node

        return LastArrived(Project(transform(self.rows, with_arrival), (*shown, *arrival.items())), keys, tuple(arrival), asof)


class Arriving(Protocol):
    """Rows of which it is known when they arrived."""

    def last_arrived(self, names: tuple[str, ...], keys: tuple[str, ...], asof: str | None = None) -> LastArrived:
        """The last arrived of those that are equal in ``keys``, or all for an ASOF JOIN."""


def arrival_columns(table: Table) -> dict[str, str]:
    """The columns of a table that tell when a row arrived, by the names under which they go on."""
    told_by = (SEQUENCE_NAME, table.schema.time.name, *(tag.name for tag in table.schema.tags))
    return {f"{ARRIVAL_PREFIX}{number}": column for number, column in enumerate(told_by)}


@dataclass
class JoinSource:
    """One side. ``columns`` are those that ``*`` shows, in order; ``complete`` says that these are all.

    ``nullable`` is set where an outer join fills its columns, ``hidden`` where a semi or anti join shows none of them, ``last_of``
    where it is the right side of a LATEST JOIN: the columns of which it gives the last arrived row of each value; ``asof`` where it
    is that of a live ASOF JOIN: the column that is compared.
    ``with_conditions`` makes the same of a query that has conditions, given as text, where that may read less than a filter above.
    """

    alias: str
    columns: tuple[Column, ...]
    make: Callable[[tuple[str, ...]], Plan]
    complete: bool = True
    extra: tuple[Column, ...] = ()
    nullable: bool = False
    hidden: bool = False
    origin: Arriving | None = None
    last_of: tuple[str, ...] = ()
    asof: str | None = None
    with_conditions: Callable[[Sequence[Query]], JoinSource | None] | None = None
    predicates: list[Predicate] = field(default_factory=list)
    #: The text of each predicate; None where it is not known.
    texts: list[Query | None] = field(default_factory=list)
    #: Of the rows only those count whose column here has a partner in the plan's column.
    members: list[tuple[str, Plan, str]] = field(default_factory=list)
    used: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._columns = {column.name.lower(): column for column in (*self.columns, *self.extra)}

    def column(self, name: str) -> Column | None:
        """The column of that name, in any case."""
        return self._columns.get(name.lower())

    def plan(self) -> Plan:
        """The rows that satisfy the conditions, with the columns that were used, and those that ``members`` look at."""
        self.used.update(dict.fromkeys(column for column, _, _ in self.members))
        made = self._filtered()
        for column, members, key in self.members:
            outputs: tuple[tuple[str, Side, str], ...] = tuple((name, "left", name) for name in self.used)
            made = HashJoin(made, members, "semi", ((column, key),), outputs)
        return made

    def _filtered(self) -> Plan:
        if not self.predicates:
            return self._rows(tuple(self.used))
        texts = [text for text in self.texts if text is not None]
        if self.with_conditions is not None and len(texts) == len(self.predicates):
            narrower = self.with_conditions(texts)
            if narrower is not None:
                return narrower.make(tuple(self.used))
        condition = And(tuple(self.predicates))
        made = self._rows(tuple(dict.fromkeys((*self.used, *sorted(columns_of(condition))))))
        if isinstance(made, TableScan):
            return replace(made, columns=tuple(self.used), predicate=conjunction(made.predicate, condition))
        return Filter(made, condition)

    def _rows(self, names: tuple[str, ...]) -> Plan:
        if not self.last_of:
            return self.make(names)
        assert self.origin is not None, "whoever sets last_of has seen that there is one"
        return self.origin.last_arrived(names, self.last_of, self.asof)


def table_rows(node: exp.Expr, tables: Mapping[str, Table], environment: Environment) -> JoinSource | None:
    """The side that a table is, or a SELECT of a table's columns, in parentheses or named by WITH; None for others."""
    named, alias = plain_table(node), node.args.get("alias")
    if named is not None:
        reference = refer(named, tables)
        if reference is not None:
            return _table_source(reference.table, reference.alias)
        found = definition_of(named)
        plain = found is not None and only(found, "this", "alias") and only(found.args["alias"], "this")
        return _select_source(found.this, named.alias_or_name, tables, environment) if plain and found is not None else None
    if not isinstance(node, exp.Subquery) or not only(node, "this", "alias") or not isinstance(alias, exp.TableAlias):
        return None
    plain = only(alias, "this") and isinstance(alias.this, exp.Identifier)
    return _select_source(node.this, alias.name, tables, environment) if plain else None


def _select_source(node: exp.Expr, alias: str, tables: Mapping[str, Table], environment: Environment) -> JoinSource | None:
    """A SELECT of columns, with what filters, sorts and limits its rows."""
    if not isinstance(node, exp.Select):
        return None
    bound = bind_select(node, tables, environment) or bind_last_row(node, tables, environment)
    if bound is None or not bound.native or bound.outputs is None:
        return None
    columns = {shown: bound.column(name) for shown, name in bound.outputs}
    if len({name.lower() for name in columns}) < len(bound.outputs):
        return None
    made = tuple(replace(column, name=shown) for shown, column in columns.items() if column is not None)
    named, core = dict(bound.outputs), bound.core_plan()
    origin = Origin(bound.reference.table, core, named)
    if isinstance(core, TableScan) and all(shown == name for shown, name in bound.outputs):
        return JoinSource(alias, made, lambda names: replace(core, columns=names), origin=origin)
    return JoinSource(alias, made, lambda names: Project(core, tuple((name, named[name]) for name in names)), origin=origin)


def _table_source(table: Table, alias: str) -> JoinSource:
    names = {column.name: column.name for column in (*table.schema, SEQUENCE_COLUMN)}
    origin = Origin(table, TableScan(table.name, tuple(names)), names)
    return JoinSource(
        alias, tuple(table.schema), lambda wanted: TableScan(table.name, wanted), extra=(SEQUENCE_COLUMN,), origin=origin
    )  # fmt: skip


def frame_source(frame: Frame, alias: str) -> JoinSource | None:
    """The caller's data, of which columns of other types than ours are left out."""
    from tsdb.exec.shown import frame_columns

    columns = []
    shown = frame_columns(frame)
    for name, kind in shown or ():
        try:
            columns.append(Column(name, parse_type(kind), Role.FIELD, 0))
        except InvalidInput:
            continue
    if shown is None or len({name.lower() for name, _ in shown}) < len(shown):
        return None
    types = {column.name: column.type for column in columns}

    def make(names: tuple[str, ...]) -> Plan:
        listed = ", ".join(map(quoted_name, names)) or "NULL"
        sql = f"SELECT {listed} FROM {quoted_name(frame.name)}"
        return DuckQuery(sql, ((frame.name, frame),), columns=tuple((name, types[name]) for name in names))

    return JoinSource(alias, tuple(columns), make, complete=len(columns) == len(shown))
