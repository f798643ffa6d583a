"""The times of rows that come without one, in tables whose time is the moment of the commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np

from tsdb.catalog.table import Table
from tsdb.storage.batch import Pieces, RowBatch
from tsdb_format.vector import IntArray, Vector, concat

_NS_PER_SECOND = 10**9


class Moments:
    """Hands out moments of one database, to rows in the order of their arrival: each later than the ones before in its table."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._last: dict[int, int] = {}
        self._lock = threading.Lock()

    def filled(
        self, table: Table, columns: Mapping[str, Vector | Pieces] | RowBatch, count: int
    ) -> Mapping[str, Vector | Pieces] | RowBatch:
        """The ``count`` rows with a time in each, where the table gives them one."""
        if not table.options.time_is_now or isinstance(columns, RowBatch) or not count:
            return columns
        time = table.schema.time
        given = columns.get(time.name)
        if given is None:
            return {**columns, time.name: Vector(time.type, self._take(table, count))}
        whole = given if isinstance(given, Vector) else concat(given)
        if whole.validity is None or whole.validity.all():
            return columns
        values = np.array(whole.values, np.int64)
        values[~whole.validity] = self._take(table, int(np.count_nonzero(~whole.validity)))
        return {**columns, time.name: Vector(time.type, values)}

    def _take(self, table: Table, count: int) -> IntArray:
        now = self._clock_ns() // (_NS_PER_SECOND // table.schema.time.type.units_per_second)
        with self._lock:
            first = max(now, self._last.get(table.id, now - 1) + 1)
            self._last[table.id] = first + count - 1
        return np.arange(first, first + count, dtype=np.int64)
