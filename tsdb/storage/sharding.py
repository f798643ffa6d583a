"""Rows that are to be written, parted by shard."""

from __future__ import annotations

from collections.abc import Iterator

from tsdb.catalog.device import DeviceTable, Int32Array
from tsdb.catalog.shard import parted
from tsdb.catalog.table import Table
from tsdb.storage.batch import Pieces, RowBatch
from tsdb_format.types import Role
from tsdb_format.vector import Vector, null_vector


def by_shard(
    table: Table, batch: RowBatch, numbers: Int32Array, devices: DeviceTable
) -> Iterator[tuple[int | None, RowBatch, Int32Array]]:
    """(shard, its rows, their devices) of a batch whose rows have the devices ``numbers``."""

    def column(name: str) -> Vector:
        found = table.schema.column(name)
        if found.role is Role.TAG:
            return devices.values(name).take(numbers)
        return batch.whole(name) if name in batch.columns else null_vector(found.type, batch.row_count)

    for shard, rows in parted(table.options, batch.row_count, column):
        if rows is None:
            yield shard, batch, numbers
        else:
            columns: dict[str, Pieces] = {name: (batch.whole(name).take(rows),) for name in batch.columns}
            yield shard, RowBatch(batch.schema, len(rows), columns), numbers[rows]
