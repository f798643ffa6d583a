"""``tsdb shell``: type SQL, see rows. History and line editing come from readline where Python has it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tsdb.sql.token import split_statements
from tsdb_cli import database, failure, option, output, plot, table, terminal
from tsdb_format.errors import Locked

if TYPE_CHECKING:
    from tsdb.database import Database

_HISTORY_LINES = 5_000
_HELP = """\
Statements end with a semicolon and may span lines.
  .tables            list the tables
  .schema TABLE      the statement that makes a table
  .format NAME       table, csv, json or ndjson
  .plot              draw results instead of listing them, or list them again
  .stats             show what was read after each statement, or no longer
  .help              this
  .quit              leave; so does the end of input"""


@click.command(short_help="Type SQL, see rows.")
@option.database
@click.option("--read-only", is_flag=True, help="Only read, beside another process that writes.")
def command(database_path: Path, read_only: bool) -> int:
    """Ask the database DB interactively; it is made where there is none. Reads statements from standard input when it is a file."""
    interactive = terminal.is_terminal(sys.stdin)
    with ExitStack() as stack:
        try:
            db = stack.enter_context(database.opened(database_path, "r" if read_only else "rw"))
        except Locked as problem:
            if not interactive:
                raise
            terminal.note(f"{problem}; reading only")
            db = stack.enter_context(database.opened(database_path, "r"))
        session = Session(db)
        if not interactive:
            return session.run_all(sys.stdin.read())
        from tsdb.version import __version__

        terminal.note(f"tsdb {__version__}, {database_path}. Statements end with a semicolon; .help tells more.")
        with _history():
            session.loop()
    return failure.DONE


class Session:
    """One sitting: the database, and how results are shown."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._form = "table"
        self._plotted = False
        self._stats = False

    def run_all(self, text: str) -> int:
        """Run a script; stops at the first failure, which the caller reports."""
        for statement in split_statements(text):
            self._run(statement)
        return failure.DONE

    def loop(self) -> None:
        """Read and run until the end of input. A failed statement is reported, and the next one is read."""
        waiting = ""
        while True:
            try:
                line = input("tsdb> " if not waiting else "  ... ")
            except EOFError:
                sys.stdout.write("\n")
                return
            except KeyboardInterrupt:
                waiting = ""
                sys.stdout.write("\n")
                continue
            plain = line.strip().rstrip(";").rstrip()
            if not waiting and plain.lower() in ("exit", "quit", "help"):
                line = "." + plain.lower()
            if not waiting and line.strip().startswith("."):
                if line.strip() in (".quit", ".exit"):
                    return
                self._guarded(partial(self._dot, line.split()))
                continue
            waiting += line + "\n"
            if line.rstrip().endswith(";"):
                statements, waiting = list(split_statements(waiting)), ""
                for statement in statements:
                    self._guarded(partial(self._run, statement))

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001  a shell outlives its statements
            failure.report(problem)

    def _run(self, statement: str) -> None:
        started = time.perf_counter()
        result = self._db.sql(statement)
        if result.columns and self._plotted:
            rows = result.fetchall()
            plot.write_charts(result.columns, rows)
            count = len(rows)
        else:
            count = output.write_result(result, self._form, None) if result.columns else 0
        if terminal.is_terminal(sys.stderr):
            terminal.note(f"{count:,} row{'s' if count != 1 else ''} in {terminal.seconds_text(time.perf_counter() - started)}")
        if self._stats:
            table.write_counters(result.stats, sys.stderr)

    def _dot(self, words: list[str]) -> None:
        match words:
            case [".tables"]:
                self._run("SHOW TABLES")
            case [".schema", name]:
                database.require_table(self._db, name)
                sys.stdout.write(database.create_statement(self._db, name) + "\n")
            case [".format", ("table" | "csv" | "json" | "ndjson") as form]:
                self._form = form
            case [".plot"]:
                self._plotted = not self._plotted
            case [".stats"]:
                self._stats = not self._stats
            case _:
                sys.stdout.write(_HELP + "\n")


@contextmanager
def _history() -> Iterator[None]:
    """Line editing with a history that outlives the session; nothing where Python was built without readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tsdb" / "history"
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.set_history_length(_HISTORY_LINES)
            readline.write_history_file(path)
