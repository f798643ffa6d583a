"""The select list of a join, computed by DuckDB over native rows: its text with columns named as the join names them.

A list whose every item makes a row's value from that row alone is computed over the joined rows, and wide columns are then taken
for these rows only. Aggregates, windows and whatever reads other rows leave the whole SELECT to DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from tsdb.plan.schema import duckdb_name
from tsdb.quoting import quoted_name
from tsdb.sql.clause import text_place
from tsdb.sql.join_source import JoinSource
from tsdb.sql.nesting import Range, nesting, split
from tsdb.sql.statement import Query
from tsdb.sql.token import PARAMETER, Token
from tsdb.sql.tree import span

Splice = tuple[int, int, str]
#: The name above the joins of the column that a reference names; raises where it names none.
Name = Callable[[exp.Column], str]


def list_splices(query: Query, select: exp.Select, place: Range, sources: Sequence[JoinSource], name: Name) -> list[Splice] | None:
    """The changes that make the items of a list, tokens ``place``, read joined rows and keep their names; None where in doubt."""
    tokens = query.tokens
    items = split(tokens, place)
    if len(items) != len(select.expressions) or any(token.kind == PARAMETER for token in tokens[place[0] : place[1]]):
        return None
    shown = _shown(query, place, sources)
    if shown is None or len(shown) != len(items):
        return None
    splices: list[Splice] = []
    for item, node, label in zip(items, select.expressions, shown, strict=True):
        for column in node.find_all(exp.Column):
            found = _column_place(column)
            if found is None or not text_place(tokens, item)[0] <= found[0] < found[1] <= text_place(tokens, item)[1]:
                return None
            splices.append((*found, quoted_name(name(column))))
        if not isinstance(node, exp.Alias):
            end = text_place(tokens, item)[1]
            splices.append((end, end, f" AS {quoted_name(label)}"))
    return splices


def _shown(query: Query, place: Range, sources: Sequence[JoinSource]) -> list[str] | None:
    """The names that DuckDB shows."""
    from tsdb.exec.shown import empty_relation, shown_columns

    relations = [tuple((column.name, duckdb_name(column.type)) for column in (*each.columns, *each.extra)) for each in sources]
    start, end = text_place(query.tokens, place)
    others = "".join(f", {empty_relation(r)} AS {quoted_name(s.alias)}" for r, s in zip(relations[1:], sources[1:], strict=True))
    found = shown_columns(f"SELECT {query.text[start:end]} FROM", relations[0], f"AS {quoted_name(sources[0].alias)}{others}")
    return None if found is None else [name for name, _ in found]


def _column_place(column: exp.Column) -> tuple[int, int] | None:
    """The place of a reference in the text, its qualifier included."""
    qualifier = column.args.get("table")
    last = span(column.this)
    first = last if qualifier is None else span(qualifier)
    return None if first is None or last is None else (first[0], last[1])


def list_place(tokens: Sequence[Token], first: exp.Expr) -> Range | None:
    """The items' tokens between a leading SELECT and the FROM before its ``first`` item."""
    inside = next((found for node in first.find_all(exp.Identifier) if (found := span(node)) is not None), None)
    if inside is None or tokens[0].upper != "SELECT" or tokens[1].upper in ("ALL", "DISTINCT"):
        return None
    depth = 0
    for at, token in enumerate(tokens):
        depth += nesting(token)
        if depth == 0 and token.upper == "FROM" and tokens[at - 1].upper != "DISTINCT":  # IS DISTINCT FROM
            return (1, at) if at > 1 and token.start < inside[0] else None
    return None
