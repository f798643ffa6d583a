"""Queries of every kind that DuckDB knows, over a table of tsdb and over a copy: equal rows, columns and types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sql_text import random_rows
from support.twin import Twin

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
