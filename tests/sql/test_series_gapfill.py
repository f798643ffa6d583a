"""time_bucket_gapfill with locf and interpolate, against a model in plain Python."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.series_case import LAYOUTS, SeriesTwin, series_twins
from tsdb.sql.series import gapfill

HOUR = datetime.timedelta(hours=1)
LOW, HIGH = datetime.datetime(2024, 3, 30, 2), datetime.datetime(2024, 3, 31, 9, 30)
WITHIN = f"time >= '{LOW}' AND time < '{HIGH}'"

Key = tuple[Any, ...]


@pytest.fixture(scope="module", params=LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesTwin]:
    yield from series_twins(tmp_path_factory.mktemp("gapfill"), request.param)


class _Model:
    """One aggregate by (keys, hour), and what it is in the hours that have no rows."""

    def __init__(self, twin: SeriesTwin, aggregate: str, keys: str = "host, rack", where: str = WITHIN) -> None:
        listed = f"{keys}, " if keys else ""
        sql = f"SELECT {listed}time_bucket(INTERVAL '1 hour', time), {aggregate} FROM t WHERE {where} GROUP BY ALL"
        self.rows = {row[:-1]: row[-1] for row in twin.duck.execute(sql).fetchall()}
        self.groups = sorted({key[:-1] for key in self.rows}, key=repr) if keys else [()]

    def at(self, group: Key, hour: datetime.datetime) -> Any:
        return self.rows.get((*group, hour))

    def locf(self, group: Key, hour: datetime.datetime) -> Any:
        own = [key[-1] for key in self.rows if key[:-1] == group and key[-1] <= hour]
        return self.rows[(*group, max(own))] if own else None

    def locf_over_nulls(self, group: Key, hour: datetime.datetime) -> Any:
        own = [key[-1] for key, value in self.rows.items() if key[:-1] == group and key[-1] <= hour and value is not None]
        return self.rows[(*group, max(own))] if own else None

    def interpolate(self, group: Key, hour: datetime.datetime) -> Any:
        own = [key[-1] for key in self.rows if key[:-1] == group]
        if hour in own:
            return self.at(group, hour)
        before, after = max((b for b in own if b < hour), default=None), min((a for a in own if a > hour), default=None)
        if before is None or after is None:
            return None
        one, two = self.at(group, before), self.at(group, after)
        return None if one is None or two is None else one + (two - one) * ((hour - before) / (after - before))

    def filled(
        self, *values: Callable[[Key, datetime.datetime], Any], low: datetime.datetime = LOW, high: datetime.datetime = HIGH
    ) -> list[Key]:
        hours = []
        at = low.replace(minute=0)
        while at < high:
            hours.append(at)
            at += HOUR
        return [(*group, hour, *(value(group, hour) for value in values)) for group in self.groups for hour in hours]


def test_every_group_gets_every_bucket(twin: SeriesTwin) -> None:
    model = _Model(twin, "avg(v)")
    wanted = model.filled(model.at)
    assert len(wanted) > len(model.rows)
    select = "SELECT host, rack, time_bucket_gapfill('1 hour', time) AS hour, avg(v) FROM t"
    for bounds in (
        WITHIN,
        f"time < '{HIGH}' AND (n IS NULL OR n IS NOT NULL) AND '{LOW}' <= time",
        f"(t.time >= TIMESTAMP '{LOW}' AND (time < '{HIGH}'::TIMESTAMP))",
        f"time BETWEEN '{LOW}' AND TIMESTAMP '{HIGH}' - INTERVAL '1 microsecond'",
        f"time >= '2000-01-01' AND {WITHIN} AND time < now()",
    ):
        for grouping in ("hour, host, rack", "3, 1, 2", "time_bucket_gapfill('1 hour', time), t.host, rack", "ALL"):
            twin.model(f"{select} WHERE {bounds} GROUP BY {grouping}", wanted)
    twin.model(f"{select} WHERE time >= $1 AND time < $2 GROUP BY ALL", wanted, [LOW, HIGH])
    twin.model(f"{select} WHERE time >= ? AND time < ? GROUP BY ALL", wanted, [str(LOW), str(HIGH)])
    for width in ("INTERVAL 1 HOUR", "1h", "'60m'", "INTERVAL '60 minutes'"):
        twin.model(select.replace("'1 hour'", width) + f" WHERE {WITHIN} GROUP BY ALL", wanted)


def test_start_and_finish(twin: SeriesTwin) -> None:
    low, high = LOW - 30 * HOUR, HIGH + 4 * HOUR
    model = _Model(twin, "count(*)")
    wanted = model.filled(model.at, low=low, high=high)
    for call in (f"time, '{low}', '{high}'", f"time, start => '{low}', finish => TIMESTAMP '{high}'"):
        twin.model(f"SELECT host, rack, time_bucket_gapfill('1 hour', {call}), count(*) FROM t WHERE {WITHIN} GROUP BY ALL", wanted)
    later = model.filled(model.at, high=high)
    call = f"time_bucket_gapfill('1 hour', time, NULL, '{high}')"
    twin.model(f"SELECT host, rack, {call}, count(*) FROM t WHERE {WITHIN} GROUP BY ALL", later)
    inside = (
        f"SELECT host, time_bucket_gapfill('1 hour', time, '{LOW}', '{LOW + HOUR}'), count(*) FROM t WHERE host = 'b' GROUP BY ALL"
    )
    assert len(twin.found(inside)) >= len(
        twin.duck_rows("SELECT DISTINCT time_bucket(INTERVAL 1 hour, time) FROM t WHERE host = 'b'")
    )


def test_values(twin: SeriesTwin) -> None:
    v, n, c = _Model(twin, "avg(v)"), _Model(twin, "max(n)"), _Model(twin, "count(*)")
    counts, sums = (lambda g, h: c.at(g, h) or 0), (lambda g, h: _plus(n.locf(g, h), c.at(g, h)))
    wanted = v.filled(v.locf, v.interpolate, v.locf_over_nulls, n.interpolate, counts, sums)
    sql = f"""SELECT host, rack, time_bucket_gapfill('1 hour', time) b, locf(avg(v)), interpolate(avg(v)),
        locf(avg(v), treat_null_as_missing => true), interpolate(max(n)), coalesce(locf(NULL), count(*), 0), locf(max(n)) + count(*)
        FROM t WHERE {WITHIN} GROUP BY b, host, rack"""
    twin.model(sql.replace("coalesce(locf(NULL), count(*), 0)", "coalesce(interpolate(NULL::INT), count(*), 0)"), wanted)


def test_aggregates_with_filters_beside_filled_values(twin: SeriesTwin) -> None:
    n, c = _Model(twin, "max(n)"), _Model(twin, "count(*) FILTER (WHERE v > 0)")
    sql = f"""SELECT host, rack, time_bucket_gapfill('1 hour', time) b, locf(max(n)) + count(*) FILTER (WHERE v > 0),
        locf(count(*) FILTER (WHERE v > 0)) FROM t WHERE {WITHIN} GROUP BY ALL"""
    twin.model(sql, n.filled(lambda g, h: _plus(n.locf(g, h), c.at(g, h)), c.locf))


def _plus(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def test_without_other_keys(twin: SeriesTwin) -> None:
    model = _Model(twin, "sum(n)", keys="", where=f"{WITHIN} AND host = 'b'")
    sql = (
        f"SELECT time_bucket_gapfill('1 hour', time) AS b, locf(sum(n)) FROM t WHERE {WITHIN} AND host = 'b' GROUP BY b ORDER BY b"
    )
    twin.model(sql, model.filled(model.locf), ordered=True)
    nobody = _Model(twin, "sum(n)", keys="", where=f"{WITHIN} AND host = 'nobody'")
    for source in ("t WHERE host = 'nobody' AND", "empty WHERE"):
        sql = f"SELECT time_bucket_gapfill('1 hour', time) AS b, locf(sum(n)) FROM {source} {WITHIN} GROUP BY b"
        twin.model(sql, nobody.filled(nobody.at))
    assert twin.found(f"SELECT host, time_bucket_gapfill('1 hour', time), sum(n) FROM empty WHERE {WITHIN} GROUP BY ALL") == []


def test_a_key_that_is_not_shown(twin: SeriesTwin) -> None:
    model = _Model(twin, "avg(v)")
    wanted = [row[2:] for row in model.filled(model.locf)]
    twin.model(f"SELECT time_bucket_gapfill('1 hour', time), locf(avg(v)) FROM t WHERE {WITHIN} GROUP BY 1, host, t.rack", wanted)


def test_order_limit_and_having(twin: SeriesTwin) -> None:
    model = _Model(twin, "avg(v)", keys="rack")
    wanted = sorted(model.filled(model.at), key=lambda row: (row[1], row[0] is None, row[0] or 0), reverse=False)
    select = f"SELECT rack, time_bucket_gapfill('1 hour', time) b, avg(v) FROM t WHERE {WITHIN} GROUP BY b, rack"
    twin.model(f"{select} ORDER BY b, rack", wanted, ordered=True)
    twin.model(f"{select} ORDER BY time_bucket_gapfill('1 hour', time), 1 LIMIT 7 OFFSET 2", wanted[2:9], ordered=True)
    counted = _Model(twin, "count(*)", keys="rack")
    few = {key: value for key, value in counted.rows.items() if value > 2}
    counted.rows, counted.groups = few, sorted({key[:-1] for key in few}, key=repr)
    having = select.replace("avg(v)", "count(*)") + " HAVING count(*) > 2"
    twin.model(having, counted.filled(counted.at))


def test_a_subquery_and_a_name(twin: SeriesTwin) -> None:
    model = _Model(twin, "avg(v)", keys="")
    inner = f"SELECT time_bucket_gapfill('1 hour', time), interpolate(avg(v)) AS x FROM t WHERE {WITHIN} GROUP BY 1"
    [(count, missing)] = twin.found(f"SELECT count(*), count(*) - count(x) FROM ({inner})")
    rows = model.filled(model.interpolate)
    assert (count, missing) == (len(rows), sum(row[-1] is None for row in rows))
    assert twin.columns(inner) == ["time_bucket_gapfill('1 hour', time)", "x"]
    select = "SELECT time_bucket_gapfill('1 hour', time) b, avg(v) FROM s"
    twin.model(f"WITH s AS (SELECT time AS time, v FROM t) {select} WHERE {WITHIN} GROUP BY b", model.filled(model.at))
    assert "interpolate" not in twin.plan(inner)


@pytest.mark.parametrize(
    ("zone", "width"),
    [
        ("Europe/Berlin", "1 day"),
        ("Europe/Berlin", "1 month"),
        ("America/Sao_Paulo", "1 day"),
        ("Asia/Kolkata", "6 hours"),
        ("Europe/Berlin", "3 hours"),
    ],
)
def test_every_bucket_of_a_zone(twin: SeriesTwin, zone: str, width: str) -> None:
    low, high = datetime.datetime(2018, 9, 29, 3), datetime.datetime(2019, 4, 2)
    bucket = f"timezone('UTC', time_bucket(INTERVAL '{width}', {{}}::TIMESTAMPTZ, '{zone}'))"
    wanted = twin.duck.execute(
        f"""SELECT DISTINCT {bucket.format("m")}, NULL FROM
        (SELECT unnest(range(TIMESTAMP '{low}', TIMESTAMP '{high}', INTERVAL 10 minutes)) AS m)"""
    ).fetchall()
    call = f"time_bucket_gapfill('{width}', time, '{zone}')"
    twin.model(f"SELECT {call}, avg(v) FROM t WHERE time >= '{low}' AND time < '{high}' GROUP BY 1", wanted)
    named = f"time_bucket_gapfill('{width}', time, timezone => $zone, start => $low, finish => $high)"
    twin.model(f"SELECT {named}, avg(v) FROM empty GROUP BY 1", wanted, {"zone": zone, "low": low, "high": high})


def test_date_bin_gapfill(twin: SeriesTwin) -> None:
    sql = """SELECT b, avg(v) FROM
        (SELECT unnest(range(TIMESTAMP '2024-03-30 01:30', TIMESTAMP '2024-03-31 09:30', INTERVAL 90 minutes)) b)
        LEFT JOIN (FROM t WHERE {}) AS t ON time_bucket(INTERVAL 90 minutes, time, TIMESTAMP '2024-03-30') = b GROUP BY b"""
    wanted = twin.duck.execute(sql.format(WITHIN)).fetchall()
    twin.model(f"SELECT date_bin_gapfill(90m, time, '2024-03-30'), avg(v) FROM t WHERE {WITHIN} GROUP BY 1", wanted)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT time_bucket_gapfill('1h', time), avg(v) FROM t WHERE time < '2024-04-01' GROUP BY 1",
         "time_bucket_gapfill must know its range: WHERE lacks time >= …, a constant beside AND (line 1, column 8)"),
        ("SELECT host,\n  time_bucket_gapfill('1h', time), avg(v) FROM t WHERE time >= '2024-04-01' OR time < '2024' GROUP BY ALL",
         "time_bucket_gapfill must know its range: WHERE lacks time >= …, a constant beside AND (line 2, column 3)"),
        ("SELECT time_bucket_gapfill('1h', time), avg(v) FROM t WHERE time >= '2024-04-01' AND time < make_timestamp(n) GROUP BY 1",
         "time_bucket_gapfill must know its range: WHERE lacks time < …, a constant beside AND (line 1, column 8)"),
        ("SELECT time_bucket_gapfill('1h', time) AS b, avg(v) FROM t WHERE time >= '2024-04-01' AND time < b GROUP BY 1",
         "time_bucket_gapfill must know its range: WHERE lacks time < …, a constant beside AND (line 1, column 8)"),
        ("SELECT time_bucket_gapfill('1h', time) FROM t", "time_bucket_gapfill needs a GROUP BY (line 1, column 8)"),
        ("SELECT time_bucket_gapfill('1h') FROM t GROUP BY 1",
         "time_bucket_gapfill is written time_bucket_gapfill(width, time[, zone][, start, finish]) (line 1, column 8)"),
        ("SELECT locf(avg(v)) FROM t", "locf fills the gaps that time_bucket_gapfill leaves: there is none (line 1, column 8)"),
        ("SELECT time_bucket_gapfill('1h', time, begin => '2024') FROM t GROUP BY 1",
         f"time_bucket_gapfill has no argument 'begin': it is written {gapfill._FORMS['TIME_BUCKET_GAPFILL']} (line 1, column 40)"),
        (f"SELECT time_bucket_gapfill('1h', time), * FROM t WHERE {WITHIN} GROUP BY ALL",
         "a SELECT with a gapfill names its columns (line 1, column 41)"),
        (f"SELECT time_bucket_gapfill('1h', time), time_bucket_gapfill('2h', time) FROM t WHERE {WITHIN} GROUP BY ALL",
         "every gapfill of a SELECT is over the same buckets (line 1, column 41)"),
    ],
)  # fmt: skip
def test_errors(twin: SeriesTwin, sql: str, message: str) -> None:
    assert twin.refused(sql) == message
