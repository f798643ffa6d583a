"""Row sets: rows chosen but not read. Columns are read when asked for, for exactly the rows that are left.

``FileRows`` are rows of one file, as ranges. ``MergedRows`` are rows that several files hold versions of, or that tombstones left:
each reads the newest non-NULL value of every field. Both are selected further by masks, so that a filter on one column spares the
reading of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable
from tsdb.exec.kernels import merge, ranges
from tsdb.exec.source import ROW_ID_NAME, FileSource, ScanSources
from tsdb_format.schema import SEQUENCE_NAME, Column
from tsdb_format.types import INT64, Role
from tsdb_format.vector import BoolArray, IntArray, Vector, concat, null_vector

if TYPE_CHECKING:
    from tsdb.exec.lane import Ranges
    from tsdb.storage.tombstone import Tombstones

#: Rows of one file that a row address can tell apart.
ROW_ID_BITS = 40


class FileRows:
    """Rows of one file."""

    __slots__ = ("_device", "count", "source", "starts", "stops")

    def __init__(self, source: FileSource, starts: IntArray, stops: IntArray, count: int | None = None) -> None:
        self.source = source
        self.starts = starts
        self.stops = stops
        if count is None:
            count = int(stops[0] - starts[0]) if len(starts) == 1 else int((stops - starts).sum())
        self.count = count
        self._device: NDArray[np.int32] | None = None

    @property
    def stored_rows(self) -> int:
        """Stored rows behind these: as many."""
        return self.count

    def positions(self) -> IntArray:
        """The file's row numbers, ascending."""
        out = np.empty(self.count, np.int64)
        ranges.expand(self.starts, self.stops, out)
        return out

    def addresses(self) -> IntArray:
        """A number per row, unique within the snapshot, ascending in version order for rows of one device and time."""
        return self.positions() | np.int64(self.source.index << ROW_ID_BITS)

    def device(self) -> NDArray[np.int32]:
        """The table-wide device of every row."""
        if self._device is None:
            self._device = self.source.by_device(self.starts, self.stops, self.count)
        return self._device

    def time(self) -> IntArray:
        """Every row's time."""
        return self.source.read(self.source.table.table.schema.time, self.starts, self.stops).values

    def read(self, name: str) -> Vector:
        """A column's values."""
        return self.source.resolved(self.read_cells(name))

    def read_cells(self, name: str) -> Vector:
        """As ``read``, but of blobs outside of pages only where they are."""
        if name == ROW_ID_NAME:
            return Vector(INT64, self.addresses())
        column = self.source.column(name)
        if column.role is Role.TAG or column.role is Role.ATTRIBUTE:
            return self._of_device(column)
        return self.source.read_cells(column, self.starts, self.stops)

    def _of_device(self, column: Column) -> Vector:
        """A tag's or an attribute's values: one look-up for all rows of a device, where it takes 32 bits and none is NULL."""
        found = self.source.table.devices.values(column.name)
        if found.validity is not None or found.values.dtype != np.int32:
            return found.take(self.device())
        return Vector(found.type, self.source.by_device(self.starts, self.stops, self.count, found.values), None, found.pool)

    def select(self, mask: BoolArray) -> FileRows:
        """The rows whose mask is set."""
        kept = int(np.count_nonzero(mask))
        if kept == self.count:
            return self
        starts = np.empty(kept, np.int64)
        stops = np.empty(kept, np.int64)
        count = ranges.select(self.starts, self.stops, mask, starts, stops)
        made = FileRows(self.source, starts[:count], stops[:count], kept)
        if self._device is not None:
            made._device = self._device[mask]
        return made

    def parts(self, rows_max: int) -> Iterator[FileRows]:
        """The same rows in order, at most so many at a time."""
        return (self.select(mask) for mask in _part_masks(self.count, rows_max))


class MergedRows:
    """Rows of which several files may hold versions; ``entries`` of one row are neighbours, oldest version first.

    ``stored_rows`` counts the stored rows that were looked at for these: every version, also those that a tombstone hides.
    """

    __slots__ = ("_device", "_time", "count", "entry_row", "entry_source", "groups", "sources", "stored_rows")

    def __init__(
        self, sources: list[FileSource], entry_source: NDArray[np.int32], entry_row: IntArray, groups: IntArray,
        device: NDArray[np.int32], time: IntArray, stored_rows: int,
    ) -> None:  # fmt: skip
        self.sources = sources
        self.entry_source = entry_source
        self.entry_row = entry_row
        self.groups = groups
        self._device = device
        self._time = time
        self.count = len(groups) - 1
        self.stored_rows = stored_rows

    def addresses(self) -> IntArray:
        """The address of every row's newest version."""
        newest = self.groups[1:] - 1
        index = np.array([source.index for source in self.sources], np.int64)[self.entry_source[newest]]
        return self.entry_row[newest] | (index << np.int64(ROW_ID_BITS))

    def device(self) -> NDArray[np.int32]:
        """The table-wide device of every row."""
        return self._device

    def time(self) -> IntArray:
        """Every row's time."""
        return self._time

    def read(self, name: str) -> Vector:
        """A column's values: of every field the newest version that gives one."""
        return self.sources[0].resolved(self.read_cells(name))

    def read_cells(self, name: str) -> Vector:
        """As ``read``, but of blobs outside of pages only where they are."""
        table = self.sources[0].table
        if name == ROW_ID_NAME:
            return Vector(INT64, self.addresses())
        column = self.sources[0].column(name)
        if column.role is Role.TIME:
            return Vector(column.type, self._time)
        if column.role is Role.TAG or column.role is Role.ATTRIBUTE:
            return device_values(table.devices, column, self._device)
        if self.count == 0:
            return null_vector(column.type, 0)
        entries = self._read_entries(column)
        chosen = np.empty(self.count, np.int64)
        valid = np.empty(self.count, np.bool_)
        nulls = merge.newest_valid(self.groups, entries.valid(), chosen, valid)
        return Vector(column.type, entries.values[chosen], valid if nulls else None, entries.pool)

    def _read_entries(self, column: Column) -> Vector:
        """The column's value in every version, in entry order."""
        parts: list[Vector] = []
        order: list[IntArray] = []
        for number, source in enumerate(self.sources):
            entries = np.flatnonzero(self.entry_source == number)
            if len(entries):
                starts, stops = coalesce(self.entry_row[entries])
                parts.append(source.read_cells(column, starts, stops))
                order.append(entries)
        joined = concat(parts)
        place = np.empty(len(self.entry_row), np.int64)
        place[np.concatenate(order)] = np.arange(len(place), dtype=np.int64)
        return joined.take(place)

    def select(self, mask: BoolArray) -> MergedRows:
        """The rows whose mask is set."""
        if bool(mask.all()):
            return self
        sizes = np.diff(self.groups)
        entries = np.repeat(mask, sizes)
        groups = np.zeros(int(np.count_nonzero(mask)) + 1, np.int64)
        np.cumsum(sizes[mask], out=groups[1:])
        kept = self.entry_source[entries], self.entry_row[entries]
        return MergedRows(self.sources, *kept, groups, self._device[mask], self._time[mask], len(kept[0]))

    def parts(self, rows_max: int) -> Iterator[MergedRows]:
        """The same rows in order, at most so many at a time."""
        return (self.select(mask) for mask in _part_masks(self.count, rows_max))


RowSet: TypeAlias = FileRows | MergedRows


def _part_masks(count: int, rows_max: int) -> Iterator[BoolArray]:
    place = np.arange(count)
    for start in range(0, max(count, 1), rows_max):
        yield (place >= start) & (place < start + rows_max)


def merge_rows(sources: ScanSources, held: Ranges, deletes: bool) -> MergedRows:
    """Bring rows of several files together by device and time, where the table keeps one row of these; else each stays a row.

    With ``deletes``, versions that a tombstone hides are left out first: they neither show nor show through.
    """
    table = sources.table
    device, time, entry_source, entry_row = [], [], [], []
    read = 0
    files = [sources[index] for index in held.files]
    for column, source in enumerate(files):
        first, last = held.starts[:, column], held.stops[:, column]
        some = first < last
        rows = FileRows(source, np.ascontiguousarray(first[some]), np.ascontiguousarray(last[some]))
        read += rows.count
        if deletes and rows.count and table.tombstones.may_hide(source.open_file):
            rows = rows.select(~_hidden(rows, table.tombstones))
        if rows.count:
            device.append(rows.device())
            time.append(rows.time())
            entry_source.append(np.full(rows.count, column, np.int32))
            entry_row.append(rows.positions())
    if not device:
        empty = np.empty(0, np.int64)
        return MergedRows(files, np.empty(0, np.int32), empty, np.zeros(1, np.int64), np.empty(0, np.int32), empty, read)
    devices, times = np.concatenate(device), np.concatenate(time)
    rank = table.devices.rank[devices].astype(np.int64)
    order = np.lexsort((times, rank))  # stable: versions of one row stay oldest first
    devices, times, rank = devices[order], times[order], rank[order]
    groups = np.arange(len(order) + 1, dtype=np.int64)
    if table.table.options.overlays:
        groups = groups[: merge.group_starts(rank, times, groups) + 1]
    first = groups[:-1]
    entries = np.concatenate(entry_source)[order], np.concatenate(entry_row)[order]
    return MergedRows(files, *entries, groups, devices[first], times[first], read)


def _hidden(rows: FileRows, tombstones: Tombstones) -> BoolArray:
    """Which rows of a file a tombstone hides."""
    file = rows.source.open_file
    return tombstones.hidden(file, rows.device(), rows.time(), lambda unsure: rows.select(unsure).read(SEQUENCE_NAME).values)


def coalesce(positions: IntArray) -> tuple[IntArray, IntArray]:
    """Ranges of ascending, distinct row numbers."""
    starts = np.empty(len(positions), np.int64)
    stops = np.empty(len(positions), np.int64)
    count = ranges.coalesce(positions, starts, stops)
    return starts[:count], stops[:count]


def device_values(devices: DeviceTable, column: Column, numbers: NDArray[np.int32]) -> Vector:
    """The tag or attribute values of devices."""
    return devices.values(column.name).take(numbers)
