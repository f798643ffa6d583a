"""Versions in tiers: what a left row finds is what a plain list gives, and what a window costs does not go by what is held."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from support.soak import SEED, pick
from tsdb.catalog.device import DeviceTable
from tsdb.exec.batch import Batch
from tsdb.exec.hash_join import take_or_null
from tsdb.storage.one_row import plain_vector
from tsdb.storage.tombstone import Tombstones
from tsdb.stream import version_table
from tsdb.stream.arrivals import Arrivals, Places
from tsdb.stream.version_table import VersionTable
from tsdb_format.schema import Column, Schema
from tsdb_format.types import INT64, STRING, TIMESTAMP_NS, Role
from tsdb_format.vector import Vector

DEVICES = 4


def _devices() -> DeviceTable:
    schema = Schema((Column("time", TIMESTAMP_NS, Role.TIME, 1), Column("k", INT64, Role.TAG, 2)))
    return DeviceTable.empty(schema).resolve({"k": plain_vector(INT64, list(range(DEVICES)))}, DEVICES)[1]


@dataclass
class _Version:
    commit: int
    device: int
    time: int
    key: int
    value: int
    label: str


def _arrivals(rows: list[_Version]) -> Arrivals:
    columns = {
        "key": plain_vector(INT64, [row.key for row in rows]),
        "value": plain_vector(INT64, [row.value for row in rows]),
        "label": plain_vector(STRING, [row.label.encode() for row in rows]),
    }
    places = Places(
        np.array([row.commit for row in rows], np.int64),
        np.array([row.device for row in rows], np.int32),
        np.array([row.time for row in rows], np.int64),
    )
    return Arrivals(Batch(columns, len(rows)), places)


def _found(table: VersionTable, asked: list[tuple[int, int, int]]) -> list[str | None]:
    """The label that each (key, value, commit) finds."""
    keys, values, commits = (list(column) for column in zip(*asked, strict=True))
    places = table.places([plain_vector(INT64, keys)], plain_vector(INT64, values), np.array(commits, np.int64))
    batch, rows = table.shown(places)
    if not batch.row_count:
        return [None] * len(asked)
    labels: Vector = take_or_null(batch.vectors["label"], rows)
    return [None if label is None else str(label) for label in labels.to_physical_list()]


class _Reference:
    """All versions as a list, each with the commit by which it had gone."""

    def __init__(self, *, is_table: bool, inclusive: bool, keep: int) -> None:
        self.rows: list[tuple[_Version, list[int]]] = []
        self.is_table, self.inclusive, self.keep = is_table, inclusive, keep

    def write(self, rows: list[_Version]) -> None:
        for row in rows:
            for other, until in self.rows if self.is_table else ():
                if (other.device, other.time) == (row.device, row.time):
                    until.append(row.commit)
            self.rows.append((row, [2**62]))

    def delete(self, device: int, low: int, high: int, commit: int) -> None:
        for row, until in self.rows:
            if row.commit < commit and row.device == device and low <= row.time <= high:
                until.append(commit)

    def find(self, key: int, value: int, commit: int) -> str | None:
        there = [row for row, until in self.rows if row.key == key and row.commit <= commit < min(until)]
        there.sort(key=lambda row: (row.value, row.commit, row.time, row.device))
        fitting = [row for row in there[-self.keep :] if row.value < value or (self.inclusive and row.value == value)]
        return fitting[-1].label if fitting else None


def _window(rng: random.Random, after: int, upto: int, written: int, taken: set[tuple[int, int]]) -> list[_Version]:
    """Rows of commits (after, upto], no two at one place."""
    rows = []
    for at in range(rng.randint(0, written)):
        place = rng.randrange(DEVICES), rng.randrange(12)
        if place not in taken:
            taken.add(place)
            rows.append(_Version(rng.randint(after + 1, upto), *place, rng.randrange(3), rng.randrange(6), f"{upto}/{at}"))
    return rows


@pytest.mark.parametrize("keep", [0, 2])
@pytest.mark.parametrize("mode", ["append", "table"])
def test_any_windows_against_a_list(monkeypatch: pytest.MonkeyPatch, mode: str, keep: int) -> None:
    monkeypatch.setattr(version_table, "_SMALL_ROWS", 2)
    if not keep:  # what is beyond ``keep`` may come back until it is let go
        monkeypatch.setattr(version_table, "_DEAD_MIN", 8)
    devices, tiers = _devices(), 0
    for number in range(pick(30, 2_000)):
        rng = random.Random(1_000_003 * SEED + number)
        inclusive = rng.random() < 0.5
        table = VersionTable(["key"], "value", mode, inclusive=inclusive, keep=keep)
        model = _Reference(is_table=mode == "table", inclusive=inclusive, keep=keep)
        history = _window(rng, 0, 9, 30, set())
        for part in (history[:7], history[7:]):
            if part:
                table.load(_arrivals(part), None, devices)
        model.write(history)
        table.loaded(devices)
        upto = 9
        for _ in range(rng.randint(1, 12)):
            after, upto = upto, upto + rng.randint(1, 3)
            taken: set[tuple[int, int]] = set()
            rows, deletes = _window(rng, after, upto, rng.choice((1, 4, 20)), taken), Tombstones.none()
            if rng.random() < 0.3:
                device, low, commit = rng.randrange(DEVICES), rng.randrange(12), rng.randint(after + 1, upto)
                rows = [row for row in rows if row.device != device]
                deletes = deletes.plus(np.array([device], np.int32), np.array([low]), np.array([low + 3]), commit)
                model.delete(device, low, low + 3, commit)
            model.write(rows)
            table.advance(_arrivals(rows) if rows else None, None, deletes, devices)
            asked = [(rng.randrange(4), rng.randrange(-1, 7), rng.randint(after + 1, upto)) for _ in range(20)]
            assert _found(table, asked) == [model.find(*each) for each in asked], (number, mode, keep)
            table.settle()
            alive = [row for row, until in model.rows if len(until) == 1]
            assert len(table) == len({row.key for row in alive})
            assert sorted(table.keys()[0].to_physical_list() if len(table) else []) == sorted({row.key for row in alive})
            tiers = max(tiers, table.tier_count)
    assert tiers > 2, "look-ups went over several tiers"


def _append(table: VersionTable, commit: int, values: range, keys: int = 7) -> None:
    rows = [_Version(commit, value % DEVICES, value, value % keys, value, "x") for value in values]
    table.advance(_arrivals(rows), None, Tombstones.none(), _devices())
    assert _found(table, [(values[0] % keys, values[0], commit)]) == ["x"]
    table.settle()


@pytest.mark.parametrize("mode", ["append", "table"])
@pytest.mark.parametrize("keep", [0, 3])
def test_what_a_window_costs_does_not_go_by_what_is_held(mode: str, keep: int) -> None:
    costs = []
    for held in (8_000, 64_000):
        table = VersionTable(["key"], "value", mode, inclusive=True, keep=keep)
        table.load(_arrivals([_Version(1, at % DEVICES, at, at % 7, at, "h") for at in range(held)]), None, _devices())
        table.loaded(_devices())
        before = table.rows_arranged
        for window in range(50):
            _append(table, 2 + window, range(held + 4 * window, held + 4 * window + 4))
        costs.append(table.rows_arranged - before)
        assert table.tier_count == 2
    assert costs[0] == costs[1] < 50 * 204 < 8_000 * 50


def test_rows_are_merged_as_often_as_tiers_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_table, "_SMALL_ROWS", 1)
    table, windows = VersionTable(["key"], "value", "append", inclusive=True, keep=0), 512
    for window in range(windows):
        _append(table, 1 + window, range(2 * window, 2 * window + 2))
        assert table.tier_count <= 1 + np.log2(window + 1)
    assert table.row_count == 2 * windows
    assert table.rows_arranged <= 2 * windows * (1 + 1.5 * np.log2(windows))


@pytest.mark.parametrize(("mode", "keep"), [("append", 2), ("table", 0)])
def test_what_is_let_go_bounds_what_is_held(monkeypatch: pytest.MonkeyPatch, mode: str, keep: int) -> None:
    monkeypatch.setattr(version_table, "_DEAD_MIN", 64)
    monkeypatch.setattr(version_table, "_SMALL_ROWS", 8)
    table, most = VersionTable(["key"], "value", mode, inclusive=True, keep=keep), 0
    for window in range(300):  # the rows of a table are written again, those of a stream are more and more
        first = 10 * window if mode == "append" else 0
        _append(table, 1 + window, range(first, first + 10))
        most = max(most, table.row_count)
    assert most <= 2 * 14 + 64 + 10
    assert table.rows_arranged < 300 * 10 * 20
    rows = [row for tier in table._tiers for row in tier.rows.batch.vectors["label"].to_physical_list()]
    assert len(rows) == table.row_count
    assert all(len(tier.rows.batch.vectors["label"].pool or ()) <= tier.count for tier in table._tiers)


def test_what_is_left_of_a_trimmed_tier_is_still_found_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_table, "_DEAD_MIN", 8)
    table = VersionTable(["key"], "value", "table", inclusive=True, keep=0)
    table.load(_arrivals([_Version(1, at % DEVICES, at, at % 3, at, f"{at}") for at in range(40)]), None, _devices())
    table.loaded(_devices())
    deletes = Tombstones.none().plus(np.array([-1], np.int32), np.array([5]), np.array([34]), 2)
    table.advance(None, None, deletes, _devices())
    table.settle()
    assert table.row_count == 10
    table.advance(_arrivals([_Version(3, 36 % DEVICES, 36, 2, 36, "moved")]), None, Tombstones.none(), _devices())
    assert _found(table, [(0, 36, 2), (0, 36, 3), (2, 36, 3), (1, 36, 3)]) == ["36", "3", "moved", "4"]
