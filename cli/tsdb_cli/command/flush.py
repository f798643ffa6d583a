"""``tsdb flush``: commits from the log into data files."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tsdb_cli import database, option, terminal


@click.command(short_help="Write what is only in the log to data files.")
@option.database
def command(database_path: Path) -> None:
    """Write every commit of the database DB that is only in its log to data files.

    Nothing depends on it: commits are as durable in the log, queries read both, and a writer flushes by itself.
    """
    started = time.perf_counter()
    with database.opened(database_path, "rw", create=False) as db:
        db.flush()
        counters = db.counters()
    if not counters["flushes"]:
        terminal.note("nothing to flush: all is in data files")
        return
    size, taken = terminal.bytes_text(counters["bytes_flushed"]), terminal.seconds_text(time.perf_counter() - started)
    terminal.note(f"flushed {counters['rows_flushed']:,} rows, {size}, in {taken}")
