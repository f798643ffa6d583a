"""Texts with our words, cut, mixed and put into one another: rows, or one line of an error that hides how it is done."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb
from support.series_case import SeriesTwin, series_twins
from tsdb.sql.token import tokenize

_TEXTS = [
    "SELECT host, v FROM t WHERE n > 20 LATEST ON time PARTITION BY host ORDER BY 1 LIMIT 2",
    "SELECT x.rack, count(*), avg(x.v) FROM t x LATEST BY host, rack GROUP BY x.rack",
    "SELECT time, host, avg(v) AS a, max(n) FROM t SAMPLE BY 1h FROM '2024-03-30' TO '2024-03-31' FILL(PREV, 0)",
    "SELECT time, count(*) FROM t SAMPLE BY 1d FILL(LINEAR) ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin' WITH OFFSET '00:15'",
    """SELECT time_bucket_gapfill('1h', time) AS b, host, locf(avg(v)) + 1, interpolate(max(n)) FROM t
       WHERE time >= '2024-03-30' AND time < '2024-03-31' GROUP BY b, host ORDER BY b""",
    """SELECT time, rate(n), diff(v) OVER (PARTITION BY host ORDER BY time DESC), moving_avg(v, 2h) OVER w FROM t
       WINDOW w AS (ORDER BY time)""",
    "SELECT window_start, avg(v) FROM TUMBLE(t, time, INTERVAL '5 minutes') GROUP BY ALL",
    "SELECT * FROM HOP(DATA => t, TIMECOL => 'time', SLIDE => 1h, SIZE => 2h) AS h WHERE h.host = 'a'",
    "SELECT count(*) FROM TABLE(SESSION(TABLE t PARTITION BY host, rack, DESCRIPTOR(time), INTERVAL '5' MINUTES))",
    "SELECT * FROM downsample((SELECT time, v, host FROM t), 5) AS d",
    "SELECT host, downsample(time, v, 3), last_by(v, time), first(n) FROM t GROUP BY host",
    "WITH s AS (SELECT date_bin(1h, time, '2024-01-01') AS time FROM t) SELECT time_bucket('1 day', time, 'Asia/Tokyo') FROM s",
]  # fmt: skip


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesTwin]:
    yield from series_twins(tmp_path_factory.mktemp("mutation"), "memory")


def _mutated(rng: random.Random) -> str:
    text, other = rng.choice(_TEXTS), rng.choice(_TEXTS)
    tokens, others = tokenize(text), tokenize(other)
    at, donor = rng.choice(tokens), rng.choice(others)
    match rng.randrange(5):
        case 0:
            return text[: at.start]
        case 1:
            return text[: at.start] + text[at.end :]
        case 2:
            return f"{text[: at.start]}{other[donor.start : donor.end]} {text[at.end :]}"
        case 3:
            last = rng.choice(others)
            first, last = min(donor, last, key=lambda token: token.start), max(donor, last, key=lambda token: token.start)
            return f"{text[: at.start]}{other[first.start : last.end]} {text[at.start :]}"
    return f"SELECT count(*) FROM ({text}) AS q, ({other}) AS r"


@pytest.mark.parametrize("seed", range(8))
def test_mutations(twin: SeriesTwin, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(75):
        text = _mutated(rng)
        try:
            twin.db.sql(text)
        except tsdb.Error as error:
            message = str(error)
            assert "\n" not in message, text
            assert not re.search(r"__series|__tsdb", message), text


def test_the_texts_themselves_are_understood(twin: SeriesTwin) -> None:
    for text in _TEXTS:
        assert twin.found(text), text


def test_there_is_no_example_of_the_page_missing() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
    for word in ("LATEST ON", "SAMPLE BY", "time_bucket_gapfill", "rate(", "TUMBLE", "SESSION", "downsample(", "date_trunc("):
        assert re.search(r"```sql\n[^`]*" + re.escape(word), page), word
