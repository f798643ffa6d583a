"""What can go wrong, as an exit code and one line on standard error: the only place that decides either."""

from __future__ import annotations

import os
import sys
import traceback

import click

from tsdb_cli import terminal
from tsdb_format.errors import Error

DONE = 0
FAILED = 1
USAGE = 2
REJECTED = 3
INTERRUPTED = 130
READER_GONE = 141


def report(problem: BaseException) -> int:
    """Print what there is to say about ``problem`` and return the exit code. ``TSDB_TRACEBACK=1`` adds the traceback."""
    if os.environ.get("TSDB_TRACEBACK") and not isinstance(problem, click.exceptions.Exit):
        traceback.print_exception(problem)
    if isinstance(problem, click.exceptions.Exit):
        return problem.exit_code
    if isinstance(problem, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the interpreter's last flush has somewhere to go
        return READER_GONE
    if isinstance(problem, KeyboardInterrupt | click.exceptions.Abort):
        terminal.note("interrupted")
        return INTERRUPTED
    if isinstance(problem, click.UsageError):
        if type(problem).__name__ == "NoArgsIsHelpError":
            problem.show()
            return USAGE
        _say(problem.format_message())
        if problem.ctx is not None:
            terminal.note(f"`{problem.ctx.command_path} --help` tells more")
        return USAGE
    if isinstance(problem, click.ClickException):
        _say(problem.format_message())
        return problem.exit_code
    _say(describe(problem))
    return FAILED


def describe(problem: BaseException) -> str:
    """One line for people. Errors that nobody meant to raise say so, and how to get the traceback."""
    text = " ".join(str(problem).split())
    if isinstance(problem, OSError) and problem.strerror and not isinstance(problem, Error):
        return f"{problem.strerror[0].lower()}{problem.strerror[1:]}: {problem.filename}" if problem.filename else problem.strerror
    if isinstance(problem, MemoryError):
        return f"out of memory{': ' + text if text else ''}; a smaller memory_limit may help"
    if isinstance(problem, Error) or type(problem).__module__.partition(".")[0] in ("duckdb", "_duckdb", "sqlglot"):
        return text
    return f"internal error: {type(problem).__name__}: {text} (TSDB_TRACEBACK=1 shows where)"


def _say(text: str) -> None:
    shown = "\n".join(map(terminal.escaped, text.split("\n")))  # it may quote what a file holds
    print(f"{terminal.style('error:', 'red', sys.stderr)} {shown}", file=sys.stderr)
