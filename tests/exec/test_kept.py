"""What operators keep with a plan: made once a node, right for every run of it, and gone where the plan no longer fits."""

from __future__ import annotations

from pathlib import Path

import tsdb
from tsdb.exec.aggregate.operator import Form
from tsdb.exec.context import ExecContext, Kept
from tsdb.exec.executor import execute
from tsdb.plan.grouping import Call
from tsdb.plan.node import Aggregate, TableScan
from tsdb.settings import Settings
from tsdb_format.types import DOUBLE, INT64

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
