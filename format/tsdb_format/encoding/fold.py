"""Sums and bounds of stored columns' row ranges by segment: the numbers themselves are mostly not made.

All columns of a file that are asked for are folded by one kernel call: a question about few rows has little else to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb_format.encoding.compression import open_ranges
from tsdb_format.encoding.page_set import BLOCK_ROWS, PageSet, Source, WordArray, kernel_kind
from tsdb_format.kernels import fold
from tsdb_format.kernels.page import DOUBLE
from tsdb_format.kernels.read import RARE
from tsdb_format.recycling import recycled
from tsdb_format.types import Kind
from tsdb_format.vector import ByteArray, IntArray

_KINDS = frozenset({Kind.DOUBLE, Kind.INT64, Kind.INT32})
#: Rows of segments on average from which this is faster than reading them; fewer rows than so many it always is.
_SEGMENT_ROWS_MIN = 6
_ROWS_FEW = 4_096
_NOTHING = np.empty(0, np.float64)


class StoredFold(NamedTuple):
    """Per segment, as far as it was asked for: the sum, in one part (floats) or as 2**32s and ones; the least, greatest value.

    NaN is the greatest float: least is NaN only where all are, greatest wherever one is.
    """

    sum: tuple[NDArray[np.float64]] | tuple[IntArray, IntArray]
    least: NDArray[np.float64] | IntArray
    greatest: NDArray[np.float64] | IntArray


class PageStack(NamedTuple):
    """The pages of columns of one file as kernels take them all at once: arrays have a row per column, ``kinds`` an element."""

    pages: tuple[PageSet, ...]
    words: WordArray
    page_offset: IntArray
    page_bytes: IntArray
    page_checksum: WordArray
    page_encoding: ByteArray
    verified: ByteArray
    kinds: IntArray


def is_foldable(pages: PageSet) -> bool:
    """Whether a column's rows may be folded: numbers of eight bytes, or integers, without a NULL."""
    if pages.type.kind not in _KINDS:
        return False
    _ = pages.source or pages.prepare()
    return not pages.has_nulls


def stack_pages(pages: Sequence[PageSet]) -> PageStack:
    """One or more foldable columns of one file, without compressed pages."""
    return _stack(pages, [each.source or each.prepare() for each in pages])


def _stack(pages: Sequence[PageSet], sources: Sequence[Source]) -> PageStack:
    def rows(name: str) -> NDArray[Any]:
        return np.stack([getattr(source, name) for source in sources])

    return PageStack(
        tuple(pages), sources[0].words, rows("page_offset"), rows("page_bytes"), rows("page_checksum"), rows("page_encoding"),
        rows("verified"), np.array([kernel_kind(each.type.kind) for each in pages], np.int64),
    )  # fmt: skip


def fold_pages(pages: PageSet, starts: IntArray, stops: IntArray, segment_stop: IntArray, wants: int) -> StoredFold | None:
    """As ``fold_stack`` for one column, which may have compressed pages and may not be foldable."""
    if not is_foldable(pages):
        return None
    source, starts, stops = open_ranges(pages, starts, stops)
    return fold_stack(_stack([pages], [source]), starts, stops, segment_stop, np.array([wants]))[0]


def fold_stack(
    stack: PageStack, starts: IntArray, stops: IntArray, segment_stop: IntArray, wants: IntArray
) -> list[StoredFold | None]:
    """Fold the rows of the ranges, end to end, by segments: none is empty, the last ends with the rows.

    ``wants`` i64 are bits of ``kernels.fold`` for each column; 0 asks only whether it is foldable. None where its rows must be
    read: of rare encodings, or in many short segments. Raises Corruption.
    """
    count = len(segment_stop)
    if int(segment_stop[-1]) < _SEGMENT_ROWS_MIN * count and int(segment_stop[-1]) > _ROWS_FEW:
        return [None if wanted else StoredFold((_NOTHING,), _NOTHING, _NOTHING) for wanted in wants.tolist()]
    doubles = stack.kinds == DOUBLE
    rows = (wants & 1) + (wants >> 1 & 1) + (wants >> 2) + np.where(doubles, wants > 1, wants & 1)
    at = np.where(doubles, np.cumsum(rows * doubles), np.cumsum(rows * ~doubles)) - rows
    numbers = _results(int((rows * doubles).sum()), count, np.float64)
    whole = _results(int((rows * ~doubles).sum()), count, np.int64)
    block, codes = np.empty(BLOCK_ROWS, np.uint64), np.empty(len(rows), np.int64)
    fold.fold_columns(
        stack.words, stack.page_offset, stack.page_bytes, stack.page_checksum, stack.page_encoding, stack.verified,
        stack.pages[0].row_count, stack.pages[0].rows_per_page, stack.kinds, wants, at, starts, stops, segment_stop, block,
        block.view(np.float64), block.view(np.float32), numbers, whole, codes,
    )  # fmt: skip
    found: list[StoredFold | None] = []
    for pages, kind, code, wanted, first, size in zip(
        stack.pages, stack.kinds.tolist(), codes.tolist(), wants.tolist(), at.tolist(), rows.tolist(), strict=True
    ):
        if code < 0:
            if -(-code & 7) != RARE:
                raise pages.failure(code)
            found.append(None)
        else:
            found.append(_stored(list((numbers if kind == DOUBLE else whole)[first : first + size]), wanted, code, segment_stop))
    return found


def _results(rows: int, count: int, kind: type) -> NDArray[Any]:
    found: NDArray[Any] = recycled(rows * count, kind).reshape(rows, count)
    return found


def _stored(results: list[Any], wants: int, odd: int, segment_stop: IntArray) -> StoredFold:
    """What a column's ``results`` are, some of which are NaN where it is ``odd``."""
    floats = bool(results) and results[0].dtype == np.float64
    total: tuple[Any, ...] = (_NOTHING,)
    if wants & fold.SUM:
        total = (results.pop(0),) if floats else (results.pop(0), results.pop(0))
    least = results.pop(0) if wants & fold.LEAST else _NOTHING
    greatest = results.pop(0) if wants & fold.GREATEST else _NOTHING
    if odd:
        least = np.where(results[0] == np.diff(segment_stop, prepend=0), np.nan, least) if wants & fold.LEAST else least
        greatest = np.where(results[0] > 0, np.nan, greatest) if wants & fold.GREATEST else greatest
    return StoredFold(total, least, greatest)
