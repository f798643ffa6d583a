"""``tsdb check``: verify what is stored."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tsdb_cli import database, failure, option, terminal


@click.command(short_help="Verify every checksum of a database.")
@option.database
def command(database_path: Path) -> int:
    """Read every file of the database DB and verify every checksum. Lists findings, one a line; exit code 1 where there are any."""
    found = 0
    with database.opened(database_path) as db:
        for problem in db.check():
            found += 1
            where = "" if problem.offset is None else f" at byte {problem.offset:,}"
            sys.stdout.write(f"{problem.path}{where}: {problem.message}\n")
    terminal.note("no damage found" if not found else f"{found:,} finding{'s' if found != 1 else ''}")
    return failure.FAILED if found else failure.DONE
