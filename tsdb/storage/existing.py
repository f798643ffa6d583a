"""Which rows of a write are already there: the honest difference between inserted and updated.

Only files whose devices overlap the batch in time are looked at, and only their times are read. Most rows are newer than all that
their device has; a writer that keeps ``LastTimes`` need not look at all for these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tsdb.catalog.device import Int32Array
from tsdb.exec.kernels.sorting import mark_present
from tsdb.storage.arrange import SortedRows
from tsdb.storage.snapshot import TableFile
from tsdb.storage.tombstone import Tombstones
from tsdb_format.errors import Corruption, NotFound
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.vector import BoolArray, IntArray

#: Times read at once.
ROWS_AT_ONCE = 4 * 2**20
_INT64_MIN = -(2**63)


class LastTimes:
    """The last time that each device has a row at, or had before a delete: rows beyond it are new. One thread at a time."""

    def __init__(self, files: Iterable[TableFile]) -> None:
        """A file that cannot be read counts as having no rows, as everywhere here."""
        self._last = np.empty(0, np.int64)
        for file in files:
            try:
                self._raise(file.device_number, file.file.resource.max_time)
            except (Corruption, NotFound):
                continue

    def note(self, rows: SortedRows, time: str) -> None:
        """Take rows in that are stored from now on."""
        self._raise(rows.numbers, rows.columns[time].values[rows.row_start[1:] - 1])

    def note_row(self, number: int, time: int) -> None:
        """As ``note``, for one row."""
        if time > self.of(number):
            if number >= len(self._last):
                self._grow(np.array([number], np.int32))
            self._last[number] = time

    def of(self, number: int) -> int:
        """The last time of a device."""
        return self._last.item(number) if number < len(self._last) else _INT64_MIN

    def reached(self, rows: SortedRows, time: str) -> BoolArray:
        """Which of the rows' devices have a first time that is not beyond what is stored."""
        self._grow(rows.numbers)
        reached: BoolArray = rows.columns[time].values[rows.row_start[:-1]] <= self._last[rows.numbers]
        return reached

    def _raise(self, numbers: Int32Array, times: IntArray) -> None:
        self._grow(numbers)
        self._last[numbers] = np.maximum(self._last[numbers], times)

    def _grow(self, numbers: Int32Array) -> None:
        count = int(numbers.max(initial=-1)) + 1
        if count > len(self._last):
            grown = np.full(max(count, 2 * len(self._last)), _INT64_MIN)
            grown[: len(self._last)] = self._last
            self._last = grown


def count_existing(
    files: Iterable[TableFile], device_count: int, rows: SortedRows, time: str, tombstones: Tombstones | None = None,
    chosen: BoolArray | None = None,
) -> int:  # fmt: skip
    """How many of the rows have the (device, time) of a row in ``files`` that no tombstone hides; ``time`` names their times.

    ``chosen``: which of the rows' devices are looked for, None all; see ``LastTimes``. A file that cannot be read counts as having
    none: it is named when its rows are asked for, and must not stop new ones.
    """
    wanted = np.arange(len(rows.numbers)) if chosen is None else np.flatnonzero(chosen)
    if not len(wanted):
        return 0
    times = rows.columns[time].values
    starts, stops = rows.row_start[:-1], rows.row_start[1:]
    low, high = times[starts], times[stops - 1]
    first, final = int(low[wanted].min()), int(high[wanted].max())
    batch = _Batch(rows.numbers, wanted, device_count, low, high)
    present = np.zeros(len(times), np.bool_)
    found = 0
    for file in files:
        if file.max_time < first or file.min_time > final:
            continue
        try:
            for devices, bounds, other in _overlapping_times(file, batch, first, final, tombstones or Tombstones.none()):
                found += mark_present(times, starts[devices], stops[devices], other, bounds, present)
        except (Corruption, NotFound):
            continue
    return found


class _Batch:
    """The devices that are looked for, and the time range of each one's rows."""

    def __init__(self, numbers: Int32Array, wanted: IntArray, device_count: int, low: IntArray, high: IntArray) -> None:
        self.low = low
        self.high = high
        self._number = int(numbers[wanted[0]])
        self._only = int(wanted[0])
        self._row: Int32Array | None = None
        if len(wanted) > 1:
            self._row = np.full(device_count, -1, np.int32)
            self._row[numbers[wanted]] = wanted

    def runs_in(self, numbers: Int32Array) -> tuple[IntArray, Int32Array]:
        """The runs of a file, by its devices' ``numbers``, that are of wanted devices; and which of the batch's each one is of."""
        if self._row is None:
            runs = np.flatnonzero(numbers == self._number)
            return runs, np.full(len(runs), self._only, np.int32)
        of_run = self._row[numbers]
        runs = np.flatnonzero(of_run >= 0)
        return runs, of_run[runs]


def _overlapping_times(
    file: TableFile, batch: _Batch, first: int, final: int, tombstones: Tombstones
) -> Iterator[tuple[Int32Array, IntArray, IntArray]]:
    """(batch devices, bounds, times): the file's times of devices that overlap, some devices at a time."""
    data = file.file
    runs, devices = batch.runs_in(file.device_number)
    times = data.resource
    overlap = (times.min_time[runs] <= batch.high[devices]) & (times.max_time[runs] >= batch.low[devices])
    runs, devices = runs[overlap], devices[overlap]
    if not len(runs):
        return
    name = data.schema.time.name
    starts, stops = data.row_start[runs], data.row_start[runs + 1]
    starts, stops = data.search(name, starts, stops, first, False), data.search(name, starts, stops, final, True)
    some = starts < stops
    runs, devices, starts, stops = runs[some], devices[some], starts[some], stops[some]
    edges = np.concatenate([[0], np.cumsum(stops - starts)])
    at = 0
    while at < len(runs):
        end = max(at + 1, int(np.searchsorted(edges, edges[at] + ROWS_AT_ONCE, side="right")) - 1)
        part = slice(at, end)
        bounds = edges[at : end + 1] - edges[at]
        found = data.read(name, starts[part], stops[part]).values
        gone = _hidden(file, runs[part], starts[part], stops[part], found, tombstones)
        if gone is not None:
            found, bounds = found[~gone], np.concatenate([[0], np.cumsum(~gone)])[bounds]
        yield devices[part], bounds, found
        at = end


def _hidden(
    file: TableFile, runs: IntArray, starts: IntArray, stops: IntArray, times: IntArray, tombstones: Tombstones
) -> BoolArray | None:
    """Which rows of the ranges, one per run, are gone; None where no tombstone can matter to the file."""
    if not tombstones.may_hide(file):
        return None
    device = np.repeat(file.device_number[runs], stops - starts)
    return tombstones.hidden(file, device, times, lambda unsure: file.file.read(SEQUENCE_NAME, starts, stops).values[unsure])
