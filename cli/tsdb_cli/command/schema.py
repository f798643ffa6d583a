"""``tsdb schema``: the columns of a table."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tsdb.quoting import quoted_name
from tsdb_cli import database, option, output


@click.command(short_help="Show a table's columns, or the statement that makes it.")
@option.database
@click.argument("table", metavar="TABLE")
@option.result_format
@option.output
@click.option("--sql", "as_sql", is_flag=True, help="Print the CREATE TABLE statement instead.")
def command(database_path: Path, table: str, form: str | None, output_path: Path | None, as_sql: bool) -> None:
    """Show the columns of TABLE in the database DB: names, types and roles."""
    with database.opened(database_path) as db:
        database.require_table(db, table)
        if as_sql:
            sys.stdout.write(database.create_statement(db, table) + "\n")
            return
        output.write_result(db.sql(f"DESCRIBE {quoted_name(table)}"), output.choose_format(form, output_path), output_path)
