"""``tsdb inspect``: what is in a data file."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(short_help="Show what is in a .tsf file: its parts, its pages, its bytes.")
@click.argument("path", metavar="FILE.tsf", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--pages", is_flag=True, help="List every page: place, encoding, bounds, and whether its checksum is right.")
@click.option("--bytes", "dumped", is_flag=True, help="List every field of the file: offset, name, value and bytes.")
def command(path: Path, pages: bool, dumped: bool) -> None:
    """Show what is in FILE.tsf as a tree: rows, columns and their encodings, devices, footer, and the sidecar beside it."""
    from tsdb_format import dump, inspect

    if dumped:
        for line in dump.dump_file(path):
            sys.stdout.write(f"{line}\n")
        return
    report = inspect.inspect_file(path)
    sys.stdout.write(inspect.render_pages(inspect.inspect_pages(report.file)) if pages else inspect.render_tree(report))
