"""``downsample``: the points that keep the shape of a curve, by the largest triangles (LTTB), which is DuckDB's ``lttb``.

As an aggregate, ``downsample(time, value, n)`` is a list of structs; in FROM, ``downsample((SELECT time, value, host …), n)`` is a
table with the columns of its query, whose columns behind the second tell curves apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.sql.series.aggregate import last_token
from tsdb.sql.series.block import Item, block_at
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.series.source import names_source, source_of

WORDS = frozenset({"DOWNSAMPLE"})
_TABLE_FORM = "downsample((SELECT time, value …), points)"
_FORM = f"downsample(time, value, points), or in FROM as {_TABLE_FORM}"


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """The list that DuckDB makes, with names for its fields, or a subquery that unnests it."""
    for call in calls(draft, WORDS):
        before = draft.tokens[call.at - 1] if call.at else None
        if before is not None and (before.upper in ("FROM", "JOIN") or (before.is_symbol(",") and len(call.arguments) == 2)):
            return _table(call, tables)
        call.require(3, 3, _FORM)
        call.only((), _FORM)
        block = block_at(draft, call.at)
        source = source_of(block, tables) if block is not None else None
        if source is not None:
            source.no_text(draft, call.arguments[1], "downsample")
        time, value, points = (call.text(argument) for argument in call.arguments)
        start, end = draft.span(call.at, last_token(draft, call.close) + 1)
        made = ("lttb(", time, ", ", value, ", ", points, " ORDER BY ", time, ")", (call.span[1], end))
        named = ("[{'time': p.x, 'value': p.y} FOR p IN ", *made, "]")
        return [Edit(start, end, named), *(block.keep_name(call.at) if block is not None else ())]
    return ()


def _table(call: Call, tables: Mapping[str, Table]) -> Sequence[Edit]:
    draft, tokens = call.draft, call.draft.tokens
    call.require(2, 2, _TABLE_FORM)
    call.only((), _TABLE_FORM)
    query, points = call.arguments
    block = block_at(draft, query[0] + 1) if tokens[query[0]].is_symbol("(") else None
    items = block.items() if block is not None and block.start > query[0] else []
    names = [_name(draft, item) for item in items]
    if len(names) < 2:
        draft.fail(f"downsample reads a query of a time and a value: {_TABLE_FORM}", query[0])
    source = source_of(block, tables) if block is not None else None
    if source is not None:
        source.no_text(draft, (items[1].start, items[1].end), "downsample")
    shown = [quoted_name(name) for name in names]
    keys = [f"k{number}" for number in range(1, len(names) - 1)]
    outputs = ", ".join(
        [f"p.x AS {shown[0]}", f"p.y AS {shown[1]}", *(f"{k} AS {name}" for k, name in zip(keys, shown[2:], strict=True))]
    )
    listed = "".join(f"{key}, " for key in keys)
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    after = call.close + 1
    unnamed = after >= len(tokens) or not (tokens[after].upper == "AS" or names_source(tokens[after]))
    return [
        Edit(
            *call.span,
            (
                f"(SELECT {outputs} FROM (SELECT {listed}unnest(lttb(x, y, ", call.text(points), " ORDER BY x)) AS p FROM ",
                call.text(query), f" AS s(x, y{''.join(f', {key}' for key in keys)}){grouped}) AS s)",
                " AS downsample" if unnamed else "",
            ),
        )
    ]  # fmt: skip


def _name(draft: Draft, item: Item) -> str:
    last = draft.tokens[item.end - 1]
    if item.alias is None and last.is_symbol("*"):
        draft.fail("downsample needs the columns by name: a time, a value, and what tells curves apart", item.start)
    plain = item.end - item.start == 1 or (item.end - item.start == 3 and draft.tokens[item.start + 1].is_symbol("."))
    return item.alias or (last.text if plain and last.is_name else draft.written(item.start, item.end))
