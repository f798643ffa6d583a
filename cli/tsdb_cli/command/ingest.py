"""``tsdb ingest``: files into a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tsdb_cli import database, failure, option, terminal
from tsdb_cli.progress import progress_bar

_NOTES_MAX = 5


@click.command(short_help="Read CSV and Parquet files into a table.")
@option.database
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--table", metavar="TABLE", help="The table to fill; default: named like the files.")
@click.option("--create", is_flag=True, help="Make the table where there is none, of the types the files suggest, and print it.")
@click.option("--time", metavar="COLUMN", help="The file's time column; default: the table's, or the first that looks like one.")
@click.option("--tags", metavar="A,B", help="With --create: the columns that name a device.")
@click.option("--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="What numbers in the time column count, since 1970.")
@click.option("--timezone", metavar="ZONE", help="The zone of times that name none, e.g. Europe/Berlin; default: UTC.")
@click.option("--tag-from-path", metavar="PATTERN", help="Tags from the files' paths, e.g. 'nab/{source}/{metric}.csv'.")
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), help="The files' format; default: by name and content.")
@click.option("--rejects", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write what does not fit to FILE.")
@click.option("--again", is_flag=True, help="Read files that were read completely before once more.")
@click.option("--blob", metavar="COLUMN=PATHS", multiple=True, help="Fill a BLOB column with the files that a column names.")
@click.option("--memory-limit", metavar="SIZE", help="At most this much memory, e.g. 2GB; default: a quarter of the machine's.")
def command(database_path: Path, files: tuple[str, ...], table: str | None, create: bool, form: str | None, **options: Any) -> int:
    """Read FILEs (also globs and folders) into TABLE of the database DB, which is made where there is none.

    Safe to repeat and to interrupt: rows are told apart by tags and time, and what was read completely is not read again. Rows that
    do not fit the table are counted and left out (exit code 3), and written to the --rejects file with line, column and reason.
    """
    tags, limit, blobs = options.pop("tags"), options.pop("memory_limit"), options.pop("blob")
    named = {name: value for name, value in options.items() if value not in (None, False)}
    if tags is not None:
        named["tags"] = [name.strip() for name in tags.split(",") if name.strip()]
    if blobs:
        named["blob"] = dict(_assigned(text) for text in blobs)
    if limit is not None:
        named["memory_limit"] = _bytes(limit)
    with database.opened(database_path, "rw") as db, progress_bar() as on_progress:
        report = db.ingest(table, list(files), create=create, format=form, on_progress=on_progress, **named)
    if report.schema:
        sys.stdout.write(report.schema.rstrip() + "\n")
    for text in report.notes[:_NOTES_MAX]:
        terminal.note(text)
    if len(report.notes) > _NOTES_MAX:
        terminal.note(f"… and {len(report.notes) - _NOTES_MAX:,} more notes like these")
    rate = report.read / report.seconds if report.seconds > 0 else 0.0
    parts = [
        f"{report.read:,} rows read",
        f"{report.inserted:,} inserted",
        f"{report.updated:,} updated",
        f"{report.rejected:,} rejected",
    ]
    print(f"{', '.join(parts)} in {terminal.seconds_text(report.seconds)} ({rate:,.0f} rows/s)", file=sys.stderr)
    return failure.REJECTED if report.rejected else failure.DONE


def _assigned(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise click.BadParameter(f"{text!r} is not of the form COLUMN=PATHS", param_hint="--blob")
    return name.strip(), value.strip()


def _bytes(text: str) -> int:
    from tsdb.settings import parse_bytes

    try:
        return parse_bytes(text)
    except ValueError as problem:
        raise click.BadParameter(f"{text!r}: {problem}", param_hint="--memory-limit") from None
