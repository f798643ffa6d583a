"""Golden scripts (``tests/scripts``), each at the default and at a tiny page size, and on DuckDB over the same data.

``TSDB_UPDATE_SCRIPTS=1 pytest tests/sql/test_scripts.py`` writes what is found into the scripts, for a reviewer to read as a diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.script import NOT_DUCKDB, ONLY_DEFAULT, ScriptRun, is_query, read_blocks, write_blocks

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
CASES = sorted(path for path in SCRIPTS.glob("*/*") if path.is_file())
UPDATE = os.environ.get("TSDB_UPDATE_SCRIPTS") == "1"


@pytest.mark.parametrize("page_rows", [None, 3], ids=["default", "tiny"])
@pytest.mark.parametrize("path", CASES, ids=[str(path.relative_to(SCRIPTS)) for path in CASES])
def test_script(path: Path, page_rows: int | None, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = list(read_blocks(text))
    run = ScriptRun(tmp_path, page_rows)
    try:
        for block in blocks:
            if not block.statement:
                continue
            output = run.run(block)
            if page_rows is not None and ONLY_DEFAULT in block.comments:
                continue
            if UPDATE and page_rows is None:
                block.expected = output
            assert output == block.expected, block.statement
            if is_query(block.statement) and NOT_DUCKDB not in block.comments and not output.startswith("error"):
                found = run.duckdb_output(block.statement)
                if "ORDER BY" in block.statement.upper():
                    assert found == output, f"DuckDB answers otherwise: {block.statement}"
                else:
                    assert sorted(found.splitlines()) == sorted(output.splitlines()), f"DuckDB answers otherwise: {block.statement}"
    finally:
        run.close()
    if UPDATE and page_rows is None:
        path.write_text(write_blocks(blocks), encoding="utf-8")


def test_there_are_scripts() -> None:
    assert len(CASES) >= 10
