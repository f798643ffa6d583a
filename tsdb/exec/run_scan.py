"""Time- and tag-led orders: device runs best first, from the per-device time index, each read from its better end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tsdb.exec.candidates import Candidates, device_keys
from tsdb.exec.intake import Intake
from tsdb.exec.kernels import runs as run_kernels
from tsdb.exec.lane import Lane, Ranges
from tsdb.exec.order import VALUE
from tsdb.exec.run_part import part
from tsdb.exec.runtime_filter import ANY_TIE, Threshold
from tsdb.exec.selection import INT64_MAX, INT64_MIN, Selection
from tsdb_format.types import Role
from tsdb_format.vector import IntArray

#: Device runs looked at in the first step; the number doubles with every step, since a few usually decide.
_FIRST_RUNS = 8
_RUNS_MAX = 4_096
#: Better rows of a run read at first when values must be filtered; four times as many with every return to the run.
_FIRST_PIECE = 1_024
#: Rows at a run's better end up to which reading them is cheaper than searching for the threshold first.
_UNSEARCHED_ROWS = 64
#: Rows that one step may read, whatever the number of runs.
_STEP_ROWS = 1_048_576
_EMPTY = np.empty(0, np.int64)
_NO_ORDER = np.empty(0, np.int32)
_NO_MASK = np.empty(0, np.bool_)
#: What the kernel calls the kinds of tie.
_TIES = {None: 0, "rank": 1, "time": 2}


@dataclass(slots=True, eq=False)
class _Pending:
    """Older parts of runs that were read in part: row ranges, each run's best key and tie, and the next piece's size."""

    lane: Lane
    held: Ranges
    keys: IntArray
    ties: IntArray
    piece_rows: int


class _Queue:
    """The runs of one lane, best first, as far as they have been asked for.

    ``run_key`` holds each run's key, empty where it is its best time. ``next_key`` is the key of the next run, or better: before
    the queue is opened that of the best row that the lane can hold.
    """

    __slots__ = ("_cursor", "_limits", "_order", "_run_key", "_scan", "_skip", "lane", "next_key", "opened")

    def __init__(self, lane: Lane, scan: RunScan, run_key: IntArray) -> None:
        self.lane = lane
        self.opened = False
        self._scan = scan
        self._run_key = run_key
        self._order = _NO_ORDER
        self._skip = _NO_MASK if lane.merged is None else lane.merged
        self._cursor = np.zeros(2, np.int64)
        selection = scan.selection
        low, high = selection.time_low, selection.time_high
        self._limits = np.array([low, high, scan.newest, 0, 0, 0, 0, 0, 0, _TIES[scan.candidates.tie]], np.int64)
        self.next_key = INT64_MIN
        if not len(run_key):
            self.next_key = ~min(lane.last_time, high) if scan.newest else max(lane.first_time, low)

    def open(self, threshold: Threshold | None) -> None:
        """Find the first run that may qualify; ``next_key`` is its key from then on."""
        self.opened = True
        lane = self.lane
        if len(self._run_key):
            ties = self._ties(np.arange(len(self._run_key)))
            order = np.lexsort((ties, self._run_key)) if len(ties) else np.argsort(self._run_key, kind="stable")
            self._order = (order if lane.merged is None else order[~lane.merged[order]]).astype(np.int32)
        else:
            self._order = lane.order(self._scan.newest)
        self.pull(threshold, 0, INT64_MIN)

    def pull(self, threshold: Threshold | None, wanted: int, stop_key: int) -> IntArray:
        """Up to ``wanted`` next runs that may qualify, at most up to ``stop_key`` beyond the first few; updates ``next_key``."""
        limits = self._limits
        limits[3] = threshold is not None
        limits[4:6] = (threshold.key, threshold.tie) if threshold is not None else (0, 0)
        limits[6:9] = stop_key, wanted, min(wanted, _FIRST_RUNS)
        out = np.empty(wanted, np.int64)
        lane, selection = self.lane, self._scan.selection
        count = run_kernels.pull(
            self._order, self._run_key, lane.min_time, lane.max_time, lane.device, self._skip, selection.device_mask,
            selection.table.devices.rank, limits, self._cursor, out,
        )  # fmt: skip
        self.next_key = INT64_MAX if self.exhausted else int(self._cursor[1])
        return np.sort(out[:count])

    def best(self, runs: IntArray) -> tuple[IntArray, IntArray]:
        """Key and tie of each run's best row, or better ones."""
        ties = self._ties(runs)
        return self._keys(runs), ties if len(ties) else np.full(len(runs), INT64_MIN)

    def _keys(self, runs: IntArray) -> IntArray:
        if len(self._run_key):
            return self._run_key[runs]
        lane, selection = self.lane, self._scan.selection
        if self._scan.newest:
            return ~np.minimum(lane.max_time[runs], selection.time_high)
        return np.maximum(lane.min_time[runs], selection.time_low)

    def _ties(self, runs: IntArray) -> IntArray:
        """What orders runs of equal keys; empty where nothing known does."""
        match self._scan.candidates.tie:
            case "rank":
                return self._scan.table.devices.rank[self.lane.device[runs]].astype(np.int64)
            case "time":
                return ~self.lane.max_time[runs] if self._scan.newest else self.lane.min_time[runs]
            case None:
                return _EMPTY

    @property
    def exhausted(self) -> bool:
        """Whether no later run can qualify."""
        return self.opened and int(self._cursor[0]) >= len(self._order)


class RunScan:
    """Time- or tag-led order: device runs best first, each from its better end."""

    def __init__(self, selection: Selection, candidates: Candidates, intake: Intake) -> None:
        self.selection = selection
        self.candidates = candidates
        self.intake = intake
        self.table = selection.table
        keys = candidates.keys
        roles = [selection.sources.column(key.column).role for key in keys]
        self.time_leads = roles[0] is Role.TIME
        led = next((i for i, role in enumerate(roles) if role not in (Role.TAG, Role.ATTRIBUTE)), len(roles))
        #: Rows of one run are ordered by time (after keys that are the run's own), this way round; None where a value decides.
        self.descending: bool | None = False if led == len(roles) else keys[led].descending if roles[led] is Role.TIME else None
        self.newest = bool(self.descending)
        #: At most k rows of a run can be results: with no filter on values and one row per time, those at its better end.
        self._capped = self.descending is not None and not selection.filters_rows and self.table.table.options.overlays

    def _is_capped(self, lane: Lane) -> bool:
        """Whether a run's better k stored rows surely are rows, so that no other row of it can be a result."""
        return self._capped and lane.certain

    def run(self) -> None:
        """Offer every row that can be a result."""
        topk_filter, k = self.candidates.filter, self.candidates.k
        lanes = self.selection.lanes()
        if self.time_leads and not self.selection.filters_rows:
            witness = self._witness([lane for lane in lanes if lane.certain], k)
            if witness is not None:
                topk_filter.offer(witness, "statistics")
        keys = None if self.time_leads else device_keys(self.table, self.candidates.keys[0])
        queues = [_Queue(lane, self, _EMPTY if keys is None else keys[lane.device]) for lane in lanes]
        pending: list[_Pending] = []
        wanted = _FIRST_RUNS if self.time_leads else 1  # the first tag value's runs may be all it takes
        if topk_filter.threshold is not None:  # its witnesses' runs, and few others
            wanted = min(max(wanted, k), _RUNS_MAX)
        while True:
            queues = [queue for queue in queues if not queue.exhausted]
            best_queue = min(queues, key=lambda queue: queue.next_key, default=None)
            best_pending = min(pending, key=lambda group: int(group.keys.min()), default=None)
            if best_pending is not None and (best_queue is None or int(best_pending.keys.min()) <= best_queue.next_key):
                pending.remove(best_pending)
                step = self._drop_hopeless(best_pending)
                if len(step.keys) == 0:
                    continue
            elif best_queue is not None:
                if not best_queue.opened:
                    if self._is_hopeless(best_queue):
                        queues.clear()  # the others' best are no better
                    else:
                        best_queue.open(topk_filter.threshold)
                    continue
                others = [queue.next_key for queue in queues if queue is not best_queue]
                others += [int(group.keys.min()) for group in pending]
                runs = best_queue.pull(topk_filter.threshold, wanted, min(others, default=INT64_MAX))
                wanted = min(wanted * 2, _RUNS_MAX)
                if len(runs) == 0:
                    continue
                step = self._begin(best_queue, runs)
            else:
                return
            rest = self._step(step)
            if rest is not None:
                pending.append(rest)

    def _is_hopeless(self, queue: _Queue) -> bool:
        """Whether the threshold excludes all that a queue can hold, before it is opened."""
        threshold = self.candidates.filter.threshold
        return self.time_leads and threshold is not None and queue.next_key > threshold.key

    def _witness(self, lanes: list[Lane], k: int) -> Threshold | None:
        """The k-th best of rows that the time index proves to exist, one per device; None where it proves fewer than ``k``."""
        newest = self.newest
        selection = self.selection
        numbers, times = [], []
        reach = INT64_MAX
        for lane in sorted(lanes, key=self._lane_key):
            if self._lane_key(lane) > reach:
                break  # its best row is worse than k that are known already
            room = min(k, len(lane.device))
            number, time = np.empty(room, np.int32), np.empty(room, np.int64)
            count = run_kernels.witnesses(
                lane.order(newest), lane.min_time, lane.max_time, lane.device, _NO_MASK if lane.merged is None else lane.merged,
                selection.device_mask, selection.time_low, selection.time_high, int(newest), room, number, time,
            )  # fmt: skip
            numbers.append(number[:count])
            times.append(~time[:count] if newest else time[:count])
            if count == k:
                reach = min(reach, int(times[-1][-1]))
        if not numbers:
            return None
        number, key = np.concatenate(numbers), np.concatenate(times)
        rank = self.table.devices.rank[number]
        order = np.lexsort((rank, key))
        if len(numbers) > 1:  # one witness per device: its versions in two files are one row
            order = order[np.sort(np.unique(number[order], return_index=True)[1])]
        best = order[:k]
        if len(best) < k:
            return None
        last = best[-1]
        return Threshold(int(VALUE), int(key[last]), int(rank[last]) if self.candidates.tie == "rank" else ANY_TIE)

    def _lane_key(self, lane: Lane) -> int:
        """The key of the best row that a lane can hold."""
        return ~lane.last_time if self.newest else lane.first_time

    # ------------------------------------------------------------------------------------------------ steps

    def _begin(self, queue: _Queue, runs: IntArray) -> _Pending:
        """The wanted part of newly pulled runs (ascending)."""
        selection, lane = self.selection, queue.lane
        held = lane.bounds(runs)
        selection.count_runs(int(np.count_nonzero(held.stops > held.starts)))
        if selection.bounds_time:
            cut = (lane.min_time[runs] < selection.time_low) | (lane.max_time[runs] > selection.time_high)
            held = selection.cut_ranges(held, cut, selection.time_low, selection.time_high)
        piece = self.candidates.k if self._is_capped(lane) else max(_FIRST_PIECE, self.candidates.k)
        return _Pending(lane, held, *queue.best(runs), piece)

    def _step(self, step: _Pending) -> _Pending | None:
        """Read the better end of some runs and offer it; returns what of them may still matter."""
        lane, held = step.lane, step.held
        threshold = self.candidates.filter.threshold
        if self.time_leads and threshold is not None and not (self._is_capped(lane) and step.piece_rows <= _UNSEARCHED_ROWS):
            low, high = (~threshold.key, INT64_MAX) if self.newest else (INT64_MIN, threshold.key)
            held = self.selection.cut_ranges(held, np.ones(len(held.starts), np.bool_), low, high)
        rest = None
        piece_rows = min(step.piece_rows, max(1, _STEP_ROWS // len(held.starts)))
        if self.descending is not None and bool(((held.stops - held.starts) > piece_rows).any()):
            held, rest = self._split(step, held, piece_rows)
        self.intake.take(self.selection.rows_of_runs(lane, *held))
        return rest

    def _drop_hopeless(self, step: _Pending) -> _Pending:
        """Leave out the runs that the threshold of by now excludes."""
        threshold = self.candidates.filter.threshold
        if threshold is None:
            return step
        keep = threshold.admits(None, step.keys, step.ties)
        held = Ranges(step.held.files, step.held.starts[keep], step.held.stops[keep])
        return _Pending(step.lane, held, step.keys[keep], step.ties[keep], step.piece_rows)

    def _split(self, step: _Pending, held: Ranges, piece_rows: int) -> tuple[Ranges, _Pending | None]:
        """Part runs so that the better end has at most ``piece_rows`` rows of each file: the ranges of it, and the rest."""
        last = self._is_capped(step.lane) and piece_rows >= self.candidates.k  # what is left cannot be among the results
        parted = part(self.selection, held, piece_rows, self.newest, rest=not last)
        if parted.worse is None:
            return parted.better, None
        some = parted.some
        keys = step.keys if not self.time_leads else ~parted.edge if self.newest else parted.edge
        return parted.better, _Pending(step.lane, parted.worse, keys[some], step.ties[some], step.piece_rows * 4)
