"""Our dialect parses queries into the trees that sqlglot's own DuckDB dialect gives, without loading its generator."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from support.sql_text import condition, select
from tsdb.sql.tree import parse_expression, parse_query, span

TEXTS = [
    "SELECT * FROM t WHERE a = 1 AND b < 2.5 OR NOT c IS NULL", "SELECT a::TIMESTAMP_NS, CAST(b AS INT8), c::STRING FROM t",
    "SELECT TIMESTAMP '2024-01-01', TIMESTAMP_S '2024-01-01', DATE '2024-01-01', INTERVAL 1 DAY, INTERVAL '1 hour'",
    "SELECT $1, $name, $$text$$, $tag$text$tag$, E'a\\n', 'it''s', \"odd \"\"name\"\"\"",
    "SELECT a // b, a ** b, a ^ b, a || b, s ^@ 'x', l @> [1]", "SELECT 1_000, 0x1F, 1e3, .5", "FROM t SELECT a LIMIT 10%",
    "SELECT * EXCLUDE (a) REPLACE (b AS c) FROM t", "SELECT COLUMNS('x.*') FROM t", "SELECT a FROM t ORDER BY ALL LIMIT ALL",
    "SELECT a, b FROM t GROUP BY ALL HAVING count(*) > 1 ORDER BY 1 DESC NULLS FIRST, a COLLATE nocase",
    "SELECT a FROM t JOIN s USING (k) LEFT JOIN q ON q.x = t.x ASOF JOIN r ON r.t <= t.t",
    "SELECT a FROM t POSITIONAL JOIN z CROSS JOIN y, w SEMI JOIN v USING (k)",
    "WITH a AS (SELECT 1), b AS MATERIALIZED (SELECT * FROM a) SELECT * FROM b UNION ALL BY NAME SELECT 2",
    "SELECT /*+ no hint */ a /* c */ FROM t -- d",
    "SELECT [1, 2][1], {'a': 1}.a, MAP {'k': 1}['k'], row(1, 2), list_transform(l, x -> x + 1), [x FOR x IN l IF x > 1] FROM t",
    "SELECT sum(x) FILTER (WHERE y) OVER (PARTITION BY z ORDER BY w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT a FROM t QUALIFY row_number() OVER () = 1",
    "SELECT a FROM t TABLESAMPLE 10% USING SAMPLE 5 ROWS", "SELECT DISTINCT ON (a) a, b FROM t",
    "SELECT a IS DISTINCT FROM b, a NOT LIKE 'x' ESCAPE '!' FROM t",
    "SELECT extract(year FROM d), date_trunc('day', now()), epoch_ms(5), current_timestamp, current_date, today() FROM t",
    "SELECT a FROM t WHERE (a, b) IN ((1, 2)) AND c BETWEEN SYMMETRIC 3 AND 1 AND d GLOB 'x*' AND e SIMILAR TO 'y' AND f ~ 'z'",
    "TABLE t", "FROM x: t SELECT y: a",
    "SELECT CASE WHEN a THEN 1 ELSE 2 END, TRY_CAST(a AS DECIMAL(10, 2)) FROM t",
    "SELECT a::FLOAT[3], a::VARCHAR[], #1, t.* FROM t FETCH FIRST 5 ROWS ONLY",
]  # fmt: skip


def _by_duckdb(text: str) -> object:
    try:
        return DuckDB().parse(text)[0]
    except SqlglotError:
        return None


@pytest.mark.parametrize("text", TEXTS)
def test_trees_are_those_of_sqlglots_duckdb_dialect(text: str) -> None:
    assert parse_query(text) == _by_duckdb(text)
    assert parse_query(text) is not None


@given(text=select())
@settings(max_examples=60)
def test_trees_of_random_selects(text: str) -> None:
    assert parse_query(text) == _by_duckdb(text)


@given(text=condition())
@settings(max_examples=60)
def test_trees_of_random_conditions(text: str) -> None:
    found, wanted = parse_expression(text), _by_duckdb(f"SELECT {text}")
    assert found is not None
    assert [found] == wanted.expressions  # type: ignore[attr-defined]


def test_what_is_no_query_has_no_tree() -> None:
    for text in ("SELECT (", "SUMMARIZE t", "SELECT 1 1 1", "COPY t TO 'x'", "SELECT " + "(" * 5_000 + "1" + ")" * 5_000):
        assert parse_query(text) is None
    assert parse_expression("a FROM t") is None
    assert parse_expression("a, b") is None


def test_identifiers_know_their_place() -> None:
    text = 'SELECT a, "B c" FROM "T x" AS y'
    tree = parse_query(text)
    assert tree is not None
    places = [span(column.this) for column in tree.find_all(*{type(item) for item in tree.expressions})]  # type: ignore[attr-defined]
    assert [text[start:end] for start, end in places if start is not None] == ["a", '"B c"']  # type: ignore[misc]
    assert span(None) is None


def test_no_generator_is_loaded() -> None:
    program = "import json, sys\nfrom tsdb.sql.tree import parse_query\nparse_query('SELECT 1')\nprint(json.dumps([*sys.modules]))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    loaded = json.loads(done.stdout)
    assert "sqlglot.parsers.duckdb" in loaded
    assert not {"sqlglot.generators.duckdb", "sqlglot.dialects.duckdb"} & set(loaded)
