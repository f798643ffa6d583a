"""Arguments and options that several commands share, so that they look and behave alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tsdb_cli.output import FORMATS

Function = TypeVar("Function", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path, dir_okay=False)
database = click.argument("database_path", metavar="DB", type=click.Path(path_type=Path))
sql = click.argument("sql", metavar="SQL")
output = click.option(
    "-o", "--output", "output_path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write to FILE instead."
)
result_format = click.option(
    "--format", "form", type=click.Choice(FORMATS), help="How to write rows; default: what FILE's name says, else a table."
)


def settings(function: Function) -> Function:
    """``--set name=value``, repeatable; arrives as a dict of texts, which the database gives their types."""
    wrapped: Function = click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", callback=_parse_settings,
        help="Set a query setting, e.g. enable_topk_runtime_filter=false; repeatable. SHOW SETTINGS lists them.",
    )(function)  # fmt: skip
    return wrapped


def _parse_settings(_context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{pair!r} is not of the form name=value", param=parameter)
        parsed[name.strip()] = text.strip().strip("'")
    return parsed
