"""The caller's own data and files in FROM, by name, beside tables."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import tsdb

GLOBAL = pd.DataFrame({"host": ["a", "b"], "region": ["global", "global"]})
_COLUMNS = {"host": ["a", "b", "z"], "region": ["eu", "us", "eu"]}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db") as made:
        made.sql("CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, usage DOUBLE)")
        made.sql(
            "INSERT INTO cpu VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'a', 2), ('2024-01-01', 'b', 3), ('2024-01-01', 'c', 9)"
        )
        made.flush()
        yield made


class _Stream:
    """Anything that gives a stream of Arrow data."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


_TABLE = pa.table(_COLUMNS)
KINDS = {
    "pandas": pd.DataFrame(_COLUMNS), "polars": pl.DataFrame(_COLUMNS), "lazy": pl.DataFrame(_COLUMNS).lazy(), "table": _TABLE,
    "batch": _TABLE.to_batches()[0], "dataset": pads.dataset(_TABLE), "scanner": pads.dataset(_TABLE).scanner(),
    "stream": _Stream(_TABLE), "arrays": {name: np.array(values, object) for name, values in _COLUMNS.items()},
    "lists": _COLUMNS, "mixed": {"host": tuple(_COLUMNS["host"]), "region": np.array(_COLUMNS["region"], object)},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_frames_join_tables(db: tsdb.Database, kind: str) -> None:
    hosts = KINDS[kind]
    sql = "SELECT region, sum(usage) FROM cpu JOIN hosts USING (host) GROUP BY region ORDER BY region"
    result = db.sql(sql)
    assert result.fetchall() == [("eu", 3.0), ("us", 3.0)]
    assert result.fetchall() == [("eu", 3.0), ("us", 3.0)]
    assert result.df()["region"].tolist() == ["eu", "us"]
    assert len(hosts if isinstance(hosts, dict) else _COLUMNS) == 2


def test_a_reader_is_read_once(db: tsdb.Database) -> None:
    hosts = _TABLE.to_reader()
    assert db.sql("SELECT count(*) FROM hosts").fetchall() == [(3,)]
    with pytest.raises(tsdb.Error):
        db.sql("SELECT count(*) FROM hosts").fetchall()
    assert hosts is not None


def test_names_are_looked_up_in_callers(db: tsdb.Database) -> None:
    hosts = pd.DataFrame({"x": [1]})

    def inner() -> list[tuple[Any, ...]]:
        return db.sql("SELECT x FROM hosts").fetchall()

    assert inner() == [(1,)]
    assert db.sql("SELECT DISTINCT region FROM GLOBAL").fetchall() == [("global",)]
    assert len(hosts) == 1


def test_a_local_name_hides_a_global_one(db: tsdb.Database) -> None:
    GLOBAL = pd.DataFrame({"region": ["local"]})
    assert db.sql("SELECT DISTINCT region FROM GLOBAL").fetchall() == [("local",)]
    assert len(GLOBAL) == 1


def test_a_table_wins(db: tsdb.Database) -> None:
    cpu = pd.DataFrame({"x": [1]})
    assert db.sql("SELECT count(*) FROM cpu").fetchall() == [(4,)]
    assert len(cpu) == 1


def test_the_frame_of_the_moment_is_read(db: tsdb.Database) -> None:
    sql = "SELECT max(x) FROM frame"
    for value in (1, 2):
        frame = pd.DataFrame({"x": [value]})
        assert db.sql(sql).fetchall() == [(value,)]
    frame = pd.DataFrame({"x": ["other type"]})
    assert db.sql(sql).fetchall() == [("other type",)]
    del frame
    with pytest.raises(tsdb.NotFound):
        db.sql(sql)
    db.sql("CREATE TABLE frame (time TIMESTAMP_NS TIME, x INT64)")
    frame = pd.DataFrame({"x": [5]})
    assert db.sql(sql).fetchall() == [(None,)]
    assert len(frame) == 1


def _asked_and_left(db: tsdb.Database) -> weakref.ref[Any]:
    frame = pd.DataFrame({"x": range(1000)})
    result = db.sql("SELECT sum(x) FROM frame JOIN cpu ON cpu.usage = frame.x")
    db.sql("SELECT sum(x) FROM frame WHERE x > ?", [3]).fetchall()
    db.sql("EXPLAIN SELECT sum(x) FROM frame").fetchall()
    db.sql("SELECT x FROM frame").fetchone()
    db.sql("SELECT x FROM frame").df()
    assert result.fetchall() == [(15,)]
    return weakref.ref(frame)


def test_frames_are_not_kept(db: tsdb.Database) -> None:
    alive = _asked_and_left(db)
    gc.collect()
    assert alive() is None


def test_everywhere_a_query_stands(db: tsdb.Database) -> None:
    hosts = pd.DataFrame({"host": ["a"]})
    rows = pd.DataFrame({"time": pd.to_datetime(["2025-01-01"]), "host": ["new"], "usage": [7.0]})
    assert db.sql("SELECT count(*) FROM cpu WHERE host IN (FROM hosts)").fetchall() == [(2,)]
    assert db.sql("WITH h AS (FROM hosts) SELECT count(*) FROM cpu JOIN h USING (host)").fetchall() == [(2,)]
    assert db.sql("SELECT count(*) FROM cpu SEMI JOIN hosts USING (host)").fetchall() == [(2,)]
    assert db.sql("SELECT host FROM hosts UNION ALL SELECT 'x'").fetchall() == [("a",), ("x",)]
    assert db.sql("SUMMARIZE hosts").fetchall()[0][0] == "host"
    assert db.sql("INSERT INTO cpu BY NAME SELECT * FROM rows").fetchall() == [(1,)]
    assert db.sql("SELECT usage FROM cpu WHERE host = 'new'").fetchall() == [(7.0,)]
    assert "hosts: Frame variable=hosts type=pandas.DataFrame" in "\n".join(
        line for (line,) in db.sql("EXPLAIN SELECT * FROM hosts, cpu").fetchall()
    )
    assert len(hosts) == len(rows) == 1


def test_files(db: tsdb.Database, tmp_path: Path) -> None:
    parquet, csv, json = tmp_path / "h.parquet", tmp_path / "h.csv", tmp_path / "h.json"
    pq.write_table(_TABLE, parquet)
    pd.DataFrame(_COLUMNS).to_csv(csv, index=False)
    pd.DataFrame(_COLUMNS).to_json(json, orient="records", lines=True)
    for source in (
        f"'{parquet}'",
        f"'{csv}'",
        f"'{json}'",
        f"read_csv('{csv}')",
        f"read_parquet('{parquet}')",
        f"'{tmp_path}/*.parquet'",
    ):
        sql = f"SELECT region, sum(usage) FROM cpu JOIN {source} AS h USING (host) GROUP BY region ORDER BY region"
        assert db.sql(sql).fetchall() == [("eu", 3.0), ("us", 3.0)], source
        assert db.sql(f"SELECT count(*) FROM {source}").fetchall() == [(3,)]
    with pytest.raises(tsdb.NotFound, match=r"absent\.parquet"):
        db.sql(f"SELECT * FROM '{tmp_path}/absent.parquet'")


def test_what_nothing_has_is_not_found(db: tsdb.Database) -> None:
    hosts, number = pd.DataFrame({"x": [1]}), 5
    rows, series, array = [{"x": 1}], pd.Series([1]), np.array([1])
    for sql, message in (
        ("SELECT * FROM cpux", r"no table 'cpux' \(line 1, column 15\); did you mean 'cpu'"),
        ("SELECT * FROM cpu JOIN hostz USING (x)", "no table 'hostz' .*did you mean 'hosts'"),
        ("SELECT * FROM number", "no table 'number'"),
        (
            "SELECT * FROM rows",
            r"no table 'rows' \(line 1, column 15\), and the variable 'rows' is a list: .* dict of arrays or lists stands in FROM",
        ),
        ("SELECT * FROM cpu JOIN series USING (x)", "the variable 'series' is a pandas.Series"),
        ("SELECT * FROM array", "the variable 'array' is a numpy.ndarray"),
        ("SELECT * FROM Path", "no table 'Path'"),
        ("SELECT * FROM cpu WHERE host IN (SELECT host FROM nothing_like_it)", "no table 'nothing_like_it'"),
    ):
        with pytest.raises(tsdb.NotFound, match=message):
            db.sql(sql)
    assert len(hosts) == len(rows) == len(series) == len(array) == 1
    assert number == 5


def test_a_result_is_a_table_too_unless_it_fails(db: tsdb.Database) -> None:
    result = db.sql("SELECT host, max(usage) AS top FROM cpu GROUP BY host")
    assert db.sql("SELECT max(top) FROM result").fetchall() == [(9.0,)]
    broken = _Stream(None)
    with pytest.raises(tsdb.InvalidInput, match="variable 'broken' cannot be read"):
        db.sql("SELECT * FROM broken").fetchall()
    assert result is not None
    assert broken is not None


def test_a_dict_of_lists_that_is_no_table(db: tsdb.Database) -> None:
    uneven, odd = {"a": [1, 2], "b": [1]}, {"a": [1, "x"]}
    for name in ("uneven", "odd"):
        with pytest.raises(tsdb.InvalidInput, match=f"the variable '{name}' cannot be read as a table"):
            db.sql(f"SELECT * FROM {name}").fetchall()
    assert len(uneven) == len(odd) + 1


def test_polars_refuses_in_our_words(db: tsdb.Database) -> None:
    with pytest.raises(tsdb.InvalidInput, match="polars takes not all of these types, INTERVAL"):
        db.sql("SELECT INTERVAL 1 DAY").pl()
