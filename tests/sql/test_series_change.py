"""rate, delta and their kin, against models in plain Python over the rows of each device."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from support.series_case import LAYOUTS, SeriesTwin, series_twins

Point = tuple[int, Any]


@pytest.fixture(scope="module", params=LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesTwin]:
    yield from series_twins(tmp_path_factory.mktemp("change"), request.param)


def _changes(word: str, points: list[Point]) -> list[Any]:
    """What a word gives for each (nanoseconds, value) of one device in order."""
    made: list[Any] = []
    last: Point | None = None
    for at, value in points:
        change = None
        if value is not None and last is not None:
            change = value - last[1]
            if word in ("increase", "rate") and change < 0:
                change = value
            if word in ("rate", "derivative"):
                change = change * 1e9 / (at - last[0])
        made.append(change)
        last = (at, value) if value is not None else last
    return made


def _by_device(twin: SeriesTwin, column: str, word: str, where: str = "true", keys: str = "host, rack") -> list[tuple[Any, ...]]:
    sql = f"SELECT {keys}, time, epoch_ns(time), {column} FROM t WHERE {where} ORDER BY {keys}, time"
    rows = twin.duck.execute(sql).fetchall()
    width = len(keys.split(","))
    made = []
    for _, device in groupby(rows, key=lambda row: row[:width]):
        own = list(device)
        for row, change in zip(own, _changes(word, [(row[-2], row[-1]) for row in own]), strict=True):
            made.append((*row[: width + 1], change))
    return made


@pytest.mark.parametrize("word", ["diff", "delta", "increase", "rate", "derivative"])
@pytest.mark.parametrize("column", ["n", "v"])
def test_changes_by_device(twin: SeriesTwin, word: str, column: str) -> None:
    wanted = _by_device(twin, column, word)
    assert {row[-1] is None for row in wanted} == {True, False}
    twin.model(f"SELECT host, rack, time, {word}({column}) FROM t", wanted)
    twin.model(f"SELECT host, rack, time, x FROM (SELECT *, {word}(c.{column}) AS x FROM t c)", wanted)
    some = _by_device(twin, column, word, "host = 'a' AND time > '2024-03-30 12:00'")
    twin.model(f"SELECT host, rack, time, {word.upper()}({column}) FROM t WHERE host = 'a' AND time > '2024-03-30 12:00'", some)


@pytest.mark.parametrize("word", ["diff", "rate"])
def test_a_window_of_ones_own(twin: SeriesTwin, word: str) -> None:
    wanted = [(row[0], row[2]) for row in _by_device(twin, "n", word, keys="host")]
    twin.model(f"SELECT host, {word}(n) OVER (PARTITION BY host ORDER BY time) FROM t", wanted)
    twin.model(f"SELECT host, {word}(n) OVER w AS r FROM t WINDOW w AS (PARTITION BY host ORDER BY time)", wanted)
    twin.model(f"SELECT host, {word}(s.n) OVER (PARTITION BY host ORDER BY s.time ASC NULLS LAST) FROM (FROM t) s", wanted)
    twin.model(f"WITH s AS (FROM t) SELECT host, {word}(n) OVER (PARTITION BY host ORDER BY time) FROM s", wanted)


def test_an_expression_and_several_words(twin: SeriesTwin) -> None:
    rate, diff = _by_device(twin, "n * 2", "rate"), _by_device(twin, "v", "diff")
    wanted = [(*one[:3], None if one[3] is None else one[3] * 60, other[3]) for one, other in zip(rate, diff, strict=True)]
    twin.model("SELECT host, rack, time, rate(n * 2) * 60, diff(v) FROM t", wanted)
    peak = twin.found("SELECT max(r) FROM (SELECT rate(n) AS r FROM t)")
    assert peak[0][0] == pytest.approx(max(row[3] for row in _by_device(twin, "n", "rate") if row[3] is not None))
    fast = [row for row in _by_device(twin, "n", "rate") if row[3] is not None and row[3] > 0.02]
    twin.model("SELECT host, rack, time, rate(n) AS r FROM t QUALIFY rate(n) > $1", fast, [0.02])
    assert twin.found("SELECT rate(n), moving_avg(v, 3) FROM empty") == []


def test_rates_by_bucket(twin: SeriesTwin) -> None:
    ours = "SELECT time, host, avg(r) FROM (SELECT time, host, rate(n) AS r FROM t) SAMPLE BY 2h"
    theirs = """SELECT time_bucket(INTERVAL '2 hours', time), host, avg(r) FROM (SELECT time, host,
        CASE WHEN n >= p THEN n - p ELSE n END * 1e9 / (epoch_ns(time) - epoch_ns(q)) AS r FROM (SELECT *,
        lag(n IGNORE NULLS) OVER d AS p, lag(CASE WHEN n IS NOT NULL THEN time END IGNORE NULLS) OVER d AS q FROM t
        WINDOW d AS (PARTITION BY host, rack ORDER BY time)) WHERE n IS NOT NULL
        UNION ALL SELECT time, host, NULL FROM t WHERE n IS NULL)
        GROUP BY ALL"""
    twin.same(ours, theirs)


@pytest.mark.parametrize("name", ["avg", "sum", "min", "max", "count", "stddev", "median"])
def test_moving(twin: SeriesTwin, name: str) -> None:
    theirs = f"SELECT host, time, {name}(v) OVER (PARTITION BY host, rack ORDER BY time {{}} PRECEDING AND CURRENT ROW) FROM t"
    twin.same(f"SELECT host, time, moving_{name}(v, 3) FROM t", theirs.format("ROWS BETWEEN 2"))
    twin.same(f"SELECT host, time, moving_{name}(v, $1) FROM t", theirs.format("ROWS BETWEEN 2").replace("2 P", "($1 - 1) P"), [3])
    hours = theirs.format("RANGE BETWEEN INTERVAL '2 hours'")
    for width in ("2h", "'2 hours'", "INTERVAL 2 HOURS"):
        twin.same(f"SELECT host, time, moving_{name}(v, {width}) FROM t", hours)
    alone = hours.replace("host, rack", "rack")
    twin.same(f"SELECT host, time, moving_{name}(v, 2h) OVER (PARTITION BY rack ORDER BY time) FROM t", alone)
    twin.same(f"SELECT host, time, moving_{name}(v, 2h) OVER w FROM t WINDOW w AS (PARTITION BY rack ORDER BY time)", alone)


def test_names_and_columns_that_are_called_so(twin: SeriesTwin) -> None:
    assert twin.columns("SELECT rate(n), rate(n) * 2 AS x, diff( v ) FROM t") == ["rate(n)", "x", "diff( v )"]
    twin.same("SELECT rate, rate + 1, x.rate FROM (SELECT n AS rate FROM t) x", "SELECT n, n + 1, n FROM t")


def test_rows_at_one_time_have_no_rate(twin: SeriesTwin) -> None:
    ours = """SELECT count(r) FROM (SELECT rate(n) OVER (PARTITION BY host ORDER BY time) AS r
        FROM (SELECT host, n, TIMESTAMP '2024-01-01' AS time FROM t))"""
    twin.same(ours, "SELECT 0")


def test_a_reset_counts_from_zero(twin: SeriesTwin) -> None:
    start = datetime.datetime(2024, 1, 1)
    values = [10, 15, 15, 3, 8, None, 20, 0]
    rows = ", ".join(
        f"(TIMESTAMP '{start + datetime.timedelta(seconds=10 * i)}', {'NULL' if v is None else v})" for i, v in enumerate(values)
    )
    sql = f"SELECT increase(x) OVER (ORDER BY time), rate(x) OVER (ORDER BY time) FROM (VALUES {rows}) AS s(time, x)"
    wanted = [(None, None), (5, 0.5), (0, 0.0), (3, 0.3), (5, 0.5), (None, None), (12, 0.6), (0, 0.0)]
    twin.model(sql, wanted, ordered=False)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT rate(n) FROM t GROUP BY host",
         "rate compares rows, not groups: compute it in a subquery, and aggregate that (line 1, column 8)"),
        ("SELECT time, rate(n) FROM t SAMPLE BY 1h",
         "rate compares rows, not groups: compute it in a subquery, and aggregate that (line 1, column 14)"),
        ("SELECT diff(n) FROM (SELECT * FROM t)",
         "diff over a join or a subquery needs its window: OVER (PARTITION BY … ORDER BY time) (line 1, column 8)"),
        ("SELECT a.time,\n rate(a.n) FROM t a JOIN t b USING (time)",
         "rate over a join or a subquery needs its window: OVER (PARTITION BY … ORDER BY time) (line 2, column 2)"),
        ("SELECT rate(n) OVER (PARTITION BY host) FROM t",
         "rate needs a window in the order of time: OVER (… ORDER BY time) (line 1, column 8)"),
        ("SELECT rate(n) OVER w FROM t", "there is no window 'w' (line 1, column 21)"),
        ("SELECT rate(n) FROM nowhere", "no table 'nowhere' (line 1, column 21); there are: t, empty"),
        ("SELECT rate(n, 5) FROM t", "rate is written rate(value) (line 1, column 8)"),
        ("SELECT moving_avg(v) FROM t", "moving_avg is written moving_avg(value, rows or width) (line 1, column 8)"),
        ("SELECT moving_avg(v, 0) FROM t", "a frame has a whole number of rows, not 0 (line 1, column 22)"),
        ("SELECT rate(n) FILTER (WHERE n > 0) FROM t",
         "rate takes no FILTER: it compares a row with the one before it (line 1, column 16)"),
    ],
)  # fmt: skip
def test_errors(twin: SeriesTwin, sql: str, message: str) -> None:
    assert twin.refused(sql) == message
