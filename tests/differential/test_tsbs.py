"""TSBS: every query type of devops and iot, over a small suite in files and in memory, as DuckDB answers over a copy."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import tsdb
from benchmarks.tsbs_data import FIELDS, Suite, create_sql
from benchmarks.tsbs_question import TsbsQuestion, questions
from support.golden_case import SETTINGS
from support.oracle import Answer, Oracle, Question, explained
from support.quiet import without_background

SUITE = Suite(hosts=12, trucks=80, hours=26, interval_s=60, seed=3)
QUESTIONS = questions(SUITE)
TABLES = ("cpu", "readings", "diagnostics")


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Two databases: small pages with the later half of each table in memory, and default pages in files."""
    folder = tmp_path_factory.mktemp("tsbs")
    databases = {size: without_background(tsdb.open(folder / str(size))) for size in (64, 8192)}
    duck = duckdb.connect()
    for size, database in databases.items():
        for name in TABLES:
            database.sql(f"{create_sql(name)} WITH (page_rows = {size})")
    for name in TABLES:
        columns = ", ".join(f"{column} {kind}" for column, kind, _ in databases[64].sql(f"DESCRIBE {name}").fetchall())
        duck.execute(f"CREATE TABLE {name} ({columns})")
    halves = [
        (name, part, at)
        for name, rows in SUITE.tables()
        for at, part in enumerate((rows[: len(rows) // 2], rows[len(rows) // 2 :]))
    ]
    for name, part, at in sorted(halves, key=lambda half: half[2]):
        duck.register("part", part)
        duck.execute(f"INSERT INTO {name} FROM part")
        for size, database in databases.items():
            database.write(name, part)
            if size == 8192 or (at == 0 and name == TABLES[-1]):
                database.flush()
    made = Oracle([], duck, databases)
    yield made
    made.close()


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.name for question in QUESTIONS])
def test_tsbs(oracle: Oracle, question: TsbsQuestion) -> None:
    asked = Question(question.text, question.ordered, close=True, theirs=question.theirs)
    oracle.check(asked, SETTINGS)
    expected = oracle.expected(asked)
    assert isinstance(expected, Answer)
    assert expected.rows, "the question has no answer in this suite"


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.name for question in QUESTIONS])
def test_groups_and_newest_rows_are_native(oracle: Oracle, question: TsbsQuestion) -> None:
    """Whatever DuckDB does above them; and nothing is above them in what devops asks."""
    plan = explained(oracle.databases[8192], Question(question.text), {})
    if question.name.startswith("high-cpu"):
        assert plan.startswith("TableScan")
    else:
        newest = question.name in {"lastpoint", "last-loc", "low-fuel", "high-load"}
        assert ("LastRow " if newest else "Aggregate ") in plan
    if question in QUESTIONS[:15]:
        assert "DuckQuery" not in plan


def test_every_query_type_is_there() -> None:
    names = [question.name for question in QUESTIONS]
    assert len(set(names)) == len(names) == 15 + 12


def test_the_suite_is_what_it_was() -> None:
    """The same rows from the same seed, whole percentages within their limits, no row twice."""
    suite = Suite(hosts=3, trucks=2, hours=1, interval_s=60)
    one, two = (list(suite.tables()) for _ in range(2))
    assert [(name, table.num_rows) for name, table in one] == [(name, table.num_rows) for name, table in two]
    assert all(a.equals(b) for (_, a), (_, b) in zip(one, two, strict=True))
    cpu = dict(one)["cpu"]
    assert (
        cpu.num_rows
        == suite.hosts * suite.ticks
        == len(set(zip(*(cpu[name].to_pylist() for name in ("time", "hostname")), strict=True)))
    )
    values = [value for name in FIELDS for value in cpu[name].to_pylist()]
    assert all(0 <= value <= 100 and value == int(value) for value in values)
    assert len(set(values)) > 30
