"""Blocks: converted rows of one file, and the strings that they share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tsdb.catalog.interner import Interner
from tsdb.ingest.cells import Cells
from tsdb.ingest.reject import Reject
from tsdb.ingest.source import Position
from tsdb_format.schema import Column, Schema
from tsdb_format.types import Kind, Role
from tsdb_format.vector import Pool, Vector

#: Rows of a string field after which it is known whether its values repeat.
REPEAT_SAMPLE_ROWS = 65_536
#: Stands in a block's vectors for the interner's pool, which is complete only when the chunk is.
INTERNED = Pool.of([])


@dataclass(slots=True)
class Block:
    """Rows of one file that follow each other, those that were refused, and the position after them."""

    columns: dict[str, Vector]
    row_count: int
    rejects: list[Reject]
    position: Position


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

    def of_cells(self, column: Column, cells: Cells) -> Vector:
        """A string column's cells as codes into the column's pool, or with a pool of their own where values hardly repeat."""
        validity = cells.validity()
        if not self._repeats(column, len(cells)):
            return Vector(column.type, np.arange(len(cells), dtype=np.int32), validity, cells.pool())
        codes = self.pools[column.name].codes(cells.starts, cells.stops, cells.data)
        if validity is not None:
            np.maximum(codes, 0, out=codes)
        return Vector(column.type, codes, validity, INTERNED)

    def of_vector(self, column: Column, vector: Vector) -> Vector:
        """Any vector, copied: what it came in may be one allocation for all columns, not to be kept alive by one of them."""
        pool = vector.pool
        if pool is None or column.type.kind is not Kind.STRING or not self._repeats(column, len(vector)):
            return own(vector)
        codes = self.pools[column.name].pool_codes(pool)
        rows = vector.values if vector.validity is None else np.where(vector.validity, vector.values, 0)
        return Vector(vector.type, codes[rows] if len(codes) else np.zeros(len(vector), np.int32), _copy(vector.validity), INTERNED)

    def _repeats(self, column: Column, count: int) -> bool:
        """Whether the column's strings are worth looking up: always a tag's, a field's unless most of them were new."""
        interner = self.pools.setdefault(column.name, Interner())
        seen = self._rows.get(column.name, 0)
        if column.role is not Role.TAG and seen >= REPEAT_SAMPLE_ROWS and len(interner) * 2 > seen:
            return False
        self._rows[column.name] = seen + count
        return True


def own(vector: Vector) -> Vector:
    """A copy of the vector with a pool of exactly its strings."""
    pool = vector.pool
    if pool is not None:
        first, last = int(pool.offsets[0]), int(pool.offsets[-1])
        pool = Pool(pool.offsets - first, pool.data[first:last].copy())
    return Vector(vector.type, vector.values.copy(), _copy(vector.validity), pool)


def _copy(validity: np.ndarray | None) -> np.ndarray | None:
    return None if validity is None else validity.copy()
