"""What people write who come from elsewhere: aliases without AS, orders by what is shown, other forms of widths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.series_case import LAYOUTS, SeriesTwin, series_twins

_HOUR = "time_bucket(INTERVAL '1 hour', time)"
_WHERE = "time >= '2024-03-30 02:00:00' AND time < '2024-03-31'"
_GAPFILL = "time_bucket_gapfill('1h', time)"


@pytest.fixture(scope="module", params=LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesTwin]:
    yield from series_twins(tmp_path_factory.mktemp("user"), request.param)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT time s, sum(n) FROM t SAMPLE BY 1h", f"SELECT {_HOUR}, sum(n) FROM t GROUP BY 1"),
        ("SELECT time::DATE d, sum(n) FROM t SAMPLE BY 1h", f"SELECT {_HOUR}::DATE, sum(n) FROM t GROUP BY {_HOUR}"),
        ("SELECT time::TIMESTAMP WITH TIME ZONE IS NULL z, sum(n) FROM t SAMPLE BY 1h",
         f"SELECT FALSE, sum(n) FROM t GROUP BY {_HOUR}"),
        ("SELECT INTERVAL '1' DAY, sum(n) FROM t SAMPLE BY 1h", f"SELECT INTERVAL '1' DAY, sum(n) FROM t GROUP BY {_HOUR}"),
        ("SELECT time, sum(n) FROM t SAMPLE BY INTERVAL 1 DAY",
         "SELECT time_bucket(INTERVAL 1 DAY, time), sum(n) FROM t GROUP BY 1"),
        ("SELECT time, sum(n) FROM t SAMPLE BY INTERVAL '2' HOURS FILL(NONE)",
         "SELECT time_bucket(INTERVAL '2' HOURS, time), sum(n) FROM t GROUP BY 1"),
        ("SELECT time, sum(n) FROM t SAMPLE BY INTERVAL (1 + 1) HOUR FROM '2024-03-30' TO '2024-03-31'",
         "SELECT time_bucket(INTERVAL 2 HOUR, time), sum(n) FROM t WHERE time >= '2024-03-30' AND time < '2024-03-31' GROUP BY 1"),
    ],
)  # fmt: skip
def test_forms(twin: SeriesTwin, ours: str, theirs: str) -> None:
    twin.same(ours, theirs)


def test_names_without_as(twin: SeriesTwin) -> None:
    assert twin.columns("SELECT time s, time::DATE d, sum(n) FROM t SAMPLE BY 1h FILL(0)")[:2] == ["s", "d"]
    assert twin.columns("SELECT time s, sum(n) total FROM t SAMPLE BY 1h") == ["s", "total"]


@pytest.mark.parametrize(
    ("shown", "clause", "order", "by"),
    [
        ("time, host, sum(n)", "SAMPLE BY 1h FILL(0)", "sum(n) DESC, time, host", "3 DESC, 1, 2"),
        ("time, host, sum(n)", "SAMPLE BY 1h FILL(0)", "-sum(n), t.time, host", "3 DESC, 1, 2"),
        ("time AS s, host AS h, sum(n)", "SAMPLE BY 1h FILL(0)", "time DESC, host", "1 DESC, 2"),
        ("time s, host h, sum(n)", "SAMPLE BY 1h FILL(PREV)", "host, epoch(time)", "2, 1"),
        ("time s, host, sum(n) n", "SAMPLE BY 1h", "time DESC, host", "1 DESC, 2"),
        (f"{_GAPFILL} AS g, host, sum(n)", f"WHERE {_WHERE} GROUP BY g, host",
         f"sum(n) DESC NULLS LAST, {_GAPFILL}, host", "3 DESC NULLS LAST, 1, 2"),
        (f"{_GAPFILL} AS g, host, locf(sum(n))", f"WHERE {_WHERE} GROUP BY g, host",
         "locf(sum(n)) NULLS FIRST, g, host", "3 NULLS FIRST, 1, 2"),
    ],
)  # fmt: skip
def test_order_by_what_is_shown(twin: SeriesTwin, shown: str, clause: str, order: str, by: str) -> None:
    query = f"SELECT {shown} FROM t {clause}"
    expected = twin.found(f"SELECT * FROM ({query}) ORDER BY {by}")
    assert len(expected) > 20
    assert twin.found(f"{query} ORDER BY {order}") == expected


def test_order_by_an_aggregate_that_is_not_shown(twin: SeriesTwin) -> None:
    shown = twin.found("SELECT time, host, rack, max(n) FROM t SAMPLE BY 1h FILL(NULL) ORDER BY 4 NULLS LAST, 1, 2, 3")
    hidden = "SELECT time, host, rack FROM t SAMPLE BY 1h FILL(NULL) ORDER BY max(n) NULLS LAST, time, host, rack"
    assert twin.found(hidden) == [row[:3] for row in shown]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT rate(n[5m]) FROM t",
         "rate takes no range: rate(n) is from row to row, and SAMPLE BY over it averages (line 1, column 14)"),
        ("SELECT * FROM CUMULATE(t, time, '1h', '1d')",
         "there is no CUMULATE: TUMBLE makes its steps, sum(…) OVER (… ORDER BY window_start) adds them up (line 1, column 15)"),
        ("SELECT * FROM t WHERE LATEST BY host", "LATEST BY is a clause of its own: leave WHERE before it out (line 1, column 17)"),
        ("SELECT rate(note) FROM t", "rate is of numbers, and note is STRING (line 1, column 13)"),
        ("SELECT host, max(note), time FROM t SAMPLE BY 1h FILL(LINEAR)",
         "FILL(LINEAR) is of numbers, and note is STRING (line 1, column 18)"),
        (f"SELECT {_GAPFILL}, interpolate(min(note)) FROM t WHERE {_WHERE} GROUP BY 1",
         "interpolate is of numbers, and note is STRING (line 1, column 57)"),
        ("SELECT downsample(time, note, 3) FROM t", "downsample is of numbers, and note is STRING (line 1, column 25)"),
        ("SELECT * FROM downsample((SELECT time, note FROM t), 3)",
         "downsample is of numbers, and note is STRING (line 1, column 40)"),
        ("SELECT * FROM t WHERE time > now() - 2y",
         "Parser Error: syntax error at or near \"y\": a width in an expression is INTERVAL '1 year' (line 1, column 39)"),
        ("SELECT * FROM t d d", 'Parser Error: syntax error at or near "d" (line 1, column 19)'),
        ("CREATE TABLE u (time TIMESTAMP TIME, s SYMBOL)",
         "column 's': unknown column type 'SYMBOL': write STRING, and TAG behind it where it names a device"),
        ("SELECT time,\n moving_avg(t.host, 3) FROM t", "moving_avg is of numbers, and host is STRING (line 2, column 13)"),
    ],
)  # fmt: skip
def test_errors(twin: SeriesTwin, sql: str, message: str) -> None:
    assert twin.refused(sql) == message


def test_latest_of_a_table_in_parentheses(twin: SeriesTwin) -> None:
    newest = "FROM t QUALIFY row_number() OVER (PARTITION BY host, rack ORDER BY time DESC) = 1"
    twin.same("SELECT host, rack, n FROM (t LATEST ON time PARTITION BY host, rack)", f"SELECT host, rack, n {newest}")
    twin.same("SELECT max(v) FROM (t LATEST BY host, rack)", f"SELECT max(v) FROM ({newest})")


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        ("lcof(n)", "locf"), ("incrase(n)", "increase"), ("irate(n)", "rate"), ("downsampel(time, v, 3)", "downsample"),
        ("time_bucket_gapfil('1h', time)", "time_bucket_gapfill"), ("date_prt('hour', time)", "date_part"),
    ],
)  # fmt: skip
def test_the_nearest_function(twin: SeriesTwin, call: str, meant: str) -> None:
    assert f'Did you mean "{meant}"? (line 1, column 8)' in twin.refused(f"SELECT {call} FROM t")


def test_the_nearest_table_function(twin: SeriesTwin) -> None:
    assert 'Did you mean "tumble"? (line 1, column 15)' in twin.refused("SELECT * FROM TUMBEL(t, time, '1h')")


@pytest.mark.parametrize(
    ("item", "around"),
    [
        ("coalesce(count(*), 0)", "coalesce(a, 0)"),
        ("coalesce(count(*) FILTER (WHERE n > 5), -1)::INT", "coalesce(b, -1)::INT"),
        ("CASE WHEN sum(n) IS NULL THEN 'none' ELSE 'some' END", "CASE WHEN c IS NULL THEN 'none' ELSE 'some' END"),
        ("host || count(*)", "host || a"),
        ("10 - sum(n) / count(*)", "10 - c / a"),
        ("count(*) + row_number() OVER () * 0", "a"),
    ],
)
@pytest.mark.parametrize(
    ("bucket", "clause"),
    [("time", "SAMPLE BY 1h FILL(NULL)"), (_GAPFILL, f"WHERE {_WHERE} GROUP BY s, host")],
    ids=["sample", "gapfill"],
)
def test_items_are_computed_after_filling(twin: SeriesTwin, item: str, around: str, bucket: str, clause: str) -> None:
    parts = f"SELECT {bucket} AS s, host, count(*) AS a, count(*) FILTER (WHERE n > 5) AS b, sum(n) AS c FROM t {clause}"
    wanted = twin.found(f"SELECT s, host, {around} FROM ({parts}) ORDER BY 1, 2")
    query = f"SELECT {bucket} AS s, host, {item} AS x FROM t {clause} ORDER BY s, host"
    assert twin.found(query) == wanted
    assert twin.found(query, native=False) == wanted
