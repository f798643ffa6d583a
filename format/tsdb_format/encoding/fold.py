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


class Place(NamedTuple):
    """The rows of results that are a column's: of its sum, in one part or two, least, greatest value, number of NaN; -1: none."""

    double: bool
    sum: tuple[int, ...]
    least: int
    greatest: int
    odd: int


class PageStack(NamedTuple):
    """The pages of columns of one file as kernels take them all at once: arrays have a row per column, ``kinds`` an element.

    ``wants`` are bits of ``kernels.fold`` for each column; 0 asks only whether it is foldable. Its results are ``places`` from row
    ``at`` on of those of doubles or of integers, of which there are ``result_rows``.
    """

    pages: tuple[PageSet, ...]
    words: WordArray
    page_offset: IntArray
    page_bytes: IntArray
    page_checksum: WordArray
    page_encoding: ByteArray
    verified: ByteArray
    kinds: IntArray
    wants: IntArray
    at: IntArray
    places: tuple[Place, ...]
    result_rows: tuple[int, int]


def is_foldable(pages: PageSet) -> bool:
    """Whether a column's rows may be folded: numbers of eight bytes, or integers, without a NULL."""
    if pages.type.kind not in _KINDS:
        return False
    _ = pages.source or pages.prepare()
    return not pages.has_nulls


def stack_pages(pages: Sequence[PageSet], wants: Sequence[int]) -> PageStack:
    """One or more foldable columns of one file, without compressed pages, and what of each is wanted."""
    return _stack(pages, [each.source or each.prepare() for each in pages], wants)


def _stack(pages: Sequence[PageSet], sources: Sequence[Source], wants: Sequence[int]) -> PageStack:
    def rows(name: str) -> NDArray[Any]:
        return np.stack([getattr(source, name) for source in sources])

    kinds = [kernel_kind(each.type.kind) for each in pages]
    places: list[Place] = []
    at: list[int] = []
    used = [0, 0]
    for kind, bits in zip(kinds, wants, strict=True):
        double = kind == DOUBLE
        row = used[double]
        at.append(row)
        numbers = iter(range(row, row + 5))
        total = tuple(next(numbers) for _ in range(2 - double)) if bits & fold.SUM else ()
        least = next(numbers) if bits & fold.LEAST else -1
        greatest = next(numbers) if bits & fold.GREATEST else -1
        odd = next(numbers) if double and bits & (fold.LEAST | fold.GREATEST) else -1
        places.append(Place(double, total, least, greatest, odd))
        used[double] = next(numbers)
    return PageStack(
        tuple(pages), sources[0].words, rows("page_offset"), rows("page_bytes"), rows("page_checksum"), rows("page_encoding"),
        rows("verified"), np.array(kinds, np.int64), np.array(wants, np.int64), np.array(at, np.int64), tuple(places),
        (used[True], used[False]),
    )  # fmt: skip


def fold_pages(pages: PageSet, starts: IntArray, stops: IntArray, segment_stop: IntArray, wants: int) -> StoredFold | None:
    """As ``fold_stack`` for one column, which may have compressed pages and may not be foldable."""
    if not is_foldable(pages):
        return None
    source, starts, stops = open_ranges(pages, starts, stops)
    return fold_stack(_stack([pages], [source], [wants]), starts, stops, segment_stop)[0]


def fold_stack(stack: PageStack, starts: IntArray, stops: IntArray, segment_stop: IntArray) -> list[StoredFold | None]:
    """Fold the rows of the ranges, end to end, by segments: none is empty, the last ends with the rows.

    None for a column whose rows must be read: of rare encodings, or in many short segments. Raises Corruption.
    """
    count, rows = len(segment_stop), int(segment_stop[-1])
    if _ROWS_FEW < rows < _SEGMENT_ROWS_MIN * count:
        return [None if wanted else StoredFold((_NOTHING,), _NOTHING, _NOTHING) for wanted in stack.wants.tolist()]
    numbers, whole = _results(stack.result_rows[0], count, np.float64), _results(stack.result_rows[1], count, np.int64)
    block, codes = np.empty(BLOCK_ROWS, np.uint64), np.empty(len(stack.pages), np.int64)
    fold.fold_columns(
        stack.words, stack.page_offset, stack.page_bytes, stack.page_checksum, stack.page_encoding, stack.verified,
        stack.pages[0].row_count, stack.pages[0].rows_per_page, stack.kinds, stack.wants, stack.at, starts, stops, segment_stop,
        block, block.view(np.float64), block.view(np.float32), numbers, whole, codes,
    )  # fmt: skip
    found: list[StoredFold | None] = []
    for pages, place, code in zip(stack.pages, stack.places, codes.tolist(), strict=True):
        if code >= 0:
            found.append(_stored(numbers if place.double else whole, place, code, segment_stop))
        elif -(-code & 7) == RARE:
            found.append(None)
        else:
            raise pages.failure(code)
    return found


def _results(rows: int, count: int, kind: type) -> NDArray[Any]:
    found: NDArray[Any] = recycled(rows * count, kind).reshape(rows, count)
    return found


def _stored(results: NDArray[Any], place: Place, odd: int, segment_stop: IntArray) -> StoredFold:
    """What a column's results are, some of which are NaN where it is ``odd``."""
    total: tuple[Any, ...] = tuple([results[row] for row in place.sum]) or (_NOTHING,)
    least = results[place.least] if place.least >= 0 else _NOTHING
    greatest = results[place.greatest] if place.greatest >= 0 else _NOTHING
    if odd:
        least = np.where(results[place.odd] == np.diff(segment_stop, prepend=0), np.nan, least) if len(least) else least
        greatest = np.where(results[place.odd] > 0, np.nan, greatest) if len(greatest) else greatest
    return StoredFold(total, least, greatest)
