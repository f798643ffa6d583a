"""How DuckDB names and types the columns of a SELECT, asked over relations of the right columns without rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache

import duckdb

from tsdb.exec.duck_call import fetched
from tsdb.exec.duck_instance import cursor
from tsdb.plan.node import DuckQuery, Frame, Plan
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


def described(query: DuckQuery, columns_of: Callable[[Plan], Columns]) -> tuple[Columns, int | None] | None:
    """The columns of a query, and about how many rows it has where it reads nothing of ours; None where DuckDB refuses it.

    ``columns_of`` says what the inputs have that are no frames.
    """
    connection = cursor()
    try:
        empty = []
        for name, child in query.inputs:
            if isinstance(child, Frame):
                connection.register(name, child.value)
            else:
                empty.append(f"{quoted_name(name)} AS {empty_relation(columns_of(child))}")
        text = f"{'WITH ' if empty else ''}{', '.join(empty)} SELECT * FROM (\n{query.sql}\n) AS q"
        parameters = list(query.parameters) or None
        relation = connection.sql(text, params=parameters)
        columns = tuple(zip(relation.columns, map(str, relation.types), strict=True))
        if query.inputs:
            return columns, None
        plan = fetched(connection, f"EXPLAIN (FORMAT json) {text}", parameters or ())[0][1]
        return columns, int(json.loads(plan)[0]["extra_info"]["Estimated Cardinality"])
    except (duckdb.Error, LookupError, TypeError, ValueError):
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
