"""What a SELECT reads first: the table, what it is called there, and which column is its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.sql.nesting import at_top, closing
from tsdb.sql.series.block import Block
from tsdb.sql.series.draft import Draft
from tsdb.sql.token import Token
from tsdb_format.types import Kind

_JOINS = frozenset(
    {"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "ASOF", "NATURAL", "POSITIONAL", "SEMI", "ANTI", "ON", "USING"}
)
_NO_ALIAS = _JOINS | {"PIVOT", "UNPIVOT", "TABLESAMPLE", "LATERAL", "AT"}
_NEXT = _NO_ALIAS | {
    "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "SELECT",
    "SAMPLE", "LATEST",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """The first item of FROM. ``table`` is None where it is a subquery, of which only the time's name is known.

    ``alone`` says that nothing is joined to it.
    """

    table: Table | None
    alias: str
    time_name: str
    alone: bool

    @property
    def time(self) -> str:
        """The time column as text."""
        return self.column(self.time_name)

    @property
    def tags(self) -> list[str]:
        """The tag columns as text."""
        assert self.table is not None
        return [self.column(tag.name) for tag in self.table.schema.tags]

    def no_text(self, draft: Draft, part: tuple[int, int], what: str) -> None:
        """Fail if the tokens ``part`` are a column of text; ``what`` says who needs numbers."""
        tokens = draft.tokens[slice(*part)]
        if self.table is None or not self.alone or len(tokens) not in (1, 3) or not tokens[-1].is_name:
            return
        for column in self.table.schema:
            if column.name.lower() == tokens[-1].text.lower() and column.type.kind in (Kind.STRING, Kind.BLOB):
                draft.fail(f"{what} is of numbers, and {column.name} is {column.type}", part[0])

    def column(self, name: str) -> str:
        """A column as text, qualified where something is joined."""
        return quoted_name(name) if self.alone or not self.alias else f"{quoted_name(self.alias)}.{quoted_name(name)}"


def source_of(block: Block, tables: Mapping[str, Table]) -> Source | None:
    """What a SELECT reads first; None where its time column cannot be told."""
    clause = block.clauses.get("FROM")
    if clause is None or clause.start >= clause.end:
        return None
    draft, tokens, start, end = block.draft, block.draft.tokens, clause.start, clause.end
    alone = not any(tokens[at].is_symbol(",") or tokens[at].upper in _JOINS for at in at_top(tokens, start, end))
    if tokens[start].is_symbol("("):
        close = closing(tokens, start)
        return _derived(draft, (start, close), _alias(draft, close + 1, end), alone, tables)
    if not tokens[start].is_name:
        return None
    at = start
    while at + 2 < end and tokens[at + 1].is_symbol("."):
        at += 2
    name = tokens[at].text
    if at + 1 < end and tokens[at + 1].is_symbol("("):
        return None
    alias = _alias(draft, at + 1, end) or name
    body = _common_table(draft, name, start)
    if body is not None:
        return _derived(draft, body, alias, alone, tables)
    table = tables.get(name.lower())
    return None if table is None else Source(table, alias, table.schema.time.name, alone)


def no_source(block: Block, tables: Mapping[str, Table], message: str, at: int) -> NoReturn:
    """Refuse what needs a table: one that FROM names and nobody has is the better reason."""
    draft, clause = block.draft, block.clauses.get("FROM")
    if clause is not None and clause.start < clause.end:
        token, after = draft.tokens[clause.start], draft.tokens[clause.start + 1 : clause.end]
        whole = token.is_name and not (after and after[0].is_symbol(".", "("))
        if whole and token.text.lower() not in tables and _common_table(draft, token.text, clause.start) is None:
            from tsdb.sql.outside import frames_maybe_named, not_found

            if not frames_maybe_named(draft.tokens[clause.keyword : clause.start + 1], tables):
                raise not_found(token.text, tables, f" ({draft.place(clause.start)})")
    draft.fail(message, at)


def names_source(token: Token) -> bool:
    """Whether a token after an item of FROM is its alias."""
    return token.is_name and token.upper not in _NEXT


def alias_behind(draft: Draft, at: int) -> str | None:
    """The alias of an item of FROM that ends before a position; '' where it has none, None where it renames columns, too."""
    tokens = draft.tokens
    at += at < len(tokens) and tokens[at].upper == "AS"
    if at == len(tokens) or not names_source(tokens[at]):
        return ""
    return None if at + 1 < len(tokens) and tokens[at + 1].is_symbol("(") else tokens[at].text


def is_common_table(draft: Draft, name: str, before: int) -> bool:
    """Whether a WITH clause before a position gives a name."""
    return _common_table(draft, name, before) is not None


def _alias(draft: Draft, at: int, end: int) -> str:
    tokens = draft.tokens
    if at < end and tokens[at].upper == "AS":
        at += 1
    return tokens[at].text if at < end and tokens[at].is_name and tokens[at].upper not in _NO_ALIAS else ""


def _common_table(draft: Draft, name: str, before: int) -> tuple[int, int] | None:
    """The parentheses of ``name AS (…)`` in a WITH clause before a position."""
    tokens = draft.tokens
    for at in range(before - 1):
        if not tokens[at].is_name or tokens[at].text.lower() != name.lower() or not _follows_with(draft, at):
            continue
        after = at + 1
        if tokens[after].is_symbol("("):
            after = closing(tokens, after) + 1
        if after < before and tokens[after].upper == "AS":
            after += 1
            while after < before and tokens[after].upper in ("NOT", "MATERIALIZED"):
                after += 1
            if after < before and tokens[after].is_symbol("("):
                return after, closing(tokens, after)
    return None


def _follows_with(draft: Draft, at: int) -> bool:
    before = draft.tokens[at - 1] if at else None
    return before is not None and (before.upper in ("WITH", "RECURSIVE") or before.is_symbol(","))


def _derived(draft: Draft, body: tuple[int, int], alias: str, alone: bool, tables: Mapping[str, Table]) -> Source | None:
    """A subquery: its time is that of the tables in it, if they agree."""
    inside = draft.tokens[body[0] : body[1]]
    named = [tables[token.text.lower()] for token in inside if token.is_name and token.text.lower() in tables]
    names = {table.schema.time.name for table in named}
    return Source(None, alias, names.pop(), alone) if len(names) == 1 else None
