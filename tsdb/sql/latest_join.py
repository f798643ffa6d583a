"""``INNER LATEST JOIN`` and ``LEFT LATEST JOIN``: each left row with the last arrived right row of its keys, 0 or 1.

DuckDB does not know the word. It is blanked out, so that every other place in the text stays, and the ``Query`` remembers which of
its joins had it: whoever binds one has its right side give the last arrived row of each key alone, and refuses what he cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from tsdb.sql.nesting import closing
from tsdb.sql.statement import Query
from tsdb.sql.token import Token
from tsdb.sql.tree import span
from tsdb_format.errors import InvalidInput

_BEFORE = frozenset({"INNER", "LEFT", "OUTER"})
_OTHERS = frozenset({"RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "NATURAL", "ASOF"})
#: What is wrong with a LATEST JOIN.
NO_LEFT_SIDE = (
    "the left side of a live LATEST JOIN is a table, or a SELECT over one, row by row, with conditions, or another LATEST JOIN"
)
NO_RIGHT_SIDE = "the right side of a LATEST JOIN is a table, or a SELECT over one, row by row, with conditions"
ASOF_FORM = (
    "a live ASOF JOIN is ON equalities between a column of each side and one comparison left.time >= right.time, or >, and its "
    "right side is a table, or a SELECT of columns of one, with conditions"
)
ONLY_EQUALITIES = (
    "LATEST JOIN is ON one or more equalities between a column of each side, joined by AND; other conditions stand in WHERE, or in "
    "a subquery on either side"
)


def without_latest(query: Query) -> Query:
    """The query without the word, and with the places of what the joins that had it join; itself where no join had it."""
    tokens = query.tokens
    for at in range(2, len(tokens) - 1):
        _refuse_other_kinds(query, at)
    found = [at for at in range(1, len(tokens) - 2) if _stands_at(tokens, at)]
    if not found:
        return query
    text = query.text
    for at in found:
        start, end = tokens[at].start, tokens[at].end
        text = text[:start] + " " * (end - start) + text[end:]
    kept = [at for at in range(len(tokens)) if at not in found]
    origins = query.origins or range(len(tokens))
    places = frozenset(_named_at(query, at + 2) for at in found)
    return replace(
        query, text=text, tokens=tuple(tokens[at] for at in kept), origins=tuple(origins[at] for at in kept), latest_joins=places
    )  # fmt: skip


def is_latest(query: Query, join: exp.Join) -> bool:
    """Whether a join had the word."""
    if not query.latest_joins:
        return False
    item, alias = join.this, join.this.args.get("alias")
    named = item.args.get("db") or item.this if isinstance(item, exp.Table) else None if alias is None else alias.this
    place = span(named) if isinstance(named, exp.Identifier) else None
    return place is not None and place[0] in query.latest_joins


def refuse(query: Query, join: exp.Join, message: str) -> NoReturn:
    """Raise InvalidInput about a LATEST JOIN."""
    item, alias = join.this, join.this.args.get("alias")
    place = span(item.this if isinstance(item, exp.Table) else alias.this)
    raise InvalidInput(message + (f" ({query.place(place[0])})" if place is not None else ""))


def refuse_unparsed(query: Query) -> None:
    """A LATEST JOIN whose statement is not understood means nothing to DuckDB either."""
    if query.latest_joins:
        raise InvalidInput(f"a LATEST JOIN stands in a statement that is not understood ({query.place(min(query.latest_joins))})")


def _refuse_other_kinds(query: Query, at: int) -> None:
    """LATEST JOIN behind a side that has its alias already, or behind a kind of join that it is not."""
    tokens = query.tokens
    if tokens[at].upper != "LATEST" or tokens[at + 1].upper != "JOIN" or tokens[at - 1].upper in _BEFORE:
        return
    named = tokens[at - 1].is_name and tokens[at - 1].upper not in _OTHERS
    aliased = tokens[at - 2].is_symbol(")") or (tokens[at - 2].is_name and tokens[at - 2].upper not in ("FROM", "JOIN"))
    if tokens[at - 1].upper in _OTHERS or tokens[at - 1].is_symbol(")") or (named and aliased):
        where = query.place(tokens[at].start)
        raise InvalidInput(f"it is INNER LATEST JOIN or LEFT LATEST JOIN: each left row with its last right row ({where})")


def _stands_at(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].upper == "LATEST" and tokens[at - 1].upper in _BEFORE and tokens[at + 1].upper == "JOIN"


def _named_at(query: Query, at: int) -> int:
    """Where the right side's own name starts: that of a table, or the alias of a subquery."""
    tokens = query.tokens
    if tokens[at].is_symbol("("):
        at = closing(tokens, at) + 1
        at += at < len(tokens) and tokens[at].upper == "AS"
    if at >= len(tokens) or not tokens[at].is_name or tokens[at].upper in ("ON", "USING"):
        where = query.place(tokens[min(at, len(tokens) - 1)].start)
        raise InvalidInput(f"the right side of a LATEST JOIN is a table, or a subquery with an alias ({where})")
    return tokens[at].start
