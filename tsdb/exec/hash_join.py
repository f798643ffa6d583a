"""Hash joins: one side is kept in memory by key, the rows of the other are streamed past it.

Output follows the streamed side, and for one of its rows the order of the side in memory. Left rows without a partner stand among
the last pairs of their batch where the left side is streamed, else at the end. So the order does not depend on threads, as long as
the sides' own does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.evaluate import evaluate, normalize
from tsdb.exec.join_key import compare, numbers_for
from tsdb.exec.kernels.joining import group_rows, single_partners, single_rows, some_partners
from tsdb.plan.node import Comparison, HashJoin
from tsdb_format.types import ColumnType
from tsdb_format.vector import BoolArray, IntArray, Vector, null_vector

#: A ``map``.
Mapped: TypeAlias = Callable[[Callable[[Batch], Iterable[Batch]], Iterable[Batch]], Iterator[Iterable[Batch]]]
#: Pairs of rows that are looked at together.
PAIRS_MAX = 131_072
#: Batches that are made of a streamed one on a thread of their own.
_BEGUN = 2
#: The place of a row that is not there.
_NONE = np.int64(-1)


class HashTable:
    """The rows of one side by key."""

    def __init__(self, batches: Iterable[Batch], keys: tuple[str, ...]) -> None:
        held = list(batches)
        self.batch = concat_batches(held) if held else Batch({}, 0)
        self.count = self.batch.row_count
        #: The row of each key's number (-1: none), where no key has two; else rows by number, and where each number's start.
        self._row_of: NDArray[np.int32] | None = np.empty(0, np.int32)
        self._rows, self._starts = np.empty(0, np.int64), np.zeros(1, np.int64)
        if self.count:
            columns = [self.batch.vectors[name] for name in keys]
            self._keys = numbers_for(columns)
            numbers = self._keys.numbers(columns, add=True)
            self._row_of = np.full(len(self._keys), -1, np.int32)
            if not single_rows(numbers, self._row_of):
                self._row_of = None
                self._rows = np.empty(int(np.count_nonzero(numbers >= 0)), np.int64)
                self._starts = np.zeros(len(self._keys) + 1, np.int64)
                group_rows(numbers, self._starts, self._rows)
        self._has_key = self._row_of is None or bool((self._row_of >= 0).any())

    def __bool__(self) -> bool:
        """Whether any row has a key."""
        return self._has_key

    def distinct(self) -> IntArray:
        """One row of each key."""
        if self._row_of is not None:
            return self._row_of[self._row_of >= 0].astype(np.int64)
        return self._rows[self._starts[:-1][np.diff(self._starts) > 0]]

    def pairs(self, batch: Batch, keys: tuple[str, ...]) -> Iterator[tuple[IntArray, IntArray]]:
        """(rows of ``batch``, their partners), in the order of the batch, some at a time."""
        if not self:
            return
        numbers = self._keys.numbers([batch.vectors[name] for name in keys], add=False)
        if self._row_of is not None:
            probe, build = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)
            count = single_partners(numbers, self._row_of, probe, build)
            if count:
                yield probe[:count], build[:count]
            return
        at = np.zeros(2, np.int64)
        while at[0] < len(numbers):
            probe, build = np.empty(PAIRS_MAX, np.int64), np.empty(PAIRS_MAX, np.int64)
            count = some_partners(numbers, self._starts, self._rows, at, probe, build)
            if count:
                yield probe[:count], build[:count]


class Join:
    """One execution of a ``HashJoin``: the table of its build side, and what becomes of the other side's batches."""

    def __init__(self, node: HashJoin, types: Mapping[str, ColumnType], build: Iterable[Batch]) -> None:
        self.node = node
        self._types = types
        self._build_left = node.build == "left"
        left, right = tuple(key for key, _ in node.keys), tuple(key for _, key in node.keys)
        self.build_keys, self.probe_keys = (left, right) if self._build_left else (right, left)
        self.table = HashTable(build, self.build_keys)
        self._conditions = [part if isinstance(part, Comparison) else normalize(part) for part in node.condition]
        self._met = np.zeros(self.table.count if self._build_left else 0, np.bool_)

    @property
    def ignores_partnerless(self) -> bool:
        """Whether streamed rows without a partner change nothing, and may as well not be read."""
        return self._build_left or self.node.kind in ("inner", "semi")

    def key_values(self) -> dict[str, Vector]:
        """The keys in memory, once each, by the streamed side's columns; none where there is no key."""
        rows = self.table.distinct()
        columns = zip(self.build_keys, self.probe_keys, strict=True) if len(rows) else ()
        return {name: self.table.batch.vectors[held].take(rows) for held, name in columns}

    def run(self, probe: Callable[[], Iterable[Batch]], mapped: Mapped = map) -> Iterator[Batch]:
        """The joined rows, made by ``mapped``; nothing is streamed where nothing can come of it."""
        if self.table or not self.ignores_partnerless:
            for joined in mapped(self._begun, probe()):
                yield from joined
        if self._build_left and self.node.kind != "inner" and self.table.count:
            rows = np.flatnonzero(self._met if self.node.kind == "semi" else ~self._met)
            for at in range(0, len(rows), PAIRS_MAX):
                some = rows[at : at + PAIRS_MAX]
                yield self._output(self.table.batch, some, Batch({}, 0), np.full(len(some), _NONE))

    def _begun(self, batch: Batch) -> Iterable[Batch]:
        """What becomes of a batch: as a rule one or two are all; where there are more, they are made when they are asked for."""
        joined = self._build_is_left(batch) if self._build_left else self._build_is_right(batch)
        return chain(list(islice(joined, _BEGUN)), joined)

    def _build_is_left(self, batch: Batch) -> Iterator[Batch]:
        for probe, build in self.table.pairs(batch, self.probe_keys):
            build, probe = self._satisfied(self.table.batch, build, batch, probe)
            if self.node.kind != "inner":
                self._met[build] = True
            if self.node.kind in ("inner", "left") and len(build):
                yield self._output(self.table.batch, build, batch, probe)

    def _build_is_right(self, batch: Batch) -> Iterator[Batch]:
        met = np.zeros(batch.row_count, np.bool_)
        waiting: tuple[IntArray, IntArray] | None = None
        for probe, build in self.table.pairs(batch, self.probe_keys):
            probe, build = self._satisfied(batch, probe, self.table.batch, build)
            met[probe] = True
            if self.node.kind in ("inner", "left"):
                if waiting is not None:
                    yield self._output(batch, waiting[0], self.table.batch, waiting[1])
                waiting = probe, build
        none = np.empty(0, np.int64)
        left, right = (none, none) if waiting is None else waiting
        if self.node.kind == "left":
            alone = np.flatnonzero(~met)
            left, right = np.concatenate((left, alone)), np.concatenate((right, np.full(len(alone), _NONE)))
            order = np.argsort(left, kind="stable")
            left, right = left[order], right[order]
        elif self.node.kind in ("semi", "anti"):
            left = np.flatnonzero(met if self.node.kind == "semi" else ~met)
            right = np.full(len(left), _NONE)
        if len(left):
            yield self._output(batch, left, self.table.batch, right)

    def _satisfied(self, left: Batch, left_rows: IntArray, right: Batch, right_rows: IntArray) -> tuple[IntArray, IntArray]:
        """Those of some pairs for which the condition holds."""
        for part in self._conditions:
            keep: BoolArray
            if isinstance(part, Comparison):
                keep = compare(left.vectors[part.left].take(left_rows), part.op, right.vectors[part.right].take(right_rows))
            else:
                rows = left_rows
                keep = evaluate(part, lambda name, rows=rows: left.vectors[name].take(rows), len(rows))  # type: ignore[misc]
            if not keep.all():
                left_rows, right_rows = left_rows[keep], right_rows[keep]
        return left_rows, right_rows

    def _output(self, left: Batch, left_rows: IntArray, right: Batch, right_rows: IntArray) -> Batch:
        sides = {"left": (left, left_rows), "right": (right, right_rows)}
        vectors = {}
        for name, side, column in self.node.outputs:
            batch, rows = sides[side]
            there = batch.row_count > 0
            vectors[name] = take_or_null(batch.vectors[column], rows) if there else null_vector(self._types[name], len(rows))
        return Batch(vectors, len(left_rows))


def take_or_null(vector: Vector, rows: IntArray) -> Vector:
    """The rows of a vector that has some; NULL for row -1."""
    there = rows >= 0
    if there.all():
        return vector.take(rows)
    made = vector.take(np.maximum(rows, 0))
    made.validity = there if made.validity is None else made.validity & there
    return made
