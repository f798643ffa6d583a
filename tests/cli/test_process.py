"""The command as a process: pipes that close, Ctrl-C, terminals and colour."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.command import command, environment, run_process
from tsdb_cli import failure


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a small fleet."""
    folder = tmp_path_factory.mktemp("process") / "fleet.db"
    done = run_process("generate", "fleet", "--devices", "20", "--rows", "20000", "--into", folder)
    assert done.code == 0, done.err
    return folder


def _on_terminal(*arguments: object, code: int = 0, **variables: str) -> str:
    """What a person would see: the command with a pseudo-terminal for its standard output and error."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            command(*arguments), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment(TERM="xterm", **variables)
        )
    finally:
        os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 65_536):
            seen += part
    except OSError:  # the other end closed
        pass
    finally:
        os.close(ours)
    assert process.wait() == code, seen.decode()
    return seen.decode()


def test_a_reader_that_leaves_is_no_error(database: Path) -> None:
    process = subprocess.Popen(
        command("query", database, "SELECT * FROM cpu", "--format", "csv"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"time,host")
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == failure.READER_GONE
    process.stderr.close()


def test_ctrl_c_is_one_word_and_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "x.csv"
    with subprocess.Popen(
        command("generate", "machine", "--seconds", "60", "-o", target), stderr=subprocess.PIPE, env=environment()
    ) as process:
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read().decode().strip() == "interrupted"
        assert process.wait() == failure.INTERRUPTED
    assert list(tmp_path.iterdir()) == []


def test_colour_and_notes_are_for_terminals(database: Path) -> None:
    sql = "SELECT time, host, usage FROM cpu ORDER BY time DESC LIMIT 2"
    seen = _on_terminal("query", database, sql)
    assert "\x1b[1m" in seen
    assert "2 rows in" in seen
    plain = _on_terminal("query", database, sql, NO_COLOR="1")
    assert "\x1b" not in plain
    assert "2 rows in" in plain
    piped = run_process("query", database, sql)
    assert (piped.code, piped.err) == (0, "")
    assert "\x1b" not in piped.out


def test_a_long_result_is_cut_on_a_terminal_only(database: Path) -> None:
    seen = _on_terminal("query", database, "SELECT usage FROM cpu", NO_COLOR="1")
    assert "19,500 more rows" in seen
    assert len(run_process("query", database, "SELECT usage FROM cpu").out.splitlines()) == 20_002


def test_a_table_fits_the_terminal(database: Path) -> None:
    sql = "SELECT repeat('x', 300) AS wide, usage FROM cpu LIMIT 1"
    seen = _on_terminal("query", database, sql, NO_COLOR="1", COLUMNS="70")
    assert all(len(line) <= 70 for line in seen.splitlines())
    assert "…" in seen


def test_binary_formats_are_kept_off_the_terminal(database: Path) -> None:
    sql = "SELECT usage FROM cpu LIMIT 1"
    assert "not for a terminal" in _on_terminal("query", database, sql, "--format", "parquet", code=2)
    piped = subprocess.run(
        command("query", database, sql, "--format", "parquet"), capture_output=True, env=environment(), check=True
    )
    assert piped.stdout.startswith(b"PAR1")


def test_a_failure_inside_is_one_line_and_can_be_traced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_process("query", tmp_path / "file", "SELECT 1")
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    traced = run_process("query", tmp_path / "file", "SELECT 1", TSDB_TRACEBACK="1")
    assert "Traceback" in traced.err
