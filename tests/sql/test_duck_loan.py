"""Connections that wait for the next run: they are used again, by one run at a time, and know nothing of the one before."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tsdb
from tsdb.exec import duck_loan

SQL = "SELECT host, median(usage) AS m, count(*) FROM cpu WHERE usage >= $1 GROUP BY host ORDER BY host"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db") as made:
        made.sql("CREATE TABLE cpu (time TIMESTAMP TIME, host STRING TAG, usage DOUBLE)")
        _insert(made, range(40))
        yield made


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The connections that are made."""
    monkeypatch.setattr(duck_loan, "_IDLE", {})
    found: list[Any] = []
    real = duck_loan.cursor

    def cursor(*args: Any) -> Any:
        found.append(real(*args))
        return found[-1]

    monkeypatch.setattr(duck_loan, "cursor", cursor)
    return found


def _insert(db: tsdb.Database, numbers: range) -> None:
    rows = ", ".join(f"('2024-01-01 00:{n // 60:02}:{n % 60:02}', 'h{n % 3}', {n})" for n in numbers)
    db.sql(f"INSERT INTO cpu VALUES {rows}")


def _expected(least: int, count: int) -> list[tuple[Any, ...]]:
    rows = []
    for host in range(3):
        values = [n for n in range(host, count, 3) if n >= least]
        middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
        rows.append((f"h{host}", middle, len(values)))
    return rows


def test_a_connection_is_used_again_over_newer_rows(db: tsdb.Database, made: list[Any]) -> None:
    for least in range(5):
        assert db.sql(SQL, [least]).fetchall() == _expected(least, 40)
    _insert(db, range(40, 60))  # which has one to itself
    assert len(made) == 2
    assert db.sql(SQL, [2]).fetchall() == _expected(2, 60)
    assert db.sql(SQL, [2]).arrow().num_rows == 3
    db.sql("ALTER TABLE cpu ADD COLUMN more INT")
    assert db.sql(SQL, [3]).fetchall() == _expected(3, 60)
    assert len(made) == 2
    db.sql("ALTER TABLE cpu DROP COLUMN more")
    assert db.sql("SELECT median(usage), any_value(usage) IS NULL FROM cpu").fetchall() == [(29.5, False)]
    assert len(made) == 3  # of other columns


def test_runs_at_once_have_connections_of_their_own(db: tsdb.Database, made: list[Any]) -> None:
    first, second = db.sql(SQL, [0]), db.sql(SQL, [7])
    streams = [iter(first), iter(second), iter(db.sql(SQL, [1]))]
    rows = list(zip(*streams, strict=True))
    assert [list(column) for column in zip(*rows, strict=True)] == [_expected(least, 40) for least in (0, 7, 1)]
    failures: list[object] = []

    def ask(least: int) -> None:
        failures.extend(least for _ in range(20) if db.sql(SQL, [least]).fetchall() != _expected(least, 40))

    threads = [threading.Thread(target=ask, args=(least,)) for least in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(made) < 20


def test_what_failed_is_not_used_again(db: tsdb.Database, made: list[Any]) -> None:
    sql = "SELECT median(CASE WHEN usage > $1 THEN error('no') ELSE usage END) FROM cpu"
    assert db.sql(sql, [100]).fetchall() == [(19.5,)]
    for _ in range(2):
        with pytest.raises(tsdb.InvalidInput):
            db.sql(sql, [5]).fetchall()
    assert len(made) == 2
    assert db.sql(sql, [100]).fetchall() == [(19.5,)]
    assert len(made) == 3


def test_a_connection_that_waits_holds_nothing(db: tsdb.Database, made: list[Any]) -> None:
    result = db.sql(SQL, [0])
    result.fetchall()
    source = weakref.ref(result._source.context)  # type: ignore[union-attr]
    del result
    gc.collect()
    assert source() is None
    assert sum(map(len, duck_loan._IDLE.values())) == len(made) == 1


def test_a_result_that_was_closed_says_so(db: tsdb.Database, made: list[Any]) -> None:
    result = db.sql(SQL, [0])
    result.close()
    with pytest.raises(tsdb.Closed):
        result.fetchall()
    with pytest.raises(tsdb.Closed):
        result.arrow()
    assert db.sql(SQL, [0]).fetchall() == _expected(0, 40)
    result.close()
    assert db.sql(SQL, [1]).fetchall() == _expected(1, 40)
    assert len(made) == 1


def test_few_wait(db: tsdb.Database, made: list[Any]) -> None:
    results = [db.sql(SQL, [least]) for least in range(9)]
    assert [result.fetchall() for result in results] == [_expected(least, 40) for least in range(9)]
    del results
    gc.collect()
    assert (sum(map(len, duck_loan._IDLE.values())), len(made)) == (4, 9)


def test_connections_of_old_inputs_go(db: tsdb.Database, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck_loan, "_KEYS_MAX", 2)
    for sql in ("SELECT median(usage) FROM cpu", "SELECT mode(host) FROM cpu", "SELECT median(time) FROM cpu") * 2:
        db.sql(sql).fetchall()
        gc.collect()
        assert len(duck_loan._IDLE) <= 2
    assert len(made) == 6
    db.sql("SELECT quantile(time, 0.1) FROM cpu").fetchall()
    assert len(made) == 6
