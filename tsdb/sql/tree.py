"""Syntax trees of queries, by sqlglot. Imported on use: it costs a tenth of a second of a fresh process."""

from __future__ import annotations

import logging

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tsdb.sql.dialect import Tsdb

_DIALECT = Tsdb()


class _Quiet(logging.Filter):
    """Drops sqlglot's remarks while this module parses: what it cannot parse is DuckDB's to judge."""

    def filter(self, record: logging.LogRecord) -> bool:
        return False


def parse_query(text: str) -> exp.Query | None:
    """The tree of a query; None where sqlglot does not know the syntax, which says nothing about DuckDB."""
    logger, quiet = logging.getLogger("sqlglot"), _Quiet()
    logger.addFilter(quiet)
    try:
        trees = _DIALECT.parser().parse(_DIALECT.tokenize(text), text)
    except (SqlglotError, RecursionError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # a text that the parser does not know, or does not survive
    finally:
        logger.removeFilter(quiet)
    tree = trees[0] if len(trees) == 1 else None
    return tree if isinstance(tree, exp.Query) else None


def parse_expression(text: str) -> exp.Expr | None:
    """The tree of an expression, as it would stand in a select list; None where sqlglot does not know it."""
    tree = parse_query(f"SELECT {text}")
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or any(v for k, v in tree.args.items() if k != "expressions"):
        return None
    found = tree.expressions[0]
    return found if isinstance(found, exp.Expr) else None


def span(identifier: exp.Expr | None) -> tuple[int, int] | None:
    """The place [start, end) of an identifier in the text it was parsed from."""
    if identifier is None or "start" not in identifier.meta or "end" not in identifier.meta:
        return None
    return int(identifier.meta["start"]), int(identifier.meta["end"]) + 1
