"""The sides of a join: what stands in FROM under one name, with the columns that are known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import DuckQuery, Filter, Frame, Plan, TableScan
from tsdb.plan.predicate import And, Predicate
from tsdb.quoting import quoted_name
from tsdb.sql.select import plain_table, refer
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import SEQUENCE_COLUMN, Column
from tsdb_format.types import Role, parse_type


@dataclass
class JoinSource:
    """One side. ``columns`` are those that ``*`` shows, in order; ``complete`` says that these are all.

    ``nullable`` is set where an outer join fills its columns, ``hidden`` where a semi or anti join shows none of them.
    """

    alias: str
    columns: tuple[Column, ...]
    make: Callable[[tuple[str, ...]], Plan]
    complete: bool = True
    extra: tuple[Column, ...] = ()
    nullable: bool = False
    hidden: bool = False
    predicates: list[Predicate] = field(default_factory=list)
    used: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._columns = {column.name.lower(): column for column in (*self.columns, *self.extra)}

    def column(self, name: str) -> Column | None:
        """The column of that name, in any case."""
        return self._columns.get(name.lower())

    def plan(self) -> Plan:
        """The rows that satisfy the predicates, with the columns that were used."""
        made = self.make(tuple(self.used))
        if not self.predicates:
            return made
        condition = And(tuple(self.predicates))
        return TableScan(made.table, made.columns, condition) if isinstance(made, TableScan) else Filter(made, condition)


def join_source(node: exp.Expr, tables: Mapping[str, Table], frames: Mapping[str, Frame]) -> JoinSource | None:
    """What an item of FROM is, if it is a table of the catalog or the caller's data; None for others."""
    named = plain_table(node)
    if named is None:
        return None
    reference = refer(named, tables)
    if reference is not None:
        table = reference.table
        return JoinSource(
            reference.alias, tuple(table.schema), lambda names: TableScan(table.name, names), extra=(SEQUENCE_COLUMN,)
        )  # fmt: skip
    frame = frames.get(named.name)
    return None if frame is None else _frame_source(frame, named.alias or named.name)


def _frame_source(frame: Frame, alias: str) -> JoinSource | None:
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
