"""A request: the queries of a multi-query in order, with the result sets that they declare and refer to.

Documents (``document``) and scripts (``script``) are read into it. From here on both are the same: every query is SQL text in which
``x IN RESULT SET name`` stands where a set is referred to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.statement import Query
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

    ``table`` is the one whose rows it selects, where that is known.
    """

    name: str
    place: str
    query: Query | None
    declares: tuple[Declaration, ...] = ()
    table: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The steps of a multi-query, in order; a set is visible to the steps after the one that declares it.

    With ``deduplicate`` a row that several queries select is a row of the first of them alone.
    """

    steps: tuple[Step, ...]
    settings: dict[str, object] = field(default_factory=dict)
    deduplicate: bool = False


class Reference(NamedTuple):
    """``IN RESULT SET name`` in a query: the name, where IN ends, where the name ends, and where it is, for people."""

    name: str
    start: int
    end: int
    place: str


def references(query: Query) -> Iterator[Reference]:
    """The references of a query, as they stand in it; raises InvalidInput where one has no name."""
    tokens = query.tokens
    for at, token in enumerate(tokens):
        if [each.upper for each in tokens[at : at + 3]] != ["IN", "RESULT", "SET"]:
            continue
        if at + 3 >= len(tokens) or not tokens[at + 3].is_name:
            raise InvalidInput(f"IN RESULT SET takes the name of a result set ({query.place(token.start)})")
        yield Reference(tokens[at + 3].text, token.end, tokens[at + 3].end, query.place(tokens[at + 1].start))


def resolved(query: Query, relation: Callable[[str], str]) -> Query:
    """The query with a relation, a SELECT in parentheses, in the place of every set's name."""
    edits = [Edit(each.start, each.end, (f" {relation(each.name)}",)) for each in references(query)]
    if not edits:
        return query
    draft = Draft.of(query).edited(edits)
    origins = tuple(query.origins[at] for at in draft.origins) if query.origins else draft.origins
    return replace(query, text=draft.text, tokens=draft.tokens, origins=origins)
