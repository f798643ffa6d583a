"""What queries ask of a table's rows, wherever these are: rows of devices in tag order and time order, in pages with statistics.

Stored files (``StoredFile``) and rows in memory (``memory_file``) both answer to ``DataFile``, so that every operator reads both by
the same code, and prunes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import runs
from tsdb.storage.last_cache import FileEdges
from tsdb_format.ball import Balls
from tsdb_format.encoding import VectorRows
from tsdb_format.encoding.fold import PageStack, StoredFold, fold_pages, fold_stack, is_foldable, stack_pages
from tsdb_format.encoding.search import search_sorted
from tsdb_format.payload import PayloadFiles
from tsdb_format.reader import TsFile
from tsdb_format.schema import Schema
from tsdb_format.statistics import Statistics
from tsdb_format.vector import IntArray, Vector

Int32Array = NDArray[np.int32]


class TimeIndex(Protocol):
    """A file's time index: one element per device of the file."""

    @property
    def min_time(self) -> IntArray:
        """Each device's first time."""

    @property
    def max_time(self) -> IntArray:
        """Each device's last time."""

    @property
    def by_min_time(self) -> Int32Array:
        """Devices by min time ascending; ties in tag order."""

    @property
    def by_max_time(self) -> Int32Array:
        """Devices by max time descending; ties in tag order."""


class DataFile(Protocol):
    """Rows sorted by (tags, time). Never changes; threads may share it. Columns go by the names that ``schema`` gives them."""

    row_count: int
    rows_per_page: int
    page_count: int
    chunk_count: int
    device_count: int

    @property
    def schema(self) -> Schema:
        """The columns there are, without the hidden ``_sn``."""

    @property
    def searched_rows_min(self) -> int:
        """Mean rows of some runs from which ``search`` is cheaper than reading their times."""

    @property
    def summarized_rows_min(self) -> int:
        """Rows of a file from which looking at statistics of values is cheaper than looking at the values."""

    @property
    def row_start(self) -> IntArray:
        """First row of each device, and the row count at the end."""

    @property
    def resource(self) -> TimeIndex:
        """The time index by device."""

    def statistics(self, name: str, level: str) -> Statistics:
        """Statistics of a TIME, FIELD or ``_sn`` column per 'page', 'chunk' or 'file'."""

    def balls(self, name: str) -> Balls | None:
        """Where the vectors of a VECTOR column lie; None where that is not known."""

    def vectors(self, name: str, starts: IntArray, stops: IntArray) -> VectorRows:
        """The rows of such ranges of a VECTOR column, where they are."""

    @property
    def payload_files(self) -> PayloadFiles | None:
        """Where blobs outside of pages are read from; None for rows in memory, which do not know their table's folder."""

    @property
    def edges(self) -> FileEdges | None:
        """What is kept of the first and last rows of devices; None for rows in memory, which are there anyway."""

    def read(self, name: str, starts: IntArray, stops: IntArray) -> Vector:
        """The rows of the given ranges (ascending, apart, none empty), end to end, in arrays of their own. Not for blobs."""

    def read_cells(self, name: str, starts: IntArray, stops: IntArray) -> Vector:
        """As ``read``, of any column: of blobs outside of pages only where they are (see ``payload.resolve``)."""

    def fold(
        self, wants: Mapping[str, int], starts: IntArray, stops: IntArray, segment_stop: IntArray
    ) -> Mapping[str, StoredFold | None]:
        """Sums and bounds by segment of such ranges' rows (see ``fold_stack``), of columns that need not be read for that."""

    def search(self, name: str, starts: IntArray, stops: IntArray, key: int, side_right: bool) -> IntArray:
        """Per range the first row whose value is ≥ ``key`` (> with ``side_right``), or its stop; values ascend within a range."""

    def page_bytes(self, name: str) -> IntArray:
        """Stored bytes of each page of a column; 0 for what is in memory."""


class StoredFile(TsFile):
    """A data file on disk."""

    #: Statistics are there already.
    summarized_rows_min = 0

    @cached_property
    def _stacks(self) -> dict[tuple[tuple[str, int], ...], tuple[tuple[str, ...], PageStack | None]]:
        return {}

    @cached_property
    def edges(self) -> FileEdges:
        """What is kept of the first and last rows of devices."""
        return FileEdges()

    @property
    def searched_rows_min(self) -> int:
        """Mean rows of some runs from which ``search`` is cheaper than reading their times: those take whole pages."""
        return min(_SEARCHED_ROWS_MIN, 2 * self.rows_per_page)

    def fold(
        self, wants: Mapping[str, int], starts: IntArray, stops: IntArray, segment_stop: IntArray
    ) -> Mapping[str, StoredFold | None]:
        """Sums and bounds by segment of some ranges' rows, of columns that need not be read for that."""
        names, stack = self._stack(tuple(wants.items()))
        found: dict[str, StoredFold | None] = {}
        if stack is not None:
            found.update(zip(names, fold_stack(stack, starts, stops, segment_stop), strict=True))
        if len(found) < len(wants):
            for name in wants.keys() - names:
                found[name] = fold_pages(self.page_set(name), starts, stops, segment_stop, wants[name])
        return found

    def _stack(self, wants: tuple[tuple[str, int], ...]) -> tuple[tuple[str, ...], PageStack | None]:
        """Those of some columns that can be folded at once, and their pages; kept, since the same few are asked for."""
        known = self._stacks.get(wants)
        if known is None:
            held = {name: self.page_set(name) for name, _ in wants}
            some = tuple(name for name, pages in held.items() if is_foldable(pages) and not pages.has_compression)
            bits = [bits for name, bits in wants if name in some]
            known = some, stack_pages([held[name] for name in some], bits) if some else None
            if len(self._stacks) >= _STACKS_MAX:
                self._stacks.clear()
            self._stacks[wants] = known
        return known

    def search(self, name: str, starts: IntArray, stops: IntArray, key: int, side_right: bool) -> IntArray:
        """Per range the first row whose value is ≥ ``key`` (> with ``side_right``), or its stop.

        Statistics leave at most three pages of each range; blocks of these are decoded.
        """
        first, last = starts.copy(), stops.copy()
        runs.narrow(first, last, self.rows_per_page, self.statistics(name, "page").max, key, int(side_right))
        return search_sorted(self.page_set(name), first, last, key, side_right)

    def page_bytes(self, name: str) -> IntArray:
        """Bytes of each page of a column."""
        return self.page_set(name).page_bytes


#: Sets of columns of a file of which the stacked pages are kept.
_STACKS_MAX = 16
#: A search costs a block or two; runs that are shorter together than about two blocks each are cheaper to read.
_SEARCHED_ROWS_MIN = 2_048
