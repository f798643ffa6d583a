"""What operators keep with a plan: made once a node, right for every run of it, and gone where the plan no longer fits."""

from __future__ import annotations

from pathlib import Path

import tsdb
from support.snapshots import make_schema
from tsdb.exec.aggregate.operator import Form
from tsdb.exec.conditions import Conditions
from tsdb.exec.context import ExecContext, Kept
from tsdb.exec.executor import execute
from tsdb.plan.grouping import Call
from tsdb.plan.node import Aggregate, TableScan
from tsdb.plan.predicate import And, Compare, InSet, Not, Or
from tsdb.settings import Settings
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_MS, Role

TEXT = "SELECT host, count(v) AS n, max(v) AS most, avg(v) AS mean FROM t GROUP BY host ORDER BY host"


def test_a_node_has_one_thing_of_each_kind() -> None:
    kept, node, other = Kept(), TableScan("t", ()), TableScan("t", ())
    made = kept.of(node, list, "ab")
    assert made == ["a", "b"]
    assert kept.of(node, list, "cd") is made
    assert kept.of(other, list, "cd") == ["c", "d"]  # equal nodes are not the same
    assert kept.of(node, set, "ab") == {"a", "b"}


def test_nodes_that_runs_make_for_themselves_do_not_pile_up() -> None:
    kept = Kept()
    for _ in range(1_000):
        kept.of(TableScan("t", ()), list)
    assert len(kept._held) <= 64


def test_runs_of_one_plan_share_a_form_and_nothing_of_their_rows(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, host STRING TAG, v DOUBLE FIELD)")
        node = Aggregate(TableScan("t", ("v",)), (), (Call("n", "count", "v", INT64), Call("most", "max", "v", DOUBLE)))
        kept = Kept()
        for number, value in enumerate(("NULL", "1", "NULL", "3")):
            db.sql(f"INSERT INTO t VALUES ('2024-01-01 00:00:0{number}', 'a', {value})")
            (batch,) = execute(node, ExecContext(db._store.snapshot(), Settings(), kept=kept))
            found = [batch.vectors[name].take(slice(0, 1)).to_physical_list()[0] for name in ("n", "most")]
            assert found == [[0, None], [1, 1.0], [1, 1.0], [2, 3.0]][number]
        schema = db._store.snapshot().tables["t"].table.schema
        assert kept.of(node, Form, None, schema).keys == ()  # the one that they made: no other can be made of None


def test_the_same_text_again_sees_new_rows_devices_and_columns(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, host STRING TAG, v DOUBLE FIELD)")
        db.sql("INSERT INTO t VALUES ('2024-01-01', 'b', 1), ('2024-01-02', 'b', NULL)")
        assert db.sql(TEXT).fetchall() == [("b", 1, 1.0, 1.0)]
        db.sql("INSERT INTO t VALUES ('2024-01-01', 'a', NULL), ('2024-01-03', 'b', 5)")
        assert db.sql(TEXT).fetchall() == [("a", 0, None, None), ("b", 2, 5.0, 3.0)]
        db.flush()
        assert db.sql(TEXT).fetchall() == [("a", 0, None, None), ("b", 2, 5.0, 3.0)]
        db.sql("ALTER TABLE t RENAME COLUMN v TO w")
        db.sql("ALTER TABLE t ADD COLUMN v BIGINT FIELD")
        assert db.sql(TEXT).fetchall() == [("a", 0, None, None), ("b", 0, None, None)]
        db.sql("INSERT INTO t (time, host, v) VALUES ('2024-01-04', 'a', 7)")
        assert db.sql(TEXT).fetchall() == [("a", 1, 7, 7.0), ("b", 0, None, None)]


def test_conditions_are_split_by_what_answers_them() -> None:
    schema = make_schema(
        ("time", TIMESTAMP_MS, Role.TIME), ("host", STRING, Role.TAG), ("v", DOUBLE, Role.FIELD), ("w", DOUBLE, Role.FIELD)
    )
    host, late, soon = Compare("host", "=", "a"), Compare("time", ">", 5), Compare("time", "<=", 9)
    some, both, far = InSet("time", (6, 8)), Or((Compare("v", ">", 1.0), Compare("w", ">", 1.0))), Compare("far", "<", 2.0)
    value = Not(Compare("v", "<", 3.0))
    held = Conditions(And((far, both, host, late, soon, some, value)), schema, {"far"})
    assert held.of_tags == (host,)
    assert (held.time_low, held.time_high) == (6, 8)
    assert held.of_rows == (some, Compare("v", ">=", 3.0), both, far)  # what is computed comes last
    nothing = Conditions(None, schema)
    assert (nothing.of_tags, nothing.of_rows, nothing.time_low, nothing.time_high) == ((), (), -(2**63), 2**63 - 1)


def test_the_same_condition_again_finds_new_devices_and_rows(tmp_path: Path) -> None:
    text = "SELECT host, v FROM t WHERE host <> 'a' AND v > 1 AND time < TIMESTAMP '2024-01-03' ORDER BY host, time"
    with tsdb.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, host STRING TAG, v DOUBLE FIELD)")
        db.sql("INSERT INTO t VALUES ('2024-01-01', 'a', 2), ('2024-01-01', 'b', 2), ('2024-01-02', 'b', 1)")
        assert db.sql(text).fetchall() == [("b", 2.0)]
        db.sql("INSERT INTO t VALUES ('2024-01-01', 'c', 3), ('2024-01-02', 'b', 5), ('2024-01-03', 'b', 7)")
        assert db.sql(text).fetchall() == [("b", 2.0), ("b", 5.0), ("c", 3.0)]
