"""``tsdb stream``: formats, where it starts and ends, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.command import ROOT, command, environment
from tsdb_cli import output
from tsdb_cli.command import stream


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE STREAM s (k BIGINT, name VARCHAR)")
        for k in range(1, 4):
            db.sql("INSERT INTO s VALUES (?, ?)", [k, f"n,{k}"])
    return tmp_path / "db"


def _stream(database: Path, *arguments: str) -> subprocess.Popen[str]:
    given = command("stream", database, *arguments)
    return subprocess.Popen(given, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("ndjson", '{"k": 1, "name": "n,1"}\n{"k": 2, "name": "n,2"}\n'), ("csv", 'k,name\n1,"n,1"\n2,"n,2"\n'),
        ("json", '[\n  {"k": 1, "name": "n,1"},\n  {"k": 2, "name": "n,2"}\n]\n'), ("table", "k  name\n─  ────\n1  n,1\n2  n,2\n"),
    ],
)  # fmt: skip
def test_formats(database: Path, form: str, wanted: str) -> None:
    process = _stream(database, "SELECT k, name FROM s", "--set", "seek_to=earliest", "--limit", "2", "--format", form)
    out, told = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, wanted)
    assert told.startswith("--resume ")


def test_rows_of_another_process_come_and_ctrl_c_ends_it(database: Path) -> None:
    process = _stream(database, "SELECT k FROM s WHERE k <> 2", "--set", "seek_to=earliest")
    assert process.stdout is not None
    assert [json.loads(process.stdout.readline())["k"] for _ in range(2)] == [1, 3]
    with tsdb.open(database) as db:
        for k in range(4, 7):
            db.sql("INSERT INTO s VALUES (?, 'x')", [k])
            assert json.loads(process.stdout.readline()) == {"k": k}
            db.flush()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    with tsdb.open(database) as db:
        db.sql("INSERT INTO s VALUES (8, 'x')")
    process = _stream(database, "SELECT k FROM s WHERE k <> 2", "--resume", error.split()[1], "--limit", "1")
    assert process.communicate(timeout=60)[0] == '{"k": 8}\n'


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_right_after_rows_were_written(
    database: Path, times: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The token is behind what was written; after a second Ctrl-C nobody knows how much that is."""
    begun = output.stream_writer

    @contextmanager
    def interrupted(*given: Any) -> Iterator[Callable[[Any], None]]:
        with begun(*given) as write:

            def write_and_stop(rows: Any) -> None:
                write(rows)
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)

            yield write_and_stop

    monkeypatch.setattr(output, "stream_writer", interrupted)
    settings = ["--set", "seek_to=earliest", "--set", "stream_batch_rows=2"]
    stream.command.main([str(database), "SELECT k FROM s", *settings], standalone_mode=False)
    out, told = capfd.readouterr()
    assert out == '{"k": 1}\n{"k": 2}\n'
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if times == 2:
        assert told == ""
        return
    with tsdb.open(database, mode="r") as db, db.stream("SELECT k FROM s", resume=told.split()[1]) as rows:
        assert next(rows).fetchall() == [(3,)]


def test_it_ends_with_its_reader(database: Path) -> None:
    process = _stream(database, "SELECT k FROM s", "--set", "seek_to=earliest")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) in (0, 141)
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_token_of_a_limit_goes_on_behind_it(database: Path) -> None:
    out, told = _stream(database, "SELECT k FROM s", "--set", "seek_to=earliest", "--limit", "1").communicate(timeout=60)
    assert out == '{"k": 1}\n'
    out, _ = _stream(database, "SELECT k FROM s", "--resume", told.split()[1], "--limit", "2").communicate(timeout=60)
    assert out == '{"k": 2}\n{"k": 3}\n'


def test_it_goes_on_from_a_token(database: Path) -> None:
    with tsdb.open(database, mode="r") as db, db.stream("SELECT k FROM s", settings={"seek_to": 2}) as rows:
        next(rows)
        token = rows.token
    assert token is not None
    with tsdb.open(database) as db:
        db.sql("INSERT INTO s VALUES (9, 'x')")
    process = _stream(database, "SELECT k FROM s", "--resume", token, "--limit", "1")
    assert process.communicate(timeout=60)[0] == '{"k": 9}\n'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["SELECT k FROM s ORDER BY k"], "needs all rows"), (["SELECT k FROM nothing"], "nothing"),
        (["SELECT k FROM s", "--resume", "abc"], "no resume token"),
        (["SELECT k FROM s", "--set", "seek_to=x"], "seek_to cannot be"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(database: Path, arguments: list[str], words: str) -> None:
    process = _stream(database, *arguments)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error.count("\n")) == (1, "", 1)
    assert words in error
