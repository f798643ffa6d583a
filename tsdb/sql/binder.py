"""Binding by syntax tree: native where the whole SELECT is, DuckDB over native scans where it is not.

The binders are tried from the simplest on, and each is loaded when its turn first comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import Plan
from tsdb.settings import Settings
from tsdb.sql.constant import Constant
from tsdb.sql.environment import Environment
from tsdb.sql.literal import only
from tsdb.sql.select import bind_select, refuse_unknown_columns
from tsdb.sql.statement import Query
from tsdb.sql.token import Token
from tsdb.sql.tree import parse_query

#: A plan, and the names that it shows; None where DuckDB names its columns.
Bound = tuple[Plan, tuple[str, ...] | None]


class TreeBinder:
    """Binds one query by its tree, which is kept."""

    def __init__(self, query: Query) -> None:
        self._query = query
        puzzling = any(token.is_symbol("<=>") for token in query.tokens)  # equality to sqlglot, a distance to DuckDB
        self._tree = None if puzzling else parse_query(query.text)

    def bind(self, tables: Mapping[str, Table], settings: Settings, environment: Environment) -> Bound:
        """Bind over the tables, keyed by lower-case name; raises InvalidInput and NotFound."""
        environment.fold_text = _fold_text
        environment.fold_tree = partial(_fold_tree, self._query, environment)
        try:
            return self._bind(self._tree, tables, settings, environment)
        except RecursionError:  # a tree too deep for us is DuckDB's
            return self._bind(None, tables, settings, environment)

    def _bind(self, tree: exp.Query | None, tables: Mapping[str, Table], settings: Settings, environment: Environment) -> Bound:
        native = settings.enable_native_operators
        select = _unwrapped(tree)
        if isinstance(select, exp.Select):
            refuse_unknown_columns(self._query, select, tables)
        if native and isinstance(select, exp.Select):
            bound = bind_select(select, tables, environment)
            if bound is None:
                from tsdb.sql.last_row import bind_last_row

                bound = bind_last_row(select, tables, environment)
            if bound is not None and bound.native and bound.outputs is not None:
                return bound.plan(), tuple(name for name, _ in bound.outputs)
            from tsdb.sql.aggregate import bind_aggregate
            from tsdb.sql.aggregate_plan import native_plan
            from tsdb.sql.join import bind_join

            joined = bind_join(self._query, select, tree, tables, environment) if tree is not None else None
            if joined is not None:
                return joined
            aggregated = bind_aggregate(self._query, select, tables, environment)
            planned = None if aggregated is None else native_plan(aggregated)
            if planned is not None:
                return planned
            if bound is not None and bound.core and (bound.limit is not None or bound.newest is not None or not bound.keys):
                from tsdb.sql.rewrite import over_core

                made = over_core(self._query, select, bound, environment, _scalar)
                if made is not None:
                    return made, None
        from tsdb.sql.rewrite import rewrite

        made = rewrite(self._query, tree, tables, environment, native=native)
        return made, None


def _fold_text(text: str) -> Constant | None:
    from tsdb.exec.fold import evaluate

    return evaluate(text)


def _fold_tree(query: Query, environment: Environment, node: object) -> Constant | None:
    from tsdb.sql.folding import fold_tree

    return fold_tree(query, environment, node)


def _scalar(tokens: Sequence[Token], select: exp.Select) -> bool:
    from tsdb.exec.fold import functions
    from tsdb.sql.rewrite import computes_rows

    return computes_rows(tokens, select, functions(scalar=True))


def _unwrapped(tree: exp.Query | None) -> exp.Query | None:
    """A query in nothing but parentheses is that query."""
    while isinstance(tree, exp.Subquery) and only(tree, "this") and isinstance(tree.this, exp.Query):
        tree = tree.this
    return tree
