"""Closed sets, cuts and overlaps of files, against definitions taken word for word."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.compaction_case import check_layout
from tsdb.storage.cuts import Cuts, free_times, roundest
from tsdb.storage.layout import Layout, covered, spans, union
from tsdb.storage.manifest import FileEntry

LOW, HIGH = -(2**63), 2**63 - 1
TIMES = st.one_of(st.integers(0, 50), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
RANGES = st.lists(st.tuples(TIMES, TIMES).map(lambda pair: (min(pair), max(pair))), max_size=8)


def random_files(seed: int) -> list[FileEntry]:
    """Files that keep the rule; some have the same range of sequence numbers, as outputs of one merge do."""
    random = Random(seed)
    files: list[FileEntry] = []
    sequence = 1
    for number in range(random.randrange(2, 9)):
        last = sequence + random.randrange(3)
        low = random.randrange(40)
        while low < 60 and random.random() < 0.8:
            high = low + random.randrange(12)
            name = f"{number}-{low}"
            files.append(FileEntry(name, random.randrange(1, 50), 1, 1, low, high, random.randrange(sequence, last + 1), last))
            low = high + 1 + random.randrange(5)
        sequence = last + 1
    check_layout(files)
    return files


def layout_of(files: list[FileEntry]) -> tuple[Layout, list[FileEntry]]:
    layout = Layout(files, [file.rows for file in files])
    return layout, [files[place] for place in layout.order.tolist()]


def meets(one: FileEntry, other: FileEntry) -> bool:
    return one.min_time <= other.max_time and other.min_time <= one.max_time


def is_closed(chosen: set[int], files: list[FileEntry]) -> bool:
    for number, between in enumerate(files):
        if number not in chosen:
            beside = [files[i] for i in chosen if meets(files[i], between)]
            if any(a.max_sequence < between.min_sequence for a in beside) and any(
                b.min_sequence > between.max_sequence for b in beside
            ):
                return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_the_closure_is_the_smallest_closed_set(seed: int) -> None:
    layout, files = layout_of(random_files(seed))
    random = Random(seed)
    picked = random.sample(range(len(files)), min(len(files), 2))
    found = set(layout.closure(np.array(picked)).tolist())
    assert set(picked) <= found
    assert is_closed(found, files)
    others = sorted(found - set(picked))
    if len(others) < 10:
        for size in range(len(others)):
            assert not any(is_closed({*picked, *some}, files) for some in combinations(others, size))
    for wider in (layout.gathered(np.array(sorted(found))), layout.filled(np.array(sorted(found)))):
        assert found <= set(wider.tolist())
        assert is_closed(set(wider.tolist()), files)


@pytest.mark.parametrize("seed", range(40))
def test_cuts_keep_outputs_of_a_closed_set_from_mixing_with_what_is_beside(seed: int) -> None:
    layout, files = layout_of(random_files(seed))
    random = Random(seed)
    chosen = layout.closure(np.array(random.sample(range(len(files)), min(len(files), 3))))
    cuts = layout.cuts(chosen, 20)
    inputs = [files[i] for i in chosen.tolist()]
    low, high = min(file.min_time for file in inputs), max(file.max_time for file in inputs)
    edges = [low, *cuts.required, high + 1]
    others = [file for number, file in enumerate(files) if number not in set(chosen.tolist())]
    outputs = []
    for first, stop in pairwise(edges):
        held = [file for file in inputs if file.min_time < stop and file.max_time >= first]
        if held:
            times = max(first, min(f.min_time for f in held)), min(stop - 1, max(f.max_time for f in held))
            sequences = min(f.min_sequence for f in held), max(f.max_sequence for f in held)
            outputs.append(FileEntry(f"out{first}", 1, 1, 1, *times, *sequences))
    check_layout(others + outputs)
    for output in outputs:
        for other in others:
            for mine in inputs:
                if meets(output, other) and meets(mine, output) and meets(mine, other):
                    assert (mine.max_sequence < other.min_sequence) == (output.max_sequence < other.min_sequence)
    expected_free = {t for t in range(low, high + 1) if not any(f.min_time <= t <= f.max_time for f in others)}
    assert {t for first, last in cuts.free for t in range(first, last + 1)} == expected_free


@pytest.mark.parametrize("seed", range(20))
def test_overlap_counts_rows_as_if_spread_evenly(seed: int) -> None:
    layout, files = layout_of(random_files(seed))
    chosen = np.arange(len(files))
    over = base = 0.0
    for time in range(80):
        rows = [f.rows / (f.max_time - f.min_time + 1) for f in files if f.min_time <= time <= f.max_time]
        over += sum(rows) - max(rows, default=0.0)
        base += max(rows, default=0.0)
    assert layout.overlap(chosen) == pytest.approx((over, base))
    lowest = layout.is_lowest(chosen[:2])
    assert lowest == (not any(meets(files[i], f) and f.max_sequence < files[i].min_sequence for f in files[2:] for i in (0, 1)))


@pytest.mark.parametrize("seed", range(10))
def test_stacks_are_the_files_at_each_beginning_by_age(seed: int) -> None:
    layout, files = layout_of(random_files(seed))
    expected = []
    for time in sorted({file.min_time for file in files}):
        held = [number for number, file in enumerate(files) if file.min_time <= time <= file.max_time]
        if len(held) > 1:
            expected.append(sorted(held, key=lambda number: files[number].max_sequence))
    assert list(layout.stacks()) == expected


@given(RANGES, RANGES)
def test_unions_spans_and_what_they_cover(taken: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    ordered = np.array(sorted(taken), np.int64).reshape(-1, 2)
    first, last = union(np.ascontiguousarray(ordered[:, 0]), np.ascontiguousarray(ordered[:, 1]))
    assert all(int(a) < int(b) for a, b in zip(last, first[1:], strict=False))
    ranges = np.array(asked, np.int64).reshape(-1, 2)
    low, high = np.ascontiguousarray(ranges[:, 0]), np.ascontiguousarray(ranges[:, 1])
    assert spans(low, high).tolist() == [float(b - a) + 1.0 for a, b in asked]
    found = covered(first, last, low, high)
    for (begin, end), got in zip(asked, found.tolist(), strict=True):
        exact = sum(max(0, min(int(b), end) - max(int(a), begin) + 1) for a, b in zip(first, last, strict=True))
        assert got == pytest.approx(exact, rel=1e-9)
        free = free_times(taken, begin, end)
        assert sum(b - a + 1 for a, b in free) == end - begin + 1 - exact
        assert all(not any(a <= t <= b for a, b in taken) for span in free for t in span)


@given(st.integers(LOW, HIGH), st.integers(LOW, HIGH))
def test_the_roundest_number(one: int, other: int) -> None:
    low, high = min(one, other), max(one, other)
    found = roundest(low, high)
    assert low <= found <= high
    if found:
        power = found & -found
        assert not any(-(-low // step) * step <= high for step in (2 * power, 4 * power))


@given(
    times=st.lists(st.integers(-40, 40), min_size=1, max_size=60), rows=st.sampled_from([1.0, 2.5]), rows_max=st.integers(1, 40),
    required=st.lists(st.integers(-45, 45), max_size=3), taken=RANGES, preferred=st.lists(TIMES, max_size=5),
)  # fmt: skip
def test_cuts_bound_the_rows_of_a_file(
    times: list[int], rows: float, rows_max: int, required: list[int], taken: list[tuple[int, int]], preferred: list[int]
) -> None:
    sample = np.sort(np.array(times, np.int64))
    low, high = int(sample[0]), int(sample[-1])
    cuts = Cuts(tuple(required), free_times(taken, low, high), tuple(preferred))
    found = cuts.place(sample, rows, rows_max)
    assert found == sorted(set(found))
    assert set(required) <= set(found)
    for part in np.split(sample, np.searchsorted(sample, found, "left")):
        assert len(part) == 0 or len(part) * rows <= rows_max or part[0] == part[-1]
    assert Cuts(tuple(required)).place(np.empty(0, np.int64), 1.0, 5) == list(required)


def test_cuts_prefer_the_ends_of_others_then_round_times() -> None:
    times = np.arange(1000, 2000)
    assert Cuts().place(times, 1.0, 600) == [1536]
    assert Cuts(preferred=(1100, 1490, 1700)).place(times, 1.0, 600) == [1490]
    assert Cuts(free=((1900, 1999),)).place(times, 1.0, 1000) == [1900]
    assert Cuts(free=((1990, 1999),)).place(times, 1.0, 1000) == []
    assert Cuts(free=((1000, HIGH),)).place(times, 1.0, 1000) == []
