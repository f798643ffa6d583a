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


def sorted_rows(batches: Iterable[Batch], keys: Sequence[SortKey], limit: int | None = None, offset: int = 0) -> Iterator[Batch]:
    """The rows in order of ``keys``: all, or ``limit`` after ``offset``."""
    held = list(batches)
    if not held or limit == 0:
        return
    batch = concat_batches(held)
    parts = [part for key in keys for part in _key_arrays(batch.vectors[key.column], key)]
    order = np.lexsort(parts[::-1]) if parts else np.arange(batch.row_count)
    yield batch.take(order[offset : None if limit is None else offset + limit])


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
