"""Days, weeks and months of a zone: ``time_bucket('1 day', time, 'Europe/Berlin')``, ``date_trunc('day', time, 'Europe/Berlin')``.

Times are UTC without a zone, and so is what comes out: the moment at which the zone's day starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.sql.nesting import Range
from tsdb.sql.series.block import block_at
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft, Edit, Part
from tsdb.sql.series.source import source_of
from tsdb.sql.series.width import interval
from tsdb.sql.token import STRING

WORDS = frozenset({"TIME_BUCKET", "DATE_TRUNC"})
_NAME = re.compile(r"[A-Za-z][A-Za-z_]*(?:/[A-Za-z0-9_+-]+)*|[A-Z]{3}[0-9][A-Z]{3}")
_NO_ZONES = frozenset({"epoch", "infinity"})


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """The time gets the zone UTC, is cut in the zone wanted, and loses the zone again."""
    for call in calls(draft, WORDS):
        if call.named:
            _require_zone(call)
        if call.named or (len(call.arguments) == 3 and _is_zone(call) and (call.name == "DATE_TRUNC" or _is_ours(call, tables))):
            block = block_at(draft, call.at)
            made = (_bucketed if call.name == "TIME_BUCKET" else _truncated)(call)
            return [Edit(*call.span, made), *(block.keep_name(call.at) if block is not None else ())]
    return ()


def is_zone(draft: Draft, start: int, end: int) -> bool:
    """Whether the tokens [start, end) are a string that names a time zone."""
    token = draft.tokens[start]
    named = token.kind == STRING and _NAME.fullmatch(token.text) is not None and token.text.lower() not in _NO_ZONES
    return end - start == 1 and named


def bucket(width: Sequence[Part], time: Sequence[Part], zone: Part) -> tuple[Part, ...]:
    """The moment at which a zone's bucket around a time starts."""
    return ("timezone('UTC', time_bucket(", *width, ", CAST(", *time, " AS TIMESTAMPTZ), ", zone, "))")


def _is_zone(call: Call) -> bool:
    return is_zone(call.draft, *_arguments(call)[2])


def _arguments(call: Call) -> Sequence[Range]:
    return (*call.arguments, *call.named.values())


def _require_zone(call: Call) -> None:
    """Fail unless the named argument is ``timezone`` and names one."""
    form = (
        f"{call.draft.tokens[call.at].text}({'width' if call.name == 'TIME_BUCKET' else 'part'}, time, timezone => 'Europe/Paris')"
    )
    call.only(("timezone",), form)
    call.require(3, 3, form)
    if not _is_zone(call):
        call.draft.fail(
            f"a time zone has a name such as 'Europe/Paris', not {call.draft.written(*call.named['timezone'])}", call.at
        )


def _is_ours(call: Call, tables: Mapping[str, Table]) -> bool:
    """Whether the time is a column of the table: a moment with a zone is DuckDB's own case."""
    draft, (start, end) = call.draft, call.arguments[1]
    tokens = draft.tokens[start:end]
    if len(tokens) not in (1, 3) or not tokens[-1].is_name or (len(tokens) == 3 and not tokens[1].is_symbol(".")):
        return False
    block = block_at(draft, call.at)
    source = source_of(block, tables) if block is not None else None
    if source is None:
        return False
    names = {source.time_name.lower()} if source.table is None else {column.name.lower() for column in source.table.schema}
    return tokens[-1].text.lower() in names


def _bucketed(call: Call) -> tuple[Part, ...]:
    width, time, zone = _arguments(call)
    return bucket(interval(call.draft, *width), (call.text(time),), call.text(zone))


def _truncated(call: Call) -> tuple[Part, ...]:
    part, time, zone = (call.text(argument) for argument in _arguments(call))
    local: tuple[Part, ...] = ("timezone(", zone, ", CAST(", time, " AS TIMESTAMPTZ))")
    return ("timezone('UTC', timezone(", zone, ", CAST(date_trunc(", part, ", ", *local, ") AS TIMESTAMP)))")
