"""The progress bar of long commands: on standard error, and only where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tsdb_cli import terminal

if TYPE_CHECKING:
    from tsdb.ingest.ingest import Progress as IngestProgress


@contextmanager
def progress_bar() -> Iterator[Callable[[IngestProgress], None] | None]:
    """A callback for ``Database.ingest``; None where nobody would see the bar."""
    if not terminal.is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rows]:>14,} rows"), TimeRemainingColumn(compact=True),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None, rows=0)

        def show(progress: IngestProgress) -> None:
            name = progress.path.rpartition("/")[2]
            bar.update(task, description=name[-32:], completed=progress.bytes_done, total=progress.bytes_total, rows=progress.rows)

        yield show
