"""The last cache: the newest and oldest rows of devices from what an earlier query read, and the same rows without it."""

from __future__ import annotations

import datetime
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tsdb
from support.quiet import without_background
from tsdb.exec import edge_rows
from tsdb.storage.last_cache import LAST_CACHE
from tsdb_format.encoding.kept import Kept
from tsdb_format.vector import Vector

_HOSTS = 60
_NEWEST = "SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time DESC"
_QUESTIONS = (
    _NEWEST,
    "SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time",
    "SELECT host, region, max(time) AS last, arg_max(usage, time) AS usage FROM cpu GROUP BY host, region ORDER BY host",
    "SELECT DISTINCT ON (region) region, note, usage FROM cpu ORDER BY region, time DESC",
    "SELECT DISTINCT ON (host) host, note FROM cpu WHERE usage > 3 ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) host, usage, shape FROM cpu WHERE time < TIMESTAMP '2024-01-01 00:00:40' ORDER BY host, time DESC",
    "SELECT * FROM cpu QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC) <= 2 ORDER BY host, time",
)


@pytest.fixture(autouse=True)
def few_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few devices are as many."""
    monkeypatch.setattr(edge_rows, "_DEVICES_MIN", 2)


@pytest.fixture(params=[4, 8_192], ids=["small pages", "usual pages"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tsdb.Database]:
    opened = without_background(tsdb.open(tmp_path / "db"))
    opened.sql(
        "CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, region STRING ATTRIBUTE, usage DOUBLE, note STRING, "
        f"count INT64, shape VECTOR(2), picture BLOB) WITH (page_rows = {request.param})"
    )
    _write(opened, range(_HOSTS), 0)
    opened.flush()
    yield opened
    opened.close()


def _write(db: tsdb.Database, hosts: Any, first: int, rows: int = 7) -> None:
    made = []
    for host in hosts:
        for at in range(first, first + rows):
            number = (host * 31 + at * 7) % 101
            made.append({
                "time": datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=10 * at + host % 10), "host": f"host_{host:03}",
                "region": ["east", "west", None][host % 3], "usage": None if number % 5 == 0 else number / 8,
                "note": None if number % 7 == 0 else f"{number} é\\0" * (number % 3), "count": number,
                "shape": [float(host), float(at)], "picture": bytes([number]) * (number % 4),
            })  # fmt: skip
    schema = pa.schema([
        ("time", pa.timestamp("ns")), ("host", pa.string()), ("region", pa.string()), ("usage", pa.float64()),
        ("note", pa.string()), ("count", pa.int64()), ("shape", pa.list_(pa.float32(), 2)), ("picture", pa.binary()),
    ])  # fmt: skip
    db.write("cpu", pa.Table.from_pylist(made, schema))


def _rows(db: tsdb.Database, sql: str, **settings: object) -> list[tuple[Any, ...]]:
    return db.sql(sql, settings=settings).fetchall()


def _same(db: tsdb.Database) -> None:
    """Assert that every question has the answer that DuckDB finds over our scans, with the cache cold, warm and off."""
    for sql in _QUESTIONS:
        wanted = _rows(db, sql, enable_native_operators=False)
        for _ in range(2):
            assert _rows(db, sql) == wanted, sql
        assert _rows(db, sql, last_cache_size=0) == wanted, sql
        assert _rows(db, sql, enable_topk_runtime_filter=False) == wanted, sql


def test_the_same_rows_whatever_happens(db: tsdb.Database) -> None:
    _same(db)
    _write(db, range(0, _HOSTS, 2), 5)  # in memory, over what is in the file
    _same(db)
    db.flush()
    _same(db)
    db.sql("DELETE FROM cpu WHERE host IN ('host_001', 'host_004') AND time >= TIMESTAMP '2024-01-01 00:01:00'")
    _same(db)
    db.sql("ALTER TABLE cpu DROP COLUMN note")
    db.sql("ALTER TABLE cpu ADD COLUMN note STRING")  # another column of that name: NULL in every file
    _same(db)
    db.compact()
    _same(db)


def test_what_was_read_once_is_not_read_again(db: tsdb.Database) -> None:
    first, again = (db.sql(_NEWEST).stats for _ in range(2))
    assert first["values_from_cache"] == 0
    assert first["pages_read"] > 0
    assert first["bytes_read"] > 0
    assert again["values_from_cache"] == 4 * _HOSTS
    assert 0 < again["bytes_read"] < first["bytes_read"]  # blobs are not kept
    assert again["rows_read"] == first["rows_read"] == _HOSTS
    numbers = db.sql("SELECT DISTINCT ON (host) host, usage, note FROM cpu ORDER BY host, time DESC").stats
    assert (numbers["values_from_cache"], numbers["pages_read"], numbers["bytes_read"]) == (2 * _HOSTS, 0, 0)
    oldest = db.sql("SELECT DISTINCT ON (host) host, usage FROM cpu ORDER BY host, time").stats
    assert oldest["values_from_cache"] == 0
    off = db.sql(_NEWEST, settings={"last_cache_size": 0}).stats
    assert {**off, "values_from_cache": 0} == first
    text = "\n".join(line for (line,) in db.sql(f"EXPLAIN ANALYZE {_NEWEST}").fetchall())
    assert "values_from_cache" in text


def test_few_devices_leave_nothing_behind(db: tsdb.Database) -> None:
    for _ in range(2):
        found = db.sql("SELECT DISTINCT ON (host) * FROM cpu WHERE host < 'host_020' ORDER BY host, time DESC").stats
        assert found["values_from_cache"] == 0
    assert db.sql(_NEWEST).stats["values_from_cache"] == 0


def test_new_files_are_read_and_old_ones_are_not(db: tsdb.Database) -> None:
    sql = "SELECT DISTINCT ON (host) host, usage FROM cpu ORDER BY host, time DESC"
    db.sql(sql).fetchall()
    _write(db, range(10), 20)
    db.flush()
    for wanted in (_HOSTS - 10, _HOSTS):
        assert db.sql(sql).stats["values_from_cache"] == wanted
    db.compact()
    assert db.sql(sql).stats["values_from_cache"] == 0
    assert db.sql(sql).stats["values_from_cache"] == _HOSTS


def test_it_keeps_within_its_budget(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(0)
    monkeypatch.setattr("tsdb.storage.last_cache.LAST_CACHE", kept)
    column = _HOSTS * 8
    numbers = "SELECT DISTINCT ON (host) host, count FROM cpu ORDER BY host, time DESC"
    others = "SELECT DISTINCT ON (host) host, usage FROM cpu ORDER BY host, time DESC"

    def cached(sql: str, size: int) -> int:
        found = int(db.sql(sql, settings={"last_cache_size": size}).stats["values_from_cache"])
        assert kept.bytes <= size
        return found

    assert [cached(numbers, column - 1) for _ in range(2)] == [0, 0]
    assert kept.bytes == 0
    assert [cached(numbers, column) for _ in range(2)] == [0, _HOSTS]
    assert [cached(others, 2 * column) for _ in range(2)] == [0, _HOSTS]  # with its validity too large to be beside the other
    assert [cached(numbers, 3 * column) for _ in range(2)] == [0, _HOSTS]
    assert cached(others, 3 * column) == _HOSTS
    limited = db.settings.changed({"last_cache_size": 1_000, "memory_limit": 1_600})
    assert limited.last_cache_bytes == 100


def test_threads_find_the_same(db: tsdb.Database) -> None:
    wanted = _rows(db, _NEWEST, last_cache_size=0)
    found: list[list[tuple[Any, ...]]] = []

    def ask() -> None:
        found.extend(_rows(db, _NEWEST, last_cache_size=size, threads=2) for size in (0, 1_000, 64 * 2**20) * 4)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 36
    assert all(rows == wanted for rows in found)


def test_results_are_not_the_cache(db: tsdb.Database) -> None:
    sql = "SELECT DISTINCT ON (host) host, count FROM cpu ORDER BY host, time DESC"
    wanted = _rows(db, sql)
    db.sql(sql).fetchnumpy()["count"][:] = -1
    assert _rows(db, sql) == wanted


def test_it_goes_with_its_file(db: tsdb.Database) -> None:
    before = LAST_CACHE.bytes
    db.sql(_NEWEST).fetchall()
    assert LAST_CACHE.bytes > before
    db.close()
    gc.collect()
    assert LAST_CACHE.bytes <= before


def test_an_error_is_not_kept(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from tsdb.storage.data_file import StoredFile

    read = StoredFile.read_cells

    def damaged(self: StoredFile, name: str, *ranges: Any) -> Vector:
        raise tsdb.Corruption("page checksum does not match", path=self.path, offset=0)

    with monkeypatch.context() as patch:
        patch.setattr(StoredFile, "read_cells", damaged)
        for _ in range(2):
            with pytest.raises(tsdb.Corruption):
                db.sql(_NEWEST).fetchall()
    monkeypatch.setattr(StoredFile, "read_cells", read)
    assert db.sql(_NEWEST).stats["values_from_cache"] == 0
    _same(db)
