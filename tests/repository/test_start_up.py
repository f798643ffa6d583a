"""What starting costs: heavy packages come in only when they are used. Each case runs in its own interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HEAVY = ("numba", "duckdb", "pyarrow", "sqlglot", "pandas", "polars", "rich", "llvmlite")


def _loaded(program: str, *arguments: str, variables: dict[str, str] | None = None) -> set[str]:
    """The top-level modules that are loaded after ``program`` ran."""
    text = f"import sys\n{program}\nimport json\nprint(json.dumps(sorted({{n.partition('.')[0] for n in sys.modules}})))"
    paths = os.pathsep.join(str(ROOT / part) for part in (".", "format", "cli"))
    environment = {**os.environ, "PYTHONPATH": paths, **(variables or {})}
    done = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=True, env=environment)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_tsdb_loads_nothing_heavy() -> None:
    assert not _loaded("import tsdb") & {*HEAVY, "numpy"}
    loaded = _loaded("import tsdb\ntsdb.open, tsdb.Database, tsdb.Result")
    assert not loaded & set(HEAVY)
    assert "numpy" in loaded


def test_importing_every_kernel_module_compiles_nothing() -> None:
    program = "from tsdb_format.kernels import build\nfor package in build.PACKAGES: assert build.load(package)"
    assert not _loaded(program) & set(HEAVY)


def test_asking_for_the_version_loads_nothing_heavy() -> None:
    assert not _loaded("from tsdb_cli.main import run\nassert run(['--version']) == 0") & set(HEAVY)


@pytest.mark.parametrize("command", ["query", "ingest", "generate", "explain", "inspect", "shell"])
def test_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    assert not _loaded(f"from tsdb_cli.main import run\nassert run([{command!r}, '--help']) == 0") & set(HEAVY)
