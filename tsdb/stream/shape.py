"""Which queries can be followed live: those that make their rows of each row that comes, without waiting for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import Aggregate, DuckQuery, Filter, HashJoin, LastArrived, LastRow, Limit, Plan, Project, Sort, TopK
from tsdb.sql.tree import is_local
from tsdb_format.errors import InvalidInput

#: Clauses of a SELECT that need all of its rows, by the tree's names.
_CLAUSES = {
    "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY", "windows": "WINDOW", "order": "ORDER BY",
    "limit": "LIMIT", "offset": "OFFSET", "sample": "USING SAMPLE",
}  # fmt: skip
#: Nodes that need all rows of their input.
_NODES = {
    Aggregate: "an aggregate", LastRow: "the newest row of a group", TopK: "ORDER BY with LIMIT", Sort: "ORDER BY", Limit: "LIMIT",
    LastArrived: "the right side of a LATEST JOIN whose left side is not live",
}  # fmt: skip


def refuse(what: str) -> NoReturn:
    """Raise InvalidInput: something needs all rows, or an end."""
    if what == "LIMIT":
        raise InvalidInput("LIMIT ends a query, and a live query has no end: take as many rows as you need (tsdb stream --limit)")
    raise InvalidInput(
        f"{what} needs all rows, and a live query never has them: it takes filters, expressions and joins with bounded sides. "
        "Write table(name) for a table as it is now, or ask by db.sql"
    )


def refuse_two(tables: list[str]) -> NoReturn:
    """Raise InvalidInput: a query has several live sides."""
    raise InvalidInput(
        f"a live query follows one table, and this one has {', '.join(tables)}: write table(name) for those that it reads as they "
        "are now, or join them by INNER LATEST JOIN"
    )


def refuse_waiting(plan: Plan, is_live: Mapping[int, bool]) -> None:
    """Raise InvalidInput where a node above live rows (``is_live``, by identity) has to wait for their end."""
    match plan:
        case HashJoin(left=left, right=right) if not is_live[id(left)] and not is_live[id(right)]:
            return  # a LATEST JOIN that is driven as a whole
        case HashJoin(left=left, right=right, kind=kind):
            if is_live[id(right)] and kind != "inner":
                refuse(f"{kind.upper()} JOIN with the live table on its right side")
            refuse_waiting(left if is_live[id(left)] else right, is_live)
        case Project(child=child) | Filter(child=child):
            refuse_waiting(child, is_live)
        case DuckQuery(inputs=inputs, keys=keys):
            if any(is_live[id(each.child)] for each in keys):
                refuse("IN with a live subquery")
            for _, child in inputs:
                if is_live[id(child)]:
                    refuse_waiting(child, is_live)
        case _ if type(plan) in _NODES:
            refuse(_NODES[type(plan)])


def refuse_text(
    tree: exp.Query | None, tables: Mapping[str, Table], driving: str, others: frozenset[str], aggregates: frozenset[str]
) -> None:
    """Raise InvalidInput where the text that DuckDB is to run for each batch means something else over all rows.

    ``driving`` is the live table, or that of the left side of a live join, whose right sides ``others`` are, in lower case;
    ``aggregates`` are DuckDB's aggregate and window functions.
    """
    if tree is None:
        raise InvalidInput("this form of query cannot be followed live")
    left_passed = False  # where a table is joined with itself, its first place is the left side
    for node in tree.find_all(exp.Table, bfs=False):
        if isinstance(node.this, exp.Identifier) and node.name.lower() in {driving, *others} and not is_local(node):
            is_right = node.name.lower() != driving or (left_passed and driving in others)
            left_passed |= not is_right
            if node.args.get("sample") or node.args.get("pivots"):
                refuse("TABLESAMPLE" if node.args.get("sample") else "PIVOT")
            for inside, around in ancestors(node):
                if is_right and isinstance(around, exp.Join) and inside.arg_key == "this":
                    break  # what stands above the join stands above its left side
                check_above(inside, around, aggregates)


def ancestors(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """(node, its parent) from a table up to the root; a SELECT of a WITH is followed to wherever its name stands."""
    while (parent := node.parent) is not None:
        yield node, parent
        if isinstance(parent, exp.CTE):
            root = parent.parent.parent if parent.parent is not None else None
            assert root is not None, "a WITH belongs to a query"
            for use in root.find_all(exp.Table):
                if use.name.lower() == parent.alias.lower() and is_local(use):
                    yield from ancestors(use)
            return
        node = parent


def check_above(inside: exp.Expr, around: exp.Expr, aggregates: frozenset[str]) -> None:
    """Raise InvalidInput where ``around``, the parent of ``inside`` which has live rows, needs all of them."""
    match around:
        case exp.Select():
            _check_select(around, aggregates)
        case exp.Join():
            method, side, kind = (str(around.args.get(name) or "").upper() for name in ("method", "side", "kind"))
            if inside.arg_key == "this" and (side in ("LEFT", "FULL") or kind in ("SEMI", "ANTI") or method):
                refuse(f"{' '.join(word for word in (method, side, kind) if word)} JOIN with the live table on its right side")
        case exp.SetOperation():
            refuse(type(around).__name__.upper())
        case exp.From() | exp.Subquery() | exp.CTE() | exp.With() | exp.Paren() | exp.Lateral():
            if isinstance(around, exp.Subquery) and not isinstance(around.parent, exp.From | exp.Join | exp.Subquery | None):
                refuse("a subquery over a live table outside of FROM")
        case _:
            refuse("a live table outside of FROM")


def _check_select(select: exp.Select, aggregates: frozenset[str]) -> None:
    for name, words in _CLAUSES.items():
        if select.args.get(name):
            refuse(words)
    check_joins(select)
    for item in select.expressions:
        for node in item.walk(prune=lambda node: isinstance(node, exp.Query)):
            called = isinstance(node, exp.Anonymous) and str(node.this).lower() in aggregates
            if isinstance(node, exp.AggFunc | exp.Window) or called:
                refuse("an aggregate or window function")


def check_joins(select: exp.Select) -> None:
    """Raise InvalidInput where a SELECT over live rows also gives rows that none of them has."""
    for join in select.args.get("joins") or ():
        if str(join.args.get("side") or "").upper() in ("RIGHT", "FULL"):
            refuse(f"{join.args['side'].upper()} JOIN")
