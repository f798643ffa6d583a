"""The query types of TSBS, ``devops`` and ``iot``, in the dialect of tsdb; where DuckDB has no such words, its text stands beside.

Windows of time and the devices that are asked for are drawn from a fixed seed. What TSBS leaves open, such as the
order of groups, is made definite here, so that two databases can be compared row by row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.tsbs_data import FIELDS, FLEETS, START_S, Suite


@dataclass(frozen=True, slots=True)
class TsbsQuestion:
    """``theirs``: what DuckDB is asked, where it is not the same text. ``ordered``: rows have an order."""

    name: str
    text: str
    theirs: str = ""
    ordered: bool = True


class _Draw:
    """Windows and hosts, drawn one after the other."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.random = np.random.default_rng([suite.seed, 3])

    def window(self, hours: float) -> str:
        """A condition on time: so many hours, somewhere in the data."""
        last = int((self.suite.hours - hours) * 3600)
        start = START_S + int(self.random.integers(0, max(last, 1)))
        return f"time >= '{_instant(start)}' AND time < '{_instant(start + int(hours * 3600))}'"

    def hosts(self, count: int) -> str:
        """A condition on hosts."""
        chosen = self.random.choice(self.suite.hosts, min(count, self.suite.hosts), replace=False)
        if len(chosen) == 1:
            return f"hostname = 'host_{chosen[0]}'"
        return "hostname IN (" + ", ".join(f"'host_{number}'" for number in sorted(chosen)) + ")"

    def fleet(self) -> str:
        """A condition on fleets."""
        return f"fleet = '{FLEETS[self.random.integers(len(FLEETS))]}'"


def _instant(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def questions(suite: Suite) -> list[TsbsQuestion]:
    """All 27 of them, with windows that lie within the suite's data."""
    draw = _Draw(suite)
    return [*_devops(draw), *_last_of_trucks(draw), *_sessions(draw), *_fleets()]


def _devops(draw: _Draw) -> Iterator[TsbsQuestion]:
    for metrics, hosts, hours in ((1, 1, 1), (1, 1, 12), (1, 8, 1), (5, 1, 1), (5, 1, 12), (5, 8, 1)):
        yield TsbsQuestion(
            f"single-groupby-{metrics}-{hosts}-{hours}",
            f"SELECT time_bucket(INTERVAL '1 minute', time) AS minute, {_calls('max', metrics)}\n"
            f"FROM cpu WHERE {draw.hosts(hosts)} AND {draw.window(hours)} GROUP BY minute ORDER BY minute",
        )
    for hosts in (1, 8):
        yield TsbsQuestion(
            f"cpu-max-all-{hosts}",
            f"SELECT time_bucket(INTERVAL '1 hour', time) AS hour, {_calls('max', len(FIELDS))}\n"
            f"FROM cpu WHERE {draw.hosts(hosts)} AND {draw.window(8)} GROUP BY hour ORDER BY hour",
        )
    for metrics, name in ((1, "1"), (5, "5"), (len(FIELDS), "all")):
        yield TsbsQuestion(
            f"double-groupby-{name}",
            f"SELECT time_bucket(INTERVAL '1 hour', time) AS hour, hostname, {_calls('avg', metrics)}\n"
            f"FROM cpu WHERE {draw.window(12)} GROUP BY hour, hostname ORDER BY hour, hostname",
        )
    yield TsbsQuestion(
        "high-cpu-1", f"SELECT * FROM cpu WHERE usage_user > 90 AND {draw.window(12)} AND {draw.hosts(1)}", ordered=False
    )
    yield TsbsQuestion("high-cpu-all", f"SELECT * FROM cpu WHERE usage_user > 90 AND {draw.window(12)}", ordered=False)
    yield TsbsQuestion("lastpoint", "SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, time DESC")
    end = draw.window(1).rpartition(" AND ")[2]
    yield TsbsQuestion(
        "groupby-orderby-limit",
        "SELECT time_bucket(INTERVAL '1 minute', time) AS minute, max(usage_user) AS max_usage_user\n"
        f"FROM cpu WHERE {end} GROUP BY minute ORDER BY minute DESC LIMIT 5",
    )


def _calls(function: str, metrics: int) -> str:
    return ", ".join(f"{function}({name}) AS {function}_{name}" for name in FIELDS[:metrics])


def _last_of_trucks(draw: _Draw) -> Iterator[TsbsQuestion]:
    """Questions about the last report of every truck of a fleet."""
    fleet = draw.fleet()
    latest = "FROM {table} WHERE {fleet} LATEST ON time PARTITION BY name"
    newest = "FROM {table} WHERE {fleet} QUALIFY row_number() OVER (PARTITION BY name ORDER BY time DESC) = 1"
    for name, table, fields, condition in (
        ("last-loc", "readings", "longitude, latitude", ""),
        ("low-fuel", "diagnostics", "fuel_state", "fuel_state < 0.1"),
        ("high-load", "diagnostics", "current_load, load_capacity", "current_load / load_capacity > 0.9"),
    ):
        texts = []
        for form in (latest, newest):
            inner = f"SELECT name, driver, {fields} {form.format(table=table, fleet=fleet)}"
            texts.append(f"SELECT * FROM ({inner})\nWHERE {condition} ORDER BY name" if condition else f"{inner} ORDER BY name")
        yield TsbsQuestion(name, texts[0], texts[1])
    yield TsbsQuestion(
        "stationary-trucks",
        f"SELECT name, driver FROM readings WHERE {draw.window(1 / 6)} AND {draw.fleet()}\n"
        "GROUP BY name, driver HAVING avg(velocity) < 1 ORDER BY name, driver",
    )


#: Ten minutes in which a truck drove.
_DRIVEN = (
    "SELECT time_bucket(INTERVAL '10 minutes', time) AS ten_minutes, {tags} FROM readings{where}\n"
    "  GROUP BY ALL HAVING avg(velocity) > 1"
)


def _sessions(draw: _Draw) -> Iterator[TsbsQuestion]:
    """Questions about how long drivers drove."""
    for name, hours, rest in (("long-driving-sessions", 4, 5), ("long-daily-sessions", 24, 35)):
        periods = int((hours * 60 - rest * hours) / 10)
        inner = _DRIVEN.format(tags="name, driver", where=f" WHERE {draw.window(hours)} AND {draw.fleet()}")
        yield TsbsQuestion(
            name, f"SELECT name, driver FROM ({inner})\nGROUP BY name, driver HAVING count(*) > {periods} ORDER BY name, driver"
        )
    yield TsbsQuestion(
        "avg-daily-driving-duration",
        f"WITH driven AS ({_DRIVEN.format(tags='fleet, name, driver', where='')}),\n"
        "daily AS (SELECT time_bucket(INTERVAL '1 day', ten_minutes) AS day, fleet, name, driver, count(*) / 6 AS hours\n"
        "  FROM driven GROUP BY ALL)\n"
        "SELECT fleet, name, driver, avg(hours) AS avg_daily_hours FROM daily GROUP BY ALL ORDER BY fleet, name, driver",
    )
    yield TsbsQuestion(
        "avg-daily-driving-session",
        "WITH status AS (SELECT name, time_bucket(INTERVAL '10 minutes', time) AS ten_minutes, avg(velocity) > 5 AS driving\n"
        "  FROM readings GROUP BY name, ten_minutes),\n"
        "change AS (SELECT name, ten_minutes AS start, driving FROM status\n"
        "  QUALIFY driving <> lag(driving) OVER (PARTITION BY name ORDER BY ten_minutes)),\n"
        "session AS (SELECT name, start, driving, lead(start) OVER (PARTITION BY name ORDER BY start) AS stop FROM change)\n"
        "SELECT name, time_bucket(INTERVAL '1 day', start) AS day, avg(epoch(stop - start)) AS seconds\n"
        "FROM session WHERE driving GROUP BY name, day ORDER BY name, day",
    )


def _fleets() -> Iterator[TsbsQuestion]:
    """Questions about fleets and models over all of the time."""
    yield TsbsQuestion(
        "avg-vs-projected-fuel-consumption",
        "SELECT fleet, avg(fuel_consumption) AS avg_fuel_consumption, avg(nominal_fuel_consumption) AS projected_fuel_consumption\n"
        "FROM readings WHERE velocity > 1 AND fleet IS NOT NULL GROUP BY fleet ORDER BY fleet",
    )
    yield TsbsQuestion(
        "avg-load",
        "WITH load AS (SELECT fleet, model, name, load_capacity, avg(current_load) AS mean FROM diagnostics GROUP BY ALL)\n"
        "SELECT fleet, model, load_capacity, avg(mean / load_capacity) AS avg_load_percentage FROM load GROUP BY ALL ORDER BY ALL",
    )
    yield TsbsQuestion(
        "daily-activity",
        "WITH active AS (SELECT time_bucket(INTERVAL '1 day', time) AS day,\n"
        "  time_bucket(INTERVAL '10 minutes', time) AS ten_minutes, fleet, model, name FROM diagnostics\n"
        "  GROUP BY ALL HAVING avg(status) < 1)\n"
        "SELECT fleet, model, day, count(*) / 144 AS daily_activity FROM active GROUP BY ALL ORDER BY day, fleet, model",
    )
    yield TsbsQuestion(
        "breakdown-frequency",
        "WITH period AS (SELECT time_bucket(INTERVAL '10 minutes', time) AS ten_minutes, model, name,\n"
        "  count_if(status > 0) / count(*) >= 0.5 AS broken FROM diagnostics GROUP BY ALL),\n"
        "follow AS (SELECT model, broken, lead(broken) OVER (PARTITION BY name ORDER BY ten_minutes) AS next FROM period)\n"
        "SELECT model, count(*) AS breakdowns FROM follow WHERE NOT broken AND next GROUP BY model ORDER BY model",
    )
