"""Statements that other databases have and this one has not: what to write here instead, in one line."""

from __future__ import annotations

from tsdb.sql.token import Cursor
from tsdb_format.errors import InvalidInput

_NO_TRANSACTIONS = (
    "there are no transactions of several statements: each statement, and each db.write, is committed when it returns, as a whole"
)
_COMPACTION = "files are merged, and space given back, without being asked; db.compact(), or tsdb compact DB, does it now"
_OTHER_DATABASES = "tsdb.open(path) opens a database, and as many as you like; data frames and files stand in FROM by name"
_OVERLAYS = "INSERT INTO overlays the row with the same tags and time"
_COLUMNS = "DESCRIBE t lists the columns of a table"
_NO_INDEXES = "there are no indexes to make: rows are found by tags and time, and by what every page tells of its values"
_NO_VIEWS = "there are no views but materialized ones: keep the query's text, or write it as WITH v AS (SELECT …)"
_NO_SCHEMAS = "a database is a directory, which tsdb.open(path) makes, and has one schema, main"
_NO_ZONE = "times are UTC, whatever the zone: time AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin' is the time of a clock there"
_IS_COPIED = (
    "rows go to a file with tsdb export DB T -o FILE, or db.sql(…).arrow(), and come from one with tsdb ingest DB FILE --table T, "
    "db.ingest('t', path), or INSERT INTO t BY NAME SELECT * FROM 'file.parquet'"
)

#: By the words that a statement begins with, the longest first.
_INSTEAD: dict[tuple[str, ...], str] = {
    **dict.fromkeys(
        [("BEGIN",), ("START", "TRANSACTION"), ("COMMIT",), ("ROLLBACK",), ("ABORT",), ("END",), ("SAVEPOINT",), ("RELEASE",)],
        _NO_TRANSACTIONS,
    ),
    **dict.fromkeys([("VACUUM",), ("OPTIMIZE",)], _COMPACTION),
    ("ANALYZE",): "what is known of the data is written with it; EXPLAIN ANALYZE SELECT … shows what a query reads",
    ("COPY",): _IS_COPIED,
    ("EXPORT",): "db.backup(path), or tsdb backup DB PATH, copies a database",
    ("IMPORT",): "tsdb ingest DB FILE, or db.ingest(table, path), reads files into tables",
    **dict.fromkeys([("ATTACH",), ("DETACH",), ("USE",)], _OTHER_DATABASES),
    **dict.fromkeys([("MERGE",), ("REPLACE",), ("UPSERT",)], _OVERLAYS),
    ("PRAGMA", "TABLE_INFO"): _COLUMNS,
    ("PRAGMA", "SHOW_TABLES"): "SHOW TABLES lists the tables",
    (
        "PRAGMA",
    ): "SHOW SETTINGS lists what can be set, SET name = value sets it; DESCRIBE t, SHOW TABLES, SHOW FILES say what there is",
    ("SHOW", "COLUMNS"): _COLUMNS,
    ("SHOW", "FIELDS"): _COLUMNS,
    **dict.fromkeys([("SHOW", "INDEX"), ("SHOW", "INDEXES"), ("SHOW", "KEYS")], _NO_INDEXES),
    ("SHOW", "ALL"): "SHOW TABLES lists the tables, SHOW SETTINGS the settings",
    **dict.fromkeys([("SHOW", "DATABASES"), ("SHOW", "SCHEMAS")], f"{_NO_SCHEMAS}; SHOW TABLES lists its tables"),
    **dict.fromkeys([("SET", "TIMEZONE"), ("SET", "TIME", "ZONE"), ("SHOW", "TIMEZONE")], _NO_ZONE),
    **dict.fromkeys([("CREATE", "SCHEMA"), ("CREATE", "DATABASE"), ("DROP", "SCHEMA"), ("DROP", "DATABASE")], _NO_SCHEMAS),
    **dict.fromkeys([("CREATE", "INDEX"), ("CREATE", "UNIQUE"), ("DROP", "INDEX")], _NO_INDEXES),
    **dict.fromkeys([("CREATE", "VIEW"), ("DROP", "VIEW")], _NO_VIEWS),
    **dict.fromkeys(
        [("CREATE", "TEMP"), ("CREATE", "TEMPORARY")], "there are no temporary tables; a data frame stands in FROM by its name"
    ),
}
_LONGEST = max(map(len, _INSTEAD))
#: Words behind the first one that say nothing of what is meant.
_SKIPPED = frozenset({"OR", "REPLACE", "SESSION", "GLOBAL", "LOCAL"})
_SKIPPED_MAX = 2


def refuse_absent(cursor: Cursor) -> None:
    """Raise InvalidInput, which says what to write instead, where a statement begins that there is none of."""
    words = [cursor.word(ahead) for ahead in range(_LONGEST + _SKIPPED_MAX)]
    words = words[:1] + [word for word in words[1:] if word not in _SKIPPED]
    for length in range(_LONGEST, 0, -1):
        instead = _INSTEAD.get(tuple(words[:length]))
        if instead is not None:
            raise InvalidInput(f"unknown statement {' '.join(words[:length])!r}; {instead}")
