"""``tsdb warm``: compile every kernel now, so that no later query waits for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click

from tsdb_cli import failure, terminal


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
            size = terminal.bytes_text(sum(path.stat().st_size for path in built))
            taken = terminal.seconds_text(time.perf_counter() - started)
            terminal.note(f"compiled the kernels ahead of time: {len(built)} extension modules, {size}, in {taken}")
            return failure.DONE
    count = _compile()
    terminal.note(f"compiled {count} kernels into numba's cache in {terminal.seconds_text(time.perf_counter() - started)}")
    return failure.DONE


def _build(target_cpu: str) -> list[Path]:
    """The extensions, each built by its own process; an empty list and a note where this machine cannot make them."""
    from tsdb_format.kernels.build import PACKAGES

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tsdb_format.kernels.build", package, target_cpu],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for package in PACKAGES
    ]  # fmt: skip
    built: list[Path] = []
    reasons: set[str] = set()
    for process in running:
        out, err = process.communicate()
        if process.returncode == 0:
            built += [Path(line) for line in out.splitlines()[-1:] if line]
        else:
            said = [line for line in err.splitlines() if re.match(r"[\w.]+(Error|Exception): ", line)]
            last = said[-1] if said else "the compiler was stopped"
            reasons.add("there is no C compiler" if "AOT function without the compiler" in last else last)
    for reason in sorted(reasons):
        terminal.note(f"not compiled ahead of time: {reason}")
    return [] if reasons else built


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
