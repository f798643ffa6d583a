"""Queries of every kind that DuckDB knows, over a table of tsdb and over a copy: equal rows, columns and types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.sql_text import random_rows
from support.twin import Twin
from tsdb.exec import duck_loan
from tsdb.exec.duck import DuckRun
from tsdb.exec.duck_input import DuckInput
from tsdb.plan.node import Plan

_LINES = (Path(__file__).parent / "duck_query.sql").read_text(encoding="utf-8").splitlines()
QUERIES = [line for line in _LINES if not line.startswith("--")]


@pytest.fixture(scope="module", params=[8192, 4])
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    made = Twin(tmp_path_factory.mktemp("twin"), random_rows(120), page_rows=request.param, files=3, memory=1)
    yield made
    made.close()


@pytest.mark.parametrize("sql", QUERIES)
def test_queries(twin: Twin, sql: str) -> None:
    twin.check(sql, ordered="ORDER BY" in sql)
    relation = twin.duck.sql(sql)
    for native in (True, False):
        result = twin.db.sql(sql, settings={"enable_native_operators": native})
        assert result.columns == list(relation.columns)
        assert result.types == [str(kind) for kind in relation.types]
        result.close()


def test_a_name_of_with_hides_the_table(twin: Twin) -> None:
    plan = twin.plan("WITH t AS (SELECT * FROM t WHERE i > 3) SELECT max(i) FROM t WHERE i > 4")
    assert plan.count("TableScan") == 1
    assert "predicate=i > 3" in plan


@pytest.mark.parametrize("sql", QUERIES)
def test_every_query_is_explained(twin: Twin, sql: str) -> None:
    assert twin.plan(sql)


class _Plain:
    """An input without what DuckDB knows of its own sources: a stream of everything."""

    def __init__(self, made: DuckInput) -> None:
        self._made = made

    def serve(self, plan: Plan, run: DuckRun) -> None:
        self._made.serve(plan, run)

    def __arrow_c_schema__(self) -> Any:
        return self._made.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._made.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("sql", QUERIES[::7])
def test_inputs_are_streams_to_any_duckdb(twin: Twin, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck_loan, "DuckInput", lambda columns: _Plain(DuckInput(columns)))
    monkeypatch.setattr(duck_loan, "_IDLE", {})
    twin.check(sql, ordered="ORDER BY" in sql)
