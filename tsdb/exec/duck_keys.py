"""Keys of a subquery, found before DuckDB runs: the scan of another input then reads the rows alone that have one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tsdb.exec.arrow import Converter
from tsdb.exec.duck_input import scan_of
from tsdb.exec.executor import execute
from tsdb.plan.node import DuckQuery, Frame, Keys, Plan
from tsdb.plan.predicate import Constant, InSet, Predicate
from tsdb.plan.schema import output_schema
from tsdb.plan.size import rows_about
from tsdb_format.types import ColumnType, Kind

if TYPE_CHECKING:
    from tsdb.exec.context import ExecContext
    from tsdb.storage.snapshot import Snapshot

#: Keys up to which a scan looks for them, and rows up to which a subquery is run for its keys: DuckDB runs it again.
_KEYS_MAX = 10_000
_ROWS_MAX = 1_000_000


def key_predicate(keys: Keys, kind: ColumnType, context: ExecContext) -> Predicate | None:
    """What the scan asks of its column of type ``kind``.

    None where the subquery may be dear, or its keys are many, or of another type.
    """
    if any(rows > _ROWS_MAX for rows in _rows_read(keys.child, context.snapshot)):
        return None
    values = _values(keys.child, context)
    if values is None:
        return None
    held = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    textual = pa.types.is_string(held) or pa.types.is_large_string(held)
    if not (textual if kind.kind is Kind.STRING else pa.types.is_integer(held)):
        return None
    found = [value for value in values.unique().to_pylist() if value is not None]
    if len(found) > _KEYS_MAX:
        return None
    return InSet(keys.column, tuple(found)) if found else Constant(False)


def _rows_read(plan: Plan, snapshot: Snapshot) -> Iterator[int]:
    """About how many rows each source of a subquery has."""
    if isinstance(plan, DuckQuery):
        for _, child in plan.inputs:
            yield from _rows_read(child, snapshot)
    elif isinstance(plan, Frame):
        value: Any = plan.value
        yield len(next(iter(value.values()))) if isinstance(value, dict) else int(value.shape[0])
    else:
        yield rows_about(scan_of(plan), snapshot)


def _values(plan: Plan, context: ExecContext) -> Any:
    """The first column of a subquery as an Arrow array; None where it has not exactly one."""
    if isinstance(plan, DuckQuery):
        from tsdb.exec.duck import DuckRun

        run = DuckRun(plan, lambda: context)
        try:
            return run.table().column(0) if len(run.columns) == 1 else None
        finally:
            run.close()
    schema = output_schema(plan, context.snapshot)
    if len(schema) != 1:
        return None
    return Converter(schema).reader(execute(plan, context)).read_all().column(0)
