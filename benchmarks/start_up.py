"""What a process costs before it answers: fresh interpreters, timed from outside, runs interleaved."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_NEWEST = "SELECT * FROM cpu ORDER BY time DESC LIMIT 10"


def start_up_seconds(tsdb_folder: Path, duck_file: Path, rounds: int = 7) -> dict[str, float]:
    """Median seconds of a whole process by what it does; the cold kernel cache runs twice, as each run compiles."""
    ask = f"import tsdb; tsdb.open({str(tsdb_folder)!r}, mode='r').sql({_NEWEST!r}).fetchall()"
    programs: dict[str, tuple[str, dict[str, str]]] = {
        "python alone": ("pass", {}),
        "import numpy": ("import numpy", {}),
        "import tsdb": ("import tsdb", {}),
        "import duckdb + newest 10": (
            f"import duckdb; duckdb.connect({str(duck_file)!r}, read_only=True).execute({_NEWEST!r}).fetchall()", {},
        ),
        "tsdb newest 10, kernels compiled ahead": (ask, {"TSDB_KERNELS": "auto"}),
        "tsdb newest 10, numba's cache warm": (ask, {"TSDB_KERNELS": "jit"}),
    }  # fmt: skip
    for program, variables in programs.values():
        _run(program, variables)
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, (program, variables) in programs.items():
            taken[name].append(_run(program, variables))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    cold = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as empty:
            cold.append(_run(ask, {"TSDB_KERNELS": "jit", "NUMBA_CACHE_DIR": empty}))
    return medians | {"tsdb newest 10, no kernel compiled yet": min(cold)}


def _run(program: str, variables: dict[str, str]) -> float:
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have byte code, sources in a checkout need not
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    return time.perf_counter() - started
