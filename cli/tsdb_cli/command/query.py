"""``tsdb query``: run SQL and write its rows."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tsdb.sql.token import split_statements
from tsdb_cli import database, option, output, plot, table, terminal

if TYPE_CHECKING:
    from tsdb.result import Result


@click.command(short_help="Run SQL and write the rows it returns.")
@option.database
@option.sql
@option.result_format
@option.output
@option.settings
@click.option("--stats", is_flag=True, help="Afterwards, list on standard error what was read and what was not.")
@click.option("--plot", "plotted", is_flag=True, help="Draw the numeric columns over time instead of listing rows.")
def command(
    database_path: Path,
    sql: str,
    form: str | None,
    output_path: Path | None,
    settings: dict[str, object],
    stats: bool,
    plotted: bool,
) -> None:
    """Run SQL, or the statements in a file with SQL = @FILE, on the database DB and write the last one's rows.

    Reading never waits for a writer. Statements that write need the database to be free; CREATE TABLE makes it where there is none.
    """
    text = Path(sql[1:]).read_text(encoding="utf-8") if sql.startswith("@") else sql
    listed = list(split_statements(text))
    if not listed:
        raise click.UsageError("there is no statement to run")
    with database.opened(database_path, database.mode_for(listed)) as db:
        for statement in listed[:-1]:
            db.sql(statement, settings=settings).fetchall()
        started = time.perf_counter()
        result = db.sql(listed[-1], settings=settings)
        count = _write(result, form, output_path, plotted)
        if terminal.is_terminal(sys.stderr):
            seconds = time.perf_counter() - started
            terminal.note(f"{count:,} row{'s' if count != 1 else ''} in {terminal.seconds_text(seconds)}")
        if stats:
            table.write_counters(result.stats, sys.stderr)


def _write(result: Result, form: str | None, path: Path | None, plotted: bool) -> int:
    if not result.columns:
        return 0
    if not plotted:
        return output.write_result(result, output.choose_format(form, path), path)
    if form or path:
        raise click.UsageError("--plot draws on the terminal: leave out --format and -o")
    rows = result.fetchall()
    plot.write_charts(result.columns, rows, sys.stdout)
    return len(rows)
