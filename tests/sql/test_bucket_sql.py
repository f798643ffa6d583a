"""Buckets of time begin where DuckDB's do: for every type of time, before 1970 and after, at edges and between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tsdb
from support.quiet import without_background
from tsdb_format.types import ColumnType, Kind

_UNITS = {Kind.TIMESTAMP_S: "s", Kind.TIMESTAMP_MS: "ms", Kind.TIMESTAMP_US: "us", Kind.TIMESTAMP_NS: "ns"}
_WIDTHS = [
    "INTERVAL '1 hour'", "INTERVAL 15 MINUTES", "'1 day'", "INTERVAL '7 days'", "INTERVAL 1 WEEK", "INTERVAL '13 seconds'",
    "INTERVAL '1 day 1 hour'", "'90 minutes'::INTERVAL", "INTERVAL '1 month'", "INTERVAL 5 MONTHS", "INTERVAL '1 year'",
    "INTERVAL 3 YEARS", "INTERVAL '1 quarter'", "INTERVAL '2 hours 30 minutes'", "INTERVAL '10 years'", "INTERVAL '400 days'",
]  # fmt: skip
_ORIGINS = [
    "INTERVAL '30 minutes'", "INTERVAL '-7 days'", "INTERVAL 1000 HOURS", "TIMESTAMP '2000-01-01'", "DATE '1999-02-03'",
    "TIMESTAMP '1950-07-08 09:10:11'", "TIMESTAMP '2100-01-01 00:00:01'",
]  # fmt: skip
_UNIT_NAMES = ["second", "minutes", "hour", "h", "day", "days", "week", "w", "month", "mon", "quarter", "year", "y", "MINUTE"]
_FORMS = [
    *(f"time_bucket({width}, time)" for width in _WIDTHS), *(f"date_trunc('{unit}', time)" for unit in _UNIT_NAMES), "time::DATE",
    *(f"time_bucket({width}, time, {origin})" for width in _WIDTHS[:4] for origin in _ORIGINS), "CAST(time AS DATE)",
    *(f"time_bucket({width}, time, {origin})" for width in ("INTERVAL 5 MONTHS", "INTERVAL 1 YEAR") for origin in _ORIGINS[3:]),
    "datetrunc('hour', t.time)", "time_bucket(INTERVAL '1 millisecond', time)", "date_trunc('milliseconds', time)",
    "time_bucket(INTERVAL '1 microsecond', time)", "date_trunc('us', time)",
]  # fmt: skip


class Pair(NamedTuple):
    """The same times in tsdb and in DuckDB."""

    db: tsdb.Database
    duck: duckdb.DuckDBPyConnection
    kind: Kind


def _times(kind: Kind, count: int) -> list[int]:
    """Ticks of 1680 to 2250: any, whole hours and days, first ticks of months, each with its neighbours."""
    chooser = random.Random(kind)
    unit = ColumnType(kind).units_per_second
    made = set(range(-3, 4))
    if kind is Kind.TIMESTAMP_NS:
        made |= {sign * near for sign in (1, -1) for near in (499, 500, 501, 999, 1_499, 1_500, 2_500)}
    while len(made) < count:
        seconds = chooser.randrange(-9_100_000_000, 8_800_000_000)
        step = chooser.choice([1, 3_600, 86_400, 7 * 86_400])
        tick = seconds // step * step * unit
        if chooser.random() < 0.3:
            month = np.datetime64(chooser.randrange(-3_400, 3_300), "M")
            tick = int(month.astype("datetime64[s]").astype(np.int64)) * unit
        near = chooser.choice([0, 0, -1, 1, chooser.randrange(unit)])
        if kind is Kind.TIMESTAMP_NS:
            near = chooser.choice([near, -499, -500, -501, -999, -1_000])
        made.add(tick + near)
    return sorted(made)


@pytest.fixture(scope="module", params=list(_UNITS), ids=lambda kind: str(kind.name))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    kind: Kind = request.param
    ticks = _times(kind, 400)
    folder: Path = tmp_path_factory.mktemp("bucket")
    db = without_background(tsdb.open(folder / "db", threads=1))
    db.sql(f"CREATE TABLE t (time {kind.name} TIME, host STRING TAG, x INT64) WITH (page_rows = 16)")
    time = pa.array(ticks, pa.int64()).view(pa.timestamp(_UNITS[kind]))
    table = pa.table({"time": time, "host": [f"h{at % 3}" for at in range(len(ticks))], "x": range(len(ticks))})
    db.write("t", table)
    db.flush()
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    duck.register("given", table)
    duck.execute("CREATE TABLE t AS SELECT * FROM given")
    yield Pair(db, duck, kind)
    db.close()
    duck.close()


@pytest.mark.parametrize("form", _FORMS)
def test_buckets_begin_where_duckdb_has_them_begin(pair: Pair, form: str) -> None:
    text = f"SELECT {form} AS bucket, count(*), min(x), max(x) FROM t GROUP BY bucket ORDER BY bucket"
    wanted = pair.duck.execute(text).fetchall()
    result = pair.db.sql(text)
    assert list(result.types) == [str(kind) for kind in pair.duck.sql(text).types]
    assert result.fetchall() == wanted
    plan = str(pair.db.sql(f"EXPLAIN {text}").fetchall())
    fine = any(word in form for word in ("'us'", "microsecond")) and pair.kind in (Kind.TIMESTAMP_S, Kind.TIMESTAMP_MS)
    fine = fine or ("milli" in form and pair.kind is Kind.TIMESTAMP_S)
    assert ("DuckQuery" in plan) == fine


@pytest.mark.parametrize("form", ["time_bucket(INTERVAL '1 day', time)", "date_trunc('month', time)", "time::DATE"])
def test_buckets_of_each_device(pair: Pair, form: str) -> None:
    text = f"SELECT host, {form}, count(*), sum(x) FROM t WHERE x % 1 = 0 OR x > 3 GROUP BY ALL ORDER BY ALL"
    whole = text.replace(" WHERE x % 1 = 0 OR x > 3", "")
    assert pair.db.sql(whole).fetchall() == pair.duck.execute(text).fetchall()


@pytest.mark.parametrize("form", ["time_bucket($1, time)", "time_bucket(INTERVAL '1 hour', time, $1)"])
def test_parameters_in_buckets(pair: Pair, form: str) -> None:
    import datetime

    value = datetime.timedelta(hours=5) if "$1, time" in form else datetime.datetime(2020, 1, 1, 0, 10)
    text = f"SELECT {form} AS bucket, count(*) FROM t GROUP BY ALL ORDER BY ALL"
    assert pair.db.sql(text, [value]).fetchall() == pair.duck.execute(text, [value]).fetchall()
