"""DELETE, UPDATE and what else picks rows or devices by a condition: the same statement in DuckDB, the same rows left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tsdb
from support.sql_text import condition, random_rows
from support.twin import Twin, plain

NATIVE = {"native": {}, "duckdb": {"enable_native_operators": False}}


@pytest.fixture(scope="module", params=["one file", "small pages, three commits"])
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    pieces = {"files": 3, "page_rows": 7} if request.param != "one file" else {}
    made = Twin(tmp_path_factory.mktemp("twin"), random_rows(150), **pieces)
    yield made
    made.close()


@pytest.mark.parametrize("how", NATIVE)
@given(text=condition())
@settings(max_examples=30)
def test_any_condition(twin: Twin, how: str, text: str) -> None:
    """Both delete the same rows and say how many; then the deleted rows are written again, so that deletes pile up."""
    params = [5] if "$1" in text else None
    statement = f"DELETE FROM t WHERE {text}"
    twin.duck.execute("BEGIN")
    try:
        deleted = twin.duck.sql(f"SELECT * FROM t WHERE {text}", params=params).to_arrow_table()
        wanted = twin.duck.execute(statement, params or []).fetchall()
        left = twin.duck_rows("SELECT * FROM t ORDER BY id")
    except duckdb.ConversionException:
        return  # which row an error comes from depends on what runs first
    except duckdb.Error:
        with pytest.raises(tsdb.Error):
            twin.db.sql(statement, params)
        return
    finally:
        twin.duck.execute("ROLLBACK")
    try:
        assert twin.db.sql(statement, params, settings=NATIVE[how]).fetchall() == wanted, statement
    except tsdb.Error as error:
        if "Conversion Error" not in str(error):
            raise
        return
    assert twin.rows("SELECT * FROM t ORDER BY id") == left, statement
    if len(deleted):
        twin.db.write("t", deleted)
    assert twin.rows("SELECT count(*), sum(id) FROM t") == [(150, 150 * 149 // 2)]


# ---------------------------------------------------------------------------------------------- histories

HOSTS, RACKS, TIMES = ("a", "b", ""), (1, 2), tuple(range(1, 9))
CONDITIONS = (
    "host = 'a'", "host <> 'b' AND rack = 1", "time < '1970-01-01 00:00:04'", "rack = 2 OR time > '1970-01-01 00:00:06'",
    "n > 2", "n IS NULL", "x <= 1.5 AND host = 'b'", "label = 'p'", "label IS NULL AND n < 5", "NOT (host = 'a' OR n = 3)",
    "time IN ('1970-01-01 00:00:02', '1970-01-01 00:00:05')", "time <> '1970-01-01 00:00:03'", "length(host) = 0", "n % 2 = 0",
    "x > n", "true", "false", "NULL", "n > (SELECT avg(n) FROM t)", "host IN (SELECT host FROM t WHERE n = 1)",
)  # fmt: skip
OF_DEVICES = (
    "host = 'a'", "rack = 2", "label = 'p'", "label IS NULL", "upper(host) = 'B' OR label = 'q'", "true",
    "host IN (SELECT host FROM t WHERE n > 2)",
)  # fmt: skip
LABELS = ("'p'", "'q'", "NULL", "host || rack", "upper(label)")
Step = tuple[str, Any]


def steps() -> st.SearchStrategy[list[Step]]:
    row = st.tuples(
        st.sampled_from(TIMES), st.sampled_from(HOSTS), st.sampled_from(RACKS), st.sampled_from([None, 1, 2, 3, 4]),
        st.sampled_from([None, 0.5, 1.5, 2.5]),
    )  # fmt: skip
    write = st.tuples(st.just("write"), st.lists(row, min_size=1, max_size=12))
    step = st.one_of(
        write, write, st.tuples(st.just("delete"), st.sampled_from(CONDITIONS)),
        st.tuples(st.just("devices"), st.sampled_from(OF_DEVICES)),
        st.tuples(st.just("update"), st.tuples(st.sampled_from(LABELS), st.sampled_from(OF_DEVICES))),
        st.tuples(st.just("column"), st.sampled_from(["n", "x"])), st.tuples(st.just("flush"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
    )  # fmt: skip
    return st.tuples(write, st.lists(step, max_size=12)).map(lambda pair: [pair[0], *pair[1]])


class History:
    """The same statements run on tsdb, and in DuckDB on a table of rows and one of devices that a view ``t`` brings together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = tsdb.open(folder, threads=1)
        self.db.sql(
            "CREATE TABLE t (time TIMESTAMP_S TIME, host STRING TAG, rack INT32 TAG, n INT64, x DOUBLE, label STRING ATTRIBUTE) "
            "WITH (page_rows = 4)"
        )
        self.duck = duckdb.connect()
        self.duck.execute(
            "CREATE TABLE r (time TIMESTAMP_S, host VARCHAR, rack INT, n BIGINT, x DOUBLE, UNIQUE (time, host, rack))"
        )
        self.duck.execute("CREATE TABLE d (host VARCHAR, rack INT, label VARCHAR, UNIQUE (host, rack))")
        self.duck.execute("CREATE VIEW t AS SELECT r.*, d.label FROM r JOIN d USING (host, rack)")

    def close(self) -> None:
        self.db.close()
        self.duck.close()

    def run(self, step: Step) -> None:
        match step:
            case ("write", rows):
                self._write(rows)
            case ("delete", text):
                wanted = self.duck.execute(
                    f"DELETE FROM r WHERE (time, host, rack) IN (SELECT (time, host, rack) FROM t WHERE {text})"
                ).fetchall()
                assert self.db.sql(f"DELETE FROM t WHERE {text}").fetchall() == wanted, text
            case ("devices", text):
                # A device without rows has attributes, and no row of the view: they go too where its own values satisfy the text.
                hit = f"(host, rack) IN (SELECT (host, rack) FROM d WHERE {text})"
                [(count,)] = self.duck.execute(f"SELECT count(DISTINCT (host, rack)) FROM r WHERE {hit}").fetchall()
                self.duck.execute(f"CREATE OR REPLACE TEMP TABLE gone AS SELECT host, rack FROM d WHERE {hit}")
                self.duck.execute("DELETE FROM r WHERE (host, rack) IN (SELECT (host, rack) FROM gone)")
                self.duck.execute("UPDATE d SET label = NULL WHERE (host, rack) IN (SELECT (host, rack) FROM gone)")
                assert self.db.sql(f"DELETE DEVICES FROM t WHERE {text}").fetchall() == [(count,)], text
            case ("update", (label, text)):
                here = "(host, rack) IN (SELECT (host, rack) FROM r)"
                wanted = self.duck.execute(f"UPDATE d SET label = {label} WHERE {here} AND ({text})").fetchall()
                assert self.db.sql(f"UPDATE t SET label = {label} WHERE {text}").fetchall() == wanted, text
            case ("column", name):
                kind = {"n": "BIGINT", "x": "DOUBLE"}[name]
                self.db.sql(f"ALTER TABLE t DROP COLUMN {name}")
                self.db.sql(f"ALTER TABLE t ADD COLUMN {name} {kind}")
                self.duck.execute(f"UPDATE r SET {name} = NULL")
            case ("flush", _):
                self.db.flush()
            case ("reopen", _):
                self.db.close()
                self.db = tsdb.open(self.folder, threads=1)

    def _write(self, rows: list[tuple[Any, ...]]) -> None:
        values = ", ".join(f"(make_timestamp({time}000000)::TIMESTAMP_S, ?, ?, ?, ?)" for time, *_ in rows)
        params = [value for _, *others in rows for value in others]
        self.db.sql(f"INSERT INTO t (time, host, rack, n, x) VALUES {values}", params)
        for time, host, rack, n, x in rows:
            self.duck.execute("INSERT INTO d VALUES (?, ?, NULL) ON CONFLICT DO NOTHING", [host, rack])
            self.duck.execute(
                f"INSERT INTO r VALUES (make_timestamp({time}000000)::TIMESTAMP_S, ?, ?, ?, ?) ON CONFLICT (time, host, rack) "
                "DO UPDATE SET n = coalesce(excluded.n, n), x = coalesce(excluded.x, x)",
                [host, rack, n, x],
            )

    def check(self) -> None:
        for question in (
            "SELECT time, host, rack, n, x, label FROM t ORDER BY time, host, rack",
            "SELECT time, host, rack FROM t ORDER BY time DESC, host, rack LIMIT 3",
            "SELECT n, time, host, rack FROM t WHERE n > 1 ORDER BY n DESC, time, host, rack LIMIT 4",
            "SELECT count(*), count(n), sum(n), min(time), max(x), count(label) FROM t",
            "SELECT host, count(*), max(n) FROM t WHERE time > '1970-01-01 00:00:03' GROUP BY host ORDER BY host",
        ):
            wanted = [plain(row) for row in self.duck.execute(question).fetchall()]
            found = [plain(row) for row in self.db.sql(question).fetchall()]
            assert found == wanted, question
        shown = [row[:3] for row in self.db.sql("SHOW DEVICES FROM t").fetchall()]
        assert shown == self.duck.execute("SELECT DISTINCT host, rack, label FROM t ORDER BY host, rack").fetchall()


@given(made=steps())
@settings(max_examples=25)
def test_histories(tmp_path_factory: pytest.TempPathFactory, made: list[Step]) -> None:
    history = History(tmp_path_factory.mktemp("history") / "db")
    try:
        for step in made:
            history.run(step)
            history.check()
    finally:
        history.close()


# ---------------------------------------------------------------------------------------------- cases


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db", threads=1) as made:
        made.sql("CREATE TABLE t (time TIMESTAMP_NS TIME, host STRING TAG, n INT64, tags STRING ATTRIBUTE, v VECTOR(2) ATTRIBUTE)")
        made.sql("INSERT INTO t (time, host, n) SELECT make_timestamp_ns(i), 'h' || i % 3, i FROM range(30) r(i)")
        yield made


def count(db: tsdb.Database) -> int:
    return int(db.sql("SELECT count(*) FROM t").fetchall()[0][0])


def test_parameters_and_settings(db: tsdb.Database) -> None:
    assert db.sql("DELETE FROM t WHERE host = ? AND n >= ?", ["h0", 15]).fetchall() == [(5,)]
    assert db.sql("DELETE FROM t WHERE n = $n OR host = $host SETTINGS threads = 1", {"n": 1, "host": "h2"}).fetchall() == [(11,)]
    assert db.sql("UPDATE t SET tags = ?, v = [1, ?] WHERE host = ?", ["x", 2, "h1"]).fetchall() == [(1,)]
    assert db.sql("SHOW DEVICES FROM t WHERE tags = ?", ["x"]).fetchall()[0][:3] == ("h1", "x", (1.0, 2.0))
    for text, params in (("DELETE FROM t WHERE n = ?", None), ("DELETE FROM t WHERE n = 1", [1]), ("DELETE FROM t", [1])):
        with pytest.raises(tsdb.InvalidInput):
            db.sql(text, params)
    with pytest.raises(tsdb.InvalidInput, match="take parameters"):
        db.sql("ALTER TABLE t ADD x INT", [1])
    assert count(db) == 14


def test_names_in_any_case_and_awkward_ones(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db") as db:
        db.sql('CREATE TABLE "Delete" ("where" TIMESTAMP TIME, "set" STRING TAG, "a""b" INT, "from" STRING ATTRIBUTE)')
        db.sql("INSERT INTO \"Delete\" VALUES ('2024-01-01', 'x', 1, 'f'), ('2024-01-02', 'y', 2, 'g')")
        assert db.sql('UPDATE "delete" SET "FROM" = upper("set") WHERE "Delete"."set" = \'x\'').fetchall() == [(1,)]
        assert db.sql('DELETE FROM DELETE AS d WHERE d."A""B" = 2').fetchall() == [(1,)]
        assert db.sql('SELECT * EXCLUDE "where" FROM "Delete"').fetchall() == [("x", 1, "X")]
        assert db.sql('DELETE FROM "Delete" WHERE "where" < now() AND "set" = \'x\'').fetchall() == [(1,)]


def test_nothing_to_delete_is_no_commit(db: tsdb.Database) -> None:
    before = db._opened().snapshot().sequence
    for text in (
        "DELETE FROM t WHERE host = 'none'",
        "DELETE FROM t WHERE n > 100",
        "DELETE FROM t WHERE upper(host) = 'X'",
        "DELETE FROM t WHERE false",
    ):
        assert db.sql(text).fetchall() == [(0,)]
    assert db.sql("UPDATE t SET tags = 'x' WHERE host = 'none'").fetchall() == [(0,)]
    assert db.sql("DELETE DEVICES FROM t WHERE tags = 'x'").fetchall() == [(0,)]
    assert db._opened().snapshot().sequence == before
    db.sql("DELETE FROM t WHERE n = 7")
    assert db._opened().snapshot().sequence == before + 1


def test_an_open_result_keeps_its_rows(db: tsdb.Database) -> None:
    kept, streamed = db.sql("SELECT * FROM t"), db.sql("SELECT n + 1 FROM t")
    db.sql("DELETE FROM t WHERE n < 20")
    db.sql("DELETE DEVICES FROM t")
    assert (len(kept.fetchall()), len(streamed.fetchall()), count(db)) == (30, 30, 0)


def test_untouched_devices_are_still_pruned(db: tsdb.Database) -> None:
    """A delete of one device costs the others neither their statistics nor the early end of a TopK."""
    db.sql("INSERT INTO t (time, host, n) SELECT make_timestamp_ns(i * 1000), 'd' || i % 100, i FROM range(20000) r(i)")
    db.flush()
    db.sql("DELETE FROM t WHERE host = 'd7' AND n > 19000")
    result = db.sql("SELECT n FROM t ORDER BY time DESC LIMIT 3")
    assert result.fetchall() == [(19999,), (19998,), (19997,)]
    assert result.stats["devices_pruned_by_topk"] > 90
    assert db.sql("SELECT max(n) FROM t WHERE host = 'd7'").fetchall() == [(18907,)]


def test_what_update_and_delete_devices_refuse(db: tsdb.Database) -> None:
    for text, words in (
        ("UPDATE t SET n = 1", "'n' is a field of 't': INSERT INTO overlays"), ("UPDATE t SET host = 'x'", "is a tag"),
        ("UPDATE t SET time = now()", "is the time"), ("UPDATE t SET tags = 'x' WHERE n > 1", "'n' is a field: of the devices of"),
        ("UPDATE t SET tags = 'x' WHERE upper(t.host) = 'X' AND t.time > '2024-01-01'", "'time' is the time"),
        ("DELETE DEVICES FROM t WHERE n > 1", "only tags and attributes"), ("UPDATE t SET v = [1]", "array with length 2"),
        ("UPDATE t SET tags = n", "'n' is a field"), ("UPDATE t SET tags = _sn", "a hidden column"),
    ):  # fmt: skip
        with pytest.raises(tsdb.InvalidInput) as caught:
            db.sql(text)
        assert words in str(caught.value)
        assert "__tsdb" not in str(caught.value)
    with pytest.raises(tsdb.NotFound, match="did you mean 'tags'"):
        db.sql("UPDATE t SET tag = 'x'")
    with pytest.raises(tsdb.NotFound, match="no column 'hst' in table 't'; did you mean 'host'"):
        db.sql("DELETE DEVICES FROM t WHERE hst = 'x'")
    with pytest.raises(tsdb.NotFound, match=r"no table 'u'; there are: t$"):
        db.sql("DELETE FROM t WHERE host IN (SELECT host FROM u)")
