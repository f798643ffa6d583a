"""Payloads of blobs that operators have passed on as cells: read at the end, for the rows that are left, some at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tsdb.exec.batch import Batch
from tsdb_format.blob import blob_sizes, is_located
from tsdb_format.payload import resolve
from tsdb_format.types import Kind

if TYPE_CHECKING:
    from tsdb.exec.stats import ScanStats
    from tsdb.storage.snapshot import TableSnapshot

#: Bytes of payloads that are read together.
_BYTES_MAX = 16 * 2**20


def with_payloads(batches: Iterable[Batch], table: TableSnapshot, stats: ScanStats | None) -> Iterator[Batch]:
    """The rows, of which the blobs of ``table`` outside of pages are read and counted."""
    for batch in batches:
        blobs = [name for name, vector in batch.vectors.items() if vector.type.kind is Kind.BLOB and is_located(vector)]
        if not blobs or table.gives_cells:
            yield batch
            continue
        ends = np.cumsum(sum(blob_sizes(batch.vectors[name]) for name in blobs))
        at = 0
        while at < batch.row_count:
            before = int(ends[at - 1]) if at else 0
            until = max(int(np.searchsorted(ends, before + _BYTES_MAX, "right")), at + 1)
            yield _resolved(batch.slice(at, until), blobs, table, stats)
            at = until


def _resolved(batch: Batch, blobs: list[str], table: TableSnapshot, stats: ScanStats | None) -> Batch:
    assert table.payloads is not None, "blobs are outside of pages in tables of a database"
    vectors = dict(batch.vectors)
    for name in blobs:
        vectors[name], size = resolve(vectors[name], table.payloads)
        if stats is not None:
            stats.add_blob_bytes(size)
    return Batch(vectors, batch.row_count)
