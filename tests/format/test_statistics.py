"""Statistics of pages, chunks and the file, against plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.file_case import FIELD_TYPES, random_vector, text_vector
from tsdb_format import statistics
from tsdb_format.kernels import statistics as kernels
from tsdb_format.statistics import HAS_BOUNDS, HAS_EDGES, HAS_NAN, HAS_SUM, MAX_EXACT, MIN_EXACT, Statistics
from tsdb_format.summary import new_summary
from tsdb_format.types import BOOLEAN, DOUBLE, FLOAT, INT32, INT64, STRING, Kind, parse_type
from tsdb_format.vector import Pool, Vector

PAGES_PER_CHUNK = 3


def summarize(column: Vector, page_rows: int) -> Statistics:
    """All units of a column, added chunk by chunk, out of order."""
    summary = new_summary(column, page_rows)
    chunk_rows = page_rows * PAGES_PER_CHUNK
    for chunk in reversed(range(-(-len(column) // chunk_rows))):
        summary.add(chunk * PAGES_PER_CHUNK, column.take(slice(chunk * chunk_rows, (chunk + 1) * chunk_rows)))
    return summary.statistics(page_rows, PAGES_PER_CHUNK, len(column))


def units_of(rows: int, page_rows: int) -> list[slice]:
    """The rows of every unit as stored: pages, chunks unless there is one page, the file unless there is one chunk."""
    pages = [slice(at, min(at + page_rows, rows)) for at in range(0, rows, page_rows)]
    chunks = [slice(at, min(at + page_rows * PAGES_PER_CHUNK, rows)) for at in range(0, rows, page_rows * PAGES_PER_CHUNK)]
    return pages + (chunks if len(pages) > 1 else []) + ([slice(0, rows)] if len(chunks) > 1 else [])


def check_unit(found: Statistics, unit: int, kind: Any, values: list[Any]) -> None:
    """One unit against its values; None is NULL, strings are bytes."""
    flags = int(found.flags[unit])
    there = [value for value in values if value is not None]
    assert found.row_count[unit] == len(values)
    assert found.null_count[unit] == len(values) - len(there)
    if kind.kind in (Kind.BLOB, Kind.VECTOR):
        assert flags == 0
    elif kind.kind is Kind.STRING:
        check_text(found, unit, flags, there)
    else:
        check_numbers(found, unit, flags, there, kind.is_float)


def check_text(found: Statistics, unit: int, flags: int, there: list[bytes]) -> None:
    assert found.min_prefix is not None
    assert found.max_prefix is not None
    low, high = found.min_prefix[unit].tobytes(), found.max_prefix[unit].tobytes()
    if not there:
        assert (flags, low, high) == (0, bytes(16), bytes(16))
        return
    assert flags & HAS_BOUNDS
    for bound, value, exact in ((low, min(there), MIN_EXACT), (high, max(there), MAX_EXACT)):
        assert bound == value[:16].ljust(16, b"\0")
        assert bool(flags & exact) == (bound.rstrip(b"\0") == value)


def check_numbers(found: Statistics, unit: int, flags: int, there: list[Any], is_float: bool) -> None:
    assert found.min is not None
    assert found.max is not None
    assert found.sum is not None
    assert found.first is not None
    assert found.last is not None
    ordered = [value for value in there if value == value]
    assert bool(flags & HAS_BOUNDS) == bool(ordered)
    assert bool(flags & HAS_NAN) == (len(ordered) < len(there))
    assert bool(flags & HAS_EDGES) == bool(there)
    low, high, total, first, last = (array[unit] for array in (found.min, found.max, found.sum, found.first, found.last))
    if ordered:
        assert (low, high) == (min(ordered), max(ordered))
        assert not (is_float and ((np.signbit(low) and low == 0) or (np.signbit(high) and high == 0)))
    else:
        assert (low, high) == (0, 0)
    if there:
        assert np.array(first).tobytes() == np.array(there[0], first.dtype).tobytes()
        assert np.array(last).tobytes() == np.array(there[-1], last.dtype).tobytes()
    if is_float:
        if flags & HAS_SUM:
            assert math.isfinite(total)
            assert total == pytest.approx(math.fsum(there), rel=1e-9, abs=1e-9 * math.fsum(map(abs, there)))
        else:
            assert not there or not all(map(math.isfinite, there)) or not math.isfinite(np.cumsum(there)[-1]) or total == 0
    else:
        exact = sum(map(int, there))
        assert bool(flags & HAS_SUM) == (bool(there) and -(2**63) <= exact < 2**63)
        assert int(total) == (exact if flags & HAS_SUM else 0)


@pytest.mark.parametrize("name", FIELD_TYPES)
@pytest.mark.parametrize(("rows", "page_rows"), [(1, 1), (5, 8), (9, 3), (10, 3), (200, 7), (60, 20), (61, 20)])
def test_every_unit_says_what_its_rows_hold(name: str, rows: int, page_rows: int) -> None:
    kind = parse_type(name)
    rng = np.random.default_rng(rows * 100 + page_rows)
    for null_share in (0.0, 0.3, 1.0):
        column = random_vector(kind, rows, rng, null_share)
        found = summarize(column, page_rows)
        if column.pool is not None:
            valid = column.valid()
            texts = column.pool.tolist()
            values: list[Any] = [texts[code] if ok else None for code, ok in zip(column.values.tolist(), valid, strict=True)]
        elif kind.is_float:
            values = [value if ok else None for value, ok in zip(column.values.astype(np.float64), column.valid(), strict=True)]
        else:
            values = column.to_physical_list()
        units = units_of(rows, page_rows)
        assert len(found) == len(units) == statistics.unit_count(-(-rows // page_rows), -(-rows // (page_rows * PAGES_PER_CHUNK)))
        for unit, span in enumerate(units):
            check_unit(found, unit, kind, values[span])


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40), st.integers(1, 9))
def test_integers_of_any_size(values: list[int | None], page_rows: int) -> None:
    valid = np.array([value is not None for value in values])
    column = Vector(INT64, np.array([value or 0 for value in values], np.int64), valid)
    found = summarize(column, page_rows)
    for unit, span in enumerate(units_of(len(values), page_rows)):
        check_unit(found, unit, INT64, values[span])


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), min_size=1, max_size=30), st.integers(1, 9), st.booleans())
def test_strings_of_any_bytes(values: list[bytes | None], page_rows: int, crowded: bool) -> None:
    column = text_vector(values)
    if crowded and column.pool is not None:  # a pool with far more strings than rows, as a shared one has
        column.pool = Pool.of([*column.pool.tolist(), *(b"%d" % i for i in range(100))])
    found = summarize(column, page_rows)
    for unit, span in enumerate(units_of(len(values), page_rows)):
        check_unit(found, unit, STRING, values[span])


def test_a_sum_that_overflows_in_a_page_may_fit_the_file() -> None:
    column = Vector(INT64, np.array([2**62, 2**62, -(2**62), -(2**62), 5, 6], np.int64))
    found = summarize(column, 2)
    assert [bool(flag & HAS_SUM) for flag in found.flags.tolist()] == [False, True, True, True]
    assert found.sum is not None
    assert found.sum.tolist() == [0, -(2**63), 11, 11]


def test_signed_zero_and_nan() -> None:
    payload = np.array([0xFFF0_0000_0000_0001], np.uint64).view(np.float64)[0]
    column = Vector(DOUBLE, np.array([-0.0, payload, -0.0, -0.0, payload, payload]))
    found = summarize(column, 3)
    assert found.flags.tolist() == [HAS_BOUNDS | HAS_NAN | HAS_EDGES] * 3
    column = Vector(DOUBLE, np.array([payload, payload]))
    found = summarize(column, 3)
    assert found.flags.tolist() == [HAS_NAN | HAS_EDGES]
    assert found.first is not None
    assert found.first.view(np.uint64).tolist() == [0xFFF0_0000_0000_0001]


def test_infinities_are_bounds_but_no_sum() -> None:
    found = summarize(Vector(FLOAT, np.array([1, np.inf, -np.inf, np.inf], np.float32)), 2)
    assert found.min is not None
    assert found.max is not None
    assert (found.min.tolist(), found.max.tolist()) == ([1, -np.inf, -np.inf], [np.inf] * 3)
    assert not (found.flags & HAS_SUM).any()


def test_booleans_count_their_truths() -> None:
    found = summarize(Vector(BOOLEAN, np.array([True, True, False, True])), 4)
    assert found.sum is not None
    assert (found.sum.tolist(), found.sum.dtype) == ([3], np.int64)


@pytest.mark.parametrize("name", FIELD_TYPES)
def test_stored_statistics_come_back(name: str) -> None:
    kind = parse_type(name)
    found = summarize(random_vector(kind, 50, np.random.default_rng(1)), 7)
    raw = statistics.to_bytes(found)
    assert len(raw) == statistics.stored_bytes(kind, len(found))
    back = statistics.from_bytes(kind, raw, found.row_count)
    for part in Statistics.__slots__:
        mine, theirs = getattr(back, part), getattr(found, part)
        assert (mine is None) == (theirs is None)
        assert mine is None or mine.tobytes() == np.ascontiguousarray(theirs).tobytes()


def test_levels_of_one_unit_are_stored_once() -> None:
    assert [statistics.unit_count(*counts) for counts in ((1, 1), (2, 1), (64, 1), (65, 2))] == [1, 3, 65, 68]
    assert [statistics.level_units("file", *counts).start for counts in ((1, 1), (2, 1), (64, 1), (65, 2))] == [0, 2, 64, 67]
    assert statistics.level_units("chunk", 65, 2) == slice(65, 67)
    assert statistics.level_rows(10, 4).tolist() == [4, 4, 2]
    assert statistics.level_rows(8, 4).tolist() == [4, 4]


@pytest.mark.parametrize("mode", ["python", "jit"])
def test_kernels_agree_compiled_and_not(mode: str) -> None:
    rng = np.random.default_rng(3)
    rows, page_rows, units = 50, 8, 7
    validity = rng.random(rows) < 0.7
    integers = rng.integers(-(2**40), 2**40, rows)
    out = [np.empty(units, np.int64) for _ in range(7)]
    kernels.integer_units.resolve(mode)(integers, validity, page_rows, *out)
    for unit in range(units):
        values = integers[unit * page_rows : (unit + 1) * page_rows][validity[unit * page_rows : (unit + 1) * page_rows]]
        nulls = min(page_rows, rows - unit * page_rows) - len(values)
        expected = [nulls, values.min(), values.max(), values.sum(), values[0], values[-1]]
        sum_high, sum_low = out[3][unit], out[4][unit]
        assert [*(out[i][unit] for i in (0, 1, 2)), (sum_high << 32) + sum_low, out[5][unit], out[6][unit]] == expected
    floats = rng.normal(size=rows)
    counts, numbers = [np.empty(units, np.int64) for _ in range(2)], [np.empty(units, np.float64) for _ in range(5)]
    kernels.float_units.resolve(mode)(floats, np.empty(0, np.bool_), page_rows, *counts, *numbers)
    assert counts[0].tolist() == [0] * units
    assert numbers[0].tolist() == np.minimum.reduceat(floats, np.arange(0, rows, page_rows)).tolist()
    nulls_only = np.empty(units, np.int64)
    kernels.null_units.resolve(mode)(validity, page_rows, nulls_only)
    assert nulls_only.tolist() == out[0].tolist()
    pool = Pool.of([b"b", b"", b"sixteen bytes!!!!", b"a\0", b"a"])
    keys = [np.empty(5, np.uint64), np.empty(5, np.uint64), np.empty(5, np.uint8)]
    kernels.prefix_keys.resolve(mode)(pool.offsets, pool.data, np.arange(5, dtype=np.int32), *keys)
    assert keys[2].tolist() == [0, 0, 1, 1, 0]
    assert (keys[0] >> np.uint64(56)).tolist() == [ord("b"), 0, ord("s"), ord("a"), ord("a")]
    low, high = np.empty(1, np.int64), np.empty(1, np.int64)
    kernels.text_units.resolve(mode)(np.arange(5, dtype=np.int32), np.empty(0, np.bool_), 8, *keys, nulls_only[:1], low, high)
    assert (low[0], high[0]) == (1, 2)


def test_null_rows_leave_no_trace() -> None:
    valid = np.array([True, False, True])
    one = summarize(Vector(INT32, np.array([1, -99, 3], np.int32), valid), 3)
    two = summarize(Vector(INT32, np.array([1, 77, 3], np.int32), valid), 3)
    assert statistics.to_bytes(one).tobytes() == statistics.to_bytes(two).tobytes()
