"""``main.t.column``: the schema of tables before a column, which says no more than ``t.column`` where ``t`` is a table in FROM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tsdb.catalog.table import Table
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.series.source import is_common_table
from tsdb.sql.token import Token, tokenize

WORDS = frozenset({"MAIN"})


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """The columns without the schema; as they are where another thing than a table may have its name."""
    tokens = draft.tokens
    if _is_given(draft, "main", tables):
        return ()
    return [
        Edit(schema.start, table.start, ())
        for schema, table in _qualifiers(tokens)
        if table.text.lower() in tables and not _is_given(draft, table.text.lower(), tables)
    ]


def without_schema(text: str, table: str) -> str:
    """A text in which ``main.`` before a table's columns is as many spaces."""
    for schema, named in _qualifiers(tokenize(text)):
        if named.text.lower() == table.lower():
            text = text[: schema.start] + " " * (named.start - schema.start) + text[named.start :]
    return text


def _qualifiers(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    """The schema and the table of each ``main.t.column``."""
    for at in range(len(tokens) - 4):
        names, dots = tokens[at : at + 5 : 2], tokens[at + 1 : at + 4 : 2]
        if not (all(name.is_name for name in names) and all(dot.is_symbol(".") for dot in dots)) or names[0].text.lower() != "main":
            continue
        begins = at == 0 or not tokens[at - 1].is_symbol(".")
        called = at + 5 < len(tokens) and tokens[at + 5].is_symbol("(")
        if begins and not called:
            yield names[0], names[1]


def _is_given(draft: Draft, name: str, tables: Mapping[str, Table]) -> bool:
    """Whether a query gives a name to something: behind AS, a parenthesis or a table, or in a WITH clause."""
    for before, token in pairwise(draft.tokens):
        if not token.is_name or token.text.lower() != name:
            continue
        if before.upper == "AS" or before.is_symbol(")") or (before.is_name and before.text.lower() in tables):
            return True
    return is_common_table(draft, name, len(draft.tokens))
