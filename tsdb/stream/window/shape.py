"""Which queries mean the same window by window: those that group by the window, with nothing across groups above."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.exec.fold import aggregates
from tsdb.sql.series import expand
from tsdb.sql.statement import Query
from tsdb.sql.tree import is_local, parse_query
from tsdb.stream.shape import ancestors, check_above, check_joins, refuse
from tsdb.stream.window.held import HELD, WINDOW_END, WINDOW_START
from tsdb_format.errors import InvalidInput


def is_grouped(query: Query, tables: Mapping[str, Table]) -> bool:
    """Whether a text groups the rows of windows. Raises InvalidInput where its groups are not parts of one window each."""
    tree = parse_query(expand(query, tables).text)
    if tree is None:
        raise InvalidInput("this form of query cannot be followed live")
    grouped = False
    for table in tree.find_all(exp.Table):
        if table.name != HELD or is_local(table):
            continue
        above = False
        for inside, around in ancestors(table):
            if above or not isinstance(around, exp.Select) or not _groups(around):
                check_above(inside, around, aggregates())
            else:
                _check_groups(around)
                above = grouped = True
    return grouped


def _groups(select: exp.Select) -> bool:
    return bool(select.args.get("group") or select.args.get("distinct")) or any(map(_is_aggregate, select.expressions))


def _is_aggregate(item: exp.Expr) -> bool:
    nodes = item.walk(prune=lambda node: isinstance(node, exp.Query | exp.Window))
    return any(
        isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and str(node.this).lower() in aggregates())
        for node in nodes
    )


def group_columns(query: Query, tables: Mapping[str, Table]) -> list[str] | None:
    """The columns by which a text of one SELECT groups the rows of windows; None where it groups by anything else."""
    tree = parse_query(expand(query, tables).text)
    if not isinstance(tree, exp.Select) or not tree.args.get("group"):
        return None
    keys = [item.unalias() for item in _keys(tree)]
    return [key.name for key in keys] if all(isinstance(key, exp.Column) for key in keys) else None


def _keys(select: exp.Select) -> list[Any]:
    """What a SELECT groups by."""
    group = select.args.get("group")
    if group is None:
        return list(select.expressions) if select.args.get("distinct") else []
    if any(group.args.get(name) for name in ("grouping_sets", "cube", "rollup")):
        refuse("GROUPING SETS over windows")
    if group.args.get("all"):
        return [item for item in select.expressions if not _is_aggregate(item)]
    return [_item(select, key) for key in group.expressions]


def _check_groups(select: exp.Select) -> None:
    for name, words in (
        ("limit", "LIMIT"),
        ("offset", "OFFSET"),
        ("qualify", "QUALIFY"),
        ("windows", "WINDOW"),
        ("sample", "SAMPLE"),
    ):
        if select.args.get(name):
            refuse(words)
    check_joins(select)
    if any(item.find(exp.Window) is not None for item in select.expressions):
        refuse("a window function over the groups of windows")
    keys = _keys(select)
    if not any(isinstance(key := item.unalias(), exp.Column) and key.name.lower() in (WINDOW_START, WINDOW_END) for item in keys):
        raise InvalidInput(
            "a live query over windows groups by window_start or window_end: other groups need all rows, which it never has"
        )


def _item(select: exp.Select, key: Any) -> Any:
    """What a key of GROUP BY stands for: an item by its number or alias, or itself."""
    if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(select.expressions):
        return select.expressions[int(key.name) - 1]
    if isinstance(key, exp.Column) and not key.table and key.name.lower() not in (WINDOW_START, WINDOW_END):
        return next((item for item in select.expressions if item.alias.lower() == key.name.lower()), key)
    return key
