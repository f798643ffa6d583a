"""``main.t.column``: the schema of tables before a column, which says no more than ``t.column`` where ``t`` is a table in FROM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.token import Token

WORDS = frozenset({"MAIN"})


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """The columns without the schema; as they are where another thing than a table may have its name."""
    tokens = draft.tokens
    if _is_given(tokens, "main", tables):
        return ()
    edits = []
    for at in range(len(tokens) - 4):
        names, dots = tokens[at : at + 5 : 2], tokens[at + 1 : at + 4 : 2]
        if not (all(name.is_name for name in names) and all(dot.is_symbol(".") for dot in dots)) or names[0].text.lower() != "main":
            continue
        begins = at == 0 or not tokens[at - 1].is_symbol(".")
        called = at + 5 < len(tokens) and tokens[at + 5].is_symbol("(")
        table = names[1].text.lower()
        if begins and not called and table in tables and not _is_given(tokens, table, tables):
            edits.append(Edit(names[0].start, names[1].start, ()))
    return edits


def _is_given(tokens: Sequence[Token], name: str, tables: Mapping[str, Table]) -> bool:
    """Whether a query gives a name to something: behind AS, a parenthesis or a table, or before a definition in WITH."""
    for at, token in enumerate(tokens):
        if not at or not token.is_name or token.text.lower() != name:
            continue
        before = tokens[at - 1]
        if before.upper == "AS" or before.is_symbol(")") or (before.is_name and before.text.lower() in tables):
            return True
        if (before.upper in ("WITH", "RECURSIVE") or before.is_symbol(",")) and _defines(tokens[at + 1 :]):
            return True
    return False


def _defines(after: Sequence[Token]) -> bool:
    """Whether a definition of WITH goes on so behind its name."""
    words = [token.text.upper() for token in after[:3]]
    return words[:2] == ["AS", "("] or words[:1] == ["("] or words[:2] in (["AS", "MATERIALIZED"], ["AS", "NOT"])
