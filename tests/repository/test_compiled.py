"""Kernels compiled ahead of time: used when they were built from exactly these sources, and never otherwise."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import tsdb
from support.command import ROOT, environment

KERNEL = '''"""Kernels for a test."""

from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], i64) -> i64")
def total(values, factor):
    """Sum of ``values`` times ``factor``."""
    found = 0
    for value in values:
        found += value
    return found * factor
'''
ASK = """
import numpy as np
from tiny.kernels.adding import total
function = total.resolve()
print(type(function).__name__, function(np.arange(5), 3))
"""


def _python(program: str, folder: Path, **variables: str) -> str:
    paths = environment(**{"TSDB_KERNELS": "auto", **variables})
    paths["PYTHONPATH"] += f":{folder}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=paths, check=True)
    return done.stdout.strip()


def test_a_compiled_kernel_is_used_until_its_source_changes(tmp_path: Path) -> None:
    package = tmp_path / "tiny" / "kernels"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "adding.py").write_text(KERNEL)
    assert _python(ASK, tmp_path) == "CPUDispatcher 30"
    build = "from tsdb_format.kernels.build import build\nprint(build('tiny.kernels').name)"
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        return  # nothing can be compiled here, and numba ran it
    assert _python(build, tmp_path).startswith("_compiled.")
    compiled = _python(ASK, tmp_path)
    assert compiled == "builtin_function_or_method 30"
    assert _python(ASK, tmp_path, TSDB_KERNELS="jit") == "CPUDispatcher 30"
    assert _python(ASK, tmp_path, TSDB_KERNELS="python") == "method 30"
    assert _python(ASK + "import sys\nprint('numba' in sys.modules)", tmp_path).endswith("False")

    (package / "adding.py").write_text(KERNEL.replace("found * factor", "found * factor + 1"))
    assert _python(ASK, tmp_path) == "CPUDispatcher 31"
    (package / "adding.py").write_text(KERNEL)
    assert _python(ASK, tmp_path) == compiled
    (package / "_compiled.stamp").unlink()
    assert _python(ASK, tmp_path) == "CPUDispatcher 30"


def test_git_and_pure_wheels_ignore_what_was_compiled() -> None:
    patterns = (ROOT / ".gitignore").read_text().splitlines()
    assert {"*.so", "_compiled.stamp", "__pycache__/"} <= set(patterns)


def test_checked_kernels_refuse_what_the_extension_would_crash_on(tmp_path: Path) -> None:
    package = tmp_path / "tiny" / "kernels"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "adding.py").write_text(KERNEL)
    program = """
import numpy as np
from tiny.kernels.adding import total
print(total(np.arange(5), 3))
narrow, strided, good = np.arange(5, dtype=np.int32), np.arange(10)[::2], np.arange(5)
for wrong in ((narrow, 3), (strided, 3), (good, 3.5), (good, 2**63), (good,)):
    try:
        print("taken", total(*wrong))
    except TypeError as error:
        print("refused")
"""
    assert _python(program, tmp_path, TSDB_KERNELS="checked").split() == ["30"] + ["refused"] * 5


def test_small_inputs_do_not_wait_for_the_compiler(tmp_path: Path) -> None:
    package = tmp_path / "tiny" / "kernels"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "adding.py").write_text(KERNEL.replace('i64")', 'i64", small=True)'))
    program = """
import sys
import numpy as np
from tiny.kernels.adding import total
print([total(np.arange(5), 3) for _ in range(3)], "numba" in sys.modules)
print(total(np.arange(10_000), 1), "numba" in sys.modules)
"""
    assert _python(program, tmp_path, TSDB_KERNELS="auto").splitlines() == ["[30, 30, 30] False", "49995000 True"]


#: Tests of kernels that hash, mix and shift: their integers wrap, of which numpy warns.
WRAPPING = (
    "tests/exec/test_join_number.py", "tests/format/test_kernels_checksum.py", "tests/format/test_kernels_bitpack.py",
    "tests/ingest/test_text_value.py", "tests/storage/test_device.py",
)  # fmt: skip


def test_plain_functions_compute_what_machine_code_does_without_a_warning() -> None:
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *WRAPPING]
    done = subprocess.run(command, cwd=ROOT, env=environment(TSDB_KERNELS="python"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_database_written_by_plain_functions_is_read_by_compiled_ones(tmp_path: Path) -> None:
    program = """
import sys, tsdb
with tsdb.open(sys.argv[1]) as db:
    db.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, host STRING TAG, v DOUBLE, n BIGINT)")
    db.sql("INSERT INTO t SELECT make_timestamp_ns(i * 1000000007), 'h' || i % 7, i / 10, i * i FROM range(3000) r(i)")
    db.sql("CHECKPOINT")
    print(db.sql("SELECT count(*), sum(n), max(v) FROM t WHERE host = 'h3'").fetchall())
    print(db.sql("SELECT * FROM t ORDER BY time DESC LIMIT 3").fetchall())
"""
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "db")]
    done = subprocess.run(command, env=environment(TSDB_KERNELS="python"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with tsdb.open(tmp_path / "db", mode="r") as db:
        totals = db.sql("SELECT count(*), sum(n), max(v) FROM t WHERE host = 'h3'").fetchall()
        newest = db.sql("SELECT * FROM t ORDER BY time DESC LIMIT 3").fetchall()
    assert done.stdout.splitlines() == [repr(totals), repr(newest)]
