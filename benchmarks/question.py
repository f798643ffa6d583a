"""The questions of the comparison: one SQL text each, the same for every store, and the columns that any right answer agrees on."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from tsdb_cli.fleet import COUNTER, END_NS, INTERVAL_NS, PERCENTAGES, Fleet


@dataclass(frozen=True, slots=True)
class Question:
    """``same``: the positions of the result columns that must be equal everywhere; others may differ where rows tie.

    ``arrow``: the answer is taken as an Arrow table; else as Python's tuples, which take either store as long to make.
    """

    name: str
    sql: str
    same: tuple[int, ...]
    arrow: bool = False


def questions(fleet: Fleet) -> list[Question]:
    """The questions for one fleet; ties are possible where its devices report at the same instants."""
    everything = () if fleet.aligned else tuple(range(9))
    middle = f"host_{fleet.devices // 2:0{max(len(str(fleet.devices - 1)), 4)}}"
    span_ns = min(fleet.ticks * INTERVAL_NS, 3_600 * 10**9)
    start = _instant(END_NS - span_ns - (fleet.ticks * INTERVAL_NS - span_ns) // 2)
    stop = _instant(END_NS - (fleet.ticks * INTERVAL_NS - span_ns) // 2)
    last = "SELECT host, region, max(time) AS last, arg_max(usage, time) AS usage FROM cpu GROUP BY host, region ORDER BY host"
    sums = ", ".join(f"sum({name})" for name in (*PERCENTAGES, COUNTER))
    return [
        Question("newest 10", "SELECT * FROM cpu ORDER BY time DESC LIMIT 10", everything or (0,)),
        Question("oldest 100", "SELECT * FROM cpu ORDER BY time LIMIT 100", everything or (0,)),
        Question(
            "newest 10, region + usage > 90",
            "SELECT * FROM cpu WHERE region = 'eu-west-1' AND usage > 90 ORDER BY time DESC LIMIT 10",
            everything or (0,),
        ),
        Question(
            "one device, one hour",
            f"SELECT time, usage, memory FROM cpu WHERE host = '{middle}' AND time >= '{start}' AND time < '{stop}' ORDER BY time",
            (0, 1, 2),
        ),
        Question("top 10 by value", "SELECT * FROM cpu ORDER BY usage DESC LIMIT 10", (3,)),
        Question("last row per device", last, (0, 1, 2, 3)),
        Question("last row per device, as Arrow", last, (0, 1, 2, 3), arrow=True),
        Question(
            "the same, all columns, as Arrow",
            "SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time DESC",
            tuple(range(9)),
            arrow=True,
        ),
        Question(
            "hourly avg + max per region",
            "SELECT time_bucket(INTERVAL 1 HOUR, time) AS hour, region, avg(usage) AS mean, max(usage) AS top "
            "FROM cpu GROUP BY ALL ORDER BY ALL",
            (0, 1, 2, 3),
        ),
        Question("sum of 6 fields", f"SELECT {sums} FROM cpu", tuple(range(6))),
    ]


def _instant(nanoseconds: int) -> str:
    return datetime.datetime.fromtimestamp(nanoseconds // 10**9, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
