"""Functions under other names, zones, downsample, and how texts with our words are read."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator

import duckdb
import pytest

from support.series_case import LAYOUTS, SeriesTwin, series_twins
from tsdb.sql.reader import read_statement
from tsdb.sql.series import downsample, expand, expansion, vector, word
from tsdb.sql.series.aggregate import AGGREGATES
from tsdb.sql.statement import Query


@pytest.fixture(scope="module", params=LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesTwin]:
    yield from series_twins(tmp_path_factory.mktemp("function"), request.param)


_BERLIN = "(time_bucket(INTERVAL '{}', time::TIMESTAMPTZ, 'Europe/Berlin') AT TIME ZONE 'UTC')"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT date_bin(INTERVAL '15 minutes', time, TIMESTAMP '2001-01-01 00:05') AS b, count(*) FROM t GROUP BY b",
         "SELECT time_bucket(INTERVAL 15 minutes, time, TIMESTAMP '2001-01-01 00:05'), count(*) FROM t GROUP BY 1"),
        ("SELECT date_bin('15 minutes', time, '2001-01-01 00:05'), count(*) FROM t GROUP BY ALL",
         "SELECT time_bucket(INTERVAL 15 minutes, time, TIMESTAMP '2001-01-01 00:05'), count(*) FROM t GROUP BY 1"),
        ("SELECT date_bin(1h, time), time_bucket(30m, time), count(*) FROM t GROUP BY ALL",
         "SELECT time_bucket(INTERVAL 1 hour, time), time_bucket(INTERVAL 30 minutes, time), count(*) FROM t GROUP BY ALL"),
        ("SELECT host, first_by(v, time), last_by(v, time) FROM t GROUP BY host",
         "SELECT host, arg_min_null(v, time), arg_max_null(v, time) FROM t GROUP BY host"),
        ("SELECT host, first(v, time), last(n, time) FILTER (WHERE n > 9) FROM t GROUP BY host",
         "SELECT host, arg_min_null(v, time), arg_max_null(n, time) FILTER (WHERE n > 9) FROM t GROUP BY host"),
        ("SELECT host, rack, first(v), last(v), max_by(n, time) FROM t GROUP BY host, rack",
         "SELECT host, rack, first(v ORDER BY time), last(v ORDER BY time), max_by(n, time) FROM t GROUP BY 1, 2"),
        ("SELECT time, host, rack, last(v) FROM t SAMPLE BY 3h",
         "SELECT time_bucket(INTERVAL 3 hours, time), host, rack, last(v ORDER BY time) FROM t GROUP BY ALL"),
        ("SELECT host, first(time ORDER BY v DESC NULLS LAST, time) AS at FROM t GROUP BY host",
         "SELECT host, first(time ORDER BY v DESC NULLS LAST, time) FROM t GROUP BY host"),
        ("SELECT first_by(n, v) FROM t WHERE v IS NOT NULL AND n IS NOT NULL",
         "SELECT arg_min_null(n, v) FROM t WHERE v IS NOT NULL AND n IS NOT NULL"),
        ("SELECT time_bucket('1 day', time, 'Europe/Berlin'), count(*) FROM t GROUP BY 1",
         f"SELECT {_BERLIN.format('1 day')}, count(*) FROM t GROUP BY 1"),
        ("SELECT time_bucket('1 day', time, timezone => 'Europe/Berlin') AS b, count(*) FROM t GROUP BY b",
         f"SELECT {_BERLIN.format('1 day')}, count(*) FROM t GROUP BY 1"),
        ("SELECT date_trunc('day', time, timezone := 'Europe/Berlin') AS b, count(*) FROM t GROUP BY b",
         f"SELECT {_BERLIN.format('1 day')}, count(*) FROM t GROUP BY 1"),
        ("SELECT time_bucket('1 month', x.time, 'Europe/Berlin') m, max(n) FROM t x GROUP BY m",
         f"SELECT {_BERLIN.format('1 month')}, max(n) FROM t GROUP BY 1"),
        ("SELECT time_bucket('1 week', time, 'Europe/Berlin') m, max(n) FROM t GROUP BY m",
         f"SELECT {_BERLIN.format('1 week')}, max(n) FROM t GROUP BY 1"),
        ("SELECT date_trunc('day', time, 'Europe/Berlin'), count(*) FROM t GROUP BY 1",
         f"SELECT {_BERLIN.format('1 day')}, count(*) FROM t GROUP BY 1"),
        ("SELECT date_trunc('month', time, 'Europe/Berlin'), count(*) FROM t GROUP BY 1",
         f"SELECT {_BERLIN.format('1 month')}, count(*) FROM t GROUP BY 1"),
        ("SELECT date_trunc('day', time), count(*) FROM t GROUP BY 1",
         "SELECT date_trunc('day', time), count(*) FROM t GROUP BY 1"),
        ("SELECT time_bucket('1 day', time::TIMESTAMPTZ, 'Europe/Berlin') AS b, count(*) FROM t GROUP BY b",
         "SELECT time_bucket(INTERVAL 1 day, time::TIMESTAMPTZ, 'Europe/Berlin'), count(*) FROM t GROUP BY 1"),
        ("SELECT time AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin' FROM t",
         "SELECT time AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin' FROM t"),
        ("SELECT time_bucket('1 day', time, INTERVAL '6 hours') b, count(*) FROM t GROUP BY b",
         "SELECT time_bucket(INTERVAL 1 day, time, INTERVAL 6 hours), count(*) FROM t GROUP BY 1"),
    ],
)  # fmt: skip
def test_functions(twin: SeriesTwin, ours: str, theirs: str) -> None:
    twin.same(ours, theirs)


def test_names(twin: SeriesTwin) -> None:
    sql = "SELECT last_by(v, time), date_bin(1h, min(time)), time_bucket('1 day', max(time), 'Europe/Berlin') FROM t"
    assert twin.columns(sql.replace(", time_bucket('1 day', max(time), 'Europe/Berlin')", "")) == [
        "last_by(v, time)",
        "date_bin(1h, min(time))",
    ]
    assert twin.columns("SELECT downsample(time, v, 5), date_trunc('day', min(time), 'Asia/Tokyo') AS d FROM t") == [
        "downsample(time, v, 5)",
        "d",
    ]


def test_an_unknown_zone_is_named(twin: SeriesTwin) -> None:
    assert "Europe/Nowhere" in twin.refused("SELECT time_bucket('1 day', time, 'Europe/Nowhere') FROM t GROUP BY 1")


# ---------------------------------------------------------------------------------------------------- downsample


def _triangles(points: list[tuple[int, float]], wanted: int) -> list[tuple[int, float]]:
    """Largest triangle three buckets (Steinarsson 2013) in plain Python."""
    count = len(points)
    if wanted >= count:
        return points
    chosen, last, every = [points[0]], points[0], (count - 2) / max(wanted - 2, 1)
    for bucket in range(wanted - 2):
        start, middle, end = (int((bucket + i) * every) + 1 for i in range(3))
        following = points[middle : min(end, count)]
        x, y = (sum(values) / len(following) for values in zip(*following, strict=True))
        areas = [abs((last[0] - x) * (p[1] - last[1]) - (last[0] - p[0]) * (y - last[1])) for p in points[start:middle]]
        last = points[start + areas.index(max(areas))]
        chosen.append(last)
    return [*chosen, points[-1]]


def _points(twin: SeriesTwin, where: str) -> list[tuple[int, float]]:
    rows = twin.duck.execute(f"SELECT epoch_ns(time), v FROM t WHERE v IS NOT NULL AND {where} ORDER BY time").fetchall()
    return [(at - rows[0][0], value) for at, value in rows]


@pytest.mark.parametrize("wanted", [2, 3, 7, 25, 1000])
def test_downsample(twin: SeriesTwin, wanted: int) -> None:
    where = "host = 'b'"
    expected = _triangles(_points(twin, where), wanted)
    base = twin.duck.execute(f"SELECT min(epoch_ns(time)) FROM t WHERE v IS NOT NULL AND {where}").fetchone()
    assert base is not None
    table = f"SELECT epoch_ns(time) - {base[0]}, value FROM downsample((SELECT time, v AS value FROM t WHERE {where}), {wanted})"
    listed = f"SELECT epoch_ns(p.time) - {base[0]}, p.value FROM (SELECT unnest(downsample(time, v, $1)) AS p FROM t WHERE {where})"
    twin.model(table, expected, ordered=True)
    twin.model(listed, expected, [wanted], ordered=True)
    filtered = listed.replace(f" FROM t WHERE {where}", f" FROM t WHERE rack = 1 OR {where}").replace(
        "$1)", f"$1) FILTER (WHERE {where})"
    )
    twin.model(filtered, expected, [wanted], ordered=True)


def test_downsample_by_curve(twin: SeriesTwin) -> None:
    wanted = []
    for host, rack in twin.duck.execute("SELECT DISTINCT host, rack FROM t").fetchall():
        where = "host IS NULL" if host is None else f"host = '{host}' AND rack = {rack}"
        wanted += [(host, rack, value) for _, value in _triangles(_points(twin, where), 6)]
    twin.model("SELECT host, rack, v FROM downsample((SELECT time, v, host, t.rack FROM t), 6)", wanted)
    twin.model("SELECT host, rack, d.v FROM downsample((SELECT time, v, host, rack FROM t), 6) AS d", wanted)
    by_group = "SELECT host, rack, p.value FROM (SELECT host, rack, unnest(downsample(time, v, 6)) AS p FROM t GROUP BY host, rack)"
    twin.model(by_group, wanted)
    assert twin.found("SELECT * FROM downsample((SELECT time, v FROM empty), 6)") == []
    assert twin.columns("SELECT * FROM downsample((SELECT time, v, host AS h FROM t), 6)") == ["time", "v", "h"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT downsample(time, v) FROM t",
         f"downsample is written {downsample._FORM} (line 1, column 8)"),
        ("SELECT * FROM downsample(t, 5)",
         "downsample reads a query of a time and a value: downsample((SELECT time, value …), points) (line 1, column 26)"),
        ("SELECT * FROM downsample((SELECT * FROM t), 5)",
         "downsample needs the columns by name: a time, a value, and what tells curves apart (line 1, column 34)"),
        ("SELECT last_by(v) FROM t", "last_by is written last_by(value, time) (line 1, column 8)"),
        ("SELECT ?, ?, date_bin(1h) FROM t", "date_bin is written date_bin(width, time[, origin]) (line 1, column 14)"),
    ],
)  # fmt: skip
def test_errors(twin: SeriesTwin, sql: str, message: str) -> None:
    assert twin.refused(sql, [1, 2] if "?" in sql else None) == message


# ---------------------------------------------------------------------------------------------------- reading


#: Macros over aggregates, and aggregates that only the parser knows.
_BESIDE = ("WEIGHTED_AVG", "WAVG", "GEOMEAN", "GEOMETRIC_MEAN", "PERCENTILE_CONT", "PERCENTILE_DISC")


def test_lists_of_words_are_whole() -> None:
    assert {name for words, _ in expansion._EXPANSIONS for name in words} == word.WORDS
    rows = duckdb.sql("SELECT DISTINCT upper(function_name) FROM duckdb_functions() WHERE function_type = 'aggregate'").fetchall()
    assert {name for (name,) in rows} | {*_BESIDE} == AGGREGATES
    taken = duckdb.sql("SELECT DISTINCT upper(function_name) FROM duckdb_functions()").fetchall()
    others = {"FIRST", "LAST", "TIME_BUCKET", "DATE_TRUNC", "SHOW"}  # whose other forms stay DuckDB's
    assert word.WORDS & {name for (name,) in taken} == others | vector.WORDS  # which mean what they do there


def _query(sql: str) -> Query:
    statement = read_statement(sql)
    assert isinstance(statement, Query)
    return statement


@pytest.mark.parametrize(
    "sql",
    ["SELECT 1", "SELECT first, last FROM t", "SELECT first(x), last(x ORDER BY y) FROM t", "SELECT rate FROM sample",
     "SELECT latest.n FROM t latest",
     "SELECT date_trunc('day', time) FROM t", "SELECT time_bucket(INTERVAL '1 day', time) FROM t", "SELECT s.rate(x) FROM s",
     "SELECT 'SAMPLE BY 1h' AS rate -- LATEST ON time\nFROM t", "SELECT * FROM t AS hop(a, b)"],
)  # fmt: skip
def test_other_texts_stay(sql: str) -> None:
    query = _query(sql)
    assert expand(query, {}).text == query.text


def test_the_rest_of_a_text_stays(twin: SeriesTwin) -> None:
    tables = twin.db._store.snapshot().definitions
    sql = "SELECT  time , host /* who */, avg( v )  AS a\n -- each hour\n FROM t WHERE host <> ';' SAMPLE BY 1h ORDER  BY 1"
    made = expand(_query(sql), tables).text
    for kept in (" , host /* who */, avg( v )  AS a\n -- each hour\n FROM t WHERE host <> ';' ", "ORDER  BY 1"):
        assert kept in made


def test_random_nesting(twin: SeriesTwin) -> None:
    """Words inside one another's subqueries: as many rows as when every level is materialised by hand."""
    rng, words = random.Random(3), ["LATEST BY host", "SAMPLE BY 2h", "SAMPLE BY 2h FILL(PREV)"]
    for _ in range(20):
        sql = "SELECT time, host, v FROM t"
        rows = twin.found(sql)
        for level in range(rng.randrange(1, 4)):
            kind = rng.choice(words)
            items = "time, host, v" if kind.startswith("LATEST") else "time, host, max(v) AS v"
            sql = f"SELECT {items} FROM ({sql}) AS s{level} {kind}"
            temporary = f"SELECT {items} FROM copy {kind}"
            twin.db.sql("DROP TABLE IF EXISTS copy")
            twin.db.sql("CREATE TABLE copy (time TIMESTAMP_NS TIME, host STRING TAG, v DOUBLE FIELD) WITH (mode = 'append')")
            twin.db.write("copy", [dict(zip(("time", "host", "v"), row, strict=True)) for row in rows])
            rows = twin.found(temporary)
        assert len(twin.found(sql)) == len(rows), sql
    twin.db.sql("DROP TABLE copy")


def test_parameters_and_settings(twin: SeriesTwin) -> None:
    sql = "SELECT time, avg(v) FROM t WHERE host = ? AND n > ? SAMPLE BY 1h FILL(?) SETTINGS enable_native_operators = {}"
    rows = [twin.db.sql(sql.format(on), ["b", 3, -1.0]).fetchall() for on in ("true", "false")]
    assert rows[0] == rows[1]
    assert any(value == -1.0 for _, value in rows[0])
    named = "SELECT time, avg(v) FROM t WHERE host = $host AND n > $n SAMPLE BY 1h FILL($fill)"
    assert twin.found(named, {"host": "b", "n": 3, "fill": -1.0}) == rows[0]


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_US", "TIMESTAMP_NS"])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT hour(time), avg(v) FROM o SAMPLE BY 1h FILL(LINEAR)", [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]),
        ("SELECT hour(time), max(v) FROM o SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'Asia/Tokyo'", [(15, 4.0)]),
        ("SELECT rate(v) * 3600, derivative(v) * 3600, moving_avg(v, 3h) FROM o", [(None, None, 1.0), (1.0, 1.0, 2.5)]),
        ("SELECT v, hour(window_start) FROM HOP(o, time, 1h, 2h)", [(1.0, 0), (1.0, 23), (4.0, 3), (4.0, 2)]),
        ("SELECT v, hour(window_start), hour(window_end) FROM SESSION(o, time, 1h)", [(1.0, 0, 1), (4.0, 3, 4)]),
        ("SELECT hour(time), v FROM downsample((SELECT time, v FROM o), 2)", [(0, 1.0), (3, 4.0)]),
        ("SELECT v FROM o LATEST BY host", [(4.0,)]),
        ("SELECT hour(date_trunc('day', time, 'Asia/Tokyo')) h, hour(max(date_bin(2h, time))), last(v) FROM o GROUP BY h",
         [(15, 2, 4.0)]),
    ],
)  # fmt: skip
def test_every_type_of_time(twin: SeriesTwin, kind: str, sql: str, rows: list[tuple[object, ...]]) -> None:
    twin.db.sql("DROP TABLE IF EXISTS o")
    twin.db.sql(f"CREATE TABLE o (time {kind} TIME, host STRING TAG, v DOUBLE FIELD)")
    twin.db.sql("INSERT INTO o VALUES ('2024-03-30 00:00', 'a', 1), ('2024-03-30 03:00', 'a', 4)")
    twin.model(sql, rows)
    twin.db.sql("DROP TABLE o")


def test_places_are_those_of_each_text(twin: SeriesTwin) -> None:
    sql = "SELECT rate(n) FROM t GROUP BY 1"
    for before, place in (("", "line 1, column 8"), ("\n  ", "line 2, column 10"), ("EXPLAIN ", "line 1, column 16")):
        assert twin.refused(before + sql).endswith(f"({place})")


def test_named_time_zones(twin: SeriesTwin) -> None:
    for call, message in (
        ("time_bucket('1 day', time, tz => 'Europe/Berlin')", "time_bucket has no argument 'tz'"),
        ("time_bucket('1 day', timezone => 'Europe/Berlin')", "time_bucket is written time_bucket(width, time, timezone =>"),
        ("date_trunc('day', time, timezone => 1)", "a time zone has a name such as 'Europe/Paris', not 1"),
    ):
        assert twin.refused(f"SELECT {call}, count(*) FROM t GROUP BY 1").startswith(message)


def test_insert_and_explain(twin: SeriesTwin) -> None:
    twin.db.sql("CREATE TABLE hourly (time TIMESTAMP TIME, host STRING TAG, v DOUBLE FIELD)")
    twin.db.sql("INSERT INTO hourly SELECT time, host, avg(v) FROM t WHERE host IS NOT NULL SAMPLE BY 1h")
    assert len(twin.found("FROM hourly")) == len(twin.found("SELECT time, host, avg(v) FROM t WHERE host IS NOT NULL SAMPLE BY 1h"))
    assert "time_bucket" in twin.plan("SELECT time, host, avg(v) FROM t SAMPLE BY 1h")
    message = twin.refused("INSERT INTO hourly\n SELECT ?, time, avg(v) FROM t SAMPLE BY 1q", [1])
    assert message.endswith("(line 2, column 43)")
    twin.db.sql("DROP TABLE hourly")
    assert isinstance(twin.found("SELECT max(time) FROM t SAMPLE BY 1d")[0][0], datetime.datetime)
