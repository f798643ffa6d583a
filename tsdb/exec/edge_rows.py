"""Rows at an edge of their devices' runs in one file: the newest of each device, or the oldest, as LastRow finds them.

Where most devices of a file have theirs among them, a column is read of all of the file's devices, and kept in the last cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tsdb.exec.kernels.runs import at_edge
from tsdb.exec.rows import FileRows, coalesce
from tsdb.exec.source import FileSource
from tsdb.storage.last_cache import FileEdges
from tsdb_format.pool import own_strings
from tsdb_format.schema import Column
from tsdb_format.types import Kind, Role
from tsdb_format.vector import IntArray, Vector

#: Devices from which reading a value of each takes longer than finding out that it is kept.
_DEVICES_MIN = 256


class Edge(NamedTuple):
    """The end of runs that rows are likely to lie at, and the bytes that the last cache may take."""

    newest: bool
    bytes_max: int


class EdgeRows:
    """The first or last row of some devices of a file, by their numbers in the file."""

    def __init__(self, source: FileSource, devices: IntArray, positions: IntArray, edges: FileEdges, edge: Edge) -> None:
        self._source = source
        self._devices = devices
        self._positions = positions
        self._edges = edges
        self._edge = edge

    def read(self, name: str) -> Vector:
        """A column's values."""
        source, count = self._source, len(self._positions)
        column = source.column(name)
        if not self._may_be_kept(column):
            return FileRows(source, *coalesce(self._positions), count).read(name)
        slot = FileEdges.slot_of(column.id, newest=self._edge.newest)
        found = self._edges.get(slot)
        if found is None:
            start = source.file.row_start
            found = own_strings(source.read(column, *coalesce(start[1:] - 1 if self._edge.newest else start[:-1])))
            self._edges.keep(slot, found, self._edge.bytes_max)
        else:
            source.stats.add_cached(count)
        return found.take(self._devices)

    def _may_be_kept(self, column: Column) -> bool:
        """Whether a column has values of its own in the file; blobs are too large."""
        here = column.role is Role.FIELD and column.type.kind is not Kind.BLOB and column.name not in self._source.computed
        return here and self._source.stored_name(column) is not None


def rows_at(source: FileSource, positions: IntArray, edge: Edge | None) -> FileRows | EdgeRows:
    """The rows of a file at some positions, which ascend; with ``edge``, as those of most devices if that is what they are."""
    edges = source.file.edges
    devices = source.file.device_count
    if edge is not None and edge.bytes_max and edges is not None and devices >= _DEVICES_MIN and 2 * len(positions) >= devices:
        found = np.empty(len(positions), np.int64)
        if at_edge(source.file.row_start, positions, int(edge.newest), found) == len(positions):
            return EdgeRows(source, found, positions, edges, edge)
    return FileRows(source, *coalesce(positions), len(positions))
