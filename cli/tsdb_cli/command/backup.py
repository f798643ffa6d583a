"""``tsdb backup``: a copy of a database that is used meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tsdb_cli import database, option, terminal


@click.command(short_help="Make a backup of a database, or bring one up to date.")
@option.database
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--copy", is_flag=True, help="Copy files also where hard links would do, so that damage to one disk spares the other."
)
def command(database_path: Path, target: Path, copy: bool) -> None:
    """Make OUT a backup of the database DB as of its last commit, whether or not somebody writes to DB meanwhile.

    OUT is new, empty, or an earlier backup of DB: then only what is new is added, and what DB has no more is removed. It is a
    complete database and opens as one. On the same file system it shares files with DB by hard links, and costs next to nothing.
    """
    started = time.perf_counter()
    with database.opened(database_path) as db:
        report = db.backup(target, link=not copy)
    parts = [f"{report.files_kept:,} files kept", f"{report.files_removed:,} removed"]
    if report.files_copied or not report.files_linked:
        parts.insert(0, f"{report.files_copied:,} copied ({terminal.bytes_text(report.bytes_copied)})")
    if report.files_linked:
        parts.insert(0, f"{report.files_linked:,} linked ({terminal.bytes_text(report.bytes_linked)})")
    taken = terminal.seconds_text(time.perf_counter() - started)
    terminal.note(f"{report.path} is as of commit {report.sequence:,}: {', '.join(parts)} in {taken}")
