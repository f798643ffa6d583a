"""Expressions without columns, evaluated by DuckDB, as typed constants."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb

from tsdb.exec.duck_call import fetched
from tsdb.exec.duck_instance import cursor
from tsdb.sql.constant import NULL, Constant, ConstantKind, integer, timestamp

K = ConstantKind
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
_TIMESTAMPS = {
    "TIMESTAMP_S": 1,
    "TIMESTAMP_MS": 10**3,
    "TIMESTAMP": 10**6,
    "TIMESTAMP_NS": 10**9,
    "TIMESTAMP WITH TIME ZONE": 10**6,
}
#: Functions of the moment (``age`` with one argument), of a session or a transaction.
_PASSING = frozenset({
    "age", "current_date", "current_localtime", "current_localtimestamp", "current_setting", "get_current_time",
    "get_current_timestamp", "getvariable", "now", "today", "transaction_timestamp", "txid_current",
})  # fmt: skip


@cache
def functions(*, scalar: bool) -> frozenset[str]:
    """DuckDB's functions by name: the scalar ones, or those of them whose value does not change within a statement."""
    condition = "" if scalar else "AND stability IN ('CONSISTENT', 'CONSISTENT_WITHIN_QUERY')"
    connection = cursor()
    try:
        rows = fetched(
            connection,
            f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'scalar' {condition} "
            "EXCEPT SELECT function_name FROM duckdb_functions() WHERE function_type NOT IN ('scalar', 'macro')",
        )
    finally:
        connection.close()
    return frozenset(str(name).lower() for (name,) in rows) - {"unnest", "unlist"}


@cache
def aggregates() -> frozenset[str]:
    """DuckDB's aggregate functions by name."""
    connection = cursor()
    try:
        rows = fetched(connection, "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'")
    finally:
        connection.close()
    return frozenset(str(name).lower() for (name,) in rows)


def stable_functions() -> frozenset[str]:
    """Functions whose value does not change within a statement."""
    return functions(scalar=False)


def lasting_functions() -> frozenset[str]:
    """Functions whose value does not change from one statement to the next: it may be folded, and kept."""
    return stable_functions() - _PASSING


def evaluate(text: str) -> Constant | None:
    """The constant that an SQL expression is; None where DuckDB refuses it, or its type is none that a column is compared with."""
    connection = cursor()
    try:
        rows = fetched(connection, f"SELECT v, typeof(v) FROM (SELECT {text} AS v)")
        if len(rows) != 1:
            return None
        value, kind = rows[0]
        return _constant(connection, text, value, str(kind))
    except duckdb.Error:
        return None
    finally:
        connection.close()


def _constant(connection: Any, text: str, value: Any, kind: str) -> Constant | None:
    if value is None:
        return NULL
    if kind in _INTEGERS:
        return integer(int(value))
    if kind in _TIMESTAMPS:
        units = _TIMESTAMPS[kind]
        name = "epoch_ns" if units == 10**9 else "epoch_us"
        [(ticks, finite)] = fetched(connection, f"SELECT {name}(v), isfinite(v) FROM (SELECT {text} AS v)")
        if not finite:
            return None
        return timestamp(int(ticks), max(units, 10**6), zoned=kind.endswith("ZONE"))
    if kind == "DATE":
        [(days, finite)] = fetched(
            connection, f"SELECT date_diff('day', DATE '1970-01-01', v), isfinite(v) FROM (SELECT {text} AS v)"
        )
        return Constant(K.DATE, int(days)) if finite else None
    if kind == "DOUBLE":
        return Constant(K.DOUBLE, float(value))
    if kind.startswith("DECIMAL"):
        return Constant(K.DECIMAL, value) if len(value.as_tuple().digits) <= 18 else None
    if kind == "VARCHAR":
        return Constant(K.VARCHAR, value)
    if kind == "INTERVAL":
        return _interval(connection, text)
    return Constant(K.BOOLEAN, bool(value)) if kind == "BOOLEAN" else None


def _interval(connection: Any, text: str) -> Constant:
    """Months, days and microseconds; Python's timedelta would make one number of them."""
    parts = "12 * year(v) + month(v), day(v), 3600000000 * hour(v) + 60000000 * minute(v) + microsecond(v)"
    [(months, days, micros)] = fetched(connection, f"SELECT {parts} FROM (SELECT {text} AS v)")
    return Constant(K.INTERVAL, (int(months), int(days), int(micros)))
