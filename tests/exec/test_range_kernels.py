"""Every engine kernel against a plain twin, through the compiled code and through the plain function."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.exec.kernels import bucket, merge, ranges, runs, text, unit
from tsdb.exec.selection import slices
from tsdb_format.vector import Pool

MODES = ("auto", "jit", "python")


@st.composite
def row_ranges(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    steps = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=8))
    starts, stops, at = [], [], 0
    for gap, length in steps:
        starts.append(at + gap)
        stops.append(at + gap + length)
        at += gap + length
    return np.array(starts, np.int64), np.array(stops, np.int64)


def rows_of(starts: Any, stops: Any) -> list[int]:
    return [row for a, b in zip(starts, stops, strict=True) for row in range(a, b)]


def buffers(size: int, count: int = 2) -> list[np.ndarray[Any, Any]]:
    return [np.empty(size, np.int64) for _ in range(count)]


@pytest.mark.parametrize("mode", MODES)
@given(given_ranges=row_ranges(), bits=st.integers(0, 2**60 - 1), size=st.integers(1, 7))
def test_range_kernels(mode: str, given_ranges: Any, bits: int, size: int) -> None:
    starts, stops = given_ranges
    rows = rows_of(starts, stops)
    out = np.empty(len(rows), np.int64)
    ranges.expand.resolve(mode)(starts, stops, out)
    assert out.tolist() == rows

    a, b = buffers(len(rows))
    count = ranges.coalesce.resolve(mode)(out, a, b)
    assert rows_of(a[:count], b[:count]) == rows
    assert all(b[i] < a[i + 1] for i in range(count - 1))

    mask = np.array([bits >> (i % 60) & 1 for i in range(len(rows))], np.bool_)
    count = ranges.select.resolve(mode)(starts, stops, mask, a, b)
    assert rows_of(a[:count], b[:count]) == [row for row, ok in zip(rows, mask, strict=True) if ok]

    pages = (rows[-1] // size + 1) if rows else 0
    verdict = np.array([bits >> (i % 60) & 1 for i in range(pages)], np.uint8)
    c, d, e = buffers(len(starts) + pages, 3)
    count = ranges.clip.resolve(mode)(starts, stops, size, verdict, c, d)
    assert rows_of(c[:count], d[:count]) == [row for row in rows if verdict[row // size]]
    count = ranges.split_by_page.resolve(mode)(starts, stops, size, c, d, e)
    assert rows_of(c[:count], d[:count]) == rows
    assert all(
        first // size == (last - 1) // size == page for first, last, page in zip(c[:count], d[:count], e[:count], strict=True)
    )

    page_bytes = np.arange(pages, dtype=np.int64) + 1
    column_seen, page_seen = np.zeros(pages, np.uint8), np.zeros(pages, np.uint8)
    touched = sorted({row // size for row in rows})
    assert ranges.touch.resolve(mode)(starts, stops, size, page_bytes, column_seen, page_seen) == sum(page + 1 for page in touched)
    assert ranges.touch.resolve(mode)(starts, stops, size, page_bytes, column_seen, page_seen) == 0
    assert np.flatnonzero(page_seen).tolist() == touched


@pytest.mark.parametrize("mode", MODES)
@given(given_ranges=row_ranges(), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=60))
def test_device_kernels(mode: str, given_ranges: Any, lengths: list[int]) -> None:
    row_start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    starts, stops = given_ranges
    keep = stops <= row_start[-1]
    starts, stops = starts[keep], stops[keep]
    rows = rows_of(starts, stops)
    devices = np.empty(len(rows), np.int32)
    local, value = np.arange(len(lengths), dtype=np.int32), np.arange(len(lengths), dtype=np.int32) * 7
    ranges.repeat_by_device.resolve(mode)(row_start, local, value[:0], starts, stops, devices)
    expected = [int(np.searchsorted(row_start, row, "right")) - 1 for row in rows]
    assert devices.tolist() == expected
    values = np.empty(len(rows), np.int32)
    ranges.repeat_by_device.resolve(mode)(row_start, local[::-1].copy(), value, starts, stops, values)
    assert values.tolist() == [7 * (len(lengths) - 1 - device) for device in expected]
    first, last, run = buffers(len(starts) + len(lengths), 3)
    count = unit.split_by_run.resolve(mode)(row_start, starts, stops, first, last, run)
    assert rows_of(first[:count], last[:count]) == rows
    assert np.repeat(run[:count], last[:count] - first[:count]).tolist() == expected
    group, stop = buffers(len(starts) + len(lengths))
    count = bucket.pieces.resolve(mode)(row_start, starts, stops, np.arange(len(lengths)) * 3, stop, group)
    assert np.repeat(group[:count], np.diff(stop[:count], prepend=0)).tolist() == [device * 3 for device in expected]
    assert len(set(expected)) == count
    chosen = np.unique(devices).astype(np.int64)
    a, b = buffers(len(chosen))
    count = ranges.runs_of_devices.resolve(mode)(row_start, chosen, a, b)
    assert rows_of(a[:count], b[:count]) == [row for i in chosen for row in range(row_start[i], row_start[i + 1])]


@pytest.mark.parametrize("mode", MODES)
@given(
    given_ranges=row_ranges(), spans=st.lists(st.tuples(st.integers(1, 6), st.integers(-9, 30), st.integers(0, 4)), max_size=30),
    widths=st.lists(st.integers(1, 8), max_size=2), groups=st.integers(1, 3), indexed=st.booleans(),
)  # fmt: skip
def test_segments_of_devices_in_one_bucket_each(
    mode: str, given_ranges: Any, spans: list[tuple[int, int, int]], widths: list[int], groups: int, indexed: bool
) -> None:
    lengths, first_times, longs = (np.array([span[at] for span in spans], np.int64) for at in range(3))
    row_start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    device = np.arange(len(spans), dtype=np.int32)[::-1].copy()
    group_of = np.arange(len(spans), dtype=np.int64) // 2 % groups
    starts, stops = given_ranges
    keep = stops <= row_start[-1]
    starts, stops = starts[keep], stops[keep]
    described = np.array([[width, 0, 0, 86_400, 1] for width in widths], np.int64).reshape(-1)
    times = (first_times, first_times + longs) if indexed else (first_times[:0], first_times[:0])
    stop, group, start = buffers(len(starts) + len(spans) + 1, 3)
    count = bucket.indexed_segments.resolve(mode)(row_start, device, group_of, *times, described, starts, stops, stop, group, start)
    run = np.searchsorted(row_start, rows_of(starts, stops), "right") - 1
    begins = [max((time // width * width for width in widths), default=0) for time in first_times.tolist()]
    ends = [max((time // width * width for width in widths), default=0) for time in (first_times + longs).tolist()]
    known = not widths or (indexed and all(begins[at] == ends[at] for at in run))
    assert known == (count >= 0) or not len(run)
    found = np.repeat(group[: abs(count)], np.diff(stop[: abs(count)], prepend=0)).tolist()
    assert found == [int(group_of[device[at]]) for at in run]
    if count >= 0:
        assert np.repeat(start[:count], np.diff(stop[:count], prepend=0)).tolist() == [begins[at] for at in run]
        cells = list(zip(group[:count], start[:count], strict=True))
        assert all(one != other for one, other in itertools.pairwise(cells))
    else:
        assert -count == len(set(run.tolist()))


class Noted(np.ndarray[Any, Any]):
    """An array that notes which of its elements somebody looked at."""

    seen: set[int]

    def __getitem__(self, at: Any) -> Any:
        self.seen.add(int(at))
        return super().__getitem__(at)


def test_segments_look_at_the_times_of_no_other_device() -> None:
    row_start, device = np.arange(0, 50, 5), np.arange(9, dtype=np.int32)
    starts, stops, described = np.array([12, 36]), np.array([13, 38]), np.array([10, 0, 0, 86_400, 1])
    times = [np.arange(9).view(Noted) for _ in range(2)]
    for each in times:
        each.seen = set()
    stop, group, start = buffers(12, 3)
    count = bucket.indexed_segments.plain(row_start, device, np.arange(9), *times, described, starts, stops, stop, group, start)
    assert (count, group[:count].tolist()) == (2, [2, 7])
    assert [each.seen for each in times] == [{2, 7}, {2, 7}]


TIMES = st.one_of(
    st.integers(-30, 30), st.integers(-(2**63), -(2**63) + 30), st.integers(2**63 - 30, 2**63 - 1), st.integers(-(2**62), 2**62)
)


@pytest.mark.parametrize("mode", MODES)
@given(
    pieces=st.lists(st.tuples(st.integers(0, 1), st.lists(TIMES, min_size=1, max_size=12).map(sorted)), min_size=1, max_size=4),
    width=st.one_of(st.integers(1, 9), st.integers(2**60, 2**62)), origin=st.integers(0, 2**40), more=st.integers(0, 9),
)  # fmt: skip
def test_segments_of_buckets(mode: str, pieces: list[tuple[int, list[int]]], width: int, origin: int, more: int) -> None:
    grids = [(width, origin % width), *([(more, origin % more)] if more else [])]
    described = np.array([[size, 0, at, 86_400, 1] for size, at in grids], np.int64).reshape(-1)
    piece_stop = np.cumsum([len(times) for _, times in pieces])
    piece_group = np.array([group for group, _ in pieces], np.int64)
    times = np.array([time for _, some in pieces for time in some], np.int64)
    stop, group, start = buffers(len(times), 3)
    count = bucket.segments.resolve(mode)(piece_stop, piece_group, times, described, stop, group, start)

    def name(time: int) -> int:
        if not bucket.FIRST <= time < bucket.INFINITE:
            return bucket.INFINITE if time > 0 else -bucket.INFINITE
        return max(max(time - (time - at) % size, bucket.FIRST) for size, at in grids)

    cells = [(group, name(time)) for group, some in pieces for time in some]
    sizes = [(*cell, len(list(rows))) for cell, rows in itertools.groupby(cells)]
    assert list(zip(group[:count], start[:count], np.diff(stop[:count], prepend=0), strict=True)) == sizes


@pytest.mark.parametrize("mode", MODES)
@given(
    cells=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=40), first=st.integers(-(2**62), 2**62),
    width=st.integers(1, 2**60),
)  # fmt: skip
def test_slots_of_cells(mode: str, cells: list[tuple[int, int]], first: int, width: int) -> None:
    group = np.array([cell[0] for cell in cells], np.int64)
    start = np.array([min(first + cell[1] * width, 2**63 - 1 - (2**63 - 1 - first) % width) for cell in cells], np.int64)
    slot = np.empty(len(cells), np.int64)
    bucket.slots.resolve(mode)(group, start, first, width, 6, slot)
    assert slot.tolist() == [6 * int(at) + (int(tick) - first) // width for at, tick in zip(group, start, strict=True)]


@pytest.mark.parametrize("mode", MODES)
@given(
    given_runs=st.lists(st.lists(st.integers(-5, 60), min_size=1, max_size=20).map(sorted), min_size=1, max_size=6),
    size=st.integers(1, 5), key=st.integers(-6, 61), right=st.booleans(),
)  # fmt: skip
def test_time_search(mode: str, given_runs: list[list[int]], size: int, key: int, right: bool) -> None:
    times = np.array([t for run in given_runs for t in run], np.int64)
    edges = np.concatenate([[0], np.cumsum([len(run) for run in given_runs])]).astype(np.int64)
    starts, stops = edges[:-1].copy(), edges[1:].copy()
    expected = [int(a + np.searchsorted(times[a:b], key, "right" if right else "left")) for a, b in zip(starts, stops, strict=True)]
    found = np.empty(len(starts), np.int64)
    runs.search.resolve(mode)(times, starts, stops, np.full(len(starts), key), int(right), found)
    assert found.tolist() == expected
    pages = [times[i : i + size] for i in range(0, len(times), size)]
    high = np.array([p.max() for p in pages])
    first, last = starts.copy(), stops.copy()
    runs.narrow.resolve(mode)(first, last, size, high, key, int(right))
    assert all(a <= want <= b and (want < b or b == stop) for a, b, want, stop in zip(first, last, expected, stops, strict=True))
    assert all((b - 1) // size - a // size <= 2 for a, b in zip(first, last, strict=True))


@pytest.mark.parametrize("mode", MODES)
@given(entries=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 6)), min_size=1, max_size=20))
def test_overlap_marks_runs_that_share_an_instant(mode: str, entries: list[tuple[int, int, int]]) -> None:
    spans = sorted((device, low, low + length) for device, low, length in entries)
    device, low, high = (np.array(column) for column in zip(*spans, strict=True))
    dirty = np.empty(len(spans), np.bool_)
    count = runs.overlapping.resolve(mode)(device.astype(np.int32), low.astype(np.int64), high.astype(np.int64), dirty)
    direct = [
        any(i != j and a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2] for j, b in enumerate(spans)) for i, a in enumerate(spans)
    ]  # fmt: skip
    assert dirty.tolist() == direct
    assert count == sum(direct)


@pytest.mark.parametrize("mode", MODES)
@given(rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), min_size=1, max_size=20))
def test_merge_kernels(mode: str, rows: list[tuple[int, int, bool]]) -> None:
    rows = sorted(rows, key=lambda row: row[:2])
    device, time = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    valid = np.array([row[2] for row in rows], np.bool_)
    groups = np.empty(len(rows) + 1, np.int64)
    count = merge.group_starts.resolve(mode)(device, time, groups)
    groups = groups[: count + 1]
    distinct = sorted({row[:2] for row in rows})
    assert [(int(device[i]), int(time[i])) for i in groups[:-1]] == distinct
    chosen, ok = np.empty(count, np.int64), np.empty(count, np.bool_)
    nulls = merge.newest_valid.resolve(mode)(groups, valid, chosen, ok)
    for g, key in enumerate(distinct):
        members = [i for i, row in enumerate(rows) if row[:2] == key]
        good = [i for i in members if rows[i][2]]
        assert (chosen[g], ok[g]) == ((good or members)[-1], bool(good))
    assert nulls == count - ok.sum()


@pytest.mark.parametrize("mode", MODES)
@given(strings=st.lists(st.binary(max_size=5), max_size=8), literal=st.binary(max_size=5))
def test_text_kernels(mode: str, strings: list[bytes], literal: bytes) -> None:
    pool = Pool.of(strings)
    signs = np.empty(len(strings), np.int8)
    text.compare.resolve(mode)(pool.offsets, pool.data, np.frombuffer(literal, np.uint8), signs)
    assert signs.tolist() == [(s > literal) - (s < literal) for s in strings]


@pytest.mark.parametrize("mode", MODES)
@given(spans=st.lists(st.tuples(st.integers(-5, 30), st.integers(0, 9)), min_size=1, max_size=12), descending=st.booleans(),
       low=st.integers(-6, 10), width=st.integers(0, 40), wanted=st.integers(0, 5), mask_bits=st.integers(0, 2**12),
       skip_bits=st.integers(0, 2**12))  # fmt: skip
def test_pull_and_witnesses(
    mode: str, spans: list[tuple[int, int]], descending: bool, low: int, width: int, wanted: int, mask_bits: int, skip_bits: int
) -> None:
    high = low + width
    min_time = np.array([a for a, _ in spans], np.int64)
    max_time = np.array([a + b for a, b in spans], np.int64)
    device = np.arange(len(spans), dtype=np.int32)[::-1].copy()
    mask = np.array([mask_bits >> i & 1 for i in range(len(spans))], np.bool_) if mask_bits % 3 else np.empty(0, np.bool_)
    skip = np.array([skip_bits >> i & 1 for i in range(len(spans))], np.bool_) if skip_bits % 3 else np.empty(0, np.bool_)
    best = ~max_time if descending else min_time
    order = np.argsort(best, kind="stable").astype(np.int32)
    live = [int(i) for i in order if not len(skip) or not skip[i]]
    wants = [i for i in live if max_time[i] >= low and min_time[i] <= high and (not len(mask) or mask[device[i]])]
    limits = np.array([low, high, descending, 0, 0, 0, 0, wanted, wanted, 0], np.int64)
    cursor, pulled = np.zeros(2, np.int64), []
    none = np.empty(0, np.int64)
    for _ in range(len(spans) + 2):
        out = np.empty(wanted, np.int64)
        count = runs.pull.resolve(mode)(order, none, min_time, max_time, device, skip, mask, device, limits, cursor, out)
        pulled += out[:count].tolist()
        if cursor[0] == len(order):
            break
    assert pulled == (wants if wanted or not wants else [])
    sure = [i for i in wants if low <= (max_time[i] if descending else min_time[i]) <= high][:wanted]
    numbers, times = np.empty(wanted, np.int32), np.empty(wanted, np.int64)
    count = runs.witnesses.resolve(mode)(
        order, min_time, max_time, device, skip, mask, low, high, int(descending), wanted, numbers, times
    )
    assert numbers[:count].tolist() == [int(device[i]) for i in sure]
    assert times[:count].tolist() == [int(max_time[i] if descending else min_time[i]) for i in sure]
    found, partial = np.empty(len(spans), np.int64), np.empty(len(spans), np.uint8)
    count = runs.within.resolve(mode)(min_time, max_time, device, skip, mask, low, high, found, partial)
    assert found[:count].tolist() == sorted(wants)
    assert [bool(p) for p in partial[:count]] == [bool(min_time[i] < low or max_time[i] > high) for i in sorted(wants)]


@pytest.mark.parametrize("mode", MODES)
@given(spans=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=12), descending=st.booleans(),
       tied=st.integers(0, 2), key=st.integers(0, 9), tie=st.integers(-9, 9))  # fmt: skip
def test_pull_stops_at_what_the_threshold_excludes(
    mode: str, spans: list[tuple[int, int]], descending: bool, tied: int, key: int, tie: int
) -> None:
    min_time = np.array([a for a, _ in spans], np.int64)
    max_time = np.array([a + b for a, b in spans], np.int64)
    device = np.arange(len(spans), dtype=np.int32)
    rank = device[::-1].copy()
    best = ~max_time if descending else min_time
    ties = [np.zeros(len(spans), np.int64), rank.astype(np.int64), ~max_time if descending else min_time][tied]
    order = np.lexsort((ties, best)).astype(np.int32)
    threshold = ~key if descending else key
    wants = [int(i) for i in order if best[i] < threshold or (best[i] == threshold and (not tied or ties[i] <= tie))]
    limits = np.array([-100, 100, descending, 1, threshold, tie, 2**62, len(spans), len(spans), tied], np.int64)
    cursor, out, none = np.zeros(2, np.int64), np.empty(len(spans), np.int64), np.empty(0, np.bool_)
    run_key = np.empty(0, np.int64)
    count = runs.pull.resolve(mode)(order, run_key, min_time, max_time, device, none, none, rank, limits, cursor, out)
    assert out[:count].tolist() == wants
    assert cursor[0] == len(order)


@pytest.mark.parametrize("mode", MODES)
@given(held=st.sets(st.integers(0, 40)), wanted=st.sets(st.integers(0, 40)), seed=st.integers(0, 9))
def test_runs_of_devices_are_found_by_tag_order(mode: str, held: set[int], wanted: set[int], seed: int) -> None:
    rank = np.random.default_rng(seed).permutation(41).astype(np.int32)
    device, some = (np.array(sorted(each, key=lambda number: rank[number]), np.int32) for each in (held, wanted))
    found = np.empty(len(some), np.int64)
    runs.of_devices.resolve(mode)(device, rank, some, found)
    place = {number: run for run, number in enumerate(device.tolist())}
    assert found.tolist() == [place.get(number, -1) for number in some.tolist()]


@pytest.mark.parametrize("mode", MODES)
@given(times=st.lists(st.integers(-5, 20), min_size=1, max_size=20).map(sorted), bounds=st.lists(st.integers(0, 20), min_size=2),
       key=st.integers(-6, 21), right=st.booleans())  # fmt: skip
def test_search_in_rows(mode: str, times: list[int], bounds: list[int], key: int, right: bool) -> None:
    values = np.array(times, np.int64)
    edges = np.minimum(np.array(sorted(bounds), np.int64), len(times))
    found = np.empty(len(edges) - 1, np.int64)
    runs.search_rows.resolve(mode)(values, edges[:-1].copy(), edges[1:].copy(), key, int(right), found)
    side = "right" if right else "left"
    assert found.tolist() == [int(a + np.searchsorted(values[a:b], key, side)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


@given(given_ranges=row_ranges(), sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_slices_are_the_ranges_in_groups(given_ranges: Any, sizes: list[int]) -> None:
    """Whatever size each group may have, no row is lost or comes twice, and none has too many."""
    starts, stops = given_ranges
    turns = itertools.cycle(sizes)
    asked: list[int] = []

    def size() -> int:
        asked.append(next(turns))
        return asked[-1]

    found: list[int] = []
    for first, last in slices(starts, stops, size):
        rows = rows_of(first, last)
        assert (first < last).all()
        assert 0 < len(rows) <= asked[-1]
        found += rows
    assert found == rows_of(starts, stops)
