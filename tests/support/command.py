"""Run the ``tsdb`` command inside the test's process, or in its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tsdb_cli.main import run as run_command

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Ran:
    """What a command line left behind."""

    code: int
    out: str
    err: str


def run(*arguments: object, input: str = "") -> Ran:
    """Run in this process: fast, and with the coverage and warnings of the tests."""
    out, err = _Text(), _Text()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch("sys.stdin", io.StringIO(input)):
        code = run_command([str(argument) for argument in arguments])
    return Ran(code, out.text(), err.text())


def run_process(*arguments: object, input: str = "", **variables: str) -> Ran:
    """Run in a process of its own, as a shell would."""
    done = subprocess.run(
        command(*arguments), input=input, capture_output=True, text=True, env=environment(**variables), check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def command(*arguments: object) -> list[str]:
    """The command line of ``tsdb`` with this interpreter."""
    return [sys.executable, "-m", "tsdb_cli", *(str(argument) for argument in arguments)]


def environment(**variables: str) -> dict[str, str]:
    """This process's environment with the checkout's roots on the path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in (".", "format", "cli")), **variables}


class _Text(io.TextIOWrapper):
    """A text stream over memory that, like a real one, has a ``buffer``."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="", write_through=True)

    def text(self) -> str:
        """Everything written so far."""
        self.flush()
        memory = self.buffer
        assert isinstance(memory, io.BytesIO)
        return memory.getvalue().decode()
