"""Member sets: the distinct members of a result set, asked by the scans of the queries that use it.

A member is a value, or a tuple of values where the set is of composite keys; none of them is NULL. Scans ask as they ask the keys
of a join: which units may hold a member (``verdicts``, by ``KeyDomain``), then which rows are one (``contains``, exactly). Members
are compared as join keys are. Whether they are in memory or in a table on disk is known to whoever made the set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tsdb.catalog.device import compacted
from tsdb.exec.join_key import KeyNumbers, are_comparable
from tsdb.exec.key_domain import KeyDomain
from tsdb.exec.prune import Verdicts, best, worst
from tsdb_format.statistics import Statistics
from tsdb_format.types import BLOB, ColumnType
from tsdb_format.vector import BoolArray, IntArray, Pool, Vector, concat

#: Members up to which units are told apart by each of them; of more by ranges of neighbours.
_DOMAIN_KEYS_MAX = 100_000


def are_members_comparable(column: ColumnType, member: ColumnType) -> bool:
    """Whether values of a column are compared with members of a type here exactly as DuckDB does it."""
    return column == member or are_comparable(column, member)


def comparable(vector: Vector) -> Vector:
    """The vector in a form that keys have: a VECTOR's elements are compared as floats, so it becomes their canonical bytes."""
    if not vector.type.width:
        return vector
    values = vector.values.astype(np.float32) + np.float32(0)  # −0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    count, size = len(values), 4 * vector.type.width
    pool = Pool(np.arange(count + 1, dtype=np.int64) * size, np.ascontiguousarray(values).view(np.uint8).reshape(-1))
    return Vector(BLOB, np.arange(count, dtype=np.int32), vector.validity, pool)


class Distinct:
    """Distinct tuples without NULLs, of vectors that come some at a time."""

    def __init__(self, types: Sequence[ColumnType]) -> None:
        self.types = tuple(types)
        self.numbers = KeyNumbers(len(self.types))
        #: About what they take in memory.
        self.bytes = 0
        self._parts: list[list[Vector]] = [[] for _ in self.types]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.numbers)

    def add(self, columns: Sequence[Vector]) -> None:
        """Take the rows of some columns in."""
        before = len(self)
        numbers = self.numbers.numbers([comparable(vector) for vector in columns], add=True)
        if len(self) == before:
            return
        seen = np.maximum.accumulate(np.concatenate((np.array([before - 1], np.int32), numbers[:-1])))
        rows = np.flatnonzero(numbers > seen)
        for parts, vector in zip(self._parts, columns, strict=True):
            part = compacted(vector.take(rows))
            parts.append(part)
            self.bytes += part.values.nbytes + 16 + (0 if part.pool is None else 2 * len(part.pool.data))
        self.bytes += 32 * len(rows)

    def columns(self) -> list[Vector]:
        """The tuples, one vector for each place in them, in order of first appearance."""
        for parts in self._parts:
            parts[:] = [concat(parts)]
        return [parts[0] for parts in self._parts]


def domains_of(columns: Sequence[Vector]) -> tuple[KeyDomain, ...]:
    """A domain for each place in some tuples; there are some."""
    return tuple(KeyDomain("", comparable(vector), _DOMAIN_KEYS_MAX) for vector in columns)


class MemberSet:
    """The members of the result set ``name``; not empty.

    ``runs`` are the domains of some of them each, which together are all; ``load`` numbers all members, once a row has to be looked
    up. ``bytes`` is about what that takes in memory; where it is too much (``is_large``) scans only leave out units and rows that
    cannot be members, and DuckDB, which can go to disk, looks the others up.
    """

    def __init__(
        self,
        name: str,
        types: Sequence[ColumnType],
        count: int,
        runs: Sequence[tuple[KeyDomain, ...]],
        load: Callable[[], KeyNumbers],
        *,
        bytes: int = 0,
        table_bytes: int = 0,
    ) -> None:
        self.name = name
        self.types = tuple(types)
        self.count = count
        self.bytes = bytes
        self.is_large = False
        #: The members, one vector for each place in them, where these are in memory.
        self.values: Sequence[Vector] | None = None
        #: Bytes of the table that holds them; 0 where memory does.
        self.table_bytes = table_bytes
        self._runs = tuple(runs)
        self._load = load
        self._numbers: KeyNumbers | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MemberSet({self.name!r}, {self.size_text})"

    @property
    def size_text(self) -> str:
        """How many members there are and where, for people."""
        return f"{self.count:,} member{'s' if self.count != 1 else ''}{', table' if self.table_bytes else ''}"

    def contains(self, columns: Sequence[Vector]) -> BoolArray:
        """Rows of some columns that are members (of a large set: that may be); a row with a NULL is none."""
        vectors = [comparable(vector) for vector in columns]
        found = self._may_contain(vectors)
        if self.is_large or (len(self._runs) == len(vectors) == 1 and self._runs[0][0].is_exact):
            return found
        rows: IntArray = np.flatnonzero(found)
        if len(rows):
            found[rows] = self._numbered().numbers([vector.take(rows) for vector in vectors], add=False) >= 0
        return found

    def verdicts(self, columns: Sequence[Statistics | None], count: int) -> Verdicts:
        """Which of ``count`` units cannot hold a member, by the statistics of the columns."""
        return best([worst([d.verdicts(s, count) for d, s in zip(run, columns, strict=True)], count) for run in self._runs], count)

    def domains(self, columns: Sequence[str]) -> Iterator[KeyDomain]:
        """What is known of each of some columns whose tuples are members; nothing where the members are in several runs."""
        if len(self._runs) == 1:
            for domain, column in zip(self._runs[0], columns, strict=True):
                yield domain.named(column)

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest member, of whole numbers and times."""
        return min(run[0].low for run in self._runs), max(run[0].high for run in self._runs)

    def _may_contain(self, vectors: Sequence[Vector]) -> BoolArray:
        found = np.zeros(len(vectors[0]), np.bool_)
        for run in self._runs:
            of_run = np.ones(len(found), np.bool_)
            for domain, vector in zip(run, vectors, strict=True):
                of_run &= domain.contains(vector)
            found |= of_run
        return found

    def _numbered(self) -> KeyNumbers:
        """The numbers of all members, loaded by the first thread that asks."""
        numbers = self._numbers
        if numbers is None:
            with self._lock:
                numbers = self._numbers = self._numbers or self._load()
        return numbers
