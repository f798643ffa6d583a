"""Hash joins and takes over batches of any cut, against nested loops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tsdb
import tsdb.exec.hash_join
import tsdb.exec.take
from support.quiet import without_background
from tsdb.exec.batch import Batch
from tsdb.exec.hash_join import Join
from tsdb.exec.join_key import KeyNumbers, are_comparable, compare
from tsdb.exec.key_domain import KeyDomain
from tsdb.plan.node import Comparison, HashJoin, JoinKind, Rows, Side
from tsdb_format.types import BLOB, BOOLEAN, DATE, DOUBLE, FLOAT, INT32, INT64, STRING, TIMESTAMP_NS, TIMESTAMP_US, ColumnType
from tsdb_format.vector import Pool, Vector

Row = tuple[Any, ...]


def vector(values: list[Any], kind: ColumnType) -> Vector:
    valid = np.array([value is not None for value in values], np.bool_)
    validity = None if valid.all() else valid
    if kind.is_pooled:
        texts = [b"" if value is None else str(value).encode() for value in values]
        return Vector(kind, np.arange(len(values), dtype=np.int32), validity, Pool.of(texts))
    return Vector(kind, np.array([0 if value is None else value for value in values], kind.physical), validity)


def batches(rows: list[Row], cut: int) -> Iterator[Batch]:
    """Rows of (number, text, place) in batches of ``cut``."""
    for at in range(0, len(rows), cut):
        some = rows[at : at + cut]
        columns = {"x": INT32, "s": STRING, "id": INT64}
        yield Batch({n: vector([row[i] for row in some], kind) for i, (n, kind) in enumerate(columns.items())}, len(some))


def nested(left: list[Row], right: list[Row], kind: JoinKind, keys: int, compared: bool) -> list[Row]:
    """The pairs of places as nested loops find them."""

    def partners(row: Row) -> list[Row]:
        found = [other for other in right if all(row[i] is not None and row[i] == other[i] for i in range(keys))]
        return [other for other in found if not compared or row[2] < other[2]]

    made: list[Row] = []
    for row in left:
        found = partners(row)
        if kind in ("semi", "anti"):
            made += [(row[2],)] if bool(found) == (kind == "semi") else []
        else:
            made += [(row[2], other[2]) for other in found] or ([(row[2], None)] if kind == "left" else [])
    return made


ROWS = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, "", "a", "b"])), max_size=12)
KINDS: tuple[JoinKind, ...] = ("inner", "left", "semi", "anti")
SIDES: tuple[Side, ...] = ("left", "right")


@settings(max_examples=150, deadline=None)
@given(
    ROWS,
    ROWS,
    st.sampled_from(KINDS),
    st.sampled_from(SIDES),
    st.integers(1, 2),
    st.booleans(),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_joins_are_what_nested_loops_find(
    left: list[Row], right: list[Row], kind: JoinKind, build: Side, keys: int, compared: bool, cut: int, pairs_max: int
) -> None:
    lefts, rights = ([(*row, place) for place, row in enumerate(rows)] for rows in (left, right))
    outputs: tuple[tuple[str, Side, str], ...] = (("l", "left", "id"), ("r", "right", "id"))
    if kind in ("semi", "anti"):
        outputs = outputs[:1]
    condition = (Comparison("id", "<", "id"),) if compared else ()
    none = Rows((), ())
    node = HashJoin(none, none, kind, tuple((name, name) for name in ("x", "s")[:keys]), outputs, condition, build)
    held, streamed = (lefts, rights) if build == "left" else (rights, lefts)
    before, tsdb.exec.hash_join.PAIRS_MAX = tsdb.exec.hash_join.PAIRS_MAX, pairs_max
    try:
        join = Join(node, {"l": INT64, "r": INT64}, batches(held, cut))
        made = list(join.run(lambda: batches(streamed, cut)))
    finally:
        tsdb.exec.hash_join.PAIRS_MAX = before
    found = [row for batch in made for row in zip(*(batch.vectors[n].to_physical_list() for n, *_ in outputs), strict=True)]
    expected = nested(lefts, rights, kind, keys, compared)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    if build == "right" and kind in ("inner", "semi", "anti"):
        assert found == expected  # in order, too


def test_types_that_are_joined() -> None:
    assert are_comparable(INT32, INT64)
    assert are_comparable(FLOAT, DOUBLE)
    assert are_comparable(STRING, STRING)
    assert are_comparable(BOOLEAN, BOOLEAN)
    assert are_comparable(DATE, DATE)
    for left, right in ((INT32, DOUBLE), (TIMESTAMP_NS, TIMESTAMP_US), (STRING, INT64), (BLOB, BLOB), (DATE, TIMESTAMP_US)):
        assert not are_comparable(left, right)


@pytest.mark.parametrize("keys_max", [100, 2])
def test_a_domain_never_refuses_a_partner(keys_max: int) -> None:
    odd = [0.0, -0.0, 1.5, float("nan"), float("inf"), -2.0]
    for kind, values in ((DOUBLE, odd), (FLOAT, odd), (INT64, [1, 2**62, -5, 7]), (STRING, ["", "a", "a" * 40]), (BOOLEAN, [True])):
        held = vector(values, kind)
        domain = KeyDomain("k", held, keys_max)
        assert domain.contains(held).all()
        assert not domain.contains(vector([None, None], kind)).any()
    exact = KeyDomain("k", vector([1, 5], INT64), 100)
    assert exact.contains(vector([0, 1, 4, 5, 6, None], INT32)).tolist() == [False, True, False, True, False, False]


def test_keys_are_equal_as_in_duckdb() -> None:
    numbers = KeyNumbers(1)
    held = numbers.numbers([vector([0.0, float("nan"), 1.5, None], DOUBLE)], add=True)
    assert held.tolist() == [0, 1, 2, -1]
    assert numbers.numbers([vector([-0.0, float("nan"), 1.5, 2.5], FLOAT)], add=False).tolist() == [0, 1, 2, -1]
    left, right = vector([None, "a", "b", "b"], STRING), vector(["a", "b", "b", None], STRING)
    assert compare(left, "<=", right).tolist() == [False, True, True, False]


def test_many_pairs_of_few_rows_come_in_parts() -> None:
    rows = [(1, "a", place) for place in range(700)]
    outputs: tuple[tuple[str, Side, str], ...] = (("l", "left", "id"), ("r", "right", "id"))
    node = HashJoin(Rows((), ()), Rows((), ()), "inner", (("x", "x"),), outputs)
    sizes = [batch.row_count for batch in Join(node, {}, batches(rows, 100)).run(lambda: batches(rows, 1000))]
    assert sum(sizes) == 490_000
    assert max(sizes) <= tsdb.exec.hash_join.PAIRS_MAX


@pytest.mark.parametrize("limits", [(65_536, 64 * 2**20), (7, 64 * 2**20), (65_536, 1)])
def test_takes_in_parts_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]) -> None:
    monkeypatch.setattr(tsdb.exec.take, "TAKEN_ROWS_MAX", limits[0])
    monkeypatch.setattr(tsdb.exec.take, "TAKEN_BYTES_MAX", limits[1])
    db = without_background(tsdb.open(tmp_path / "db", threads=1))
    db.sql("CREATE TABLE f (time TIMESTAMP TIME, k INT64 TAG, image BLOB, n INT32)")
    for part in range(3):
        db.sql(
            "INSERT INTO f SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 MINUTE, i % 11, "
            f"CASE WHEN i % 4 <> {part} THEN ('v{part} ' || i)::BLOB END, i FROM range({40 * part}, {40 * part + 60}) t(i)"
        )
        if part < 2:
            db.flush()
    db.sql("CREATE TABLE s (time TIMESTAMP TIME, k INT64)")
    db.sql("INSERT INTO s SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 HOUR, (i * 5) % 14 FROM range(30) t(i)")
    for sql in (
        "SELECT s.time, f.image, f.n FROM s JOIN f USING (k) ORDER BY s.time, f.n",
        "SELECT f.image FROM s LEFT JOIN f ON f.k = s.k AND f.n > 90",
    ):
        late, early = db.sql(sql), db.sql(sql, settings={"enable_join_late_materialization": False})
        assert late.fetchall() == early.fetchall()
        assert late.stats["take_rows"] >= late.stats["take_rows_unique"] > 0
    db.close()


def test_files_that_are_merged_meanwhile_are_taken_from_all_the_same(tmp_path: Path) -> None:
    db = without_background(tsdb.open(tmp_path / "db", threads=1))
    db.sql("CREATE TABLE f (time TIMESTAMP TIME, k INT64, image BLOB)")
    db.sql("CREATE TABLE s (time TIMESTAMP TIME, k INT64)")
    for part in range(4):
        db.sql(
            "INSERT INTO f SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 SECOND, i, "
            f"repeat('{part}' || i, 9)::BLOB FROM range(90) t(i)"
        )
        db.flush()
    db.sql("INSERT INTO s SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 SECOND, i * 7 FROM range(10) t(i)")
    sql = "SELECT s.k, f.image FROM s JOIN f ON f.k = s.k"
    expected = db.sql(sql).fetchall()
    assert len(expected) == 10
    opened = db.sql(sql)
    db.compact("f")
    db.sql("DELETE FROM f WHERE k < 50")
    assert opened.fetchall() == expected
    assert len(db.sql(sql).fetchall()) < 10
    db.close()
