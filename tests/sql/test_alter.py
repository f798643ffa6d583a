"""Changes of a table: as functions of its definition, and as statements over tables with rows in files and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import tsdb
from tsdb.catalog.table import (
    HIDDEN_NAMES,
    Table,
    TableOptions,
    build_schema,
    renamed,
    require_column,
    with_column,
    with_column_renamed,
    with_ttl,
    without_column,
)
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_NS, Role


@pytest.fixture
def table() -> Table:
    columns = [
        ("time", "TIMESTAMP_MS", Role.TIME), ("Host", "STRING", Role.TAG), ("usage", "DOUBLE", Role.FIELD),
        ("owner", "STRING", Role.ATTRIBUTE),
    ]  # fmt: skip
    return Table(1, "t", build_schema(columns), TableOptions(), 5)


def test_a_column_that_comes_back_is_another_one(table: Table) -> None:
    dropped = without_column(table, "USAGE")
    assert list(dropped.schema.by_name) == ["time", "Host", "owner"]
    back = with_column(dropped, "usage", INT64, Role.FIELD)
    assert (back.schema.column("usage").id, back.next_column_id) == (5, 6)
    assert table.schema.column("usage").id == 3
    assert with_column(back, "x", STRING, Role.ATTRIBUTE).schema.column("x").id == 6
    assert Table.from_json(back.to_json()) == back


def test_renaming_keeps_the_id(table: Table) -> None:
    for name in list(table.schema.by_name):
        made = with_column_renamed(table, name.upper(), "other")
        assert made.schema.column("other").id == table.schema.column(name).id
        assert made.next_column_id == table.next_column_id
    assert with_column_renamed(table, "host", "HOST").schema.tags[0].name == "HOST"
    assert with_column_renamed(table, "host", "Host") is table
    assert renamed(table, "u").name == "u"
    assert renamed(table, "t") is table


def test_ttl(table: Table) -> None:
    assert with_ttl(table, 5).options.ttl_ns == 5
    assert with_ttl(with_ttl(table, 5), None) == table
    assert with_ttl(table, None) is table
    with pytest.raises(tsdb.InvalidInput):
        with_ttl(table, 0)


def test_changes_that_are_refused(table: Table) -> None:
    for name in ["Usage", "HOST", "", *HIDDEN_NAMES]:
        with pytest.raises(tsdb.InvalidInput):
            with_column(table, name, DOUBLE, Role.FIELD)
        if name != "HOST":
            with pytest.raises(tsdb.InvalidInput):
                with_column_renamed(table, "host", name)
    for role, kind in ((Role.TAG, STRING), (Role.TIME, TIMESTAMP_NS)):
        with pytest.raises(tsdb.InvalidInput):
            with_column(table, "x", kind, role)
    for name in ("time", "host"):
        with pytest.raises(tsdb.InvalidInput, match="cannot be dropped"):
            without_column(table, name)
    for act in (require_column, without_column):
        with pytest.raises(tsdb.NotFound, match="did you mean 'usage'"):
            act(table, "usge")
    with pytest.raises(tsdb.NotFound):
        with_column_renamed(table, "usge", "x")


def test_a_primary_key_keeps_its_columns(table: Table) -> None:
    keyed = Table(1, "t", table.schema, TableOptions(mode="versioned_kv", primary_key=("usage",)), 5)
    assert with_column_renamed(keyed, "usage", "load").options.primary_key == ("load",)
    with pytest.raises(tsdb.InvalidInput, match="primary key"):
        without_column(keyed, "usage")


# ---------------------------------------------------------------------------------------------- statements

CREATE = (
    "CREATE TABLE t (time TIMESTAMP_MS TIME, host STRING TAG, rack INT32 TAG, usage DOUBLE, note STRING, owner STRING ATTRIBUTE)"
)
ROWS = (
    "INSERT INTO t VALUES ('2024-01-01', 'a', 1, 1.5, 'x', 'me'), ('2024-01-02', 'a', 1, 2.5, NULL, NULL), "
    "('2024-01-01', 'b', NULL, 9, 'z', NULL)"
)


def filled(folder: Path, *, flush: bool) -> tsdb.Database:
    db = tsdb.open(folder / "db", threads=1)
    db.sql(CREATE)
    db.sql(ROWS)
    if flush:
        db.flush()
    return db


@pytest.mark.parametrize("flush", [False, True], ids=["memory", "files"])
def test_everything_goes_by_id(tmp_path: Path, flush: bool) -> None:
    """Old rows are read and new ones merged with them under the names of today, through flush and reopening."""
    db = filled(tmp_path, flush=flush)
    for change in (
        "RENAME host TO node", "RENAME rack TO host", "RENAME usage TO note2", "RENAME note TO usage", "RENAME owner TO note",
        "RENAME time TO at",
    ):  # fmt: skip
        db.sql(f"ALTER TABLE t {change}")
    db.sql("INSERT INTO t (at, node, host, usage) VALUES ('2024-01-02', 'a', 1, 'new')")
    wanted = [("a", 1, 1.5, "x", "me"), ("b", None, 9.0, "z", None), ("a", 1, 2.5, "new", "me")]
    for again in range(3):
        assert db.sql("SELECT node, host, note2, usage, note FROM t ORDER BY at, node").fetchall() == wanted
        assert db.sql("SELECT node FROM t WHERE note = 'me' AND usage = 'x' ORDER BY at LIMIT 1").fetchall() == [("a",)]
        assert db.sql("SELECT max(note2) FROM t WHERE host = 1").fetchall() == [(2.5,)]
        if again == 0:
            db.flush()
        else:
            db.close()
            db = tsdb.open(tmp_path / "db", threads=1)
    db.close()


@pytest.mark.parametrize("flush", [False, True], ids=["memory", "files"])
@pytest.mark.parametrize("column", ["usage DOUBLE", "note STRING", "owner STRING ATTRIBUTE"])
def test_a_column_that_comes_back_is_empty(tmp_path: Path, flush: bool, column: str) -> None:
    name = column.split(maxsplit=1)[0]
    with filled(tmp_path, flush=flush) as db:
        db.sql(f"ALTER TABLE t DROP COLUMN {name}")
        with pytest.raises(tsdb.NotFound):
            db.sql(f"SELECT {name} FROM t")
        db.sql(f"ALTER TABLE t ADD COLUMN {column}")
        assert db.sql(f"SELECT count({name}), count(*) FROM t").fetchall() == [(0, 3)]
        db.flush()
        db.sql(f"INSERT INTO t (time, host, rack, {name}) VALUES ('2024-01-01', 'a', 1, '5')")
        assert db.sql(f"SELECT {name} IS NULL FROM t ORDER BY time, host LIMIT 1").fetchall() == [(False,)]
    with tsdb.open(tmp_path / "db") as db:
        assert db.sql(f"SELECT count({name}) FROM t").fetchall() == [(2 if name == "owner" else 1,)]


def test_a_lost_index_is_rebuilt_under_the_names_of_today(tmp_path: Path) -> None:
    with filled(tmp_path, flush=True) as db:
        for change in ("RENAME host TO x", "RENAME rack TO host", "RENAME x TO rack"):
            db.sql(f"ALTER TABLE t {change}")
    for index in (tmp_path / "db").rglob("*.res"):
        index.unlink()
    with tsdb.open(tmp_path / "db") as db:
        found = db.sql("SELECT rack, host, usage FROM t ORDER BY time, rack").fetchall()
        assert found == [("a", 1, 1.5), ("b", None, 9.0), ("a", 1, 2.5)]


def test_what_was_asked_before_is_bound_anew(tmp_path: Path) -> None:
    with filled(tmp_path, flush=True) as db:
        question = "SELECT * FROM t WHERE host = 'a' ORDER BY time DESC LIMIT 1"
        assert len(db.sql(question).fetchall()[0]) == 6
        kept = db.sql("SELECT * FROM t")
        db.sql("ALTER TABLE t ADD COLUMN more INT64")
        db.sql("ALTER TABLE t DROP COLUMN note")
        assert db.sql(question).columns == ["time", "host", "rack", "usage", "owner", "more"]
        assert kept.columns[4] == "note"
        assert len(kept.fetchall()) == 3  # of the snapshot that it was asked of
        db.sql("ALTER TABLE t RENAME TO u")
        with pytest.raises(tsdb.NotFound):
            db.sql(question)
        assert db.tables() == ["u"]
        db.sql(CREATE)
        assert db.sql(question).fetchall() == []


def test_ttl_hides_and_brings_back(tmp_path: Path) -> None:
    with filled(tmp_path, flush=False) as db:
        db.sql("INSERT INTO t (time, host) VALUES ('2200-01-01', 'z')")
        db.sql("ALTER TABLE t SET TTL '1d'")
        assert db.sql("SELECT host FROM t").fetchall() == [("z",)]
        assert db.sql("DELETE FROM t WHERE host = 'a' OR usage = 9").fetchall() == [(0,)]  # of what can be seen
        db.sql("ALTER TABLE t RESET TTL")
        assert db.sql("SELECT host FROM t").fetchall() == [("z",)]  # what was deleted does not come back


def test_a_reader_changes_nothing_and_sees_what_changed(tmp_path: Path) -> None:
    with filled(tmp_path, flush=False) as db, tsdb.open(tmp_path / "db", mode="r") as reader:
        for text in (
            "CHECKPOINT", "ALTER TABLE t ADD x INT",
            "DELETE FROM t", "UPDATE t SET owner = 'x'", "DELETE DEVICES FROM t", "TRUNCATE t",
        ):  # fmt: skip
            with pytest.raises(tsdb.ReadOnly):
                reader.sql(text)
        db.sql("ALTER TABLE t RENAME usage TO load")
        db.sql("UPDATE t SET owner = 'them' WHERE host = 'b'")
        db.sql("DELETE FROM t WHERE load = 2.5")
        assert reader.sql("SELECT load, owner FROM t ORDER BY host").fetchall() == [(1.5, "me"), (9.0, "them")]
