"""``tsdb check``: verify what is stored, and save what can be read where it is damaged."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from tsdb.storage.finding import Problem
from tsdb_cli import failure, option, terminal


@click.command(short_help="Verify every checksum of a database, or salvage what can be read.")
@option.database
@click.option(
    "--salvage", "target", type=click.Path(path_type=Path), metavar="OUT",
    help="Write what can be read to a new database OUT, and list what cannot.",
)  # fmt: skip
def command(database_path: Path, target: Path | None) -> int:
    """Read every file of the database DB, verify every checksum and whether its files agree with each other. Changes nothing.

    Lists findings, one a line; exit code 1 where there are any. Works beside a writer, and where DB cannot be opened. With
    --salvage all that can be read is written to OUT, and the list is of what is lost; DB stays as it is.
    """
    if target is not None:
        return _salvage(database_path, target)
    from tsdb.storage.check import examine

    found = _list(examine(database_path))
    terminal.note("no damage found" if not found else f"{found:,} finding{'s' if found != 1 else ''}")
    return failure.FAILED if found else failure.DONE


def _salvage(database_path: Path, target: Path) -> int:
    from tsdb.storage.salvage import salvage

    report = salvage(database_path, target)
    lost = _list(report.lost)
    for name, rows in report.rows.items():
        terminal.note(f"{rows:,} rows of table {name} to {report.path}")
    terminal.note("nothing is lost" if not lost else f"{lost:,} loss{'es' if lost != 1 else ''}")
    return failure.FAILED if lost else failure.DONE


def _list(problems: Iterable[Problem]) -> int:
    """Print findings to standard output and notes to standard error; how many findings there were."""
    found = 0
    for problem in problems:
        where = "" if problem.offset is None else f" at byte {problem.offset:,}"
        text = f"{problem.path}{where}: {problem.message}"
        if problem.note:
            terminal.note(f"note: {text}")
        else:
            found += 1
            sys.stdout.write(f"{text}\n")
    return found
