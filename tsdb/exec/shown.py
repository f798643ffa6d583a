"""How DuckDB names and types the columns of a SELECT, asked over a relation of the right columns without rows."""

from __future__ import annotations

from functools import lru_cache

import duckdb

from tsdb.exec.duck_instance import cursor
from tsdb.plan.node import Frame
from tsdb.quoting import quoted_name

#: (name, DuckDB's name of its type) of a relation's columns.
Columns = tuple[tuple[str, str], ...]


def empty_relation(columns: Columns) -> str:
    """A subquery with these columns and no rows."""
    items = ", ".join(f"CAST(NULL AS {kind}) AS {quoted_name(name)}" for name, kind in columns)
    return f"(SELECT {items} WHERE false)"


@lru_cache(maxsize=1_024)
def shown_columns(before: str, columns: Columns, after: str) -> Columns | None:
    """The columns of the query ``before`` + a subquery with ``columns`` + ``after``; None where DuckDB refuses it."""
    connection = cursor()
    try:
        relation = connection.sql(f"{before} {empty_relation(columns)} {after}")
        return tuple(zip(relation.columns, map(str, relation.types), strict=True))
    except duckdb.Error:
        return None
    finally:
        connection.close()


def frame_columns(frame: Frame) -> Columns | None:
    """The columns of the caller's data as DuckDB sees them; None where it refuses it."""
    connection = cursor()
    try:
        connection.register(frame.name, frame.value)
        relation = connection.sql(f"FROM {quoted_name(frame.name)}")
        return tuple(zip(relation.columns, map(str, relation.types), strict=True))
    except duckdb.Error:
        return None
    finally:
        connection.close()
