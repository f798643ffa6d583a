"""Instances of DuckDB: what their memory does not hold is written where temporary files belong, whoever made them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tsdb.exec.duck_instance import catalog_cursor, cursor, instance
from tsdb.ingest.ingest import _Reader

MAKERS = {
    "queries": lambda: cursor(),
    "catalog": lambda: catalog_cursor(["CREATE TABLE t (v INT)"]),
    "ingest": lambda: _Reader(1, 2**30).connection(),
}


def folder_of(connection: Any) -> Path:
    return Path(connection.execute("SELECT current_setting('temp_directory')").fetchone()[0])


@pytest.mark.parametrize("maker", MAKERS)
def test_nothing_is_written_to_the_current_directory(maker: str) -> None:
    connection = MAKERS[maker]()
    assert folder_of(connection).parent == Path(tempfile.gettempdir())
    assert connection.execute("SELECT current_setting('TimeZone')").fetchone() == ("UTC",)
    connection.close()


def test_what_is_too_large_for_memory_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    one, other = instance(memory_limit="32MB", threads=1), instance()
    assert folder_of(one) != folder_of(other)
    one.execute("CREATE TEMP TABLE t AS SELECT range AS v, hash(range) AS h, hash(range + 1) AS g FROM range(3_000_000)")
    assert [path.name for path in tmp_path.iterdir()] == [folder_of(one).name]
    one.close()
    other.close()
    assert not list(tmp_path.iterdir())
