"""Random SQL over the table of ``support.twin``: rows, conditions and SELECTs, as text that DuckDB mostly accepts.

Values and constants sit at the edges where types meet: ends of integers, floats that are no decimals, times finer than a column.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st

VALUES = {
    "time": ["TIMESTAMP_NS '2024-01-01 00:00:00'", "TIMESTAMP_NS '1969-12-31 23:59:59.999999999'", "make_timestamp_ns(1)",
             "TIMESTAMP_NS '2024-01-01 00:00:00.123456789'", "TIMESTAMP_NS '1970-01-01'",
             "TIMESTAMP_NS '2024-01-01 00:00:00.123456'"],
    "host": ["'a'", "'b'", "''", "NULL", "'A'"], "rack": ["1", "2", "NULL"], "up": ["true", "false", "NULL"],
    "i": ["0", "1", "-1", "5", "2147483647", "-2147483648", "1000", "NULL"],
    "l": ["0", "1", "-1", "5", "9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808", "NULL"],
    "f": ["0", "1.5", "-0.0::FLOAT", "'nan'", "'inf'", "'-inf'", "0.1::FLOAT", "16777216", "3.4028235e38::FLOAT", "1e-45::FLOAT",
        "NULL"],
    "d": ["0", "1.5", "-0.0::DOUBLE", "'nan'", "'inf'", "'-inf'", "0.1", "0.3", "9007199254740993", "1e308", "90.5", "NULL"],
    "s": ["''", "'a'", "'ab'", "'A'", "'ä'", "'zz'", "'a%b'", "'NULL'", "'\u00ff'", "'a_b'", "'1'", "NULL"],
    "b": ["true", "false", "NULL"],
    "dt": ["DATE '2024-01-01'", "DATE '1969-12-31'", "DATE '2024-02-29'", "DATE '1970-01-01'", "DATE '2200-12-31'", "NULL"],
    "ts": ["TIMESTAMP_S '2024-01-01'", "TIMESTAMP_S '1969-12-31 23:59:59'", "TIMESTAMP_S '2024-01-01 00:00:01'", "NULL"],
    "tm": ["TIMESTAMP_MS '2024-01-01'", "TIMESTAMP_MS '1969-12-31 23:59:59.999'", "TIMESTAMP_MS '2024-01-01 00:00:00.123'", "NULL"],
    "tu": ["TIMESTAMP '2024-01-01'", "TIMESTAMP '1969-12-31 23:59:59.999999'", "TIMESTAMP '2024-01-01 00:00:00.123456'", "NULL"],
    "blob": ["'x'::BLOB", "''::BLOB", "'\\xFF\\x00'::BLOB", "NULL"],
}  # fmt: skip
NUMBERS = [
    "NULL", "0", "1", "-1", "1.5", "0.1", "1e3", "5", "2147483648", "99999999999999999999", "-9223372036854775808", "'1'", "true",
    "9223372036854775807.5", "1::BIGINT", "1.0", "9007199254740992.0", "9007199254740993", "9007199254740993e0", "16777217",
    "16777217.0", "0.1::FLOAT", "1e39", "3+4", "-(5)", "+5", "- 5", "0.3", "90.50", "1_000", "0.9 * 100", "$1",
]  # fmt: skip
TIMES = [
    "'2024-01-01'", "'2024-01-01 00:00:00.123456789'", "'2024-01-01T00:00:00Z'", "'2024-01-01 00:00:00+02'", "DATE '2024-01-01'",
    "TIMESTAMP '2024-01-01 00:00:00.123456'", "TIMESTAMP_NS '2024-01-01 00:00:00.123456789'", "TIMESTAMP_S '2024-01-01'", "NULL",
    "TIMESTAMP_MS '2024-01-01 00:00:00.123'", "DATE '2024-01-01' + INTERVAL 5 MINUTE", "DATE '2024-02-29' - INTERVAL '1 year'",
    "'1969-12-31 23:59:59.9999999'", "'2024-1-1'", "'2024-01-01 10:30'", "DATE '2024-01-01' + 1", "'2024-01-01'::TIMESTAMP",
    "CAST('2024-01-01' AS DATE)", "date_trunc('day', TIMESTAMP '2024-01-01 10:00:00')", "make_timestamp(2024, 1, 1, 0, 0, 0.0)",
    "TIMESTAMP '2024-03-31' - INTERVAL 1 MONTH", "'2024-01-01 00:00:00.1235'", "'infinity'", "'2024-01-01 00:00:00.5'",
    "INTERVAL 1 DAY + TIMESTAMP '2023-12-31'", "TIMESTAMP '2024-01-01 00:00:00.123456' + INTERVAL '1 second'", "current_date",
]  # fmt: skip
TEXTS = [
    "'a'",
    "''",
    "'ab'",
    "'A'",
    "'ä'",
    "'a'::VARCHAR",
    "'a''b'",
    "E'a'",
    "'\u00ff'",
    "$$a$$",
    "'a' || 'b'",
    "lower('A')",
    "NULL",
]
PATTERNS = [*TEXTS, "'a%'", "'_'", "'%b'", "'a\\%b'", "'%'", "'_%'"]
FLAGS = ["true", "false", "NULL", "1", "0", "2", "'true'", "TRUE"]
#: Conditions that no scan evaluates: a conjunct of this kind stays DuckDB's.
DOUBTFUL = ["i = l", "l::HUGEINT + 1 > 5", "length(s) > 1", "f < d", "i % 2 = 0", "coalesce(b, true)", "s = host", "b = (i > 0)"]
SIMPLE = ["b", "up", "b IS TRUE", "b IS NOT FALSE", "NOT b", "up IS NOT TRUE", "true", "1=1", "NULL", "false", "'a'='b'"]
OPERATORS = ["=", "!=", "<>", "<", "<=", ">", ">=", "=="]


def random_rows(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Rows of literals with distinct devices and times, numbered by ``id``."""
    chooser = random.Random(seed)
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    while len(rows) < count:
        row = {name: chooser.choice(values) for name, values in VALUES.items()}
        key = tuple(row[name] for name in ("host", "rack", "up", "time"))
        rows.setdefault(key, {**row, "v": f"[{len(rows)}, 0.5]", "id": str(len(rows))})
    return list(rows.values())


def _constants(column: str) -> list[str]:
    if column in ("time", "dt", "ts", "tm", "tu"):
        return TIMES
    if column in ("s", "host"):
        return TEXTS
    if column in ("b", "up"):
        return FLAGS
    return ["'x'::BLOB", "'x'", "''", "NULL"] if column == "blob" else NUMBERS + VALUES[column]


@st.composite
def leaf(draw: st.DrawFn) -> str:
    """One comparison, or something like it."""
    column = draw(st.sampled_from(sorted(VALUES)))
    constant = st.sampled_from(_constants(column))
    name = draw(st.sampled_from([column, column, f"t.{column}", f'"{column.upper()}"']))
    negation = draw(st.sampled_from(["", "NOT "]))
    form = draw(st.integers(0, 10))
    if form <= 4:
        operator = draw(st.sampled_from(OPERATORS))
        return f"{name} {operator} {draw(constant)}" if form else f"{draw(constant)} {operator} {name}"
    if form == 5:
        return f"{name} {negation}BETWEEN {draw(constant)} AND {draw(constant)}"
    if form == 6:
        return f"{name} {negation}IN ({', '.join(draw(st.lists(constant, min_size=1, max_size=4)))})"
    if form == 7:
        return f"{name} IS {negation}NULL"
    if form == 8:
        return f"{name} IS {negation}DISTINCT FROM {draw(constant)}"
    if form == 9:
        like = draw(st.sampled_from(["LIKE", "LIKE", "ILIKE", "GLOB"]))
        return f"s {negation if like != 'GLOB' else ''}{like} {draw(st.sampled_from(PATTERNS))}"
    return draw(st.sampled_from(SIMPLE + DOUBTFUL))


def condition() -> st.SearchStrategy[str]:
    """A WHERE condition."""
    return st.recursive(
        leaf(),
        lambda inner: st.one_of(
            inner.map(lambda text: f"NOT {text}" if text.startswith("(") else f"NOT ({text})"),
            st.tuples(st.lists(inner, min_size=2, max_size=3), st.sampled_from([" AND ", " OR "])).map(
                lambda pair: "(" + pair[1].join(pair[0]) + ")"
            ),
        ),
        max_leaves=5,
    )


_ITEMS = [
    "d*2 AS dd", "upper(s)", "length(s)", "1", "'x' AS k", "i IS NULL", "coalesce(i, 0) AS i", "-d",
    "CASE WHEN b THEN 1 ELSE 2 END", "id % 2", "v[1]", "cast(i AS VARCHAR)", "date_trunc('hour', time)", "t.i::DOUBLE",
    "extract(year FROM tu)", "i BETWEEN 1 AND 3", "i IS DISTINCT FROM 5", "s || 'x'", "*", "t.*", "* EXCLUDE (v, blob)",
    "COLUMNS('^i')",
]  # fmt: skip
_LIMITS = [
    "", " LIMIT 5", " LIMIT 0", " LIMIT 3 OFFSET 2", " OFFSET 140", " LIMIT NULL", " LIMIT ALL", " LIMIT 2+1",
    " LIMIT 3 OFFSET 1000", " FETCH FIRST 4 ROWS ONLY", " LIMIT 5.0", " LIMIT '3'", " LIMIT 1000000000000", " LIMIT 2 OFFSET NULL",
    " LIMIT (1+2)",
]  # fmt: skip


@st.composite
def select(draw: st.DrawFn) -> str:
    """A SELECT with a total order: by some keys, then by ``id``, so that both engines return the same rows."""
    names = [*sorted(VALUES), "id"]
    plain = st.one_of(
        st.sampled_from(names),
        st.sampled_from(names).map(lambda name: f"t.{name}"),
        st.tuples(st.sampled_from(names), st.sampled_from([n for n in names if n != "id"] + ["x", "Q"])).map(
            lambda p: f"{p[0]} AS {p[1]}"
        ),
        st.sampled_from(names).map(str.upper),
    )
    items = draw(st.lists(st.one_of(plain, plain, plain, st.sampled_from(_ITEMS)), min_size=1, max_size=4))
    keys = draw(
        st.lists(st.sampled_from([n for n in names if n != "blob"] + [str(at + 1) for at in range(len(items))]), max_size=2)
    )
    order = [
        f"{key}{draw(st.sampled_from(['', ' ASC', ' DESC']))}{draw(st.sampled_from(['', '', ' NULLS FIRST', ' NULLS LAST']))}"
        for key in keys
    ]
    where = f" WHERE {draw(condition())}" if draw(st.booleans()) else ""
    return f"SELECT {', '.join(items)} FROM t{where} ORDER BY {', '.join([*order, 'id'])}{draw(st.sampled_from(_LIMITS))}"
