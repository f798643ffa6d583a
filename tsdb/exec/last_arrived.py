"""The last arrived row of every join key: the right side of a LATEST JOIN over what one snapshot shows.

Rows arrive in the order of their commits; within one commit in that of time, then of storage: tags ascending. Rows with a NULL
among their keys are nobody's partner, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.tag_order import value_ranks
from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.join_key import KeyNumbers
from tsdb_format.vector import BoolArray, IntArray, Vector

#: Rows that wait at least before they are looked at together; more wait where more are kept, so that each is looked at few times.
_WAITING_MIN = 65_536


class LastArrived:
    """Rows taken in one after the other, of which the last of each key is kept."""

    def __init__(self, keys: Sequence[str], arrival: Sequence[str]) -> None:
        """``arrival`` names the columns that tell when a row arrived: sequence number, time, then tags."""
        self._keys = tuple(keys)
        self._arrival = tuple(arrival)
        self._kept: Batch | None = None
        self._waiting: list[Batch] = []
        self._waiting_rows = 0
        #: Whether a row had a NULL among its keys.
        self.has_null = False

    def add(self, batch: Batch) -> None:
        """Take rows in."""
        self._waiting.append(batch)
        self._waiting_rows += batch.row_count
        if self._waiting_rows >= max(_WAITING_MIN, 0 if self._kept is None else self._kept.row_count):
            self._reduce()

    def rows(self) -> Batch | None:
        """The last row of each key, in the order in which they were taken in; None before any row was."""
        if self._waiting:
            self._reduce()
        return self._kept

    def _reduce(self) -> None:
        batch = concat_batches(self._waiting if self._kept is None else [self._kept, *self._waiting])
        numbers = KeyNumbers(len(self._keys)).numbers([batch.vectors[name] for name in self._keys], add=True)
        self.has_null = self.has_null or bool((numbers < 0).any())
        self._kept = batch.take(last_of(numbers, [batch.vectors[name] for name in self._arrival]))
        self._waiting, self._waiting_rows = [], 0


def last_arrived(batches: Iterable[Batch], keys: Sequence[str], arrival: Sequence[str]) -> Iterable[Batch]:
    """The last arrived row of each key, without the columns that told."""
    found = LastArrived(keys, arrival)
    for batch in batches:
        found.add(batch)
    rows = found.rows()
    if rows is not None and rows.row_count:
        yield Batch({name: vector for name, vector in rows.vectors.items() if name not in arrival}, rows.row_count)


def last_of(numbers: NDArray[np.int32], arrival: Sequence[Vector]) -> IntArray:
    """The row of each number ≥ 0 that arrived last, ascending; of rows that arrived together the last one."""
    rows = np.flatnonzero(numbers >= 0)
    order = rows[arrival_order([vector.take(rows) for vector in arrival], numbers[rows])]
    ends = np.ones(len(order), np.bool_)
    ends[:-1] = numbers[order[1:]] != numbers[order[:-1]]
    found: IntArray = np.sort(order[ends])
    return found


def arrival_order(arrival: Sequence[Vector], groups: NDArray[np.int32] | None = None) -> IntArray:
    """The order in which rows arrived, group by group where ``groups`` has a number for each.

    Tags are looked at only where sequence number and time leave rows undecided.
    """
    sequence, time = arrival[0].values, arrival[1].values
    first: list[NDArray[np.generic]] = [] if groups is None else [groups]
    order: IntArray = np.lexsort((time, sequence, *first))
    tags = arrival[2:]
    if tags and _tied(order, [time, sequence, *first]).any():
        order = np.lexsort((*(value_ranks(tag) for tag in reversed(tags)), time, sequence, *first))
    return order


def _tied(order: IntArray, keys: Sequence[NDArray[np.generic]]) -> BoolArray:
    """Which neighbours in an order are equal in all keys."""
    tied = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        ordered = key[order]
        tied &= ordered[1:] == ordered[:-1]
    return tied
