"""PEP 249: what a library that speaks to any database expects of a driver."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import tsdb
from tsdb import dbapi

DDL = "CREATE TABLE cpu (time TIMESTAMP TIME, host STRING TAG, usage DOUBLE, n INT64, raw BLOB)"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dbapi.Connection]:
    with tsdb.connect(tmp_path / "db") as made:
        made.execute(DDL)
        yield made


def _insert(connection: dbapi.Connection, count: int) -> dbapi.Cursor:
    start = datetime.datetime(2024, 1, 1)
    rows = [(start + datetime.timedelta(seconds=i), f"h{i % 3}", i / 2, i, None) for i in range(count)]
    return connection.executemany("INSERT INTO cpu VALUES (?, ?, ?, ?, ?)", rows)


def test_the_module() -> None:
    assert (tsdb.apilevel, tsdb.threadsafety, tsdb.paramstyle) == ("2.0", 2, "qmark")
    for name in ("InterfaceError", "DatabaseError"):
        assert issubclass(getattr(tsdb, name), tsdb.Error)
    for name in ("DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError", "NotSupportedError"):
        assert issubclass(getattr(tsdb, name), dbapi.DatabaseError)
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)
    assert issubclass(dbapi.Warning, Exception)
    assert not issubclass(dbapi.Warning, tsdb.Error)
    assert tsdb.TimestampFromTicks(0) == datetime.datetime(1970, 1, 1)  # type: ignore[operator]
    assert dbapi.DateFromTicks(86_400) == datetime.date(1970, 1, 2)
    assert dbapi.TimeFromTicks(3_600) == datetime.time(1)


def test_importing_tsdb_does_not_import_it() -> None:
    code = "import sys, tsdb; print(any(name.startswith('tsdb.dbapi') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_description_and_type_codes(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.description is None
    assert cursor.rowcount == -1
    cursor.execute("SELECT time, host, usage, n, raw, true AS b, 1.5 AS d FROM cpu")
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == ["time", "host", "usage", "n", "raw", "b", "d"]
    assert all(len(column) == 7 for column in cursor.description)
    kinds = [dbapi.DATETIME, dbapi.STRING, dbapi.NUMBER, dbapi.NUMBER, dbapi.BINARY, dbapi.NUMBER, dbapi.NUMBER]
    for column, kind in zip(cursor.description, kinds, strict=True):
        assert column[1] == kind
        assert sum(column[1] == each for each in (dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID)) == 1


def test_rows_and_their_count(connection: dbapi.Connection) -> None:
    assert _insert(connection, 1_234).rowcount == 1_234
    cursor = connection.cursor()
    cursor.execute("SELECT n FROM cpu ORDER BY n")
    assert cursor.rowcount == -1
    assert cursor.fetchone() == (0,)
    assert cursor.fetchmany() == [(1,)]
    cursor.arraysize = 3
    assert cursor.fetchmany() == [(2,), (3,), (4,)]
    assert cursor.fetchmany(2) == [(5,), (6,)]
    assert next(cursor) == (7,)
    assert len(cursor.fetchall()) == 1_226
    assert cursor.fetchall() == []
    assert cursor.fetchone() is None
    assert sum(1 for _ in cursor.execute("SELECT n FROM cpu")) == 1_234
    assert cursor.execute("DELETE FROM cpu WHERE host = ?", ["h0"]).rowcount == 412
    assert cursor.description is None
    assert cursor.execute("INSERT INTO cpu BY NAME SELECT TIMESTAMP '2025-01-01' AS time, 'x' AS host").rowcount == 1


def test_parameters(connection: dbapi.Connection) -> None:
    _insert(connection, 9)
    cursor = connection.cursor()
    assert cursor.execute("SELECT count(*) FROM cpu WHERE host = ? AND n > ?", ("h1", 1)).fetchone() == (2,)
    assert cursor.execute("SELECT count(*) FROM cpu WHERE host = :host AND n > :n", {"host": "h1", "n": 1}).fetchone() == (2,)
    assert cursor.execute("SELECT count(*) FROM cpu WHERE host = $host", {"host": "h1"}).fetchone() == (3,)
    assert cursor.execute("SELECT ':host', {'a':1}, [1,2,3][1:2], :host::VARCHAR", {"host": "x"}).fetchone() == (
        ":host", {"a": 1}, [1, 2], "x",
    )  # fmt: skip
    named = [{"t": datetime.datetime(2024, 1, 2), "h": "a"}, {"t": datetime.datetime(2024, 1, 2), "h": "b"}]
    assert cursor.executemany("INSERT INTO cpu (time, host) VALUES (:t, :h)", named).rowcount == 2
    assert (
        cursor.executemany("INSERT INTO cpu (time, host) VALUES (?, upper(?))", [("2024-01-03", "c"), ("2024-01-03", "d")]).rowcount
        == 2
    )
    assert cursor.execute("SELECT host FROM cpu WHERE time >= '2024-01-02' ORDER BY 1").fetchall() == [
        ("C",),
        ("D",),
        ("a",),
        ("b",),
    ]
    assert cursor.executemany("INSERT INTO cpu (time, host) VALUES (?, ?)", []).rowcount == 0


def test_every_statement_is_a_commit(connection: dbapi.Connection) -> None:
    _insert(connection, 3)
    connection.rollback()
    connection.commit()
    assert connection.execute("SELECT count(*) FROM cpu").fetchone() == (3,)


@pytest.mark.parametrize(
    ("sql", "kind", "words"),
    [
        ("SELEC 1", dbapi.ProgrammingError, "unknown statement"), ("SELECT * FROM cpx", dbapi.ProgrammingError, "no table 'cpx'"),
        ("SELECT usag FROM cpu", dbapi.ProgrammingError, "'usage'"), ("SELECT 'x'::INT", dbapi.DataError, "Conversion"),
        ("SELECT ?", dbapi.ProgrammingError, "without a value"),
    ],
)  # fmt: skip
def test_errors(connection: dbapi.Connection, sql: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        connection.execute(sql).fetchall()
    assert isinstance(caught.value, tsdb.Error)


def test_errors_of_use(connection: dbapi.Connection, tmp_path: Path) -> None:
    cursor = connection.cursor()
    with pytest.raises(dbapi.InterfaceError, match="nothing to fetch"):
        cursor.fetchone()
    cursor.execute(DDL.replace("cpu", "other"))
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchall()
    cursor.close()
    for act in (cursor.fetchone, lambda: cursor.execute("SELECT 1")):
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            act()
    with tsdb.open(tmp_path / "taken"), pytest.raises(dbapi.OperationalError):
        tsdb.connect(tmp_path / "taken")
    with pytest.raises(dbapi.ProgrammingError):
        tsdb.connect(tmp_path / "absent", mode="r")
    other = tsdb.connect(connection.database.path)
    other.close()
    for act in (other.cursor, other.commit, other.rollback, lambda: other.execute("SELECT 1")):
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            act()
    other.close()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_connections_of_a_process_share_a_database(tmp_path: Path) -> None:
    first, second = tsdb.connect(tmp_path / "db"), tsdb.connect(str(tmp_path / "db"), threads=1)
    first.execute(DDL)
    first.close()
    _insert(second, 3)
    assert second.execute("SHOW threads").fetchone()[1] == "1"  # type: ignore[index]
    database = second.database
    second.close()
    assert database.closed
    with tsdb.open(tmp_path / "db") as opened:
        connected = tsdb.connect(opened)
        assert connected.execute("SELECT count(*) FROM cpu").fetchone() == (3,)
        connected.close()
        assert not opened.closed


def test_a_connection_to_what_was_closed_closes_nothing_else(tmp_path: Path) -> None:
    stale = tsdb.connect(tmp_path / "db")
    stale.database.close()
    with tsdb.connect(tmp_path / "db") as connection:
        stale.close()
        assert connection.execute("SELECT 1").fetchone() == (1,)
        with tsdb.connect(tmp_path / "db") as other:
            assert other.database is connection.database
    with tsdb.open(tmp_path / "db") as opened:
        assert not opened.closed


def test_colons_behind_values_are_no_parameters(connection: dbapi.Connection) -> None:
    values = {"n": 2, "a": 1}
    text = "SELECT ['x', 'y', 'z'][1:n], {'k':n}, m[n:a], :n::INT + 1, (:a) FROM (SELECT 2 AS n, 1 AS a, [5, 6] AS m)"
    assert connection.execute(text, values).fetchone() == (["x", "y"], {"k": 2}, [], 3, 1)


def test_threads_share_a_connection(connection: dbapi.Connection) -> None:
    _insert(connection, 100)
    seen: list[object] = []

    def ask() -> None:
        seen.extend(connection.cursor().execute("SELECT sum(n) FROM cpu").fetchone() for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(4950,)] * 80


def test_pandas_reads(connection: dbapi.Connection) -> None:
    _insert(connection, 5)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pandas only supports SQLAlchemy")
        frame = pd.read_sql("SELECT n, host FROM cpu WHERE n > ? ORDER BY n", connection, params=(2,))
    assert frame.to_dict("list") == {"n": [3, 4], "host": ["h0", "h1"]}


def test_the_callers_frames_are_seen(connection: dbapi.Connection) -> None:
    hosts = pd.DataFrame({"host": ["h1"]})
    _insert(connection, 6)
    assert connection.execute("SELECT count(*) FROM cpu JOIN hosts USING (host)").fetchall() == [(2,)]
    assert len(hosts) == 1
