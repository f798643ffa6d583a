"""The handle: opening, reading beside a writer, closing, threads, and plans that are kept."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tsdb
from tsdb.session import Session
from tsdb.settings import SETTINGS
from tsdb.sql import tree
from tsdb_format.reader import TsFile

NEWEST = "SELECT * FROM cpu ORDER BY time DESC LIMIT 10"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db") as made:
        made.sql("CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE)")
        made.sql("INSERT INTO cpu SELECT make_timestamp_ns(n * 1000), 'h' || n % 3, n FROM range(100) r(n)")
        yield made


def test_open_write_read_close(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    db = tsdb.open(path, threads=2)
    assert db.settings.threads == 2
    assert (db.path, db.mode, db.closed, db.tables()) == (str(path), "rw", False, [])
    db.sql("CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE)")
    report = db.write("cpu", [{"time": "2024-01-01", "host": "a", "usage": 1.5}, {"time": "2024-01-02", "host": "a"}])
    assert (report.inserted, report.updated, report.sequence) == (2, 0, 1)
    assert db.write("CPU", {"time": ["2024-01-02"], "HOST": ["a"], "usage": [2.5]}).updated == 1
    assert db.tables() == ["cpu"]
    assert [column.name for column in db.schema("cpu")] == ["time", "host", "usage"]
    db.flush()
    assert db.check() == []
    assert "mode='rw'" in repr(db)
    result = db.sql("SELECT usage FROM cpu ORDER BY time LIMIT 5")
    db.close()
    db.close()
    assert result.fetchall() == [(1.5,), (2.5,)]
    assert db.closed
    assert "closed" in repr(db)
    with tsdb.open(path, mode="r") as reader:
        assert reader.sql("SELECT usage FROM cpu ORDER BY time").fetchall() == [(1.5,), (2.5,)]


def test_everything_after_close_says_so(db: tsdb.Database) -> None:
    db.sql(NEWEST)
    db.close()
    calls: list[Any] = [
        lambda: db.sql(NEWEST), lambda: db.write("cpu", []), lambda: db.ingest("cpu", "x.csv"), db.flush, db.tables,
        lambda: db.schema("cpu"), db.check, lambda: db.sql("SELECT 1"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(tsdb.Closed):
            call()


def test_a_reader_writes_nothing_and_sees_commits(db: tsdb.Database) -> None:
    with tsdb.open(db.path, mode="r") as reader:
        assert reader.sql("SELECT count(*) FROM cpu").fetchall() == [(100,)]
        db.sql("INSERT INTO cpu VALUES ('2030-01-01', 'new', 1)")
        assert reader.sql(NEWEST).fetchone() == (datetime.datetime(2030, 1, 1), "new", 1.0)
        db.sql("CREATE TABLE other (time TIMESTAMP)")
        assert reader.tables() == ["cpu", "other"]
        calls: list[Any] = [
            lambda: reader.sql("INSERT INTO cpu VALUES ('2024-01-01', 'a', 1)"), lambda: reader.sql("CREATE TABLE x (t TIMESTAMP)"),
            lambda: reader.sql("DROP TABLE cpu"), lambda: reader.write("cpu", [{"time": "2024-01-01"}]), reader.flush,
            lambda: reader.ingest("cpu", "x.csv"),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(tsdb.ReadOnly):
                call()
        reader.sql("SET threads = 1")


def test_what_cannot_be_opened(tmp_path: Path, db: tsdb.Database) -> None:
    with pytest.raises(tsdb.NotFound):
        tsdb.open(tmp_path / "nothing", mode="r")
    with pytest.raises(tsdb.InvalidInput):
        tsdb.open(tmp_path / "x", mode="w")
    with pytest.raises(tsdb.NotFound):
        tsdb.open(tmp_path / "x", thread=1)
    with pytest.raises(tsdb.InvalidInput):
        tsdb.open(tmp_path / "x", threads="many")
    with pytest.raises(tsdb.Locked):
        tsdb.open(db.path)


def test_settings_hold_for_the_session_or_for_one_statement(db: tsdb.Database) -> None:
    explain = f"EXPLAIN {NEWEST}"
    assert "TOPN OPT" in db.sql(explain).fetchall()[0][0]
    assert "TOPN OPT" not in db.sql(explain, settings={"enable_topk_runtime_filter": False}).fetchall()[0][0]
    assert "TOPN OPT" not in db.sql(f"{explain} SETTINGS enable_topk_runtime_filter = false").fetchall()[0][0]
    assert "TOPN OPT" in db.sql(explain).fetchall()[0][0]
    db.sql("SET enable_topk_runtime_filter = off")
    assert "TOPN OPT" not in db.sql(explain).fetchall()[0][0]
    assert "TOPN OPT" in db.sql(explain, settings={"ENABLE_topk_runtime_filter": "on"}).fetchall()[0][0]
    assert db.settings.enable_topk_runtime_filter is False
    db.sql("RESET enable_topk_runtime_filter")
    assert "TOPN OPT" in db.sql(explain).fetchall()[0][0]


def test_show_settings_lists_all_with_meanings(db: tsdb.Database) -> None:
    db.sql("SET threads = 3")
    rows = {name: (value, default, meaning) for name, value, default, meaning in db.sql("SHOW SETTINGS").fetchall()}
    assert rows["threads"][0] == "3"
    assert rows["enable_native_operators"][:2] == ("true", "true")
    assert rows["streaming_join_key_domain_pushdown_max_bytes"][1] == "16777216"
    assert all(len(meaning) > 10 for _, _, meaning in rows.values())
    assert len(rows) == len(SETTINGS)


@pytest.mark.parametrize(
    "sql", [NEWEST, "SELECT host, count(*) FROM cpu GROUP BY host ORDER BY host", "SELECT usage + 1 FROM cpu LIMIT 5"]
)
def test_filters_and_native_operators_do_not_change_answers(db: tsdb.Database, sql: str) -> None:
    wanted = db.sql(sql).fetchall()
    for name in ("enable_topk_runtime_filter", "enable_native_operators"):
        found = db.sql(sql, settings={name: False}).fetchall()
        assert found == wanted if "count" in sql else sorted(found) == sorted(wanted)


def test_a_statement_is_parsed_and_bound_once(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    bound: list[str] = []
    parse, prepare = tree.parse_query, Session._prepare
    monkeypatch.setattr("tsdb.sql.binder.parse_query", lambda text: parsed.append(text) or parse(text))
    monkeypatch.setattr(Session, "_prepare", lambda self, query, *rest: bound.append(query.text) or prepare(self, query, *rest))
    for _ in range(3):
        db.sql(NEWEST)
    assert (len(parsed), len(bound)) == (1, 1)
    sql = "SELECT usage FROM cpu WHERE host = ? ORDER BY time LIMIT 1"
    answers = [db.sql(sql, [host]).fetchall() for host in ("h0", "h1", "h0", "h2", "h1")]
    assert answers == [[(0.0,)], [(1.0,)], [(0.0,)], [(2.0,)], [(1.0,)]]
    assert (len(parsed), len(bound)) == (2, 4)
    db.sql(NEWEST, settings={"enable_native_operators": False})
    assert (len(parsed), len(bound)) == (2, 5)
    with tsdb.open(db.path, mode="r") as reader:
        for number in range(3):
            db.sql(f"INSERT INTO cpu VALUES ('2030-01-0{number + 1}', 'x', {number})")
            assert reader.sql(NEWEST).fetchone() == (datetime.datetime(2030, 1, number + 1), "x", float(number))
    assert (parsed.count(NEWEST), len(bound)) == (2, 6)


def test_kept_plans_follow_the_table(db: tsdb.Database) -> None:
    assert db.sql("SELECT * FROM cpu LIMIT 1").columns == ["time", "host", "usage"]
    db.sql("INSERT INTO cpu VALUES ('2030-01-01', 'x', 7)")
    assert db.sql(NEWEST).fetchone() == (datetime.datetime(2030, 1, 1), "x", 7.0)
    db.sql("DROP TABLE cpu")
    with pytest.raises(tsdb.NotFound):
        db.sql(NEWEST)
    db.sql("CREATE TABLE cpu (time TIMESTAMP_S TIME, load INT32)")
    result = db.sql("SELECT * FROM cpu LIMIT 1")
    assert (result.columns, result.types, result.fetchall()) == (["time", "load"], ["TIMESTAMP_S", "INTEGER"], [])


def test_now_is_the_moment_of_each_run(db: tsdb.Database) -> None:
    sql = "SELECT count(*) FROM cpu WHERE time > now() - INTERVAL 1 HOUR"
    assert db.sql(sql).fetchall() == [(0,)]
    before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    db.write("cpu", [{"time": before, "host": "now", "usage": 0.0}])
    assert db.sql(sql).fetchall() == [(1,)]
    assert db.sql("SELECT host FROM cpu WHERE time > now() - INTERVAL 1 HOUR LIMIT 5").fetchall() == [("now",)]
    assert db.sql("SELECT 1 FROM cpu WHERE time <= now() AND time > date_trunc('year', now()) LIMIT 9").fetchall() == [(1,)]
    explain = "EXPLAIN SELECT host FROM cpu WHERE time > now() LIMIT 1"
    assert db.sql(explain).fetchall() != db.sql(explain).fetchall()


@pytest.mark.parametrize(
    "moment", ["localtimestamp", "current_localtimestamp()", "now()", "current_timestamp", "get_current_timestamp()"]
)
def test_a_moment_is_that_of_each_run(db: tsdb.Database, moment: str) -> None:
    """Also where a query is asked again."""
    sql = f"SELECT count(*) FROM made WHERE time <= {moment} - INTERVAL 1 MILLISECOND * 0"
    db.sql("CREATE TABLE made (time TIMESTAMP TIME, host STRING TAG)")
    for count in range(3):
        assert db.sql(sql).fetchall() == [(count,)]
        assert db.sql("INSERT INTO made SELECT localtimestamp, 'a'").fetchall() == [(1,)]
    assert db.sql(sql).fetchall() == [(3,)]


def test_groups_by_a_moment_are_those_of_each_run(db: tsdb.Database) -> None:
    db.sql("CREATE TABLE made (time TIMESTAMP TIME, host STRING TAG, born TIMESTAMP ATTRIBUTE)")
    db.sql("INSERT INTO made VALUES ('2024-01-01', 'a', '2024-01-01')")
    for each in ("epoch(localtimestamp)", "epoch(current_localtimestamp())", "get_current_time()", "current_time"):
        sql = f"SELECT {each} AS moment, born, count(*) FROM made GROUP BY {each}, born"
        assert db.sql(sql).fetchall() < db.sql(sql).fetchall(), each
    plan = db.sql("EXPLAIN SELECT age(born), count(*) FROM made GROUP BY 1").fetchall()
    assert not any("Aggregate" in line for (line,) in plan)


def test_threads_share_a_handle(db: tsdb.Database) -> None:
    statements = [
        NEWEST, "SELECT host, sum(usage) FROM cpu GROUP BY 1 ORDER BY 1", "SELECT usage * 2 FROM cpu ORDER BY time LIMIT 5",
        "SELECT count(*) FROM cpu a JOIN cpu b USING (time)", "SHOW TABLES",
        "SELECT host FROM cpu WHERE usage > 50 AND usage % 2 = 0 ORDER BY time",
        "SELECT * FROM cpu WHERE host = 'h1' AND time < now() ORDER BY usage DESC LIMIT 3",
    ]  # fmt: skip
    wanted = [db.sql(sql).fetchall() for sql in statements]
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for turn in range(20):
            at = (number + turn) % len(statements)
            assert db.sql(statements[at]).fetchall() == wanted[at]

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(4)]:
            done.result()


def test_readers_and_a_writer_in_threads(db: tsdb.Database) -> None:
    stop = threading.Event()

    def read() -> int:
        seen = 0
        while not stop.is_set():
            [(count, distinct)] = db.sql("SELECT count(*), count(DISTINCT time) FROM cpu").fetchall()
            assert count == distinct >= seen
            seen = count
            assert len(db.sql(NEWEST).fetchall()) == 10
        return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for number in range(15):
            db.write(
                "cpu", {"time": [datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=number)], "host": ["w"], "usage": [1.0]}
            )
        stop.set()
        assert all(100 <= reader.result() <= 115 for reader in readers)


def test_python_variables_are_no_tables(db: tsdb.Database) -> None:
    frame = [{"a": 1}]
    assert frame
    with pytest.raises(tsdb.NotFound, match="the variable 'frame' is a list"):
        db.sql("SELECT * FROM frame").fetchall()


def test_a_damaged_file_is_named_whoever_reads_it(db: tsdb.Database) -> None:
    db.sql("CHECKPOINT")
    [file] = Path(db.path).glob("table/*/*.tsf")
    path = db.path
    db.close()
    with TsFile(file) as stored:
        place, _ = stored.container.extent("device.row_start")
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    with tsdb.open(path, mode="r") as reader:
        assert reader.check()
        for sql in (
            "SELECT * FROM cpu",
            "SELECT max(usage), max(time) FROM cpu",
            "SELECT time, usage FROM cpu ORDER BY usage LIMIT 100",
        ):
            ways: list[Any] = [
                lambda result: result.fetchall(), lambda result: result.arrow(), lambda result: result.fetchnumpy(),
                lambda result: list(result.batches()), lambda result: result.fetchone(), lambda result: result.stats,
            ]  # fmt: skip
            for read in ways:
                with pytest.raises(tsdb.Corruption) as caught:
                    read(reader.sql(sql))
                assert caught.value.path == str(file)


_FRESH = """
import sys, json
import tsdb
before = set(sys.modules)
with tsdb.open(sys.argv[1], mode="r") as db:
    rows = db.sql(sys.argv[2]).fetchall()
heavy = ("numba", "duckdb", "pyarrow", "sqlglot", "pandas", "polars")
print(json.dumps([len(rows), [name for name in heavy if name in sys.modules]]))
"""


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (NEWEST, {"sqlglot"}), ("SELECT host FROM cpu WHERE time > now() - INTERVAL 1 DAY LIMIT 3", {"sqlglot"}),
        ("SHOW TABLES", set()), ("DESCRIBE cpu", set()), ("SHOW SETTINGS", set()), (f"EXPLAIN {NEWEST}", {"sqlglot"}),
        ("SELECT count(*) FROM cpu", {"sqlglot", "duckdb"}),
    ],
)  # fmt: skip
def test_a_fresh_process_loads_only_what_a_statement_needs(db: tsdb.Database, sql: str, wanted: set[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TSDB_KERNELS": "python"}
    done = subprocess.run([sys.executable, "-c", _FRESH, db.path, sql], capture_output=True, text=True, check=True, env=environment)
    count, loaded = json.loads(done.stdout)
    assert count >= 0
    assert set(loaded) - {"pandas"} == wanted


def test_threads_have_a_limit(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "a.db") as db:
        for wrong in ("0", "257", "100000"):
            with pytest.raises(tsdb.InvalidInput, match="1 to 256"):
                db.sql(f"SET threads = {wrong}")
        db.sql("SET threads = 2")


def test_a_damaged_table_stops_no_other(db: tsdb.Database, tmp_path: Path) -> None:
    wanted = db.sql(NEWEST).fetchall()
    db.sql("CREATE TABLE other (time TIMESTAMP_NS TIME, host STRING TAG)")
    db.sql("INSERT INTO other VALUES ('2026-01-01', 'a')")
    db.flush()
    reader = tsdb.open(db.path, mode="r")
    db.close()
    for path in (tmp_path / "db" / "table" / "2").iterdir():
        path.unlink()
    with reader, tsdb.open(db.path) as again:
        for handle in (reader, again):
            assert handle.sql(NEWEST).fetchall() == wanted
            assert handle.sql("SELECT count(*), max(usage) FROM cpu").fetchall() == [(100, 99.0)]
            with pytest.raises(tsdb.NotFound, match=r"no file .*table.2"):
                handle.sql("SELECT * FROM other")
        again.sql("INSERT INTO cpu SELECT time, 'new', 1.0 FROM cpu ORDER BY time LIMIT 1")
        assert again.sql("SELECT count(*) FROM cpu").fetchall() == [(101,)]


def test_what_the_system_refuses_is_an_error_of_ours(db: tsdb.Database, tmp_path: Path) -> None:
    db.flush()
    db.close()
    data = next((tmp_path / "db").rglob("*.tsf"))
    for damaged in (data, tmp_path / "db" / "LOCK"):
        damaged.unlink()
        damaged.mkdir()  # stands for what root, too, is refused
    with tsdb.open(db.path, mode="r") as reader, pytest.raises(tsdb.Error, match=data.name):
        reader.sql(NEWEST)
    with pytest.raises(tsdb.Error, match=r"cannot be opened for writing: .*LOCK"):
        tsdb.open(db.path)
    manifest = max((tmp_path / "db" / "manifest").iterdir())
    manifest.unlink()
    manifest.mkdir()
    with pytest.raises(tsdb.Error, match=manifest.name):
        tsdb.open(db.path, mode="r")


_ENDLESS = """
import signal, sys, threading, time
import tsdb

def waits():
    code = sys._current_frames()[threading.main_thread().ident].f_code
    return code.co_name == "wait" and code.co_filename.endswith("parallel.py")

def interrupt():
    while not waits():  # before that an import may be what meets an OSError, and takes it for a file's
        time.sleep(0.01)
    time.sleep(0.5)
    signal.pthread_kill(threading.main_thread().ident, signal.Signals[sys.argv[3]])

class OutOfTime(OSError):
    pass

raised = []

def out_of_time(*_):
    raised.append(OutOfTime())
    raise raised[0]

signal.signal(signal.SIGUSR1, out_of_time)
with tsdb.open(sys.argv[1]) as db:
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        found = db.sql("SELECT range FROM range(1000000000000) WHERE range < 200000 OR sqrt(range) < 0")
        found.fetchall() if sys.argv[2] == "rows" else list(found.batches())
    except (KeyboardInterrupt, OutOfTime) as error:
        assert not raised or error is raised[0]
        print("interrupted", db.sql("SELECT 7").fetchall())
"""


@pytest.mark.parametrize(("form", "name"), [(form, name) for form in ("batches", "rows") for name in ("SIGINT", "SIGUSR1")])
def test_an_interrupt_stops_a_long_query(tmp_path: Path, form: str, name: str) -> None:
    """Ctrl-C, and what any signal's handler raises."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _ENDLESS, str(tmp_path / "a.db"), form, name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.stdout.split("\n")[0] == "interrupted [(7,)]", done.stderr
    assert not done.stderr


def test_what_was_written_is_its_own(tmp_path: Path) -> None:
    """Arrays that a write was given may be used again; slices of large tables keep only what they show."""
    time, value = np.arange(5), np.arange(5.0)
    long = pa.table({"time": np.arange(10, 1010), "host": [f"host {number}" * 10 for number in range(1000)]})
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, host STRING TAG, v DOUBLE, note STRING)")
        db.write("t", {"time": time, "v": value})
        time[:], value[:] = 7, -1
        db.write("t", long.slice(990, 10).append_column("note", long["host"].slice(990, 10)))
        wanted = [(number, float(number), None) for number in range(5)] + [
            (n + 10, None, f"host {n}" * 10) for n in range(990, 1000)
        ]
        question = "SELECT epoch_ns(time), v, note FROM t ORDER BY time"
        assert db.sql(question).fetchall() == wanted
        assert db._store is not None
        assert db._store.writer.versions.memory_bytes < 20_000
        db.flush()
        assert db.sql(question).fetchall() == wanted


def test_seconds_as_floats_are_not_taken_for_ticks(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP_US TIME, v DOUBLE)")
        with pytest.raises(tsdb.InvalidInput, match="row 0"):
            db.write("t", [{"time": 1_764_500_000.25, "v": 1.0}])
        db.write("t", {"time": [2.0, 3.0], "v": [1.0, 2.0]})
        assert db.sql("SELECT epoch_us(time) FROM t ORDER BY 1").fetchall() == [(2,), (3,)]
