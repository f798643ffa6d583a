"""De-duplication: a row that several queries of a request select is a row of the first of them alone.

A row is known by its table, tags, time and sequence number, which each query reads besides its columns. Who selected it first is
known once the queries before have run, so reading a result runs those before it on the same table that were not read yet, for these
columns' sake; results stay free to be read in any order, and again. What is held is one entry for each row that was selected.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tsdb.exec.batch import Batch
from tsdb.exec.join_key import KeyNumbers
from tsdb.result import NativeSource
from tsdb.resultset.row_vectors import vectors_of
from tsdb_format.schema import SEQUENCE_NAME, Schema
from tsdb_format.types import BOOLEAN, ColumnType
from tsdb_format.vector import BoolArray, Pool, Vector

if TYPE_CHECKING:
    from tsdb.exec.context import ExecContext
    from tsdb.result import Source

_NOBODY = np.iinfo(np.int32).max


def row_key(schema: Schema) -> tuple[str, ...]:
    """The columns by which a row of a table is known."""
    return (*(column.name for column in schema.tags), schema.time.name, SEQUENCE_NAME)


class SelectedRows:
    """The rows of one table that queries have selected, each with the first that did, and the queries in order."""

    def __init__(self, width: int) -> None:
        self.sources: list[DeduplicatedSource] = []
        self._numbers = KeyNumbers(2 * width)
        self._first = np.empty(0, np.int32)
        self._lock = threading.RLock()

    def are_firsts(self, key: Sequence[Vector], query: int) -> BoolArray:
        """Which rows nobody before the query has selected."""
        with self._lock:
            numbers = self._numbers.numbers([part for vector in key for part in _without_nulls(vector)], add=True)
            more = len(self._numbers) - len(self._first)
            self._first = np.concatenate((self._first, np.full(more, _NOBODY, np.int32)))
            np.minimum.at(self._first, numbers, np.int32(query))
            found: BoolArray = self._first[numbers] == query
            return found

    def run_before(self, query: int) -> None:
        """Have all queries before one run that have not."""
        with self._lock:
            for source in self.sources[:query]:
                if not source.is_known:
                    for _ in source.selected():
                        pass


class DeduplicatedSource(NativeSource):
    """The rows of a query that no query before it has selected; its last columns are the key of the row, and not shown."""

    def __init__(self, source: Source, types: Sequence[ColumnType], width: int, rows: SelectedRows) -> None:
        self._source = source
        self._types = types
        self._width = width
        self._rows = rows
        self._number = len(rows.sources)
        #: Whether all of its rows were looked at.
        self.is_known = False
        rows.sources.append(self)
        shown = len(types) - width
        super().__init__(source.columns[:shown], [(str(at), kind) for at, kind in enumerate(types[:shown])], self._start)

    def _start(self) -> tuple[ExecContext, Iterator[Batch]]:
        return self._source.context, self._batches()

    def _batches(self) -> Iterator[Batch]:
        self._rows.run_before(self._number)
        yield from self.selected()

    def selected(self) -> Iterator[Batch]:
        """The rows that are left, when the queries before have run."""
        shown = len(self._types) - self._width
        for columns in vectors_of(self._source, self._types):
            rows = np.flatnonzero(self._rows.are_firsts(columns[shown:], self._number))
            if len(rows):
                yield Batch({str(at): vector.take(rows) for at, vector in enumerate(columns[:shown])}, len(rows))
        self.is_known = True

    def close(self) -> None:
        """Let go of the snapshot."""
        super().close()
        self._source.close()


def _without_nulls(vector: Vector) -> tuple[Vector, Vector]:
    """Values with something in the place of NULLs, and where there are some: NULL is a key like any other."""
    valid = vector.valid()
    values = np.where(valid, vector.values, np.zeros(1, vector.values.dtype))
    pool = Pool.of([b""]) if vector.pool is not None and not len(vector.pool) else vector.pool
    return Vector(vector.type, values, None, pool), Vector(BOOLEAN, valid)
