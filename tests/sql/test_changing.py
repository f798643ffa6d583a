"""What is told to change from one look to the next: at least what DuckDB calls volatile and gives a value."""

from __future__ import annotations

import duckdb
import pytest

from tsdb.sql.changing import changing_token
from tsdb.sql.token import tokenize

#: Volatile for what they do, or for what they are asked about, not for their value.
_OTHERS = {"error", "sleep_ms", "stats", "vector_type", "write_log", "setval"}


def test_what_duckdb_calls_volatile() -> None:
    found = duckdb.sql(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE' AND function_type = 'scalar'"
    )
    names = {name for (name,) in found.fetchall()} - _OTHERS
    assert names > {"random", "uuid", "nextval"}
    assert [name for name in sorted(names) if changing_token(tokenize(f"a + {name}(b)")) is None] == []


@pytest.mark.parametrize("text", ["now()", "x < current_timestamp", "today()", "CURRENT_DATE - d", "localtime", "uuidv7 ( )"])
def test_moments(text: str) -> None:
    assert changing_token(tokenize(text)) is not None


@pytest.mark.parametrize("text", ["uuid", "random + 1", "hash(now, uuid)", '"today"', "'now()'", "f(x)"])
def test_columns_of_such_names(text: str) -> None:
    assert changing_token(tokenize(text)) is None
