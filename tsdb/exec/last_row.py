"""LastRow: the newest (or oldest) rows of every group of devices, from the per-device time index and as little else as possible.

Every group has a threshold of its own, the time of its worst row that would still be shown. The time index gives the first ones:
where no value is filtered, a run's last time is that of a row which exists. Runs that cannot beat their group's threshold are left
out; the others are read from their better end, a piece at a time, until the rest of each is hopeless. So the newest row of a
device is one row of one run, and its time and tags need no reading at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.batch import Batch
from tsdb.exec.candidates import empty_batch
from tsdb.exec.device_group import groups_of
from tsdb.exec.edge_rows import Edge
from tsdb.exec.gather import BY_ADDRESS, gather
from tsdb.exec.kernels import runs as run_kernels
from tsdb.exec.lane import FileLane, Lane, Ranges
from tsdb.exec.rows import ROW_ID_BITS, MergedRows, RowSet, device_values
from tsdb.exec.run_part import part
from tsdb.exec.selection import INT64_MAX, MERGED_RUNS_MAX, Selection
from tsdb.plan.grouping import ColumnKey
from tsdb.plan.node import LastRow
from tsdb_format.parallel import ordered_map
from tsdb_format.recycling import recycled
from tsdb_format.types import Role
from tsdb_format.vector import BoolArray, IntArray, Vector

Int32Array = NDArray[np.int32]
#: Rows of all runs together that a round reads at first, where values must be filtered; at least so many of each run.
_ROUND_ROWS = 262_144
_PIECE_MIN, _PIECE_MAX = 16, 1_024
_NO_MASK = np.empty(0, np.bool_)
#: Rows that wait to be compared with the best of their groups.
_PENDING_MAX = 1_048_576
#: With every round a run's next piece is so many times larger.
_GROWTH = 4


def last_row(node: LastRow, names: tuple[str, ...], selection: Selection, threads: int, cache_bytes: int = 0) -> Batch:
    """The rows of a LastRow over a table scan with the columns ``names``, group by group, best first.

    Unless ``selection.best_first``, every selected row is read. ``cache_bytes`` is what the last cache may take.
    """
    if selection.is_empty or node.limit < 1:
        return empty_batch(selection.sources, names)
    return _LastRowScan(node, selection, threads, cache_bytes).run(names)


@dataclass(slots=True, eq=False)
class _Pending:
    """What of some runs of a lane may still matter: row ranges, and per run the key of its best row, or better, and its group."""

    lane: Lane
    held: Ranges
    keys: IntArray
    groups: IntArray
    piece_rows: int

    def select(self, keep: BoolArray) -> _Pending:
        """Some of the runs."""
        held = Ranges(self.held.files, self.held.starts[keep], self.held.stops[keep])
        return _Pending(self.lane, held, self.keys[keep], self.groups[keep], self.piece_rows)


class _Found(NamedTuple):
    """Rows that may be shown: ``key`` is the time, or its complement where the newest are wanted; smaller is better."""

    device: Int32Array
    key: IntArray
    address: IntArray
    origin: IntArray
    ordinal: IntArray


class _Best:
    """The best row of each group so far, and the groups' thresholds: its key, or of one that is known to exist."""

    def __init__(self, group: IntArray, rank: Int32Array, count: int) -> None:
        self.group = group
        self.rank = rank
        self.threshold, self._device = recycled(count, np.int64), recycled(count, np.int32)
        self.threshold.fill(INT64_MAX)
        self._device.fill(-1)
        self._key, self._address, self._origin, self._ordinal = (recycled(count, np.int64) for _ in range(4))

    def add(self, device: Int32Array, key: IntArray, address: IntArray, origin: np.int64) -> None:
        """Take in those of some rows that are better; their places among them are their ordinals."""
        run_kernels.improve(
            device, key, address, origin, self.group, self.rank, self.threshold,
            self._device, self._key, self._address, self._origin, self._ordinal,
        )  # fmt: skip

    def settle(self) -> _Found | None:
        """The best rows, group by group."""
        found = _Found(self._device, self._key, self._address, self._origin, self._ordinal)
        some = self._device >= 0
        if some.all():
            return found if len(some) else None
        return _Found._make(column[some] for column in found) if some.any() else None


class _BestFew:
    """The best ``limit`` rows of each group so far, and the groups' thresholds: the keys of their worst, or no bound."""

    def __init__(self, group: IntArray, rank: Int32Array, count: int, limit: int) -> None:
        self.group = group
        self.rank = rank
        self.threshold = np.full(count, INT64_MAX)
        self._limit = limit
        self._found: list[_Found] = []
        self._settled: _Found | None = None
        self._pending = 0

    def add(self, device: Int32Array, key: IntArray, address: IntArray, origin: np.int64) -> None:
        """Take in those of some rows that the thresholds do not exclude; their places among them are their ordinals."""
        ordinal = np.flatnonzero(key <= self.threshold[self.group[device]])
        if len(ordinal):
            self._found.append(_Found(device[ordinal], key[ordinal], address[ordinal], np.full(len(ordinal), origin), ordinal))
            self._pending += len(ordinal)
            if self._pending > _PENDING_MAX:
                self.settle()

    def settle(self) -> _Found | None:
        """Drop what is not among the best, tighten the thresholds; the rows that are left, group by group, best first."""
        if not self._pending:
            return self._settled
        rows = self._found[0]
        if len(self._found) > 1:
            rows = _Found._make(np.concatenate(columns) for columns in zip(*self._found, strict=True))
        group = self.group[rows.device]
        if len(group) > 1 and not bool((group[1:] > group[:-1]).all()):  # else it is one row each, in order
            order = np.lexsort((rows.address, self.rank[rows.device], rows.key, group))
            rows, group = _Found._make(column[order] for column in rows), group[order]
        first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
        size = np.diff(np.append(first, len(group)))
        if int(size.max()) > self._limit:
            keep = np.arange(len(group)) - np.repeat(first, size) < self._limit
            rows, group = _Found._make(column[keep] for column in rows), group[keep]
            size = np.minimum(size, self._limit)
        full = size == self._limit
        worst = (np.cumsum(size) - 1)[full]
        at = group[worst]
        self.threshold[at] = np.minimum(self.threshold[at], rows.key[worst])
        self._found, self._settled, self._pending = [rows], rows, 0
        return rows


class _LastRowScan:
    def __init__(self, node: LastRow, selection: Selection, threads: int, cache_bytes: int) -> None:
        self.selection = selection
        self._cache_bytes = cache_bytes
        self.table = selection.table
        self.newest = not node.oldest
        self.limit = node.limit
        self.threads = threads
        groups, _ = groups_of(self.table.devices, [ColumnKey(name, name) for name in node.keys])
        self.group = groups.of_device
        described = self.group, self.table.devices.rank, groups.count
        self.best = _Best(*described) if node.limit == 1 else _BestFew(*described, node.limit)
        self._limits = np.array([selection.time_low, selection.time_high, self.newest], np.int64)
        #: A run's better ``limit`` stored rows are all that can matter of it, as far as they surely are rows.
        self.capped = not selection.filters_rows and self.table.table.options.overlays
        self._merged: dict[int, MergedRows] = {}

    def run(self, names: tuple[str, ...]) -> Batch:
        lanes = self.selection.lanes() if self.selection.best_first else []
        if not self.selection.best_first:
            self._take(self.selection.row_sets())
        elif self.capped:
            for lane in lanes:
                self._witness(lane)
        pending = [step for lane in lanes for step in self._wanted(lane)]
        while pending:
            left = [step for each in pending if (step := self._read(each)) is not None]
            self.best.settle()
            pending = [hopeful for step in left if (hopeful := self._hopeful(step)) is not None]
        rows = self.best.settle()
        return empty_batch(self.selection.sources, names) if rows is None else self._batch(rows, names)

    # ------------------------------------------------------------------------------------------------ runs

    def _witness(self, lane: Lane) -> None:
        """Tighten thresholds by rows that the time index proves to exist."""
        if self.limit == 1 and lane.certain:
            run_kernels.prove(*self._described(lane), self._limits, self.best.threshold)
        elif isinstance(lane, FileLane):  # a merged run's versions may be fewer rows
            runs, partial = self.selection.wanted_runs(lane)
            held = lane.bounds(runs)
            runs = runs[((held.stops - held.starts)[:, 0] >= self.limit) & ~partial]
            keys = ~lane.min_time[runs] if self.newest else lane.max_time[runs]
            np.minimum.at(self.best.threshold, self.group[lane.device[runs]], keys)

    def _described(self, lane: Lane) -> tuple[Any, ...]:
        """What kernels ask about the runs of a lane."""
        skip = _NO_MASK if lane.merged is None else lane.merged
        return lane.min_time, lane.max_time, lane.device, skip, self.selection.device_mask, self.group

    def _wanted(self, lane: Lane) -> Iterator[_Pending]:
        """The lane's runs that may matter, some at a time where they span files."""
        room = len(lane.min_time)
        runs, keys, partial = recycled(room, np.int64), recycled(room, np.int64), recycled(room, np.bool_)
        count = run_kernels.contend(
            *self._described(lane), self._limits, self.best.threshold, runs, partial.view(np.uint8), keys
        )  # fmt: skip
        step = count if isinstance(lane, FileLane) else MERGED_RUNS_MAX
        for at in range(0, count, max(step, 1)):
            some = slice(at, min(at + step, count))
            self.selection.count_runs(some.stop - some.start)
            yield self._begun(lane, runs[some], partial[some], keys[some])

    def _begun(self, lane: Lane, runs: IntArray, partial: BoolArray, keys: IntArray) -> _Pending:
        """Newly wanted runs; those whose best rows are known already are not read."""
        if isinstance(lane, FileLane) and self.capped and self.limit == 1:
            known = ~partial
            if partial.any():  # the bounds may cut the other end alone
                low, high = self.selection.time_low, self.selection.time_high
                known |= (lane.max_time[runs] <= high) if self.newest else (lane.min_time[runs] >= low)
            self._take_known(lane, *((runs, keys) if known.all() else (runs[known], keys[known])))
            runs, partial, keys = runs[~known], partial[~known], keys[~known]
        held, groups = lane.bounds(runs), self.group[lane.device[runs]]
        held = self.selection.cut_ranges(held, partial, self.selection.time_low, self.selection.time_high)
        piece = self.limit
        if not (self.capped and lane.certain):
            piece = max(piece, min(max(_ROUND_ROWS // max(len(keys), 1), _PIECE_MIN), _PIECE_MAX))
        return _Pending(lane, held, keys, groups, piece)

    def _take_known(self, lane: FileLane, runs: IntArray, keys: IntArray) -> None:
        """Take in the best rows of runs, which are known without reading."""
        start = self.selection.sources[lane.files[0]].file.row_start
        rows, device = start[1:] if self.newest else start[:-1], lane.device
        if len(runs) < len(device):
            rows, device = rows[runs], device[runs]
        self.selection.stats.add_rows(len(rows))
        address = np.add(rows, np.int64((lane.files[0] << ROW_ID_BITS) - self.newest), out=recycled(len(rows), np.int64))
        self.best.add(device, keys, address, BY_ADDRESS)

    def _hopeful(self, step: _Pending) -> _Pending | None:
        """Those of the runs that the thresholds of by now do not exclude."""
        keep = step.keys <= self.best.threshold[step.groups]
        return step.select(keep) if keep.any() else None

    # ------------------------------------------------------------------------------------------------ rows

    def _read(self, step: _Pending) -> _Pending | None:
        """Read the better end of some runs; what is left of them."""
        if not len(step.keys):
            return None
        done = self.capped and step.lane.certain and step.piece_rows >= self.limit
        parted = part(self.selection, step.held, step.piece_rows, self.newest, rest=not done)
        self._take(self.selection.rows_of_runs(step.lane, *parted.better))
        if parted.worse is None or not parted.some.any():
            return None
        some = parted.some
        edge = ~parted.edge if self.newest else parted.edge
        return _Pending(step.lane, parted.worse, edge[some], step.groups[some], step.piece_rows * _GROWTH)

    def _take(self, row_sets: Iterable[RowSet]) -> None:
        """Take in what the predicate leaves of row sets."""
        for rows, time in ordered_map(self._filtered, row_sets, self.threads, first_alone=True):
            if not rows.count:
                continue
            origin = BY_ADDRESS
            if isinstance(rows, MergedRows):
                origin = np.int64(len(self._merged))
                self._merged[len(self._merged)] = rows
            self.best.add(rows.device(), ~time if self.newest else time, rows.addresses(), origin)

    def _filtered(self, rows: RowSet) -> tuple[RowSet, IntArray]:
        """The rows that satisfy the predicate, and their times."""
        self.selection.stats.add_rows(rows.stored_rows)
        rows = self.selection.filtered(rows)
        return rows, rows.time() if rows.count else np.empty(0, np.int64)

    def _batch(self, rows: _Found, names: tuple[str, ...]) -> Batch:
        """The columns of the rows that were found; times and tags are known, only fields are read."""
        columns = {name: self.selection.sources.column(name) for name in names}
        stored = [name for name, column in columns.items() if column.role not in (Role.TIME, Role.TAG, Role.ATTRIBUTE)]
        read: dict[str, Vector] = {}
        if stored:
            edge = Edge(self.newest, self._cache_bytes)
            read = gather(self.selection.sources, self._merged, *rows[2:], stored, self.threads, edge)
        made: dict[str, Vector] = {}
        for name, column in columns.items():
            if column.role is Role.TIME:
                made[name] = Vector(column.type, ~rows.key if self.newest else rows.key)
            else:
                made[name] = read[name] if name in read else device_values(self.table.devices, column, rows.device)
        return Batch(made, len(rows.key))
