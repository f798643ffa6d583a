"""``tsdb explain``: how a query is answered, and what that reads."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tsdb_cli import database, option
from tsdb_cli.output import write_text
from tsdb_cli.plan_page import plan_page


@click.command(short_help="Show how a query is answered, and what it read.")
@option.database
@option.sql
@click.option("--analyze", is_flag=True, help="Run the query and count what was read and what was not.")
@click.option("--timings", is_flag=True, help="With --analyze: times too, which differ from run to run.")
@click.option("--rules", is_flag=True, help="Show the plan after each rule that changed it.")
@click.option("--verbose", is_flag=True, help="Say why joins and late columns were planned as they were.")
@click.option("--format", "form", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@option.output
@option.settings
def command(
    database_path: Path,
    sql: str,
    analyze: bool,
    timings: bool,
    rules: bool,
    verbose: bool,
    form: str,
    output_path: Path | None,
    settings: dict[str, str],
) -> None:
    """Show the plan of the query SQL on the database DB, one node a line, and with --analyze what became of every unit of data."""
    options = {"ANALYZE": analyze, "TIMINGS": timings, "RULES": rules, "VERBOSE": verbose}
    words = [word for word, wanted in options.items() if wanted]
    if form != "text":
        words.append("FORMAT JSON")
    explain = f"EXPLAIN ({', '.join(words)}) {sql}" if words else f"EXPLAIN {sql}"
    with database.opened(database_path) as db:
        rows = db.sql(explain, settings=settings).fetchall()
    plan = "\n".join(str(row[-1]) for row in rows)
    if form == "json":
        plan = json.dumps(json.loads(plan), indent=2, ensure_ascii=False)
    if form == "html":
        plan = plan_page("What the query read" if analyze else "How the query is answered", sql, json.loads(plan))
    write_text(plan.rstrip() + "\n", output_path)
