"""Row sources: the files of one table as one scan sees them, counting what is touched.

A ``FileSource`` is a file within one execution. It maps the table's columns (by id) onto the file's, reads row ranges of them, and
marks every page it touches, so that counters are facts and not estimates.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import ranges
from tsdb_format.payload import resolve
from tsdb_format.recycling import recycled
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME, Column, Schema
from tsdb_format.statistics import Statistics
from tsdb_format.types import INT64, Role
from tsdb_format.vector import IntArray, Vector, null_vector

if TYPE_CHECKING:
    from tsdb.exec.distance import DistanceColumn
    from tsdb.exec.stats import ScanStats
    from tsdb.storage.data_file import DataFile
    from tsdb.storage.snapshot import TableFile, TableSnapshot
    from tsdb_format.encoding.fold import StoredFold


#: Name of the hidden row address column: file position in the snapshot and row within the file.
ROW_ID_NAME = "_rowid"
ROW_ID_COLUMN = Column(ROW_ID_NAME, INT64, Role.SEQUENCE, -1)
#: Columns that a scan computes, by name.
Computed: TypeAlias = "Mapping[str, DistanceColumn]"
NOTHING_COMPUTED: Computed = MappingProxyType({})
#: Readings that are noted before they are counted, and ranges of one that are not kept for later.
_TOUCHED_MAX = 64
_RANGES_MAX = 4_096
_NUMBERS_THEMSELVES = np.empty(0, np.int32)


class FileSource:
    """One open file within one scan."""

    __slots__ = (
        "_bytes_seen", "_lock", "_names", "_page_seen", "_touched", "answered", "computed", "file", "index", "open_file",
        "rows_per_page", "stats", "table",
    )  # fmt: skip

    def __init__(
        self, table: TableSnapshot, open_file: TableFile, index: int, stats: ScanStats, computed: Computed = NOTHING_COMPUTED
    ) -> None:
        self.table = table
        self.computed = computed
        self.open_file = open_file
        self.file: DataFile = open_file.file
        self.index = index
        self.stats = stats
        self.rows_per_page = self.file.rows_per_page
        self._page_seen = np.zeros(self.file.page_count, np.uint8)
        #: Columns and ranges that were touched and are not counted yet.
        self._touched: deque[tuple[str, IntArray, IntArray]] = deque()
        #: Ranges of rows that statistics answered for.
        self.answered: list[tuple[IntArray, IntArray]] = []
        self._bytes_seen: dict[str, NDArray[np.uint8]] = {}
        self._lock = threading.Lock()
        self._names = {column.id: column.name for column in self.file.schema}

    def column(self, name: str) -> Column:
        """A column of the table or of the scan by name, the hidden sequence column included."""
        return self.computed.get(name) or table_column(self.table, name)

    def stored_name(self, column: Column) -> str | None:
        """The file's name for a stored column of the table; None where the file was written before the column existed."""
        return column.name if column is SEQUENCE_COLUMN else self._names.get(column.id)

    def read(self, column: Column, starts: IntArray, stops: IntArray) -> Vector:
        """Values of a TIME, FIELD or ``_sn`` column in the row ranges, end to end."""
        return self.resolved(self.read_cells(column, starts, stops))

    def read_cells(self, column: Column, starts: IntArray, stops: IntArray) -> Vector:
        """As ``read``, but of blobs outside of pages only where they are: no byte of them is read."""
        computed = self.computed.get(column.name)
        if computed is not None:
            return computed.read(self, starts, stops)
        name = self.stored_name(column)
        if name is None:
            return null_vector(column.type, int((stops - starts).sum()))
        self.touch(name, starts, stops)
        return self.file.read_cells(name, starts, stops)

    def resolved(self, cells: Vector) -> Vector:
        """The values of some of the table's cells: blobs outside of pages are read, and counted."""
        if cells.pool is None or cells.pool.kinds is None or self.table.gives_cells:
            return cells
        files = self.file.payload_files or self.table.payloads
        assert files is not None, "blobs of rows in memory are outside of it only in tables of a database"
        found, size = resolve(cells, files)
        self.stats.add_blob_bytes(size)
        return found

    def fold(
        self, wants: Mapping[str, int], starts: IntArray, stops: IntArray, segment_stop: IntArray
    ) -> dict[str, StoredFold | None]:
        """Sums and bounds of FIELD or ``_sn`` columns by segment of the row ranges, those that need not be read for that."""
        names: dict[str, str] = {}
        asked: dict[str, int] = {}
        for name, bits in wants.items():
            held = self.stored_name(table_column(self.table, name))
            if held is not None:
                names[held], asked[held] = name, bits
        made: dict[str, StoredFold | None] = {}
        for held, fold in self.file.fold(asked, starts, stops, segment_stop).items():
            if fold is not None and asked[held]:
                self.touch(held, starts, stops)
            made[names[held]] = fold
        return made

    def touch(self, name: str, starts: IntArray, stops: IntArray) -> None:
        """Note the pages of a stored column that ranges lie in; few ranges are counted later, and many of them at once."""
        self._touched.append((name, starts, stops))
        if len(self._touched) >= _TOUCHED_MAX or len(starts) > _RANGES_MAX:
            self.count_touched()

    def count_touched(self) -> None:
        """Count what was noted."""
        with self._lock:
            while self._touched:
                name, starts, stops = self._touched.popleft()
                seen = self._bytes_seen.get(name)
                if seen is None:
                    seen = self._bytes_seen[name] = np.zeros(self.file.page_count, np.uint8)
                page_bytes = self.file.page_bytes(name)
                self.stats.add_bytes(ranges.touch(starts, stops, self.rows_per_page, page_bytes, seen, self._page_seen))

    @property
    def page_seen(self) -> NDArray[np.uint8]:
        """1 for each page of which something was read."""
        self.count_touched()
        return self._page_seen

    def by_device(
        self, starts: IntArray, stops: IntArray, count: int, values: NDArray[np.int32] = _NUMBERS_THEMSELVES
    ) -> NDArray[np.int32]:
        """The table-wide device of every row of the ranges, or what ``values`` has of it."""
        out = recycled(count, np.int32)
        ranges.repeat_by_device(self.file.row_start, self.open_file.device_number, values, starts, stops, out)
        return out

    def statistics(self, column: Column, level: str) -> Statistics | None:
        """Statistics of a stored column, or None where the file does not have it; of a computed one bounds of its pages."""
        computed = self.computed.get(column.name)
        if computed is not None:
            return computed.statistics(self) if level == "page" else None
        name = self.stored_name(column)
        return None if name is None else self.file.statistics(name, level)


class ScanSources:
    """The files of one table within one scan, opened when first needed."""

    def __init__(self, table: TableSnapshot, stats: ScanStats, computed: Computed = NOTHING_COMPUTED) -> None:
        self.table = table
        self.stats = stats
        self.computed = computed
        self._opened: list[FileSource | None] = [None] * len(table.files)

    def __len__(self) -> int:
        return len(self._opened)

    def __getitem__(self, index: int) -> FileSource:
        source = self._opened[index]
        if source is None:
            source = self._opened[index] = FileSource(self.table, self.table.files[index], index, self.stats, self.computed)
        return source

    def column(self, name: str) -> Column:
        """A column of the table or of the scan by name, the hidden ones included."""
        if name == ROW_ID_NAME:
            return ROW_ID_COLUMN
        return self.computed.get(name) or table_column(self.table, name)

    def count_touched(self) -> None:
        """Count all that was noted."""
        for source in self.opened():
            source.count_touched()

    def opened(self) -> list[FileSource]:
        """The sources that this scan has needed so far."""
        return [source for source in self._opened if source is not None]


def table_column(table: TableSnapshot, name: str) -> Column:
    """A column of the table by name, the hidden sequence column included."""
    return column_of(table.table.schema, name)


def column_of(schema: Schema, name: str) -> Column:
    """As ``table_column``, of a table with these columns."""
    return SEQUENCE_COLUMN if name == SEQUENCE_NAME else schema.column(name)
