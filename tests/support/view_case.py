"""A writer with materialized views, to be killed: it inserts rows by a plan while the views are kept up in the background.

    python -m support.view_case PATH STEP

A line ``STEP`` on standard output acknowledges a commit. Rows depend on the step alone, so whoever killed the process knows them.
"""

from __future__ import annotations

import datetime
import random
import sys
from typing import Any

import tsdb

DAY = datetime.datetime(2024, 1, 1)
HOSTS = ("a", "b", "c", "d")
SITES = ("north", "south")

TABLES = (
    "CREATE STREAM s (time TIMESTAMP TIME, host VARCHAR TAG, x DOUBLE FIELD)",
    "CREATE STREAM m (time TIMESTAMP TIME, host VARCHAR TAG, site VARCHAR FIELD)",
)
#: Views by name, with what db.sql gives of the same rows at the end.
VIEWS = {
    "doubled": "SELECT time, host, x * 2 AS x FROM s WHERE x > 2",
    "minutes": (
        "SELECT window_start, window_end, host, count(*) AS n, sum(x) AS total FROM TUMBLE(s, time, 10s) "
        "GROUP BY window_start, window_end, host"
    ),
    "sites": (
        "SELECT window_start, site, count(*) AS n, max(x) AS most "
        "FROM TUMBLE((SELECT s.time, s.x, m.site FROM s INNER LATEST JOIN m ON s.host = m.host), time, 10s) "
        "GROUP BY window_start, site"
    ),
    "joined": "SELECT s.time, s.host, s.x, m.site FROM s INNER LATEST JOIN m ON s.host = m.host",
}
_WINDOWS = " SETTINGS watermark_idle_timeout = 'never', watermark_delay = '30s'"
SETTINGS = {
    "minutes": _WINDOWS,
    "sites": f"{_WINDOWS}, enable_streaming_join_key_domain_pushdown = true",
    "joined": " SETTINGS enable_streaming_join_key_domain_pushdown = true",
}


def rows_of(step: int) -> list[dict[str, Any]]:
    """The rows of a step: times go on with the steps, and none is later than half a minute behind the newest."""
    rng = random.Random(step)
    times = [step * 2 + rng.randrange(-10, 10) for _ in range(rng.randrange(1, 8))]
    return [
        {"time": DAY + datetime.timedelta(seconds=time), "host": rng.choice(HOSTS), "x": float(rng.randrange(10))} for time in times
    ]


def sites_of(step: int) -> list[dict[str, Any]]:
    """What a step says of hosts; for most of them nothing."""
    rng = random.Random(f"{step} site")
    if rng.random() < 0.7:
        return []
    return [{"time": DAY + datetime.timedelta(seconds=step), "host": rng.choice(HOSTS), "site": rng.choice(SITES)}]


def create(db: tsdb.Database) -> None:
    """Tables, and views over them."""
    for text in TABLES:
        db.sql(text)
    for name, text in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}{SETTINGS.get(name, '')}")


def run(db: tsdb.Database, step: int) -> None:
    """One step."""
    sites = sites_of(step)
    if sites:
        db.write("m", sites)
    db.write("s", rows_of(step))
    if step % 41 == 0:
        db.flush()


def main(path: str, step: int) -> None:
    """Go on from a step until somebody kills this process."""
    db = tsdb.open(path)
    if step == 0:
        create(db)
    print("ready", flush=True)
    while True:
        run(db, step)
        print(step, flush=True)
        step += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
