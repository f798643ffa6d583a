"""``tsdb stream``: follow a query live."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tsdb_cli import database, option, output, terminal

if TYPE_CHECKING:
    from tsdb.stream.live import LiveQuery


@click.command(short_help="Follow a query live: rows that are there, then those that come.")
@option.database
@option.sql
@click.option(
    "--format", "form", type=click.Choice(output.STREAM_FORMATS), default="ndjson", show_default=True, help="How to write rows."
)
@option.settings
@click.option("--resume", metavar="TOKEN", help="Go on after the rows that an earlier run of the same query wrote.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="End after N rows.")
def command(database_path: Path, sql: str, form: str, settings: dict[str, object], resume: str | None, limit: int | None) -> None:
    """Write the rows of a query over the database DB as they come, from whatever process, until Ctrl-C.

    `--set seek_to=earliest` writes those first that are there already; a timestamp, or the number of a commit, starts elsewhere.
    What to pass to --resume to go on after the last row is told on standard error at the end, which also comes when nobody reads
    the output any more.
    """
    text = Path(sql[1:]).read_text(encoding="utf-8") if sql.startswith("@") else sql
    if limit:
        settings.setdefault("stream_batch_rows", limit)  # a token is of whole batches
    with database.opened(database_path) as db, db.stream(text, settings=settings, resume=resume) as rows:
        token = rows.token
        terminal.when_reader_goes(sys.stdout, rows.close)
        stop = terminal.when_interrupted(rows.close)  # between two batches: what was written and the token agree
        with suppress(KeyboardInterrupt), stop, output.stream_writer(rows.columns, rows.types, form) as write:
            for part, is_whole in _parts(rows, limit):
                token = None  # as long as it is not known how much of this was written
                write(part)
                token = rows.token if is_whole else None
        if token is not None:
            terminal.note(f"--resume {token} goes on from here")


def _parts(rows: LiveQuery, limit: int | None) -> Iterator[tuple[list[tuple[Any, ...]], bool]]:
    """The rows of each batch, as many as are asked for, and whether these are all of it."""
    left = limit
    while left is None or left > 0:
        batch = next(rows, None)
        if batch is None:
            return
        cells = iter(batch)
        part = list(islice(cells, left))
        left = None if left is None else left - len(part)
        yield part, next(cells, None) is None
