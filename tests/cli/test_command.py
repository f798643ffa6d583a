"""The commands as people run them: exit codes, what goes to which stream, formats, and errors of one line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.command import Ran, run

ROWS = 3_000
SELECT = "SELECT time, host, usage FROM cpu ORDER BY time DESC LIMIT 3"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a small fleet, made by the commands under test."""
    folder = tmp_path_factory.mktemp("cli")
    made = run("generate", "fleet", "--rows", str(ROWS), "--devices", "30", "-o", folder / "fleet.csv")
    assert (made.code, made.out) == (0, "")
    done = run("ingest", folder / "fleet.db", folder / "fleet.csv", "--table", "cpu", "--create", "--tags", "host,region")
    assert done.code == 0, done.err
    assert "CREATE TABLE cpu" in done.out
    assert f"{ROWS:,} rows read, {ROWS:,} inserted, 0 updated, 0 rejected" in done.err
    return folder / "fleet.db"


def _failed(ran: Ran, code: int, *parts: str) -> None:
    """One clear line on standard error, nothing on standard output."""
    assert (ran.code, ran.out) == (code, "")
    lines = ran.err.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) == (2 if code == 2 else 1), ran.err
    for part in parts:
        assert part in lines[0]
    assert "Traceback" not in ran.err


def test_table_is_the_default_and_nothing_else_is_on_stdout(database: Path) -> None:
    ran = run("query", database, SELECT)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["time", "host", "usage"]
    assert len(lines) == 5


def test_formats_hold_the_same_rows(database: Path, tmp_path: Path) -> None:
    as_csv = list(csv.DictReader(io.StringIO(run("query", database, SELECT, "--format", "csv").out)))
    as_json = json.loads(run("query", database, SELECT, "--format", "json").out)
    as_lines = [json.loads(line) for line in run("query", database, SELECT, "--format", "ndjson").out.splitlines()]
    assert as_json == as_lines
    assert [{name: str(value) for name, value in row.items()} for row in as_json] == as_csv
    assert len(as_json) == 3
    for name in ("x.parquet", "x.arrow"):
        assert run("query", database, SELECT, "-o", tmp_path / name).code == 0
    from_parquet = pq.read_table(tmp_path / "x.parquet")
    from_arrow = pa.ipc.open_stream((tmp_path / "x.arrow").read_bytes()).read_all()
    assert from_parquet.to_pydict() == from_arrow.to_pydict()
    assert from_parquet["usage"].to_pylist() == [row["usage"] for row in as_json]
    assert from_parquet.schema.field("time").type == pa.timestamp("ns")


def test_empty_results_are_well_formed(database: Path) -> None:
    none = "SELECT host FROM cpu WHERE usage > 1000 ORDER BY time LIMIT 5"
    assert run("query", database, none, "--format", "csv").out == "host\n"
    assert json.loads(run("query", database, none, "--format", "json").out) == []
    assert run("query", database, none, "--format", "ndjson").out == ""


def test_null_and_empty_text_differ_in_csv(database: Path) -> None:
    ran = run("query", database, "SELECT NULL AS a, '' AS b, 'x,\"y' AS c", "--format", "csv")
    assert ran.out == 'a,b,c\n,"","x,""y"\n'


def test_export_reads_back(database: Path, tmp_path: Path) -> None:
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"all.{suffix}"
        assert run("export", database, "cpu", "-o", path).code == 0
        assert duckdb.sql(f"SELECT count(*), count(DISTINCT host) FROM '{path}'").fetchall() == [(ROWS, 30)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.csv", "all.parquet"]


def test_a_failed_query_leaves_no_file(database: Path, tmp_path: Path) -> None:
    _failed(run("query", database, "SELECT nonsense FROM cpu", "-o", tmp_path / "x.csv"), 1, "nonsense")
    assert list(tmp_path.iterdir()) == []


def test_stats_go_to_stderr(database: Path) -> None:
    ran = run("query", database, SELECT, "--stats", "--format", "csv")
    lines = {line.split()[0]: line.split()[1:] for line in ran.err.splitlines()}
    assert lines["total"] == ["pruned", "by", "topk", "read"]
    assert lines["devices"] == ["30", "27", "3"]
    assert lines["rows"][0] == f"{ROWS:,}"
    assert lines["topk_first_threshold"] == ["statistics"]
    assert len(ran.out.splitlines()) == 4


def test_settings_reach_the_query(database: Path) -> None:
    ran = run("query", database, SELECT, "--set", "enable_topk_runtime_filter=false", "--stats")
    assert "topk_first_threshold" not in ran.err
    assert ran.out == run("query", database, SELECT).out
    _failed(run("query", database, SELECT, "--set", "enable_topk_runtime_filte=false"), 1, "enable_topk_runtime_filter")
    _failed(run("query", database, SELECT, "--set", "nothing"), 2, "name=value")


def test_explain_counts_what_was_not_read(database: Path) -> None:
    plain = run("explain", database, SELECT)
    assert "TOPN OPT" in plain.out
    analyzed = run("explain", database, SELECT, "--analyze")
    assert "devices" in analyzed.out
    assert analyzed.out == run("explain", database, SELECT, "--analyze").out
    assert json.loads(run("explain", database, SELECT, "--analyze", "--format", "json").out)
    joined = "SELECT a.host, b.usage FROM cpu a JOIN cpu b USING (host)"
    verbose = run("explain", database, joined, "--verbose")
    assert verbose.out == run("query", database, f"EXPLAIN VERBOSE {joined}").out
    assert len(verbose.out) > len(run("explain", database, joined).out)


def test_explain_as_a_page(database: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    busy = "SELECT host FROM cpu WHERE usage < 50 ORDER BY time DESC LIMIT 2"
    assert run("explain", database, busy, "--analyze", "--format", "html", "-o", page).out == ""
    text = page.read_text()
    assert "usage &lt; 50" in text
    assert "<td>devices</td><td>30</td>" in text
    assert text.count("<div") == text.count("</div>")


def test_tables_and_schema(database: Path) -> None:
    assert "cpu" in run("tables", database).out
    columns = [json.loads(line) for line in run("schema", database, "cpu", "--format", "ndjson").out.splitlines()]
    assert len(columns) == 9
    assert run("schema", database, "cpu", "--sql").out.startswith("CREATE TABLE cpu (")
    _failed(run("schema", database, "cpv"), 1, "did you mean 'cpu'?")


def test_inspect(database: Path) -> None:
    path = next(database.rglob("*.tsf"))
    assert f"rows {ROWS:,} of 30 devices" in run("inspect", path).out
    assert "usage" in run("inspect", path, "--pages").out
    assert len(run("inspect", path, "--bytes").out.splitlines()) > 100
    _failed(run("inspect", path.with_name("absent.tsf")), 1, "absent.tsf")
    _failed(run("inspect", __file__), 1)


def test_plot_draws(database: Path) -> None:
    ran = run("query", database, "SELECT time, usage FROM cpu WHERE host = 'host_0001' ORDER BY time", "--plot")
    assert ran.out.splitlines()[0] == "usage"
    assert any(char > "\u2800" for char in ran.out)
    _failed(run("query", database, SELECT, "--plot", "--format", "csv"), 2, "--plot")


def test_errors_are_one_line(database: Path, tmp_path: Path) -> None:
    _failed(run("query", database, "SELECT * FROM cpuu"), 1, "did you mean 'cpu'?")
    _failed(run("query", database, "SELEC 1"), 1)
    _failed(run("query", database, "SELECT * FROM cpu WHERE usage >"), 1)
    _failed(run("query", tmp_path / "absent.db", "SELECT 1"), 1, "absent.db")
    _failed(run("query", database, " ; "), 2, "no statement")
    _failed(run("ingest", tmp_path / "x.db", tmp_path / "absent.csv", "--table", "t", "--create"), 1, "absent.csv")
    _failed(run("quer", database), 2, "did you mean 'query'?")
    _failed(run("query", database), 2, "SQL")
    _failed(run("generate", "fleet"), 2, "-o FILE or --into DB")


def test_an_error_does_not_hand_a_terminal_what_a_file_holds(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a\x1b[31m,b\x07\n1,2\n")
    ran = run("ingest", str(tmp_path / "db"), str(tmp_path / "a.csv"), "--create")
    _failed(ran, 1, "\\x1b[31m, b\\x07")


def test_rejected_rows_are_exit_code_3_and_in_a_file(tmp_path: Path) -> None:
    good = "time,host,usage\n2026-01-01 00:00:00,a,1.5\n2026-01-01 00:00:05,a,2.5\n"
    (tmp_path / "x.csv").write_text(good + "yesterday,a,3.5\n2026-01-01 00:00:10,a,much\n")
    made = run("query", tmp_path / "x.db", "CREATE TABLE t (time TIMESTAMP_MS TIME, host STRING TAG, usage DOUBLE FIELD)")
    assert (made.code, made.out) == (0, "")
    ran = run("ingest", tmp_path / "x.db", tmp_path / "x.csv", "--table", "t", "--rejects", tmp_path / "bad.csv")
    assert ran.code == 3
    assert "4 rows read, 2 inserted, 0 updated, 2 rejected" in ran.err
    rejects = (tmp_path / "bad.csv").read_text()
    assert "yesterday" in rejects
    assert "much" in rejects
    assert run("query", tmp_path / "x.db", "SELECT count(*) AS n FROM t", "--format", "csv").out == "n\n2\n"


def test_ingest_twice_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time,host,usage\n2026-01-01 00:00:00,a,1.5\n")
    arguments = ("ingest", tmp_path / "x.db", tmp_path / "x.csv", "--table", "t", "--create", "--tags", "host")
    assert run(*arguments).code == 0
    again = run(*arguments, "--again")
    assert "1 rows read, 0 inserted, 1 updated, 0 rejected" in again.err
    assert run("query", tmp_path / "x.db", "SELECT count(*) AS n FROM t", "--format", "csv").out == "n\n1\n"


def test_generate_into_a_database(tmp_path: Path) -> None:
    assert run("generate", "fleet", "--devices", "10", "--rows", "100", "--order", "time", "--into", tmp_path / "x.db").code == 0
    assert run("generate", "machine", "--seconds", "0.1", "--interval", "0.05", "--into", tmp_path / "x.db").code == 0
    counted = run("query", tmp_path / "x.db", "SELECT count(*) AS n FROM cpu", "--format", "csv")
    assert counted.out == "n\n100\n"
    [(row)] = [
        json.loads(line)
        for line in run("query", tmp_path / "x.db", "SELECT max(load) AS l FROM machine", "--format", "ndjson").out.splitlines()
    ]
    assert row["l"] is None or row["l"] >= 0


def test_a_recording_of_this_machine_can_be_ingested_as_it_is(tmp_path: Path) -> None:
    assert run("generate", "machine", "--seconds", "0.2", "--interval", "0.05", "-o", tmp_path / "machine.csv").code == 0
    ran = run("ingest", tmp_path / "x.db", tmp_path / "machine.csv", "--create", "--tags", "host,cpu")
    assert ran.code == 0, ran.err
    assert "CREATE TABLE machine" in ran.out
    assert "time     TIMESTAMP_NS TIME" in ran.out
    listed = (tmp_path / "machine.csv").read_text().splitlines()[1:]
    stored = run("query", tmp_path / "x.db", "SELECT count(*), max(time)::TEXT FROM machine", "--format", "csv").out
    assert stored.splitlines()[1].split(",") == [str(len(listed)), listed[-1].split(",")[0]]


def test_check_finds_damage(tmp_path: Path) -> None:
    assert run("generate", "fleet", "--devices", "10", "--rows", "1000", "--into", tmp_path / "x.db").code == 0
    assert run("check", tmp_path / "x.db").code == 0
    assert run("flush", tmp_path / "x.db").code == 0
    path = next((tmp_path / "x.db").rglob("*.tsf"))
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 3] ^= 0x40
    path.write_bytes(stored)
    ran = run("check", tmp_path / "x.db")
    assert ran.code == 1
    assert path.name in ran.out


def test_a_script_through_the_shell(database: Path) -> None:
    ran = run("shell", database, input="SELECT 1 AS a;\nSELECT 'b;' AS b")
    assert (ran.code, ran.out.splitlines()) == (0, ["a", "─", "1", "b", "──", "b;"])
    failed = run("shell", database, input="SELECT 1 AS a; SELECT nope FROM cpu; SELECT 2")
    assert failed.code == 1
    assert "nope" in failed.err
    assert "2" not in failed.out


def test_a_script_takes_the_commands_of_a_shell(database: Path) -> None:
    lines = [
        "-- shown otherwise", ".format csv", "SELECT 1 AS a;", ".format ndjson;", "SELECT '", ".quit", "' AS b,", ".5e0 AS c;",
        ".schema cpu", ".quit", "SELECT 2",
    ]  # fmt: skip
    ran = run("shell", database, input="\n".join(lines))
    statement = run("schema", database, "cpu", "--sql").out
    assert (ran.code, ran.out) == (0, 'a\n1\n{"b": "\\n.quit\\n", "c": 0.5}\n' + statement), ran.err
    assert run("shell", database, input=".tables").out == run("tables", database).out
    assert ".schema TABLE" in run("shell", database, input="help\n").out
    for wrong, named in ((".schema absent\nSELECT 1;", "'absent'"), ("SELECT 1;\n.tabels\nSELECT 2;", "'.tabels'; .help lists")):
        ran = run("shell", database, input=wrong)
        assert ran.code == 1
        assert named in ran.err
        assert "2" not in ran.out


def test_plans_and_statements_are_written_as_text(database: Path) -> None:
    assert json.loads(run("query", database, f"EXPLAIN (FORMAT JSON) {SELECT}").out)
    assert run("query", database, f"EXPLAIN {SELECT}").out == run("explain", database, SELECT).out
    assert run("query", database, "SHOW CREATE TABLE cpu").out == run("schema", database, "cpu", "--sql").out
    assert run("query", database, "SHOW CREATE TABLE cpu", "--format", "csv").out.startswith("sql\n")


def test_statements_from_a_file(database: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SET threads = 1;\nSELECT 7 AS seven;\n")
    assert run("query", database, f"@{tmp_path / 'q.sql'}", "--format", "csv").out == "seven\n7\n"
