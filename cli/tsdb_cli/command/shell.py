"""``tsdb shell``: type SQL, see rows. History and line editing come from readline where Python has it."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tsdb.sql.token import is_whole, split_statements
from tsdb_cli import database, failure, option, output, plot, table, terminal
from tsdb_format.errors import InvalidInput, Locked

if TYPE_CHECKING:
    from tsdb.database import Database

_HISTORY_LINES = 5_000
_LEAVING = (".quit", ".exit")
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
    """Ask the database DB interactively; it is made where there is none. Reads the same from standard input when it is a file."""
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
        """Run a script, with commands on lines of their own; stops at the first failure, which the caller reports."""
        waiting: list[str] = []
        for line in io.StringIO(text):
            words = _command_words(line)
            if not words or not is_whole("".join(waiting)):
                waiting.append(line)
                continue
            self._run_each("".join(waiting))
            waiting.clear()
            if words[0] in _LEAVING:
                return failure.DONE
            self._dot(words)
        self._run_each("".join(waiting))
        return failure.DONE

    def _run_each(self, text: str) -> None:
        for statement in split_statements(text):
            self._run(statement)

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
            words = _command_words(line)
            if not waiting and words:
                if words[0] in _LEAVING:
                    return
                self._guarded(partial(self._dot, words))
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
            case [".help"]:
                sys.stdout.write(_HELP + "\n")
            case _:
                raise InvalidInput(f"there is no command {' '.join(words)!r}; .help lists them")


def _command_words(line: str) -> list[str]:
    """The words of a line that is a command to the shell; none where it is SQL."""
    plain = line.strip().rstrip(";").rstrip()
    if plain.lower() in ("exit", "quit", "help"):
        plain = "." + plain.lower()
    return plain.split() if plain.startswith(".") else []


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
