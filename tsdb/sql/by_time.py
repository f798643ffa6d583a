"""``first(x)`` and ``last(x)`` where DuckDB computes them: by time, as ours do, and not in the order in which rows come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.schema import duckdb_name
from tsdb.quoting import quoted_name
from tsdb.sql.call import CallText, read_call
from tsdb.sql.clause import Clauses, find_clauses, text_place
from tsdb.sql.environment import Environment
from tsdb.sql.nesting import Range, closing
from tsdb.sql.select import plain_table, refer
from tsdb.sql.statement import Query
from tsdb.sql.table_text import TableText
from tsdb.sql.token import Token
from tsdb_format.schema import Schema

Splice = tuple[int, int, str]
_NAMES = frozenset({"first", "last"})


def by_time_splices(
    query: Query, select: exp.Select, tables: Mapping[str, Table], environment: Environment
) -> tuple[list[Splice], list[str]]:
    """The changes that make the calls of one SELECT go by the time of its first table, among equal times by its tags; and the
    columns that these read. A column of the result keeps the name that it would have had.
    """
    from_ = select.args.get("from_")
    node = plain_table(from_.this) if from_ is not None else None
    reference = None if node is None else refer(node, tables)
    if reference is None or not any(token.is_name and token.text.lower() in _NAMES for token in query.tokens):
        return [], []
    clauses = find_clauses(query.tokens, select, reference.node)
    if clauses is None:
        return [], []
    text, schema = TableText(query, reference, environment), reference.table.schema
    splices: list[Splice] = []

    def spelt(column: str) -> str:
        return f"{quoted_name(reference.alias)}.{quoted_name(column)}"

    for place, item in zip(clauses.items, select.expressions, strict=True):
        changed = list(ordered_by_time(query.tokens, place, schema, spelt))
        splices += changed
        if changed and not isinstance(item, exp.Alias):
            shown = _shown(text, clauses, place)
            end = text_place(query.tokens, place)[1]
            splices += [] if shown is None else [(end, end, f" AS {quoted_name(shown)}")]
    others = [clauses.body(word) for word in ("HAVING", "QUALIFY", "ORDER")]
    splices += [each for place in others if place is not None for each in ordered_by_time(query.tokens, place, schema, spelt)]
    return splices, [schema.time.name, *(tag.name for tag in schema.tags)] if splices else []


def ordered_by_time(tokens: Sequence[Token], place: Range, schema: Schema, spelt: Callable[[str], str]) -> Iterator[Splice]:
    """The changes that make the calls at a place go by the time of a table, whose columns are ``spelt`` so."""
    for call in _calls(tokens, place):
        yield from _by_time(tokens, call, schema, spelt)


def _calls(tokens: Sequence[Token], place: Range) -> Iterator[CallText]:
    """The calls of a SELECT's own, not those of its subqueries."""
    at, stop = place
    while at < stop:
        token = tokens[at]
        if token.is_symbol("(") and at + 1 < stop and tokens[at + 1].upper in ("SELECT", "FROM", "WITH", "VALUES"):
            at = closing(tokens, at)
            continue
        call = read_call(tokens, at, stop) if token.is_name and token.text.lower() in _NAMES else None
        if call is not None and call.plain and len(call.arguments) == 1:
            yield call
        at += 1


def _by_time(tokens: Sequence[Token], call: CallText, schema: Schema, spelt: Callable[[str], str]) -> list[Splice]:
    """``first(x ORDER BY …)``: the first of the last by time is the last."""
    name, (_, end) = tokens[call.start], text_place(tokens, call.arguments[0])
    order = [f"{spelt(schema.time.name)}{' DESC' if call.name == 'last' else ''}", *(spelt(tag.name) for tag in schema.tags)]
    return [(name.start, name.end, "first"), (end, end, f" ORDER BY {', '.join(order)}")]


def _shown(text: TableText, clauses: Clauses, place: Range) -> str | None:
    """The name that DuckDB gives to an item; None where it is more than the table's columns tell."""
    from tsdb.exec.shown import shown_columns

    columns = tuple((column.name, duckdb_name(column.type)) for column in text.reference.table.schema)
    group = "GROUP BY ALL" if "GROUP" in clauses.spans else ""
    shown = shown_columns(f"SELECT {text.text(place)} FROM", columns, f"AS {quoted_name(text.reference.alias)} {group}")
    return shown[0][0] if shown is not None and len(shown) == 1 else None
