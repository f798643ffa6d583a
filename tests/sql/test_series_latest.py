"""LATEST ON and LATEST BY: the newest row of each partition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.series_case import LAYOUTS, SeriesTwin, series_twins


@pytest.fixture(scope="module", params=LAYOUTS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesTwin]:
    yield from series_twins(tmp_path_factory.mktemp("latest"), request.param)


def _newest(columns: str, keys: str, where: str = "true") -> str:
    return f"SELECT {columns} FROM t WHERE {where} QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY time DESC) = 1"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT * FROM t LATEST ON time PARTITION BY host", _newest("*", "host")),
        ("SELECT * FROM t LATEST ON time PARTITION BY host, rack", _newest("*", "host, rack")),
        ("SELECT * FROM t LATEST BY host, rack", _newest("*", "host, rack")),
        ("SELECT host, v FROM t WHERE n > 20 LATEST ON time PARTITION BY host", _newest("host, v", "host", "n > 20")),
        ("SELECT x.host, x.v AS w FROM t AS x WHERE x.v < $1 LATEST ON x.time PARTITION BY x.host, x.rack",
         _newest("host, v", "host, rack", "v < $1")),
        ("FROM t LATEST ON time PARTITION BY upper(host)", _newest("*", "upper(host)")),
        ("SELECT * FROM t WHERE time < '2024-03-30 12:00' LATEST ON time PARTITION BY host",
         _newest("*", "host", "time < '2024-03-30 12:00'")),
        ("SELECT count(*), max(n) FROM t LATEST ON time PARTITION BY host, rack",
         f"SELECT count(*), max(n) FROM ({_newest('*', 'host, rack')})"),
        ("SELECT x.rack, count(*), avg(x.v) FROM t x WHERE x.n > 5 LATEST ON time PARTITION BY host, rack GROUP BY x.rack",
         f"SELECT rack, count(*), avg(v) FROM ({_newest('*', 'host, rack', 'n > 5')}) GROUP BY rack"),
        ("SELECT host, row_number() OVER (PARTITION BY host, rack ORDER BY time) AS r FROM t LATEST BY host, rack",
         "SELECT host, count(*) FROM t GROUP BY host, rack"),
        ("SELECT count(*) FROM (SELECT * FROM t LATEST ON time PARTITION BY host) WHERE n > 0",
         f"SELECT count(*) FROM ({_newest('*', 'host')}) WHERE n > 0"),
        ("SELECT host, sum(n) OVER w FROM t LATEST BY host, rack WINDOW w AS (PARTITION BY host, rack ORDER BY time)",
         "SELECT host, sum(n) FROM t GROUP BY host, rack"),
        ("WITH w AS (FROM t LATEST BY host) SELECT host FROM w", "SELECT DISTINCT host FROM t"),
        ("SELECT host FROM t LATEST BY host UNION ALL SELECT host FROM t LATEST BY host, rack",
         "(SELECT DISTINCT host FROM t) UNION ALL (SELECT host FROM t GROUP BY host, rack)"),
        ("SELECT * FROM empty LATEST ON time PARTITION BY host", "FROM empty"),
        ("SELECT latest.n FROM t JOIN t AS latest ON latest.time = t.time AND latest.host = t.host AND latest.rack = t.rack",
         "SELECT n FROM t WHERE host IS NOT NULL"),
    ],
)  # fmt: skip
def test_newest_rows(twin: SeriesTwin, ours: str, theirs: str) -> None:
    twin.same(ours, theirs, [1.5] if "$1" in ours else None)


def test_order_and_limit(twin: SeriesTwin) -> None:
    ours = "SELECT host, rack, time FROM t LATEST ON time PARTITION BY host, rack ORDER BY time DESC LIMIT 2"
    twin.same(ours, _newest("host, rack, time", "host, rack") + " ORDER BY time DESC LIMIT 2", ordered=True)


def test_it_is_the_native_operator(twin: SeriesTwin) -> None:
    assert "LastRow" in twin.plan("SELECT * FROM t LATEST ON time PARTITION BY host, rack")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM t LATEST ON time",
         "expected PARTITION BY and the columns of which each keeps its newest row at the end of the statement"),
        ("SELECT *\nFROM t LATEST ON time ORDER BY 1",
         "expected PARTITION BY and the columns of which each keeps its newest row, not 'ORDER' (line 2, column 23)"),
        ("SELECT * FROM t LATEST ON time PARTITION host", "expected BY, not 'host' (line 1, column 42)"),
        ("SELECT * FROM t LATEST ON time PARTITION BY",
         "expected the columns of which each keeps its newest row at the end of the statement"),
        ("SELECT * FROM t LATEST BY host WHERE n > 0", "WHERE comes before LATEST BY (line 1, column 32)"),
        ("SELECT * FROM range(3) LATEST BY range",
         "LATEST BY is for a table: which column is the time? Write LATEST ON time PARTITION BY … (line 1, column 24)"),
        ("SELECT host, count(*) FROM t GROUP BY host LATEST ON time PARTITION BY host",
         "LATEST comes before GROUP BY (line 1, column 44)"),
        ("SELECT time, avg(v) FROM t LATEST BY host SAMPLE BY 1h",
         "LATEST and SAMPLE BY do not stand together: put one of them in a subquery (line 1, column 28)"),
    ],
)  # fmt: skip
def test_errors(twin: SeriesTwin, sql: str, message: str) -> None:
    assert twin.refused(sql) == message
