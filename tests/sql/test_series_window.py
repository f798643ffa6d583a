"""TUMBLE, HOP and SESSION in FROM, in the ways in which Flink and IoTDB write them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from support.series_case import LAYOUTS, SeriesTwin, series_twins


@pytest.fixture(scope="module", params=LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesTwin]:
    yield from series_twins(tmp_path_factory.mktemp("window"), request.param)


_TUMBLE = "SELECT *, time_bucket(INTERVAL 5 minutes, time), time_bucket(INTERVAL 5 minutes, time) + INTERVAL 5 minutes FROM t"


@pytest.mark.parametrize(
    "call",
    [
        "TUMBLE(t, time, INTERVAL '5 minutes')", "tumble(t, 'time', 5m)", "TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '5' MINUTES)",
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '5' MINUTES))", "TUMBLE(DATA => t, TIMECOL => 'time', SIZE => 5m)",
        "TUMBLE(SIZE := '5 minutes', DATA := (SELECT * FROM t), TIMECOL := time)", "TUMBLE('t', 'time', $1::INTERVAL)",
    ],
)  # fmt: skip
def test_tumble(twin: SeriesTwin, call: str) -> None:
    params = ["5 minutes"] if "$1" in call else None
    twin.same(f"SELECT * FROM {call}", _TUMBLE.replace("INTERVAL 5 minutes", "$1::INTERVAL") if params else _TUMBLE, params)
    assert twin.columns(f"SELECT * FROM {call.replace('$1', chr(39) + '5m' + chr(39))}")[-2:] == ["window_start", "window_end"]


def test_aggregates_of_windows(twin: SeriesTwin) -> None:
    ours = "SELECT window_start, window_end, host, avg(v) FROM TUMBLE(t, time, 3h) WHERE rack = 1 GROUP BY ALL ORDER BY ALL"
    bucket = "time_bucket(INTERVAL 3 hours, time)"
    theirs = f"SELECT {bucket} s, s + INTERVAL 3 hours e, host, avg(v) FROM t WHERE rack = 1 GROUP BY ALL ORDER BY ALL"
    twin.same(ours, theirs, ordered=True)
    origin = "TUMBLE(t, time, 3h, '2024-03-30 01:00')"
    twin.same(f"SELECT window_start, count(*) FROM {origin} GROUP BY 1",
              "SELECT time_bucket(INTERVAL 3 hours, time, TIMESTAMP '2024-03-30 01:00'), count(*) FROM t GROUP BY 1")  # fmt: skip
    joined = "SELECT t.host, count(*) FROM TUMBLE(t, time, 1d) JOIN (SELECT 1 AS rack) r ON t.rack = r.rack GROUP BY t.host"
    twin.same(joined, "SELECT host, count(*) FROM t WHERE rack = 1 GROUP BY host")
    aliased = "SELECT w.host FROM TUMBLE(t, time, 1d) AS w, TUMBLE(t, time, 1d) x WHERE w.time = x.time"
    twin.same(aliased + " AND w.host = x.host AND w.rack = x.rack", "SELECT host FROM t WHERE host IS NOT NULL")
    assert twin.found("SELECT * FROM TUMBLE(empty, time, 1d)") == []


@pytest.mark.parametrize(("slide", "size"), [("20m", "1h"), ("1h", "1h"), ("2h", "1h"), ("45m", "100m")])
def test_hop(twin: SeriesTwin, slide: str, size: str) -> None:
    step, length = (datetime.timedelta(minutes=int(text[:-1]) * (60 if text[-1] == "h" else 1)) for text in (slide, size))
    epoch = datetime.datetime(2000, 1, 3)
    rows = twin.duck.execute("SELECT host, n, CAST(time AS TIMESTAMP) FROM t").fetchall()
    wanted: list[tuple[Any, ...]] = []
    for host, n, time in rows:
        start = epoch + (time - epoch) // step * step
        while start + length > time:
            wanted.append((host, n, start, start + length))
            start -= step
    twin.model(f"SELECT host, n, window_start, window_end FROM HOP(t, time, {slide}, {size})", wanted)
    named = f"HOP(DATA => t, TIMECOL => 'time', SLIDE => {slide}, SIZE => {size})"
    twin.model(f"SELECT host, n, window_start, window_end FROM {named}", wanted)
    twin.model("SELECT * FROM HOP(empty, time, 1h, 2h)", [])


def _sessions(twin: SeriesTwin, keys: str, gap: datetime.timedelta) -> list[tuple[Any, ...]]:
    listed = f"{keys}, " if keys else ""
    rows = twin.duck.execute(f"SELECT {listed}epoch_us(time), CAST(time AS TIMESTAMP) FROM t ORDER BY ALL").fetchall()
    made: list[list[Any]] = []
    for row in sorted(rows, key=lambda row: (repr(row[:-2]), row[-2])):
        key, at = row[:-2], row[-1]
        if made and made[-1][0] == key and at - made[-1][2] <= gap:
            made[-1][2] = at
            made[-1][3] += 1
        else:
            made.append([key, at, at, 1])
    return [(*key, start, end + gap, count) for key, start, end, count in made]


@pytest.mark.parametrize("gap", ["20m", "3h"])
def test_session(twin: SeriesTwin, gap: str) -> None:
    length = datetime.timedelta(minutes=20) if gap == "20m" else datetime.timedelta(hours=3)
    for keys in ("host", "host, rack"):
        wanted = _sessions(twin, keys, length)
        for call in (
            f"SESSION(t, time, {gap}, PARTITION BY {keys})",
            f"SESSION(t PARTITION BY {keys}, time, {gap})",
            f"SESSION(DATA => t PARTITION BY {keys} ORDER BY time, TIMECOL => 'time', GAP => {gap})",
            f"TABLE(SESSION(TABLE t PARTITION BY {keys}, DESCRIPTOR(time), {gap}))",
        ):
            twin.model(f"SELECT {keys}, window_start, window_end, count(*) FROM {call} GROUP BY ALL", wanted)
    one = f"SELECT window_start, window_end, count(*) FROM SESSION(t, time, {gap}) GROUP BY ALL"
    twin.model(one, _sessions(twin, "", length))
    assert twin.columns(f"SELECT * FROM SESSION(t, time, {gap})") == [
        "time",
        "host",
        "rack",
        "v",
        "n",
        "note",
        "window_start",
        "window_end",
    ]
    assert twin.found("SELECT * FROM SESSION(empty, time, 1h, PARTITION BY host)") == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM TUMBLE(t, time)", "TUMBLE is written TUMBLE(table, time, size[, origin]) (line 1, column 15)"),
        ("SELECT *\n FROM HOP(t, time, 1h)", "HOP is written HOP(table, time, slide, size[, origin]) (line 2, column 7)"),
        ("SELECT * FROM TUMBLE(DATA => t, TIMECOL => 'time', WIDTH => 1h)",
         "TUMBLE has no argument 'width': it is written TUMBLE(table, time, size[, origin]) (line 1, column 52)"),
        ("SELECT * FROM TUMBLE(DATA => t, SIZE => 1h, ORIGIN => '2024-01-01')",
         "TUMBLE lacks its timecol: it is written TUMBLE(table, time, size[, origin]) (line 1, column 15)"),
        ("SELECT * FROM TUMBLE(t PARTITION BY host, time, 1h)",
         "TUMBLE takes no PARTITION BY: its windows are the same for all rows (line 1, column 22)"),
        ("SELECT * FROM TUMBLE(t, time, 5x)",
         "unknown unit 'x': there are U or us, T or ms, s, m, h, d, w, M and y (line 1, column 32)"),
        ("SELECT ? AS a, *\nFROM TUMBLE(\n  nowhere, time, 5m)", "no table 'nowhere' (line 3, column 3); there are: t, empty"),
        ("SELECT * FROM SESSION(t, time, 5m, host)", "expected PARTITION BY, not 'host' (line 1, column 36)"),
        ("SELECT * FROM TUMBLE(t, time, 1h", "the parenthesis does not close (line 1, column 21)"),
    ],
)  # fmt: skip
def test_errors(twin: SeriesTwin, sql: str, message: str) -> None:
    assert twin.refused(sql, [1] if "?" in sql else None) == message
