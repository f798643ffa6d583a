"""Subqueries of ``column IN (SELECT …)`` that can be run first, so that a scan leaves out the devices and pages without their keys.

Only what is surely uncorrelated and can be cheap is taken: one SELECT over tables and the caller's frames, whose every column is
one of theirs. The subquery stays in DuckDB's text; its keys only make the scan read less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import Frame, Plan
from tsdb.settings import Settings
from tsdb.sql.environment import Environment
from tsdb.sql.select import plain_table, refer
from tsdb.sql.statement import Query
from tsdb.sql.token import Token
from tsdb.sql.tree import is_local
from tsdb_format.errors import Error
from tsdb_format.types import Kind

#: Types of columns that keys are compared with as they are.
KEY_KINDS = frozenset({Kind.STRING, Kind.INT32, Kind.INT64})


def key_plan(
    query: Query,
    place: tuple[int, int],
    inner: exp.Select,
    tables: Mapping[str, Table],
    frames: Mapping[str, Frame],
    environment: Environment,
) -> Plan | None:
    """The plan of a subquery whose text stands at ``place``; None where it may depend on the query around it."""
    if not _stands_alone(inner, tables, frames):
        return None
    from tsdb.sql.binder import TreeBinder

    start, end = place
    tokens = tuple(Token(kind, text, a - start, b - start) for kind, text, a, b in query.tokens if start <= a and b <= end)
    own = Environment(environment.values, environment.now_ns)
    try:
        plan, _ = TreeBinder(Query(query.text[start:end], tokens)).bind(tables, Settings(), own)
    except Error:  # it is DuckDB's to refuse
        return None
    environment.used_now |= own.used_now
    return plan


def _stands_alone(inner: exp.Select, tables: Mapping[str, Table], frames: Mapping[str, Frame]) -> bool:
    """Whether every column of a SELECT is surely one of its own sources."""
    if any(isinstance(node, exp.Query | exp.Lambda | exp.Pivot | exp.Lateral) for node in inner.walk() if node is not inner):
        return False
    known: set[str] = set()
    aliases: set[str] = set()
    for node in inner.find_all(exp.Table):
        if plain_table(node) is None or is_local(node):
            return False
        reference, frame = refer(node, tables), frames.get(node.name)
        if reference is not None:
            known |= {column.name.lower() for column in reference.table.schema}
        elif frame is not None:
            known |= {name.lower() for name in columns_of(frame.value)}
        else:
            return False
        aliases.add(node.alias_or_name.lower())
    for column in inner.find_all(exp.Column):
        qualifier = column.args.get("table")
        if not isinstance(column.this, exp.Identifier) or column.name.lower() not in known:
            return False
        if qualifier is not None and qualifier.name.lower() not in aliases:
            return False
    return bool(aliases)


def columns_of(value: Any) -> Sequence[str]:
    """The columns of a frame that holds its rows; none for others."""
    if isinstance(value, dict):
        return list(value)
    names = getattr(value, "column_names", None)
    if names is None and hasattr(value, "shape"):
        names = getattr(value, "columns", None)
    return [str(name) for name in names] if names is not None and hasattr(value, "shape") else []
