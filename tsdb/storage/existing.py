"""Which rows of a write are already there: the honest difference between inserted and updated.

Only files whose devices overlap the batch in time are looked at, and only their times are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tsdb.catalog.device import Int32Array
from tsdb.exec.kernels.sorting import mark_present
from tsdb.storage.arrange import SortedRows
from tsdb.storage.snapshot import OpenFile
from tsdb_format.encoding.search import search_sorted
from tsdb_format.errors import Corruption, NotFound
from tsdb_format.vector import IntArray

#: Times read at once.
ROWS_AT_ONCE = 4 * 2**20


def count_existing(files: Iterable[OpenFile], device_count: int, rows: SortedRows, time: str) -> int:
    """How many of the rows have the (device, time) of a row in ``files``.

    A file that cannot be read counts as having none: it is named when its rows are asked for, and must not stop new ones.
    """
    times = rows.columns[time].values
    starts, stops = rows.row_start[:-1], rows.row_start[1:]
    low, high = times[starts], times[stops - 1]
    first, final = int(low.min()), int(high.max())
    device_row = np.full(device_count, -1, np.int32)
    device_row[rows.numbers] = np.arange(len(rows.numbers), dtype=np.int32)
    present = np.zeros(len(times), np.bool_)
    found = 0
    for file in files:
        if file.max_time < first or file.min_time > final:
            continue
        try:
            for runs, bounds, other in _overlapping_times(file, device_row, low, high, first, final, time):
                found += mark_present(times, starts[runs], stops[runs], other, bounds, present)
        except (Corruption, NotFound):
            continue
    return found


def _overlapping_times(
    file: OpenFile, device_row: Int32Array, low: IntArray, high: IntArray, first: int, final: int, time: str
) -> Iterator[tuple[Int32Array, IntArray, IntArray]]:
    """(batch devices, bounds, times): the file's times of devices that overlap, some devices at a time."""
    data = file.file
    resource = data.resource
    run = device_row[file.device_number]
    overlap = np.flatnonzero((run >= 0) & (resource.min_time <= high[run]) & (resource.max_time >= low[run]))
    if not len(overlap):
        return
    starts, stops = data.row_start[overlap], data.row_start[overlap + 1]
    pages = data.page_set(time)
    starts, stops = search_sorted(pages, starts, stops, first, False), search_sorted(pages, starts, stops, final, True)
    some = starts < stops
    overlap, starts, stops = overlap[some], starts[some], stops[some]
    edges = np.concatenate([[0], np.cumsum(stops - starts)])
    at = 0
    while at < len(overlap):
        end = max(at + 1, int(np.searchsorted(edges, edges[at] + ROWS_AT_ONCE, side="right")) - 1)
        bounds = edges[at : end + 1] - edges[at]
        yield run[overlap[at:end]], bounds, data.read(time, starts[at:end], stops[at:end]).values
        at = end
