"""Tombstones against a list of ranges, also as deletes come one by one; their file under damage; and rows that a write finds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.history_case import History
from support.reseal import reseal
from support.snapshots import make_schema
from tsdb.catalog.table import TableOptions
from tsdb.exec.kernels import deleted
from tsdb.storage.existing import LastTimes, count_existing
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.tombstone import EVERY_DEVICE, Tombstones, least_unapplied, read_tombstones, write_tombstones
from tsdb_format.errors import Corruption, NotFound
from tsdb_format.section import Container
from tsdb_format.types import DOUBLE, INT32, TIMESTAMP_S, Role

EDGES = [-(2**63), 2**63 - 1]
TIMES = st.one_of(st.integers(-4, 14), st.sampled_from(EDGES))
DEVICES = st.sampled_from([EVERY_DEVICE, 0, 1, 2, 7])
#: Commits of ranges, each with whether somebody asks for the index after it.
COMMITS = st.lists(st.tuples(st.lists(st.tuples(DEVICES, TIMES, TIMES), max_size=5), st.booleans()), max_size=12)
ROWS = st.lists(st.tuples(st.sampled_from([0, 1, 2, 5, 7]), TIMES, TIMES), min_size=1, max_size=40)
Range = tuple[int, int, int, int]


def made_of(commits: list[tuple[list[tuple[int, int, int]], bool]]) -> tuple[Tombstones, list[Range]]:
    made, plain = Tombstones.none(), []
    for sequence, (ranges, asked) in enumerate(commits, 1):
        columns = zip(*ranges, strict=True) if ranges else ([], [], [])
        device, low, high = (np.array(column, kind) for column, kind in zip(columns, ("i4", "i8", "i8"), strict=True))
        made = made.plus(device, low, high, sequence)
        plain += [(*each, sequence) for each in ranges if each[1] <= each[2]]
        if asked:
            _ = made.index
    return made, plain


@given(commits=COMMITS, rows=ROWS, least=st.integers(1, 12))
def test_rows_and_runs_against_the_ranges(commits: Any, rows: list[tuple[int, int, int]], least: int) -> None:
    made, plain = made_of(commits)
    assert len(made) == len(plain)
    assert made.index.last == max((sequence for *_, sequence in plain), default=0)
    device = np.array([row[0] for row in rows], np.int32)
    low, high = (np.array([pick(row[1:]) for row in rows], np.int64) for pick in (min, max))

    def of(number: int) -> list[Range]:
        return [each for each in plain if each[0] in (EVERY_DEVICE, number)]

    covering = [[s for _, a, b, s in of(d) if a <= t <= b] for d, t in zip(device.tolist(), low.tolist(), strict=True)]
    assert made.index.sequence_at(device, low).tolist() == [max(each, default=0) for each in covering]
    meeting = [any(s >= least and a <= y and b >= x for _, a, b, s in of(d)) for d, x, y in _spans(device, low, high)]
    assert made.index.touches(device, low, high, least).tolist() == meeting
    for _, x, y in _spans(device, low, high):
        assert made.meet(x, y, least) == any(s >= least and a <= y and b >= x for _, a, b, s in plain)
    kept = made.select(made.sequence >= least)
    assert list(zip(*_columns(kept), strict=True)) == [each for each in plain if each[3] >= least]


@given(
    commits=COMMITS, rows=ROWS, bounds=st.tuples(st.integers(1, 14), st.integers(0, 6), st.integers(0, 14)), seed=st.integers(0, 9)
)
def test_what_is_hidden_in_a_file(commits: Any, rows: list[Any], bounds: tuple[int, int, int], seed: int) -> None:
    """A row is gone iff a tombstone covers it that the file has not carried out, and that is not older than the row."""
    made, plain = made_of(commits)
    least, more, applied = bounds
    file: Any = SimpleNamespace(min_sequence=least, max_sequence=least + more, applied=applied)
    device, time = np.array([row[0] for row in rows], np.int32), np.array([row[1] for row in rows], np.int64)
    written = np.random.default_rng(seed).integers(least, least + more + 1, len(rows))
    gone = made.hidden(file, device, time, lambda unsure: written[unsure])
    # Of tombstones that the file carried out it holds no row: they decide nothing.
    expected = [
        any(s > applied and n <= s and d in (EVERY_DEVICE, number) and a <= t <= b for d, a, b, s in plain)
        for number, t, n in zip(device.tolist(), time.tolist(), written.tolist(), strict=True)
    ]
    assert gone.tolist() == expected
    assert made.may_hide(file) or not gone.any()
    assert least_unapplied(file) == max(least, applied + 1)


@pytest.mark.parametrize("mode", ["auto", "jit", "python"])
@given(commits=COMMITS, rows=ROWS)
def test_kernels_alike(mode: str, commits: Any, rows: list[tuple[int, int, int]]) -> None:
    made, _ = made_of(commits)
    device, time = np.array([row[0] for row in rows], np.int32), np.array([row[1] for row in rows], np.int64)
    high = np.maximum(time, np.array([row[2] for row in rows], np.int64))
    out, touched = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    for layer in made.index.layers:
        steps = layer.numbers, layer.bounds, layer.edges, layer.sequence
        deleted.raise_to_deleted.resolve(mode)(*steps, device, time, out)
        deleted.mark_touched.resolve(mode)(*steps, device, time, high, 3, touched)
    assert out.tolist() == made.index.sequence_at(device, time).tolist()
    assert touched.tolist() == made.index.touches(device, time, high, 3).tolist()


@pytest.mark.parametrize("mode", ["auto", "jit", "python"])
def test_painting_newest_first(mode: str) -> None:
    first, stop, sequence = (np.array(each, np.int64) for each in ([2, 0, 1, 4], [4, 3, 6, 5], [9, 8, 7, 6]))
    painted = np.zeros(7, np.int64)
    deleted.paint.resolve(mode)(first, stop, sequence, np.arange(8, dtype=np.int64), painted)
    assert painted.tolist() == [8, 8, 9, 9, 7, 7, 0]


def test_deletes_one_by_one_make_few_layers() -> None:
    made = Tombstones.none()
    for sequence in range(1, 600):
        at = np.array([7919 * sequence % 600], np.int64)
        made = made.plus(np.zeros(1, np.int32), at, at + 3, sequence)
        assert len(made.index.layers) <= 11
    assert made.index.sequence_at(np.zeros(1, np.int32), np.array([7919 % 600], np.int64))[0] > 0


def test_many_rows_of_one_device() -> None:
    """A delete by a condition on fields names single rows: there may be millions of one device."""
    count = 100_000
    time = np.random.default_rng(1).permutation(count).astype(np.int64) * 10
    made = Tombstones.none().plus(np.zeros(count, np.int32), time, time, 5)
    assert (made.index.sequence_at(np.zeros(count, np.int32), time) == 5).all()
    assert not made.index.sequence_at(np.zeros(count, np.int32), time + 1).any()
    assert not made.index.sequence_at(np.ones(count, np.int32), time).any()


def test_nothing_is_added_by_empty_ranges() -> None:
    none = Tombstones.none()
    assert none.plus(np.zeros(1, np.int32), np.array([3]), np.array([2]), 1) is none
    assert len(none) == 0
    assert none.index.layers == ()


@given(COMMITS)
def test_a_file_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, commits: Any) -> None:
    path = str(tmp_path_factory.mktemp("del") / "1.del")
    made, plain = made_of(commits)
    write_tombstones(path, made)
    found = read_tombstones(path)
    assert list(zip(*_columns(found), strict=True)) == plain


def test_damage_to_the_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "1.del"
    made, _ = made_of([([(0, 1, 5), (EVERY_DEVICE, -3, 2**63 - 1)], False), ([(4, 7, 7)], False)])
    write_tombstones(str(path), made)
    raw = path.read_bytes()
    refused = 0
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0x20]) + raw[at + 1 :])
        try:
            assert _columns(read_tombstones(str(path))) == _columns(made), "only what lies between sections is nobody's"
        except Corruption:
            refused += 1
        path.write_bytes(raw[:at])
        with pytest.raises(Corruption):
            read_tombstones(str(path))
    assert refused >= len(raw) - 8
    path.write_bytes(raw)
    for section, value in (("device", -2), ("low", 9), ("sequence", 0)):
        offset, _ = Container(str(path), b"tsdbdel\n").extent(section)
        width = 4 if section == "device" else 8
        path.write_bytes(reseal(bytearray(raw[:offset] + value.to_bytes(width, "little", signed=True) + raw[offset + width :])))
        with pytest.raises(Corruption):
            read_tombstones(str(path))
        path.write_bytes(raw)
    with pytest.raises(NotFound):
        read_tombstones(str(tmp_path / "2.del"))


# -------------------------------------------------------------------------------------------------- rows that a write finds

SCHEMA = make_schema(("time", TIMESTAMP_S, Role.TIME), ("slot", INT32, Role.TAG), ("v", DOUBLE, Role.FIELD))
BATCH = st.lists(
    st.fixed_dictionaries({"time": st.integers(0, 12), "slot": st.sampled_from([None, 0, 1, 2]), "v": st.just(1.0)}),
    min_size=1, max_size=12,
)  # fmt: skip


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(BATCH, st.booleans()), st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.integers(0, 9), st.integers(0, 4))
        ),
        max_size=8,
    ),
    batch=BATCH, single=st.booleans(), page=st.sampled_from([1, 4, 8192]),
)  # fmt: skip
def test_deleted_rows_do_not_exist(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]], batch: Any, single: bool, page: int
) -> None:
    history = History(tmp_path_factory.mktemp("h"), SCHEMA, TableOptions(rows_per_page=page))
    noted = LastTimes(())
    for step in steps:
        if len(step) == 2:
            history.write(*step)
            noted.note(_stored(history), "time")
        else:
            slot, low, more = step
            history.delete(None if slot == 3 else {"slot": slot}, low, low + more)
    table = history.table_snapshot()
    there = {(row.get("slot"), row["time"]) for row in history.visible()}
    batch = batch[:1] if single else batch
    history.write(batch, True)
    rows = _stored(history)
    expected = len({(row["slot"], row["time"]) for row in batch} & there)
    count = history.devices.count
    assert count_existing(table.files, count, rows, "time", table.tombstones) == expected
    for known in (noted, LastTimes(table.files)):
        assert count_existing(table.files, count, rows, "time", table.tombstones, known.reached(rows, "time")) == expected


def test_newer_rows_need_no_look_at_what_is_stored(tmp_path: Path) -> None:
    history = History(tmp_path, SCHEMA)
    history.write([{"time": 5, "slot": slot, "v": 1.0} for slot in range(3)], True)
    known = LastTimes(history.table_snapshot().files)
    history.write([{"time": 6, "slot": 0}, {"time": 5, "slot": 1}, {"time": 4, "slot": 2}, {"time": 0, "slot": 9}], True)
    assert known.reached(_stored(history), "time").tolist() == [False, True, True, False]


def _stored(history: History) -> Any:
    newest = history.table_snapshot().files[-1]
    return newest.rows if isinstance(newest, MemoryRun) else _rows_of(newest)


def _rows_of(file: Any) -> Any:
    """A file's rows as they were before they were written."""
    data = file.file
    whole = np.zeros(1, np.int64), np.array([data.row_count])
    return SimpleNamespace(numbers=file.device_number, row_start=data.row_start, columns={"time": data.read("time", *whole)})


def _columns(made: Tombstones) -> list[list[int]]:
    return [made.device.tolist(), made.low.tolist(), made.high.tolist(), made.sequence.tolist()]


def _spans(*columns: Any) -> list[tuple[int, int, int]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))
