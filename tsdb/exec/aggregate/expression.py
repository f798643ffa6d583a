"""Expressions of tags and attributes, evaluated by DuckDB once per device. Imported only where a query groups by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from tsdb.exec.arrow import Converter, vectors_of
from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.duck_error import translate
from tsdb.exec.duck_instance import cursor
from tsdb.plan.schema import duckdb_name
from tsdb_format.types import ColumnType
from tsdb_format.vector import BoolArray, Vector, null_vector

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable


def evaluate(sql: str, names: Sequence[str], kind: ColumnType, devices: DeviceTable, mask: BoolArray) -> tuple[Vector, bool]:
    """An expression's value per device, and whether it is known for all of them.

    Where it fails for some device it is evaluated for those of ``mask`` (empty: all) alone, others get NULL. Raises as DuckDB does.
    """
    columns = {name: devices.values(name) for name in names}
    try:
        return _evaluated(sql, columns, devices.count, kind), True
    except duckdb.Error as error:
        if not len(mask):
            raise translate(error, {}) from error
    chosen = np.flatnonzero(mask)
    try:
        found = _evaluated(sql, {name: vector.take(chosen) for name, vector in columns.items()}, len(chosen), kind)
    except duckdb.Error as error:
        raise translate(error, {}) from error
    place = np.zeros(devices.count, np.int64)
    place[chosen] = np.arange(len(chosen))
    if not len(chosen):
        return null_vector(kind, devices.count), False
    spread = found.take(place)
    return Vector(kind, spread.values, spread.valid() & mask, spread.pool), False


def _evaluated(sql: str, columns: dict[str, Vector], count: int, kind: ColumnType) -> Vector:
    if count == 0:
        return null_vector(kind, 0)
    converter = Converter([(name, vector.type) for name, vector in columns.items()], dictionaries=True)
    connection = cursor()
    try:
        connection.register("devices", pa.Table.from_batches([converter.record_batch(Batch(dict(columns), count))]))
        relation = connection.sql(f"SELECT CAST(({sql}) AS {duckdb_name(kind)}) AS value FROM devices")
        batches = list(vectors_of(relation.to_arrow_table().to_batches(), [("value", kind)]))
    finally:
        connection.close()
    return concat_batches(batches).vectors["value"]
