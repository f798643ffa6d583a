"""``tsdb multi``: run a multi-query and write the rows of each of its queries."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tsdb_cli import database, option, output, table

_SUFFIXES = {"table": "txt"}


@click.command(short_help="Run several dependent queries of one request.")
@option.database
@click.argument("request_path", metavar="REQUEST", type=click.Path(path_type=Path, allow_dash=True))
@option.result_format
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Write each query's rows to a file in FOLDER, by the query's name.",
)  # fmt: skip
@option.settings
@click.option("--explain", is_flag=True, help="Show the result sets by level and what needs them, and run nothing.")
@click.option("--analyze", is_flag=True, help="Run it, and show what became of each result set and what was read.")
@click.option("--stats", is_flag=True, help="Afterwards, list on standard error how many result sets and statements were run.")
def command(
    database_path: Path,
    request_path: Path,
    form: str | None,
    folder: Path | None,
    settings: dict[str, object],
    explain: bool,
    analyze: bool,
    stats: bool,
) -> None:
    """Run the request in the file REQUEST (- is standard input) on the database DB: a document in JSON, or a script of SQL.

    \b
    RESULT SET hosts AS (SELECT host FROM alarms WHERE level > 3);
    SELECT * FROM cpu WHERE host IN RESULT SET hosts ORDER BY time;

    \b
    {"queries": [
      {"table": "alarms", "filter": "level > 3",
       "result_sets": {"hosts": {"value": "host"}}, "result_set_only": true},
      {"name": "readings", "table": "cpu",
       "filter": "host IN RESULT SET hosts", "order_by": ["time"]}]}

    Each set is computed once, at one moment for the whole request; one that can only be empty, or that nothing needs, is not
    computed at all. The rows of each query that is not result_set_only are written in order: tables and CSV one below the other, in
    JSON as one object by query.
    """
    text = sys.stdin.read() if str(request_path) == "-" else request_path.read_text(encoding="utf-8")
    with database.opened(database_path) as db:
        if explain or analyze:
            plan = db.explain_multi_query(text, analyze=analyze, settings=settings).text or ""
            output.write_text(plan.rstrip() + "\n", None)
            return
        with db.multi_query(text, settings=settings) as m:
            if folder is None:
                output.write_results(list(zip(m.names, m.results, strict=True)), form or "table")
            else:
                folder.mkdir(parents=True, exist_ok=True)
                chosen = form or "csv"
                for name, result in zip(m.names, m.results, strict=True):
                    file_name = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)
                    output.write_result(result, chosen, folder / f"{file_name}.{_SUFFIXES.get(chosen, chosen)}")
            if stats:
                table.write_counters(m.stats, sys.stderr)
