"""Aggregates over files, memory and deletes, against a model in plain Python: every function, type and kind of key."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.aggregate_model import aggregated, same
from support.history_case import History
from support.snapshots import Row, holds, make_schema
from tsdb.catalog.table import TableOptions
from tsdb.exec.aggregate import cell, choice, tag_value
from tsdb.exec.context import ExecContext
from tsdb.exec.executor import execute
from tsdb.plan.grouping import BucketKey, Calendar, Call, ColumnKey, ExpressionKey, FixedWidth, GroupKey
from tsdb.plan.node import Aggregate, Filter, Limit, Plan, SortKey, TableScan, TopK
from tsdb.plan.predicate import And, Compare, InSet, IsNull, Not, Or, Predicate
from tsdb.settings import Settings
from tsdb.storage.memory_file import MemoryFile
from tsdb.storage.snapshot import Snapshot
from tsdb_format.types import (
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INT32,
    INT64,
    STRING,
    TIMESTAMP_MS,
    TIMESTAMP_NS,
    ColumnType,
    Kind,
    Role,
)

VECTOR = ColumnType(Kind.VECTOR, 2)
FIELDS = {
    "d": DOUBLE, "f": FLOAT, "l": INT64, "i": INT32, "b": BOOLEAN, "s": STRING, "raw": BLOB, "day": DATE, "at": TIMESTAMP_NS,
    "v": VECTOR,
}  # fmt: skip
SCHEMA = make_schema(
    ("time", TIMESTAMP_MS, Role.TIME), ("host", STRING, Role.TAG), ("slot", INT32, Role.TAG),
    *((name, kind, Role.FIELD) for name, kind in FIELDS.items()),
)  # fmt: skip
DAY = 86_400_000
TIMES = st.one_of(
    st.integers(0, 8), st.integers(-30, 90),
    st.builds(
        lambda day, tick: day * DAY + tick, st.sampled_from([-400, -32, -1, 0, 30, 31, 59, 60, 365, 20_000]), st.integers(-1, 1)
    ),
    st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 1]),
)  # fmt: skip
TAGS = st.fixed_dictionaries({"host": st.sampled_from([None, "", "a", "B", "ä"]), "slot": st.sampled_from([None, 0, 1])})
VALUES: dict[str, list[Any]] = {
    "d": [None, 0.0, -0.0, 1.5, -1.5, 90.25, math.inf, -math.inf, math.nan], "f": [None, 0.5, -2.0, math.nan, 3.0, math.inf],
    "l": [None, 0, 1, -1, 7, 2**63 - 1, -(2**63)], "i": [None, 0, 3, -3, 2**31 - 1, -(2**31)], "b": [None, True, False],
    "s": [None, "", "x", "a longer text than sixteen bytes", "a longer text than sixteen bytez", "ä"],
    "raw": [None, b"", b"\x00", b"\xff", b"abc"], "day": [None, 0, -1, 19_000], "at": [None, 0, 10**18, -1],
    "v": [None, [0.0, 1.0], [2.0, -1.0]],
}  # fmt: skip
ROWS = st.lists(
    st.builds(
        lambda tags, time, values: {**tags, "time": time, **values}, TAGS, TIMES,
        st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}),
    ),
    min_size=1, max_size=25,
)  # fmt: skip
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), ROWS, st.booleans()),
        st.tuples(st.just("write"), ROWS, st.booleans()),
        st.tuples(st.just("delete"), st.none() | TAGS, TIMES, TIMES),
        st.tuples(st.just("compact"), st.integers(0, 4), st.booleans()),
    ),
    max_size=5,
)  # fmt: skip
PREDICATES: st.SearchStrategy[Predicate | None] = st.one_of(
    st.none(),
    st.builds(lambda low, high: And((Compare("time", ">=", low), Compare("time", "<", high))), TIMES, TIMES),
    st.builds(InSet, st.just("host"), st.sampled_from([("a",), ("a", "", "nobody")])),
    st.sampled_from([Compare("d", ">=", 0.0), IsNull("s"), Not(IsNull("l"))]),
    st.just(And((Compare("slot", "=", 0), Compare("time", ">", 3)))),
)  # fmt: skip
CONDITIONS: st.SearchStrategy[Predicate | None] = st.one_of(
    st.none(), st.none(),
    st.sampled_from([
        Compare("d", ">", 1.0), Not(Compare("i", "=", 0)), Or((IsNull("s"), Compare("b", "=", True))), Compare("host", "=", "a"),
        Compare("time", "<", 5),
    ]),
)  # fmt: skip
EXPRESSIONS = {
    "slot + 1": lambda row: None if row.get("slot") is None else row["slot"] + 1,
    "upper(host)": lambda row: None if row.get("host") is None else row["host"].upper(),
    "coalesce(slot, 1) = 1": lambda row: row.get("slot") in (None, 1),
    "CASE WHEN slot = 0 THEN 'NaN'::DOUBLE ELSE -0.5 END": lambda row: math.inf if row.get("slot") == 0 else -0.5,
}
KEYS: st.SearchStrategy[list[GroupKey]] = st.lists(
    st.one_of(
        st.sampled_from([
            ColumnKey("h", "host"), ColumnKey("k", "slot"), ExpressionKey("e1", "slot + 1", ("slot",), INT32),
            ExpressionKey("e2", "upper(host)", ("host",), STRING), ExpressionKey("e3", "coalesce(slot, 1) = 1", ("slot",), BOOLEAN),
        ]),
        st.builds(
            BucketKey, st.just("w"), st.builds(FixedWidth, st.sampled_from([1, 3, 10, DAY, 7 * DAY]), st.integers(-5, 5)),
            st.sampled_from([TIMESTAMP_MS, TIMESTAMP_MS]),
        ),
        st.builds(BucketKey, st.just("m"), st.builds(Calendar, st.sampled_from([1, 3, 12, 5]), st.integers(-3, 14)), st.just(DATE)),
    ),
    max_size=3, unique_by=lambda key: key.name,
)  # fmt: skip
NUMBERS = ["d", "f", "l", "i"]


def _summed(name: str) -> ColumnType:
    return DOUBLE if name in ("d", "f") else HUGEINT


ANY = ["time", "host", "slot", *FIELDS]
KINDS = {"time": TIMESTAMP_MS, "host": STRING, "slot": INT32, **FIELDS}
ORDERED = [name for name in ANY if name != "v"]
CALLS = st.lists(
    st.one_of(
        st.builds(lambda c: ("count", None, HUGEINT if c else INT64, None, c), CONDITIONS),
        st.builds(lambda n, c: ("count", n, INT64, None, c), st.sampled_from(ANY), CONDITIONS),
        st.builds(lambda n, c: ("sum", n, _summed(n), None, c), st.sampled_from([*NUMBERS, "b", "slot"]), CONDITIONS),
        st.builds(lambda n, c: ("avg", n, DOUBLE, None, c), st.sampled_from([*NUMBERS, "slot"]), CONDITIONS),
        st.builds(lambda f, n, c: (f, n, KINDS[n], None, c), st.sampled_from(["min", "max"]), st.sampled_from(ORDERED), CONDITIONS),
        st.builds(
            lambda f, n, c: (f, n, INT64 if f == "count_distinct" else KINDS[n], None, c),
            st.sampled_from(["count_distinct", "any_value", "min", "max"]), st.sampled_from(["host", "slot"]), CONDITIONS,
        ),
        st.builds(
            lambda f, n, c: (f, n, DOUBLE, None, c),
            st.sampled_from(["var_samp", "var_pop", "stddev_samp", "stddev_pop"]), st.sampled_from(["d", "f", "i"]), CONDITIONS,
        ),
        st.builds(
            lambda f, n, by, c: (f, n, KINDS[n], by, c),
            st.sampled_from(["first", "last", "arg_min", "arg_max"]), st.sampled_from(ANY),
            st.sampled_from([None, "time", *ORDERED]), CONDITIONS,
        ),
    ),
    min_size=1, max_size=6,
).map(lambda calls: tuple(Call(f"c{at}", *call) for at, call in enumerate(calls)))  # fmt: skip
COUNTER = iter(range(10**9))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("aggregate")


def built(folder: Path, steps: list[tuple[Any, ...]], options: TableOptions) -> History:
    history = History(folder, SCHEMA, options)
    for step in steps:
        match step:
            case ("write", rows, memory):
                history.write(rows, memory)
            case ("delete", tags, low, high):
                history.delete(tags, min(low, high), max(low, high))
            case ("compact", count, memory):
                history.compact(count, memory)
    return history


def run(plan: Aggregate, snapshot: Snapshot, threads: int, *, statistics: bool) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    context = ExecContext(snapshot, Settings(enable_statistics_aggregation=statistics), threads)
    rows: list[tuple[Any, ...]] = []
    for batch in execute(plan, context):
        assert list(batch.vectors) == [each.name for each in (*plan.keys, *plan.calls)]
        columns = [vector.to_physical_list() for vector in batch.vectors.values()]
        assert all(len(column) == batch.row_count for column in columns)
        rows += zip(*columns, strict=True)
    return rows, context.stats.as_dict()


def check(history: History, plan: Aggregate, threads: int, visible: list[Row]) -> None:
    predicate = plan.child.predicate
    wanted = [row for row in visible if predicate is None or holds(predicate, row)]
    expected = aggregated(SCHEMA, wanted, plan.keys, plan.calls, EXPRESSIONS)
    for statistics in (True, False):
        got, counts = run(plan, history.snapshot(), threads, statistics=statistics)
        assert len(got) == len(expected), (got, expected)
        for mine, other in zip(got, expected, strict=True):
            assert len(mine) == len(other)
            assert all(map(same, mine, other)), (plan.calls, mine, other)
        if not statistics:
            assert counts["pages_from_statistics"] == 0
        for level in ("files", "pages", "rows", "devices"):
            parts = sum(counts[f"{level}_{fate}"] for fate in ("pruned_by_filter", "read", "from_statistics"))
            assert counts[f"{level}_total"] == parts, level


@given(
    steps=STEPS, predicate=PREDICATES, keys=KEYS, calls=CALLS, page=st.sampled_from([1, 4, 8192]),
    mode=st.sampled_from(["table", "table", "append"]), threads=st.sampled_from([1, 2]), unkept=st.sampled_from([0, 3, 1_024]),
    few=st.booleans(), ttl=st.sampled_from([None, None, 10_000_000, 3 * DAY * 10**6]),
)  # fmt: skip
def test_aggregate_equals_the_model(
    root: Path, steps: list[tuple[Any, ...]], predicate: Predicate | None, keys: list[GroupKey], calls: tuple[Call, ...], page: int,
    mode: Any, threads: int, unkept: int, few: bool, ttl: int | None,
) -> None:  # fmt: skip
    history = built(root / str(next(COUNTER)), steps, TableOptions(rows_per_page=page, mode=mode, ttl_ns=ttl))
    oldest = -math.inf if ttl is None else -ttl // 10**6
    visible = [row for row in history.visible() if row["time"] >= oldest]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFile, "summarized_rows_min", unkept)
        if few:  # cells and candidates are settled again and again
            patch.setattr(cell, "_DENSE_MAX", 0)
            patch.setattr(cell, "_WAITING_MIN", 2)
            patch.setattr(choice, "_WAITING_MIN", 2)
            patch.setattr(tag_value, "_WAITING_MIN", 2)
        check(history, Aggregate(TableScan("t", (), predicate), tuple(keys), calls), threads, visible)


@given(
    steps=STEPS, predicate=PREDICATES, keys=KEYS, bucket=KEYS, calls=CALLS, page=st.sampled_from([1, 4, 8192]),
    mode=st.sampled_from(["table", "append"]), newest=st.booleans(), limit=st.integers(1, 4), offset=st.integers(0, 2),
    having=st.booleans(),
)  # fmt: skip
def test_the_first_groups_by_time_equal_the_model(
    root: Path, steps: list[tuple[Any, ...]], predicate: Predicate | None, keys: list[GroupKey], bucket: list[GroupKey],
    calls: tuple[Call, ...], page: int, mode: Any, newest: bool, limit: int, offset: int, having: bool,
) -> None:  # fmt: skip
    leading = next((key for key in bucket if isinstance(key, BucketKey)), BucketKey("w", FixedWidth(3, 1), TIMESTAMP_MS))
    keys = [leading, *(key for key in keys if not isinstance(key, BucketKey))]
    calls = (Call("n", "count", None, INT64), *calls)
    history = built(root / str(next(COUNTER)), steps, TableOptions(rows_per_page=page, mode=mode))
    wanted = [row for row in history.visible() if predicate is None or holds(predicate, row)]
    expected = aggregated(SCHEMA, wanted, keys, calls, EXPRESSIONS)
    expected = [row for row in expected if not having or row[len(keys)] > 1]
    expected = sorted(expected, key=lambda row: row[0], reverse=newest)[offset : offset + limit]
    groups: Plan = Aggregate(TableScan("t", (), predicate), tuple(keys), calls)
    groups = Filter(groups, Compare("n", ">", 1)) if having else groups
    order = (SortKey(leading.name, newest), *(SortKey(key.name) for key in keys[1:]))
    for plan in [TopK(groups, order, limit, offset), *([] if newest else [Limit(groups, limit, offset)])]:
        for pruned in (True, False):
            context = ExecContext(history.snapshot(), Settings(enable_topk_runtime_filter=pruned))
            columns = [[v.to_physical_list() for v in batch.vectors.values()] for batch in execute(plan, context)]
            got = [row for batch in columns for row in zip(*batch, strict=True)]
            assert len(got) == len(expected), (got, expected)
            assert all(all(map(same, mine, other)) for mine, other in zip(got, expected, strict=True)), (got, expected)
            counts = context.stats.as_dict()
            fates = "pruned_by_filter", "pruned_by_topk", "read", "from_statistics"
            for level in ("files", "pages", "rows"):
                assert counts[f"{level}_total"] == sum(int(counts[f"{level}_{fate}"] or 0) for fate in fates), level
            assert pruned or counts["pages_pruned_by_topk"] == 0
