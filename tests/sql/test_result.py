"""Results: the same values, types and names as DuckDB gives, by every way of reading them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tsdb
from support.sql_text import random_rows
from support.twin import Twin

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    rows = random_rows(60)
    whole = [{**row, **{name: value for name, value in _DEFAULTS.items() if row.get(name) == "NULL"}} for row in rows[:20]]
    made = Twin(tmp_path_factory.mktemp("result"), [*whole, *rows[20:]], page_rows=16)
    yield made
    made.close()


_DEFAULTS = {
    "i": "7", "l": "7", "f": "7", "d": "7", "s": "'x'", "b": "true", "dt": "DATE '2020-01-01'", "ts": "TIMESTAMP_S '2020-01-01'",
    "tm": "TIMESTAMP_MS '2020-01-01'", "tu": "TIMESTAMP '2020-01-01'", "blob": "'y'::BLOB",
}  # fmt: skip
COLUMNS = "time, host, rack, up, id, i, l, f, d, s, b, dt, ts, tm, tu, blob, v"
CASES = {
    "no nulls": f"SELECT {COLUMNS} FROM t WHERE id < 20 ORDER BY id LIMIT 100",
    "with nulls": f"SELECT {COLUMNS} FROM t ORDER BY id LIMIT 100",
    "nothing": f"SELECT {COLUMNS} FROM t WHERE id < 0 ORDER BY id LIMIT 100",
    "repeated names": "SELECT i, i, l AS i, id AS i_1 FROM t ORDER BY id LIMIT 5",
}


def _mask_of(column: object) -> list[bool]:
    return np.ma.getmaskarray(column).tolist()  # type: ignore[no-untyped-call,no-any-return]


@pytest.mark.parametrize("sql", CASES.values(), ids=CASES)
def test_native_results_are_duckdbs(twin: Twin, sql: str) -> None:
    result, relation = twin.db.sql(sql), twin.duck.sql(sql)
    assert "DuckQuery" not in twin.plan(sql)
    assert result.columns == relation.columns
    assert result.types == [str(kind) for kind in relation.types]
    assert repr(result.fetchall()) == repr(relation.fetchall())
    mine, theirs = result.fetchnumpy(), relation.fetchnumpy()
    assert list(mine) == list(theirs)
    for name, column in theirs.items():
        assert mine[name].dtype == column.dtype, name
        assert type(mine[name]) is type(column), name
        assert _mask_of(mine[name]) == _mask_of(column), name
        assert repr(list(mine[name].tolist())) == repr(list(column.tolist())), name
    pd.testing.assert_frame_equal(result.df(), relation.df())
    table = relation.to_arrow_table()
    assert result.arrow().schema.types == table.schema.types
    assert result.arrow().to_pylist().__repr__() == table.to_pylist().__repr__()
    assert result.pl().equals(pl.from_arrow(table.rename_columns(list(mine))), null_equal=True)
    assert pa.table(result).schema.names == relation.columns


def test_results_of_duckdb_pass_through(twin: Twin) -> None:
    sql = "SELECT host, count(*) AS n, sum(i) AS s, avg(d) AS a, list(id ORDER BY id) AS l, max(time) FROM t GROUP BY 1 ORDER BY 1"
    result, relation = twin.db.sql(sql), twin.duck.sql(sql)
    assert result.columns == relation.columns
    assert result.types == [str(kind) for kind in relation.types]
    assert repr(result.fetchall()) == repr(relation.fetchall())
    pd.testing.assert_frame_equal(result.df(), relation.df())
    assert result.arrow().to_pylist().__repr__() == relation.to_arrow_table().to_pylist().__repr__()
    assert list(result.fetchnumpy()) == result.columns
    assert len(result.pl()) == len(result.fetchall())


@pytest.mark.parametrize(
    "sql", ["SELECT id FROM t", "SELECT id, i % 2 FROM t ORDER BY id", "SELECT id FROM t ORDER BY id LIMIT 50"]
)
def test_rows_come_through_one_cursor(twin: Twin, sql: str) -> None:
    result = twin.db.sql(sql)
    rows = twin.db.sql(sql).fetchall()
    assert result.fetchone() == rows[0]
    assert result.fetchmany(3) == rows[1:4]
    assert result.fetchmany(0) == []
    iterator = iter(result)
    assert next(iterator) == rows[4]
    assert result.fetchall() == rows[5:]
    assert result.fetchall() == rows
    assert list(result) == rows
    assert list(result) == rows
    while result.fetchone() is not None:
        pass
    assert result.fetchone() is None
    assert result.fetchmany(5) == []
    assert result.fetchall() == []
    assert [row for batch in result.batches() for row in zip(*batch.to_pydict().values(), strict=True)] == rows
    assert result.arrow().num_rows == len(rows)
    with pytest.raises(tsdb.InvalidInput):
        result.fetchmany(-1)


@pytest.mark.parametrize("sql", ["SELECT id FROM t", "SELECT id, i % 2 FROM t ORDER BY id"])
def test_ways_of_reading_do_not_disturb_each_other(twin: Twin, sql: str) -> None:
    result = twin.db.sql(sql)
    first = result.fetchone()
    stream = iter(result.batches())
    next(stream)
    assert len(result.df()) == result.arrow().num_rows == 60
    assert sum(1 for _ in stream) == 0
    assert [first, *result.fetchall()] == result.fetchall()
    result.close()


def test_a_result_keeps_its_snapshot(tmp_path: object) -> None:
    with tsdb.open(f"{tmp_path}/db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, i INT64)")
        db.sql("INSERT INTO t VALUES ('2024-01-01', 1), ('2024-01-02', 2)")
        results = [
            db.sql(sql) for sql in ("SELECT i FROM t", "SELECT count(*) FROM t", "SELECT i FROM t ORDER BY time DESC LIMIT 5")
        ]
        db.sql("INSERT INTO t VALUES ('2024-01-03', 3)")
        assert [result.fetchall() for result in results] == [[(1,), (2,)], [(2,)], [(2,), (1,)]]
        assert [result.fetchall() for result in results] == [[(1,), (2,)], [(2,)], [(2,), (1,)]]
        assert db.sql("SELECT count(*) FROM t").fetchall() == [(3,)]


def test_moments_beyond_python(tmp_path: object) -> None:
    values = [
        "'infinity'",
        "'-infinity'",
        "'20000-01-01 10:20:30.5'",
        "'0044-03-15 (BC)'",
        "'9999-12-31 23:59:59.999999'",
        "'0001-01-01'",
    ]
    folder = tmp_path if isinstance(tmp_path, str) else f"{tmp_path}"
    with tsdb.open(f"{folder}/db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, id INT64, tu TIMESTAMP, ts TIMESTAMP_S, dt DATE)")
        for number, value in enumerate(values):
            db.sql(
                f"INSERT INTO t VALUES (make_timestamp_ns({number}), {number}, {value}, {value}, CAST({value} AS TIMESTAMP)::DATE)"
            )
        db.sql("INSERT INTO t VALUES ('1900-01-01 00:00:00.000000999', 9, NULL, NULL, NULL)")
        sql = "SELECT tu, ts, dt, time FROM t ORDER BY id LIMIT 99"
        native, duck = db.sql(sql), db.sql(sql, settings={"enable_native_operators": False})
        assert native.fetchall() == duck.fetchall()
        assert native.fetchall()[0][0] == datetime.datetime.max


def test_repr_is_a_small_table(twin: Twin) -> None:
    result = twin.db.sql("SELECT id, s, b FROM t ORDER BY id LIMIT 30")
    lines = repr(result).splitlines()
    assert lines[0].split() == ["id", "s", "b"]
    assert lines[1].split() == ["BIGINT", "VARCHAR", "BOOLEAN"]
    assert len(lines) == 3 + 10 + 1
    assert len(result.fetchall()) == 30
    assert "NULL" in repr(twin.db.sql("SELECT NULL"))
    assert repr(twin.db.sql("SET threads = 1")) == "Result without rows"
    twin.db.sql("RESET threads")


def test_statements_without_rows_give_an_empty_result(twin: Twin) -> None:
    result = twin.db.sql("SET threads = 1")
    assert (result.columns, result.types, result.description) == ([], [], [])
    assert (result.fetchall(), result.fetchone(), result.fetchmany(3), list(result)) == ([], None, [], [])
    assert result.stats == {}
    assert result.arrow().num_rows == 0
    assert len(result.df()) == 0
    assert result.fetchnumpy() == {}
    assert list(result.batches()) == []
    twin.db.sql("RESET threads")


def test_stats_count_whole_runs(twin: Twin) -> None:
    for sql in ("SELECT id FROM t", "SELECT count(*) FROM t WHERE i > 0", "SELECT id FROM t ORDER BY time DESC LIMIT 3"):
        untouched, read = twin.db.sql(sql), twin.db.sql(sql)
        read.fetchall()
        assert untouched.stats == read.stats
        assert read.stats["files_total"] == 1
        assert read.stats["rows_total"] == 60
    assert twin.db.sql("SELECT 1").stats == {}


@pytest.mark.parametrize("sql", ["SELECT i, s FROM t", "SELECT i + 1 FROM t WHERE s <> 'x'", "SELECT i FROM t ORDER BY i DESC"])
def test_stats_after_a_part_was_read_are_those_of_a_whole_run(tmp_path: object, sql: str) -> None:
    count = 400_000
    with tsdb.open(f"{tmp_path}/db", threads=1) as db:
        db.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, i INT64, s STRING)")
        db.write("t", {"time": np.arange(count), "i": np.arange(count) % 1_000, "s": ["a"] * count})
        whole = db.sql(sql)
        assert len(whole.fetchall()) == count
        assert whole.stats["rows_read"] == count
        for look in (lambda result: result.fetchone(), repr, lambda result: next(iter(result))):
            parted = db.sql(sql)
            look(parted)
            assert parted.stats == whole.stats
        begun = db.sql(sql)
        rows = [begun.fetchone()]
        assert begun.stats == whole.stats
        assert len([*rows, *begun.fetchall()]) == count
        assert begun.stats == whole.stats


def test_large_results_stream_in_order(tmp_path: object) -> None:
    with tsdb.open(f"{tmp_path}/db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, i INT64, s STRING)")
        db.sql("INSERT INTO t SELECT make_timestamp_ns(n), n, 'x' || (n % 10) FROM range(200_000) r(n)")
        for sql in ("SELECT i, s FROM t", "SELECT i, s || '' AS s FROM t", "SELECT i, s || '' FROM t ORDER BY time LIMIT 150_000"):
            result = db.sql(sql)
            batches = [batch.column(0).to_pylist() for batch in result.batches()]
            assert len(batches) > 1
            rows = [value for batch in batches for value in batch]
            assert rows == list(range(len(rows)))
            assert [row[0] for row in result] == rows
            assert [row[0] for row in result.fetchall()] == rows
            assert result.arrow().column(0).to_pylist() == rows
