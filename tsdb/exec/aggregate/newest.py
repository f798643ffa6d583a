"""Aggregates that the newest (oldest) row of each group answers: ``max(time)``, ``arg_max(x, time)``, ``last(x)`` by tags.

``arg_max`` leaves rows out whose value is NULL. So the newest row answers where its value is not; where one is NULL the group has
to be read, and with it all of them.
"""

from __future__ import annotations

from dataclasses import replace

from tsdb.exec.batch import Batch
from tsdb.plan.grouping import Call, ColumnKey
from tsdb.plan.node import Aggregate, LastRow
from tsdb_format.schema import Schema
from tsdb_format.types import Role

#: What of a row each function gives, by the end of time that it asks for.
_NEWEST = {"max": "time", "last": "value", "arg_max": "value if any"}
_OLDEST = {"min": "time", "first": "value", "arg_min": "value if any"}


def newest_rows(node: Aggregate, schema: Schema) -> LastRow | None:
    """The rows that may answer an Aggregate; None where they cannot."""
    tags = tuple(key.column for key in node.keys if isinstance(key, ColumnKey) and schema.column(key.column).role is Role.TAG)
    if not tags or len(tags) < len(node.keys) or all(call.column == schema.time.name for call in node.calls):
        return None  # times alone are in the index
    for functions, oldest in ((_NEWEST, False), (_OLDEST, True)):
        if all(_is_of_row(call, schema.time.name, functions) for call in node.calls):
            columns = dict.fromkeys((*tags, *(call.column for call in node.calls if call.column is not None)))
            return LastRow(replace(node.child, columns=tuple(columns)), tags, 1, oldest)
    return None


def answered(node: Aggregate, rows: Batch) -> Batch | None:
    """An Aggregate's groups from these rows; None where a value is NULL that another row of its group may have."""
    for call in node.calls:
        if call.function in ("arg_max", "arg_min") and rows.row_count and not rows.vectors[str(call.column)].valid().all():
            return None
    vectors = {key.name: rows.vectors[key.column] for key in node.keys if isinstance(key, ColumnKey)}
    vectors |= {call.name: rows.vectors[str(call.column)] for call in node.calls}
    return Batch(vectors, rows.row_count)


def _is_of_row(call: Call, time: str, functions: dict[str, str]) -> bool:
    """Whether a call gives something of the row at one end of time."""
    gives = functions.get(call.function)
    if gives is None or call.condition is not None:
        return False
    return call.column == time if gives == "time" else call.by in (None, time)
