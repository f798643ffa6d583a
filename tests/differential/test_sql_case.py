"""Statements that went wrong elsewhere, and their neighbours: each against DuckDB, under every setting and page size."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import tsdb
from support.oracle import SETTINGS, Oracle, Question, TableCase
from support.random_table import EPOCH_S, random_tables
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

NS = 10**9
FLEET = make_schema(
    ("time", TIMESTAMP_NS, Role.TIME), ("host", STRING, Role.TAG), ("usage", DOUBLE, Role.FIELD), ("count", INT64, Role.FIELD),
    ("note", STRING, Role.FIELD),
)  # fmt: skip
#: What must be pruned at a page of four rows where a question says that pruning is due.
PRUNED_MIN = 10


def fleet(devices: int, ticks: int, *, start: int = 0, stagger: int = 0) -> list[Row]:
    """Devices that report every ten seconds; with ``stagger``, each that much later than the one before."""
    return [
        {
            "time": (EPOCH_S + start + tick * 10 + device * stagger) * NS, "host": f"h{device:03}",
            "usage": float((device * 7919 + tick * 104_729) % 1000) / 4, "count": (device * 31 + tick * 17) % 97 - 48,
            "note": None if (device + tick) % 5 == 0 else f"note {(device * 13 + tick * 7) % 50:02}",
        }
        for device in range(devices)
        for tick in range(ticks)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """``t``: forty devices at the same instants, half of them overlaid by a later file; ``u``: staggered; ``d``: a few hosts."""
    again = [{"time": row["time"], "host": row["host"], "usage": 250.5 - row["usage"]} for row in fleet(20, 10)]
    hosts = [{"time": EPOCH_S * NS, "host": f"h{number:03}", "count": number} for number in range(0, 40, 3)]
    tables = [
        TableCase("t", FLEET, [fleet(40, 20), again, fleet(3, 5, start=1_000)]),
        TableCase("u", FLEET, [fleet(40, 20, stagger=3), fleet(5, 20, start=400)]),
        TableCase("d", FLEET, [hosts]),
    ]
    made = Oracle.build(tmp_path_factory.mktemp("case"), tables)
    yield made
    made.close()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Tables of every type, one of which appends."""
    made = Oracle.build(tmp_path_factory.mktemp("mixed"), random_tables(5))
    yield made
    made.close()


def pruned(oracle: Oracle, text: str, *, ordered: bool = True, parameters: Any = None, least: int = PRUNED_MIN) -> dict[str, Any]:
    """Check a question whose TopK must prune pages, and return the counters with the filter on, at a page of four rows."""
    found = oracle.check(Question(text, ordered=ordered, parameters=parameters))
    counters, without = found[4, "filter"], found[4, "no filter"]
    assert counters["pages_pruned_by_topk"] >= least, counters
    assert counters["pages_read"] < without["pages_read"], (counters, without)
    return counters


def unpruned(oracle: Oracle, text: str, *, ordered: bool = True) -> None:
    """Check a question whose order says nothing about units: no threshold may come of it."""
    found = oracle.check(Question(text, ordered=ordered))
    assert all(counters["pages_pruned_by_topk"] == 0 for counters in found.values())
    assert all(counters.get("topk_first_threshold") is None for counters in found.values())


# ------------------------------------------------------------------------------------- one filter per TopK


@pytest.mark.parametrize("second", ["time DESC", "time", "usage DESC", "usage", "host DESC", "note NULLS FIRST"])
def test_siblings_have_their_own_thresholds(oracle: Oracle, second: str) -> None:
    one = "(SELECT time, host, usage FROM t ORDER BY time DESC /*ties t*/ LIMIT 7)"
    two = f"(SELECT time, host, usage FROM t ORDER BY {second} /*ties t*/ LIMIT 5)"
    pruned(oracle, f"{one} UNION ALL {two}", ordered=False)
    pruned(oracle, f"SELECT * FROM {one} UNION ALL SELECT * FROM {two} UNION ALL SELECT * FROM {one}", ordered=False)
    pruned(oracle, f"SELECT a.time, b.time, a.host FROM {one} a JOIN {two} b ON a.host = b.host", ordered=False)


def test_every_topk_of_a_plan_has_an_id_of_its_own(oracle: Oracle) -> None:
    one = "SELECT time, host FROM t ORDER BY time DESC LIMIT 3"
    plan = [line for (line,) in oracle.databases[4].sql(f"EXPLAIN ({one}) UNION ALL (SELECT * FROM ({one}) x)").fetchall()]
    marks = [line.rpartition("TOPN OPT: ")[2] for line in plan if "TOPN OPT: " in line]
    assert len(marks) == len(set(marks)) > 0


def test_self_joins_of_topks(oracle: Oracle) -> None:
    newest = "SELECT * FROM t ORDER BY time DESC /*ties t*/ LIMIT 20"
    oldest = "SELECT * FROM t ORDER BY time /*ties t*/ LIMIT 20"
    pruned(oracle, f"SELECT a.host, a.time, b.time FROM ({newest}) a JOIN ({oldest}) b ON a.host = b.host", ordered=False)
    pruned(oracle, f"WITH w AS ({newest}) SELECT a.host, b.usage FROM w a JOIN w b ON a.host = b.host", ordered=False)
    pruned(oracle, f"WITH w AS ({newest}), v AS ({oldest}) SELECT host FROM w EXCEPT SELECT host FROM v", ordered=False)
    pruned(oracle, f"SELECT count(*) FROM t WHERE host IN (SELECT host FROM ({newest}) x)", least=0)


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])
def test_a_join_does_not_reach_below_a_limit(oracle: Oracle, kind: str) -> None:
    """The newest ten, of which some join; not the newest ten that join."""
    for limit in (" LIMIT 10", " LIMIT 10 OFFSET 7", " LIMIT 1"):
        inner = f"SELECT * FROM u ORDER BY time DESC /*ties u*/{limit}"
        pruned(oracle, f"SELECT x.time, x.host FROM ({inner}) x {kind} d ON x.host = d.host", ordered=False)
        pruned(oracle, f"SELECT x.time, x.host FROM ({inner}) x {kind} d ON x.host = d.host WHERE x.usage > 100", ordered=False)
    oracle.check(Question("SELECT x.time, x.host, d.count FROM (SELECT * FROM u LIMIT 100000) x JOIN d ON x.host = d.host"))


def test_a_filter_above_a_limit_stays_above(oracle: Oracle) -> None:
    inner = "SELECT * FROM t ORDER BY time DESC /*ties t*/ LIMIT 10"
    pruned(oracle, f"SELECT * FROM ({inner}) x WHERE usage > 100", ordered=False)
    pruned(oracle, f"SELECT * FROM ({inner}) x WHERE host = 'h001'", ordered=False)
    pruned(oracle, f"SELECT * FROM (SELECT * FROM ({inner}) x ORDER BY usage, host LIMIT 4) y WHERE count > 0", ordered=False)


# ------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("limit", ["LIMIT 0", "LIMIT 0 OFFSET 3", "FETCH FIRST 0 ROWS ONLY"])
def test_limit_zero_reads_nothing(oracle: Oracle, limit: str) -> None:
    for text in (
        f"SELECT * FROM t ORDER BY time DESC {limit}",
        f"SELECT * FROM t {limit}",
        f"SELECT usage + 1 FROM t ORDER BY usage {limit}",
    ):
        found = oracle.check(Question(text, ordered=True))
        assert all(found[size, label].get("pages_read", 0) == 0 for size, label in found if label != "no operators of ours")


@pytest.mark.parametrize(
    "limit",
    [
        "OFFSET 3", "OFFSET 0", "OFFSET 790", "OFFSET 100000", "LIMIT ALL OFFSET 4", "LIMIT NULL OFFSET 4", "LIMIT NULL",
        "LIMIT 3 OFFSET NULL",
        "LIMIT 9223372036854775807 OFFSET 5", "LIMIT 9223372036854775807 OFFSET 9223372036854775807",
        "LIMIT 5 OFFSET 9223372036854775807",
        "LIMIT 4611686018427387904 OFFSET 4611686018427387904", "LIMIT 2 + 3", "LIMIT (SELECT 4)", "LIMIT 1 % ", "LIMIT 10%",
        "LIMIT 3.0",
        "LIMIT '5'", "LIMIT -1", "LIMIT 5 OFFSET -1", "LIMIT 18446744073709551615", "LIMIT 1e1",
        "OFFSET 5 ROWS FETCH NEXT 2 ROWS ONLY",
    ],
)  # fmt: skip
def test_limits_and_offsets(oracle: Oracle, limit: str) -> None:
    oracle.check(Question(f"SELECT time, host FROM t ORDER BY time DESC /*ties t*/ {limit}", ordered=True))
    oracle.check(Question(f"SELECT time, usage * 2 FROM t WHERE usage > 10 ORDER BY usage DESC /*ties t*/ {limit}", ordered=True))


def test_limit_without_order_gives_that_many_rows_of_the_table(oracle: Oracle) -> None:
    database = oracle.databases[4]
    every = set(database.sql("SELECT time, host FROM t").fetchall())
    for limit, offset, count in ((5, 0, 5), (10_000, 0, len(every)), (7, len(every) - 3, 3), (0, 0, 0)):
        for values in SETTINGS.values():
            rows = database.sql(f"SELECT time, host FROM t LIMIT {limit} OFFSET {offset}", settings=values).fetchall()
            assert len(rows) == len(set(rows)) == count
            assert set(rows) <= every


# ------------------------------------------------------------------------------------- what a key means


@pytest.mark.parametrize(
    "key",
    [
        "CAST(count AS VARCHAR)", "CAST(usage AS VARCHAR) DESC", "-usage", "abs(count)", "count % 10", "usage::INT",
        "-count DESC", "lower(note) DESC",
        "length(note)", "hash(host)", "time - INTERVAL 1 DAY DESC", "extract(minute FROM time)",
        "strftime(time::TIMESTAMP, '%S')", "usage * -1.0",
        "CASE WHEN host = 'h003' THEN 0 ELSE 1 END", "usage IS NULL", "(time)::DATE DESC", "coalesce(note, 'a')",
        "-epoch_ns(time)", "usage + 0",
    ],
)  # fmt: skip
def test_no_pruning_through_expressions(oracle: Oracle, key: str) -> None:
    unpruned(oracle, f"SELECT time, host, usage FROM t ORDER BY {key} /*ties t*/ LIMIT 10")


@pytest.mark.parametrize("direction", ["", " DESC"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT -usage AS time, host FROM t ORDER BY time{0} /*ties t*/ LIMIT 10",
        "SELECT count AS usage, usage AS count, host FROM t ORDER BY usage{0} /*ties t*/ LIMIT 10",
        "SELECT count AS usage, usage AS count, host FROM t ORDER BY t.usage{0} /*ties t*/ LIMIT 10",
        "SELECT time AS usage FROM t ORDER BY 1{0} /*ties t*/ LIMIT 10",
        "SELECT usage, host AS time FROM t ORDER BY 2{0}, 1 /*ties t*/ LIMIT 10",
        "SELECT usage AS \"Time\", time AS x FROM t ORDER BY TIME{0} /*ties t*/ LIMIT 10",
        "SELECT x.usage FROM t AS x ORDER BY x.time{0} /*ties x of t*/ LIMIT 10",
        "SELECT * EXCLUDE (time) FROM t ORDER BY time{0} /*ties t*/ LIMIT 10",
        "SELECT host FROM t ORDER BY time{0}, time DESC, time /*ties t*/ LIMIT 10",
        "SELECT usage, usage AS usage_1, usage FROM t ORDER BY usage{0} /*ties t*/ LIMIT 10",
        "FROM t ORDER BY usage{0} /*ties t*/ LIMIT 10",
        "SELECT * FROM t ORDER BY (time){0} /*ties t*/ LIMIT 10",
        "SELECT * FROM t ORDER BY time{0}, count + 1 /*ties t*/ LIMIT 10",
    ],
)  # fmt: skip
def test_keys_name_aliases_positions_and_columns(oracle: Oracle, text: str, direction: str) -> None:
    oracle.check(Question(text.format(direction), ordered=True))


@pytest.mark.parametrize("nulls", ["", " NULLS FIRST", " NULLS LAST"])
@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("column", ["usage", "odd", "small", "count", "level", "note", "up", "day", "seen", "host", "slot", "time"])
def test_every_type_orders_as_duckdb_orders_it(mixed: Oracle, column: str, direction: str, nulls: str) -> None:
    for table in "ts":
        for limit in (1, 30):
            text = f"SELECT * FROM {table} ORDER BY {column} {direction}{nulls} /*ties {table}*/ LIMIT {limit}"
            mixed.check(Question(text, ordered=True))


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
    oracle = Oracle.build(tmp_path, [TableCase("t", FLEET, [rows[::2], rows[1::2], rows[:4]])])
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


# ------------------------------------------------------------------------------------- ties and files


def test_equal_instants_are_ordered_by_tags(oracle: Oracle) -> None:
    pruned(oracle, "SELECT * FROM t WHERE time <= '2024-02-29 00:02:57' ORDER BY time DESC /*ties t*/ LIMIT 10")
    for order in (
        "time DESC",
        "time",
        "time DESC, host DESC",
        "time DESC, usage",
        "host, time DESC",
        "host DESC",
        "time, note NULLS FIRST",
    ):
        pruned(oracle, f"SELECT * FROM t ORDER BY {order} /*ties t*/ LIMIT 10")
        pruned(oracle, f"SELECT * FROM t ORDER BY {order} /*ties t*/ LIMIT 7 OFFSET 5")


def test_a_lagging_device_in_the_newest_file(tmp_path: Path) -> None:
    """Files are ordered in time per device, not among each other: no file may be cut because an earlier one was."""
    lagging = [{"time": (EPOCH_S - 9_000 + at) * NS, "host": "zz", "usage": 1.0, "count": at} for at in range(50)]
    oracle = Oracle.build(
        tmp_path, [TableCase("t", FLEET, [fleet(10, 10, start=10_000), [*lagging, *fleet(2, 3, start=5_000)], fleet(1, 2)])]
    )
    for limit in (1, 9, 60, 120, 400):
        for order in ("time DESC", "time", "count", "usage DESC", "host DESC"):
            oracle.check(Question(f"SELECT * FROM t ORDER BY {order} /*ties t*/ LIMIT {limit}", ordered=True))
    oracle.close()


def test_old_versions_prove_nothing(tmp_path: Path) -> None:
    """The old file says 1000, the row says 1 by now: neither bound nor filter may go by the old value."""
    old = [
        {"time": (EPOCH_S + at) * NS, "host": "h", "usage": 1000.0 if at == 7 else 5.0, "count": at, "note": "old"}
        for at in range(64)
    ]
    new = [{"time": (EPOCH_S + 7) * NS, "host": "h", "usage": 1.0}, {"time": (EPOCH_S + 9) * NS, "host": "h", "note": "new"}]
    oracle = Oracle.build(tmp_path, [TableCase("t", FLEET, [old, new])])
    for where in (
        "",
        " WHERE usage < 2",
        " WHERE usage > 50",
        " WHERE note = 'old'",
        " WHERE note <> 'old'",
        " WHERE usage BETWEEN 4 AND 6",
    ):
        for order in ("usage DESC", "usage", "time DESC", "note", "note DESC"):
            for limit in (1, 3, 64):
                oracle.check(Question(f"SELECT * FROM t{where} ORDER BY {order} /*ties t*/ LIMIT {limit}", ordered=True))
    oracle.close()


def test_pages_of_only_nulls_some_nulls_and_none(tmp_path: Path) -> None:
    values = [None] * 40 + [None, 1.0, 2.0, None] * 10 + [float(v) for v in range(40)] + [float("nan")] * 8 + [float("inf")] * 8
    rows = [
        {"time": (EPOCH_S + at) * NS, "host": "h", "usage": v, "note": None if v is None else f"{v:06}"}
        for at, v in enumerate(values)
    ]
    oracle = Oracle.build(tmp_path, [TableCase("t", FLEET, [rows])])
    for column in ("usage", "note"):
        for direction in ("ASC", "DESC", "ASC NULLS FIRST", "DESC NULLS FIRST"):
            for limit in (1, 5, 40):
                pruned(oracle, f"SELECT * FROM t ORDER BY {column} {direction} /*ties t*/ LIMIT {limit}", least=1)
            pruned(oracle, f"SELECT * FROM t WHERE {column} IS NOT NULL ORDER BY {column} {direction} /*ties t*/ LIMIT 5", least=1)
    oracle.close()


# ------------------------------------------------------------------------------------- pruning is asserted


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM u ORDER BY time DESC /*ties u*/ LIMIT 10",
        "SELECT * FROM u ORDER BY time /*ties u*/ LIMIT 10",
        "SELECT host, usage FROM u ORDER BY time DESC /*ties u*/ LIMIT 10 OFFSET 20",
        "SELECT * FROM u WHERE usage > 100 ORDER BY time DESC /*ties u*/ LIMIT 10",
        "SELECT * FROM u WHERE host IN ('h004', 'h020', 'h030') ORDER BY time DESC /*ties u*/ LIMIT 5",
        "SELECT * FROM u WHERE host LIKE 'h01%' AND note IS NOT NULL ORDER BY time DESC /*ties u*/ LIMIT 5",
        "SELECT * FROM u WHERE time > '2024-02-29 00:01:00' ORDER BY time DESC /*ties u*/ LIMIT 5",
        "SELECT * FROM u WHERE time < '2024-02-29 00:03:00' ORDER BY time /*ties u*/ LIMIT 5",
        "SELECT usage * 2 AS twice, upper(host) FROM u ORDER BY time DESC /*ties u*/ LIMIT 10",
        "SELECT * FROM u ORDER BY usage DESC /*ties u*/ LIMIT 3",
        "SELECT * FROM u ORDER BY usage /*ties u*/ LIMIT 3",
        "SELECT * FROM u ORDER BY count DESC, time /*ties u*/ LIMIT 3",
        "SELECT * FROM u ORDER BY note DESC /*ties u*/ LIMIT 3",
        "SELECT * FROM u ORDER BY host, time DESC /*ties u*/ LIMIT 10",
        "SELECT * FROM u ORDER BY host DESC, usage /*ties u*/ LIMIT 10",
        "SELECT * FROM u ORDER BY time DESC, usage NULLS FIRST /*ties u*/ LIMIT 10",
        "SELECT max(usage) FROM (SELECT * FROM u ORDER BY time DESC /*ties u*/ LIMIT 10) x",
    ],
)  # fmt: skip
def test_topk_reads_less(oracle: Oracle, text: str) -> None:
    pruned(oracle, text)


def test_filters_read_less(oracle: Oracle) -> None:
    """Also where DuckDB aggregates: tag and time conditions are the scan's."""
    for where in (
        "host = 'h003'",
        "time BETWEEN '2024-02-29 00:00:00' AND '2024-02-29 00:00:10'",
        "host = 'h001' OR host = 'h002'",
    ):
        found = oracle.check(Question(f"SELECT count(*), min(time), max(usage) FROM t WHERE {where}"))
        assert found[4, "filter"]["pages_pruned_by_filter"] > found[4, "filter"]["pages_total"] // 2
        assert found[4, "filter"]["pages_read"] < found[4, "no operators of ours"]["pages_read"]


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
