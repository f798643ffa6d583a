"""``tsdb tables``: what is in a database."""

from __future__ import annotations

from pathlib import Path

import click

from tsdb_cli import database, option, output


@click.command(short_help="List the tables of a database.")
@option.database
@option.result_format
@option.output
def command(database_path: Path, form: str | None, output_path: Path | None) -> None:
    """List the tables of the database DB, with what each holds."""
    with database.opened(database_path) as db:
        output.write_result(db.sql("SHOW TABLES"), output.choose_format(form, output_path), output_path)
