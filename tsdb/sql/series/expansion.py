"""Our words of SQL, written out in DuckDB's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tsdb.catalog.table import Table
from tsdb.sql.series import (
    bounded,
    calling,
    change,
    downsample,
    gapfill,
    latest,
    listing,
    qualified,
    sample,
    vector,
    window,
    window_order,
    zone,
)
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.statement import Query

#: The edits that write one occurrence of a word out; none where there is no occurrence.
Expand: TypeAlias = Callable[[Draft, Mapping[str, Table]], Sequence[Edit]]
#: Words in upper case, and how they are written out, in the order in which that is done: what a later one is made of comes earlier.
_EXPANSIONS: tuple[tuple[frozenset[str], Expand], ...] = (
    (qualified.WORDS, qualified.expand),
    (listing.WORDS, listing.expand),
    (bounded.WORDS, bounded.expand),
    (window_order.WORDS, window_order.expand),
    (window.WORDS, window.expand),
    (downsample.WORDS, downsample.expand),
    (zone.WORDS, zone.expand),
    (calling.WORDS, calling.expand),
    (vector.WORDS, vector.expand),
    (change.WORDS, change.expand),
    (latest.WORDS, latest.expand),
    (sample.WORDS, sample.expand),
    (gapfill.WORDS, gapfill.expand),
)


def written_out(query: Query, tables: Mapping[str, Table]) -> Query:
    """The query without words of ours."""
    return _written(query, tables, _EXPANSIONS)


def with_windows_by_time(query: Query, tables: Mapping[str, Table]) -> Query:
    """The query in which what is first and last in windows goes by time."""
    return _written(query, tables, ((window_order.WORDS, window_order.expand),))


def _written(query: Query, tables: Mapping[str, Table], expansions: Sequence[tuple[frozenset[str], Expand]]) -> Query:
    words = {token.text.upper() for token in query.tokens if token.is_name}
    draft = Draft.of(query)
    for triggers, expand in expansions:
        if not triggers.isdisjoint(words):
            while edits := expand(draft, tables):
                draft = draft.edited(edits)
    if draft.text is query.text:
        return query
    origins = tuple(query.origins[at] for at in draft.origins) if query.origins else draft.origins
    return replace(query, text=draft.text, tokens=draft.tokens, origins=origins)
