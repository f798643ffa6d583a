"""Computing statistics while a column is written: pages by kernels, chunks and the file by rolling the pages up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tsdb_format.kernels import statistics as kernels
from tsdb_format.statistics import (
    HAS_BOUNDS,
    HAS_EDGES,
    HAS_NAN,
    HAS_SUM,
    MAX_EXACT,
    MIN_EXACT,
    PREFIX_BYTES,
    Statistics,
    level_rows,
    number_dtype,
    unit_rows,
)
from tsdb_format.types import Kind
from tsdb_format.vector import BoolArray, ByteArray, IntArray, Vector

UIntArray = NDArray[np.uint64]
_ALL_VALID = np.empty(0, np.bool_)


class Summary(Protocol):
    """What gathers one column's statistics. ``add`` may run in several threads, each for other pages."""

    def add(self, first_page: int, rows: Vector) -> None:
        """Summarize the pages that ``rows`` fill, beginning with ``first_page``."""

    def statistics(self, page_rows: int, pages_per_chunk: int, row_count: int) -> Statistics:
        """Statistics of all units: pages, chunks, file; the levels that repeat the one below left out."""


def new_summary(column: Vector, rows_per_page: int) -> Summary:
    """An empty summary fit for a column's type."""
    pages = -(-len(column) // rows_per_page)
    if column.type.is_float:
        return FloatSummary(pages, rows_per_page)
    if number_dtype(column.type) is not None:
        return IntegerSummary(pages, rows_per_page)
    if column.type.kind is Kind.STRING:
        return TextSummary(pages, rows_per_page, column)
    return NullSummary(pages, rows_per_page)


def _levels(page_rows: int, pages_per_chunk: int, row_count: int) -> tuple[list[IntArray], IntArray]:
    """For each level above the page that is stored: first lower unit of each of its units; and the rows of all units."""
    pages = -(-row_count // page_rows)
    starts = [np.arange(0, pages, pages_per_chunk)] if pages > 1 else []
    if pages > pages_per_chunk:
        starts.append(np.zeros(1, np.int64))
    return starts, unit_rows(row_count, page_rows, pages_per_chunk)


def _edges(has: BoolArray, starts: IntArray) -> tuple[IntArray, IntArray]:
    """Per group of units: the first and last unit that has a value; any unit where none has."""
    position = np.arange(len(has))
    first = np.minimum.reduceat(np.where(has, position, len(has)), starts)
    last = np.maximum.reduceat(np.where(has, position, -1), starts)
    return np.minimum(first, len(has) - 1), np.maximum(last, 0)


def _sums_in_order(values: NDArray[np.float64], starts: IntArray) -> NDArray[np.float64]:
    ends = [*starts[1:].tolist(), len(values)]
    return np.array([np.cumsum(values[a:b])[-1] for a, b in zip(starts.tolist(), ends, strict=True)])


class NullSummary:
    """NULL counts alone: BLOB and VECTOR."""

    def __init__(self, pages: int, rows_per_page: int) -> None:
        self.rows_per_page = rows_per_page
        self.nulls = np.zeros(pages, np.int64)

    def add(self, first_page: int, rows: Vector) -> None:
        """Summarize some pages."""
        if rows.validity is not None:
            count = -(-len(rows) // self.rows_per_page)
            kernels.null_units(np.ascontiguousarray(rows.validity), self.rows_per_page, self.nulls[first_page : first_page + count])

    def statistics(self, page_rows: int, pages_per_chunk: int, row_count: int) -> Statistics:
        """Statistics of all units."""
        starts, rows = _levels(page_rows, pages_per_chunk, row_count)
        nulls = _rolled(self.nulls, starts, np.add)
        return Statistics(rows, nulls, np.zeros(len(rows), np.uint8))


def _rolled(pages: NDArray[Any], starts: list[IntArray], how: np.ufunc) -> NDArray[Any]:
    """A page-level array followed by its reductions to each level."""
    levels = [pages]
    for groups in starts:
        levels.append(how.reduceat(levels[-1], groups))
    return np.concatenate(levels)


def _rolled_edges(values: NDArray[Any], nulls: IntArray, rows: IntArray, starts: list[IntArray], last: bool) -> NDArray[Any]:
    """First or last values of all units; ``nulls`` and ``rows`` are of all units."""
    levels, at = [values], 0
    for groups in starts:
        size = len(levels[-1])
        has = nulls[at : at + size] < rows[at : at + size]
        levels.append(levels[-1][_edges(has, groups)[1 if last else 0]])
        at += size
    return np.concatenate(levels)


class IntegerSummary:
    """Integers, dates, timestamps and truth values, as int64."""

    def __init__(self, pages: int, rows_per_page: int) -> None:
        self.rows_per_page = rows_per_page
        self.pages = np.zeros((7, pages), np.int64)  # NULLs, min, max, high and low half of the sum, first, last

    def add(self, first_page: int, rows: Vector) -> None:
        """Summarize some pages."""
        count = -(-len(rows) // self.rows_per_page)
        validity = _ALL_VALID if rows.validity is None else np.ascontiguousarray(rows.validity)
        outputs = [row[first_page : first_page + count] for row in self.pages]
        kernels.integer_units(np.ascontiguousarray(rows.values, np.int64), validity, self.rows_per_page, *outputs)

    def statistics(self, page_rows: int, pages_per_chunk: int, row_count: int) -> Statistics:
        """Statistics of all units."""
        starts, rows = _levels(page_rows, pages_per_chunk, row_count)
        nulls = _rolled(self.pages[0], starts, np.add)
        valued = self.pages[0] < rows[: len(self.pages[0])]
        limits = np.iinfo(np.int64)
        low = _rolled(np.where(valued, self.pages[1], limits.max), starts, np.minimum)
        high = _rolled(np.where(valued, self.pages[2], limits.min), starts, np.maximum)
        upper, lower = _rolled(self.pages[3], starts, np.add), _rolled(self.pages[4], starts, np.add)
        upper = upper + (lower >> 32)
        fits = (upper >= -(2**31)) & (upper < 2**31)
        total = np.where(fits, upper, 0) * 2**32 + (lower & 0xFFFF_FFFF)
        first = _rolled_edges(self.pages[5], nulls, rows, starts, last=False)
        last = _rolled_edges(self.pages[6], nulls, rows, starts, last=True)
        has = nulls < rows
        flags = (has * (HAS_BOUNDS | HAS_EDGES) + (has & fits) * HAS_SUM).astype(np.uint8)
        return Statistics(
            rows, nulls, flags, np.where(has, low, 0), np.where(has, high, 0), np.where(has & fits, total, 0),
            np.where(has, first, 0), np.where(has, last, 0),
        )  # fmt: skip


class FloatSummary:
    """FLOAT and DOUBLE, as float64."""

    def __init__(self, pages: int, rows_per_page: int) -> None:
        self.rows_per_page = rows_per_page
        self.counts = np.zeros((2, pages), np.int64)  # NULLs, NaNs
        self.pages = np.zeros((5, pages), np.float64)  # min, max, sum, first, last

    def add(self, first_page: int, rows: Vector) -> None:
        """Summarize some pages."""
        count = -(-len(rows) // self.rows_per_page)
        validity = _ALL_VALID if rows.validity is None else np.ascontiguousarray(rows.validity)
        outputs = [row[first_page : first_page + count] for part in (self.counts, self.pages) for row in part]
        with np.errstate(over="ignore", invalid="ignore"):
            kernels.float_units(np.ascontiguousarray(rows.values, np.float64), validity, self.rows_per_page, *outputs)

    def statistics(self, page_rows: int, pages_per_chunk: int, row_count: int) -> Statistics:
        """Statistics of all units."""
        starts, rows = _levels(page_rows, pages_per_chunk, row_count)
        nulls, nans = _rolled(self.counts[0], starts, np.add), _rolled(self.counts[1], starts, np.add)
        low, high = _rolled(self.pages[0], starts, np.minimum), _rolled(self.pages[1], starts, np.maximum)
        levels = [self.pages[2]]
        with np.errstate(over="ignore", invalid="ignore"):
            for groups in starts:
                levels.append(_sums_in_order(levels[-1], groups))
        total = np.concatenate(levels)
        first = _rolled_edges(self.pages[3], nulls, rows, starts, last=False)
        last = _rolled_edges(self.pages[4], nulls, rows, starts, last=True)
        bounded, has, finite = nulls + nans < rows, nulls < rows, np.isfinite(total)
        flags = bounded * HAS_BOUNDS + (has & finite) * HAS_SUM + (nans > 0) * HAS_NAN + has * HAS_EDGES
        return Statistics(
            rows, nulls, flags.astype(np.uint8), np.where(bounded, low, 0.0), np.where(bounded, high, 0.0),
            np.where(has & finite, total, 0.0), np.where(has, first, 0.0), np.where(has, last, 0.0),
        )  # fmt: skip


@dataclass(slots=True)
class _Bounds:
    """One bound of many units: two big-endian words of its prefix, and whether these are not the whole value."""

    upper: UIntArray
    lower: UIntArray
    longer: ByteArray

    @classmethod
    def empty(cls, count: int) -> _Bounds:
        return cls(np.zeros(count, np.uint64), np.zeros(count, np.uint64), np.zeros(count, np.uint8))

    def put(self, units: slice, keys: _Bounds, chosen: IntArray) -> None:
        has = chosen >= 0
        for mine, theirs in ((self.upper, keys.upper), (self.lower, keys.lower), (self.longer, keys.longer)):
            mine[units][has] = theirs[chosen[has]]

    def roll(self, has: BoolArray, groups: list[IntArray], last: bool) -> _Bounds:
        """Bounds of all units from those of pages."""
        rank = np.empty(len(self.upper), np.int64)
        rank[np.lexsort((self.longer, self.lower, self.upper))] = np.arange(len(rank))
        order = np.argsort(rank)
        rank[~has] = -1 if last else len(rank)
        best = _rolled(rank, groups, np.maximum if last else np.minimum)
        chosen = order[np.clip(best, 0, len(order) - 1)]
        return _Bounds(self.upper[chosen], self.lower[chosen], self.longer[chosen])

    def prefixes(self, has: BoolArray) -> ByteArray:
        words = np.empty((len(self.upper), 2), ">u8")
        words[:, 0], words[:, 1] = self.upper, self.lower
        words[~has] = 0
        return words.view(np.uint8).reshape(-1, PREFIX_BYTES)


def _keys(column: Vector, codes: NDArray[np.int32]) -> _Bounds:
    assert column.pool is not None
    keys = _Bounds(np.empty(len(codes), np.uint64), np.empty(len(codes), np.uint64), np.empty(len(codes), np.uint8))
    kernels.prefix_keys(column.pool.offsets, column.pool.data, codes, keys.upper, keys.lower, keys.longer)
    return keys


class TextSummary:
    """STRING, by prefixes."""

    def __init__(self, pages: int, rows_per_page: int, column: Vector) -> None:
        self.rows_per_page = rows_per_page
        self.nulls = np.zeros(pages, np.int64)
        self.low, self.high = _Bounds.empty(pages), _Bounds.empty(pages)
        size = 0 if column.pool is None else len(column.pool)
        # A pool smaller than the column is looked at once; of a large shared pool only what the rows name.
        self._pool_keys = _keys(column, np.arange(size, dtype=np.int32)) if 0 < size <= len(column) else None

    def add(self, first_page: int, rows: Vector) -> None:
        """Summarize some pages."""
        count = -(-len(rows) // self.rows_per_page)
        units = slice(first_page, first_page + count)
        validity = _ALL_VALID if rows.validity is None else np.ascontiguousarray(rows.validity)
        if len(validity) and not validity.any():
            self.nulls[units] = level_rows(len(rows), self.rows_per_page)
            return
        codes, keys = np.ascontiguousarray(rows.values, np.int32), self._pool_keys
        if keys is None:
            # A NULL row has no code to look up: it borrows a valid row's.
            named = np.where(validity, codes, codes[int(validity.argmax())]) if len(validity) else codes
            keys, codes = _keys(rows, np.ascontiguousarray(named, np.int32)), np.arange(len(codes), dtype=np.int32)
        low, high = np.empty(count, np.int64), np.empty(count, np.int64)
        kernels.text_units(
            codes, validity, self.rows_per_page, keys.upper, keys.lower, keys.longer, self.nulls[units], low, high
        )  # fmt: skip
        self.low.put(units, keys, low)
        self.high.put(units, keys, high)

    def statistics(self, page_rows: int, pages_per_chunk: int, row_count: int) -> Statistics:
        """Statistics of all units."""
        starts, rows = _levels(page_rows, pages_per_chunk, row_count)
        nulls = _rolled(self.nulls, starts, np.add)
        page_has = self.nulls < rows[: len(self.nulls)]
        low, high = self.low.roll(page_has, starts, last=False), self.high.roll(page_has, starts, last=True)
        has = nulls < rows
        flags = has * HAS_BOUNDS + (has & (low.longer == 0)) * MIN_EXACT + (has & (high.longer == 0)) * MAX_EXACT
        return Statistics(rows, nulls, flags.astype(np.uint8), min_prefix=low.prefixes(has), max_prefix=high.prefixes(has))
