"""TopK and scans against brute force: random tables, overlaps, NULLs, ties, filters, orders and page sizes, with filters on and
off."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.snapshots import Row, build_snapshot, holds, make_schema, ordered, overlay
from tsdb.catalog.table import TableOptions
from tsdb.exec.context import ExecContext
from tsdb.exec.executor import execute
from tsdb.plan.node import SortKey, TableScan, TopK
from tsdb.plan.predicate import And, Compare, InSet, IsNull, Like, Not, Or, Predicate
from tsdb.settings import Settings
from tsdb_format.types import BOOLEAN, DOUBLE, INT32, INT64, STRING, TIMESTAMP_MS, Role

SCHEMA = make_schema(
    ("time", TIMESTAMP_MS, Role.TIME), ("host", STRING, Role.TAG), ("slot", INT32, Role.TAG), ("usage", DOUBLE, Role.FIELD),
    ("count", INT64, Role.FIELD), ("note", STRING, Role.FIELD), ("up", BOOLEAN, Role.FIELD),
)  # fmt: skip
NAMES = ("time", "host", "slot", "usage", "count", "note", "up", "_sn")

HOSTS = [None, "", "null", "a", "b", "ab", "ä"]
USAGES = [None, 0.0, -0.0, 1.5, -1.5, 90.25, math.inf, -math.inf, math.nan, 1e-300]
COUNTS = [None, 0, 1, -1, 2**63 - 1, -(2**63), 7]
NOTES = [None, "", "x", "a longer note than sixteen bytes", "a longer note than sixteen bytez", "y%"]


def a_row(times: st.SearchStrategy[int]) -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(
        {
            "time": times, "host": st.sampled_from(HOSTS), "slot": st.sampled_from([None, 0, 1]), "usage": st.sampled_from(USAGES),
            "count": st.sampled_from(COUNTS), "note": st.sampled_from(NOTES), "up": st.sampled_from([None, True, False]),
        }
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[list[Row]]:
    """A few commits; times cluster, so that rows tie and files overlap."""
    times = st.one_of(st.integers(0, 6), st.integers(-3, 40), st.sampled_from([-(2**63), 2**63 - 1]))
    return draw(st.lists(st.lists(a_row(times), min_size=1, max_size=25), min_size=1, max_size=4))


def leaf() -> st.SearchStrategy[Predicate]:
    ops = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    choices = {
        "time": [0, 3, 5, 20, -(2**63), 2**63 - 1], "host": ["", "null", "a", "b", "c"], "slot": [0, 1, 2**31],
        "usage": [0.0, 1.5, 90.0, math.nan, math.inf], "count": [0, 1, 2**63 - 1, -(2**63), 2**70],
        "note": ["", "x", "a longer note than sixteen bytes"],
        "up": [True, False],
    }  # fmt: skip
    out: list[st.SearchStrategy[Predicate]] = []
    for name, literals in choices.items():
        out.append(st.builds(Compare, st.just(name), ops, st.sampled_from(literals)))
        out.append(
            st.builds(
                lambda name, some: InSet(name, tuple(some)),
                st.just(name),
                st.lists(st.sampled_from(literals), min_size=1, unique_by=repr),
            )
        )
        out.append(st.builds(IsNull, st.just(name)))
    out.append(
        st.builds(Like, st.sampled_from(["host", "note"]), st.sampled_from(["%", "a%", "_", "%sixteen%", "", "A%"]), st.booleans())
    )
    return st.one_of(out)


PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    leaf(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: And(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: Or(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=4,
)
KEYS = st.lists(
    st.builds(SortKey, st.sampled_from(["time", "host", "slot", "usage", "count", "note", "up"]), st.booleans(), st.booleans()),
    min_size=1, max_size=3, unique_by=lambda key: key.column,
)  # fmt: skip
TIME_KEYS = st.builds(lambda descending: [SortKey("time", descending)], st.booleans())


def comparable(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Rows with NaN and −0.0 told apart and made equal to themselves."""
    return [tuple(repr(row.get(name)) for name in NAMES) for row in rows]


def run(plan: TopK | TableScan, snapshot: Any, threads: int = 1) -> tuple[list[Row], ExecContext]:
    context = ExecContext(snapshot, Settings(), threads)
    rows: list[Row] = []
    for batch in execute(plan, context):
        columns = {name: vector.to_physical_list() for name, vector in batch.vectors.items()}
        assert all(len(values) == batch.row_count for values in columns.values())
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return rows, context


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("topk")


COUNTER = iter(range(10**9))


@given(
    commits=histories(), predicate=st.none() | PREDICATES, keys=st.one_of(TIME_KEYS, KEYS), limit=st.integers(0, 12),
    offset=st.integers(0, 5),
    page=st.sampled_from([1, 4, 8192]), mode=st.sampled_from(["table", "append"]), threads=st.sampled_from([1, 2]),
)  # fmt: skip
def test_topk_equals_brute_force(
    root: Path, commits: list[list[Row]], predicate: Predicate | None, keys: list[SortKey], limit: int, offset: int, page: int,
    mode: Any, threads: int,
) -> None:  # fmt: skip
    snapshot, written = build_snapshot(
        root / str(next(COUNTER)), SCHEMA, commits, options=TableOptions(rows_per_page=page, mode=mode)
    )
    visible = overlay(SCHEMA, written, mode)
    wanted = [row for row in visible if predicate is None or holds(predicate, row)]
    expected = ordered(SCHEMA, wanted, keys)[offset : offset + limit]
    for topk_id in (1, None):
        plan = TopK(TableScan("t", NAMES, predicate, topk_id), tuple(keys), limit, offset, topk_id)
        got, _ = run(plan, snapshot, threads)
        assert comparable(got) == comparable(expected), f"filter {'on' if topk_id else 'off'}"
    scanned, context = run(TableScan("t", NAMES, predicate), snapshot, threads)
    assert sorted(comparable(scanned)) == sorted(comparable(wanted))
    counts = context.stats.as_dict()
    for level in ("files", "pages", "rows", "devices"):
        assert counts[f"{level}_total"] == sum(int(counts[f"{level}_{fate}"] or 0) for fate in ("pruned_by_filter", "read"))
