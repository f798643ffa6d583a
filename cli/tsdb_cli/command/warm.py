"""``tsdb warm``: compile every kernel now, so that no later query waits for it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from tsdb_cli import failure, terminal

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Compile all kernels now, so that no query waits for it.")
@click.option("--ahead-of-time", is_flag=True, help="Build extension modules, which load without numba; needs a C compiler.")
@click.option(
    "--target-cpu", default="host", show_default=True, metavar="CPU", help="With --ahead-of-time: the processor to build for."
)
def command(ahead_of_time: bool, target_cpu: str) -> int:
    """Compile all kernels. They are kept on disk beside the installed package, so this is needed once per installation.

    Without options numba compiles them into its cache. With --ahead-of-time they become extension modules, and processes start
    faster because they need no numba; where that cannot be done, numba's cache is filled instead and a note says why.
    """
    started = time.perf_counter()
    if ahead_of_time:
        built = _build(target_cpu)
        if built:
            names = ", ".join(f"{path.name} ({terminal.bytes_text(path.stat().st_size)})" for path in built)
            terminal.note(f"built {names} in {terminal.seconds_text(time.perf_counter() - started)}")
            return failure.DONE
    count = _compile()
    terminal.note(f"compiled {count} kernels into numba's cache in {terminal.seconds_text(time.perf_counter() - started)}")
    return failure.DONE


def _build(target_cpu: str) -> list[Path]:
    """The extensions, or an empty list and a note where this machine cannot make them."""
    from tsdb_format.kernels import build

    try:
        return [path for path in (build.build(package, target_cpu) for package in build.PACKAGES) if path is not None]
    except Exception as problem:  # noqa: BLE001  compilers fail in their own ways, and numba's cache serves as well
        terminal.note(f"not compiled ahead of time: {failure.describe(problem)}")
        return []


def _compile() -> int:
    from tsdb_format.kernels import build, registry

    for package in build.PACKAGES:
        build.load(package)
    total = len(registry.KERNELS)
    for number, kernel in enumerate(registry.KERNELS.values(), 1):
        kernel.resolve("jit")
        if terminal.is_terminal(sys.stderr):
            sys.stderr.write(f"\r{number}/{total} kernels ")
    if terminal.is_terminal(sys.stderr):
        sys.stderr.write("\r\x1b[K")
    return total
