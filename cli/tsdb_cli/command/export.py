"""``tsdb export``: a whole table as one file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tsdb.quoting import quoted_name
from tsdb_cli import database, option, output, terminal


@click.command(short_help="Write a whole table to a file.")
@option.database
@click.argument("table", metavar="TABLE")
@option.result_format
@click.option(
    "-o", "--output", "output_path", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Where to; the suffix chooses the format: .csv .json .ndjson .parquet .arrow",
)  # fmt: skip
def command(database_path: Path, table: str, form: str | None, output_path: Path) -> None:
    """Write all rows of TABLE in the database DB to FILE, streaming."""
    with database.opened(database_path) as db:
        database.require_table(db, table)
        count = output.write_result(
            db.sql(f"SELECT * FROM {quoted_name(table)}"), output.choose_format(form, output_path), output_path
        )
    if terminal.is_terminal(sys.stderr):
        terminal.note(f"{count:,} rows to {output_path}, {terminal.bytes_text(output_path.stat().st_size)}")
