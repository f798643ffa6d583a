"""One file as blocks of vectors: read by DuckDB as Arrow batches, converted without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tsdb.catalog.interner import Interner
from tsdb.ingest.convert import Converted, convert, reason
from tsdb.ingest.file_plan import FilePlan
from tsdb.ingest.instant import BLANK, TimeReading
from tsdb.ingest.reject import Refused
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import Column, Schema
from tsdb_format.types import Kind, Role
from tsdb_format.vector import Pool, Vector

#: Rows that DuckDB hands over at once: enough to spread a call's cost, small enough for the cache.
BATCH_ROWS = 131_072
#: Rows of a string field after which it is known whether its values repeat.
REPEAT_SAMPLE_ROWS = 65_536


@dataclass(slots=True)
class Block:
    """Converted rows of one file. ``read`` counts also the refused ones; ``stop`` is the ordinal of the row after the block."""

    columns: dict[str, Vector]
    row_count: int
    read: int
    stop: int
    refused: list[Refused] = field(default_factory=list)


@dataclass(slots=True)
class TextPools:
    """Strings by column, so that equal ones are kept once: tags for a whole ingest, fields for a chunk, as far as they repeat."""

    schema: Schema
    pools: dict[str, Interner] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)

    def next_chunk(self) -> None:
        """Forget the strings of fields."""
        self.pools = {name: pool for name, pool in self.pools.items() if self.schema.by_name[name].role is Role.TAG}
        self._rows = {}

    def intern(self, column: Column, vector: Vector) -> Vector:
        """The vector with codes into the column's pool, or with a pool of its own where values hardly repeat."""
        pool = vector.pool
        if pool is None or column.type.kind is not Kind.STRING:
            return _own(vector)
        interner = self.pools.setdefault(column.name, Interner())
        seen = self._rows.get(column.name, 0)
        if column.role is not Role.TAG and seen >= REPEAT_SAMPLE_ROWS and len(interner) * 2 > seen:
            return _own(vector)
        self._rows[column.name] = seen + len(vector)
        direct = len(vector) == len(pool)
        codes = interner.codes(pool.offsets, pool.data, vector.validity if direct else None)
        if not direct:
            codes = codes[vector.values] if len(codes) else np.zeros(len(vector), np.int32)
        elif vector.validity is not None:
            np.maximum(codes, 0, out=codes)
        return Vector(vector.type, codes, vector.validity, INTERNED)


#: Stands in a block's vectors for the interner's pool, which is complete only when the chunk is.
INTERNED = Pool.of([])


def _own(vector: Vector) -> Vector:
    """A copy: what DuckDB handed over is one allocation for all columns and must not be kept alive by one of them."""
    validity = None if vector.validity is None else vector.validity.copy()
    pool = vector.pool
    if pool is not None:
        first, last = int(pool.offsets[0]), int(pool.offsets[-1])
        pool = Pool(pool.offsets - first, pool.data[first:last].copy())
    return Vector(vector.type, vector.values.copy(), validity, pool)


def read_blocks(connection: Any, plan: FilePlan, pools: TextPools, skip: int, *, review: bool) -> Iterator[Block]:
    """The file's rows from the ``skip``-th delivered one on. With ``review``, blocks before that only tell which rows are refused.

    Raises InvalidInput where the file cannot be read.
    """
    import duckdb
    import pyarrow as pa

    constants = {name: _constant(pools.schema.column(name), text) for name, text in plan.source.path_tags.items()}
    first = 0
    try:
        for batch in connection.sql(plan.query()).to_arrow_reader(BATCH_ROWS):
            start, first = first, first + batch.num_rows
            if start < skip:
                known = min(skip - start, batch.num_rows)
                if review:
                    refused = _block(plan, batch.slice(0, known), start, pools, constants).refused
                    yield Block({}, 0, len(refused), start + known, refused)
                batch, start = batch.slice(known), start + known
            if batch.num_rows:
                yield _block(plan, batch, start, pools, constants)
    except (duckdb.Error, pa.ArrowException) as error:
        raise InvalidInput(f"{plan.source.path} cannot be read: {str(error).strip().splitlines()[0]}") from None


def _block(plan: FilePlan, batch: Any, start: int, pools: TextPools, constants: dict[str, Vector]) -> Block:
    count = batch.num_rows
    columns: dict[str, Vector] = {}
    bad = np.zeros(count, np.bool_)
    refused: list[Refused] = []
    for number, each in enumerate(plan.columns):
        converted = convert(batch.column(number), each.column, each.reading, numbers=each.numbers)
        if each.column.role is Role.TIME:
            _refuse_missing(converted)
        wrong = converted.refused()
        if wrong is not None:
            for row in np.flatnonzero(wrong & ~bad).tolist():
                assert converted.status is not None
                text = reason(converted.status[row], each.column, batch.column(number)[row])
                refused.append(Refused(start + row, each.column.name, text))
            bad |= wrong
        columns[each.column.name] = pools.intern(each.column, converted.vector)
    for name, constant in constants.items():
        vector = pools.intern(pools.schema.column(name), constant)
        columns[name] = vector.take(np.zeros(count, np.int64))
    if bad.any():
        good = np.flatnonzero(~bad)
        columns = {name: vector.take(good) for name, vector in columns.items()}
        count = len(good)
    return Block(columns, count, batch.num_rows, start + batch.num_rows, sorted(refused, key=lambda each: each.ordinal))


def _refuse_missing(converted: Converted) -> None:
    """A row without a time is refused: it is not NULL, and it is not the time before."""
    validity = converted.vector.validity
    if validity is not None:
        status = converted.status if converted.status is not None else np.zeros(len(validity), np.uint8)
        status[~validity] = BLANK
        converted.status = status
        converted.vector.validity = None


def _constant(column: Column, text: str) -> Vector:
    """A tag that the path gives, as a vector of one row; raises InvalidInput where it is not of the column's type."""
    import pyarrow as pa

    converted = convert(pa.array([text]), column, TimeReading(), numbers=True)
    if converted.status is not None:
        raise InvalidInput(f"tag {column.name!r} from the path: {reason(converted.status[0], column, text)}")
    return converted.vector
