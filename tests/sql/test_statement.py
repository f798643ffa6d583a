"""Statements as text: what is read, and what is refused with which words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tsdb
from tsdb.sql.duration import parse_duration
from tsdb.sql.reader import read_statement
from tsdb.sql.statement import (
    AddColumn,
    AlterTable,
    Checkpoint,
    CreateTable,
    Delete,
    DeleteDevices,
    DropColumn,
    Explain,
    Insert,
    Query,
    RenameColumn,
    RenameTable,
    SetSetting,
    SetTtl,
    ShowDevices,
    ShowSettings,
    Update,
)
from tsdb_format.types import DOUBLE, STRING, TIMESTAMP_US, Role

DAY = 86_400 * 10**9


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path_factory.mktemp("statement") / "db") as made:
        made.sql('CREATE TABLE cpu (time TIMESTAMP_NS TIME, host STRING TAG, "Usage" DOUBLE)')
        made.sql("INSERT INTO cpu VALUES ('2024-01-01', 'a', 1.5)")
        yield made


def _create(text: str) -> CreateTable:
    statement = read_statement(text)
    assert isinstance(statement, CreateTable)
    return statement


def test_create_table_reads_types_roles_and_options() -> None:
    made = _create(
        """CREATE TABLE IF NOT EXISTS "My Table" (   -- a comment
            ts TIMESTAMP_MS TIME, host STRING TAG, rack INT TAG, usage DOUBLE PRECISION FIELD, name VARCHAR(20), tag BOOL tag,
            field BIGINT field, time TIMESTAMP, label TEXT ATTRIBUTE, v VECTOR(3), w FLOAT[4], d DATETIME, b BYTEA,
        ) WITH (ttl = '30d', partition = '12 hours', page_rows = 1024, mode = 'append') /* done */;"""
    )
    assert (made.name, made.if_not_exists) == ("My Table", True)
    assert [(c.name, str(c.type), c.role.name) for c in made.schema] == [
        ("ts", "TIMESTAMP_MS", "TIME"), ("host", "STRING", "TAG"), ("rack", "INT32", "TAG"), ("usage", "DOUBLE", "FIELD"),
        ("name", "STRING", "FIELD"), ("tag", "BOOLEAN", "TAG"), ("field", "INT64", "FIELD"), ("time", "TIMESTAMP_US", "FIELD"),
        ("label", "STRING", "ATTRIBUTE"), ("v", "VECTOR(3)", "FIELD"), ("w", "VECTOR(4)", "FIELD"), ("d", "TIMESTAMP_US", "FIELD"),
        ("b", "BLOB", "FIELD"),
    ]  # fmt: skip
    options = made.options
    assert (options.ttl_ns, options.partition_ns, options.rows_per_page, options.mode) == (30 * DAY, DAY // 2, 1024, "append")


def test_the_first_timestamp_is_the_time_column_unless_one_is_declared() -> None:
    roles = {c.name: c.role for c in _create("CREATE TABLE t (a INT, b TIMESTAMP, c TIMESTAMP_S)").schema}
    assert roles == {"a": Role.FIELD, "b": Role.TIME, "c": Role.FIELD}
    roles = {c.name: c.role for c in _create("CREATE TABLE t (b TIMESTAMP, c TIMESTAMP_S TIME)").schema}
    assert roles == {"b": Role.FIELD, "c": Role.TIME}
    assert str(_create("CREATE TABLE t (time TIME, host STRING TAG)").schema.time.type) == "TIMESTAMP_NS"
    assert _create("CREATE TABLE t (time TIMESTAMP NOT NULL TIME)").schema.time.name == "time"


def test_partition_ttl_and_shards_as_clauses() -> None:
    options = _create(
        "CREATE TABLE t (a TIMESTAMP) PARTITION BY INTERVAL 1 DAY TTL INTERVAL '2 weeks' SHARDS 4 BY (hash(a))"
    ).options
    assert (options.partition_ns, options.ttl_ns, options.shards) == (DAY, 14 * DAY, 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE TABLE t (a INT)", "no time column"),
        ("CREATE TABLE t (a TIMESTAMP TIME, b TIMESTAMP TIME)", "exactly one TIME column"),
        ("CREATE TABLE t (a TIMESTAMP, b DOUBLE TAG)", "'b' must be one of"),
        ("CREATE TABLE t (a INT TIME)", "must be a TIMESTAMP"),
        ("CREATE TABLE t (a TIMESTAMP) WITH (tll = '1d')", "did you mean 'ttl'"),
        ("CREATE TABLE t (a TIMESTAMP) WITH (ttl = 30)", "needs a unit"),
        ("CREATE TABLE t (a TIMESTAMP) WITH (ttl = '1 month')", "give days"),
        ("CREATE TABLE t (a TIMESTAMP, A INT)", "declared twice"),
        ("CREATE TABLE t (a TIMESTAMP) WITH (page_rows = 1500)", "multiple of 1,024"),
        ("CREATE TABLE t (a TIMESTAMP, b)", "a type for column 'b'"),
        ("CREATE TABLE t (a TIMESTAMP, b WIDGET)", "column 'b': unknown column type 'WIDGET'"),
        ("CREATE TABLE t (a TIMESTAMP, b INT COLOUR)", "COLOUR"), ("CREATE TABLE t (a TIMESTAMPTZ)", "without a zone"),
        ("CREATE TABLE t (a TIMESTAMP, PRIMARY KEY (a))", "unique by its tags"),
        ("CREATE TABLE t (a TIMESTAMP, b INT DEFAULT 5)", "DEFAULT"), ("CREATE TABLE t AS SELECT 1", "INSERT INTO"),
        ("CREATE OR REPLACE TABLE t (a TIMESTAMP)", "DROP TABLE"), ("CREATE VIEW v AS SELECT 1", "no views"),
        ("CREATE TABLE t (a TIMESTAMP) WITH (mode = 'odd')", "unknown mode"), ("CREATE TABLE t (a TIMESTAMP", "expected"),
        ("CREATE TABLE t (a TIMESTAMP) WITH (ttl = '1d', ttl = '2d')", "twice"),
        ("CREATE TABLE t (_sn TIMESTAMP)", "cannot be named"), ("CREATE TABLE t (a TIMESTAMP, b VECTOR(0))", "1 to 65,535"),
        ("CREATE TABLE t (a TIMESTAMP, b INT NOT NULL TAG)", "NOT NULL"), ("SELCT 1", "did you mean SELECT"), ("", "no statement"),
        (" -- nothing\n", "no statement"), ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT 'abc", "string that starts at line 1, column 8"), ("SELECT /* x", "comment"), ('SELECT "x', "quoted name"),
        ("DROP TABEL t", "expected TABLE, not 'TABEL' (line 1, column 6)"), ("SHOW", "expected TABLES"),
        ("SET threads", "expected TO"), ("SET threads = ", "a value for threads"), ("EXPLAIN", "a query to explain"),
        ("EXPLAIN DROP TABLE t", "EXPLAIN is for queries"), ("EXPLAIN (FORMAT xml) SELECT 1", "no format 'xml'"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "overlays"), ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "overlays"),
        ("COPY t TO 'x'", "unknown statement 'COPY'"), ("SELECT ?, $1", "all of one kind"),
        ("SELECT 1 SETTINGS threads = ", "a value"), ("PRAGMA database_size", "unknown statement"),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "INSERT comes first"),
        ("WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x", "cannot stand inside a query"),
        ("CHECKPOINT t", "the end of the statement"), ("ATTACH 'x'", "unknown statement"),
        ("DELETE t", "expected FROM"), ("DELETE FROM t WHERE", "a condition"),
        ("DELETE FROM t WHERE a = 1 LIMIT 2", "expected the end of the condition, not 'LIMIT'"),
        ("DELETE FROM t WHERE a = 1, b = 2", "not ','"), ("DELETE FROM t WHERE a) OR (b", "not ')'"),
        ("DELETE FROM t WHERE (a", "expected ')'"), ("DELETE FROM t USING u WHERE a = b", "subquery"),
        ("DELETE FROM t WHERE a RETURNING *", "RETURNING"), ("DELETE FROM t RETURNING *", "RETURNING"),
        ("WITH x AS (SELECT 1) DELETE FROM t", "DELETE takes no WITH"), ("DELETE FROM t ORDER BY a", "expected WHERE"),
        ("TRUNCATE t WHERE a", "the end of the statement"), ("UPDATE t SET a", "expected '='"),
        ("UPDATE t SET a =", "a value for a"),
        ("UPDATE t SET a = , b = 1", "a value for a"), ("UPDATE t SET t.a = 1", "the column alone"),
        ("UPDATE t SET a = 1, A = 2", "set twice"), ("UPDATE t SET (a, b) = (1, 2)", "the name of an attribute"),
        ("UPDATE t SET a = 1 FROM u", "subquery"), ("UPDATE t SET a = 1 WHERE b GROUP BY c", "not 'GROUP'"),
        ("UPDATE t WHERE a = 1", "expected SET"), ("SHOW DEVICES", "expected FROM"), ("ALTER VIEW v", "expected TABLE"),
        ("ALTER TABLE t", "expected ADD, DROP, RENAME"), ("ALTER TABLE t ADD COLUMN", "a column name"),
        ("ALTER TABLE t ADD COLUMN a", "a type for column 'a'"), ("ALTER TABLE t ADD a WIDGET", "unknown column type"),
        ("ALTER TABLE t ADD a INT DEFAULT 5", "DEFAULT"), ("ALTER TABLE t ADD a INT NOT NULL", "NOT NULL"),
        ("ALTER TABLE t ADD a INT, ADD b INT", "one thing at a time"), ("ALTER TABLE t DROP", "a column name"),
        ("ALTER TABLE t RENAME a", "expected TO"), ("ALTER TABLE t RENAME TO", "a table name"),
        ("ALTER TABLE t ALTER a TYPE INT", "cannot be changed"), ("ALTER TABLE t SET (mode = 'append')", "only ttl"),
        ("ALTER TABLE t SET TTL 30", "a unit of time"), ("ALTER TABLE t SET TTL '1 month'", "give days"),
        ("ALTER TABLE t SET (ttl_ns = 0)", "must be positive"), ("ALTER TABLE t SET mode", "expected TTL"),
        ("ALTER TABLE t RESET mode", "expected TTL"), ("ALTER TABLE t RESET (page_rows)", "only ttl"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(tsdb.InvalidInput) as caught:
        read_statement(text)
    assert words in str(caught.value)


def test_a_settings_clause_is_cut_off_and_a_name_is_not() -> None:
    query = read_statement("SELECT 1 FROM t SETTINGS threads = 2, enable_native_operators = false;")
    assert isinstance(query, Query)
    assert query.text == "SELECT 1 FROM t"
    assert query.settings == (("threads", 2), ("enable_native_operators", "false"))
    for text in ("SELECT settings FROM settings settings", "SELECT settings = 1 FROM t", "SELECT (SELECT 1 settings) FROM t"):
        query = read_statement(text)
        assert isinstance(query, Query)
        assert (query.text, query.settings) == (text, ())


def test_positional_parameters_are_numbered() -> None:
    query = read_statement("SELECT ?, '?', \"?\" -- ?\n, ? FROM t")
    assert isinstance(query, Query)
    assert query.text == "SELECT $1, '?', \"?\" -- ?\n, $2 FROM t"


def test_explain_options() -> None:
    explain = read_statement("EXPLAIN ANALYZE (TIMINGS, FORMAT JSON) SELECT 1 SETTINGS threads = 1")
    assert isinstance(explain, Explain)
    assert (explain.analyze, explain.timings, explain.rules, explain.form) == (True, True, False, "json")
    assert explain.query.settings == (("threads", 1),)
    parenthesised = read_statement("EXPLAIN (SELECT 1)")
    assert isinstance(parenthesised, Explain)
    assert parenthesised.query.text == "(SELECT 1)"


def test_set_show_and_insert() -> None:
    assert read_statement("SET memory_limit TO '1 GiB'") == SetSetting("memory_limit", "1 GiB")
    assert read_statement("set threads = -3") == SetSetting("threads", -3)
    assert read_statement("RESET threads") == SetSetting("threads", None)
    assert read_statement("SHOW threads") == ShowSettings("threads")
    assert read_statement("checkpoint;") == Checkpoint()
    insert = read_statement('INSERT INTO "T" (a) VALUES (?)')
    assert isinstance(insert, Insert)
    assert insert.table == "T"
    assert insert.query.text[slice(*insert.target)] == '"T"'


def test_conditions_stay_text() -> None:
    made = read_statement("DELETE FROM t AS x WHERE x.a = '--' AND (b > ? /* why */ OR c) SETTINGS threads = 1;")
    assert isinstance(made, Delete)
    assert (made.table, made.alias, made.condition) == ("t", "x", "x.a = '--' AND (b > $1 /* why */ OR c)")
    assert made.query.settings == (("threads", 1),)
    made = read_statement('delete devices from "My T" where true')
    assert isinstance(made, DeleteDevices)
    assert (made.table, made.alias, made.condition) == ("My T", "My T", "true")
    made = read_statement("TRUNCATE TABLE t")
    assert isinstance(made, Delete)
    assert made.condition is None
    made = read_statement("SHOW DEVICES FROM t WHERE a IS DISTINCT FROM 5")
    assert isinstance(made, ShowDevices)
    assert made.condition == "a IS DISTINCT FROM 5"


def test_update_reads_expressions() -> None:
    made = read_statement(
        "UPDATE t x SET a = f(1, 2) || ',', \"B\" = default, c = a IS DISTINCT FROM $1 WHERE (SELECT b FROM u) > 1"
    )
    assert isinstance(made, Update)
    assert made.assignments == (("a", "f(1, 2) || ','"), ("B", "NULL"), ("c", "a IS DISTINCT FROM $1"))
    assert (made.table, made.alias, made.condition) == ("t", "x", "(SELECT b FROM u) > 1")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("ADD COLUMN a DOUBLE", AddColumn("a", DOUBLE, Role.FIELD, False)),
        ("ADD COLUMN IF NOT EXISTS a VARCHAR(3) ATTRIBUTE", AddColumn("a", STRING, Role.ATTRIBUTE, True)),
        ("add a timestamp", AddColumn("a", TIMESTAMP_US, Role.FIELD, False)),
        ("DROP COLUMN IF EXISTS a CASCADE", DropColumn("a", True)),
        ('DROP "a b"', DropColumn("a b", False)),
        ("RENAME COLUMN a TO b", RenameColumn("a", "b")),
        ("RENAME a TO b", RenameColumn("a", "b")),
        ("RENAME TO b", RenameTable("b")),
        ("SET TTL '30d'", SetTtl(30 * DAY)),
        ("SET TTL = INTERVAL 30 DAYS", SetTtl(30 * DAY)),
        ("SET (ttl = '30d')", SetTtl(30 * DAY)),
        ("SET (ttl_ns = 5)", SetTtl(5)),
        ("RESET TTL", SetTtl(None)),
        ("RESET (ttl)", SetTtl(None)),
    ],
)
def test_alter_table_reads_one_change(text: str, change: object) -> None:
    assert read_statement(f"ALTER TABLE t {text}") == AlterTable("t", False, change)
    assert read_statement(f'ALTER TABLE IF EXISTS "T" {text};') == AlterTable("T", True, change)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("30d", 30 * DAY),
        ("1 hour", DAY // 24),
        ("1h30m", DAY // 16),
        ("1.5 min", 90 * 10**9),
        ("2 weeks", 14 * DAY),
        ("500ms", 5 * 10**8),
        ("7 ns", 7),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "5", "d", "1 fortnight", "-1d", "0s", "1.5ns", "1 year", "400000 days", "1d x"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(tsdb.InvalidInput):
        parse_duration(text)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM cpi", "did you mean 'cpu'"), ("SELECT usagee FROM cpu", "did you mean 'Usage'"),
        ("SELECT cpu.hots FROM cpu", "did you mean 'host'"), ("SELECT * FROM cpu WHERE hst = 'a'", "did you mean 'host'"),
        ("SELECT * FROM cpu ORDER BY tim", "did you mean 'time'"), ("SELECT max(usagee) FROM cpu", "did you mean 'Usage'"),
        ("SELECT 1 FROM cpu JOIN mem USING (time)", "no table 'mem'"), ("DESCRIBE cpuu", "cpu"), ("DROP TABLE cpuu", "cpu"),
        ("SHOW CREATE TABLE cpuu", "cpu"), ("SET thread = 1", "did you mean threads"),
        ("SELECT 1 SETTINGS thread = 1", "did you mean threads"), ("INSERT INTO cpuu VALUES (1)", "cpu"),
        ("INSERT INTO cpu (time, hots) VALUES ('2024-01-01', 'a')", "did you mean 'host'"),
        ("SELECT a.x FROM cpu a JOIN cpu b USING (time)", "x"), ("SELECT _rowid FROM cpu", "no column '_rowid'"),
        ("SELECT nothing() FROM cpu", "nothing"),
    ],
)  # fmt: skip
def test_names_that_do_not_exist(db: tsdb.Database, sql: str, words: str) -> None:
    with pytest.raises(tsdb.NotFound) as caught:
        db.sql(sql).fetchall()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM cpu LIMIT -1", "SELECT * FROM cpu WHERE host > 5", "SELECT * FROM cpu WHERE", "SELECT FROM cpu",
        "SELECT 1 +", "SELECT host FROM cpu GROUP BY time", "SELECT time FROM cpu ORDER BY 7", "SELECT x.time FROM cpu",
        "SET threads = 'many'", "SET threads = 0", "SELECT 1 SETTINGS threads = 'x'", "SET durability = 'sometimes'",
        "INSERT INTO cpu (time) VALUES (1, 2)", "SELECT * FROM cpu LIMIT 'x'", "INSERT INTO cpu VALUES (NULL, 'a', 1)",
        "INSERT INTO cpu VALUES ('2024-13-01', 'a', 1)", "INSERT INTO cpu", "INSERT INTO cpu SELECT 1",
        "INSERT INTO cpu (time, time) VALUES (1, 2)", "INSERT INTO cpu DEFAULT VALUES", "SELECT * EXCLUDE (nothing) FROM cpu",
    ],
)  # fmt: skip
def test_statements_that_mean_nothing(db: tsdb.Database, sql: str) -> None:
    with pytest.raises((tsdb.InvalidInput, tsdb.NotFound)) as caught:
        db.sql(sql).fetchall()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [10, 2_000])
def test_long_conditions(db: tsdb.Database, count: int) -> None:
    numbers = range(count)
    for text in (
        " OR ".join(f"usage = {n}.5" for n in numbers),
        " AND ".join(f"usage <> {n}" for n in numbers),
        "(" * 200 + "usage > 1" + ")" * 200,
    ):
        assert db.sql(f"SELECT host FROM cpu WHERE {text} LIMIT 1").fetchall() == [("a",)]
        assert db.sql(f"SELECT count(*) FROM cpu WHERE {text}").fetchall() == [(1,)]
    listed = ", ".join(f"{n}.5" for n in numbers)
    assert db.sql(f"SELECT host FROM cpu WHERE usage IN ({listed}) LIMIT 1").fetchall() == [("a",)]
    assert db.sql("SELECT host FROM cpu WHERE usage IN ?", [[n + 0.5 for n in numbers]]).fetchall() == [("a",)]
    deep = "NOT " * (2 * count) + "usage > 1"
    if count == 10:
        assert db.sql(f"SELECT host FROM cpu WHERE {deep} LIMIT 1").fetchall() == [("a",)]


def test_errors_of_duckdb_speak_of_tables(db: tsdb.Database) -> None:
    with pytest.raises(tsdb.Error) as caught:
        db.sql("SELECT a.host FROM cpu a JOIN cpu b USING (hots)").fetchall()
    assert "__tsdb" not in str(caught.value)


def test_names_are_found_in_any_case_and_shown_as_declared(db: tsdb.Database) -> None:
    result = db.sql('SELECT TIME, CPU.HOST, "USAGE", usage AS Load FROM CPU ORDER BY Time')
    assert result.columns == ["time", "host", "Usage", "Load"]
    assert [row[1:] for row in result.fetchall()] == [("a", 1.5, 1.5)]
    assert db.sql("SELECT upper(HOST), usage + 1 AS u FROM Cpu").columns == ["upper(HOST)", "u"]
    assert db.schema("CPU").column("Usage").name == "Usage"


@pytest.mark.parametrize(
    "name", ["time", "tag", "field", "attribute", "value", "timestamp", "date", "key", "interval", "settings", "ttl"]
)
def test_words_as_names(tmp_path: object, name: str) -> None:
    with tsdb.open(f"{tmp_path}/db") as db:
        db.sql(f"CREATE TABLE {name} (ts TIMESTAMP_NS TIME, {name} STRING TAG, x INT64 FIELD)")
        db.sql(f"INSERT INTO {name} (ts, {name}, x) VALUES ('2024-01-01', 'v', 1)")
        assert db.sql(f"SELECT {name}, x FROM {name} WHERE {name} = 'v' ORDER BY {name} LIMIT 1").fetchall() == [("v", 1)]
        assert db.sql(f"SELECT {name}.{name}, count(*) FROM {name} GROUP BY {name}").fetchall() == [("v", 1)]
        assert db.sql(f"DESCRIBE {name}").fetchall()[1] == (name, "VARCHAR", "TAG")
        text = db.sql(f"SHOW CREATE TABLE {name}").fetchall()[0][0]
        db.sql(f"DROP TABLE {name}")
        db.sql(text)
        assert db.tables() == [name]


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("SHOW COLUMNS FROM t", "DESCRIBE t"), ("PRAGMA table_info('t')", "DESCRIBE t"), ("PRAGMA threads = 4", "SHOW SETTINGS"),
        ("copy t TO 'x.csv'", "tsdb export DB T -o FILE"), ("COPY t FROM 'x.csv'", "tsdb ingest DB FILE"),
        ("BEGIN", "no transactions"), ("BEGIN TRANSACTION", "no transactions"), ("START TRANSACTION", "no transactions"),
        ("COMMIT", "no transactions"), ("rollback", "no transactions"), ("END", "no transactions"),
        ("VACUUM", "compact"), ("VACUUM t", "compact"), ("ANALYZE t", "EXPLAIN ANALYZE"),
        ("CREATE VIEW v AS SELECT 1", "no views"), ("CREATE OR REPLACE VIEW v AS SELECT 1", "no views"),
        ("DROP VIEW v", "no views"), ("CREATE INDEX i ON t (a)", "no indexes"), ("CREATE UNIQUE INDEX i ON t (a)", "no indexes"),
        ("DROP INDEX i", "no indexes"),
        ("CREATE TEMP TABLE t (a TIMESTAMP)", "no temporary"), ("CREATE SCHEMA s", "one schema"), ("SHOW DATABASES", "SHOW TABLES"),
        ("SET TimeZone = 'UTC'", "AT TIME ZONE"), ("SET TIME ZONE 'UTC'", "AT TIME ZONE"), ("SET SESSION timezone TO 'UTC'", "UTC"),
        ("EXPLAIN COPY t TO 'x'", "tsdb export"), ("USE other", "tsdb.open"), ("REPLACE INTO t VALUES (1)", "overlays"),
    ],
)  # fmt: skip
def test_what_other_databases_have_is_answered_with_what_to_write(text: str, instead: str) -> None:
    with pytest.raises(tsdb.InvalidInput, match="unknown statement") as caught:
        read_statement(text)
    assert instead in str(caught.value)
    assert "\n" not in str(caught.value)
