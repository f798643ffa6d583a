"""A Parquet file as blocks: read by DuckDB as Arrow batches, converted without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tsdb.ingest.block import Block, TextPools
from tsdb.ingest.convert import convert, reason, refuse_missing
from tsdb.ingest.file_plan import FilePlan
from tsdb.ingest.reject import Reject
from tsdb.ingest.source import Position
from tsdb_format.errors import InvalidInput
from tsdb_format.types import Role
from tsdb_format.vector import Vector

#: Rows that DuckDB hands over at once: enough to spread a call's cost, small enough for the cache.
BATCH_ROWS = 65_536


def read_parquet_blocks(connection: Any, plan: FilePlan, pools: TextPools, start: Position) -> Iterator[Block]:
    """The file's rows from ``start`` on. Raises InvalidInput where the file cannot be read."""
    import duckdb
    import pyarrow as pa

    constants = plan.constants(pools.schema)
    after = 0
    try:
        for batch in connection.sql(plan.query()).to_arrow_reader(BATCH_ROWS):
            first, after = after, after + batch.num_rows
            known = min(max(0, start.rows - first), batch.num_rows)
            if known < batch.num_rows:
                yield _block(plan, batch.slice(known), first + known, pools, constants)
    except (duckdb.Error, pa.ArrowException) as error:
        raise InvalidInput(f"{plan.source.path} cannot be read: {str(error).strip().splitlines()[0]}") from None


def _block(plan: FilePlan, batch: Any, first: int, pools: TextPools, constants: dict[str, Vector]) -> Block:
    count = batch.num_rows
    columns: dict[str, Vector] = {}
    bad = np.zeros(count, np.bool_)
    rejects: list[Reject] = []
    for number, each in enumerate(plan.columns):
        converted = convert(batch.column(number), each.column, each.reading, numbers=each.numbers)
        if each.column.role is Role.TIME:
            refuse_missing(converted)
        wrong = converted.refused()
        if wrong is not None and converted.status is not None:
            for row in np.flatnonzero(wrong & ~bad).tolist():
                why = reason(converted.status[row], each.column, batch.column(number)[row])
                rejects.append(Reject(plan.source.path, first + row, each.column.name, why))
            bad |= wrong
        columns[each.column.name] = pools.of_vector(each.column, converted.vector)
    for name, constant in constants.items():
        columns[name] = pools.of_vector(pools.schema.column(name), constant).take(np.zeros(count, np.int64))
    if bad.any():
        good = np.flatnonzero(~bad)
        columns, count = {name: vector.take(good) for name, vector in columns.items()}, len(good)
    rejects.sort(key=lambda reject: reject.line)
    return Block(columns, count, rejects, Position(first + batch.num_rows))
