"""SELECTs as Hypothesis strategies, over the tables of ``random_table``: every kind of predicate, order, limit and shape.

Texts are such that only ties leave an order open, and each open order is marked (see ``oracle``). Nothing here raises depending on
which rows an engine happens to look at.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from hypothesis import strategies as st

from support.oracle import Question
from support.random_table import EPOCH_S, HOSTS, NOTES, has_extremes

Text = st.SearchStrategy[str]
_OPS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
#: Columns that an ORDER BY may name and a native sort understands.
SORTABLE = ("time", "host", "slot", "usage", "odd", "small", "count", "level", "note", "up", "day", "seen")
ALL_COLUMNS = (*SORTABLE, "raw", "vec")


def quoted(text: str | None) -> str:
    """A string literal."""
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


# -------------------------------------------------------------------------------------------------- literals


@st.composite
def moments(draw: st.DrawFn) -> str:
    """A moment as people write it: with T or a space, fractions, zones, casts, intervals."""
    second = EPOCH_S + draw(st.integers(-4, 40))
    days, rest = divmod(second, 86_400)
    date = {19_781: "2024-02-28", 19_782: "2024-02-29"}[days]
    clock = f"{rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    fraction = draw(st.sampled_from(["", "", "", ".5", ".25", ".001", ".000001", ".000000001", ".999999999", ".0005"]))
    zone = draw(st.sampled_from(["", "", "", "Z", "+00", "+00:00"]))
    text = f"{date}{draw(st.sampled_from(' T'))}{clock}{fraction}{zone}"
    form = draw(st.integers(0, 9))
    match form:
        case 0:
            return f"TIMESTAMP '{date} {clock}'"
        case 1:
            return f"TIMESTAMP '{date} {clock}' - INTERVAL {draw(st.integers(0, 5))} SECONDS"
        case 2:
            return f"TIMESTAMP_NS '{date} {clock}{fraction}'"
        case 3:
            return f"'{text}'::TIMESTAMP"
        case 4:
            return draw(st.sampled_from(["DATE '2024-02-29'", "'2024-02-29'", "DATE '2024-02-28'", "'2024-02-28'"]))
        case 5:
            return draw(st.sampled_from(["'1970-01-01'", "'1969-12-31 23:59:59.5'", "'2100-01-01 00:00'", "'1700-01-01'"]))
        case 6:
            return f"'{date} {clock}{fraction}{draw(st.sampled_from(['+02', '-05:30', '+01:00', ' UTC']))}'"
        case _:
            return f"'{text}'"


_WHOLE = st.sampled_from(
    ["0", "1", "-1", "2", "7", "5", "9223372036854775807", "-9223372036854775808", "2147483647", "-2147483648"]
)
_NUMBER = st.one_of(
    _WHOLE,
    st.sampled_from(["1.5", "0.5", "-1.5", "90.25", "0.0", "-0.0", "12.25", "1e0", "1e300", "0.1", "9007199254740993", "2.50"]),
)
_FLOAT = st.one_of(_NUMBER, st.sampled_from(["'nan'::DOUBLE", "'inf'::DOUBLE", "'-inf'::DOUBLE", "0.1::FLOAT", "1.5::DOUBLE"]))
LITERALS: dict[str, Text] = {
    "time": moments(),
    "seen": moments(),
    "host": st.sampled_from([quoted(h) for h in HOSTS if h is not None] + ["'c'", "'A'"]),
    "note": st.sampled_from([quoted(n) for n in NOTES if n is not None] + ["'a longer note than'"]),
    "slot": _WHOLE,
    "level": _NUMBER,
    "count": _NUMBER,
    "usage": _FLOAT,
    "odd": _FLOAT,
    "small": _FLOAT,
    "up": st.sampled_from(["TRUE", "FALSE", "true", "'t'"]),
    "day": st.sampled_from(
        ["DATE '2024-02-28'", "'2024-02-29'", "DATE '1970-01-01'", "'2024-02-28'", "TIMESTAMP '2024-02-28 12:00:00'"]
    ),
    "raw": st.sampled_from(["''::BLOB", "'abc'::BLOB", "'\\xFF\\x00'::BLOB", "'abd'"]),
}
_PATTERNS = st.sampled_from(["%", "a%", "_", "%sixteen%", "", "A%", "%y\\%", "x", "_%", "%ä", "null", "a longer note%", "%e_"])
#: Conditions on more than a column and a constant: nothing that a scan can evaluate, all of it DuckDB's.
_COMPUTED = st.sampled_from([
    "{q}usage + 1 > 13", "length({q}note) = 1", "{q}level % 2 = 0", "{q}usage = {q}odd", "{q}host = {q}note",
    "{q}host || 'x' > 'b'",
    "CAST({q}count AS VARCHAR) < '5'", "CAST({q}level AS VARCHAR) >= '1'", "CAST({q}usage AS VARCHAR) > '9'",
    "abs({q}level::BIGINT) > 1",
    "-{q}usage < 0", "coalesce({q}note, 'x') = 'x'", "CASE WHEN {q}up THEN {q}usage > 1 ELSE {q}level = 0 END",
    "{q}note SIMILAR TO 'x|y%'",
    "{q}usage IS NOT NULL AND {q}usage::INT = 12", "try_cast({q}note AS INT) IS NULL", "{q}small::DOUBLE = {q}usage",
    "{q}level < {q}slot",
    "hash({q}host) % 2 = 0", "starts_with({q}host, 'a')", "{q}host IN (SELECT host FROM d)",
    "{q}host NOT IN (SELECT host FROM d WHERE host IS NOT NULL)",
    "EXISTS (SELECT 1 FROM d WHERE d.host = {q}host)", "{q}usage > (SELECT avg(weight) FROM d)", "{q}level = ANY ([0, 1])",
])  # fmt: skip


@st.composite
def leaves(draw: st.DrawFn, qualifier: str) -> str:
    """One condition on one column."""
    name = draw(st.sampled_from(sorted(LITERALS)))
    column, literal = f"{qualifier}{name}", LITERALS[name]
    form = draw(st.integers(0, 11))
    match form:
        case 0 | 1 | 2 | 3:
            return f"{column} {draw(_OPS)} {draw(literal)}"
        case 4:
            return f"{draw(literal)} {draw(_OPS)} {column}"
        case 5:
            negated = draw(st.sampled_from(["", "NOT "]))
            return f"{column} {negated}BETWEEN {draw(literal)} AND {draw(literal)}"
        case 6 | 7:
            members = draw(st.lists(literal, min_size=1, max_size=4))
            null = draw(st.sampled_from(["", "", ", NULL"]))
            return f"{column} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(members)}{null})"
        case 8:
            return f"{qualifier}{draw(st.sampled_from(ALL_COLUMNS))} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case 9:
            return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}DISTINCT FROM {draw(st.one_of(literal, st.just('NULL')))}"
        case 10:
            word = draw(st.sampled_from(["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"]))
            return f"{qualifier}{draw(st.sampled_from(['host', 'note']))} {word} {quoted(draw(_PATTERNS))}"
        case _:
            return draw(
                st.sampled_from(
                    [
                        f"{qualifier}up",
                        f"NOT {qualifier}up",
                        f"{qualifier}up IS TRUE",
                        f"{qualifier}up IS NOT FALSE",
                        "TRUE",
                        "1 = 0",
                        "NULL",
                    ]
                )
            )


def conditions(qualifier: str = "") -> Text:
    """Conditions joined by AND, OR and NOT."""
    one = st.one_of(leaves(qualifier), leaves(qualifier), leaves(qualifier), _COMPUTED.map(lambda text: text.format(q=qualifier)))
    return st.recursive(
        one,
        lambda inner: st.one_of(
            inner.map(lambda text: f"NOT ({text})"),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: " AND ".join(f"({part})" for part in parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + " OR ".join(parts) + ")"),
        ),
        max_leaves=4,
    )


def wheres(qualifier: str = "") -> Text:
    """A WHERE clause, or none."""
    return st.one_of(st.just(""), conditions(qualifier).map(lambda text: f" WHERE {text}"))


# -------------------------------------------------------------------------------------------------- orders and lists

_DIRECTIONS = st.sampled_from(
    ["", " ASC", " DESC", " DESC", " DESC NULLS FIRST", " ASC NULLS FIRST", " NULLS LAST", " DESC NULLS LAST"]
)
LIMITS = st.one_of(
    st.integers(0, 12).map(lambda n: f" LIMIT {n}"),
    st.sampled_from(
        [" LIMIT 1000", " LIMIT 5 OFFSET 3", " LIMIT 1 OFFSET 40", " OFFSET 2", " LIMIT 10 OFFSET 0", " LIMIT 3 OFFSET 1000"]
    ),
    st.sampled_from(
        [
            " LIMIT ALL",
            " LIMIT NULL",
            " LIMIT 4611686018427387904",
            " LIMIT 3 OFFSET 4611686018427387904",
            " FETCH FIRST 4 ROWS ONLY",
        ]
    ),
)
#: What a select list may compute from a row alone; none of it fails for any row.
_EXPRESSIONS = st.sampled_from([
    "usage * 2", "upper(note)", "coalesce(note, '-') AS n", "CASE WHEN up THEN 1 ELSE 0 END AS flag",
    "count::HUGEINT + 1 AS more", "host || '/' || slot",
    "usage IS NULL", "-level::BIGINT", "length(host)", "NOT up", "usage::VARCHAR", "greatest(usage, 1.0)", "small + 1",
    "typeof(time)", "day::VARCHAR",
    "octet_length(raw)", "vec[1]", "least(level, slot)", "concat(host, note)", "42", "NULL", "'text'", "round(usage)", "odd + 0",
    "level / 2",
])  # fmt: skip
_TIMELY = st.sampled_from([
    "time + INTERVAL 1 SECOND AS later", "date_trunc('day', time) AS d", "extract(second FROM time)", "time::DATE",
    "strftime(time::TIMESTAMP, '%H')",
    "time::VARCHAR", "epoch_ms(time::TIMESTAMP)", "time::TIMESTAMP", "time_bucket(INTERVAL '10 seconds', time::TIMESTAMP)",
])  # fmt: skip


@st.composite
def select_lists(draw: st.DrawFn, timely: bool, columns: Sequence[str] = ALL_COLUMNS) -> str:
    """``*``, or columns, some renamed or twice, and expressions."""
    form = draw(st.integers(0, 5))
    if form == 0:
        return "*"
    if form == 1:
        return f"* EXCLUDE ({', '.join(draw(st.lists(st.sampled_from(columns[1:]), min_size=1, max_size=3, unique=True)))})"
    plain = st.sampled_from(columns)
    renamed = st.sampled_from(columns).map(lambda name: f"{name} AS c_{name}")
    items = [plain, plain, renamed]
    if form >= 4:
        items += [_EXPRESSIONS, *([_TIMELY] if timely else [])]
    return ", ".join(draw(st.lists(st.one_of(items), min_size=1, max_size=5)))


@st.composite
def orders(draw: st.DrawFn, qualifier: str = "", columns: Sequence[str] = SORTABLE) -> str:
    """One to three ORDER BY keys; often the time first, as people ask."""
    names = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3, unique=True))
    if draw(st.booleans()):
        names = ["time", *[name for name in names if name != "time"]][:3]
    return ", ".join(f"{qualifier}{name}{draw(_DIRECTIONS)}" for name in names)


# -------------------------------------------------------------------------------------------------- questions


@st.composite
def simple(draw: st.DrawFn, seed: int) -> Question:
    """SELECT … FROM one table, filtered, ordered, limited."""
    table = draw(st.sampled_from(["t", "t", "s"]))
    items, where = draw(select_lists(not has_extremes(seed))), draw(wheres())
    if draw(st.integers(0, 9)) == 0:
        return Question(f"SELECT {items} FROM {table}{where}")
    order, limit = draw(orders()), draw(st.one_of(st.just(""), LIMITS, LIMITS, LIMITS))
    return Question(f"SELECT {items} FROM {table}{where} ORDER BY {order} /*ties {table}*/{limit}", ordered=True)


@st.composite
def limited(draw: st.DrawFn, table: str, alias: str = "", columns: str = "*") -> str:
    """A subquery with a TopK in it."""
    name = alias or table
    source = f"{table} {alias}" if alias else table
    limit = draw(st.sampled_from([" LIMIT 1", " LIMIT 5", " LIMIT 5 OFFSET 2", " LIMIT 20", " LIMIT 0"]))
    return f"SELECT {columns} FROM {source}{draw(wheres())} ORDER BY {draw(orders())} /*ties {name} of {table}*/{limit}"


@st.composite
def nested(draw: st.DrawFn, seed: int) -> Question:
    """TopKs in subqueries, siblings, CTEs, IN and EXISTS: each with a threshold of its own."""
    del seed
    first, second = draw(st.sampled_from("ts")), draw(st.sampled_from("ts"))
    names = "time, host, slot, usage, level"
    form = draw(st.integers(0, 8))
    match form:
        case 0:
            return Question(f"SELECT * FROM ({draw(limited(first))}) x{draw(wheres('x.'))}")
        case 1:
            one, two = draw(limited(first, columns=names)), draw(limited(second, columns=names))
            return Question(f"({one}) UNION ALL ({two})")
        case 2:
            one, two = draw(limited(first, columns=names)), draw(limited(first, columns=names))
            return Question(f"SELECT * FROM ({one}) UNION ALL SELECT * FROM ({two})")
        case 3:
            return Question(
                f"WITH newest AS ({draw(limited(first))}) SELECT host, count(*), min(level) FROM newest GROUP BY host", zeros=True
            )
        case 4:
            return Question(f"SELECT {names} FROM {second} WHERE host IN (SELECT host FROM ({draw(limited(first))}) x)")
        case 5:
            one, two = draw(limited(first, columns=names)), draw(limited(second, columns=names))
            return Question(f"SELECT a.*, b.time, b.level FROM ({one}) a JOIN ({two}) b ON a.host = b.host")
        case 6:
            one = draw(limited(first, columns=names))
            return Question(f"WITH w AS ({one}) SELECT count(*) FROM w a JOIN w b ON a.time = b.time WHERE a.slot = 0")
        case 7:
            return Question(f"SELECT (SELECT max(level) FROM ({draw(limited(first))}) x) AS top, count(*) FROM {second}")
        case _:
            one, two = draw(limited(first, columns=names)), draw(limited(second, columns=names))
            word = draw(st.sampled_from(["EXCEPT ALL", "INTERSECT ALL", "UNION ALL"]))
            return Question(f"SELECT * FROM ({one}) {word} SELECT * FROM ({two})", zeros=True)


_AGGREGATES = st.sampled_from([
    "count(*)", "count(note)", "count(DISTINCT host)", "min(usage)", "max(usage)", "min(odd)", "max(odd)", "min(time)",
    "max(time)", "sum(level)",
    "sum(count)", "avg(level)", "sum(usage)", "avg(usage)", "min(note)", "max(host)", "bool_or(up)", "bool_and(up)", "max(day)",
    "min(seen)", "max(small)",
    "count(*) FILTER (WHERE up)", "min(raw)", "sum(usage) FILTER (WHERE level > 0)", "count(DISTINCT time)", "max(count)",
    "count(vec)", "max(slot)",
])  # fmt: skip


@st.composite
def grouped(draw: st.DrawFn, seed: int) -> Question:
    """Aggregates, over everything or per group; DISTINCT."""
    table = draw(st.sampled_from("ts"))
    where = draw(wheres())
    if draw(st.integers(0, 4)) == 0:
        names = draw(st.lists(st.sampled_from(["host", "slot", "up", "level", "note", "day"]), min_size=1, max_size=3, unique=True))
        order = ", ".join(f"{name}{draw(_DIRECTIONS)}" for name in names)
        return Question(f"SELECT DISTINCT {', '.join(names)} FROM {table}{where} ORDER BY {order}{draw(LIMITS)}", ordered=True)
    aggregates = ", ".join(draw(st.lists(_AGGREGATES, min_size=1, max_size=4, unique=True)))
    keys = ["host", "slot", "up", "level", "day", "note"] + (
        [] if has_extremes(seed) else ["date_trunc('minute', time)", "time::DATE"]
    )
    groups = draw(st.lists(st.sampled_from(keys), max_size=2, unique=True))
    if not groups:
        return Question(f"SELECT {aggregates} FROM {table}{where}", zeros=True)
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1", " HAVING max(level) > 0"]))
    numbers = ", ".join(f"{at}{draw(_DIRECTIONS)}" for at in range(1, len(groups) + 1))
    text = f"SELECT {', '.join(groups)}, {aggregates} FROM {table}{where} GROUP BY {', '.join(groups)}{having}"
    return Question(f"{text} ORDER BY {numbers}{draw(st.one_of(st.just(''), LIMITS))}", ordered=True, zeros=True)


_JOINS = st.sampled_from([
    "SELECT a.time, a.host, a.level, d.region, d.weight FROM {t} a JOIN d ON a.host = d.host{where}",
    "SELECT a.time, a.slot, d.region FROM {t} a LEFT JOIN d ON a.host = d.host AND a.time = d.time{where}",
    "SELECT a.time, d.host, d.weight FROM {t} a RIGHT JOIN d ON a.host = d.host AND a.level = d.weight{where}",
    "SELECT a.time, a.level, b.level AS other FROM {t} a JOIN {t} b ON a.time = b.time AND a.host = b.host{where}",
    "SELECT time, a.host, region FROM {t} a FULL JOIN d USING (time){where}",
    "SELECT a.time, a.host, d.weight FROM {t} a ASOF JOIN d ON a.host = d.host AND a.time >= d.time{where}",
    "SELECT a.time, a.host, d.weight FROM {t} a ASOF LEFT JOIN d ON a.host = d.host AND a.time >= d.time{where}",
    "SELECT a.host, a.level FROM {t} a SEMI JOIN d ON a.host = d.host{where}",
    "SELECT a.host, a.level FROM {t} a ANTI JOIN d ON a.host = d.host{where}",
    "SELECT a.time, a.slot, d.region FROM {t} a, d{where}",
    "SELECT a.time, a.slot, region FROM {t} a NATURAL JOIN d{where}",
])  # fmt: skip


@st.composite
def joined(draw: st.DrawFn, seed: int) -> Question:
    """Joins of all kinds, with conditions on either side."""
    del seed
    text = draw(_JOINS)
    where = draw(wheres("a."))
    if where and " d " in f"{text.split(' FROM ')[1]} " and "SEMI" not in text and "ANTI" not in text:
        where += draw(
            st.sampled_from(["", " AND d.weight > 1", " AND d.region IS NULL", " AND d.host = 'a'", " AND d.region = 'north'"])
        )
    return Question(text.format(t=draw(st.sampled_from("ts")), where=where))


_WINDOWS = st.sampled_from([
    "SELECT time, host, slot, row_number() OVER (PARTITION BY host ORDER BY time, slot /*ties {t}*/) AS n FROM {t}{where}",
    "SELECT time, host, slot, lag(level) OVER (PARTITION BY host, slot ORDER BY time /*ties {t}*/) AS before FROM {t}{where}",
    "SELECT time, sum(level) OVER (PARTITION BY host ORDER BY time /*ties {t}*/ ROWS 2 PRECEDING) AS s FROM {t}{where}",
    "SELECT * FROM {t}{where} QUALIFY row_number() OVER (PARTITION BY host, slot ORDER BY time DESC /*ties {t}*/) = 1",
    "SELECT host, slot, rank() OVER (ORDER BY level) AS r, dense_rank() OVER (ORDER BY note) AS q FROM {t}{where}",
    "SELECT DISTINCT ON (host) host, time, slot FROM {t}{where} ORDER BY host, time DESC, slot /*ties {t}*/",
    "SELECT host, slot, list(level ORDER BY time /*ties {t}*/) AS l FROM {t}{where} GROUP BY host, slot",
    "SELECT host, slot, last(note ORDER BY time /*ties {t}*/) AS n FROM {t}{where} GROUP BY ALL",
    "SELECT host, slot, max_by(level, time) = ANY (list(level)) AS m FROM {t}{where} GROUP BY host, slot",
])  # fmt: skip


@st.composite
def windowed(draw: st.DrawFn, seed: int) -> Question:
    """Window functions, and aggregates that look at an order."""
    del seed
    return Question(draw(_WINDOWS).format(t=draw(st.sampled_from("ts")), where=draw(wheres())), zeros=True)


# -------------------------------------------------------------------------------------------------- parameters

_EPOCH = datetime.datetime(2024, 2, 28, 23, 59, 57)
_WHOLES = st.sampled_from([0, 1, -1, 2, 7, 5, 2**63 - 1, -(2**63) + 1, 2**31 - 1, True, False])
_REALS = st.sampled_from([0.0, -0.0, 1.5, 90.25, 12.0, math.nan, math.inf, -math.inf, 0.1, 2.0**53 + 2, 1e300])
_DECIMALS = st.sampled_from([Decimal("1.5"), Decimal(0), Decimal("90.250"), Decimal(-1), Decimal("0.1"), Decimal("12.25")])
_TEXTS = st.sampled_from([text for text in (*HOSTS, *NOTES) if text is not None])
#: Values that a caller may give for each column: of its type, and of types that DuckDB compares it with.
PARAMETERS: dict[str, st.SearchStrategy[object]] = {
    "host": _TEXTS,
    "note": _TEXTS,
    "slot": _WHOLES,
    "level": st.one_of(_WHOLES, _REALS, _DECIMALS),
    "count": st.one_of(_WHOLES, _REALS, _DECIMALS),
    "usage": st.one_of(_WHOLES, _REALS, _DECIMALS),
    "odd": st.one_of(_WHOLES, _REALS, _DECIMALS),
    "small": st.one_of(_WHOLES, _REALS, _DECIMALS, st.sampled_from([np.float32(0.5), np.float64(3), np.int32(3)])),
    "up": st.booleans(),
    "day": st.sampled_from([datetime.date(2024, 2, 28), datetime.date(1970, 1, 1), datetime.datetime(2024, 2, 28, 12)]),
    "raw": st.sampled_from([b"", b"abc", b"\xff\x00"]),
    "time": st.one_of(
        st.integers(-4, 40).map(lambda second: _EPOCH + datetime.timedelta(seconds=second)),
        st.integers(-4, 40).map(lambda quarter: _EPOCH + datetime.timedelta(seconds=quarter / 4, microseconds=1)),
        st.sampled_from([datetime.date(2024, 2, 29), datetime.datetime(1970, 1, 1), "2024-02-29 00:00:00", "2024-02-29T00:00:01Z"]),
    ),
}  # fmt: skip


@st.composite
def parametrized(draw: st.DrawFn, seed: int) -> Question:
    """Conditions on parameters of every Python type, given by position or by name."""
    del seed
    table, parts = draw(st.sampled_from("ts")), []
    values: list[object] = []
    named = draw(st.booleans())

    def place(name: str) -> str:
        values.append(draw(st.one_of(PARAMETERS[name], PARAMETERS[name], PARAMETERS[name], st.none())))
        return f"$p{len(values)}" if named else "?"

    for name in draw(st.lists(st.sampled_from(sorted(PARAMETERS)), min_size=1, max_size=3)):
        match draw(st.integers(0, 4)):
            case 0 | 1:
                parts.append(f"{name} {draw(_OPS)} {place(name)}")
            case 2:
                parts.append(f"{name} BETWEEN {place(name)} AND {place(name)}")
            case 3:
                parts.append(f"{name} IN ({place(name)}, {place(name)})")
            case _:
                parts.append(f"{name} IS DISTINCT FROM {place(name)}")
    where = draw(st.sampled_from([" AND ", " OR "])).join(parts)
    text = f"SELECT * FROM {table} WHERE {where} ORDER BY {draw(orders())} /*ties {table}*/{draw(LIMITS)}"
    parameters = {f"p{at}": value for at, value in enumerate(values, 1)} if named else values
    return Question(text, ordered=True, parameters=parameters)
