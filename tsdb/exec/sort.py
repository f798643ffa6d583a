"""Sorting, choosing and filtering the rows of any operator, in memory: what operators compute is small beside what they read.

The order is DuckDB's: NaN is the greatest float, −0.0 equals 0.0, strings go bytewise; equal rows stay in the order they came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tsdb.catalog.device import compacted
from tsdb.catalog.tag_order import value_ranks
from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.evaluate import evaluate, normalize
from tsdb.exec.order import ascending
from tsdb.plan.node import SortKey
from tsdb.plan.predicate import Predicate
from tsdb_format.types import Kind
from tsdb_format.vector import IntArray, Vector

#: Rows that are held at least before those beyond a limit are let go.
_HELD_ROWS = 262_144


def sorted_rows(batches: Iterable[Batch], keys: Sequence[SortKey], limit: int | None = None, offset: int = 0) -> Iterator[Batch]:
    """The rows in order of ``keys``: all, or ``limit`` after ``offset``, of which no more than a few times as many are held."""
    if limit == 0:
        return
    held: list[Batch] = []
    count = 0
    stop = None if limit is None else offset + limit
    for batch in batches:
        held.append(batch)
        count += batch.row_count
        if stop is not None and count > max(4 * stop, _HELD_ROWS):
            best = _first(concat_batches(held), keys, 0, stop)
            held, count = [best], best.row_count
    if held:
        yield _first(concat_batches(held), keys, offset, stop)


def _first(batch: Batch, keys: Sequence[SortKey], start: int, stop: int | None) -> Batch:
    """Rows [start, stop) in the order of ``keys``."""
    parts = [part for key in keys for part in _key_arrays(batch.vectors[key.column], key)]
    if stop is not None and parts and stop * 4 < batch.row_count:  # most rows are beyond the last one by the first key alone
        last = np.partition(parts[0], stop - 1)[stop - 1]
        rows = np.flatnonzero(parts[0] <= last)
        order = rows[np.lexsort([part[rows] for part in parts[::-1]])]
    else:
        order = np.lexsort(parts[::-1]) if parts else np.arange(batch.row_count)
    return batch.take(order[start:stop])


def filtered_rows(batches: Iterable[Batch], predicate: Predicate) -> Iterator[Batch]:
    """The rows for which a predicate is true."""
    condition = normalize(predicate)
    for batch in batches:
        mask = evaluate(condition, batch.vectors.__getitem__, batch.row_count)
        yield batch if mask.all() else batch.take(np.flatnonzero(mask))


def _key_arrays(vector: Vector, key: SortKey) -> list[IntArray]:
    """Integers, compared one after the other, that order as the key does."""
    if vector.type.kind is Kind.VECTOR:
        arrays = [ascending(vector.values[:, at]) for at in range(vector.type.width)]
    elif vector.pool is not None:
        arrays = [value_ranks(compacted(vector))]
    elif vector.values.dtype.kind == "O":
        arrays = [np.unique(vector.values, return_inverse=True)[1].astype(np.int64)]
    else:
        arrays = [ascending(vector.values)]
    if key.descending:
        arrays = [~array for array in arrays]
    if vector.validity is None:
        return arrays
    nulls = np.where(vector.validity, 0, -1 if key.nulls_first else 1)
    return [nulls, *(np.where(vector.validity, array, 0) for array in arrays)]
