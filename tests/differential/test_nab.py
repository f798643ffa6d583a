"""The recorded series: 37 files, one command, one table; the answers of DuckDB reading the same files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tsdb
from support.command import run
from support.oracle import SETTINGS, Oracle, Question, TableCase
from support.snapshots import make_schema
from tsdb_format.types import DOUBLE, STRING, TIMESTAMP_NS, Role

SCHEMA = make_schema(
    ("timestamp", TIMESTAMP_NS, Role.TIME),
    ("group", STRING, Role.TAG),
    ("metric", STRING, Role.TAG),
    ("value", DOUBLE, Role.FIELD),
)
PAGE_ROWS = 512
PATTERN = "{group}/{metric}.csv"

#: Statements with a TopK that must prune, at small pages.
NEWEST = (
    "SELECT * FROM nab ORDER BY timestamp DESC /*ties nab*/ LIMIT 10",
    "SELECT * FROM nab ORDER BY timestamp /*ties nab*/ LIMIT 10",
    "SELECT metric, value FROM nab ORDER BY timestamp DESC /*ties nab*/ LIMIT 5 OFFSET 20",
    "SELECT * FROM nab WHERE metric = 'nyc_taxi' ORDER BY timestamp DESC /*ties nab*/ LIMIT 5",
    "SELECT * FROM nab WHERE \"group\" = 'realTraffic' AND value > 100 ORDER BY timestamp DESC /*ties nab*/ LIMIT 20",
    "SELECT * FROM nab WHERE value < 1 ORDER BY timestamp DESC /*ties nab*/ LIMIT 10",
    "SELECT * FROM nab WHERE metric LIKE 'ec2_cpu%' ORDER BY timestamp DESC /*ties nab*/ LIMIT 15",
    "SELECT * FROM nab ORDER BY value DESC /*ties nab*/ LIMIT 10",
    "SELECT * FROM nab ORDER BY value, timestamp DESC /*ties nab*/ LIMIT 10",
    "SELECT * FROM nab ORDER BY metric, timestamp DESC /*ties nab*/ LIMIT 10",
    "SELECT timestamp + INTERVAL 1 HOUR AS later, round(value) AS v FROM nab ORDER BY timestamp DESC /*ties nab*/ LIMIT 10",
    "SELECT * FROM nab WHERE timestamp >= '2014-04-01' ORDER BY timestamp /*ties nab*/ LIMIT 10",
)
#: Everything else that people ask of such data; sums are of decimals, since sums of floats depend on their order.
SORTED = (
    'SELECT "group", metric, count(*), min(value), max(value), sum(value::DECIMAL(18, 3)) FROM nab GROUP BY ALL ORDER BY 1, 2',
    "SELECT metric, max(timestamp), arg_max(value, timestamp) FROM nab GROUP BY metric ORDER BY metric",
    "SELECT * FROM nab WHERE metric = 'nyc_taxi' AND timestamp BETWEEN '2014-11-01' AND '2014-11-02' ORDER BY timestamp",
    "SELECT time_bucket(INTERVAL '1 day', timestamp::TIMESTAMP) AS d, count(*), median(value) FROM nab GROUP BY d ORDER BY d",
    "SELECT metric, quantile_cont(value, 0.9) FROM nab WHERE metric IN ('nyc_taxi', 'speed_7578') GROUP BY 1 ORDER BY 1",
    "SELECT * FROM nab QUALIFY row_number() OVER (PARTITION BY metric ORDER BY timestamp DESC) <= 2 ORDER BY 3, 1",
    'SELECT DISTINCT "group" FROM nab ORDER BY 1',
    "SELECT metric, count(*) FROM nab WHERE value > (SELECT quantile_cont(value, 0.99) FROM nab) GROUP BY 1 ORDER BY 2, 1",
    "SELECT (value // 10)::BIGINT AS bin, count(*) FROM nab WHERE metric LIKE 'ambient%' GROUP BY 1 ORDER BY 1",
    """SELECT "group", date_trunc('month', timestamp), max(value) FROM nab WHERE value IS NOT NULL GROUP BY ALL ORDER BY 1, 2""",
    "SELECT upper(metric), extract(hour FROM timestamp), max(value) FROM nab GROUP BY ALL HAVING count(*) > 900 ORDER BY 1, 2",
    """SELECT a.timestamp, a.metric, b.metric AS other, a.value, b.value AS w FROM nab a JOIN nab b ON a.timestamp = b.timestamp
       WHERE a."group" = 'realTraffic' AND b."group" = 'realTraffic' AND a.metric < b.metric ORDER BY 1, 2, 3 LIMIT 500""",
    """SELECT a.timestamp, a.value, b.value AS w FROM nab a ASOF JOIN (SELECT * FROM nab WHERE metric = 'speed_7578') b
       ON a.timestamp >= b.timestamp WHERE a.metric = 'occupancy_6005' ORDER BY a.timestamp""",
    """WITH newest AS (SELECT * FROM nab ORDER BY timestamp DESC /*ties nab*/ LIMIT 1000)
       SELECT metric, count(*), max(value) FROM newest GROUP BY metric ORDER BY metric""",
)
UNSORTED = (
    "SELECT count(*), count(value), count(DISTINCT metric), min(timestamp), max(timestamp) FROM nab",
    "SELECT * FROM nab WHERE timestamp = '2014-04-10 00:04:00'",
    "SELECT count(*) FROM nab WHERE timestamp < '2014-02-15T00:00:00Z' AND metric NOT LIKE 'rds%'",
    "SELECT metric, value - lag(value) OVER (PARTITION BY metric ORDER BY timestamp) AS step FROM nab WHERE metric LIKE 'speed%'",
    "SELECT count(*) FROM nab WHERE metric IN (SELECT metric FROM (SELECT * FROM nab ORDER BY value DESC /*ties nab*/ LIMIT 50) x)",
    """(SELECT * FROM nab ORDER BY timestamp DESC /*ties nab*/ LIMIT 3)
       UNION ALL (SELECT * FROM nab ORDER BY timestamp /*ties nab*/ LIMIT 3)""",
)


@pytest.fixture(scope="module")
def nab(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """One database filled by one call, one by one command, and DuckDB's reading of the files, where the last of equal rows wins."""
    folder = tmp_path_factory.mktemp("nab")
    files = sorted((shared_data / "nab").glob("*/*.csv"))
    assert len(files) == 37
    called = tsdb.open(folder / "called")
    report = called.ingest("nab", files, create=True, tag_from_path=PATTERN)
    assert (report.files, report.rejected) == (37, 0)
    assert report.read == report.inserted + report.updated
    assert report.inserted >= 162_000
    with tsdb.open(folder / "commanded") as database:
        database.sql(TableCase("nab", SCHEMA, []).create_sql(PAGE_ROWS))
    ran = run("ingest", folder / "commanded", *files, "--table", "nab", "--tag-from-path", PATTERN)
    assert ran.code == 0, ran.err
    duck = duckdb.connect(config={"threads": 1})
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(
        "CREATE TABLE nab AS SELECT timestamp::TIMESTAMP_NS AS timestamp, split_part(filename, '/', -2) AS \"group\","
        " replace(split_part(filename, '/', -1), '.csv', '') AS metric, value FROM"
        " (SELECT *, row_number() OVER () AS n FROM read_csv(?, filename = true))"
        " QUALIFY row_number() OVER (PARTITION BY filename, timestamp ORDER BY n DESC) = 1",
        [[str(file) for file in files]],
    )
    databases = {8192: called, PAGE_ROWS: tsdb.open(folder / "commanded", mode="r")}
    oracle = Oracle([TableCase("nab", SCHEMA, [])], duck, databases)
    assert oracle.expected(Question("SELECT count(*) FROM nab")).rows == [(report.inserted,)]
    yield oracle
    oracle.close()


@pytest.mark.parametrize("text", NEWEST)
def test_newest(nab: Oracle, text: str) -> None:
    counters = nab.check(Question(text, ordered=True))
    on, off = counters[PAGE_ROWS, "filter"], counters[PAGE_ROWS, "no filter"]
    assert on["pages_pruned_by_topk"] > 0
    assert on["pages_read"] <= off["pages_read"]


@pytest.mark.parametrize("text", SORTED)
def test_sorted(nab: Oracle, text: str) -> None:
    nab.check(Question(text, ordered=True))


@pytest.mark.parametrize("text", UNSORTED)
def test_unsorted(nab: Oracle, text: str) -> None:
    nab.check(Question(text))


def test_there_are_thirty() -> None:
    assert len({*NEWEST, *SORTED, *UNSORTED}) >= 30


def test_every_row(nab: Oracle) -> None:
    text = 'SELECT * FROM nab ORDER BY "group", metric, timestamp'
    wanted = nab.duck.sql(text).to_arrow_table()
    for database in nab.databases.values():
        for values in SETTINGS.values():
            assert database.sql(text, settings=values).arrow().equals(wanted)


def test_reading_files_again_changes_nothing(nab: Oracle, shared_data: Path) -> None:
    database = nab.databases[8192]
    before = database.sql("SELECT count(*), max(timestamp), sum(value::DECIMAL(18, 3)) FROM nab").fetchall()
    done = database.ingest("nab", shared_data / "nab" / "*" / "*.csv", tag_from_path=PATTERN)
    assert (done.read, done.inserted, done.updated) == (0, 0, 0)
    again = database.ingest("nab", shared_data / "nab" / "realTraffic" / "*.csv", tag_from_path=PATTERN, again=True)
    assert again.inserted == 0
    assert again.read == again.updated > 10_000
    assert database.sql("SELECT count(*), max(timestamp), sum(value::DECIMAL(18, 3)) FROM nab").fetchall() == before
    for text in NEWEST:  # with files that overlap
        nab.check(Question(text, ordered=True))
