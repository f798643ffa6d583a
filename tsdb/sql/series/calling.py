"""Functions that DuckDB has under another name: ``date_bin`` (PostgreSQL), ``first_by`` and ``last_by`` (IoTDB); ``1h``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.sql.series.block import block_at
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.series.width import interval
from tsdb.sql.token import NUMBER, STRING

_BY = {"FIRST_BY": "arg_min_null", "LAST_BY": "arg_max_null", "FIRST": "arg_min_null", "LAST": "arg_max_null"}
WORDS = frozenset({"DATE_BIN", "TIME_BUCKET", *_BY})


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """Another name for the function, and its arguments as DuckDB takes them."""
    for call in calls(draft, WORDS):
        edits = _edits(call)
        if edits:
            block = block_at(draft, call.at)
            return [*edits, *(block.keep_name(call.at) if block is not None else ())]
    return ()


def _edits(call: Call) -> list[Edit]:
    draft, (start, end) = call.draft, call.draft.span(call.at, call.at + 1)
    if call.name in _BY:
        if call.name in ("FIRST", "LAST") and (len(call.arguments) != 2 or call.ordered):
            return []
        call.require(2, 2, f"{call.name.lower()}(value, time)")
        return [Edit(start, end, (_BY[call.name],))]
    if call.name == "TIME_BUCKET":
        return _width(call) if call.arguments and draft.tokens[call.arguments[0][0]].kind == NUMBER else []
    call.require(2, 3, "date_bin(width, time[, origin])")
    call.only((), "date_bin(width, time[, origin])")
    edits = [Edit(start, end, ("time_bucket",)), *_width(call)]
    if len(call.arguments) == 3 and draft.tokens[call.arguments[2][0]].kind == STRING:
        origin = draft.span(*call.arguments[2])
        edits.append(Edit(origin[0], origin[0], ("TIMESTAMP ",)))
    return edits


def _width(call: Call) -> list[Edit]:
    part = call.arguments[0]
    made = interval(call.draft, *part)
    return [] if made == (call.text(part),) else [Edit(*call.text(part), made)]
