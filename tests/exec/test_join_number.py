"""Numbers of join keys: equal tuples get equal numbers, and what has none is told; by places, by a table of integers, by tuples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.exec.batch import Batch
from tsdb.exec.hash_join import HashTable
from tsdb.exec.join_key import DenseNumbers, KeyNumbers, numbers_for
from tsdb.exec.kernels.joining import common_step, group_rows, number_integers, number_places, rehash_integers, some_partners
from tsdb_format.types import BOOLEAN, DOUBLE, INT32, INT64, STRING, ColumnType
from tsdb_format.vector import Pool, Vector

INT64S = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-20, 20), st.sampled_from([-(2**63), 2**63 - 1]))


def vector(values: list[object], kind: ColumnType) -> Vector:
    valid = np.array([value is not None for value in values], np.bool_)
    if kind.is_pooled:
        pool = Pool.of([b"" if value is None else str(value).encode() for value in values])
        return Vector(kind, np.arange(len(values), dtype=np.int32), valid, pool)
    return Vector(kind, np.array([0 if value is None else value for value in values], kind.physical), valid)


def columns(rows: list[tuple[object, ...]], kinds: list[ColumnType]) -> list[Vector]:
    return [vector([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]


KINDS = {INT64: INT64S, INT32: st.integers(-5, 5), STRING: st.sampled_from(["", "a", "b", "ab"]), BOOLEAN: st.booleans()}


@given(st.data(), st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
def test_numbers_tell_tuples_apart(data: st.DataObject, kinds: list[ColumnType]) -> None:
    row = st.tuples(*(st.one_of(st.none(), KINDS[kind]) for kind in kinds))
    held, asked = data.draw(st.lists(row, min_size=1, max_size=20)), data.draw(st.lists(row, max_size=20))
    keys = numbers_for(columns(held, kinds))
    made = keys.numbers(columns(held, kinds), add=True).tolist()
    number_of = {row: number for row, number in zip(held, made, strict=True) if None not in row}
    assert [number_of.get(row, -1) for row in held] == made
    assert len(set(number_of.values())) == len(number_of)
    assert all(0 <= number < len(keys) for number in number_of.values())
    found = keys.numbers(columns(asked, kinds), add=False).tolist() if asked else []
    for row, number in zip(asked, found, strict=True):  # a tuple that is not held may have a number, but nobody else's
        assert number == number_of.get(row, -1) or (row not in number_of and number not in number_of.values())


def test_what_lies_close_together_needs_no_table() -> None:
    moments = np.repeat(np.arange(10**15, 10**15 + 1000 * 10**7, 10**7), 20)
    hosts = vector([f"h{i % 20}" for i in range(len(moments))], STRING)
    by_place = numbers_for([hosts, Vector(INT64, moments)])
    assert isinstance(by_place, DenseNumbers)
    assert len(by_place) == 20_000
    assert isinstance(numbers_for([Vector(INT64, np.arange(100) ** 5)]), KeyNumbers)
    assert isinstance(numbers_for([Vector(DOUBLE, np.arange(100.0))]), KeyNumbers)
    apart = numbers_for([Vector(INT64, np.array([-(2**61), 2**61]))])
    assert isinstance(apart, DenseNumbers)
    assert apart.numbers([Vector(INT64, np.array([-(2**61), 0, 2**61, 2**61 + 1]))], add=False).tolist() == [0, -1, 1, -1]
    assert isinstance(numbers_for([Vector(INT64, np.array([-(2**63), 2**63 - 1]))]), KeyNumbers)


@given(st.lists(INT64S, min_size=1, max_size=60), st.lists(INT64S, max_size=30))
def test_integers_in_a_table(held: list[int], asked: list[int]) -> None:
    table, size = np.zeros(16, np.int64), np.zeros(1, np.int64)
    keys, numbers, row = np.array(held, np.int64), np.empty(len(held), np.int32), 0
    while row < len(held):
        row = number_integers(keys, row, True, table, size, numbers)
        if row < len(held):
            old, table = table, np.zeros(2 * len(table), np.int64)
            rehash_integers(old, table)
    order = list(dict.fromkeys(held))
    assert numbers.tolist() == [order.index(key) for key in held]
    assert size[0] == len(order)
    found = np.empty(len(asked), np.int32)
    number_integers(np.array(asked, np.int64), 0, False, table, size, found)
    assert found.tolist() == [order.index(key) if key in order else -1 for key in asked]


@given(st.lists(INT64S, min_size=1, max_size=20), st.lists(INT64S, max_size=20))
def test_steps_and_places(held: list[int], asked: list[int]) -> None:
    low = min(held)
    step = int(common_step(np.array(held, np.int64), np.int64(low)))
    wanted = int(np.gcd.reduce(np.array([key - low for key in held], object)))
    assert step % 2**64 == wanted % 2**64
    if step > 0:
        count = min((max(held) - low) // step + 1, 2**31 - 1)
        places = np.empty(len(asked), np.int32)
        number_places(np.array(asked, np.int64), np.int64(low), np.int64(step), count, places)
        for key, place in zip(asked, places.tolist(), strict=True):
            at, rest = divmod(key - low, step)
            assert place == (at if rest == 0 and 0 <= at < count else -1)


@given(st.lists(st.integers(-1, 5), max_size=40), st.lists(st.integers(-1, 5), max_size=40), st.integers(1, 7))
def test_partners(held: list[int], asked: list[int], room: int) -> None:
    numbers = np.array(held, np.int32)
    starts, rows = np.zeros(7, np.int64), np.empty(int((numbers >= 0).sum()), np.int64)
    group_rows(numbers, starts, rows)
    assert [rows[starts[k] : starts[k + 1]].tolist() for k in range(6)] == [np.flatnonzero(numbers == k).tolist() for k in range(6)]
    at, pairs = np.zeros(2, np.int64), []
    while at[0] < len(asked):
        probe, build = np.empty(room, np.int64), np.empty(room, np.int64)
        count = some_partners(np.array(asked, np.int32), starts, rows, at, probe, build)
        pairs += list(zip(probe[:count].tolist(), build[:count].tolist(), strict=True))
    assert pairs == [(i, j) for i, a in enumerate(asked) for j, b in enumerate(held) if a == b >= 0]


@pytest.mark.parametrize("repeated", [False, True])
def test_a_table_of_rows(repeated: bool) -> None:
    held = [5, None, 7, 9, *([7, 5] if repeated else [])]
    table = HashTable([Batch({"k": vector(list(held), INT64)}, len(held))], ("k",))
    assert bool(table)
    assert sorted(held[row] for row in table.distinct().tolist()) == [5, 7, 9]
    found = [
        pair for some in table.pairs(Batch({"k": vector([7, 6, None, 5], INT64)}, 4), ("k",)) for pair in zip(*some, strict=True)
    ]
    assert found == [(0, 2), *([(0, 4)] if repeated else []), (3, 0), *([(3, 5)] if repeated else [])]
    assert not HashTable([Batch({"k": vector([None, None], INT64)}, 2)], ("k",))
    assert not HashTable([], ("k",))
