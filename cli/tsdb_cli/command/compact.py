"""``tsdb compact``: fewer and smaller files."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tsdb_cli import database, option, terminal


@click.command(short_help="Merge data files, and drop what is deleted, expired or overwritten.")
@option.database
@click.option("--table", metavar="TABLE", help="Only this table; default: all.")
def command(database_path: Path, table: str | None) -> None:
    """Merge the data files of the database DB now, and drop rows that are deleted, expired or overwritten.

    A writer does that by itself as far as it is worth it; this does all of it. Interrupted, what is done stays done.
    """
    started = time.perf_counter()
    with database.opened(database_path, "rw", create=False) as db:
        if table is not None:
            database.require_table(db, table)
        db.flush()
        files, size = database.stored(database_path, table)
        rewrites = db.compact(table)
        counters = db.counters()
        files_after, size_after = database.stored(database_path, table)
        problem = db.compaction_problem
    if problem is not None:
        terminal.note(f"left as it is: {problem}")
    taken = terminal.seconds_text(time.perf_counter() - started)
    if not rewrites:
        terminal.note(f"nothing to compact: {_files_text(files, size)}")
        return
    written = counters["bytes_compacted"]
    parts = [
        f"{rewrites:,} rewrite{'s' if rewrites != 1 else ''} in {taken}",
        f"{_files_text(files, size)} before, {_files_text(files_after, size_after)} after",
        f"{terminal.bytes_text(written)} written, write amplification {written / max(size_after, 1):.2f}",
    ]
    terminal.note("; ".join(parts))


def _files_text(files: int, size: int) -> str:
    return f"{files:,} file{'s' if files != 1 else ''} of {terminal.bytes_text(size)}"
