"""Batches: the unit that operators pass on. Named vectors of equal length, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tsdb_format.vector import Vector, concat


@dataclass(slots=True)
class Batch:
    """``row_count`` rows as named vectors; a batch may have rows and no columns (``count(*)``)."""

    vectors: dict[str, Vector]
    row_count: int

    @property
    def nbytes(self) -> int:
        """About the bytes of the values; strings that batches share count for each."""
        size = 0
        for vector in self.vectors.values():
            size += vector.values.nbytes + (0 if vector.pool is None else vector.pool.data.nbytes)
        return size

    def slice(self, start: int, stop: int) -> Batch:
        """Rows [start, stop), sharing memory."""
        stop = min(stop, self.row_count)
        start = min(start, stop)
        return Batch({name: vector.take(slice(start, stop)) for name, vector in self.vectors.items()}, stop - start)

    def take(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Batch:
        """The rows at the given indices, in that order."""
        return Batch({name: vector.take(rows) for name, vector in self.vectors.items()}, len(rows))


def concat_batches(batches: list[Batch]) -> Batch:
    """Join batches with the same columns end to end; at least one."""
    if len(batches) == 1:
        return batches[0]
    names = batches[0].vectors
    return Batch({name: concat([b.vectors[name] for b in batches]) for name in names}, sum(b.row_count for b in batches))
