"""Groups, buckets and newest rows as Hypothesis strategies, over the tables of ``random_table``.

Where the order of ties decides, DuckDB is asked in words that spell it out: of rows that are equally new, the first in the order of
storage counts.
"""

from __future__ import annotations

from hypothesis import strategies as st

from support.oracle import Question
from support.random_sql import LIMITS, wheres
from support.random_table import has_extremes, random_tables

_DIRECTIONS = st.sampled_from(["", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC"])
_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_WIDTHS = ("2 seconds", "7 seconds", "1 minute", "1 day", "1 month", "3 months", "1 year")
_BUCKETS = [
    *(f"date_trunc('{unit}', time)" for unit in _UNITS),
    *(f"time_bucket(INTERVAL '{width}', time)" for width in _WIDTHS),
    "time_bucket(INTERVAL '250 milliseconds', time)", "time_bucket(INTERVAL '5 seconds', time, INTERVAL '2 seconds')",
    "time_bucket(INTERVAL '11 seconds', time, TIMESTAMP '2024-02-28 23:59:59')", "time::DATE", "CAST(time AS DATE)",
]  # fmt: skip
_KEYS = [
    "host", "host", "slot", "slot", "up", "level", "day", "note", "seen", "usage", "odd", "upper(host)", "coalesce(slot, -1)",
    "host || '/' || slot", "slot % 2", "host IS NULL", "CASE WHEN host > 'a' THEN 'late' ELSE host END", "length(note)",
]  # fmt: skip
_NUMBERS = ("usage", "odd", "small", "count", "level", "slot")
_ANY = (*_NUMBERS, "note", "host", "up", "day", "seen", "raw", "time")


@st.composite
def _calls(draw: st.DrawFn) -> tuple[str, str]:
    """A call of an aggregate, for tsdb and for DuckDB."""
    number, value = draw(st.sampled_from(_NUMBERS)), draw(st.sampled_from(_ANY))
    condition = draw(
        st.sampled_from(["up", "level > 0", "usage > 1", "note IS NULL", "host = 'a'", "count <> 7", "slot = 1 OR up"])
    )
    match draw(st.integers(0, 13)):
        case 0:
            text = "count(*)"
        case 1:
            text = f"count({value})"
        case 2 | 3:
            text = f"{draw(st.sampled_from(['min', 'max']))}({value})"
        case 4 | 5:
            text = f"{draw(st.sampled_from(['sum', 'avg']))}({number})"
        case 6:
            name = draw(st.sampled_from(["stddev", "var_pop", "variance", "stddev_pop"]))
            text = f"{name}({draw(st.sampled_from(['usage', 'level']))})"
        case 7:
            text = f"count_if({condition})"
        case 8:
            text = f"{draw(st.sampled_from(['count', 'max', 'sum', 'avg']))}({number}) FILTER (WHERE {condition})"
        case 9:
            text = f"count(DISTINCT {value})"
        case 10:
            return _by(draw(st.sampled_from(["first", "last"])), value, "time", keeps=True, single=True)
        case 11:
            by = draw(st.sampled_from(("time", "usage", "count", "level")))
            return _by(draw(st.sampled_from(["first_by", "last_by"])), value, by, keeps=True)
        case 12:
            by = draw(st.sampled_from(("time", "usage", "odd", "count", "level")))
            return _by(draw(st.sampled_from(["arg_min", "arg_max", "min_by", "max_by"])), value, by, keeps=False)
        case _:
            text = f"max({number}) - min({number})"
    return text, text


def _by(name: str, value: str, by: str, *, keeps: bool, single: bool = False) -> tuple[str, str]:
    """The value of the row that comes first or last by a column; ``keeps``: also where that value is NULL."""
    direction = "" if name in ("first", "first_by", "arg_min", "min_by") else " DESC"
    given = f"{by} IS NOT NULL" + ("" if keeps else f" AND {value} IS NOT NULL")
    spelled = f"first({value} ORDER BY {by}{direction} /*ties {{t}}*/) FILTER (WHERE {given})"
    return f"{name}({value})" if single else f"{name}({value}, {by})", spelled


@st.composite
def grouped(draw: st.DrawFn, seed: int) -> Question:
    """Aggregates by buckets, tags, fields and expressions, with HAVING, an order and a limit."""
    table = draw(st.sampled_from("tts"))
    drawn = draw(st.lists(_calls(), min_size=1, max_size=5, unique=True))
    keys = draw(st.lists(st.sampled_from(_KEYS), max_size=2, unique=True))
    if not has_extremes(seed) and draw(st.booleans()):
        keys.insert(draw(st.integers(0, len(keys))), draw(st.sampled_from(_BUCKETS)))
    named = [f"{key} AS k{at}" for at, key in enumerate(keys)]
    by = draw(st.sampled_from([", ".join(f"k{at}" for at in range(len(keys))), ", ".join(str(at + 1) for at in range(len(keys)))]))
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1", " HAVING max(level) > 0", " HAVING count(usage) < 5"]))
    order = ", ".join(f"{at + 1}{draw(_DIRECTIONS)}" for at in range(len(keys)))
    ending = f"{draw(wheres())} GROUP BY {by}{having} ORDER BY {order}{draw(LIMITS)}" if keys else draw(wheres())

    def text(side: int) -> str:
        items = [*named, *(f"{call[side].replace('{t}', table)} AS a{at}" for at, call in enumerate(drawn))]
        return f"SELECT {', '.join(items)} FROM {table}{ending}"

    return Question(text(0), bool(keys), zeros=True, close=True, theirs=text(1))


@st.composite
def newest(draw: st.DrawFn, seed: int) -> Question:
    """The newest or oldest rows of each device or group, in every form that SQL has for them."""
    table = draw(st.sampled_from("tts"))
    schema = next(case.schema for case in random_tables(seed) if case.name == table)
    tags = [tag.name for tag in schema.tags]
    partition = draw(st.sampled_from([tags, tags, tags[:1], ["host"], ["host", "slot"], ["level"]])) or ["host"]
    columns, names = (
        draw(st.sampled_from(["*", "time, host, slot, usage, note", "usage, time", "level, odd, day"])),
        ", ".join(partition),
    )
    where, direction = draw(wheres()), draw(st.sampled_from([" DESC", " DESC", " DESC", "", " ASC"]))
    order = f"time{direction} /*ties {table}*/"
    match draw(st.integers(0, 3)):
        case 0:
            limit = draw(st.sampled_from(["", "", " LIMIT 3", " LIMIT 2 OFFSET 1"]))
            return Question(
                f"SELECT DISTINCT ON ({names}) {columns} FROM {table}{where} ORDER BY {names}, {order}{limit}",
                ordered=True,
                zeros=True,
            )
        case 1:
            text = f"SELECT {columns} FROM {table}{where} LATEST ON time PARTITION BY {names}"
            newest = f"row_number() OVER (PARTITION BY {names} ORDER BY time DESC /*ties {table}*/) = 1"
            return Question(text, theirs=f"SELECT {columns} FROM {table}{where} QUALIFY {newest}", zeros=True)
        case 2:
            inner = f"SELECT *, row_number() OVER (PARTITION BY {names} ORDER BY {order}) AS rn FROM {table}{where}"
            listed = "* EXCLUDE (rn)" if columns == "*" else columns
            return Question(f"SELECT {listed} FROM ({inner}) WHERE rn <= {draw(st.integers(0, 4))}", zeros=True)
        case _:
            rank = f"row_number() OVER (PARTITION BY {names} ORDER BY {order})"
            test = draw(st.sampled_from(["= 1", "<= 2", "<= 5", "< 3", "= 2"]))
            return Question(f"SELECT {columns} FROM {table}{where} QUALIFY {rank} {test}", zeros=True)
