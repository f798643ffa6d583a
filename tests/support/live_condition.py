"""Random WHERE clauses over a live table, each as SQL text and as a Python function of a row."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from support.live_model import EPOCH, HOSTS, RACKS, VALUES, Condition, LiveColumn, LiveTable, Row
from tsdb_format.types import Role

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def quoted(name: str) -> str:
    """A column or table as SQL names it."""
    return '"' + name.replace('"', '""') + '"'


def moment(time_ms: int) -> datetime.datetime:
    """A time of the model as queries give it."""
    return EPOCH + datetime.timedelta(milliseconds=time_ms)


def literal(value: Any) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return str(value).lower()


def _values(column: LiveColumn, times: tuple[int, int]) -> st.SearchStrategy[Any]:
    if column.role is Role.TIME:
        return st.integers(*times).map(moment)
    if column.role is Role.TAG:
        return st.sampled_from([value for value in (HOSTS if column.kind == "STRING" else RACKS) if value is not None])
    return st.sampled_from([value for value in VALUES[column.kind] if value is not None])


@st.composite
def _leaf(draw: st.DrawFn, columns: list[LiveColumn], times: tuple[int, int]) -> Condition:
    column = draw(st.sampled_from(columns))
    name, sql, field = column.name, quoted(column.name), column.role is Role.FIELD
    kind = draw(st.sampled_from(["compare", "compare", "between", "in", "null", "not null"]))
    if kind == "null":
        return Condition(f"{sql} IS NULL", lambda row: row[name] is None, field)
    if kind == "not null":
        return Condition(f"{sql} IS NOT NULL", lambda row: row[name] is not None, field)
    values = _values(column, times)
    if kind == "in":
        members = draw(st.lists(values, min_size=1, max_size=3))
        text = ", ".join(map(literal, members))
        return Condition(f"{sql} IN ({text})", lambda row: None if row[name] is None else row[name] in members, field)
    if kind == "between":
        low, high = sorted([draw(values), draw(values)])
        text = f"{sql} BETWEEN {literal(low)} AND {literal(high)}"
        return Condition(text, lambda row: None if row[name] is None else low <= row[name] <= high, field)
    operator, value = draw(st.sampled_from(sorted(_OPERATORS))), draw(values)
    compare = _OPERATORS[operator]
    return Condition(
        f"{sql} {operator} {literal(value)}", lambda row: None if row[name] is None else compare(row[name], value), field
    )


def _both(a: Condition, b: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        left, right = a.holds(row), b.holds(row)
        return False if left is False or right is False else None if left is None or right is None else True

    return Condition(f"({a.text} AND {b.text})", holds, a.reads_fields or b.reads_fields)


def _either(a: Condition, b: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        left, right = a.holds(row), b.holds(row)
        return True if left is True or right is True else None if left is None or right is None else False

    return Condition(f"({a.text} OR {b.text})", holds, a.reads_fields or b.reads_fields)


def _opposite(a: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        found = a.holds(row)
        return None if found is None else not found

    return Condition(f"NOT ({a.text})", holds, a.reads_fields)


@st.composite
def conditions(draw: st.DrawFn, table: LiveTable, times: tuple[int, int], *roles: Role) -> Condition:
    """A condition on columns of the given roles, times within ``times``."""
    columns = table.of(*roles)
    found = draw(_leaf(columns, times))
    for combine in draw(st.lists(st.sampled_from(["and", "and", "or", "not"]), max_size=2)):
        if combine == "not":
            found = _opposite(found)
        else:
            other = draw(_leaf(columns, times))
            found = _both(found, other) if combine == "and" else _either(found, other)
    return found
