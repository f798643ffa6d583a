"""Expressions of tags and attributes, evaluated by DuckDB once per device. Imported only where a query groups by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from tsdb.exec.arrow import Converter, vectors_of
from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.device_group import Evaluated
from tsdb.exec.duck_error import translate
from tsdb.exec.duck_instance import cursor
from tsdb.plan.schema import duckdb_name
from tsdb_format.types import BOOLEAN, ColumnType
from tsdb_format.vector import Vector, null_vector

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable


def evaluate(sql: str, names: Sequence[str], kind: ColumnType, devices: DeviceTable) -> Evaluated:
    """Evaluate an expression for all devices. Raises what it raises whatever the device is."""
    columns = {name: devices.values(name) for name in names}
    try:
        (values,) = _selected(f"({sql}) AS value", columns, devices.count, [("value", kind)])
        return Evaluated(values)
    except duckdb.Error as error:
        failure = translate(error, {})
        cause = error
    whole = f"struct_pack(value := CAST(({sql}) AS {duckdb_name(kind)}))"  # a value that is NULL did not fail
    tried = f"TRY({whole}) AS tried, struct_extract(tried, 'value') AS value, tried IS NULL AS failed"
    try:
        values, failed = _selected(tried, columns, devices.count, [("value", kind), ("failed", BOOLEAN)])
    except duckdb.Error:
        raise failure from cause
    return Evaluated(values, failed.values, failure)


def _selected(items: str, columns: dict[str, Vector], count: int, wanted: list[tuple[str, ColumnType]]) -> list[Vector]:
    """Some of the items that DuckDB selects from columns."""
    if count == 0:
        return [null_vector(kind, 0) for _, kind in wanted]
    converter = Converter([(name, vector.type) for name, vector in columns.items()], dictionaries=True)
    shown = ", ".join(f"CAST({name} AS {duckdb_name(kind)}) AS {name}" for name, kind in wanted)
    connection = cursor()
    try:
        connection.register("devices", pa.Table.from_batches([converter.record_batch(Batch(dict(columns), count))]))
        relation = connection.sql(f"SELECT {shown} FROM (SELECT {items} FROM devices)")
        batches = list(vectors_of(relation.to_arrow_table().to_batches(), wanted))
    finally:
        connection.close()
    found = concat_batches(batches).vectors
    return [found[name] for name, _ in wanted]
