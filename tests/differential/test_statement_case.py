"""Statements and values against DuckDB: the ends of every range, moments in every spelling, statements that run again."""

from __future__ import annotations

import datetime
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import tsdb
from support.fleet_case import FLEET, NS
from support.oracle import SETTINGS, Oracle, Question, TableCase
from support.random_table import EPOCH_S
from support.snapshots import Row, make_schema
from tsdb_format.types import (
    DOUBLE,
    INT64,
    STRING,
    TIMESTAMP_MS,
    TIMESTAMP_NS,
    TIMESTAMP_S,
    TIMESTAMP_US,
    ColumnType,
    Role,
)

# ------------------------------------------------------------------------------------- the ends of everything


def test_the_ends_of_int64_and_of_floats(tmp_path: Path) -> None:
    ends = [-(2**63) + 1, -(2**63) + 2, -1, 0, 1, 2**63 - 2, 2**63 - 1]
    wholes = [-(2**63), -(2**63) + 1, 0, None, 2**63 - 1, 2**63 - 2, 5]
    reals = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, None, 5e-324]
    rows: list[Row] = [
        {"time": at, "host": host, "usage": reals[(i + j) % 7], "count": wholes[(i * 3 + j) % 7], "note": None}
        for i, at in enumerate(ends)
        for j, host in enumerate((None, "", "null", "a"))
    ]
    oracle = Oracle.build(tmp_path, [TableCase("t", FLEET, [rows[::2], rows[1::2], rows[:4]])], pages=(4,))
    for column in ("time", "usage", "count"):
        for direction in ("ASC", "DESC", "ASC NULLS FIRST", "DESC NULLS FIRST"):
            for limit in (1, 2, 5, 28, 100):
                oracle.check(Question(f"SELECT * FROM t ORDER BY {column} {direction} /*ties t*/ LIMIT {limit}", ordered=True))
    for bound in (
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-9223372036854775809",
        "1e19",
        "'nan'::DOUBLE",
    ):
        for op in ("<", "<=", "=", "<>", ">=", ">"):
            oracle.check(Question(f"SELECT * FROM t WHERE count {op} {bound} ORDER BY count DESC /*ties t*/ LIMIT 4", ordered=True))
    for bound in ("'infinity'", "'-infinity'", "'2262-04-11 23:47:16.854775806'", "'1970-01-01 00:00:00.000000001'"):
        for op in ("<", "<=", "=", "<>", ">=", ">"):
            oracle.check(Question(f"SELECT * FROM t WHERE time {op} {bound} ORDER BY time /*ties t*/ LIMIT 4", ordered=True))
    oracle.close()


@pytest.mark.parametrize("kind", [TIMESTAMP_NS, TIMESTAMP_US, TIMESTAMP_MS, TIMESTAMP_S], ids=str)
def test_moments_in_every_spelling(tmp_path: Path, kind: ColumnType) -> None:
    """Fractions finer than the unit, zones, casts and arithmetic; a column of nanoseconds meets zoned moments in UTC."""
    unit = kind.units_per_second
    schema = make_schema(("time", kind, Role.TIME), ("host", STRING, Role.TAG), ("count", INT64, Role.FIELD))
    steps = sorted({step * unit // 4 + more for step in range(-6, 30) for more in (0, 1, -1)})
    rows = [{"time": EPOCH_S * unit + step, "host": "ab"[at % 2], "count": at} for at, step in enumerate(steps)]
    oracle = Oracle.build(tmp_path, [TableCase("t", schema, [rows[::3], rows[1:]])], pages=(4,))
    spelled = [
        "'2024-02-29'", "'2024-02-29 00:00:00'", "'2024-02-29T00:00:00Z'", "'2024-02-29 02:00:00+02'",
        "'2024-02-28 18:30:00-05:30'",
        "'2024-02-29 00:00:00.25'", "'2024-02-29 00:00:00.2499999'", "'2024-02-29 00:00:00.250000001'",
        "'2024-02-28 23:59:59.999999999'",
        "'2024-02-29 00:00'", "DATE '2024-02-29'", "TIMESTAMP '2024-02-29 00:00:01'", "TIMESTAMP_S '2024-02-29 00:00:01'",
        "TIMESTAMP_MS '2024-02-29 00:00:01.5'", "TIMESTAMP_NS '2024-02-29 00:00:01.000000001'", "'2024-02-29'::DATE", "'2024-2-29'",
        "TIMESTAMP '2024-02-29' + INTERVAL 1 SECOND", "DATE '2024-03-01' - INTERVAL 1 DAY",
        "make_timestamp(2024, 2, 29, 0, 0, 1.25)",
        "CAST('2024-02-29 00:00:01' AS TIMESTAMP)", "'2024-02-29 00:00:01'::TIMESTAMP + to_seconds(1)", "epoch_ms(1709164801000)",
        "strptime('29.02.2024', '%d.%m.%Y')", "'epoch'", "'infinity'", "'2024-02-29 00:00:00 UTC'",
        "TIMESTAMP '2024-02-29 00:00:00+01'",
    ]  # fmt: skip
    zoned = ["TIMESTAMPTZ '2024-02-29 00:00:00'", "TIMESTAMPTZ '2024-02-29 02:00:01+02'", "'2024-02-29 00:00:01-01'::TIMESTAMPTZ"]
    for moment in spelled if kind is TIMESTAMP_NS else spelled + zoned:
        for op in ("<", ">=", "="):
            oracle.check(Question(f"SELECT * FROM t WHERE time {op} {moment} ORDER BY time DESC /*ties t*/ LIMIT 9", ordered=True))
        oracle.check(Question(f"SELECT count(*), max(time) FROM t WHERE time BETWEEN {moment} AND '2024-02-29 00:00:03'"))
    for moment in zoned if kind is TIMESTAMP_NS else []:
        plain = {zoned[0]: "00:00:00", zoned[1]: "00:00:01", zoned[2]: "01:00:01"}[moment]
        ask = [f"SELECT count FROM t WHERE time >= {at} ORDER BY time LIMIT 9" for at in (moment, f"'2024-02-29 {plain}'")]
        assert len({repr(oracle.databases[4].sql(text).fetchall()) for text in ask}) == 1
    oracle.close()


# ------------------------------------------------------------------------------------- statements that run again


def test_a_statement_sees_what_was_written_since(tmp_path: Path) -> None:
    """No threshold, plan or answer outlives an execution."""
    with tsdb.open(tmp_path) as database:
        database.sql("CREATE TABLE t (time TIMESTAMP_S TIME, host STRING TAG, usage DOUBLE) WITH (page_rows = 4)")
        newest = "SELECT host, usage FROM t ORDER BY time DESC LIMIT 2"
        joined = (
            "SELECT a.host, b.usage FROM (SELECT * FROM t ORDER BY time DESC LIMIT 1) a, (SELECT * FROM t ORDER BY time LIMIT 1) b"
        )
        least = "SELECT usage FROM t WHERE host = ? ORDER BY usage LIMIT 1"
        assert database.sql(newest).fetchall() == []
        for step in range(1, 30):
            rows = ", ".join(f"(make_timestamp({(step * 10 + at) * 1_000_000}), 'h{at}', {100 - step})" for at in range(5))
            database.sql(f"INSERT INTO t VALUES {rows}")
            assert database.sql(newest).fetchall() == [("h4", 100.0 - step), ("h3", 100.0 - step)]
            assert database.sql(joined).fetchall() == [("h4", 99.0)]
            assert database.sql(least, [f"h{step % 5}"]).fetchall() == [(100.0 - step,)]
        early = database.sql("SELECT host FROM t ORDER BY time LIMIT 1")
        database.sql("INSERT INTO t VALUES (make_timestamp(0), 'first', 1.0)")
        assert early.fetchall() == [("h0",)]  # its snapshot is older
        assert database.sql("SELECT host FROM t ORDER BY time LIMIT 1").fetchall() == [("first",)]
        database.sql("DROP TABLE t")
        database.sql("CREATE TABLE t (usage INT64, host STRING TAG, time TIMESTAMP_NS TIME)")
        assert database.sql(newest).fetchall() == []
        database.sql("INSERT INTO t VALUES (3, 'x', make_timestamp_ns(5))")
        assert database.sql(newest).fetchall() == [("x", 3)]


def test_parameters_that_are_equal_are_not_the_same(oracle: Oracle) -> None:
    for given in (0.0, -0.0, 0, False, Decimal("0.0"), Decimal("0.00"), 1, 1.0, True, Decimal("1.0"), Decimal("1.00"), "1"):
        oracle.check(Question("SELECT ?, time FROM t WHERE host = 'h001'", parameters=[given]))
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        for fold in (0, 1):
            given = datetime.datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=ZoneInfo(zone))
            oracle.check(Question("SELECT epoch_us(?), host FROM t", parameters=[given]))


def test_settings_of_a_statement_are_its_own(oracle: Oracle) -> None:
    database = oracle.databases[4]
    text = "SELECT * FROM t ORDER BY time DESC LIMIT 10"
    for _ in range(3):
        assert database.sql(text).stats["pages_pruned_by_topk"] > 0
        assert database.sql(f"{text} SETTINGS enable_topk_runtime_filter = false").stats["pages_pruned_by_topk"] == 0
        assert database.sql(text, settings={"enable_topk_runtime_filter": False}).stats["pages_pruned_by_topk"] == 0
    database.sql("SET enable_topk_runtime_filter = false")
    assert database.sql(text).stats["pages_pruned_by_topk"] == 0
    database.sql("RESET enable_topk_runtime_filter")
    assert database.sql(text).stats["pages_pruned_by_topk"] > 0


def test_one_statement_from_many_threads(oracle: Oracle) -> None:
    """Executions share a plan and nothing else."""
    database = oracle.databases[4]
    native = "SELECT time, host, usage FROM u WHERE host >= ? ORDER BY time DESC LIMIT 10"
    duck = (
        "SELECT host, max(usage) FROM (SELECT * FROM u WHERE host >= ? ORDER BY time DESC LIMIT 50) x GROUP BY host ORDER BY host"
    )
    hosts = [f"h{number:03}" for number in range(0, 40, 4)]
    wanted = {(text, host): database.sql(text, [host]).fetchall() for text in (native, duck) for host in hosts}
    counts = {host: database.sql(native, [host]).stats for host in hosts}
    failures: list[str] = []

    def ask(first: int) -> None:
        try:
            for turn in range(40):
                host = hosts[(first + turn) % len(hosts)]
                for text in (native, duck):
                    result = database.sql(text, [host])
                    if result.fetchall() != wanted[text, host]:
                        failures.append(f"{text} {host}")
                    if text == native and result.stats != counts[host]:
                        failures.append(f"counters of {host}")
                    result.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test's own thread must say it
            failures.append(repr(error))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_readers_while_a_writer_writes(tmp_path: Path) -> None:
    """Every answer is that of some commit: the newest row and the count of rows agree."""
    with tsdb.open(tmp_path) as database:
        database.sql("CREATE TABLE t (time TIMESTAMP_S TIME, host STRING TAG, step INT64) WITH (page_rows = 4)")
        done = threading.Event()
        failures: list[Any] = []

        def read() -> None:
            last = 0
            try:
                while not done.is_set():
                    rows = database.sql("SELECT step FROM t ORDER BY time DESC, host LIMIT 3").fetchall()
                    ((count,),) = database.sql("SELECT count(*) FROM t").fetchall()
                    if rows and (rows != [rows[0]] * 3 or rows[0][0] < last or count < 3 * rows[0][0]):
                        failures.append((rows, count))
                    last = rows[0][0] if rows else 0
            except Exception as error:  # noqa: BLE001 - whatever it is, the test's own thread must say it
                failures.append(repr(error))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for step in range(1, 40):
            database.write("t", [{"time": step, "host": host, "step": step} for host in "abc"])
        done.set()
        for thread in threads:
            thread.join()
        assert not failures


def test_expired_rows_are_no_witnesses(tmp_path: Path) -> None:
    now = time.time_ns() // NS
    with tsdb.open(tmp_path) as database:
        database.sql("CREATE TABLE t (time TIMESTAMP_S TIME, host STRING TAG, usage DOUBLE) WITH (ttl = '1d', page_rows = 4)")
        for days in (30, 3, 0):
            database.write(
                "t", [{"time": now - days * 86_400 - at, "host": f"h{at % 3}", "usage": at + days * 100} for at in range(40)]
            )
        for values in SETTINGS.values():
            ask = lambda text, values=values: database.sql(text, settings=values).fetchall()  # noqa: E731
            assert ask("SELECT count(*) FROM t") == [(40,)]
            assert ask("SELECT usage FROM t ORDER BY time LIMIT 2") == [(39.0,), (38.0,)]
            assert ask("SELECT usage FROM t ORDER BY usage DESC LIMIT 2") == [(39.0,), (38.0,)]
            assert ask("SELECT usage FROM t ORDER BY time DESC LIMIT 2") == [(0.0,), (1.0,)]
            assert len(ask("SELECT usage FROM t ORDER BY time LIMIT 100")) == 40


# ------------------------------------------------------------------------------------- faults that these tests found


@pytest.mark.parametrize(
    "items",
    [
        "* EXCLUDE (host)",
        "* EXCLUDE host",
        "s.* EXCLUDE (host, slot) REPLACE (usage + 1 AS usage)",
        "*",
        "*, 1",
        "* RENAME (usage AS u)",
    ],
)
def test_stars_never_show_the_sequence_number(mixed: Oracle, items: str) -> None:
    mixed.check(Question(f"SELECT {items} FROM s ORDER BY odd + 1 /*ties s*/", ordered=True))


def test_attributes_belong_to_devices(tmp_path: Path) -> None:
    """One value per device, also for rows written before it, and NULL before anything set it."""
    schema = make_schema(
        ("time", TIMESTAMP_NS, Role.TIME), ("host", STRING, Role.TAG), ("site", STRING, Role.ATTRIBUTE),
        ("rank", INT64, Role.ATTRIBUTE),
        ("usage", DOUBLE, Role.FIELD),
    )  # fmt: skip
    first = [{"time": (EPOCH_S + at) * NS, "host": host, "usage": float(at)} for host in "abc" for at in range(9)]
    second = [
        {"time": (EPOCH_S + 20) * NS, "host": host, "site": site} for host, site in (("a", "north"), ("b", None), ("d", "south"))
    ]
    third = [{"time": (EPOCH_S + 21) * NS, "host": host, "site": site, "rank": 3} for host, site in (("a", "east"), ("c", "east"))]
    for commits in ([first], [first, second], [first, second, third], [third, first]):
        oracle = Oracle.build(tmp_path / str(sum(map(len, commits)) + len(commits[0])), [TableCase("t", schema, commits)])
        for where in (
            "",
            " WHERE site IS NULL",
            " WHERE site >= 'e'",
            " WHERE rank = 3 AND usage > 2",
            " WHERE NOT site LIKE 'e%'",
        ):
            for order in ("time DESC", "site DESC", "site NULLS FIRST, usage DESC", "rank, time", "usage, site"):
                oracle.check(Question(f"SELECT * FROM t{where} ORDER BY {order} /*ties t*/ LIMIT 7", ordered=True))
            oracle.check(Question(f"SELECT site, rank, count(*) FROM t{where} GROUP BY ALL"))
        oracle.close()
