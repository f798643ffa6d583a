"""TopKs that went wrong elsewhere, and their neighbours: each against DuckDB, under every setting, with pruning asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fleet_case import FLEET, NS, fleet, pruned, unpruned
from support.oracle import SETTINGS, Oracle, Question, TableCase
from support.random_table import EPOCH_S

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


def test_rows_appended_to_one_instant_keep_their_order(tmp_path: Path) -> None:
    """Nothing but arrival tells them apart: within a commit and across commits, with the filter and without."""
    commits = [
        [
            {"time": (EPOCH_S + at // 6) * NS, "host": "ab"[at % 2], "usage": float(at % 4), "count": at, "note": f"{part}"}
            for at in range(40)
        ]
        for part in range(3)
    ]
    oracle = Oracle.build(tmp_path, [TableCase("t", FLEET, commits, mode="append")])
    native = {label: values for label, values in SETTINGS.items() if values.get("enable_native_operators", True)}
    for order in ("time DESC", "time", "host DESC", "usage", "usage DESC, time", "time, host", "note DESC"):
        for limit in (1, 5, 30, 200):
            oracle.check(Question(f"SELECT * FROM t ORDER BY {order} /*ties t*/ LIMIT {limit}", ordered=True), native)
    oracle.close()


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
    oracle = Oracle.build(tmp_path, [TableCase("t", FLEET, [old, new])], pages=(4,))
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
    oracle = Oracle.build(tmp_path, [TableCase("t", FLEET, [rows])], pages=(4,))
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
