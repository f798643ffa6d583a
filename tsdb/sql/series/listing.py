"""``FROM (SHOW TABLES)``: the tables' names as a table, as DuckDB has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.sql.series.draft import Draft, Edit

WORDS = frozenset({"SHOW"})
_NAMES = "SELECT table_name AS name FROM information_schema.tables WHERE table_type = 'BASE TABLE' ORDER BY name"


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """A query of the catalog in its place."""
    del tables
    tokens = draft.tokens
    for at in range(1, len(tokens) - 2):
        words = tokens[at].upper == "SHOW" and tokens[at + 1].upper == "TABLES"
        if words and tokens[at - 1].is_symbol("(") and tokens[at + 2].is_symbol(")"):
            return [Edit(*draft.span(at, at + 2), (_NAMES,))]
    return ()
