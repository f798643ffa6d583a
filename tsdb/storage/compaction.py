"""Which files to merge, and which to drop: pure functions of what the manifest says, so that the same state gives the same plan.

Three things are put right, each only where it is worth its writing:

- *overlaps*: files that hold the same instants are merged when those above the largest have as many rows there as it has, half as
  many where it is the oldest, or, however few, when an instant lies in more than ``DEPTH_MAX`` files. The files of a task are
  closed (see ``layout``), so that the order of versions stays; they need not be all that overlap.
- *small files*: neighbours in time become one file of half the full size or more, or of ``GROWTH`` times the largest of them.
- *dead rows*: a file of which half is deleted or expired is written anew; one that is so entirely is dropped unread (``expired``).
- *dead blobs*: payloads stay where they are when their rows are written anew; once half of a payload file is dead, the files that
  refer to it are written anew, one by one, and take theirs with them (``moved_payloads``).

*Write amplification* is logarithmic. Let N writes of equal size be made. A merge of files that overlap at least doubles the rows at
an instant that are in one file, which happens to a row log2(N) times at most; only merges into the oldest file may be worth less,
but those grow it by half, so that writing it again and again costs its rows three times together. A merge of neighbours makes a
file ``GROWTH`` times as large or of half the full size, and none of a quarter or more is merged again for its size. Together: rows
are rewritten at most log2(N) + 3 times where all writes overlap, 1 + log8(full size / write) times where they come in order, and
the sum of both where they do both. Stacks deeper than ``DEPTH_MAX`` are merged for less, which takes sizes that fall faster than
by half from file to file. Dead rows add one rewriting for each row that dies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsdb.catalog.table import TableOptions
from tsdb.storage.cuts import Cuts, free_times
from tsdb.storage.layout import Layout, as_numbers, covered, spans, union
from tsdb.storage.manifest import FileEntry, TableEntry
from tsdb.storage.tombstone import EVERY_DEVICE, Tombstones, least_unapplied
from tsdb_format.section import HEADER
from tsdb_format.types import ColumnType
from tsdb_format.vector import BoolArray, IntArray

#: Files at one instant that queries are made to merge; more are merged here, whatever the ratio of their sizes.
DEPTH_MAX = 8
#: Rows that overlap, as a share of those they overlap, from which a merge is worth its writing; and where these are the oldest.
OVERLAP_SHARE, OLDEST_SHARE = 1.0, 0.5
#: How much larger than the largest of some neighbours the merged file must be, while more may follow them, and where none can.
GROWTH, GROWTH_CLOSED = 8, 2
#: Files with fewer rows than this part of a full one are merged with their neighbours.
SMALL_SHARE = 4
#: Share of a file's rows that must be dead for it to be rewritten without them.
DEAD_SHARE = 0.5
#: Share of a payload file's bytes that must be dead for its payloads to be copied.
DEAD_BLOBS_SHARE = 0.5
#: Files of one task that overlap at one instant: each is open and decoded at once.
FAN_IN_MAX = 64
#: Sets of files that are looked at closely for each of the reasons in one planning; the largest come first.
_LOOKED_AT_MAX = 256
#: Tombstones that are looked at to estimate how many rows they took; of more, some.
_TOMBSTONES_SAMPLED = 65_536


@dataclass(frozen=True, slots=True)
class Task:
    """Files to be replaced by the rows that are left of them. ``inputs`` ascend by ``max_sequence``; outputs end at ``cuts``.

    The tasks of one shard in one plan do not overlap in time. None becomes wrong by what other tasks of the plan do, nor by commits
    that come meanwhile: new files are newer than all of its inputs.
    """

    table: str
    inputs: tuple[FileEntry, ...]
    reason: str
    cuts: Cuts

    @property
    def rows(self) -> int:
        """Rows to be read."""
        return sum(file.rows for file in self.inputs)


def plan(
    entry: TableEntry, tombstones: Tombstones, now_ns: int, *, everything: bool = False,
    damaged: frozenset[str] = frozenset(), rows_max: int | None = None,
) -> list[Task]:  # fmt: skip
    """What to merge, most urgent first, shard by shard: files of different shards are never merged.

    With ``everything`` all that can be put right, whatever it costs: carried out, and planned again with the same ``now_ns`` until
    nothing is left, it leaves no overlaps, no tombstones that a file has not carried out, no expired rows and no small files that
    a neighbour has room for. ``damaged`` names files that cannot be read: they stay, and so does what cannot be merged without
    them. ``rows_max`` is the most rows that an output will have, where that is less than the table's ``file_rows_max``.
    """
    if not entry.files:
        return []
    tasks: list[Task] = []
    moved = moved_payloads(entry)
    for shard in dict.fromkeys(file.shard for file in entry.files):
        own = replace(entry, files=tuple(file for file in entry.files if file.shard == shard))
        planner = _Planner(own, tombstones, now_ns, damaged, rows_max, moved)
        if everything:
            planner.everything()
        else:
            planner.deep_stacks()
            planner.overlaps()
            planner.small_files()
            planner.dead_rows()
        planner.dead_blobs()
        tasks += planner.tasks
    return tasks


def moved_payloads(entry: TableEntry) -> frozenset[str]:
    """The payload files, by the names that data files have for them, whose payloads go with their rows when these are written."""
    dead = (name for name, (size, live) in entry.payloads.items() if live <= (1 - DEAD_BLOBS_SHARE) * (size - HEADER.size))
    return frozenset(name.rpartition("/")[2] for name in dead)


def expired(entry: TableEntry, now_ns: int, tombstones: Tombstones | None = None) -> tuple[FileEntry, ...]:
    """Files of which no row is visible any more, by TTL or by deletes that name no device: to be dropped without being read."""
    table = entry.table
    bound = ttl_bound(table.options, table.schema.time.type, now_ns)
    gone = [] if tombstones is None else _deleted_everywhere(tombstones)
    return tuple(file for file in entry.files if (bound is not None and file.max_time < bound) or _gone(file, gone))


def needed(tombstones: Tombstones, files: Sequence[FileEntry]) -> BoolArray:
    """Which tombstones some of the files has not carried out and may hold rows for, b1[tombstones]."""
    found = np.zeros(len(tombstones), np.bool_)
    newest = int(tombstones.sequence.max(initial=0))
    for file in files:
        if least_unapplied(file) <= newest:
            found |= _unapplied(tombstones, file)
    return found


def ttl_bound(options: TableOptions, kind: ColumnType, now_ns: int) -> int | None:
    """The first time that has not expired, in the time column's unit; None where nothing expires."""
    if options.ttl_ns is None:
        return None
    return -((options.ttl_ns - now_ns) * kind.units_per_second // 10**9)  # ceiling of (now − ttl)


class _Planner:
    """One planning of one shard of a table: each method adds tasks for one reason, beside those there are in time."""

    def __init__(
        self, entry: TableEntry, tombstones: Tombstones, now_ns: int, damaged: frozenset[str], rows_max: int | None,
        moved: frozenset[str],
    ) -> None:  # fmt: skip
        self.tasks: list[Task] = []
        self._hulls: list[tuple[int, int]] = []
        options, kind = entry.table.options, entry.table.schema.time.type
        self._name = entry.table.name
        self._rows_max = min(options.file_rows_max, rows_max or options.file_rows_max)
        self._layout = Layout(entry.files, [file.rows for file in entry.files])
        self._files = [entry.files[place] for place in self._layout.order.tolist()]
        self._tombstones = tombstones
        self._moved = moved
        self._bound = ttl_bound(options, kind, now_ns)
        gone = {file.name for file in expired(entry, now_ns, tombstones)}
        self._damaged: BoolArray = np.array([file.name in damaged for file in self._files], np.bool_)
        #: Not to be merged for their own sake: they cannot be read, or are about to be dropped.
        self._passive = self._damaged | np.array([file.name in gone for file in self._files], np.bool_)
        ticks = None if options.partition_ns is None else max(1, options.partition_ns * kind.units_per_second // 10**9)
        #: Partition of each file's first and last row.
        self._partition = np.zeros((2, len(self._files)), np.int64)
        if ticks is not None:
            self._partition = np.stack([self._layout.low, self._layout.high]) // ticks
        self._stacks = [] if self._passive.all() else list(self._mergeable_stacks())

    # ------------------------------------------------------------------------------------------------ overlaps

    def deep_stacks(self) -> None:
        """For instants in too many files, the set that overlaps most for its size."""
        deep = sorted((stack for stack in self._stacks if len(stack) > DEPTH_MAX), key=lambda stack: (-len(stack), stack))
        for stack in deep[:_LOOKED_AT_MAX]:
            if not self._is_clear(as_numbers(stack)):
                continue
            newest = stack[-FAN_IN_MAX:]
            density = self._layout.density[newest].tolist()
            ratios = [
                (max(density[first:stop]) / sum(density[first:stop]), first, stop)
                for first in range(len(newest) - 1)
                for stop in range(first + 2, len(newest) + 1)
            ]
            sets = [each for _, first, stop in sorted(ratios)[:DEPTH_MAX] for each in self._sets(newest[first:stop])]
            if sets:
                self._add(max(sets, key=self._ratio), f"{len(stack)} files at one instant")

    def overlaps(self) -> None:
        """Sets in which the files above the largest have rows enough together."""
        seeds = {tuple(piece) for stack in self._stacks for piece in self._slices(stack)}
        for seed in sorted(seeds, key=lambda each: (-len(each), each))[:_LOOKED_AT_MAX]:
            if self._is_clear(as_numbers(seed)):
                for chosen in self._sets(seed):
                    ratio = self._ratio(chosen)
                    worth = ratio >= OVERLAP_SHARE or (ratio >= OLDEST_SHARE and self._layout.is_lowest(chosen))
                    if worth and self._add(chosen, "overlapping files"):
                        break

    def _mergeable_stacks(self) -> Iterator[list[int]]:
        """The files at each instant, oldest first, without those not to be merged; damaged ones part what is on their two sides."""
        for stack in self._layout.stacks():
            piece: list[int] = []
            for number in stack:
                if self._damaged[number]:
                    if len(piece) > 1:
                        yield piece
                    piece = []
                elif not self._passive[number]:
                    piece.append(number)
            if len(piece) > 1:
                yield piece

    def _slices(self, stack: list[int]) -> Iterator[list[int]]:
        """Of a stack, from each file on, the most files in a row (by age) that are worth merging where they lie."""
        density = self._layout.density[stack].tolist()
        firsts = range(len(stack) - 1)
        if len(stack) > FAN_IN_MAX:
            firsts = range(len(stack) % FAN_IN_MAX, len(stack) - 1, FAN_IN_MAX)
        for first in firsts:
            total = largest = density[first]
            share = OVERLAP_SHARE if first else OLDEST_SHARE
            until = 0
            for last in range(first + 1, min(len(stack), first + FAN_IN_MAX)):
                total += density[last]
                largest = max(largest, density[last])
                if total - largest >= share * largest:
                    until = last
            if until:
                yield stack[first : until + 1]

    def _ratio(self, chosen: IntArray) -> float:
        over, base = self._layout.overlap(chosen)
        return over / base

    # ------------------------------------------------------------------------------------------------ small files

    def small_files(self) -> None:
        """Small files beside each other that make a file worth having."""
        for numbers, growth in self._zones():
            rows = self._layout.rows[numbers]
            ends = np.concatenate([[0], np.cumsum(rows)])
            largest = rows
            worth: list[tuple[int, int]] = []
            for length in range(2, min(FAN_IN_MAX, len(numbers)) + 1):
                totals = ends[length:] - ends[:-length]
                largest = np.maximum(largest[:-1], rows[length - 1 :])
                good = (totals <= self._rows_max) & ((2 * totals >= self._rows_max) | (totals >= growth * largest))
                worth += [(-length, first) for first in np.flatnonzero(good).tolist()]
            for length, first in sorted(worth)[:_LOOKED_AT_MAX]:
                window = numbers[first : first - length]
                if self._is_clear(window):
                    for chosen in self._sets(window):
                        if int(self._layout.rows[chosen].sum()) <= 2 * self._rows_max and self._add_joined(chosen, "small files"):
                            break

    def _zones(self) -> Iterator[tuple[IntArray, int]]:
        """Small files of one partition that no larger one parts, or that lie over the same larger one; and the growth to ask for.

        Where later files bound a zone, only late rows can still come to it. Where none do, the last file waits for the next one,
        which may overlap its end: what overlaps is then cut off and goes on with the next.
        """
        small = (self._layout.rows * SMALL_SHARE < self._rows_max) & ~self._passive
        low, high = self._layout.low, self._layout.high
        numbers = np.flatnonzero(small & (self._partition[0] == self._partition[1]))
        first, last = union(low[~small], high[~small])
        over = 2 * covered(first, last, low[numbers], high[numbers]) >= spans(low[numbers], high[numbers])
        middle = low[numbers] // 2 + high[numbers] // 2
        place = np.where(over, -1 - np.searchsorted(low[~small], middle, "right"), np.searchsorted(first, low[numbers]))
        partition, latest = self._partition[0, numbers], int(self._partition[0].max())
        for part, zone in np.unique(np.stack([partition, place]), axis=1).T.tolist():
            group = numbers[(partition == part) & (place == zone)]
            if zone < 0:
                yield group, GROWTH
            elif zone < len(first) or part < latest:
                yield group, GROWTH_CLOSED
            else:
                yield group[:-1], GROWTH

    # ------------------------------------------------------------------------------------------------ dead rows

    def dead_rows(self) -> None:
        """Files of which half the rows are deleted or expired, as far as their bounds tell."""
        for number in np.flatnonzero(~self._passive).tolist():
            if self._expired_share(number) + self._deleted_share(number) >= DEAD_SHARE:
                self._add(np.array([number]), "deleted or expired rows")

    def _expired_share(self, number: int) -> float:
        file = self._files[number]
        if self._bound is None or file.min_time >= self._bound:
            return 0.0
        expired_time = min(self._bound, file.max_time + 1) - file.min_time
        return float(expired_time / (file.max_time - file.min_time + 1))

    def _deleted_share(self, number: int) -> float:
        """The part of a file's rows that deletes took: by time, and by time and devices where they name one (at least a row)."""
        file, tombstones = self._files[number], self._tombstones
        if not len(tombstones):
            return 0.0
        found = np.flatnonzero(_unapplied(tombstones, file))
        step = max(1, -(-len(found) // _TOMBSTONES_SAMPLED))
        found = found[::step]
        low, high = np.maximum(tombstones.low[found], file.min_time), np.minimum(tombstones.high[found], file.max_time)
        share = spans(low, high) / (file.max_time - file.min_time + 1)
        one = tombstones.device[found] != EVERY_DEVICE
        share[one] = np.maximum(share[one] / file.devices, 1 / file.rows)
        return step * float(share.sum())

    def dead_blobs(self) -> None:
        """Files with blobs in payload files of which half is dead."""
        for number in np.flatnonzero(~self._passive).tolist():
            if any(payload.name in self._moved for payload in self._files[number].payloads):
                self._add(np.array([number]), "dead blobs")

    # ------------------------------------------------------------------------------------------------ everything

    def everything(self) -> None:
        """What overlaps becomes one, what is dead goes, and small files join their neighbours."""
        group: list[IntArray] = []
        for unit in self._units():
            if group and not self._fit(group, unit):
                self._finish(group)
                group = []
            group.append(unit)
        self._finish(group)

    def _units(self) -> Iterator[IntArray]:
        """Files that overlap, as far as they can be merged: what lies on the two sides of a damaged one stays apart."""
        for component in self._layout.components(np.arange(len(self._files))):
            broken, healthy = component[self._damaged[component]], component[~self._damaged[component]]
            age = (self._layout.newest[broken] < self._layout.oldest[healthy][:, None]).sum(axis=1)
            for each in np.unique(age).tolist():
                yield from self._layout.components(healthy[age == each])

    def _fit(self, group: list[IntArray], unit: IntArray) -> bool:
        """Whether a unit goes into one file with those before it, and one of the two is small."""
        before, rows = sum(int(self._layout.rows[each].sum()) for each in group), int(self._layout.rows[unit].sum())
        same = self._partition[0, group[0]].min() == self._partition[1, unit].max()
        return bool(same) and before + rows <= self._rows_max and min(before, rows) * SMALL_SHARE < self._rows_max

    def _finish(self, group: list[IntArray]) -> None:
        if len(group) > 1 and any(self._add_joined(each, "everything") for each in self._sets(np.concatenate(group))):
            return
        for unit in group:
            if len(unit) > 1 or self._needs_rewriting(int(unit[0])):
                any(self._add(each, "everything") for each in self._sets(unit))

    def _needs_rewriting(self, number: int) -> bool:
        file = self._files[number]
        return (self._bound is not None and file.min_time < self._bound) or bool(_unapplied(self._tombstones, file).any())

    # ------------------------------------------------------------------------------------------------ tasks

    def _sets(self, chosen: Sequence[int] | IntArray) -> Iterator[IntArray]:
        """Closed sets with the chosen files that can be read: with all that comes cheap, then without cuts, then the smallest."""
        least = self._layout.closure(as_numbers(chosen))
        wide = self._layout.gathered(least)
        sets = {tuple(each.tolist()): each for each in (self._layout.filled(wide), wide, least)}
        yield from (each for each in sets.values() if not self._damaged[each].any())

    def _is_clear(self, chosen: IntArray) -> bool:
        """Whether no task overlaps the files in time."""
        low, high = self._layout.hull(chosen)
        return all(high < first or low > last for first, last in self._hulls)

    def _add_joined(self, chosen: IntArray, reason: str) -> bool:
        """A task whose outputs nothing parts but their size: others could leave as many files as there were."""
        return not self._layout.required_cuts(chosen) and self._add(chosen, reason)

    def _add(self, chosen: IntArray, reason: str) -> bool:
        """Take up a task, unless another overlaps it in time."""
        if not self._is_clear(chosen):
            return False
        self._hulls.append(self._layout.hull(chosen))
        inputs = sorted((self._files[number] for number in chosen.tolist()), key=lambda file: (file.max_sequence, file.min_time))
        self.tasks.append(Task(self._name, tuple(inputs), reason, self._layout.cuts(chosen, self._rows_max // SMALL_SHARE)))
        return True


def _unapplied(tombstones: Tombstones, file: FileEntry) -> BoolArray:
    """The tombstones that may hide rows of a file, by its bounds."""
    meets = (tombstones.low <= file.max_time) & (tombstones.high >= file.min_time)
    found: BoolArray = meets & (tombstones.sequence >= least_unapplied(file))
    return found


def _deleted_everywhere(tombstones: Tombstones) -> list[tuple[int, int, int]]:
    """(low, high, sequence) of the tombstones for every device."""
    every = np.flatnonzero(tombstones.device == EVERY_DEVICE)
    columns = (tombstones.low[every], tombstones.high[every], tombstones.sequence[every])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _gone(file: FileEntry, deleted: list[tuple[int, int, int]]) -> bool:
    """Whether deletes of every device, none older than any row of the file, leave nothing of its time range."""
    ranges = [(low, high) for low, high, sequence in deleted if sequence >= file.max_sequence]
    return bool(ranges) and not free_times(ranges, file.min_time, file.max_time)
