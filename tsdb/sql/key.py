"""Subqueries of ``column IN (SELECT …)`` that can be run first, so that a scan leaves out the devices and pages without their keys.

Only what is surely uncorrelated and can be cheap is taken: one SELECT over tables and the caller's frames, whose every column is
one of theirs. The subquery stays in DuckDB's text; its keys only make the scan read less. It is computed twice then, so what may
differ from one time to the other, be it by the choice among rows that tie, has no keys.
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

#: Clauses that may choose among rows that tie.
_CHOOSING_CLAUSES = ("limit", "offset", "qualify", "windows", "sample")
#: Aggregates that may.
_CHOOSING = frozenset({
    "first", "last", "any_value", "arbitrary", "mode", "arg_min", "arg_max", "argmin", "argmax", "arg_min_null", "arg_max_null",
    "min_by", "max_by", "first_by", "last_by", "list", "array_agg", "string_agg", "group_concat", "listagg", "reservoir_quantile",
})  # fmt: skip
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
    """The plan of a subquery whose text stands at ``place``.

    None where it may depend on the query around it, or give other rows when it is run again.
    """
    start, end = place
    tokens = tuple(Token(kind, text, a - start, b - start) for kind, text, a, b in query.tokens if start <= a and b <= end)
    if not stands_alone(inner, tables, frames) or not is_settled(inner, tokens):
        return None
    from tsdb.sql.binder import TreeBinder

    own = Environment(environment.values, environment.now_ns)
    try:
        plan, _ = TreeBinder(Query(query.text[start:end], tokens)).bind(tables, Settings(), own)
    except Error:  # it is DuckDB's to refuse
        return None
    environment.used_now |= own.used_now
    return plan


def stands_alone(inner: exp.Select, tables: Mapping[str, Table], frames: Mapping[str, Frame]) -> bool:
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


def is_settled(inner: exp.Select, tokens: Sequence[Token]) -> bool:
    """Whether a SELECT gives the same rows whoever computes it, and whenever."""
    distinct = inner.args.get("distinct")
    if any(inner.args.get(name) for name in _CHOOSING_CLAUSES) or (distinct is not None and distinct.args.get("on")):
        return False
    if next(inner.find_all(exp.Window, exp.TableSample), None) is not None:
        return False
    from tsdb.exec.fold import functions, stable_functions

    unsettled = _CHOOSING | (functions(scalar=True) - stable_functions())
    return not any(
        token.is_name and token.text.lower() in unsettled and following.is_symbol("(")
        for token, following in zip(tokens, tokens[1:], strict=False)
    )


def columns_of(value: Any) -> Sequence[str]:
    """The columns of a frame that holds its rows; none for others."""
    if isinstance(value, dict):
        return list(value)
    names = getattr(value, "column_names", None)
    if names is None and hasattr(value, "shape"):
        names = getattr(value, "columns", None)
    return [str(name) for name in names] if names is not None and hasattr(value, "shape") else []
