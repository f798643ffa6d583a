"""Statements that are bound from their tokens get the plans that their trees would get."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tsdb
from support.sql_text import VALUES
from support.twin import DDL
from tsdb.catalog.table import Table
from tsdb.settings import Settings
from tsdb.sql.binder import TreeBinder
from tsdb.sql.environment import Environment, bind_parameters
from tsdb.sql.plain import bind_plain
from tsdb.sql.reader import read_statement
from tsdb.sql.statement import CreateTable, Query

NOW_NS = 1_704_067_200_123_456_789


def _tables() -> dict[str, Table]:
    statement = read_statement(f"CREATE TABLE t ({DDL})")
    assert isinstance(statement, CreateTable)
    return {"t": Table(1, "t", statement.schema)}


TABLES = _tables()


def _query(text: str) -> Query:
    query = read_statement(text)
    assert isinstance(query, Query)
    return query


def _agree(text: str, params: object = None) -> bool:
    """Whether the statement is plain; if it is, both binders must make the same of it."""
    query = _query(text)
    values = bind_parameters(query.tokens, params)  # type: ignore[arg-type]
    environment, other = Environment(values, NOW_NS), Environment(values, NOW_NS)
    plain = bind_plain(query, TABLES, environment)
    if plain is None:
        return False
    plan, columns = TreeBinder(query).bind(TABLES, Settings(), other)
    assert plain.plan() == plan
    assert plain.outputs is not None
    assert tuple(name for name, _ in plain.outputs) == columns
    assert (environment.used_now, environment.compared_zone) == (other.used_now, other.compared_zone)
    return True


PLAIN = [
    "SELECT * FROM t", "select id, HOST, t_ from t", "SELECT id AS x, id, d AS \"Odd name\" FROM \"T\"",
    "SELECT * FROM t ORDER BY time DESC LIMIT 10",
    "SELECT * FROM t WHERE host = 'a' AND d > 90.5 AND time >= '2024-01-01' ORDER BY time DESC, host NULLS FIRST LIMIT 10 OFFSET 5",
    "SELECT id FROM t WHERE i <> -5 AND l == 9223372036854775808 AND f < 1e3 AND d != .5 AND s <= 'it''s' AND b = TRUE OFFSET 3",
    "SELECT id FROM t WHERE time BETWEEN '2024-01-01' AND '2024-01-02T10:00:00Z' AND i IN (1, 2, NULL, -3)",
    "SELECT id FROM t WHERE s IS NULL AND d IS NOT NULL",
    "SELECT id FROM t WHERE time > now() - INTERVAL 1 HOUR AND tu < now() + INTERVAL '2 days' - INTERVAL 5 MINUTE LIMIT 1",
    "SELECT id FROM t WHERE dt > DATE '2024-01-01' - INTERVAL 1 MONTH AND ts <= TIMESTAMP '2024-01-01 00:00:01'",
    "SELECT id FROM t WHERE i = NULL ORDER BY i ASC NULLS LAST",
    "SELECT id FROM t -- comment\n WHERE \"I\" = 5 /* another */ LIMIT 1_000", "SELECT id FROM t ORDER BY id, id DESC",
    "SELECT _sn FROM t WHERE _sn > 5", "SELECT d AS time FROM t ORDER BY id",
]  # fmt: skip
NOT_PLAIN = [
    "SELECT DISTINCT id FROM t", "SELECT id + 1 FROM t", "SELECT count(*) FROM t", "SELECT * FROM t x", "SELECT t.id FROM t",
    "SELECT * FROM t, t", "SELECT * FROM main.t", "SELECT *, id FROM t", "SELECT id FROM t WHERE b", "SELECT id FROM t WHERE NOT b",
    "SELECT id FROM t WHERE i = 1 OR i = 2", "SELECT id FROM t WHERE (i = 1)", "SELECT id FROM t WHERE 1 = i",
    "SELECT id FROM t WHERE i = l", "SELECT id FROM t WHERE i = 1 + 1", "SELECT id FROM t WHERE i = '5'",
    "SELECT id FROM t WHERE time > '2024-1-1'", "SELECT id FROM t WHERE s LIKE 'a%'", "SELECT id FROM t ORDER BY 1",
    "SELECT d AS time FROM t ORDER BY time", "SELECT id FROM t ORDER BY blob", "SELECT id FROM t ORDER BY -id",
    "SELECT id FROM t LIMIT 10%", "SELECT id FROM t LIMIT NULL", "SELECT id FROM t LIMIT ALL", "SELECT id FROM t LIMIT 1 + 1",
    "SELECT id FROM t LIMIT -1", "SELECT id FROM t LIMIT 2.5", "SELECT id FROM t WHERE s = E'a'",
    "SELECT id FROM t WHERE s = 'a' 'b'", "SELECT id FROM t WHERE s = $$a$$", "SELECT id FROM t WHERE s = 'a' || 'b'",
    "SELECT id FROM t WHERE i = 0x1F", "SELECT nothing FROM t", "SELECT id FROM u", "FROM t",
    "SELECT id FROM t LIMIT 5 OFFSET 2 ROWS", "SELECT FROM t", "SELECT id FROM t WHERE i BETWEEN SYMMETRIC 1 AND 2",
    "SELECT id FROM t WHERE i NOT IN (1)", "SELECT id FROM t WHERE i = 1 COLLATE x", "SELECT id,", "SELECT user FROM t",
    "SELECT current_date FROM t", "SELECT id FROM t GROUP BY id", "SELECT id FROM t UNION SELECT 1", "SELECT id x FROM t",
    "SELECT id FROM t WHERE time > INTERVAL 1 DAY + now()", "SELECT id FROM t WHERE time > now() - INTERVAL '1' DAY",
    "SELECT id FROM t FETCH FIRST 1 ROW ONLY", "SELECT id FROM t WHERE time BETWEEN '2024-01-01' AND TIMESTAMP '2024-01-02'",
    "SELECT id FROM t WHERE i IN (SELECT 1)", "SELECT id FROM t WHERE i <=> 1",
]  # fmt: skip


@pytest.mark.parametrize("text", [text for text in PLAIN if "t_" not in text])
def test_plain_statements(text: str) -> None:
    assert _agree(text)


@pytest.mark.parametrize("text", [*NOT_PLAIN, *(text for text in PLAIN if "t_" in text)])
def test_statements_for_the_other_binder(text: str) -> None:
    assert not _agree(text)


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("SELECT id FROM t WHERE i = ? AND s = ? LIMIT ?", [5, "a", 3]),
        ("SELECT id FROM t WHERE d > $x LIMIT $n OFFSET $n", {"x": 1.5, "n": 2}),
        ("SELECT id FROM t WHERE time >= $1 AND time < $1", [datetime.datetime(2024, 1, 1)]),
        ("SELECT id FROM t WHERE i = ?", [None]),
        ("SELECT id FROM t WHERE time >= ?", [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)]),
    ],
)  # fmt: skip
def test_plain_parameters(text: str, params: object) -> None:
    assert _agree(text, params)


@st.composite
def plain_select(draw: st.DrawFn) -> str:
    """A SELECT that is plain, or nearly."""
    names = st.sampled_from([*sorted(VALUES), "id"])
    items = draw(
        st.one_of(st.just(["*"]), st.lists(st.one_of(names, st.tuples(names, names).map(" AS ".join)), min_size=1, max_size=3))
    )
    constants = ["1", "-1", "1.5", "1e3", "'a'", "'2024-01-01'", "NULL", "TRUE", "DATE '2024-01-01'",
    "TIMESTAMP '2024-01-01 10:00:00'", "now()",
                 "now() - INTERVAL 1 DAY", "9007199254740993", "'2024-01-01 00:00:00.5'", "99999999999999999999"]  # fmt: skip
    constant = st.sampled_from(constants)
    comparisons = st.one_of(
        st.tuples(names, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), constant).map(" ".join),
        st.tuples(names, constant, constant).map(lambda parts: f"{parts[0]} BETWEEN {parts[1]} AND {parts[2]}"),
        st.tuples(names, st.lists(constant, min_size=1, max_size=3)).map(lambda parts: f"{parts[0]} IN ({', '.join(parts[1])})"),
        st.tuples(names, st.sampled_from(["IS NULL", "IS NOT NULL"])).map(" ".join),
    )
    conditions = draw(st.lists(comparisons, max_size=3))
    keys = draw(
        st.lists(
            st.tuples(names, st.sampled_from(["", " ASC", " DESC", " NULLS FIRST", " DESC NULLS LAST"])).map("".join), max_size=3
        )
    )
    text = f"SELECT {', '.join(items)} FROM t"
    text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    text += f" ORDER BY {', '.join(keys)}" if keys else ""
    return text + draw(st.sampled_from(["", " LIMIT 5", " LIMIT 0", " LIMIT 5 OFFSET 2", " OFFSET 2"]))


@given(text=plain_select())
@settings(max_examples=200)
def test_random_plain_statements(text: str) -> None:
    _agree(text)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path_factory.mktemp("plain") / "db") as made:
        made.sql(f"CREATE TABLE t ({DDL})")
        yield made


@pytest.mark.parametrize("text", ["SELECT nothing FROM t", "SELECT id FROM u", "SELECT id, FROM t WHERE"])
def test_errors_come_from_the_other_binder(db: tsdb.Database, text: str) -> None:
    with pytest.raises((tsdb.NotFound, tsdb.InvalidInput)):
        db.sql(text).fetchall()
