"""Random questions with GROUP BY over the table of ``rows``, as text, and DuckDB's spelling of them.

Values are such that sums are exact in any order, but for those columns that no question sums.
"""

from __future__ import annotations

import random
import re

DDL = (
    "time TIMESTAMP_NS TIME, host STRING TAG, rack INT32 TAG, up BOOLEAN TAG, region STRING ATTRIBUTE, id INT64, i INT32, l INT64, "
    "f FLOAT, d DOUBLE, w DOUBLE, s STRING, b BOOLEAN, dt DATE, tu TIMESTAMP_US"
)
_VALUES = {
    "i": ["0", "1", "-1", "5", "1000", "2147483647", "NULL"],
    "l": ["0", "3", "-7", "9223372036854775807", "9007199254740993", "NULL"],
    "f": ["0", "1.5", "-2.25", "16", "NULL"], "d": ["0", "0.25", "-3.5", "90.5", "100", "NULL"],
    "w": ["'nan'", "'inf'", "'-inf'", "-0.0::DOUBLE", "0", "1.5", "NULL"], "s": ["''", "'a'", "'ab'", "'ä'", "'zz'", "NULL"],
    "b": ["true", "false", "NULL"], "dt": ["DATE '2024-01-01'", "DATE '1969-12-31'", "NULL"],
    "tu": ["TIMESTAMP '2024-01-01'", "TIMESTAMP '1969-12-31 23:59:59.999999'", "NULL"],
}  # fmt: skip
_TIMES = [
    "TIMESTAMP_NS '2024-01-01 00:00:00'", "TIMESTAMP_NS '1969-12-31 23:59:59.999999999'", "make_timestamp_ns(1)",
    "TIMESTAMP_NS '1970-01-01'", "make_timestamp_ns(-1000)", "TIMESTAMP_NS '2024-02-29 23:59:59.999999999'",
    "TIMESTAMP_NS '2000-01-03'",
]  # fmt: skip
REGIONS = {"'a'": "'east'", "'b'": "'west'", "''": "NULL", "NULL": "'east'"}
KEYS = [
    "host", "rack", "up", "region", "t.host", "upper(host)", "host || '-' || region", "rack + 1", "coalesce(region, host)",
    "time_bucket(INTERVAL '1 hour', time)", "time_bucket(INTERVAL 15 MINUTE, t.time)", "time_bucket('7 days', time)",
    "time_bucket(INTERVAL '1 month', time)", "time_bucket(INTERVAL '5 months', time)", "date_trunc('day', time)",
    "time_bucket(INTERVAL '1 day', time, INTERVAL '6 hours')",
    "time_bucket(INTERVAL 2 WEEKS, time, TIMESTAMP '2023-05-05 01:02:03')", "date_trunc('hour', time)",
    "date_trunc('week', time)", "date_trunc('quarter', time)", "date_trunc('year', time)", "time::DATE", "CAST(time AS DATE)",
    "time_bucket(INTERVAL '250 milliseconds', time)", "case when rack = 1 then 'x' else host end",
]  # fmt: skip
CALLS = [
    "count(*)", "count(i)", "count(s)", "count_if(i > 1)", "count_if(b)", "sum(i)", "sum(l)", "sum(d)", "sum(f)", "sum(b)",
    "avg(i)", "avg(d)", "mean(f)", "avg(l)", "min(i)", "max(l)", "min(d)", "max(w)", "min(w)", "max(s)", "min(s)", "min(b)",
    "max(dt)", "min(tu)", "max(time)", "min(time)", "first(d)", "last(d)", "last(s)", "first(i)", "last(w)", "last(time)",
    "arg_max(d, id)", "arg_min(s, id)", "max_by(time, id)", "min_by(w, id)", "stddev(d)", "stddev_samp(f)", "stddev_pop(d)",
    "variance(f)", "var_samp(d)", "var_pop(i)", "sum(d) FILTER (WHERE i > 0)", "count(*) FILTER (WHERE b)",
    "max(d) FILTER (WHERE host = 'a')", "last(d) FILTER (WHERE i >= 1)", "count()", "count(1)", "max(rack)", "count(host)",
    "max(region)", "last(b)", "last(dt)", "min(host)", "min(up)", "count(DISTINCT host)", "count(DISTINCT rack)",
    "count(DISTINCT region)", "count(distinct up) FILTER (WHERE i > 0)", "max(DISTINCT rack)",
    "any_value(region) FILTER (WHERE host = 'a')", "sum(rack)", "avg(rack)", "sum(up)", "count(region)",
    "avg(rack) FILTER (WHERE i > 0)",
    "count(rack) FILTER (WHERE b)",
]  # fmt: skip
EXPRESSIONS = [
    "max(d) - min(d)", "sum(i) + 1", "round(avg(d), 1)", "coalesce(last(d), 0)", "sum(d) / count(*)", "count(*) * 2 AS twice",
    "CASE WHEN count(*) > 3 THEN 'many' ELSE 'few' END", "1", "sum(l) % 10", "max(s) || 'x'", "count(d) = count(*)",
]  # fmt: skip
CONDITIONS = [
    "time >= '2024-01-01'", "time < '2024-01-02' AND i > 0", "host = 'a'", "host IN ('a', 'b')", "rack = 1 OR rack IS NULL",
    "d > 0", "false", "time BETWEEN '1969-01-01' AND '1970-06-01'", "NOT b", "region = 'east' AND i < 6", "s LIKE 'a%'",
]  # fmt: skip
HAVINGS = [
    "count(*) > 2",
    "avg(d) > 1",
    "max(i) >= 5 AND count(*) < 50",
    "count(*) > 1 OR min(d) < 0",
    "sum(i) > 0",
    "max(s) = 'zz'",
]
_BY_TIME = re.compile(r"\b(first|last)\((\w+)\)")


def rows(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Rows of literals with distinct devices and times, numbered by ``id``; most within some days, some at edges."""
    chooser = random.Random(seed)
    made: dict[tuple[str, ...], dict[str, str]] = {}
    while len(made) < count:
        row = {name: chooser.choice(values) for name, values in _VALUES.items()}
        host, rack, up = chooser.choice(list(REGIONS)), chooser.choice(["1", "2", "NULL"]), chooser.choice(["true", "NULL"])
        seconds = chooser.randrange(0, 4 * 86_400, 450)
        time = chooser.choice(_TIMES) if chooser.random() < 0.2 else f"TIMESTAMP_NS '2024-01-01' + INTERVAL {seconds} SECONDS"
        key = {"time": f"CAST({time} AS TIMESTAMP_NS)", "host": host, "rack": rack, "up": up}
        made.setdefault(tuple(key.values()), {**key, "region": REGIONS[host], **row, "id": str(len(made))})
    return list(made.values())


def question(seed: int) -> tuple[str, bool]:
    """A SELECT with GROUP BY, and whether it is native throughout: keys and calls, and nothing computed of these."""
    chooser = random.Random(seed)
    keys = list(dict.fromkeys(chooser.choices(KEYS, k=chooser.choice([0, 1, 1, 2, 2, 3]))))
    calls = chooser.sample(CALLS, chooser.choice([1, 1, 2, 4] if keys else [1, 3]))
    native = chooser.random() < 0.7
    shown = [key for key in keys if chooser.random() < 0.9]
    items = shown + calls + ([] if native else chooser.sample(EXPRESSIONS, 2))
    chooser.shuffle(items)
    named = [item if " AS " in item or chooser.random() < 0.5 else f"{item} AS c{at}" for at, item in enumerate(items)]
    grouped = [_grouped(chooser, key, items, named) for key in keys]
    text = f"SELECT {', '.join(named)} FROM t"
    if chooser.random() < 0.5:
        text += f" WHERE {chooser.choice(CONDITIONS)}"
    if keys:
        whole = len(shown) == len(keys) and chooser.random() < 0.2 and native
        text += " GROUP BY ALL" if whole else f" GROUP BY {', '.join(grouped)}"
    if chooser.random() < 0.3:
        having = chooser.choice(HAVINGS)
        text += f" HAVING {having}"
    if keys and chooser.random() < 0.6:
        order = [f"{key}{chooser.choice(['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'])}" for key in keys]
        text += f" ORDER BY {', '.join(order)}{chooser.choice(['', '', ' LIMIT 3', ' LIMIT 5 OFFSET 2', ' LIMIT 0'])}"
    return text, native


def _grouped(chooser: random.Random, key: str, items: list[str], named: list[str]) -> str:
    """A key as GROUP BY says it: itself, the position of its item, or its alias."""
    at = items.index(key) if key in items else -1
    form = chooser.random()
    if at < 0 or form < 0.5:
        return key
    return str(at + 1) if form < 0.75 or " AS " not in named[at].removeprefix(key) else f"c{at}"


def spelled(text: str) -> str:
    """The text for DuckDB, whose first and last are those of whatever order rows come in."""

    def by_time(found: re.Match[str]) -> str:
        return f"first({found[2]} ORDER BY time{' DESC' if found[1] == 'last' else ''}, host, rack, up)"

    return _BY_TIME.sub(by_time, text)
