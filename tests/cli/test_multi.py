"""``tsdb multi``: documents and scripts, every format, folders, EXPLAIN, errors."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tsdb
from support.command import run

SCRIPT = """RESULT SET hosts AS (SELECT host FROM alarm WHERE level > 3);
SELECT host, level FROM alarm WHERE host IN RESULT SET hosts ORDER BY host;
SELECT count(*) AS n FROM alarm WHERE host NOT IN RESULT SET hosts;"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE alarm (time TIMESTAMP TIME, host STRING TAG, level INT64)")
        db.sql("INSERT INTO alarm SELECT make_timestamp(n), 'h' || n, n FROM range(6) r(n)")
    (tmp_path / "request.sql").write_text(SCRIPT, encoding="utf-8")
    return tmp_path / "db"


def test_formats_on_standard_output(path: Path) -> None:
    request = path.parent / "request.sql"
    assert run("multi", path, request).out == (
        "-- query_1\nhost  level\n────  ─────\nh4        4\nh5        5\n\n-- query_2\nn\n─\n4\n"
    )
    first, second = run("multi", path, request, "--format", "csv").out.split("\n\n")
    assert list(csv.reader(io.StringIO(first))) == [["host", "level"], ["h4", "4"], ["h5", "5"]]
    assert second == "n\n4\n"
    rows = json.loads(run("multi", path, request, "--format", "json").out)
    assert rows == {"query_1": [{"host": "h4", "level": 4}, {"host": "h5", "level": 5}], "query_2": [{"n": 4}]}
    lines = run("multi", path, request, "--format", "ndjson").out.splitlines()
    assert [json.loads(line) for line in lines][1:] == [
        {"query": "query_1", "host": "h5", "level": 5},
        {"query": "query_2", "n": 4},
    ]
    refused = run("multi", path, request, "--format", "parquet")
    assert refused.code == 2
    assert "name a folder with -o" in refused.err


def test_files_of_a_folder(path: Path) -> None:
    folder = path.parent / "out"
    document = {"queries": [{"table": "alarm", "name": "a/b ../c"}, {"table": "alarm", "filter": "level > 3", "name": "late"}]}
    assert run("multi", path, "-", "-o", folder, "--format", "parquet", input=json.dumps(document)).code == 0
    assert sorted(each.name for each in folder.iterdir()) == ["a_b____c.parquet", "late.parquet"]
    assert pq.read_table(folder / "late.parquet").num_rows == 2
    assert run("multi", path, "-", "-o", folder, input=SCRIPT).code == 0
    assert (folder / "query_2.csv").read_text() == "n\n4\n"


def test_explain_stats_and_settings(path: Path) -> None:
    request = path.parent / "request.sql"
    plan = run("multi", path, request, "--explain").out
    assert plan.splitlines()[:2] == ["Level 1", "  ResultSet hosts"]
    done = run("multi", path, request, "--analyze", "--set", "result_set_materialization_max_size=1").out
    assert "ResultSet hosts: run, 2 members, in a temporary table of" in done
    told = run("multi", path, request, "--stats").err
    assert told.split() == ["result_sets_run", "1", "result_sets_inlined", "1", "statements", "3"]
    assert "RESULT SET hosts AS" in run("multi", "--help").out


@pytest.mark.parametrize(
    ("request_text", "message"),
    [
        (
            "SELECT 1; SELECT * FROM alarm WHERE host IN RESULT SET hots",
            "error: no result set 'hots' (line 1, column 45); no query before",
        ),
        ('{"queries": [{"table": "alarm", "filter": "levl > 1"}]}', "error: queries[0]: no column 'levl' in table 'alarm'"),
        ("{", "error: the document is no JSON"),
    ],
)
def test_errors_are_one_line(path: Path, request_text: str, message: str) -> None:
    done = run("multi", path, "-", input=request_text)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1


def test_a_script_with_one_query_is_a_query(path: Path) -> None:
    script = "RESULT SET hosts AS (SELECT host FROM alarm WHERE level > 3);"
    script += "SELECT count(*) AS n FROM alarm WHERE host IN RESULT SET hosts"
    assert run("query", path, script, "--format", "csv").out == "n\n2\n"
    assert run("query", path, f"SELECT 1; {script};", "--format", "csv").out == "n\n2\n"
