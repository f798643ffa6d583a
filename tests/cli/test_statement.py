"""Splitting a text into statements, and what they do to the database."""

from __future__ import annotations

import pytest

from tsdb.sql.token import split_statements
from tsdb_cli.database import first_word, mode_for


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        (" ; ;", []),
        ("", []),
        ("-- only a note\n", []),
        ("/* ; */ SELECT 1; SELECT 2", ["/* ; */ SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT \";\"", ["SELECT ';'", 'SELECT ";"']),
        ("SELECT 'it''s;' -- a; b\n, 2; x", ["SELECT 'it''s;' -- a; b\n, 2", "x"]),
        ("SELECT 1 - 2 / 3; SELECT 'open ; quote", ["SELECT 1 - 2 / 3", "SELECT 'open ; quote"]),
        ("SELECT $$a;b$$; SELECT $x$ ; $$ $x$", ["SELECT $$a;b$$", "SELECT $x$ ; $$ $x$"]),
        ("SELECT E'it\\'s;'; SELECT x'00;'", ["SELECT E'it\\'s;'", "SELECT x'00;'"]),
        ("SELECT 1; 'open", ["SELECT 1", "'open"]),
    ],
)
def test_statements(text: str, parts: list[str]) -> None:
    assert list(split_statements(text)) == parts


@pytest.mark.parametrize(
    ("sql", "mode"),
    [
        ("SELECT 1", "r"),
        ("  -- insert\n /* drop */ select 1", "r"),
        ("insert INTO t VALUES (1)", "rw"),
        ("EXPLAIN ANALYZE SELECT 1", "r"),
        ("SHOW TABLES; CREATE TABLE t (time TIMESTAMP_NS TIME)", "rw"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "r"),
        ("DROP TABLE t", "rw"),
    ],
)
def test_mode(sql: str, mode: str) -> None:
    assert mode_for(split_statements(sql)) == mode


def test_first_word() -> None:
    assert first_word("(SELECT 1)") == "select"
    assert first_word("") == ""
    assert first_word("'open") == ""
