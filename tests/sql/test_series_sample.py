"""SAMPLE BY: grouping by buckets, with and without values for the empty ones."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from support.series_case import LAYOUTS, SeriesTwin, series_twins
from tsdb.sql.series import sample


@pytest.fixture(scope="module", params=LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesTwin]:
    yield from series_twins(tmp_path_factory.mktemp("sample"), request.param)


_HOUR, _DAY = "time_bucket(INTERVAL '1 hour', time)", "time_bucket(INTERVAL '1 day', time)"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT time, avg(v) FROM t SAMPLE BY 1h", f"SELECT {_HOUR}, avg(v) FROM t GROUP BY 1"),
        ("SELECT time, host, avg(v), max(n) FROM t SAMPLE BY 1h", f"SELECT {_HOUR}, host, avg(v), max(n) FROM t GROUP BY 1, 2"),
        ("SELECT avg(v) FROM t SAMPLE BY 1h", f"SELECT avg(v) FROM t GROUP BY {_HOUR}"),
        ("SELECT count(*) AS c, host FROM t WHERE rack = 1 SAMPLE BY 90m",
         "SELECT count(*), host FROM t WHERE rack = 1 GROUP BY time_bucket(INTERVAL '90 minutes', time), host"),
        ("SELECT x.time AS w, x.host, sum(x.n) FROM t x SAMPLE BY '1 day'",
         "SELECT time_bucket(INTERVAL '1 day', time), host, sum(n) FROM t GROUP BY ALL"),
        ("SELECT time, upper(host) || '!' u, count(v) FROM t SAMPLE BY INTERVAL '2 hours'",
         "SELECT time_bucket(INTERVAL '2 hours', time), upper(host) || '!', count(v) FROM t GROUP BY ALL"),
        ("SELECT extract('hour' FROM time) AS h, 7, min(v) FROM t SAMPLE BY 1h",
         f"SELECT extract('hour' FROM {_HOUR}), 7, min(v) FROM t GROUP BY {_HOUR}"),
        ("SELECT time AS w, w + INTERVAL '1h' AS until, avg(v) AS x, x * 2 AS y FROM t SAMPLE BY 1h",
         f"SELECT {_HOUR}, {_HOUR} + INTERVAL '1h', avg(v), avg(v) * 2 FROM t GROUP BY 1"),
        ("SELECT time, avg(v) AS max, max(n) AS avg FROM t SAMPLE BY 1h FILL(NONE)",
         f"SELECT {_HOUR}, avg(v), max(n) FROM t GROUP BY 1"),
        ("SELECT time, min(time), max(time) FROM t SAMPLE BY 1d",
         "SELECT time_bucket(INTERVAL '1 day', time), min(time), max(time) FROM t GROUP BY 1"),
        ("SELECT time, count(*) FROM t SAMPLE BY 1w", "SELECT time_bucket(INTERVAL '1 week', time), count(*) FROM t GROUP BY 1"),
        ("SELECT time, count(*) FROM t SAMPLE BY 1M", "SELECT time_bucket(INTERVAL '1 month', time), count(*) FROM t GROUP BY 1"),
        ("SELECT time, count(*) FROM t SAMPLE BY 1y", "SELECT time_bucket(INTERVAL '1 year', time), count(*) FROM t GROUP BY 1"),
        ("SELECT time, count(*) FROM t SAMPLE BY 100T",
         "SELECT time_bucket(INTERVAL '100 milliseconds', time), count(*) FROM t GROUP BY 1"),
        ("SELECT time, count(*) FROM t SAMPLE BY 7us",
         "SELECT time_bucket(INTERVAL '7 microseconds', time), count(*) FROM t GROUP BY 1"),
        ("SELECT time, count(*) c FROM t SAMPLE BY 1h HAVING count(*) > 4",
         f"SELECT {_HOUR}, count(*) FROM t GROUP BY 1 HAVING count(*) > 4"),
        ("SELECT time, count(*) c FROM t SAMPLE BY 1h HAVING time > '2024-03-31' AND max(time) > '2024-03-31 02:00'",
         f"SELECT {_HOUR}, count(*) FROM t GROUP BY 1 HAVING {_HOUR} > '2024-03-31' AND max(time) > '2024-03-31 02:00'"),
        ("SELECT time, count(*) FILTER (WHERE time < '2024-03-30 09:30'), host FROM t SAMPLE BY 1h",
         f"SELECT {_HOUR}, count(*) FILTER (WHERE time < '2024-03-30 09:30'), host FROM t GROUP BY 1, 3"),
        ("SELECT time, percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FILTER (WHERE v > 0) FROM t SAMPLE BY 1d",
         f"SELECT {_DAY}, quantile_cont(n, 0.5) FILTER (WHERE v > 0) FROM t GROUP BY 1"),
        ("SELECT time, count(*) FROM empty SAMPLE BY 1h", "SELECT time, 1 FROM empty"),
        ("SELECT avg(a) FROM (SELECT time, avg(v) AS a FROM t SAMPLE BY 1h)",
         f"SELECT avg(a) FROM (SELECT avg(v) a FROM t GROUP BY {_HOUR})"),
        ("WITH s AS (SELECT time, v FROM t WHERE host = 'a') SELECT time, sum(v) FROM s SAMPLE BY 1h",
         f"SELECT {_HOUR}, sum(v) FROM t WHERE host = 'a' GROUP BY 1"),
        ("SELECT time, max(v) FROM (SELECT * FROM t WHERE rack = 1) SAMPLE BY 1h",
         f"SELECT {_HOUR}, max(v) FROM t WHERE rack = 1 GROUP BY 1"),
        ("SELECT time, 'max' k, max(v) FROM t SAMPLE BY 1d UNION ALL SELECT time, 'min', min(v) FROM t SAMPLE BY 1d",
         f"SELECT {_DAY}, 'max', max(v) FROM t GROUP BY 1 UNION ALL SELECT {_DAY}, 'min', min(v) FROM t GROUP BY 1"),
        ("FROM t SELECT time, count(*) WHERE host = 'a' SAMPLE BY 1h",
         f"SELECT {_HOUR}, count(*) FROM t WHERE host = 'a' GROUP BY 1"),
        ("SELECT t.time, count(*) FROM t JOIN (SELECT DISTINCT rack FROM t) r ON t.rack = r.rack SAMPLE BY 1h",
         f"SELECT {_HOUR}, count(*) FROM t WHERE rack IS NOT NULL GROUP BY 1"),
    ],
)  # fmt: skip
def test_groups(twin: SeriesTwin, ours: str, theirs: str) -> None:
    twin.same(ours, theirs)


def test_rows_come_in_the_order_of_buckets_and_keys(twin: SeriesTwin) -> None:
    plain = f"SELECT {_HOUR} b, host, rack, count(*) FROM t GROUP BY ALL ORDER BY b, host, rack"
    twin.same("SELECT time, host, rack, count(*) FROM t SAMPLE BY 1h", plain, ordered=True)
    twin.same("SELECT time, host, rack, count(*) FROM t SAMPLE BY 1h LIMIT 5", plain + " LIMIT 5", ordered=True)
    descending = f"SELECT {_HOUR} b, count(*) FROM t GROUP BY ALL ORDER BY b DESC LIMIT 4 OFFSET 1"
    twin.same("SELECT time, count(*) FROM t SAMPLE BY 1h ORDER BY time DESC LIMIT 4 OFFSET 1", descending, ordered=True)
    hidden = f"SELECT count(*) FROM t GROUP BY {_HOUR} ORDER BY {_HOUR} DESC"
    twin.same("SELECT count(*) FROM t SAMPLE BY 1h ORDER BY time DESC", hidden, ordered=True)


def test_names(twin: SeriesTwin) -> None:
    assert twin.columns("SELECT time, x.host, avg(v), max(n) AS m FROM t x SAMPLE BY 1h") == ["time", "host", "avg(v)", "m"]
    assert twin.columns("SELECT time, host, count(*) FROM t SAMPLE BY 1h FILL(0)") == ["time", "host", "count_star()"]
    assert twin.columns('SELECT "TIME", hour(time) FROM t SAMPLE BY 1h')[0] == "TIME"


def _filled(twin: SeriesTwin, keys: int, fill: str, step: datetime.timedelta, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a grouped query (keys, bucket, value) with all buckets between the first and the last of all, in plain Python."""
    rows = {row[: keys + 1]: row[-1] for row in twin.duck.execute(sql).fetchall()}
    buckets = sorted({key[-1] for key in rows})
    made = []
    for group in {key[:-1] for key in rows}:
        at, own = buckets[0], sorted(key[-1] for key in rows if key[:-1] == group)
        while at <= buckets[-1]:
            value: Any = None
            before, after = [b for b in own if b <= at], [b for b in own if b >= at]
            if at in own:
                value = rows[(*group, at)]
            elif fill == "prev":
                value = rows[(*group, before[-1])] if before else None
            elif fill == "linear" and before and after:
                one, two = rows[(*group, before[-1])], rows[(*group, after[0])]
                if one is not None and two is not None:
                    value = one + (two - one) * ((at - before[-1]) / (after[0] - before[-1]))
            elif fill not in ("prev", "linear", "null"):
                value = float(fill)
            made.append((*group, at, value))
            at += step
    return made


@pytest.mark.parametrize(
    ("word", "fill"), [("PREV", "prev"), ("PREVIOUS", "prev"), ("LINEAR", "linear"), ("NULL", "null"), ("-1.5", "-1.5")]
)
@pytest.mark.parametrize("aggregate", ["avg(v)", "sum(n)", "max(n)"])
def test_fill(twin: SeriesTwin, word: str, fill: str, aggregate: str) -> None:
    hour = datetime.timedelta(hours=1)
    one = f"SELECT {_HOUR}, {aggregate} FROM t WHERE host = 'b' GROUP BY ALL"
    twin.model(f"SELECT time, {aggregate} FROM t WHERE host = 'b' SAMPLE BY 1h FILL({word})", _filled(twin, 0, fill, hour, one))
    keyed = f"SELECT host, rack, {_HOUR}, {aggregate} FROM t GROUP BY ALL"
    wanted = _filled(twin, 2, fill, hour, keyed)
    twin.model(f"SELECT host, rack, time, {aggregate} AS a FROM t SAMPLE BY 1h FILL({word})", wanted)
    assert len(wanted) > len(twin.duck_rows(keyed))


def test_fill_by_aggregate(twin: SeriesTwin) -> None:
    hour, sql = datetime.timedelta(hours=1), f"SELECT host, rack, {_HOUR}, {{}} FROM t GROUP BY ALL"
    parts = [
        {row[:-1]: row[-1] for row in _filled(twin, 2, fill, hour, sql.format(text))}
        for text, fill in (("avg(v)", "prev"), ("max(n)", "linear"), ("count(*)", "0"))
    ]
    wanted = [(*key, 1, *(part[key] for part in parts)) for key in parts[0]]
    twin.model("SELECT host, rack, time, 1, avg(v), max(n), count(*) FROM t SAMPLE BY 1h FILL(PREV, LINEAR, 0)", wanted)
    twin.same("SELECT time, avg(v) FROM t SAMPLE BY 1h FILL(NONE)", f"SELECT {_HOUR}, avg(v) FROM t GROUP BY 1")
    twin.same("SELECT time, avg(v) FROM empty SAMPLE BY 1h FILL(0)", "SELECT time, v FROM empty")


def test_a_range(twin: SeriesTwin) -> None:
    wanted = twin.duck.execute(
        f"""SELECT b, count(v) FROM
        (SELECT unnest(range(TIMESTAMP '2024-03-29 20:00', TIMESTAMP '2024-03-30 10:00', INTERVAL 1 hour)) b)
        LEFT JOIN t ON {_HOUR} = b AND time < '2024-03-30 10:00' AND host = 'b' GROUP BY b ORDER BY b"""
    ).fetchall()  # fmt: skip
    text = "SELECT time, count(v) FROM t WHERE host = 'b' SAMPLE BY 1h FROM {} TO {} FILL(0)"
    twin.model(text.format("'2024-03-29 20:00'", "'2024-03-30 10:00'"), wanted, ordered=True)
    twin.model(text.format("$1", "$2"), wanted, ["2024-03-29 20:00", "2024-03-30 10:00"], ordered=True)
    either = "SELECT time, count(v) FROM t WHERE host = 'b' OR host = 'none' SAMPLE BY 1h FROM '2024-03-30' TO '2024-03-30 10:00'"
    twin.same(either, f"SELECT {_HOUR}, count(v) FROM t WHERE host = 'b' AND time < '2024-03-30 10:00' GROUP BY 1")


def test_a_calendar_of_a_zone(twin: SeriesTwin) -> None:
    day = "(time_bucket(INTERVAL '1 day', CAST({} AS TIMESTAMPTZ), 'Europe/Berlin') AT TIME ZONE 'UTC'{})"
    berlin = "SELECT time, host, count(*) FROM t SAMPLE BY 1d {}ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin'"
    own = f"SELECT {day.format('time', '')} AS b, host, count(*) FROM t GROUP BY ALL"
    found = twin.same(berlin.format(""), own)
    assert {row[0].hour for row in found} == {22, 23}  # the clock changes on the 31st of March
    shifted = day.format("time - INTERVAL 6 hours", " + INTERVAL 6 hours")
    twin.same(berlin.format("") + " WITH OFFSET '06:00'", f"SELECT {shifted} AS b, host, count(*) FROM t GROUP BY ALL")
    offset = "time_bucket(INTERVAL 1 hour, time - INTERVAL 20 minutes) + INTERVAL 20 minutes"
    twin.same(
        "SELECT time, sum(n) FROM t SAMPLE BY 1h ALIGN TO CALENDAR WITH OFFSET '00:20'",
        f"SELECT {offset}, sum(n) FROM t GROUP BY 1",
    )
    starts = [datetime.datetime(2024, 3, 28, 23), datetime.datetime(2024, 3, 29, 23), datetime.datetime(2024, 3, 30, 23),
              datetime.datetime(2024, 3, 31, 22), datetime.datetime(2024, 4, 1, 22)]  # fmt: skip
    counts = dict(twin.duck.execute(f"SELECT {day.format('time', '')}, count(*) FROM t GROUP BY 1").fetchall())
    sql = "SELECT time, count(*) FROM t SAMPLE BY 1d FROM '2024-03-29' TO '2024-04-02' FILL(0) ALIGN TO CALENDAR TIME ZONE $1"
    twin.model(sql, [(start, counts.get(start, 0)) for start in starts], ["Europe/Berlin"], ordered=True)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT time, avg(v) FROM t SAMPLE BY", "expected a width such as 10s, 5m, 1h, 1d or 1M at the end of the statement"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 1 h",
         "a width is a number and a letter without a space between: 1h (line 1, column 38)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 2 days",
         "a width is a number and a letter without a space between: 2d (line 1, column 38)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 5min", "unknown unit 'min': write 5m (line 1, column 39)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY INTERVAL", "expected a width such as INTERVAL '1 hour' at the end of the statement"),
        ("SELECT time,\n avg(v) FROM t SAMPLE BY 3q",
         "unknown unit 'q': there are U or us, T or ms, s, m, h, d, w, M and y (line 2, column 27)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 0h", "a width is a whole number of units, not 0 (line 1, column 38)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 1h FILL(NEXT)",
         "expected PREV, LINEAR, NULL, NONE or a constant, not 'NEXT' (line 1, column 46)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 1h FILL(PREV, 0)",
         "FILL takes one value, or one for each of the 1 aggregates (line 1, column 41)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 1h ALIGN TO FIRST OBSERVATION",
         f"{sample.NOT_FIRST} (line 1, column 41)"),
        ("SELECT time, ? FROM\n nowhere SAMPLE BY 1h", "no table 'nowhere' (line 2, column 2); there are: t, empty"),
        ("SELECT time, avg(v) AS x, x * 2 FROM t SAMPLE BY 1h FILL(0)",
         "with FILL an item does not name another: compute it in a query around (line 1, column 27)"),
        ("SELECT * FROM t SAMPLE BY 1h", "SAMPLE BY needs its columns by name (line 1, column 8)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 1h GROUP BY 1",
         "SAMPLE BY groups by the items that aggregate nothing: it takes no GROUP BY (line 1, column 41)"),
        ("SELECT time, avg(v) FROM t SAMPLE BY 1h WHERE n > 0",
         "WHERE comes before SAMPLE BY (line 1, column 41)"),
        ("EXPLAIN SELECT 1 AS a, time, avg(v) FROM range(5) SAMPLE BY 1h",
         "SAMPLE BY is for a table or a query over one: which column is the time cannot be told (line 1, column 51)"),
    ],
)  # fmt: skip
def test_errors(twin: SeriesTwin, sql: str, message: str) -> None:
    assert twin.refused(sql, [1] if "?" in sql else None) == message
