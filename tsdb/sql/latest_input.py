"""The right sides of LATEST JOINs in a text that DuckDB runs: inputs that give the last arrived row of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import LastArrived
from tsdb.sql.computed_side import computed_side
from tsdb.sql.condition import conjuncts
from tsdb.sql.environment import Environment
from tsdb.sql.join_source import JoinSource, table_rows
from tsdb.sql.latest_join import NO_RIGHT_SIDE, ONLY_EQUALITIES, is_latest, refuse
from tsdb.sql.literal import only
from tsdb.sql.statement import Query
from tsdb.sql.tree import span
from tsdb.suggestion import hint
from tsdb_format.errors import NotFound


class LatestInput(NamedTuple):
    """What stands for ``item``, the right side of a LATEST JOIN, in the text."""

    item: exp.Expr
    plan: LastArrived


def latest_inputs(query: Query, tree: exp.Query, tables: Mapping[str, Table], environment: Environment) -> Iterator[LatestInput]:
    """The right side of every LATEST JOIN of a query; raises InvalidInput for one that is none."""
    if not query.latest_joins:
        return
    for join in tree.find_all(exp.Join):
        if not is_latest(query, join):
            continue
        source = table_rows(join.this, tables, environment) or computed_side(query, join.this, tables, environment)
        if source is None or source.origin is None:
            refuse(query, join, NO_RIGHT_SIDE)
        keys = tuple(dict.fromkeys(_keys(query, join, source)))
        yield LatestInput(join.this, source.origin.last_arrived(tuple(column.name for column in source.columns), keys))


def _keys(query: Query, join: exp.Join, source: JoinSource) -> Iterator[str]:
    """The right side's columns of a condition that is nothing but equalities."""
    using, on = join.args.get("using") or (), join.args.get("on")
    if not using and on is None:
        refuse(query, join, ONLY_EQUALITIES)
    for name in using:
        column = source.column(name.name)
        if column is None:
            refuse(query, join, f"no column {name.name!r} in {source.alias!r}; {hint(name.name, [c.name for c in source.columns])}")
        yield column.name
    for part in conjuncts(on):
        inner = part
        while isinstance(inner, exp.Paren) and only(inner, "this"):
            inner = inner.this
        sides = (inner.this, inner.args["expression"]) if isinstance(inner, exp.EQ) else ()
        for side in sides:
            _refuse_unknown(query, side, source)
        found = [side for side in sides if isinstance(side, exp.Column) and _names(side, source)]
        if len(found) != 1 or not all(isinstance(side, exp.Column) for side in sides):
            refuse(query, join, ONLY_EQUALITIES)
        column = source.column(found[0].name)
        assert column is not None
        yield column.name


def _refuse_unknown(query: Query, node: exp.Expr, source: JoinSource) -> None:
    """Raise NotFound for a column that the right side does not have."""
    qualifier = node.args.get("table") if isinstance(node, exp.Column) else None
    if qualifier is None or qualifier.name.lower() != source.alias.lower() or source.column(node.name) is not None:
        return
    place = span(node.this)
    where = f" ({query.place(place[0])})" if place is not None and query.source else ""
    raise NotFound(f"no column {node.name!r} in {source.alias!r}{where}; {hint(node.name, [c.name for c in source.columns])}")


def _names(node: exp.Column, source: JoinSource) -> bool:
    """Whether a reference names a column of the right side."""
    qualifier = node.args.get("table")
    return source.column(node.name) is not None and (qualifier is None or qualifier.name.lower() == source.alias.lower())
