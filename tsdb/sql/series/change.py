"""How a value changes from row to row: ``diff``, ``delta``, ``increase``, ``rate``, ``derivative``, ``moving_avg`` and its kin.

They are window functions. Without OVER the rows are those of each device in the order of time. A row whose value is NULL is passed
over: it has no change, and the next one is compared with the last that had a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tsdb.catalog.table import Table
from tsdb.sql.nesting import at_top, closing, split
from tsdb.sql.series.block import Block, block_at
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft, Edit, Part
from tsdb.sql.series.source import no_source, source_of
from tsdb.sql.series.width import interval
from tsdb.sql.token import NUMBER, PARAMETER

_MOVING = {f"MOVING_{name}": name.lower() for name in ("AVG", "SUM", "MIN", "MAX", "COUNT", "STDDEV", "MEDIAN")}
_CHANGES = frozenset({"DIFF", "DELTA", "INCREASE", "RATE", "DERIVATIVE"})
WORDS = _CHANGES | frozenset(_MOVING)
_ORDER_ENDS = frozenset({"ASC", "DESC", "NULLS", "ROWS", "RANGE", "GROUPS"})


@dataclass(frozen=True, slots=True)
class _Window:
    """The inside of OVER's parentheses, the expression that it is ordered by, and the token behind the clause."""

    body: tuple[Part, ...]
    order: tuple[Part, ...] | None
    end: int


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """A difference from what ``lag`` gives, or an aggregate over a frame."""
    found = list(calls(draft, WORDS))
    if not found:
        return ()
    call = found[-1]
    name = draft.tokens[call.at].text
    form = f"{name}(value, rows or width)" if call.name in _MOVING else f"{name}(value)"
    call.require(*((2, 2) if call.name in _MOVING else (1, 1)), form)
    call.only((), form)
    block = block_at(draft, call.at)
    if len(found) > 1 and call.at in found[-2] and block == block_at(draft, found[-2].at):
        draft.fail(f"{name} stands inside of {draft.tokens[found[-2].at].text}: compute it in a subquery", call.at)
    _refuse_in_window(call, block)
    _check(call, block, tables)
    window = _window(call, block, tables)
    value: tuple[Part, ...] = ("(", call.text(call.arguments[0]), ")")
    made = _moving(call, window) if call.name in _MOVING else _changed(call, value, window)
    start, end = draft.span(call.at, window.end)
    return [Edit(start, end, made), *(block.keep_name(call.at) if block is not None else ())]


def _refuse_in_window(call: Call, block: Block | None) -> None:
    """Fail where it stands in a window's definition, which has no windows."""
    draft = call.draft
    tokens = draft.tokens
    inside = [
        (at + 1, closing(tokens, at + 1))
        for at in range(call.at - 1)
        if tokens[at].upper == "OVER" and tokens[at + 1].is_symbol("(") and block == block_at(draft, at)
    ]
    clause = block.clauses.get("WINDOW") if block is not None else None
    inside += [(clause.start, clause.end)] if clause is not None else []
    if any(start <= call.at < end for start, end in inside):
        draft.fail(f"{tokens[call.at].text} is of a window, and stands in the definition of one: compute it in a subquery", call.at)


def _check(call: Call, block: Block | None, tables: Mapping[str, Table]) -> None:
    """Refuse a range of PromQL's and a column of text."""
    draft, (start, end) = call.draft, call.arguments[0]
    name = draft.tokens[call.at].text
    for at in range(start + 1, end - 2):
        tokens = draft.tokens[at : at + 3]
        if tokens[0].is_symbol("[") and tokens[1].kind == NUMBER and tokens[2].is_name and tokens[2].start == tokens[1].end:
            plain = f"{name}({draft.written(start, at)})"
            draft.fail(f"{name} takes no range: {plain} is from row to row, and SAMPLE BY over it averages", at)
    source = source_of(block, tables) if block is not None else None
    if source is not None and _MOVING.get(call.name) not in ("min", "max", "count"):
        source.no_text(draft, call.arguments[0], name)


def _changed(call: Call, value: tuple[Part, ...], window: _Window) -> tuple[Part, ...]:
    over: tuple[Part, ...] = (" IGNORE NULLS) OVER (", *window.body, ")")
    before: tuple[Part, ...] = ("lag(", *value, *over)
    change: tuple[Part, ...] = (*value, " - ", *before)
    if call.name in ("INCREASE", "RATE"):
        change = (
            "CASE WHEN ",
            *value,
            " >= ",
            *before,
            " THEN ",
            *change,
            " WHEN ",
            *value,
            " < ",
            *before,
            " THEN ",
            *value,
            " END",
        )
    if call.name not in ("RATE", "DERIVATIVE"):
        return ("(", *change, ")")
    if window.order is None:
        call.draft.fail(f"{call.name.lower()} needs a window in the order of time: OVER (… ORDER BY time)", call.at)
    now: tuple[Part, ...] = ("epoch_ns(", *window.order, ")")
    then: tuple[Part, ...] = ("lag(CASE WHEN ", *value, " IS NOT NULL THEN ", *now, " END", *over)
    return ("((", *change, ") / nullif((", *now, " - ", *then, ") / 1e9, 0))")


def _moving(call: Call, window: _Window) -> tuple[Part, ...]:
    draft, (value, (start, end)) = call.draft, call.arguments
    token = draft.tokens[start]
    frame: tuple[Part, ...]
    if end - start == 1 and token.kind == NUMBER:
        if not token.text.isdigit() or int(token.text) == 0:
            draft.fail(f"a frame has a whole number of rows, not {token.text}", start)
        frame = (f" ROWS BETWEEN {int(token.text) - 1} PRECEDING AND CURRENT ROW)",)
    elif end - start == 1 and token.kind == PARAMETER:
        frame = (" ROWS BETWEEN (", draft.span(start, end), " - 1) PRECEDING AND CURRENT ROW)")
    else:
        frame = (" RANGE BETWEEN ", *interval(draft, start, end), " PRECEDING AND CURRENT ROW)")
    return (f"{_MOVING[call.name]}(", call.text(value), ") OVER (", *window.body, *frame)


def _window(call: Call, block: Block | None, tables: Mapping[str, Table]) -> _Window:
    draft, tokens, after = call.draft, call.draft.tokens, call.close + 1
    if after < len(tokens) and tokens[after].upper == "FILTER":
        draft.fail(f"{tokens[call.at].text} takes no FILTER: it compares a row with the one before it", after)
    if after < len(tokens) and tokens[after].upper == "OVER":
        if after + 1 < len(tokens) and tokens[after + 1].is_symbol("("):
            close = closing(tokens, after + 1)
            if close == len(tokens):
                draft.fail("the parenthesis does not close", after + 1)
            body = draft.span(after + 2, close) if close > after + 2 else ""
            return _Window((body,), _order(draft, after + 2, close), close + 1)
        return _named(draft, block, after + 1)
    if block is not None and block.grouped:
        draft.fail(f"{tokens[call.at].text} compares rows, not groups: compute it in a subquery, and aggregate that", call.at)
    source = source_of(block, tables) if block is not None else None
    if source is None or source.table is None or not source.alone:
        message = f"{tokens[call.at].text} over a join or a subquery needs its window: OVER (PARTITION BY … ORDER BY time)"
        if block is None:
            draft.fail(message, call.at)
        no_source(block, tables, message, call.at)
    partition = f"PARTITION BY {', '.join(source.tags)} " if source.tags else ""
    return _Window((f"{partition}ORDER BY {source.time}",), (source.time,), after)


def _named(draft: Draft, block: Block | None, at: int) -> _Window:
    """OVER w."""
    tokens = draft.tokens
    if at >= len(tokens) or not tokens[at].is_name:
        draft.expected("a window after OVER", at)
    clause = block.clauses.get("WINDOW") if block is not None else None
    for start, end in split(tokens, (clause.start, clause.end)) if clause is not None else ():
        if end - start > 3 and tokens[start].text.lower() == tokens[at].text.lower() and tokens[start + 1].upper == "AS":
            return _Window((draft.span(at, at + 1),), _order(draft, start + 3, end - 1), at + 1)
    return draft.fail(f"there is no window {tokens[at].text!r}", at)


def _order(draft: Draft, start: int, end: int) -> tuple[Part, ...] | None:
    """The first expression of ORDER BY in [start, end)."""
    tokens = draft.tokens
    first = next(
        (at + 2 for at in at_top(tokens, start, end) if tokens[at].upper == "ORDER" and tokens[at + 1].upper == "BY"), None
    )
    if first is None or first >= end:
        return None
    last = next((at for at in at_top(tokens, first, end) if tokens[at].upper in _ORDER_ENDS or tokens[at].is_symbol(",")), end)
    return (draft.span(first, last),)
