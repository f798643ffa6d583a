"""Folding pages by segment: the sums and bounds of the values that reading gives, for every shape, encoding and cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.page_case import MODES, columns, make_vector, page_set, ranges, run, shapes
from tsdb_format.encoding import EncodedChunk, Encoding, PageSet, encode_chunk, fold, read_pages
from tsdb_format.encoding.number import Choice, as_numbers, write_numbers
from tsdb_format.errors import Corruption
from tsdb_format.kernels import fold as kernels
from tsdb_format.types import DOUBLE, FLOAT, INT32, INT64, STRING, ColumnType
from tsdb_format.vector import Vector

ALL = kernels.SUM | kernels.LEAST | kernels.GREATEST
KINDS = (INT32, INT64, DOUBLE)
NO_BOOLS = np.empty(0, np.bool_)


def cut(rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
    """Where some segments of so many rows end."""
    count = int(rng.integers(0, min(rows, 12)))
    return np.append(np.sort(rng.choice(np.arange(1, rows), count, replace=False)), rows).astype(np.int64)


def check(pages: PageSet, starts: NDArray[np.int64], stops: NDArray[np.int64], segment_stop: NDArray[np.int64], wants: int) -> bool:
    """Fold, and compare with what reading gives; whether folding was possible."""
    values = read_pages(pages, starts, stops).values
    found = fold.fold_pages(pages, starts, stops, segment_stop, wants)
    if found is None:
        return False
    for number, part in enumerate(np.split(values, segment_stop[:-1])):
        if values.dtype.kind == "i":
            exact = [int(value) for value in part]
            high, low = found.sum[0], found.sum[-1]
            assert not wants & kernels.SUM or int(high[number]) * 2**32 + int(low[number]) == sum(exact)
            assert not wants & kernels.LEAST or int(found.least[number]) == min(exact)
            assert not wants & kernels.GREATEST or int(found.greatest[number]) == max(exact)
            continue
        numbers = part[~np.isnan(part)]  # fmin makes NaN of a number and a signalling one
        least, greatest = numbers.min() if len(numbers) else np.nan, np.maximum.reduce(part)
        assert not wants & kernels.LEAST or np.array_equal(found.least[number], least, equal_nan=True)
        assert not wants & kernels.GREATEST or np.array_equal(found.greatest[number], greatest, equal_nan=True)
        with np.errstate(all="ignore"):
            total, size = part.sum(), np.abs(part).sum()
        if wants & kernels.SUM and np.isfinite(size):
            assert abs(found.sum[0][number] - total) <= 1e-12 * size
        elif wants & kernels.SUM and np.isnan(part).any():
            assert np.isnan(found.sum[0][number])
    return True


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data(), wants=st.sampled_from([1, 2, 4, 5, ALL]))
def test_folding_is_what_reading_gives(kind: ColumnType, data: st.DataObject, wants: int) -> None:
    vector, rows_per_page = data.draw(columns(kind))
    pages, rng = page_set(vector, rows_per_page), np.random.default_rng(data.draw(st.integers(0, 99)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold, "_SEGMENT_ROWS_MIN", 0)
        for starts, stops in ((np.array([0]), np.array([len(vector)])), ranges(rng, len(vector))):
            rows = int((stops - starts).sum())
            check(pages, starts, stops, cut(rng, rows), wants)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_many_short_ranges_of_a_block(kind: ColumnType) -> None:
    starts = np.arange(0, 2990, 10)
    for shape in shapes(kind):
        check(page_set(make_vector(kind, shape, 3000, 0.0, 7), 1024), starts, starts + 7, np.array([5, 1500, 7 * len(starts)]), ALL)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_many_small_devices_are_folded(kind: ColumnType) -> None:
    """A few rows of each, in a segment of their own: whatever becomes of a block, its rows are not made for that."""
    for gap, rows in ((40, 28), (12, 12), (11, 7)):
        starts = np.arange(0, 9000 - gap, gap)
        stops, segment_stop = starts + rows, (np.arange(len(starts)) + 1) * rows
        for shape in shapes(kind):
            pages = page_set(make_vector(kind, shape, 9000, 0.0, 7), 2048)
            foldable = bool((pages.page_encoding <= Encoding.DICTIONARY).all())
            for wants in (kernels.SUM, kernels.LEAST, kernels.GREATEST, ALL):
                assert check(pages, starts, stops, segment_stop, wants) == foldable


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_shape_in_full_pages(kind: ColumnType, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "fold_columns", run(kernels.fold_columns, mode))
    monkeypatch.setattr(fold, "_SEGMENT_ROWS_MIN", 0)
    done = 0
    for number, shape in enumerate(shapes(kind)):
        vector = make_vector(kind, shape, 2500 if mode != "python" else 1200, 0.0, 7)
        whole = np.array([0]), np.array([len(vector)])
        for seed in range(3):
            rng = np.random.default_rng([number, seed])
            done += check(page_set(vector, 1024), *whole, cut(rng, len(vector)), ALL)
    assert done > len(shapes(kind))


FORCED = [
    Choice(0, Encoding.PLAIN), Choice(0, Encoding.FOR), Choice(0, Encoding.DELTA, 1), Choice(0, Encoding.ALP, 0, 2),
    Choice(0, Encoding.ALP, 1, 2), Choice(0, Encoding.ALP, 0, 18), Choice(0, Encoding.RLE),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("choice", FORCED, ids=lambda choice: f"{choice.encoding.name} {choice.decimals}")
def test_every_encoding(kind: ColumnType, choice: Choice) -> None:
    if choice.encoding is Encoding.ALP and kind is not DOUBLE:
        return

    def encode(rows: Vector, rows_per_page: int) -> EncodedChunk:
        return write_numbers(as_numbers(rows, NO_BOOLS), NO_BOOLS, rows_per_page, choice)

    for shape in shapes(kind):
        pages = page_set(make_vector(kind, shape, 3000, 0.0, 7), 1024, encode)
        folded = check(pages, np.array([5]), np.array([2990]), np.array([700, 701, 2985]), ALL)
        assert folded == bool((pages.page_encoding <= Encoding.DICTIONARY).all())


@pytest.mark.parametrize("delta", [0, 1])
def test_exceptions_are_added_as_they_are(delta: int) -> None:
    """However small or large beside the decimals around them: the integers that stand in for them leave no trace."""
    rng = np.random.default_rng(3)
    values = np.round(rng.normal(1e9, 1.0, 2000).cumsum() / 1e3, 2)
    places = rng.choice(2000, 40, replace=False)
    values[places] = rng.choice([1e-300, -1e300, np.inf, np.nan, 1 / 3, -0.0], 40)

    def encode(rows: Vector, rows_per_page: int) -> EncodedChunk:
        return write_numbers(as_numbers(rows, NO_BOOLS), NO_BOOLS, rows_per_page, Choice(0, Encoding.ALP, delta, 2))

    pages = page_set(Vector(DOUBLE, values), 1024, encode)
    starts = np.sort(rng.choice(2000, 1500, replace=False)).astype(np.int64)
    found = fold.fold_pages(pages, starts, starts + 1, np.arange(1, 1501), kernels.SUM)
    assert found is not None
    assert np.array_equal(found.sum[0], values[starts], equal_nan=True)


def test_what_is_read_instead() -> None:
    whole = np.array([0]), np.array([2000])
    with_nulls = page_set(make_vector(DOUBLE, "walk", 2000, 0.1, 1), 1024)
    assert fold.fold_pages(with_nulls, *whole, np.array([2000]), ALL) is None
    for kind, shape in ((FLOAT, "walk"), (STRING, "few")):
        assert fold.fold_pages(page_set(make_vector(kind, shape, 2000, 0.0, 1), 1024), *whole, np.array([2000]), ALL) is None
    many = np.array([0]), np.array([5000])
    pages = page_set(make_vector(DOUBLE, "walk", 5000, 0.0, 1), 1024)
    assert fold.fold_pages(pages, *many, np.arange(1, 5001), ALL) is None  # a row a segment
    assert fold.fold_pages(pages, *many, np.arange(1, 5001), 0) is not None  # nothing is wanted but that there is no NULL


def test_columns_at_once_are_as_one_by_one() -> None:
    """Whatever is wanted of each, with rare encodings among them."""
    rng = np.random.default_rng(5)
    pages = [page_set(make_vector(kind, shape, 3000, 0.0, seed), 1024) for kind in KINDS for seed, shape in enumerate(shapes(kind))]
    of_one_file = [replace(each, buffer=np.concatenate([each.buffer for each in pages])) for each in _moved(pages)]
    starts, stops = ranges(rng, 3000)
    for segment_stop in (cut(rng, int((stops - starts).sum())), np.arange(1, int((stops - starts).sum()) + 1)):
        for _ in range(4):
            wants = rng.integers(0, ALL + 1, len(pages)).tolist()
            found = fold.fold_stack(fold.stack_pages(of_one_file, wants), starts, stops, segment_stop)
            for each, one, wanted in zip(pages, found, wants, strict=True):
                alone = fold.fold_pages(each, starts, stops, segment_stop, wanted)
                assert (one is None) == (alone is None)
                if one is not None and alone is not None:
                    for bit, mine, other in zip((1, 1, 2, 4), _parts(one), _parts(alone), strict=True):
                        assert not wanted & bit or np.array_equal(mine, other, equal_nan=True)


def _parts(found: fold.StoredFold) -> tuple[NDArray[Any], ...]:
    return found.sum[0], found.sum[-1], found.least, found.greatest


def _moved(pages: list[PageSet]) -> list[PageSet]:
    """The pages as they lie in one file, one column after the other."""
    at, moved = 0, []
    for each in pages:
        moved.append(replace(each, page_offset=each.page_offset + at, dict_offset=each.dict_offset + at))
        at += len(each.buffer)
    return moved


def test_damage_is_an_error() -> None:
    vector = make_vector(DOUBLE, "walk", 2000, 0.0, 1)
    for at in range(24, 400, 7):
        pages = page_set(vector, 1024, encode_chunk)
        pages.buffer[at] ^= 0x10
        with pytest.raises(Corruption):
            fold.fold_pages(pages, np.array([0]), np.array([2000]), np.array([2000]), ALL)
    with pytest.raises(IndexError):
        fold.fold_pages(page_set(vector, 1024), np.array([0]), np.array([2001]), np.array([2001]), ALL)
