"""Sets prune what uses them: devices, times, pages and files without a member are not read, and the same rows come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tsdb
from tsdb.catalog.table import TableOptions, build_schema
from tsdb.resultset import run as runs
from tsdb_format.types import Role

TABLE = {"result_set_materialization_max_size": 0}
IN_MEMORY = {"result_set_materialization_max_size": 10**9}
OFF = {"enable_result_set_materialization": False}


@pytest.fixture(scope="module", params=["files", "memory", "both"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    """200 hosts of 50 rows each, where ``batch`` ascends with time, and a few that are chosen."""
    columns = [("time", "TIMESTAMP_US", Role.TIME), ("host", "STRING", Role.TAG), ("batch", "INT64", Role.FIELD)]
    columns += [("code", "STRING", Role.FIELD), ("owner", "STRING", Role.ATTRIBUTE)]
    with tsdb.open(tmp_path_factory.mktemp("fleet") / "db", threads=2) as db:
        for name in ("fleet", "one"):
            db._store.create_table(name, build_schema(columns), TableOptions(rows_per_page=16))
        places = np.arange(10_000)
        hosts = np.array([f"host {number % 200:03}" for number in places.tolist()])
        for part in (slice(0, 6_000), slice(6_000, None)):
            for name, host in (("fleet", hosts), ("one", np.array(["one"] * 10_000))):
                db.write(
                    name,
                    {
                        "time": np.datetime64("2024-01-01", "us") + places[part], "host": host[part], "batch": places[part],
                        "code": np.array([f"code {number:05}" for number in places[part].tolist()]),
                        "owner": np.array([f"owner of {h}" for h in host[part].tolist()]),
                    },
                )  # fmt: skip
            if request.param == "files" or (request.param == "both" and part.start == 0):
                db.flush()
        db.sql("CREATE TABLE chosen (time TIMESTAMP TIME, host STRING, batch INT64, small INT32, code STRING, owner STRING)")
        db.sql("INSERT INTO chosen SELECT time, host, batch, batch, code, owner FROM fleet WHERE batch IN (40, 41, 7003)")
        yield db


@pytest.mark.parametrize("settings", [IN_MEMORY, TABLE], ids=["memory", "table"])
@pytest.mark.parametrize(
    ("table", "operand", "declared", "level", "most"),
    [
        ("fleet", "host", "host", "devices", 3),
        ("fleet", "owner", "owner", "devices", 3),
        ("fleet", "(host, batch)", "host, batch", "devices", 3),
        ("fleet", "(batch, host, time)", "batch, host, time", "devices", 3),
        ("one", "batch", "batch", "pages", 3),
        ("one", "batch", "small", "pages", 3),
        ("one", "code", "code", "pages", 3),
        ("one", "time", "time", "pages", 3),
        ("one", "(code, batch)", "code, batch", "pages", 3),
        ("one", "time", "time", "rows", 48),
    ],
)
def test_what_has_no_member_is_not_read(
    fleet: tsdb.Database, settings: dict[str, object], table: str, operand: str, declared: str, level: str, most: int
) -> None:
    script = (
        f"RESULT SET s AS (SELECT {declared} FROM chosen); SELECT * FROM {table} WHERE {operand} IN RESULT SET s ORDER BY batch"
    )
    result = fleet.sql(script, settings=settings)
    plain = fleet.sql(f"SELECT * FROM {table} WHERE {operand} IN (SELECT {declared} FROM chosen) ORDER BY batch")
    assert result.fetchall() == plain.fetchall()
    files = sum(not file.name.startswith("memory") for file in fleet._store.snapshot().tables[table].files) or 1
    assert 0 < result.stats[f"{level}_read"] <= most * max(files, 2)
    assert result.stats[f"{level}_read"] < result.stats[f"{level}_total"] / 3


@pytest.mark.parametrize("settings", [IN_MEMORY, TABLE], ids=["memory", "table"])
def test_under_or_and_not(fleet: tsdb.Database, settings: dict[str, object]) -> None:
    either = "batch IN RESULT SET s OR code = 'code 09000'"
    script = f"RESULT SET s AS (SELECT batch FROM chosen); SELECT batch FROM one WHERE {either} ORDER BY batch"
    result = fleet.sql(script, settings=settings)
    assert result.fetchall() == [(40,), (41,), (7003,), (9000,)]
    assert result.stats["pages_read"] < result.stats["pages_total"] / 3
    script = f"RESULT SET s AS (SELECT host FROM chosen); SELECT count(*) FROM fleet WHERE NOT ({either.replace('batch', 'host')})"
    assert fleet.sql(script, settings=settings).fetchall() == [(10_000 - 3 * 50 - 1,)]


@pytest.mark.parametrize("settings", [IN_MEMORY, TABLE], ids=["memory", "table"])
def test_many_members_prune_by_ranges_and_digest(fleet: tsdb.Database, settings: dict[str, object]) -> None:
    for column in ("batch", "code"):
        script = f"""RESULT SET s AS (SELECT {column} FROM one WHERE batch BETWEEN 2000 AND 2999 OR batch BETWEEN 6000 AND 6999);
        SELECT count(*), min(batch), max(batch) FROM one WHERE {column} IN RESULT SET s AND code >= ''"""
        result = fleet.sql(script, settings=settings)
        assert result.fetchall() == [(2_000, 2_000, 6_999)]
        assert result.stats["pages_read"] <= 2_000 // 16 + 16


def test_a_filter_that_is_false_reads_nothing(fleet: tsdb.Database) -> None:
    document = {
        "queries": [
            {"table": "chosen", "filter": "batch < 0", "result_sets": {"none": {"value": "host"}}, "result_set_only": True},
            {"table": "fleet", "filter": "host IN RESULT SET none", "columns": ["time", "code"]},
            {"table": "fleet", "filter": "sin(batch) < 2 AND host IN RESULT SET none", "columns": ["owner", "batch"]},
        ]
    }
    with fleet.multi_query(document) as m:
        assert m.stats["statements"] == 1
        assert [result.fetchall() for result in m] == [[], []]
        assert [result.types for result in m] == [["TIMESTAMP", "VARCHAR"], ["VARCHAR", "BIGINT"]]
        assert [result.arrow().num_rows for result in m] == [0, 0]
        assert [result.stats.get("rows_read", 0) for result in m] == [0, 0]
        assert [result.stats.get("bytes_read", 0) for result in m] == [0, 0]


def test_a_set_of_devices_reads_no_page(fleet: tsdb.Database) -> None:
    """Which devices there are is known without their rows."""
    document = {
        "queries": [
            {"table": "fleet", "result_sets": {"hosts": {"value": "host"}}},
            {"table": "one", "filter": "host IN RESULT SET hosts"},
        ]
    }
    text = fleet.explain_multi_query(
        {"queries": [{**document["queries"][0], "result_set_only": True}, document["queries"][1]]}, analyze=True
    ).text
    assert "ResultSet hosts: run, 200 members" in text
    level = text.partition("Queries")[0]
    assert "devices_from_statistics" in level
    assert "rows_read" not in level


def test_the_files_of_a_database_are_pruned(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, n INT64)")
        for part in range(5):
            db.write("t", {"time": np.arange(100) + part * 1_000, "n": np.arange(100) + part * 1_000})
            db.flush()
        for settings in (IN_MEMORY, TABLE):
            declared = "RESULT SET s AS (SELECT time FROM t WHERE n IN (2005, 3005));"
            result = db.sql(f"{declared} SELECT n FROM t WHERE time IN RESULT SET s ORDER BY n", settings=settings)
            assert result.fetchall() == [(2005,), (3005,)]
            assert (result.stats["files_total"], result.stats["files_read"]) == (5, 2)


@pytest.mark.parametrize("settings", [IN_MEMORY, TABLE], ids=["memory", "table"])
def test_shards_without_a_member_are_not_opened(tmp_path: Path, settings: dict[str, object]) -> None:
    with tsdb.open(tmp_path / "db") as db:
        columns = [
            ("time", "TIMESTAMP_US", Role.TIME),
            ("host", "STRING", Role.TAG),
            ("slot", "INT32", Role.TAG),
            ("n", "INT64", Role.FIELD),
        ]
        db._store.create_table("t", build_schema(columns), TableOptions(shards=8, shard_by=("host", "slot")))
        hosts = np.array([f"h{number % 40}" for number in range(4_000)])
        db.write("t", {"time": np.arange(4_000), "host": hosts, "slot": np.arange(4_000) % 3, "n": np.arange(4_000)})
        db.flush()
        declared = "RESULT SET s AS (SELECT host, slot FROM t WHERE n IN (7, 8));"
        result = db.sql(f"{declared} SELECT n FROM t WHERE (host, slot) IN RESULT SET s ORDER BY n", settings=settings)
        rows = [row for (row,) in result.fetchall()]
        assert rows == [n for n in range(4_000) if (n % 40, n % 3) in ((7, 1), (8, 2))]
        assert result.stats["files_total"] == 8
        assert result.stats["files_pruned_by_filter"] == 6
        assert result.stats["rows_total"] == 4_000
        assert result.stats["rows_read"] == len(rows)


@pytest.mark.parametrize("column", ["batch", "code", "(batch, code)"])
def test_members_that_memory_should_not_hold(fleet: tsdb.Database, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    monkeypatch.setattr(runs, "_HELD_SHARE", 0)
    declared = column.strip("()")
    script = f"""RESULT SET s AS (SELECT {declared} FROM one WHERE batch BETWEEN 2000 AND 2999);
    SELECT count(*), min(batch), max(batch) FROM one WHERE {column} IN RESULT SET s AND code >= '';
    SELECT count(*) FROM one WHERE {column} NOT IN RESULT SET s OR batch = 2500"""
    with fleet.multi_query(script, settings=TABLE) as m:
        members = m._outcome.sets[0].members
        assert members is not None
        assert members.is_large
        assert m[0].fetchall() == [(1_000, 2_000, 2_999)]
        assert m[0].stats["pages_read"] < 500
        assert m[1].fetchall() == [(9_001,)]
        assert members._numbers is None  # none was looked up here
