"""Rows that were found earlier, read at last: by their addresses, or from the merged row sets that they came in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tsdb.exec.edge_rows import Edge, EdgeRows, rows_at
from tsdb.exec.rows import ROW_ID_BITS, MergedRows, RowSet
from tsdb.exec.source import ScanSources
from tsdb_format.parallel import ordered_map
from tsdb_format.pool import own_strings
from tsdb_format.vector import IntArray, Vector, concat

#: Origin of rows that are read again by their address; other origins are numbers of merged row sets.
BY_ADDRESS = np.int64(-1)
#: Rows from which a second thread pays.
_PARALLEL_ROWS = 4_096
#: The part of an address that is the row within its file.
_ROW_MASK = np.int64((1 << ROW_ID_BITS) - 1)


def gather(
    sources: ScanSources, merged: Mapping[int, MergedRows], address: IntArray, origin: IntArray, ordinal: IntArray,
    names: Sequence[str], threads: int = 1, edge: Edge | None = None,
) -> dict[str, Vector]:  # fmt: skip
    """The columns ``names`` of one row or more, in the order given.

    A row whose ``origin`` is BY_ADDRESS is the one at ``address``; of others that is the key of their row set in ``merged``, and
    ``ordinal`` is their place in it. Several threads read several columns.
    With ``edge``, rows of files may be the newest, or oldest, of their devices.
    """

    def all_of(read: Callable[[str], Vector]) -> dict[str, Vector]:
        alone = len(names) == 1 or len(address) < _PARALLEL_ROWS
        return dict(zip(names, ordered_map(read, names, threads, first_alone=alone), strict=True))

    index = int(address[0]) >> ROW_ID_BITS
    if not merged and index == int(address[-1]) >> ROW_ID_BITS and bool((address[1:] > address[:-1]).all()):
        here = rows_at(sources[index], address & _ROW_MASK, edge)
        return all_of(lambda name: own_strings(here.read(name)))
    parts: list[RowSet | EdgeRows] = []
    places: list[IntArray] = []
    file = np.where(origin < 0, address >> ROW_ID_BITS, -1)
    for index in np.flatnonzero(np.bincount(file + 1))[int((file < 0).any()) :].tolist():
        group = np.flatnonzero(file == index - 1)
        group = group[np.argsort(address[group])]
        parts.append(rows_at(sources[index - 1], address[group] & _ROW_MASK, edge))
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
        return own_strings(concat([rows.read(name) for rows in parts]).take(place))

    return all_of(read)
