"""Aggregates that the newest (oldest) row of each group answers: ``max(time)``, ``last(x)``, ``arg_max(x, time)`` by tags."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tsdb.plan.grouping import Call, ColumnKey
from tsdb.plan.node import Aggregate, LastRow

#: By the end of time: the function that gives the time itself, and those that give a value of the row there.
_ENDS = (("max", ("last", "arg_max"), False), ("min", ("first", "arg_min"), True))


@dataclass(frozen=True, slots=True)
class NewestRows:
    """``rows`` answer an Aggregate by their columns ``outputs`` (output name, column), if none of ``valued`` is NULL.

    These are the columns of ``arg_max`` and ``arg_min``, which leave rows out whose value is NULL: another row may have one.
    """

    rows: LastRow
    outputs: tuple[tuple[str, str], ...]
    valued: tuple[str, ...]


def newest_rows(node: Aggregate, time: str) -> NewestRows | None:
    """The rows that answer an Aggregate over a table with this time column; None where it asks for more, or for times alone."""
    keys = [(key.name, key.column) for key in node.keys if isinstance(key, ColumnKey)]
    if not keys or len(keys) < len(node.keys) or all(call.column == time for call in node.calls):
        return None
    for extreme, functions, oldest in _ENDS:
        if all(_is_of_row(call, time, extreme, functions) for call in node.calls):
            outputs = (*keys, *((call.name, str(call.column)) for call in node.calls))
            columns = tuple(dict.fromkeys(column for _, column in outputs))
            rows = LastRow(replace(node.child, columns=columns), tuple(column for _, column in keys), 1, oldest)
            valued = tuple(str(call.column) for call in node.calls if call.function in ("arg_max", "arg_min"))
            return NewestRows(rows, outputs, valued)
    return None


def _is_of_row(call: Call, time: str, extreme: str, functions: tuple[str, ...]) -> bool:
    """Whether a call gives something of the row at one end of time."""
    if call.condition is not None:
        return False
    return call.column == time if call.function == extreme else call.function in functions and call.by in (None, time)
