"""Rows to salvage: of a data file, as far as its pages can be read, and of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import Int32Array
from tsdb.storage.batch import RowBatch
from tsdb.storage.damage import Damage, damaged_blobs, damaged_pages, readable_rows
from tsdb.storage.finding import Problem
from tsdb.storage.tombstone import Tombstones
from tsdb_format.blob import with_paths
from tsdb_format.reader import TsFile
from tsdb_format.schema import SEQUENCE_NAME, Column
from tsdb_format.types import Kind, Role
from tsdb_format.vector import BoolArray, IntArray, Vector, concat, null_vector


class Source(Protocol):
    """Rows of one table, of which some can be read. ``rows`` numbers those ascending, the other arrays are parallel to it."""

    min_time: int
    max_time: int
    min_sequence: int
    max_sequence: int
    rows: IntArray
    times: IntArray
    sequences: IntArray
    devices: Int32Array

    def load(self, tombstones: Tombstones) -> Iterator[Problem]:
        """Find the rows that can be read and are not deleted; yields what cannot be read."""

    def read(self, column: Column, places: IntArray) -> Vector | None:
        """A column of the rows at some places of ``rows``, ascending; NULL where it cannot be read. None where there is none."""

    def release(self) -> None:
        """Forget the rows."""


_NO_ROWS: IntArray = np.empty(0, np.int64)


class FileSource:
    """The rows of a data file whose devices have the numbers ``numbers``, −1 where a device is not known."""

    def __init__(self, table: str, file: TsFile, numbers: Int32Array) -> None:
        self._table = table
        self._file = file
        self._numbers = numbers
        self.min_time, self.max_time = file.min_time, file.max_time
        self.min_sequence, self.max_sequence = file.min_sequence, file.max_sequence
        self._good: dict[str, BoolArray | None] = {}
        self.release()

    def release(self) -> None:
        """Forget the rows."""
        self.rows, self.times, self.sequences, self.devices = _NO_ROWS, _NO_ROWS, _NO_ROWS, np.empty(0, np.int32)

    def load(self, tombstones: Tombstones) -> Iterator[Problem]:
        """Find the rows that can be read and are not deleted; yields what cannot be read."""
        file, time = self._file, self._file.schema.time.name
        yield from self._find_damage(time, "rows are lost")
        yield from self._find_damage(SEQUENCE_NAME, "rows count as written by the file's last commit")
        for column in file.schema.fields:
            yield from self._find_damage(column.name, "values are NULL instead")
        devices = np.repeat(self._numbers, np.diff(file.row_start))
        good = self._good[time]
        readable = np.arange(file.row_count) if good is None else np.flatnonzero(good)
        if int(self._numbers.min()) < 0:
            known = devices[readable] >= 0
            yield self._problem(f"its devices are not known: {int(np.count_nonzero(~known)):,} rows are lost", None)
            readable = readable[known]
        times, sequences = self._values(time, readable), self._values(SEQUENCE_NAME, readable)
        devices = devices[readable]
        if len(tombstones):
            alive = tombstones.index.sequence_at(devices, times) < sequences
            readable, times, sequences, devices = readable[alive], times[alive], sequences[alive], devices[alive]
        self.rows, self.times, self.sequences, self.devices = readable, times, sequences, devices

    def read(self, column: Column, places: IntArray) -> Vector | None:
        """A column of the rows at some places of ``rows``, ascending; NULL where it cannot be read. None where there is none."""
        mine = next((each for each in self._file.columns.values() if each.id == column.id and each.role is not Role.SEQUENCE), None)
        if mine is None or mine.type != column.type:
            return None
        return self._read(mine.name, self.rows[places])

    def _values(self, name: str, rows: IntArray) -> IntArray:
        vector = self._read(name, rows)
        if vector.validity is None:
            return vector.values
        return np.where(vector.validity, vector.values, self.max_sequence)

    def _read(self, name: str, rows: IntArray) -> Vector:
        good = self._good[name]
        kind = self._file.columns[name].type
        if good is None or good[rows].all():
            return self._cells(name, rows) if len(rows) else null_vector(kind, 0)
        there = good[rows]
        if not there.any():
            return null_vector(kind, len(rows))
        found = self._cells(name, rows[there])
        place = np.full(len(rows), len(found))
        place[there] = np.arange(len(found))
        return concat([found, null_vector(kind, 1)]).take(place)

    def _cells(self, name: str, rows: IntArray) -> Vector:
        """Values; blobs outside of pages stay there, and are named for whoever is in another folder."""
        return with_paths(self._file.read_cells(name, *_ranges(rows)), self._file.payload_files.folder)

    def _find_damage(self, name: str, then: str) -> Iterator[Problem]:
        damages: list[Damage] = damaged_pages(self._file, name)
        self._good[name] = readable_rows(self._file.row_count, damages)
        if self._file.columns[name].type.kind is Kind.BLOB:
            yield from self._find_damaged_blobs(name, then)
        for damage in damages:
            yield self._problem(f"{damage}; {damage.stop_row - damage.start_row:,} {then}", damage.offset)

    def _find_damaged_blobs(self, name: str, then: str) -> Iterator[Problem]:
        for rows, error in damaged_blobs(self._file, name):
            good = self._good[name]
            good = self._good[name] = np.ones(self._file.row_count, np.bool_) if good is None else good
            good[rows] = False
            yield self._problem(f"column {name!r}: {error}; {len(rows):,} {then}", None)

    def _problem(self, text: str, offset: int | None) -> Problem:
        return Problem(self._table, self._file.path, text, offset)


class BatchSource:
    """Rows that were read already, deleted ones left out, with their commits as ``_sn``."""

    def __init__(self, batch: RowBatch, numbers: Int32Array) -> None:
        self._batch = batch
        self.rows = np.arange(batch.row_count)
        self.times: NDArray[np.int64] = batch.whole(batch.schema.time.name).values
        self.sequences: NDArray[np.int64] = batch.whole(SEQUENCE_NAME).values
        self.devices = numbers
        self.min_time, self.max_time = int(self.times.min()), int(self.times.max())
        self.min_sequence, self.max_sequence = int(self.sequences.min()), int(self.sequences.max())

    def load(self, tombstones: Tombstones) -> Iterator[Problem]:
        """Nothing to be done."""
        del tombstones
        return iter(())

    def read(self, column: Column, places: IntArray) -> Vector | None:
        """A column of the rows at some places."""
        return self._batch.whole(column.name).take(places) if column.name in self._batch.columns else None

    def release(self) -> None:
        """Nothing to be done: the rows are few."""


def _ranges(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Ascending row numbers as ranges."""
    edges = np.flatnonzero(np.diff(rows) != 1) + 1
    return rows[np.concatenate([[0], edges])], rows[np.concatenate([edges, [len(rows)]]) - 1] + 1
