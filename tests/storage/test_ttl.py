"""Rows that expired and were dropped for it do not come back in part when the TTL is raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.table_model import vectors_of
from tsdb.catalog.table import TableOptions, build_schema, with_ttl
from tsdb.session import Session
from tsdb.settings import Settings
from tsdb.storage.store import Store
from tsdb_format.types import Role

SCHEMA = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("host", "STRING", Role.TAG), ("v", "DOUBLE", Role.FIELD)])
SECOND = 10**9


def _write(store: Store, rows: dict[int, float]) -> None:
    store.write_batch("t", vectors_of(SCHEMA, [{"time": time, "host": "a", "v": value} for time, value in rows.items()]))
    store.flush()


def rows_of(store: Store) -> dict[int, float]:
    """What a query sees."""
    return dict(Session(store, Settings()).run("SELECT epoch(time)::INT64, v FROM t").fetchall())


@pytest.mark.parametrize("reopen", [False, True])
def test_an_older_version_does_not_show_once_the_newer_was_dropped(tmp_path: Path, reopen: bool) -> None:
    now = [20 * SECOND]
    store = Store.open(tmp_path / "db", clock_ns=lambda: now[0], background=False)
    store.create_table("t", SCHEMA, TableOptions(ttl_ns=100 * SECOND))
    _write(store, {1: 1.0, 2: 1.0, 150: 1.0})
    _write(store, {1: 2.0, 2: 2.0})  # overlays; a file of its own that expires first
    now[0] = 105 * SECOND
    assert store._maintenance is not None
    store._maintenance.compactor.run_due(lambda: False)
    assert [file.max_time for file in store.entry("t").files] == [150], "the file that expired as a whole is gone"
    store.alter_table("t", lambda table: with_ttl(table, 1000 * SECOND))
    if reopen:
        store.close()
        store = Store.open(tmp_path / "db", clock_ns=lambda: now[0], background=False)
    assert rows_of(store) == {150: 1.0}
    _write(store, {1: 3.0})
    assert rows_of(store) == {1: 3.0, 150: 1.0}, "what is written now is there"
    store.close()


def test_what_was_not_dropped_comes_back(tmp_path: Path) -> None:
    now = [20 * SECOND]
    with Store.open(tmp_path / "db", clock_ns=lambda: now[0], background=False) as store:
        store.create_table("t", SCHEMA, TableOptions(ttl_ns=100 * SECOND))
        _write(store, {1: 1.0, 150: 1.0})
        now[0] = 120 * SECOND
        assert rows_of(store) == {150: 1.0}
        store.alter_table("t", lambda table: with_ttl(table, None))
        assert rows_of(store) == {1: 1.0, 150: 1.0}
