"""The select list of a join, computed by DuckDB over native rows: its text with columns named as the join names them.

Where every item makes a row's value from that row alone, wide columns are taken for the rows that are left of all else.
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
#: What gives names to things that are no columns of a side.
NAMING = (exp.Lambda, exp.Comprehension, exp.Kwarg, exp.PropertyEQ, exp.Columns, exp.PositionalColumn, exp.Pivot, exp.Lateral)
#: What a reference becomes above the joins, None where it names an item of the list; raises where it may be something else.
Name = Callable[[exp.Column], str | None]
#: The columns of ``*`` and ``t.*`` as text above the joins, with the names that are shown.
Star = Callable[[exp.Expr], Sequence[tuple[str, str]]]
#: A side whose columns can be named, and those of them that USING has made one with columns before.
Side = tuple[JoinSource, tuple[str, ...]]


def list_splices(
    query: Query, select: exp.Select, place: Range, sources: Sequence[Side], name: Name, star: Star, after: str = ""
) -> list[Splice] | None:
    """The changes that make the items of a list, tokens ``place``, read joined rows and keep their names; None where in doubt.

    ``after`` is what has to follow FROM for the list to be one: a GROUP BY, named windows. Items with an alias have their names.
    """
    tokens = query.tokens
    items = split(tokens, place)
    if len(items) != len(select.expressions):
        return None
    shown = _shown(query, items, select.expressions, sources, after)
    if shown is None:
        return None
    splices: list[Splice] = []
    for item, node, label in zip(items, select.expressions, shown, strict=True):
        start, end = text_place(tokens, item)
        if is_star(node):
            splices.append((start, end, ", ".join(f"{text} AS {quoted_name(label)}" for text, label in star(node))))
            continue
        for column in node.walk(prune=lambda each: isinstance(each, exp.Query)):
            if not isinstance(column, exp.Column):
                continue
            found, text = column_place(column), name(column)
            if found is None or not start <= found[0] < found[1] <= end:
                return None
            if text is not None:
                splices.append((*found, text))
        if label:
            splices.append((end, end, f" AS {quoted_name(label)}"))
    return splices


def is_star(node: exp.Expr) -> bool:
    """Whether an item is ``*`` or ``t.*``."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _shown(
    query: Query, items: Sequence[Range], nodes: Sequence[exp.Expr], sources: Sequence[Side], after: str
) -> list[str] | None:
    """The names that DuckDB shows for items without a name of their own, '' for the others."""
    from tsdb.exec.shown import shown_columns

    unnamed = [at for at, node in enumerate(nodes) if not isinstance(node, exp.Alias) and not is_star(node)]
    names = [""] * len(nodes)
    if not unnamed:
        return names
    tokens = query.tokens
    if any(token.kind == PARAMETER for at in unnamed for token in tokens[slice(*items[at])]):
        return None
    (first, _), *others = sources
    relations = "".join(_relation(source, merged) for source, merged in others)
    texts = ", ".join(query.text[slice(*text_place(tokens, items[at]))] for at in unnamed)
    found = shown_columns(f"SELECT {texts} FROM", _columns(first), f"AS {quoted_name(first.alias)}{relations} {after}")
    if found is None or len(found) != len(unnamed):
        return None
    for at, (label, _) in zip(unnamed, found, strict=True):
        names[at] = label
    return names


def _columns(source: JoinSource) -> tuple[tuple[str, str], ...]:
    return tuple((column.name, duckdb_name(column.type)) for column in (*source.columns, *source.extra))


def _relation(source: JoinSource, merged: Sequence[str]) -> str:
    from tsdb.exec.shown import empty_relation

    using = f" USING ({', '.join(map(quoted_name, merged))})" if merged else ""
    return f" {'JOIN' if merged else 'CROSS JOIN'} {empty_relation(_columns(source))} AS {quoted_name(source.alias)}{using}"


def column_place(column: exp.Column) -> tuple[int, int] | None:
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
