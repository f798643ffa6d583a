"""Planning: what is merged, dropped and left alone, and what that costs in the long run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from support.compaction_case import FileSimulation, check_layout, depth
from tsdb.catalog.table import Table, TableOptions, build_schema
from tsdb.storage import compaction
from tsdb.storage.compaction import DEPTH_MAX, GROWTH, SMALL_SHARE, expired, needed, plan
from tsdb.storage.manifest import FileEntry, TableEntry
from tsdb.storage.tombstone import Tombstones
from tsdb_format.types import Role

NONE = Tombstones.none()
FULL = 256
WRITE = 32


def table(kind: str = "TIMESTAMP_MS", **options: Any) -> Table:
    schema = build_schema([("time", kind, Role.TIME), ("host", "STRING", Role.TAG), ("usage", "DOUBLE", Role.FIELD)])
    return Table(1, "t", schema, TableOptions(**{"file_rows_max": FULL, **options}), 4)


def file(name: str, rows: int, times: tuple[int, int], sequences: tuple[int, int], devices: int = 4, applied: int = 0) -> FileEntry:
    return FileEntry(name, rows, devices, 1000, *times, *sequences, applied)


def entry_of(*files: FileEntry, **options: Any) -> TableEntry:
    check_layout(files)
    return TableEntry(table(**options), tuple(sorted(files, key=lambda each: each.max_sequence)))


def names(entry: TableEntry, **arguments: Any) -> list[list[str]]:
    tombstones = arguments.pop("tombstones", NONE)
    return [sorted(each.name for each in task.inputs) for task in plan(entry, tombstones, arguments.pop("now_ns", 0), **arguments)]


def deletes(*ranges: tuple[int, int, int, int]) -> Tombstones:
    """(device, low, high, sequence) each."""
    found = NONE
    for device, low, high, sequence in ranges:
        found = found.plus(np.array([device], np.int32), np.array([low], np.int64), np.array([high], np.int64), sequence)
    return found


# -------------------------------------------------------------------------------------------------- what it costs in the long run


def in_order(rng: Any, number: int) -> Any:
    return np.arange(WRITE) * 100 + number * WRITE * 100


def with_late_rows(share: float, delay: float) -> Callable[[Any, int], Any]:
    """In order, but some rows come late: by ``delay`` writes on average, or (0) from anywhere before."""

    def times(rng: Any, number: int) -> Any:
        found = in_order(rng, number)
        late = rng.random(WRITE) < share
        before = rng.exponential(delay * WRITE * 100, WRITE).astype(int) if delay else rng.integers(0, found[-1] + 1, WRITE)
        return np.where(late, found - before if delay else before, found)

    return times


def bulk_first(rng: Any, number: int) -> Any:
    return rng.integers(0, 10**7, WRITE if number else 100 * FULL)


LOADS: dict[str, tuple[Callable[[Any, int], Any], str]] = {
    "in order": (in_order, "neighbours"),
    "in order, of any size": (lambda rng, number: in_order(rng, number)[: rng.integers(1, WRITE)], "neighbours"),
    "backwards": (lambda rng, number: in_order(rng, -number), "neighbours"),
    "with jitter": (lambda rng, number: in_order(rng, number) - rng.integers(0, 500, WRITE), "neighbours"),
    "one range": (lambda rng, number: rng.integers(0, 10**6, WRITE), "overlaps"),
    "one range, of any size": (lambda rng, number: rng.integers(0, 10**6, rng.integers(1, WRITE)), "overlaps"),
    "anywhere": (lambda rng, number: rng.integers(0, 10**15, WRITE), "overlaps"),
    "few late from anywhere": (with_late_rows(0.05, 0), "both"),
    "half late from anywhere": (with_late_rows(0.5, 0), "both"),
    "a third late for a while": (with_late_rows(0.33, 20), "both"),
    "twice over": (lambda rng, number: in_order(rng, number % 64) + number // 64, "both"),
    "anywhere over a large table": (bulk_first, "both"),
}


def bound(kind: str, writes: int) -> float:
    """The rewritings of a row that the module's head promises."""
    overlaps = math.log2(writes) + 3
    neighbours = 1 + math.log(FULL / WRITE, GROWTH)
    return {"overlaps": overlaps, "neighbours": neighbours, "both": overlaps + neighbours}[kind]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("cut_at_flush", [True, False])
def test_write_amplification_is_logarithmic_and_nothing_piles_up(load: str, cut_at_flush: bool) -> None:
    times, kind = LOADS[load]
    rng, random, writes = np.random.default_rng(7), Random(7), 192
    simulation = FileSimulation(table(), cut_at_flush=cut_at_flush)
    for number in range(writes):
        simulation.write(times(rng, number))
        settle(simulation, random)
        assert depth(simulation.entry().files) <= DEPTH_MAX
    amplification = simulation.rewritten / simulation.written
    assert amplification <= bound(kind, writes), f"{amplification:.2f}"
    files = simulation.entry().files
    full = simulation.written / FULL
    assert len(files) <= DEPTH_MAX * (full + 4), f"{len(files)} files for the rows of {full:.1f}"
    check_full(simulation, random)


def settle(simulation: FileSimulation, random: Random, **arguments: Any) -> None:
    """Plan and carry out, in any order, until there is nothing to do."""
    for _ in range(200):
        tasks = plan(simulation.entry(), NONE, 0, **arguments)
        if not tasks:
            return
        spans = sorted((min(f.min_time for f in t.inputs), max(f.max_time for f in t.inputs)) for t in tasks)
        assert all(before[1] < after[0] for before, after in zip(spans, spans[1:], strict=False))
        random.shuffle(tasks)
        for task in tasks:
            simulation.run(task)
            check_layout(simulation.entry().files)
    raise AssertionError("there is always something to do")


def check_full(simulation: FileSimulation, random: Random) -> None:
    """Everything is put right by one more rewriting, and stays so."""
    before = simulation.rewritten
    settle(simulation, random, everything=True)
    assert simulation.rewritten - before <= 2 * simulation.written
    files = sorted(simulation.entry().files, key=lambda each: each.min_time)
    assert depth(files) <= 1
    for left, right in zip(files, files[1:], strict=False):
        assert left.rows + right.rows > FULL or min(left.rows, right.rows) * SMALL_SHARE >= FULL


def test_what_piled_up_meanwhile_is_merged_at_once() -> None:
    rng = np.random.default_rng(1)
    simulation = FileSimulation(table())
    for _ in range(100):
        simulation.write(rng.integers(0, 10**6, WRITE))
    settle(simulation, Random(1))
    assert simulation.rewritten <= 3 * simulation.written
    assert depth(simulation.entry().files) <= DEPTH_MAX


def test_large_files_that_overlap_little_are_left_alone() -> None:
    files = [file(f"f{n}", FULL, (n * 1000, n * 1000 + 1050), (n, n)) for n in range(1, 20)]
    assert names(entry_of(*files)) == []


def test_a_few_late_rows_do_not_rewrite_a_full_file() -> None:
    base = file("base", FULL, (0, 10_000), (1, 1))
    late = [file(f"late{n}", 10, (100, 9_000), (n, n)) for n in range(2, 6)]
    assert names(entry_of(base, late[0])) == []
    assert names(entry_of(base, *late)) == [["late2", "late3", "late4", "late5"]]
    assert names(entry_of(base, file("half", FULL // 2 + 9, (0, 10_000), (2, 2)))) == [["base", "half"]]


def test_too_many_files_at_one_instant_are_merged_whatever_their_sizes() -> None:
    sizes = [3**n for n in range(DEPTH_MAX + 1, 0, -1)]
    files = [file(f"f{n}", rows, (0, 1000), (n, n)) for n, rows in enumerate(sizes, 1)]
    found = plan(entry_of(*files, file_rows_max=10**9), NONE, 0)
    assert [task.reason for task in found] == [f"{DEPTH_MAX + 1} files at one instant"]
    assert names(entry_of(*files[:-1], file_rows_max=10**9)) == []


def test_a_file_between_others_comes_along_or_is_cut_around() -> None:
    old, new = file("old", 100, (0, 1000), (1, 1)), file("new", 100, (0, 1000), (3, 3))
    between = file("between", 5, (400, 450), (2, 2))
    assert names(entry_of(old, between, new)) == [["between", "new", "old"]]
    # neither older nor newer than both, but beside one of them only: too large to come along
    left, right = file("left", 40, (0, 1000), (1, 1)), file("right", 40, (0, 6000), (3, 3))
    beside = file("beside", FULL, (2000, 5000), (2, 2))
    (task,) = plan(entry_of(left, beside, right), NONE, 0, everything=False) or [None]  # type: ignore[list-item]
    assert task is None or beside not in task.inputs


def test_tasks_do_not_depend_on_the_order_in_which_files_are_named() -> None:
    rng, random = np.random.default_rng(3), Random(3)
    simulation = FileSimulation(table())
    for number in range(40):
        simulation.write(LOADS["half late from anywhere"][0](rng, number))
    entry = simulation.entry()
    files = list(entry.files)
    random.shuffle(files)
    assert plan(entry, NONE, 0) == plan(replace(entry, files=tuple(files)), NONE, 0) != []


def test_planning_a_thousand_files_looks_at_few_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    simulation = FileSimulation(table())
    for _ in range(1000):
        low = int(rng.integers(0, 10**6))
        simulation.write(rng.integers(low, low + 10**5, 4))
    calls = []
    closure = compaction.Layout.closure
    monkeypatch.setattr(compaction.Layout, "closure", lambda layout, chosen: (calls.append(1), closure(layout, chosen))[1])
    assert plan(simulation.entry(), NONE, 0)
    assert len(calls) < 5_000


# -------------------------------------------------------------------------------------------------- small files and partitions


def test_neighbours_wait_until_they_make_a_file_worth_having() -> None:
    files = [file(f"f{n}", WRITE, (n * 100, n * 100 + 99), (n, n)) for n in range(1, 20)]
    ready = FULL // 2 // WRITE
    assert names(entry_of(*files[:ready])) == []
    assert names(entry_of(*files[: ready + 1])) == [sorted(each.name for each in files[:ready])]


def test_the_end_that_the_next_file_overlaps_is_cut_off() -> None:
    files = [file(f"f{n:02}", WRITE, (n * 100, n * 100 + 110), (n, n)) for n in range(1, 10)]
    (task,) = plan(entry_of(*files), NONE, 0)
    assert [each.name for each in task.inputs] == [f"f{n:02}" for n in range(1, 9)]
    assert task.cuts.free == ((100, 899),)


def test_tiny_files_grow_by_steps() -> None:
    tiny = [file(f"f{n}", 2, (n * 10, n * 10 + 9), (n, n)) for n in range(1, GROWTH + 2)]
    assert names(entry_of(*tiny)) == [sorted(each.name for each in tiny[:GROWTH])]
    assert names(entry_of(*tiny[:GROWTH])) == []


def test_no_task_crosses_a_partition() -> None:
    files = [file(f"f{n}", 20, (n * 100, n * 100 + 99), (n, n)) for n in range(40)]
    entry = entry_of(*files, partition_ns=1000 * 10**6)
    for everything in (False, True):
        found = plan(entry, NONE, 0, everything=everything)
        assert len(found) >= 3
        for task in found:
            assert len({each.min_time // 1000 for each in task.inputs}) == 1
    # a partition that later ones follow is tidied earlier than one that may still grow
    few = [file("a", 20, (0, 99), (1, 1)), file("b", 20, (100, 199), (2, 2)), file("c", 20, (5000, 5099), (3, 3))]
    assert names(entry_of(*few, partition_ns=1000 * 10**6)) == [["a", "b"]]
    assert names(entry_of(*few)) == []


def test_outputs_may_be_limited_below_the_size_of_a_file() -> None:
    files = [file(f"f{n}", FULL // 4 - 1, (n * 100, n * 100 + 99), (n, n)) for n in range(8)]
    assert names(entry_of(*files)) != []
    assert names(entry_of(*files), rows_max=FULL // 4) == []
    assert names(entry_of(*files), rows_max=FULL // 4, everything=True) == []


# -------------------------------------------------------------------------------------------------- dead rows


@pytest.mark.parametrize(("kind", "units"), [("TIMESTAMP_S", 1), ("TIMESTAMP_MS", 10**3), ("TIMESTAMP_NS", 10**9)])
def test_ttl_drops_whole_files_in_the_unit_of_their_times(kind: str, units: int) -> None:
    now_ns = 1_000 * 10**9
    first = 900 * units  # the first time that is visible
    files = (
        file("gone", 5, (0, first - 1), (1, 1)),
        file("kept", 5, (first - 1, first), (2, 2)),
        file("new", 5, (first, first), (3, 3)),
    )
    entry = TableEntry(table(kind, ttl_ns=100 * 10**9), files)
    assert [each.name for each in expired(entry, now_ns)] == ["gone"]
    assert [each.name for each in expired(entry, now_ns + 1)] == ["gone", "kept", "new"]
    assert [each.name for each in expired(entry, now_ns - 1)] == ([] if units == 10**9 else ["gone"])
    assert expired(TableEntry(table(kind), files), now_ns) == ()


def test_files_that_deletes_cover_are_dropped() -> None:
    entry = entry_of(file("f", 5, (10, 20), (1, 4)))
    for ranges, gone in [
        ([(-1, 10, 20, 4)], True),
        ([(-1, 10, 20, 3)], False),
        ([(-1, 10, 19, 4)], False),
        ([(-1, 11, 20, 4)], False),
        ([(-1, 10, 15, 9), (-1, 16, 25, 5)], True),
        ([(-1, 10, 15, 9), (-1, 17, 25, 5)], False),
        ([(0, 0, 100, 9)], False),
        ([(-1, -(2**63), 2**63 - 1, 4)], True),
    ]:
        assert bool(expired(entry, 0, deletes(*ranges))) == gone, ranges
    assert expired(entry, 0) == ()


def test_a_file_is_rewritten_once_half_of_it_is_dead() -> None:
    first, last = file("a", 100, (0, 999), (1, 1)), file("b", 100, (1000, 1999), (2, 2))
    entry = entry_of(first, last)
    assert names(entry, tombstones=deletes((-1, 0, 500, 9))) == [["a"]]
    assert names(entry, tombstones=deletes((-1, 0, 400, 9))) == []
    assert names(entry, tombstones=deletes((-1, 0, 500, 1), (-1, 1400, 3000, 2))) == [["a"], ["b"]]
    assert names(entry, tombstones=deletes((3, 0, 5000, 9))) == []  # one device of four
    assert names(entry, tombstones=deletes((3, 0, 5000, 9), (2, 0, 5000, 9))) == [["a"], ["b"]]
    assert names(entry, tombstones=deletes(*((0, n, n, 9) for n in range(49)))) == []
    assert names(entry, tombstones=deletes(*((0, n, n, 9) for n in range(50)))) == [["a"]]
    carried_out = entry_of(replace(first, applied=9), last)
    assert names(carried_out, tombstones=deletes((-1, 0, 500, 9))) == []
    too_old = entry_of(file("a", 100, (0, 999), (10, 12)), last)
    assert names(too_old, tombstones=deletes((-1, 0, 500, 9))) == []
    half = replace(entry, table=table(ttl_ns=10**9))
    assert names(half, now_ns=1_500 * 10**6) == [["a"]]
    assert names(half, now_ns=1_400 * 10**6) == []


def test_many_tombstones_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_TOMBSTONES_SAMPLED", 7)
    entry = entry_of(file("a", 100, (0, 999), (1, 1)))
    assert names(entry, tombstones=deletes(*((0, n, n, 9) for n in range(60)))) == [["a"]]
    assert names(entry, tombstones=deletes(*((0, n, n, 9) for n in range(40)))) == []


def test_everything_carries_out_every_delete_and_every_expiry() -> None:
    entry = entry_of(file("a", FULL, (0, 999), (1, 1)), file("b", FULL, (1000, 1999), (2, 2)))
    assert names(entry, everything=True) == []
    assert names(entry, everything=True, tombstones=deletes((3, 5, 5, 9))) == [["a"]]
    assert names(entry, everything=True, tombstones=deletes((3, 5, 1000, 9))) == [["a"], ["b"]]
    assert names(replace(entry, table=table(ttl_ns=10**9)), everything=True, now_ns=1_001 * 10**6) == [["a"]]


def test_tombstones_are_obsolete_when_no_file_can_hold_what_they_deleted() -> None:
    files = [file("a", 9, (0, 99), (3, 5), applied=7), file("b", 9, (100, 199), (8, 9))]
    marks = deletes((-1, 0, 50, 7), (-1, 0, 50, 8), (-1, 150, 160, 8), (-1, 150, 160, 7), (0, 300, 400, 9))
    assert needed(marks, files).tolist() == [False, True, True, False, False]
    assert not needed(marks, []).any()
    assert needed(NONE, files).tolist() == []


# -------------------------------------------------------------------------------------------------- damage


def test_damaged_files_stay_and_so_does_what_cannot_be_merged_without_them() -> None:
    old, bad, new = (file(name, 100, (0, 1000), (n, n)) for n, name in enumerate(("old", "bad", "new"), 1))
    newer, other = file("newer", 100, (0, 1000), (4, 4)), file("other", 100, (5000, 6000), (5, 5))
    entry = entry_of(old, bad, new)
    damaged = frozenset({"bad"})
    for everything in (False, True):
        assert names(entry, everything=everything) == [["bad", "new", "old"]]
        assert names(entry, everything=everything, damaged=damaged) == []
        assert names(entry_of(old, bad, new, newer, other), everything=everything, damaged=damaged)[0] == ["new", "newer"]


@pytest.mark.parametrize("seed", range(6))
def test_with_damaged_files_everything_still_comes_to_an_end(seed: int) -> None:
    rng, random = np.random.default_rng(seed), Random(seed)
    simulation = FileSimulation(table())
    for number in range(60):
        simulation.write(LOADS["half late from anywhere"][0](rng, number))
    damaged = frozenset(random.sample(sorted(simulation.files), 4))
    for everything in (False, True):
        settle(simulation, random, everything=everything, damaged=damaged)
        assert damaged <= simulation.files.keys()


def test_times_at_the_ends_of_int64() -> None:
    low, high = -(2**63), 2**63 - 1
    files = [file(f"f{n}", 50, (low, high), (n, n)) for n in range(1, 4)]
    (task,) = plan(entry_of(*files, file("point", 5, (high, high), (4, 4))), NONE, 0)
    assert len(task.inputs) == 4
    assert names(entry_of(*files), tombstones=deletes((-1, low, high, 9))) == []  # they are dropped
    instants = [file(f"f{n}", 50, (high, high), (n, n)) for n in range(1, 4)]
    assert names(entry_of(*instants)) == [["f1", "f2", "f3"]]
