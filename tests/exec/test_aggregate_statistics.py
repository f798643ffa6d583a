"""What an Aggregate does not read: counters say which pages statistics answered, and the answer is that of reading everything."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.aggregate_model import aggregated, same
from support.history_case import History
from support.snapshots import Row, holds, make_schema
from tsdb.catalog.table import TableOptions
from tsdb.exec.aggregate.bucket import Buckets
from tsdb.exec.context import ExecContext
from tsdb.exec.executor import execute
from tsdb.plan.grouping import BucketKey, Call, ColumnKey, FixedWidth, GroupKey
from tsdb.plan.node import Aggregate, TableScan
from tsdb.plan.predicate import And, Compare, Predicate
from tsdb.settings import Settings
from tsdb_format.types import DOUBLE, HUGEINT, INT64, STRING, TIMESTAMP_MS, Role
from tsdb_format.vector import IntArray

SCHEMA = make_schema(
    ("time", TIMESTAMP_MS, Role.TIME), ("host", STRING, Role.TAG), ("region", STRING, Role.TAG), ("usage", DOUBLE, Role.FIELD),
    ("n", INT64, Role.FIELD), ("odd", DOUBLE, Role.FIELD), ("note", STRING, Role.FIELD), ("late", INT64, Role.FIELD),
)  # fmt: skip
HOSTS = [("a", "east"), ("b", "east"), ("c", "west"), ("d", None)]
#: Rows of each device in each of the two files, and of a page: each device has five pages a file.
ROWS, PAGE = 20, 4
PAGES = 2 * len(HOSTS) * ROWS // PAGE

COUNT = Call("count", "count", None, INT64)
TIMES = (Call("low", "min", "time", TIMESTAMP_MS), Call("high", "max", "time", TIMESTAMP_MS))
NUMBERS = (
    Call("sum", "sum", "usage", DOUBLE), Call("avg", "avg", "n", DOUBLE), Call("total", "sum", "n", HUGEINT),
    Call("least", "min", "usage", DOUBLE), Call("most", "max", "n", INT64), Call("values", "count", "n", INT64),
)  # fmt: skip
HOUR, REGION, HOST = BucketKey("hour", FixedWidth(8, 0), TIMESTAMP_MS), ColumnKey("region", "region"), ColumnKey("host", "host")


def row(host: int, time: int) -> Row:
    name, region = HOSTS[host]
    odd = math.nan if (host, time) == (1, 6) else math.inf if (host, time) == (2, 1) else -math.inf if time == 22 else time * 1.5
    return {
        "time": time, "host": name, "region": region, "usage": host + time / 8, "odd": odd, "note": f"{time}",
        "n": None if time % 7 == 3 else time * 2**53 * (host - 1),
    }  # fmt: skip


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    made = History(tmp_path_factory.mktemp("statistics") / "t", SCHEMA, TableOptions(rows_per_page=PAGE))
    for first in (0, ROWS):
        made.write([row(host, time) for host in range(len(HOSTS)) for time in range(first, first + ROWS)], memory=False)
    return made


def asked(
    history: History, calls: tuple[Call, ...], keys: tuple[GroupKey, ...] = (), predicate: Predicate | None = None
) -> dict[str, Any]:
    """The counters of an Aggregate whose answer is the model's, with statistics and without; every unit has one fate."""
    rows = [row for row in history.visible() if predicate is None or holds(predicate, row)]
    expected = aggregated(SCHEMA, rows, keys, calls, {})
    counters: dict[str, Any] = {}
    for statistics in (False, True):
        context = ExecContext(history.snapshot(), Settings(enable_statistics_aggregation=statistics), 1)
        got: list[tuple[Any, ...]] = []
        for batch in execute(Aggregate(TableScan("t", (), predicate), keys, calls), context):
            got += zip(*(vector.to_physical_list() for vector in batch.vectors.values()), strict=True)
        assert len(got) == len(expected)
        assert all(same(a, b) for mine, other in zip(got, expected, strict=True) for a, b in zip(mine, other, strict=True))
        counters = context.stats.as_dict()
        assert statistics or counters["pages_from_statistics"] == 0
        for level in ("files", "chunks", "pages", "rows", "devices"):
            parts = sum(counters[f"{level}_{fate}"] for fate in ("pruned_by_filter", "pruned_by_topk", "read", "from_statistics"))
            assert counters[f"{level}_total"] == parts, level
    return counters


def pages(counters: dict[str, Any]) -> tuple[int, int]:
    """Pages read, and answered from statistics."""
    return counters["pages_read"], counters["pages_from_statistics"]


@pytest.mark.parametrize("keys", [(), (REGION,), (HOST,), (REGION, HOST)], ids=str)
@pytest.mark.parametrize("calls", [(COUNT,), TIMES, (COUNT, *TIMES), (COUNT, *NUMBERS)], ids=len)
def test_whole_tables_are_answered_without_reading(history: History, keys: tuple[GroupKey, ...], calls: tuple[Call, ...]) -> None:
    counters = asked(history, calls, keys)
    assert pages(counters) == (0, PAGES)
    assert counters["bytes_read"] == 0
    assert counters["rows_from_statistics"] == 2 * ROWS * len(HOSTS)
    assert counters["devices_from_statistics"] == 2 * len(HOSTS)
    assert (counters["files_from_statistics"], counters["files_read"], counters["devices_read"]) == (2, 0, 0)


TAGS = (
    Call("hosts", "count_distinct", "host", INT64), Call("regions", "count_distinct", "region", INT64),
    Call("first", "min", "host", STRING), Call("last", "max", "region", STRING), Call("any", "any_value", "region", STRING),
    Call("known", "count", "region", INT64),
)  # fmt: skip


@pytest.mark.parametrize("keys", [(), (REGION,), (HOST,), (HOUR,), (HOUR, REGION)], ids=str)
@pytest.mark.parametrize("more", [(), (COUNT, *TIMES)], ids=len)
def test_tags_are_known_without_reading(history: History, keys: tuple[GroupKey, ...], more: tuple[Call, ...]) -> None:
    if HOUR not in keys:
        counters = asked(history, (*TAGS, *more), keys)
        assert pages(counters) == (0, PAGES)
        assert counters["devices_from_statistics"] == 2 * len(HOSTS)
    counters = asked(history, (*TAGS, *more, *NUMBERS), keys)
    assert pages(counters) == (0, PAGES)
    assert counters["bytes_read"] == 0


def test_tags_of_the_rows_that_a_predicate_leaves(history: History) -> None:
    during = And((Compare("region", "=", "east"), Compare("time", ">=", 2), Compare("time", "<", 30)))
    counters = asked(history, TAGS, (), during)
    assert (counters["rows_read"], counters["rows_from_statistics"]) == (0, 2 * 28)
    asked(history, TAGS, (HOST,), Compare("usage", ">", 2.5))
    asked(history, TAGS, (HOUR,), Compare("usage", ">", 2.5))


def test_a_predicate_on_tags_leaves_whole_pages(history: History) -> None:
    assert pages(asked(history, (COUNT, *NUMBERS), (), Compare("host", "=", "b"))) == (0, PAGES // 4)


def test_only_pages_at_the_edge_of_a_time_range_are_read(history: History) -> None:
    during = And((Compare("host", "=", "c"), Compare("time", ">=", 2), Compare("time", "<", 30)))
    assert pages(asked(history, (COUNT, *NUMBERS), (), during)) == (2, 6)  # times 0-3 and 28-31 are partly wanted
    whole = And((Compare("host", "=", "c"), Compare("time", ">=", 4), Compare("time", "<", 28)))
    assert pages(asked(history, NUMBERS, (), whole)) == (2, 5)  # the searches end in the pages of times 4 and 28


def test_times_at_the_edge_of_a_range_are_looked_up(history: History) -> None:
    during = And((Compare("time", ">=", 2), Compare("time", "<", 30)))
    counters = asked(history, (COUNT, *TIMES), (HOST,), during)
    assert counters["pages_read"] == 2 * len(HOSTS)
    assert counters["rows_read"] == 0
    assert counters["rows_from_statistics"] == 28 * len(HOSTS)


def test_pages_in_one_bucket_are_not_read(history: History) -> None:
    assert pages(asked(history, (COUNT, *NUMBERS), (HOUR, REGION))) == (0, PAGES)
    shifted = BucketKey("hour", FixedWidth(8, 2), TIMESTAMP_MS)
    assert pages(asked(history, (COUNT, *NUMBERS), (shifted, REGION))) == (PAGES // 2, PAGES // 2)


def test_times_of_devices_in_one_bucket_are_not_read(history: History) -> None:
    spread = Call("spread", "var_pop", "usage", DOUBLE)
    wide = BucketKey("wide", FixedWidth(ROWS, 0), TIMESTAMP_MS)  # a file's rows of each device
    assert pages(asked(history, (spread,), (HOST,))) == (PAGES, 0)
    alone = asked(history, (spread,), (HOST,))["bytes_read"]
    for keys in ((wide,), (wide, HOST), (HOST, wide), (wide, REGION, HOST)):
        assert asked(history, (spread,), keys)["bytes_read"] == alone
    assert asked(history, (spread,), (HOUR, HOST))["bytes_read"] > alone


def test_pages_that_satisfy_a_predicate_wholly(history: History) -> None:
    counters = asked(history, (COUNT, *NUMBERS), (), Compare("usage", ">=", 1.25))  # from time 10 of host a, 2 of b, 0 of c and d
    assert pages(counters) == (2, PAGES - 2 - 2)
    assert counters["pages_pruned_by_filter"] == 2


def test_conditions_are_decided_by_statistics(history: History) -> None:
    condition = Compare("usage", "<", 2.0)
    calls = (Call("c", "count", None, INT64, None, condition), Call("s", "sum", "n", HUGEINT, None, condition))
    read, answered = pages(asked(history, calls, (HOST,)))
    assert read == 0  # 2.0 is the first value of a page of every device
    assert answered == PAGES
    condition = Compare("usage", "<", 2.25)
    calls = (Call("c", "count", None, INT64, None, condition), Call("s", "sum", "n", HUGEINT, None, condition))
    assert pages(asked(history, calls, (HOST,))) == (3, PAGES - 3)


def test_sums_that_no_statistic_has_are_read(history: History) -> None:
    assert pages(asked(history, (Call("s", "sum", "odd", DOUBLE),))) == (6, PAGES - 6)  # one with NaN, five with infinities
    assert pages(asked(history, (Call("l", "min", "odd", DOUBLE), Call("m", "max", "odd", DOUBLE)), (HOST,))) == (0, PAGES)


def test_what_statistics_cannot_say_is_read(history: History) -> None:
    for call in (
        Call("x", "max", "note", STRING), Call("x", "stddev_pop", "usage", DOUBLE), Call("x", "first", "usage", DOUBLE, "time"),
    ):  # fmt: skip
        assert pages(asked(history, (COUNT, call))) == (PAGES, 0)


def test_a_column_that_files_do_not_have(history: History) -> None:
    calls = (Call("c", "count", "late", INT64), Call("s", "sum", "late", HUGEINT), Call("m", "min", "late", INT64))
    assert pages(asked(history, calls, (REGION,))) == (0, PAGES)


def test_rows_with_versions_and_deletes_are_read(tmp_path: Path) -> None:
    made = History(tmp_path / "t", SCHEMA, TableOptions(rows_per_page=PAGE))
    made.write([row(host, time) for host in range(len(HOSTS)) for time in range(ROWS)], memory=False)
    made.write([{"time": 5, "host": "a", "region": "east", "usage": 99.0}], memory=True)
    made.delete({"host": "c", "region": "west"}, 0, 3)
    counters = asked(made, (COUNT, *NUMBERS), (HOST,))
    assert counters["pages_from_statistics"] == 2 * ROWS // PAGE  # those of b and d
    assert counters["rows_read"] == 2 * ROWS + 1


@pytest.mark.parametrize("rows_per_page", [PAGE, 8192])
def test_a_condition_on_text_that_a_file_was_written_without(tmp_path: Path, rows_per_page: int) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql(
            "CREATE TABLE t (time TIMESTAMP_MS TIME, host STRING TAG, v INT64, note STRING, raw BLOB, x DOUBLE)"
            f" WITH (page_rows={rows_per_page})"
        )
        db.sql("INSERT INTO t (time, host, v) SELECT make_timestamp_ms(i), 'a', i FROM range(20) r(i)")
        db.flush()
        db.sql("INSERT INTO t (time, host, v, note, x) SELECT make_timestamp_ms(i), 'a', i, 'n' || i, i FROM range(20, 40) r(i)")
        db.flush()
        db.sql("ALTER TABLE t ADD COLUMN later STRING")
        found = db.sql(
            "SELECT count(*) FILTER (WHERE note <= 'n30'), sum(v) FILTER (WHERE note IN ('n21', 'n39')),"
            " max(v) FILTER (WHERE note != 'n39'),"
            " count(v) FILTER (WHERE later >= 'a'), min(v) FILTER (WHERE note IS NULL), count(note), count(raw), count(later),"
            " count(*) FILTER (WHERE x > 30.5), sum(x) FILTER (WHERE later = ''), count(*) FILTER (WHERE NOT (later = 'x')) FROM t"
        )
        assert found.fetchall() == [(11, 60, 38, 0, 0, 20, 0, 0, 9, None, 0)]


ON_TIME = (
    Call("top", "arg_max", "n", INT64, "time"),
    Call("last", "last", "usage", DOUBLE),
    Call("high", "max", "time", TIMESTAMP_MS),
)


@pytest.mark.parametrize("keys", [(HOST,), (HOST, REGION)], ids=str)
def test_the_newest_rows_answer_for_their_devices(history: History, keys: tuple[GroupKey, ...]) -> None:
    counters = asked(history, ON_TIME, keys)
    assert (counters["rows_read"], counters["pages_read"]) == (len(HOSTS), len(HOSTS))


def test_where_the_newest_value_is_null_another_row_has_it(history: History) -> None:
    counters = asked(history, ON_TIME, (HOST,), Compare("time", "<=", 38))  # n is NULL at 38
    assert counters["rows_read"] > len(HOSTS)


def test_groups_of_one_device_look_at_the_times_of_no_other(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    first_ticks = Buckets.first_ticks

    def counted(buckets: Buckets, times: IntArray) -> IntArray:
        looked_at.append(len(times))
        return first_ticks(buckets, times)

    monkeypatch.setattr(Buckets, "first_ticks", counted)
    two_rows = And((Compare("host", "=", "b"), Compare("time", ">", 5), Compare("time", "<", 8)))
    asked(history, NUMBERS, (HOUR, HOST), two_rows)
    assert set(looked_at) == {2}  # the ends of all rows' times; those of devices are the kernel's to look at, one by one
