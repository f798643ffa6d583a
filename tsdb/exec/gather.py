"""Rows that were found earlier, read at last: by their addresses, or from the merged row sets that they came in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tsdb.exec.rows import ROW_ID_BITS, FileRows, MergedRows, RowSet, coalesce
from tsdb.exec.source import ScanSources
from tsdb_format.parallel import ordered_map
from tsdb_format.pool import take_strings
from tsdb_format.vector import IntArray, Pool, Vector, concat

#: Origin of rows that are read again by their address; other origins are numbers of merged row sets.
BY_ADDRESS = np.int64(-1)
#: Rows from which a second thread pays.
_PARALLEL_ROWS = 4_096


def gather(
    sources: ScanSources, merged: Mapping[int, MergedRows], address: IntArray, origin: IntArray, ordinal: IntArray,
    names: Sequence[str], threads: int = 1,
) -> dict[str, Vector]:  # fmt: skip
    """The columns ``names`` of one row or more, in the order given.

    A row whose ``origin`` is BY_ADDRESS is the one at ``address``; of others that is the key of their row set in ``merged``, and
    ``ordinal`` is their place in it. Several threads read several columns.
    """

    def all_of(read: Callable[[str], Vector]) -> dict[str, Vector]:
        return dict(zip(names, ordered_map(read, names, threads, first_alone=len(address) < _PARALLEL_ROWS), strict=True))

    index = int(address[0]) >> ROW_ID_BITS
    if not merged and index == int(address[-1]) >> ROW_ID_BITS and bool((address[1:] > address[:-1]).all()):
        here = FileRows(sources[index], *coalesce(address & ((1 << ROW_ID_BITS) - 1)), len(address))
        return all_of(lambda name: _with_own_pool(here.read(name)))
    parts: list[RowSet] = []
    places: list[IntArray] = []
    file = np.where(origin < 0, address >> ROW_ID_BITS, -1)
    for index in np.flatnonzero(np.bincount(file + 1))[int((file < 0).any()) :].tolist():
        group = np.flatnonzero(file == index - 1)
        group = group[np.argsort(address[group])]
        parts.append(FileRows(sources[index - 1], *coalesce(address[group] & ((1 << ROW_ID_BITS) - 1)), len(group)))
        places.append(group)
    for number, rows in merged.items():
        group = np.flatnonzero(origin == number)
        if len(group):
            group = group[np.argsort(ordinal[group])]
            mask = np.zeros(rows.count, np.bool_)
            mask[ordinal[group]] = True
            parts.append(rows.select(mask))
            places.append(group)
    place = np.empty(len(address), np.int64)
    place[np.concatenate(places)] = np.arange(len(address), dtype=np.int64)

    def read(name: str) -> Vector:
        return _with_own_pool(concat([rows.read(name) for rows in parts]).take(place))

    return all_of(read)


def own_pool(vector: Vector) -> Pool:
    """A pool with one string per row of a pooled vector; unspecified under a NULL."""
    assert vector.pool is not None
    if len(vector.pool) == 0:
        return Pool(np.zeros(len(vector) + 1, np.int64), np.empty(0, np.uint8))
    return take_strings(vector.pool, np.maximum(vector.values, 0))


def _with_own_pool(vector: Vector) -> Vector:
    """The same values with a pool of their own where the shared one is much larger."""
    pool = vector.pool
    if pool is None or len(pool) <= 4 * len(vector) + 16:
        return vector
    return Vector(vector.type, np.arange(len(vector), dtype=np.int32), vector.validity, own_pool(vector))
