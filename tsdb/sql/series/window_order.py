"""``first(x)`` and ``last(x)`` over TUMBLE, HOP and SESSION of a table: by its time, as over the table itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.plan.schema import duckdb_name
from tsdb.quoting import quoted_name
from tsdb.sql.series.block import Block, Item, block_at
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.series.source import alias_behind, is_common_table
from tsdb.sql.series.window import arguments, in_from

WORDS = frozenset({"FIRST", "LAST"})


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """The calls of a SELECT whose first item of FROM is such windows, with an ORDER BY in them."""
    for call, start, stop in in_from(draft):
        block = block_at(draft, call.at)
        if block is None or "FROM" not in block.clauses or block.clauses["FROM"].start != start:
            continue
        parts = arguments(call)
        at, end = parts["data"]
        at += draft.tokens[at].upper == "TABLE" and end - at > 1
        name = draft.tokens[at]
        plain = end == at + 1 or draft.tokens[at + 1].upper == "PARTITION"
        table = tables.get(name.text.lower()) if plain and not is_common_table(draft, name.text, at) else None
        alias = alias_behind(draft, stop)
        if table is None or alias is None or not _is_time(draft, parts["timecol"], table):
            continue
        edits = _edits(block, table, alias or name.text)
        if edits:
            return edits
    return ()


def _is_time(draft: Draft, part: tuple[int, int], table: Table) -> bool:
    """Whether the windows go by the table's own time, in any of the forms that it is named in."""
    tokens = draft.tokens[slice(*part)]
    names = [token.text.lower() for token in tokens if token.upper != "DESCRIPTOR" and not token.is_symbol("(", ")")]
    return names == [table.schema.time.name.lower()]


def _edits(block: Block, table: Table, alias: str) -> list[Edit]:
    from tsdb.sql.by_time import ordered_by_time

    tokens = block.draft.tokens

    def spelt(column: str) -> str:
        return f"{quoted_name(alias)}.{quoted_name(column)}"

    def ordered(start: int, end: int) -> list[Edit]:
        return [Edit(low, high, (text,)) for low, high, text in ordered_by_time(tokens, (start, end), table.schema, spelt)]

    edits: list[Edit] = []
    for item in block.items():
        changed = ordered(item.start, item.end)
        edits += changed
        if changed and item.alias is None:
            edits += _keep_name(block, item, table, alias)
    for word in ("HAVING", "QUALIFY", "ORDER"):
        if word in block.clauses:
            edits += ordered(block.clauses[word].start, block.clauses[word].end)
    return edits


def _keep_name(block: Block, item: Item, table: Table, alias: str) -> list[Edit]:
    """The item goes by the name that DuckDB gives it as it is written."""
    from tsdb.exec.shown import shown_columns

    columns = [(column.name, duckdb_name(column.type)) for column in table.schema]
    columns += [("window_start", "TIMESTAMP"), ("window_end", "TIMESTAMP")]
    group = "GROUP BY ALL" if block.grouped else ""
    text = block.draft.written(item.start, item.end)
    shown = shown_columns(f"SELECT {text} FROM", tuple(columns), f"AS {quoted_name(alias)} {group}")
    if shown is None or len(shown) != 1:
        return block.keep_name(item.start)
    end = block.draft.tokens[item.end - 1].end
    return [Edit(end, end, (f" AS {quoted_name(shown[0][0])}",))]
