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
#: Of ours, in all, after the newest rows were asked for: a module more is half a millisecond more for every process.
MODULES_MAX = 160
#: Parts of the engine that a plain SELECT over one table has no use for.
UNUSED = (
    "tsdb.dbapi", "tsdb.ingest", "tsdb.resultset", "tsdb.stream", "tsdb.exec.aggregate", "tsdb.exec.arrow", "tsdb.exec.duck",
    "tsdb.exec.hash_join", "tsdb.exec.last_row", "tsdb.sql.aggregate", "tsdb.sql.ddl", "tsdb.sql.join", "tsdb.sql.modify",
    "tsdb.storage.backup", "tsdb.storage.compactor", "tsdb.storage.log", "tsdb.storage.writer",
)  # fmt: skip


def _modules(program: str, *arguments: str, variables: dict[str, str] | None = None) -> set[str]:
    """The modules that are loaded after ``program`` ran."""
    text = f"import sys\n{program}\nimport json\nprint(json.dumps(sorted(sys.modules)))"
    paths = os.pathsep.join(str(ROOT / part) for part in (".", "format", "cli"))
    environment = {**os.environ, "PYTHONPATH": paths, **(variables or {})}
    done = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=True, env=environment)
    return set(json.loads(done.stdout.splitlines()[-1]))


def _loaded(program: str, *arguments: str) -> set[str]:
    """The top-level modules of these."""
    return {name.partition(".")[0] for name in _modules(program, *arguments)}


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


def test_the_newest_rows_load_what_they_need(tmp_path: Path) -> None:
    make = (
        "import tsdb\nwith tsdb.open(sys.argv[1]) as db:\n"
        " db.sql('CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE)')\n"
        " db.sql(\"INSERT INTO cpu VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'b', 2)\")\n"
    )
    _loaded(make, str(tmp_path / "db"))
    ask = (
        "import tsdb\nwith tsdb.open(sys.argv[1], mode='r') as db:\n"
        " [row] = db.sql('SELECT * FROM cpu ORDER BY time DESC LIMIT 1').fetchall()\nassert row[1] == 'b'"
    )
    loaded = _modules(ask, str(tmp_path / "db"), variables={"TSDB_KERNELS": "python"})
    assert not {name.partition(".")[0] for name in loaded} & (set(HEAVY) - {"sqlglot"})
    assert not loaded & {"sqlglot.dialects.duckdb", "sqlglot.executor", "concurrent.futures.thread"}
    assert not {name for name in loaded if name.startswith(tuple(f"{part}." for part in UNUSED)) or name in UNUSED}
    assert len([name for name in loaded if name.startswith(("tsdb.", "tsdb_format."))]) <= MODULES_MAX


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("way", ["fetchall", "arrow"])
@pytest.mark.parametrize(
    "sql", ["SELECT max(usage * 2), host FROM cpu GROUP BY host", "SELECT host, sum(n), count(*) FROM cpu GROUP BY 1"]
)
def test_what_is_computed_needs_no_pandas(sql: str, way: str, native: bool, tmp_path: Path) -> None:
    make = (
        "import tsdb\nwith tsdb.open(sys.argv[1]) as db:\n"
        " db.sql('CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE, n BIGINT)')\n"
        " db.sql(\"INSERT INTO cpu VALUES ('2024-01-01', 'a', 1, 1), ('2024-01-02', 'b', NULL, 2), ('2024-01-02', NULL, 1, 3)\")\n"
    )
    _loaded(make, str(tmp_path / "db"))
    ask = (
        f"import tsdb\nwith tsdb.open(sys.argv[1], mode='r', enable_native_operators={native}) as db:\n"
        f" assert len(db.sql({sql!r}).{way}()) == 3"
    )
    loaded = _modules(ask, str(tmp_path / "db"), variables={"TSDB_KERNELS": "python"})
    assert not loaded & {"pandas", "polars"}
