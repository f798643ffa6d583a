"""``tsdb generate``: data to try things on. A synthetic fleet of any size, or a few seconds of this machine's own metrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tsdb.quoting import quoted_name
from tsdb_cli import arrow_file, terminal
from tsdb_cli.output import replacing

if TYPE_CHECKING:
    import pyarrow as pa

_OUTPUT = click.option(
    "-o",
    "--output",
    "output_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write this .csv or .parquet.",
)
_INTO = click.option("--into", type=click.Path(path_type=Path), metavar="DB", help="Write straight into this database instead.")


@click.group(short_help="Make a synthetic fleet, or record this machine.")
def command() -> None:
    """Make data to try things on."""


@command.command()
@_OUTPUT
@_INTO
@click.option("--fleet", "name", type=click.Choice(["A", "B", "C"], case_sensitive=False), default="A", show_default=True,
              help="A: 1,000 devices, B: 10,000, C: 100,000.")  # fmt: skip
@click.option("--rows", type=click.IntRange(1), default=10_000_000, show_default=True, help="Rows in all.")
@click.option("--devices", type=click.IntRange(1, 1_000_000), metavar="N", help="This many devices instead of a named fleet's.")
@click.option("--order", type=click.Choice(["device", "time"]), default="device", show_default=True, help="How rows are sorted.")
@click.option("--aligned", is_flag=True, help="All devices report at the same instants, so that all their last times are equal.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="The same seed makes the same rows, everywhere.")
@click.option("--table", default="cpu", show_default=True, help="With --into: the table to write, made where there is none.")
def fleet(
    output_path: Path | None,
    into: Path | None,
    name: str,
    rows: int,
    devices: int | None,
    order: str,
    aligned: bool,
    seed: int,
    table: str,
) -> None:
    """A fleet of hosts in eight regions that report every five seconds: five percentages and a counter."""
    from tsdb_cli.fleet import CREATE_SQL, Fleet

    _require_one(output_path, into)
    made = Fleet.named(name, rows, aligned=aligned, seed=seed)
    if devices is not None:
        made = Fleet(devices, max(rows // devices, 1), aligned, seed)
    started = time.perf_counter()
    count = _write(made.tables(order), output_path, into, table, CREATE_SQL)
    seconds = time.perf_counter() - started
    terminal.note(f"{count:,} rows of {made.devices:,} devices in {terminal.seconds_text(seconds)}")


@command.command()
@_OUTPUT
@_INTO
@click.option("--seconds", type=click.FloatRange(0.1, 86_400), default=5.0, show_default=True, help="How long to record.")
@click.option("--interval", type=click.FloatRange(0.001, 3_600), default=0.05, show_default=True, help="Seconds between records.")
@click.option("--table", default="machine", show_default=True, help="With --into: the table to write, made where there is none.")
def machine(output_path: Path | None, into: Path | None, seconds: float, interval: float, table: str) -> None:
    """Record this machine: how busy each processor is, memory, load and switches."""
    from tsdb_cli.machine import CREATE_SQL, record

    _require_one(output_path, into)
    count = _write(iter([record(seconds, interval)]), output_path, into, table, CREATE_SQL)
    terminal.note(f"{count:,} rows recorded in {seconds:g} s")


def _require_one(output_path: Path | None, into: Path | None) -> None:
    if (output_path is None) == (into is None):
        raise click.UsageError("say where to: either -o FILE or --into DB")
    if output_path is not None and output_path.suffix not in (".csv", ".parquet"):
        raise click.UsageError(f"{output_path.name!r} names neither a .csv nor a .parquet file")


def _write(tables: Iterator[pa.Table], output_path: Path | None, into: Path | None, table: str, create_sql: str) -> int:
    if into is not None:
        return _write_database(tables, into, table, create_sql)
    assert output_path is not None
    with replacing(output_path) as partial:
        return (arrow_file.write_csv if output_path.suffix == ".csv" else arrow_file.write_parquet)(tables, partial)


def _write_database(tables: Iterator[pa.Table], path: Path, table: str, create_sql: str) -> int:
    from tsdb_cli.database import opened

    count = 0
    with opened(path, "rw") as db:
        if table not in db.tables():
            db.sql(create_sql.format(table=quoted_name(table))).fetchall()
        for part in tables:
            db.write(table, part)
            count += part.num_rows
            if terminal.is_terminal(sys.stderr):
                sys.stderr.write(f"\r{count:,} rows ")
    if terminal.is_terminal(sys.stderr):
        sys.stderr.write("\r\x1b[K")
    return count
