"""Files of shards that no wanted row is in are not opened: by the keys of joins and by equalities, where that is sure."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tsdb
from support.quiet import without_background
from tsdb.catalog.table import TableOptions, build_schema
from tsdb.storage.snapshot import OpenFile
from tsdb_format.types import Role

SHARDS = 16
OFF = {"enable_join_key_filter": False}
COLUMNS = [
    ("time", "TIMESTAMP_US", Role.TIME), ("host", "STRING", Role.TAG), ("slot", "INT32", Role.TAG), ("n", "INT64", Role.FIELD),
    ("d", "DOUBLE", Role.FIELD), ("f", "FLOAT", Role.FIELD), ("day", "DATE", Role.FIELD), ("b", "BLOB", Role.FIELD),
]  # fmt: skip


class Case:
    """A database with a sharded table ``t``, its rows in DuckDB too."""

    def __init__(self, folder: Path, by: tuple[str, ...], mode: Any, rows_per_page: int, in_memory: int) -> None:
        self.folder = folder
        self.options = TableOptions(shards=SHARDS, shard_by=by, mode=mode, rows_per_page=rows_per_page)
        with tsdb.open(folder) as db:
            without_background(db)
            db._store.create_table("t", build_schema(COLUMNS), self.options)
            for part in range(2):
                db.write("t", rows(part))
                db.flush()
        self.db = without_background(tsdb.open(folder))
        if in_memory:
            self.db.write("t", rows(2))
        self.oracle = duckdb.connect()
        self.oracle.sql("SET TimeZone = 'UTC'")
        for name in ("t",):
            frame = self.db.sql(f"SELECT * FROM {name}").arrow()  # noqa: F841 — DuckDB reads it by its name
            self.oracle.sql(f"CREATE TABLE {name} AS SELECT * FROM frame")
        self.db.close()
        self.db = without_background(tsdb.open(folder))

    def close(self) -> None:
        self.db.close()
        self.oracle.close()

    def opened(self) -> int:
        """Files that have been opened."""
        files = self.db._opened().snapshot().tables["t"].files
        return sum(file._file is not None for file in files if isinstance(file, OpenFile))

    def check(self, sql: str, **settings: object) -> dict[str, Any]:
        """The counters of a query that says what DuckDB says."""
        result = self.db.sql(sql, settings=settings)
        assert sorted(map(repr, result.fetchall())) == sorted(map(repr, self.oracle.sql(sql).fetchall())), sql
        return dict(result.stats)


def rows(part: int) -> dict[str, Any]:
    """120 rows of 12 devices and, in fields, values that are NULL, NaN or a zero of either sign now and then."""
    rng = random.Random(part)
    count = 120
    floats = [None, float("nan"), 0.0, -0.0, 1.0, 2.5, 1e30]
    d = [rng.choice(floats) for _ in range(count)]
    return {
        "time": np.arange(count) + 1_000 * part,
        "host": [f"h{i % 6}" for i in range(count)],
        "slot": np.arange(count) % 4,
        "n": [None if i % 17 == 0 else i % 13 for i in range(count)],
        "d": d,
        "f": [None if value is None else value if value != 1e30 else 3.5 for value in d],
        "day": [None if i % 19 == 0 else datetime.date(1970, 1, 1 + i % 9) for i in range(count)],
        "b": [bytes([i % 7]) * 40 for i in range(count)],
    }


@pytest.fixture(params=itertools.product((4, 8192), (0, 1)), ids=str)
def layout(request: pytest.FixtureRequest) -> tuple[int, int]:
    """(Rows of a page, whether the log holds some of the rows)."""
    found: tuple[int, int] = request.param
    return found


@pytest.fixture
def make(tmp_path: Path, layout: tuple[int, int]) -> Iterator[Any]:
    """Makes cases and closes them."""
    made: list[Case] = []

    def of(*by: str, mode: str = "append") -> Case:
        made.append(Case(tmp_path / f"db{len(made)}", by, mode, *layout))
        return made[-1]

    yield of
    for case in made:
        case.close()


@pytest.mark.parametrize(
    ("by", "mode", "condition", "shards_max"),
    [
        ("host", "table", "host = 'h3'", 1),
        ("host", "append", "host IN ('h1', 'h3', 'none') AND n > 3", 3),
        ("host slot", "table", "host = 'h3' AND slot IN (1, 3)", 2),
        ("slot host", "append", "slot = 1 AND host IN ('h1', 'h3') AND slot IN (1, 2)", 4),
        ("n", "append", "n = 5", 1),
        ("n", "append", "n IN (5, 6) AND n IN (6, 7)", 3),
        ("d", "append", "d = 0.0::DOUBLE", 1),
        ("d", "append", "d = -0.0::DOUBLE", 1),
        ("d", "append", "d = 'nan'::DOUBLE", 1),
        ("f", "append", "f = 2.5::FLOAT", 1),
        ("day", "append", "day = DATE '1970-01-06'", 1),
        ("n", "append", "n = NULL", SHARDS),
        ("n", "append", "n IS NULL", SHARDS),
        ("n", "append", "n = 5 OR d = 1", SHARDS),
        ("n", "append", "n != 5", SHARDS),
        ("n", "append", "n = 5.5", SHARDS),
        ("host slot", "append", "host = 'h3'", SHARDS),
    ],
)
def test_equalities(make: Any, by: str, mode: str, condition: str, shards_max: int) -> None:
    case = make(*by.split(), mode=mode)
    stats = case.check(f"SELECT time, host, slot, n, d FROM t WHERE {condition}")
    if shards_max < SHARDS:
        files = [file for file in case.db._opened().snapshot().tables["t"].files if isinstance(file, OpenFile)]
        shards = {file.shard for file in files}
        assert len(shards) > shards_max
        assert stats["files_pruned_by_filter"] > 0
        assert 0 <= case.opened() <= 2 * shards_max
    for text in (
        f"SELECT count(*), sum(n), min(host) FROM t WHERE {condition}",
        f"SELECT host, max(time) FROM t WHERE {condition} GROUP BY host",
        f"SELECT time, host, n, b FROM t WHERE {condition} ORDER BY time DESC, host, slot LIMIT 5",
        f"SELECT DISTINCT ON (host, slot) host, slot, time FROM t WHERE {condition} ORDER BY host, slot, time DESC, n",
    ):
        case.check(text)


def test_other_types_and_other_rules_leave_nothing_out(make: Any) -> None:
    for by, mode, condition in (
        (("f",), "append", "f = 2.50000001"),  # no FLOAT is that
        (("n",), "table", "n = 5"),  # an older version may be in another shard
        (("n",), "append", "n = 5.0"),
        (("n",), "append", "n = 170141183460469231731687303715884105727"),
        (("n",), "append", "n::VARCHAR = '5'"),
    ):
        case = make(*by, mode=mode)
        case.check(f"SELECT * FROM t WHERE {condition}")
        case.check(f"SELECT count(*) FROM t WHERE NOT ({condition})")


def with_keys(case: Case, by: str, kind: str, keys: str) -> None:
    """A table ``k`` of keys beside ``t``."""
    case.db.sql(f"CREATE TABLE k (time TIMESTAMP TIME, {by} {kind})")
    case.oracle.sql(f"CREATE TABLE k (time TIMESTAMP, {by} {kind})")
    for at, value in enumerate(keys.split(" ")):
        for target in (case.db, case.oracle):
            target.sql(f"INSERT INTO k VALUES (TIMESTAMP '2000-01-0{at + 1}', {value})")


JOINS = (
    "SELECT t.time, t.host, t.slot, t.n FROM t JOIN k ON t.{by} = k.{by}",
    "SELECT t.time, t.b, t.host FROM t JOIN k ON t.{by} = k.{by} ORDER BY t.time LIMIT 7",
    "SELECT t.time, t.b, other.n FROM t JOIN t AS other USING (time, host, slot) JOIN k ON t.{by} = k.{by}",
    "SELECT t.time, k.{by} FROM k LEFT JOIN t ON t.{by} = k.{by}",
    "SELECT count(*), max(t.time) FROM t JOIN k USING ({by})",
)


@pytest.mark.parametrize("sql", JOINS)
@pytest.mark.parametrize(
    ("by", "kind", "keys"),
    [
        ("host", "VARCHAR", "'h2' 'h5' NULL 'none'"),
        ("n", "BIGINT", "3 3 NULL"),
        ("n", "INTEGER", "3 11"),
        ("d", "DOUBLE", "-0.0 'nan'"),
        ("d", "FLOAT", "2.5"),
    ],
)
def test_keys_of_a_join(make: Any, sql: str, by: str, kind: str, keys: str) -> None:
    case = make(by)
    with_keys(case, by, kind, keys)
    text = sql.format(by=by)
    if "LIMIT" in text:
        text = text.replace(" LIMIT", ", t.host, t.slot, t.n LIMIT")
    with_filter = case.check(text)
    assert with_filter["files_pruned_by_key_domain"] > 0
    opened = case.opened()
    without = case.check(text, **OFF)
    assert without["files_pruned_by_key_domain"] == 0
    assert opened < case.opened() or "AS other" in sql  # which reads all


@pytest.mark.parametrize(("by", "kind", "keys"), [("host", "VARCHAR", "'h2' 'h5' NULL"), ("n", "BIGINT", "3 NULL")])
def test_keys_of_a_subquery(make: Any, by: str, kind: str, keys: str) -> None:
    case = make(by)
    with_keys(case, by, kind, keys)
    assert case.check(f"SELECT time, host, b FROM t WHERE {by} IN (SELECT {by} FROM k)")["files_pruned_by_filter"] > 0
    assert 0 < case.opened() <= 4


def test_merged_rows_are_taken_from_the_files_that_are_left(make: Any) -> None:
    case = make("host", mode="table")
    case.db.write("t", {**rows(0), "n": np.arange(120)})
    case.db.flush()
    frame = case.db.sql("SELECT * FROM t").arrow()  # noqa: F841 — DuckDB reads it by its name
    case.oracle.sql("CREATE OR REPLACE TABLE t AS SELECT * FROM frame")
    with_keys(case, "host", "VARCHAR", "'h2' 'h5'")
    stats = case.check("SELECT t.time, t.n, t.b FROM t JOIN k USING (host)")
    assert stats["files_pruned_by_key_domain"] > 0
    assert stats["take_rows"] > 0
    assert stats["rows_merged"] > 0
