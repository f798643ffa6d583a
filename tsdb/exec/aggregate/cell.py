"""Cells: one per group of devices and bucket of time that has rows. What is known of a cell is kept in its slot of some arrays.

Where there can be few cells every one has its slot from the beginning; otherwise slots are given to the cells that occur, some
parts at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.aggregate.bucket import Buckets
from tsdb.exec.kernels import bucket as kernels
from tsdb.exec.kernels.bucket import FIRST, LAST
from tsdb_format.vector import IntArray

#: Cells that there can be up to which each has a slot from the beginning.
_DENSE_MAX = 1 << 18
#: Segments that wait for slots at least.
_WAITING_MIN = 1 << 17


class Accumulator(Protocol):
    """Something that is gathered for every cell, from parts that have one element per segment. What it holds are not its own."""

    def started(self, count: int) -> Any:
        """What is held of ``count`` slots before anything was seen."""

    def resized(self, held: Any, moved: IntArray, count: int) -> Any:
        """What is held of ``count`` slots, where that of slot i is of slot moved[i] now; others are as nothing was seen."""

    def merge(self, held: Any, slots: IntArray, part: Any) -> None:
        """Take in a part, whose segments belong to these slots. Parts come in the order of their rows within a device."""


class Cells:
    """Gives segments their slots, holds what is known of these, and has accumulators merge parts into it."""

    def __init__(self, accumulators: Sequence[Accumulator], groups: int, buckets: Buckets, low: int, high: int) -> None:
        """Rows' times are between ``low`` and ``high``."""
        self._accumulators = accumulators
        #: By accumulator; None until it has a part.
        self._held: list[Any] = [None] * len(accumulators)
        self._width = buckets.width
        self._first = 0
        self._per_group: int | None = 1 if not len(buckets) else None
        if self._width is not None and low <= high:
            first, last = buckets.first_ticks(np.array([low, high])).tolist()
            if first > FIRST and last <= LAST - self._width and last - first <= LAST:
                self._first, self._per_group = first, (last - first) // self._width + 1
        if self._per_group is not None and groups * self._per_group > max(_DENSE_MAX, 1):
            self._per_group = None
        self.group, self.start = np.empty(0, np.int64), np.empty(0, np.int64)
        self._waiting: list[tuple[IntArray, IntArray, list[Any]]] = []
        self._waiting_count = 0
        self._count = 0 if self._per_group is None else groups * self._per_group
        self._groups = groups

    def held(self, number: int) -> Any:
        """What is held for an accumulator."""
        found = self._held[number]
        if found is None:
            found = self._held[number] = self._accumulators[number].started(self._count)
        return found

    def has_seen(self, number: int) -> bool:
        """Whether any part came for an accumulator."""
        return self._held[number] is not None

    def add(self, group: IntArray, start: IntArray, parts: list[Any]) -> None:
        """Take in segments with a part for each accumulator; None: it has seen nothing in them."""
        if self._per_group is not None:
            self._merge(self._slots(group, start, self._per_group), parts)
            return
        self._waiting.append((group, start, parts))
        self._waiting_count += len(group)
        if self._waiting_count > max(_WAITING_MIN, 2 * len(self.group)):
            self._settle()

    def finish(self) -> tuple[IntArray, IntArray]:
        """Group and bucket of every slot, also of those without rows; ascending by both."""
        if self._per_group is None:
            self._settle()
        elif self._width is None:
            self.group = np.arange(self._groups)
            self.start = np.zeros(self._groups, np.int64)
        else:
            starts = self._first + np.arange(self._per_group) * self._width
            one = self._groups == 1
            self.group = np.zeros(self._per_group, np.int64) if one else np.repeat(np.arange(self._groups), self._per_group)
            self.start = starts if one else np.tile(starts, self._groups)
        return self.group, self.start

    def bucket_numbers(self, slots: IntArray) -> NDArray[np.uint16] | None:
        """Numbers of the slots' buckets, ascending with these, that are sorted fast; None where there are none."""
        if self._per_group is None or self._per_group >= 1 << 16:
            return None
        found: NDArray[np.uint16] = (slots % self._per_group).astype(np.uint16)
        return found

    def _slots(self, group: IntArray, start: IntArray, per_group: int) -> IntArray:
        if per_group == 1:
            return group
        slots = np.empty(len(group), np.int64)
        kernels.slots(group, start, self._first, self._width, per_group, slots)
        return slots

    def _merge(self, slots: IntArray, parts: list[Any]) -> None:
        for number, part in enumerate(parts):
            if part is not None:
                self._accumulators[number].merge(self.held(number), slots, part)

    def _resize(self, moved: IntArray, count: int) -> None:
        """Have ``count`` slots, of which moved[i] holds what slot i did."""
        self._count = count
        for number, held in enumerate(self._held):
            if held is not None:
                self._held[number] = self._accumulators[number].resized(held, moved, count)

    def _settle(self) -> None:
        """Give slots to what waits: slots ascend by group, then bucket."""
        if not self._waiting:
            return
        held = len(self.group)
        group = np.concatenate([self.group, *(group for group, _, _ in self._waiting)])
        start = np.concatenate([self.start, *(start for _, start, _ in self._waiting)])
        order = np.lexsort((start, group))
        group, start = group[order], start[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (group[1:] != group[:-1]) | (start[1:] != start[:-1])
        slots = np.empty(len(order), np.int64)
        slots[order] = np.cumsum(new) - 1
        self.group, self.start = group[new], start[new]
        self._resize(slots[:held], len(self.group))
        at = held
        for part_group, _, parts in self._waiting:
            self._merge(slots[at : at + len(part_group)], parts)
            at += len(part_group)
        self._waiting, self._waiting_count = [], 0
