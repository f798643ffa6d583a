"""Wrong SQL gives one clear line: its kind, where it is wrong, and the nearest name that would be right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tsdb


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path_factory.mktemp("error") / "db") as made:
        made.sql("CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE, n INT64)")
        made.sql("CREATE TABLE mem (time TIMESTAMP TIME, host STRING TAG, used DOUBLE)")
        made.sql("INSERT INTO cpu VALUES ('2024-01-01', 'a', 1, 2)")
        yield made


def test_half_characters_are_refused(db: tsdb.Database) -> None:
    half = "\ud800"
    for text in (f"FROM cpu WHERE host = '{half}'", f"SELECT '{half}'", f"DELETE FROM cpu WHERE host = '{half}'"):
        with pytest.raises(tsdb.InvalidInput, match="half a character"):
            db.sql(text)
    for text in (
        "FROM cpu WHERE host = ?",
        "DELETE FROM cpu WHERE host = ?",
        "INSERT INTO cpu VALUES ('2024-01-01', ?, 1, 2)",
        "SELECT ?",
    ):
        with pytest.raises(tsdb.InvalidInput, match=r"half a character|surrogate"):
            db.sql(text, [half]).fetchall()
    with pytest.raises(tsdb.InvalidInput, match="host"):
        db.write("cpu", [{"time": "2024-01-01", "host": half, "usage": 1.0, "n": 1}])


#: A statement, the place of the error as line and column (None: it has none), and words of the message.
SYNTAX = [
    ("SELECT * FRM cpu", (1, 14), "syntax error"),
    ("SELECT *\nFROM cpu\nWHER usage > 1", (3, 6), "syntax error"),
    ("SELECT FROM cpu WHERE", (1, 17), "WHERE"),
    ("SELECT * FROM cpu)", (1, 18), "syntax error"),
    ("SELECT [1,2 FROM cpu", (1, 13), "FROM"),
    ("SELECT * FROM cpu WHERE host = 'a", (1, 32), "does not end"),
    ('SELECT "usage FROM cpu', (1, 8), "does not end"),
    ("SELECT * FROM cpu /* x", (1, 19), "does not end"),
    ("SELEC * FROM cpu", None, "did you mean SELECT"),
    ("SELECT time FROM cpu FROM mem", (1, 22), "FROM"),
    ("SELECT 1; SELECT 2", None, "one statement"),
    ("", None, "no statement"),
    ("SELECT * FROM cpu USING SAMPLE foo", (1, 32), "foo"),
    ("SELECT * FROM cpu SAMPLE BY foo", (1, 29), "expected a width"),
    ("PRAGMA foo", None, "unknown statement"),
    ("ATTACH 'x.db'", None, "tsdb.open(path) opens"),
    ("CALL foo()", None, "unknown statement"),
    ("CREATE VIEW x AS SELECT 1", None, "there are no views"),
    ("VALUES (1), (1, 2)", (1, 14), "same length"),
]
NAMES = [
    ("SELECT * FROM cpux", (1, 15), "'cpu'"),
    ("SELECT * FROM cpu JOIN mex USING (host)", (1, 24), "'mem'"),
    ("SELECT * FROM main.cpux", (1, 20), "'cpu'"),
    ("SELECT * FROM other.cpu", (1, 15), '"other"'),
    ("SELECT usag FROM cpu", (1, 8), "'usage'"),
    ("SELECT c.usag FROM cpu c", (1, 10), "'usage'"),
    ("SELECT x.usage FROM cpu c", (1, 8), '"c"'),
    ("SELECT usag FROM cpu JOIN mem USING (host)", (1, 8), '"usage"'),
    ("SELECT host\nFROM cpu\n  WHERE hots = 'a'", (3, 9), "'host'"),
    ("SELECT max(usag) FROM cpu GROUP BY host", (1, 12), "'usage'"),
    ("SELECT host FROM cpu GROUP BY hst", (1, 31), "'host'"),
    ("SELECT host, maxx(usage) FROM cpu GROUP BY 1", (1, 14), '"max"'),
    ("SELECT time_buckt(INTERVAL '1 hour', time) FROM cpu", (1, 8), '"time_bucket"'),
    ("SELECT usage::DUBLE FROM cpu", (1, 15), '"DOUBLE"'),
    ("SELECT CAST(usage AS INTT) FROM cpu", (1, 22), '"INT"'),
    ("SELECT * FROM (SELECT usage FROM cpu) WHERE usge > 1", (1, 45), '"usage"'),
    ("SELECT 'äöü', usge FROM (SELECT usage FROM cpu)", (1, 15), '"usage"'),
    ("WITH q AS (FROM cpu) SELECT * FROM qq", (1, 36), "no table 'qq'"),
    ("SELECT * FROM cpu a, mem b WHERE a.usage > 1 AND b.usd > ?", (1, 50), '"used"'),
    ("SELECT * FROM cpu PIVOT (sum(usage) FOR hst IN ('a'))", (1, 41), '"host"'),
    ("EXPLAIN SELECT * FROM cpx", (1, 23), "'cpu'"),
    ("SELECT * FROM 'absent.parquet'", None, "absent.parquet"),
    ("DROP TABLE cpx", None, "'cpu'"),
    ("INSERT INTO cpx VALUES (1)", None, "'cpu'"),
    ("INSERT INTO cpu (time, hst) VALUES (1, 2)", None, "'host'"),
    ("DELETE FROM cpu WHERE usag > 1", None, "'usage'"),
    ("SET thread = 1", None, "threads"),
    ("SHOW thread", None, "threads"),
    ("SHOW FILES FROM cpx", None, "'cpu'"),
]
MEANING = [
    ("SELECT time_bucket(time) FROM cpu", (1, 8), "No function matches"),
    ("SELECT host + 1 FROM cpu", (1, 13), "No function matches"),
    ("SELECT host FROM cpu, mem", (1, 8), "Ambiguous"),
    ("SELECT usage, max(n) FROM cpu", (1, 8), "GROUP BY"),
    ("SELECT 'abc'::INT", (1, 13), "Conversion"),
    ("SELECT host::INT FROM cpu", (1, 12), "Conversion"),
    ("SELECT * FROM cpu WHERE time > 'yesterday'", (1, 32), "yesterday"),
    ("SELECT * FROM cpu WHERE time > 5", (1, 25), "Cannot compare"),
    ("SELECT n % 0 FROM cpu", None, "Division by zero"),
    ("SELECT * FROM cpu LIMIT -1", (1, 25), "negative"),
    ("SELECT (SELECT host, usage FROM cpu)", (1, 8), "2 columns"),
    ("SELECT host FROM cpu UNION SELECT host, n FROM cpu", None, "same number"),
    ("SELECT * FROM cpu WHERE max(usage) > 1", (1, 25), "aggregates"),
    ("SELECT sum(max(usage)) FROM cpu", (1, 12), "nested"),
    ("SELECT unnest(usage) FROM cpu", (1, 8), "UNNEST"),
    ("SELECT DATE '2024-13-01'", (1, 8), "2024-13-01"),
    ("SELECT regexp_matches(host, '(') FROM cpu", None, "missing )"),
    ("SELECT 9223372036854775807 + 1", None, "Overflow"),
    ("SELECT * FROM cpu ASOF JOIN mem ON cpu.host = mem.host", None, "ASOF"),
    ("SELECT lag(usage) FROM cpu", (1, 8), "Window"),
    ("SELECT * FROM cpu ORDER BY 7", (1, 28), "between 1 and 4"),
    ("SELECT error('boom')", None, "boom"),
    ("SELECT $1", None, "$1"),
    ("CREATE TABLE x (a INT)", None, "no time column"),
    ("CREATE TABLE cpu (time TIMESTAMP TIME)", None, "already"),
    ("INSERT INTO cpu VALUES (1)", None, "4 columns"),
    ("INSERT INTO cpu VALUES ('x', 'y', 1, 2)", None, "Conversion"),
    ("UPDATE cpu SET usage = 1", None, "attributes"),
    ("SET threads = 'many'", None, "threads"),
]


@pytest.mark.parametrize(("sql", "where", "words"), SYNTAX + NAMES + MEANING)
@pytest.mark.parametrize("native", [True, False])
def test_one_clear_line(db: tsdb.Database, sql: str, where: tuple[int, int] | None, words: str, native: bool) -> None:
    with pytest.raises(tsdb.Error) as caught:
        db.sql(sql, [1] if "?" in sql else None, settings={"enable_native_operators": native}).fetchall()
    message = str(caught.value)
    assert isinstance(caught.value, tsdb.NotFound) == ((sql, where, words) in NAMES)
    assert isinstance(caught.value, tsdb.NotFound | tsdb.InvalidInput)
    assert words in message
    assert "\n" not in message
    assert "__tsdb" not in message
    if where is not None:
        assert f"line {where[0]}, column {where[1]}" in message


def test_errors_while_streaming_have_a_place(db: tsdb.Database) -> None:
    result = db.sql("SELECT usage, host::INT FROM cpu WHERE usage % 2 = 1")
    for read in (result.fetchone, result.df, result.arrow, lambda: list(result.batches()), result.fetchnumpy):
        with pytest.raises(tsdb.InvalidInput, match=r"Conversion Error: .*\(line 1, column 19\)$"):
            read()
