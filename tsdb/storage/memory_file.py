"""Rows in memory that look like a data file: what was committed and is not in files yet.

A ``MemoryRun`` is made per commit, often of one row, so making one does nothing but keep what it is given; whatever a query may ask
(bounds, statistics, the time index) is worked out when it is first asked for, and kept. Runs never change and threads share them:
two that work the same thing out at once find the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.table import Table
from tsdb.exec.kernels import runs
from tsdb.exec.row_range import rows_in
from tsdb.storage.arrange import SortedRows
from tsdb_format import statistics
from tsdb_format.ball import Balls, cut_balls, new_balls
from tsdb_format.encoding import PAGES_PER_CHUNK, VectorRows
from tsdb_format.resource import device_orders
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.statistics import Statistics
from tsdb_format.summary import new_summary
from tsdb_format.types import Role
from tsdb_format.vector import IntArray, Vector

Int32Array = NDArray[np.int32]
_FIRST = np.zeros(1, np.int32)


class MemoryRun:
    """Committed rows of one table in memory, as an ``OpenFile`` is committed rows in a file.

    ``rows.columns`` holds the TIME column, the FIELDs given and ``_sn``, by the names that ``table`` has for them; its arrays must
    not be written any more. ``applied``: every delete up to that sequence is carried out in these rows.
    """

    name = "memory"
    path = "memory"

    def __init__(self, table: Table, rows: SortedRows, applied: int = 0) -> None:
        self.table = table
        self.rows = rows
        self.applied = applied
        self.row_count = int(rows.row_start[-1])
        self.device_count = len(rows.numbers)

    def __repr__(self) -> str:
        return f"MemoryRun({self.table.name!r}, rows={self.row_count})"

    @property
    def device_number(self) -> Int32Array:
        """Table-wide number of each device, in tag order."""
        return self.rows.numbers

    @cached_property
    def file(self) -> MemoryFile:
        """The rows as a data file."""
        return MemoryFile(self.table, self.rows)

    @cached_property
    def min_time(self) -> int:
        """The first time of all."""
        return int(self.file.resource.min_time.min())

    @cached_property
    def max_time(self) -> int:
        """The last time of all."""
        return int(self.file.resource.max_time.max())

    @cached_property
    def min_sequence(self) -> int:
        """The lowest sequence number of the rows."""
        return int(self.rows.columns[SEQUENCE_NAME].values.min())

    @cached_property
    def max_sequence(self) -> int:
        """The highest sequence number of the rows."""
        return int(self.rows.columns[SEQUENCE_NAME].values.max())

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the arrays; a pool that several columns or runs share counts in each."""
        columns = sum(vector.nbytes for vector in self.rows.columns.values())
        return self.rows.numbers.nbytes + self.rows.row_start.nbytes + columns


class MemoryFile:
    """The rows of a ``MemoryRun`` behind the ``DataFile`` protocol. Pages are of the table's size, and have no stored bytes."""

    searched_rows_min = 0
    payload_files = None
    edges = None
    #: Statistics must be made first: a tenth of a millisecond for each column, however few rows there are.
    summarized_rows_min = 1_024

    def __init__(self, table: Table, rows: SortedRows) -> None:
        self._table = table
        self._columns = rows.columns
        self.row_start = rows.row_start
        self.row_count = int(rows.row_start[-1])
        self.device_count = len(rows.numbers)
        self.rows_per_page = table.options.rows_per_page
        self.page_count = -(-self.row_count // self.rows_per_page)
        self.chunk_count = -(-self.page_count // PAGES_PER_CHUNK)
        self._statistics: dict[tuple[str, str], Statistics] = {}
        self._balls: dict[str, Balls] = {}

    def __repr__(self) -> str:
        return f"MemoryFile({self._table.name!r}, rows={self.row_count:,}, devices={self.device_count:,})"

    @cached_property
    def schema(self) -> Schema:
        """The columns there are, without the hidden ``_sn``."""
        held = (c for c in self._table.schema if c.role in (Role.TIME, Role.TAG) or c.name in self._columns)
        return Schema(tuple(held))

    @cached_property
    def resource(self) -> MemoryIndex:
        """The time index by device."""
        return MemoryIndex(self._columns[self._table.schema.time.name].values, self.row_start)

    def has_column(self, column: Column) -> bool:
        """Whether the rows have that column, by id."""
        return column.role is Role.SEQUENCE or any(mine.id == column.id for mine in self.schema)

    def statistics(self, name: str, level: str) -> Statistics:
        """Statistics per unit of a level: 'page', 'chunk' or 'file'; 'all' for the units as a file would store them."""
        found = self._statistics.get((name, level))
        if found is None:
            if level == "all":
                column = self._columns[name]
                summary = new_summary(column, self.rows_per_page)
                summary.add(0, column)
                found = summary.statistics(self.rows_per_page, PAGES_PER_CHUNK, self.row_count)
            else:
                found = self.statistics(name, "all").take(statistics.level_units(level, self.page_count, self.chunk_count))
            self._statistics[name, level] = found
        return found

    def balls(self, name: str) -> Balls:
        """Where the vectors of a VECTOR column lie."""
        found = self._balls.get(name)
        if found is None:
            rows = self._columns[name]
            found = new_balls(cut_balls(self.row_start, self.rows_per_page), rows.type)
            found.enclose(0, rows)
            self._balls[name] = found
        return found

    def vectors(self, name: str, starts: IntArray, stops: IntArray) -> VectorRows:
        """The rows of the given ranges of a VECTOR column, in place."""
        vector = self._columns[name]
        width, validity = vector.type.width, vector.validity
        if validity is not None:
            validity = validity[rows_in(starts, stops)]
        return VectorRows(VectorRows.of(vector).items, starts * width, stops - starts, validity)

    def read(self, name: str, starts: IntArray, stops: IntArray) -> Vector:
        """The rows of the given ranges, end to end: copies, as of a file, since they may reach somebody who writes to them."""
        vector = self._columns[name]
        if len(starts) == 1:
            one = slice(int(starts[0]), int(stops[0]))
            validity = None if vector.validity is None else vector.validity[one].copy()
            return Vector(vector.type, vector.values[one].copy(), validity, vector.pool)
        return vector.take(rows_in(starts, stops))

    def read_cells(self, name: str, starts: IntArray, stops: IntArray) -> Vector:
        """As ``read``."""
        return self.read(name, starts, stops)

    def fold(self, wants: Mapping[str, int], starts: IntArray, stops: IntArray, segment_stop: IntArray) -> Mapping[str, None]:
        """Nothing is packed: rows are there to be read."""
        del wants, starts, stops, segment_stop
        return {}

    def search(self, name: str, starts: IntArray, stops: IntArray, key: int, side_right: bool) -> IntArray:
        """Per range the first row whose value is ≥ ``key`` (> with ``side_right``), or its stop."""
        found = np.empty(len(starts), np.int64)
        runs.search_rows(self._columns[name].values, starts, stops, key, int(side_right), found)
        return found

    def page_bytes(self, name: str) -> IntArray:
        """0 for every page: nothing is stored."""
        return np.zeros(self.page_count, np.int64)


class MemoryIndex:
    """The time index of rows in memory."""

    def __init__(self, times: IntArray, row_start: IntArray) -> None:
        self.min_time: IntArray = times[row_start[:-1]]
        self.max_time: IntArray = times[row_start[1:] - 1]

    @cached_property
    def _orders(self) -> tuple[Int32Array, Int32Array]:
        return (_FIRST, _FIRST) if len(self.min_time) == 1 else device_orders(self.min_time, self.max_time)

    @property
    def by_min_time(self) -> Int32Array:
        """Devices by min time ascending; ties in tag order."""
        return self._orders[0]

    @property
    def by_max_time(self) -> Int32Array:
        """Devices by max time descending; ties in tag order."""
        return self._orders[1]
