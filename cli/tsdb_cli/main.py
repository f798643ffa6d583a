"""The ``tsdb`` command: finds the subcommand, runs it, and turns whatever happens into an exit code and at most one line.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done with rejected rows; 130 interrupted and 141 reader gone, as shells have it.
Subcommands are modules that are imported only when they are run or listed, so that a query does not pay for the others.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from tsdb_cli import failure

#: The commands by group, in the order in which help lists them.
COMMANDS = {
    "Data in and out": ("ingest", "query", "stream", "multi", "export", "generate"),
    "Looking inside": ("explain", "inspect", "tables", "schema"),
    "At work": ("shell", "warm"),
    "Upkeep": ("check", "backup", "flush", "compact"),
}


class LazyGroup(click.Group):
    """A click group whose subcommands are modules of ``tsdb_cli.command``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of help."""
        return [name for names in COMMANDS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command's module; None for a name there is not."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"tsdb_cli.command.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, and with the nearest name where there is no such command."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            from tsdb.suggestion import hint

            ctx.fail(f"no command {args[0]!r}; {hint(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under the headings of ``COMMANDS``."""
        for heading, names in COMMANDS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, found.get_short_help_str(90)) for name, found in commands if found is not None])


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from tsdb.version import __version__

        click.echo(f"tsdb {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version.")
def cli() -> None:
    """An embedded time-series database.

    A database is a directory. `tsdb ingest` fills one from files, `tsdb query` asks it, `tsdb explain --analyze` shows how little
    it read for the answer. Data goes to standard output, everything else to standard error.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; prints at most one line about a failure, on standard error."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if "_TSDB_COMPLETE" in os.environ:  # a shell asks for completions
            cli.main(args=given, prog_name="tsdb")
        with cli.make_context("tsdb", given) as context:
            outcome = cli.invoke(context)
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except Exception as problem:  # noqa: BLE001  the one place where errors become exit codes
        return failure.report(problem)
    except KeyboardInterrupt as problem:
        return failure.report(problem)


def main() -> NoReturn:
    """Entry point of the installed command."""
    code = run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or failure.READER_GONE
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


if __name__ == "__main__":
    main()
