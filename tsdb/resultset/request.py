"""A request: the queries of a multi-query in order, with the result sets that they declare and refer to.

Documents (``document``) and scripts (``script``) are read into it. From here on both are the same: every query is SQL text in which
``x IN RESULT SET name`` stands where a set is referred to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.statement import Query
from tsdb.sql.token import Token
from tsdb_format.errors import InvalidInput


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """A named result set: the members are the rows of ``query``. ``place`` is where it is declared, for people."""

    name: str
    query: Query
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One query: the sets that it declares for later ones, and the ``query`` for its rows, None where only the sets are asked for.

    ``table`` is the one whose rows it selects, where that is known; with ``key_width`` so many last columns are the row's key.
    """

    name: str
    place: str
    query: Query | None
    declares: tuple[Declaration, ...] = ()
    table: str | None = None
    key_width: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The steps of a multi-query, in order; a set is visible to the steps after the one that declares it."""

    steps: tuple[Step, ...]
    settings: dict[str, object] = field(default_factory=dict)


#: What a parenthesis behind is no call of.
_BEFORE_LIST = frozenset({"WHERE", "AND", "OR", "NOT", "ON", "HAVING", "QUALIFY", "SELECT", "WHEN", "THEN", "ELSE", "BY"})


class Reference(NamedTuple):
    """``IN RESULT SET name`` in a query: the name, where IN ends, where the name ends, where it is, for people, and how many values
    are looked for in it, None where that is not known.
    """

    name: str
    start: int
    end: int
    place: str
    width: int | None


def references(query: Query) -> Iterator[Reference]:
    """The references of a query, as they stand in it; raises InvalidInput where one has no name."""
    tokens = query.tokens
    for at, token in enumerate(tokens):
        if [each.upper for each in tokens[at : at + 3]] != ["IN", "RESULT", "SET"]:
            continue
        if at + 3 >= len(tokens) or not tokens[at + 3].is_name:
            raise InvalidInput(f"IN RESULT SET takes the name of a result set ({query.place(token.start)})")
        where = query.place(tokens[at + 1].start)
        yield Reference(tokens[at + 3].text, token.end, tokens[at + 3].end, where, _width(tokens[:at]))


def _width(before: Sequence[Token]) -> int | None:
    """How many values stand before IN: of a name one, of a list in parentheses its length; None where that is not so plain."""
    at = len(before) - 1
    while at >= 0 and before[at].upper == "NOT":
        at -= 1
    if at < 0 or not before[at].is_symbol(")"):
        return 1 if at >= 0 and before[at].is_name else None
    depth, count = 0, 1
    while at >= 0:
        depth += before[at].is_symbol(")") - before[at].is_symbol("(")
        count += depth == 1 and before[at].is_symbol(",")
        if depth == 0:
            return count if at == 0 or before[at - 1].upper in _BEFORE_LIST or before[at - 1].is_symbol("(", ",") else None
        at -= 1
    return None


def resolved(query: Query, relation: Callable[[str], str]) -> Query:
    """The query with a relation, a SELECT in parentheses, in the place of every set's name."""
    edits = [Edit(each.start, each.end, (f" {relation(each.name)}",)) for each in references(query)]
    if not edits:
        return query
    draft = Draft.of(query).edited(edits)
    origins = tuple(query.origins[at] for at in draft.origins) if query.origins else draft.origins
    return replace(query, text=draft.text, tokens=draft.tokens, origins=origins)
