"""``TUMBLE``, ``HOP`` and ``SESSION`` in FROM (Flink, IoTDB): the rows of a table with the windows that they fall into.

Every column is passed on, with ``window_start`` and ``window_end`` behind them; a window is [start, end).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.sql.nesting import Range, at_top
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft, Edit, Part
from tsdb.sql.series.source import names_source
from tsdb.sql.series.width import interval
from tsdb.sql.token import STRING

WORDS = frozenset({"TUMBLE", "HOP", "SESSION", "CUMULATE"})
_FORMS = {
    "TUMBLE": "TUMBLE(table, time, size[, origin])",
    "HOP": "HOP(table, time, slide, size[, origin])",
    "SESSION": "SESSION(table, time, gap) or SESSION(table PARTITION BY …, time, gap)",
}
#: Names of arguments by position: Flink's order, in which HOP's slide comes before its size.
_NAMES = {
    "TUMBLE": ("data", "timecol", "size", "origin"),
    "HOP": ("data", "timecol", "slide", "size", "origin"),
    "SESSION": ("data", "timecol", "gap", "partition"),
}


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """A subquery that computes the windows."""
    for call, start, stop in reversed(list(in_from(draft))):
        return [Edit(*draft.span(start, stop), (*_subquery(call), alias(draft, call, stop)))]
    return ()


def in_from(draft: Draft) -> Iterator[tuple[Call, int, int]]:
    """The calls that are items of FROM, outer ones first, and the tokens [start, stop) that each takes."""
    tokens = draft.tokens
    for call in calls(draft, WORDS):
        start = call.at
        before = tokens[start - 1] if start else None
        wrapped = start > 1 and before is not None and before.is_symbol("(") and tokens[start - 2].upper == "TABLE"
        if wrapped:  # Flink's TABLE(TUMBLE(…))
            if call.close + 1 == len(tokens) or not tokens[call.close + 1].is_symbol(")"):
                draft.expected("')'", call.close + 1)
            start -= 2
            before = tokens[start - 1] if start else None
        if before is None or not (before.upper in ("FROM", "JOIN") or before.is_symbol(",")):
            continue
        if call.name == "CUMULATE":
            draft.fail("there is no CUMULATE: TUMBLE makes its steps, sum(…) OVER (… ORDER BY window_start) adds them up", call.at)
        yield call, start, call.close + 1 + wrapped


def arguments(call: Call) -> dict[str, Range]:
    """The arguments by name: data, timecol, and slide, size, gap, origin, partition where there are any."""
    form, names = _FORMS[call.name], _NAMES[call.name]
    call.only(names, form)
    if call.name == "SESSION":
        call = _with_keys(call)
    call.require(len(names) - 1, len(names), form)
    parts = dict(zip(names, call.arguments, strict=False)) | call.named
    missing = [name for name in names[:-1] if name not in parts]
    if missing:
        call.draft.fail(f"{call.name} lacks its {missing[0]}: it is written {form}", call.at)
    return parts


def _subquery(call: Call) -> tuple[Part, ...]:
    parts = arguments(call)
    data, keys = _data(call, parts["data"])
    time = time_column(call, parts["timecol"])
    if call.name == "SESSION":
        return _session(call, data, time, interval(call.draft, *parts["gap"]), keys or _partition(call, parts.get("partition")))
    if keys is not None:
        call.draft.fail(f"{call.name} takes no PARTITION BY: its windows are the same for all rows", parts["data"][0])
    size = interval(call.draft, *parts["size"])
    origin = origin_of(call, parts.get("origin"))
    if call.name == "TUMBLE":
        start: tuple[Part, ...] = ("time_bucket(", *size, ", ", *time, *origin, ")")
        return ("(SELECT *, ", *start, " AS window_start, ", *start, " + ", *size, " AS window_end FROM ", *data, ")")
    slide = interval(call.draft, *parts["slide"])
    last: tuple[Part, ...] = ("time_bucket(", *slide, ", ", *time, *origin, ")")
    first: tuple[Part, ...] = ("CAST(", *time, " AS TIMESTAMP) - ", *size)
    starts: tuple[Part, ...] = ("unnest(range(", *last, ", ", *first, ", -(", *slide, "))) AS window_start")
    return ("(SELECT *, window_start + ", *size, " AS window_end FROM (SELECT *, ", *starts, " FROM ", *data, "))")


def _with_keys(call: Call) -> Call:
    """The call with the columns of PARTITION BY in one argument: their commas look like those between arguments."""
    tokens, arguments, named = call.draft.tokens, list(call.arguments), dict(call.named)
    listed = named.get("data")
    if listed is not None and any(tokens[at].upper == "PARTITION" for at in range(*listed)):
        more = [end for start, end in arguments if start > listed[1]]
        return replace(call, arguments=(), named={**named, "data": (listed[0], max((listed[1], *more)))})
    at = next((at for at, part in enumerate(arguments) if any(tokens[i].upper == "PARTITION" for i in range(*part))), None)
    if at is None:
        return call
    extra = min(len(arguments) - (3 if at == 0 else 4), len(arguments) - 1 - at)
    if extra > 0:
        arguments[at : at + extra + 1] = [(arguments[at][0], arguments[at + extra][1])]
    return replace(call, arguments=tuple(arguments))


def _session(
    call: Call, data: tuple[Part, ...], time: tuple[Part, ...], gap: tuple[Part, ...], keys: tuple[Part, ...] | None
) -> tuple[Part, ...]:
    """Rows numbered by session: one starts where the row before is more than the gap away."""
    partition: tuple[Part, ...] = ("PARTITION BY ", *keys, " ") if keys else ("",)
    ordered: tuple[Part, ...] = ("(", *partition, "ORDER BY ", *time, ")")
    starts: tuple[Part, ...] = ("CASE WHEN ", *time, " - lag(", *time, ") OVER ", *ordered, " <= ", *gap, " THEN 0 ELSE 1 END")
    marked: tuple[Part, ...] = ("(SELECT *, ", *starts, " AS __series_starts FROM ", *data, ")")
    running: tuple[Part, ...] = ("sum(__series_starts) OVER (", *partition, "ORDER BY ", *time, " ROWS UNBOUNDED PRECEDING)")
    numbered: tuple[Part, ...] = ("(SELECT *, ", *running, " AS __series_session FROM ", *marked, ")")
    session: tuple[Part, ...] = ("(PARTITION BY ", *((*keys, ", ") if keys else ()), "__series_session)")
    return (
        "(SELECT * EXCLUDE (__series_starts, __series_session), CAST(min(", *time, ") OVER ", *session,
        " AS TIMESTAMP) AS window_start, CAST(max(", *time, ") OVER ", *session, " AS TIMESTAMP) + ", *gap, " AS window_end FROM ",
        *numbered, ")",
    )  # fmt: skip


def _data(call: Call, part: Range) -> tuple[tuple[Part, ...], tuple[Part, ...] | None]:
    """The table or parenthesised query, and the columns of a PARTITION BY behind it."""
    draft, tokens = call.draft, call.draft.tokens
    start, end = part
    if tokens[start].upper == "TABLE" and end - start > 1:
        start += 1
    cuts = {tokens[at].upper: at for at in at_top(tokens, start, end) if tokens[at].upper in ("PARTITION", "ORDER")}
    stop = min(cuts.values(), default=end)
    keys: tuple[Part, ...] | None = None
    if "PARTITION" in cuts:
        keys = (draft.span(cuts["PARTITION"] + 2, cuts.get("ORDER", end)),)
    name = draft.span(start, stop)
    if tokens[start].kind == STRING and stop - start == 1:
        return (quoted_name(tokens[start].text),), keys
    return (name,), keys


def _partition(call: Call, part: Range | None) -> tuple[Part, ...] | None:
    """The columns of the last argument, ``PARTITION BY a, b``."""
    if part is None:
        return None
    draft, tokens, (start, end) = call.draft, call.draft.tokens, part
    if tokens[start].upper == "PARTITION":
        start += 2
    elif "partition" not in call.named:
        draft.expected("PARTITION BY", start)
    return (draft.span(start, end),)


def time_column(call: Call, part: Range) -> tuple[Part, ...]:
    """The time column: a name, a name as a string, or DESCRIPTOR(name)."""
    tokens, (start, end) = call.draft.tokens, part
    if tokens[start].kind == STRING and end - start == 1:
        return (quoted_name(tokens[start].text),)
    if tokens[start].upper == "DESCRIPTOR" and end - start == 4:
        return (call.draft.span(start + 2, start + 3),)
    return (call.draft.span(start, end),)


def origin_of(call: Call, part: Range | None) -> tuple[Part, ...]:
    """The last argument of ``time_bucket``, with the comma before it."""
    if part is None:
        return ()
    literal = call.draft.tokens[part[0]].kind == STRING
    return (", TIMESTAMP " if literal else ", ", call.text(part))


def alias(draft: Draft, call: Call, after: int) -> str:
    """The table's own name for what has no alias, so that columns may be qualified by it."""
    tokens = draft.tokens
    data = call.argument(0, "data")
    if data is None or (after < len(tokens) and (tokens[after].upper == "AS" or names_source(tokens[after]))):
        return ""
    start = data[0] + (tokens[data[0]].upper == "TABLE")
    return f" AS {quoted_name(tokens[start].text)}" if tokens[start].is_name or tokens[start].kind == STRING else ""
