"""``table(name)`` (Proton): the table as it is now, also in a query that follows others live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.series.source import names_source

WORDS = frozenset({"TABLE"})
#: What stands before an item of FROM, besides a comma and a parenthesis.
_BEFORE = frozenset({"FROM", "JOIN"})


def bounded_name(name: str) -> str:
    """The name by which a live query knows the bounded table."""
    return f"table({name.lower()})"


def is_bounded(name: str) -> bool:
    """Whether a table's name is that of a bounded twin."""
    return name.startswith("table(") and name.endswith(")")


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """The table's name, or that of its bounded twin where ``tables`` have one."""
    tokens = draft.tokens
    for at in range(1, len(tokens) - 3):
        before = tokens[at - 1]
        if tokens[at].upper != "TABLE" or not (before.upper in _BEFORE or before.is_symbol(",", "(")):
            continue
        name, ends = tokens[at + 2], tokens[at + 3]
        if not (tokens[at + 1].is_symbol("(") and name.is_name and ends.is_symbol(")")):
            continue
        place = name.start, name.end
        twin = tables.get(bounded_name(name.text))
        if twin is None:
            return [Edit(tokens[at].start, ends.end, (place,))]
        after = tokens[at + 4] if at + 4 < len(tokens) else None
        aliased = after is not None and names_source(after)
        alias = () if aliased else (" AS ", place)
        return [Edit(tokens[at].start, ends.end, (quoted_name(twin.name), *alias))]
    return ()
