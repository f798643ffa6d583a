"""Syntax trees of queries, by sqlglot. Imported on use: it costs a tenth of a second of a fresh process."""

from __future__ import annotations

import logging

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tsdb.sql.dialect import Tsdb

_DIALECT = Tsdb()
_LOCAL = "tsdb_local"
_LOGGER = logging.getLogger("sqlglot")  # asked for once: it takes a lock that an interrupt would leave behind
#: What the parser raises of texts that it does not survive.
_NOT_SURVIVED = (RecursionError, AttributeError, IndexError, KeyError, TypeError, ValueError)


class _Quiet(logging.Filter):
    """Drops sqlglot's remarks while this module parses: what it cannot parse is DuckDB's to judge."""

    def filter(self, record: logging.LogRecord) -> bool:
        return False


def parse_query(text: str) -> exp.Query | None:
    """The tree of a query; None where sqlglot does not know the syntax, which says nothing about DuckDB."""
    quiet = _Quiet()
    _LOGGER.addFilter(quiet)
    try:
        trees = _DIALECT.parser().parse(_DIALECT.tokenize(text), text)
    except (SqlglotError, *_NOT_SURVIVED) as error:
        reason = error.__cause__
        if reason is not None and not isinstance(reason, (SqlglotError, *_NOT_SURVIVED)):
            raise reason from None  # the tokenizer takes any exception for its own, also that of a signal's handler
        return None  # a text that the parser does not know, or does not survive
    finally:
        _LOGGER.removeFilter(quiet)
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Query):
        return None
    _mark_local(tree)
    return tree


def parse_expression(text: str) -> exp.Expr | None:
    """The tree of an expression, as it would stand in a select list; None where sqlglot does not know it."""
    tree = parse_query(f"SELECT {text}")
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or any(v for k, v in tree.args.items() if k != "expressions"):
        return None
    found = tree.expressions[0]
    return found if isinstance(found, exp.Expr) else None


def _mark_local(tree: exp.Query) -> None:
    """Mark the tables that are names of a WITH clause in whose reach they stand: no table of the catalog is meant by them."""
    if next(tree.find_all(exp.CTE), None) is None:
        return
    for node in tree.find_all(exp.Table):
        found = _named_cte(node, node.name.lower()) if node.args.get("db") is None else None
        if found is not None:
            node.meta[_LOCAL] = found


def _named_cte(node: exp.Expr, name: str) -> exp.CTE | None:
    """What a WITH around ``node`` defines as ``name`` before it; a recursive one also within itself."""
    inside: exp.Expr = node
    while (parent := inside.parent) is not None:
        if isinstance(parent, exp.With):
            at = next(at for at, cte in enumerate(parent.expressions) if cte is inside)
            defined = parent.expressions[: at + bool(parent.args.get("recursive"))]
            inside = parent.parent or parent  # the query of this WITH is seen from inside it
        else:
            clause = parent.args.get("with_")
            defined = clause.expressions if isinstance(clause, exp.With) and clause is not inside else []
            inside = parent
        found = next((cte for cte in defined if isinstance(cte, exp.CTE) and cte.alias.lower() == name), None)
        if found is not None:
            return found
    return None


def is_local(table: exp.Table) -> bool:
    """Whether a table is one of a WITH clause."""
    return _LOCAL in table.meta


def definition_of(table: exp.Table) -> exp.CTE | None:
    """What a WITH clause defines the table to be; None for others."""
    found = table.meta.get(_LOCAL)
    return found if isinstance(found, exp.CTE) else None


def span(identifier: exp.Expr | None) -> tuple[int, int] | None:
    """The place [start, end) of an identifier in the text it was parsed from."""
    if identifier is None or "start" not in identifier.meta or "end" not in identifier.meta:
        return None
    return int(identifier.meta["start"]), int(identifier.meta["end"]) + 1
