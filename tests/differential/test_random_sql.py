"""Random SELECTs over random tables: tsdb, under every setting and page size, answers as DuckDB does over the overlaid rows.

``HYPOTHESIS_PROFILE=explore pytest tests/differential`` draws new tables and statements every time, many more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import random_group, random_sql
from support.oracle import SETTINGS, Oracle, Question, explained
from support.random_table import random_tables

EXPLORING = settings.get_current_profile_name() == "explore"
SEEDS = st.integers(0, 100_000) if EXPLORING else st.integers(0, 9)
#: Databases held open at once.
_HELD = 16


class Oracles:
    """Oracles by seed, made when first asked for; the oldest go when there are many."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: dict[int, Oracle] = {}
        self.made = 0

    def __getitem__(self, seed: int) -> Oracle:
        found = self.held.get(seed)
        if found is None:
            if len(self.held) >= _HELD:
                self.held.pop(next(iter(self.held))).close()
            self.made += 1
            found = self.held[seed] = Oracle.build(self.folder / f"{seed}-{self.made}", random_tables(seed))
        return found


@pytest.fixture(scope="module")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracles]:
    made = Oracles(tmp_path_factory.mktemp("random"))
    yield made
    for oracle in made.held.values():
        oracle.close()


@st.composite
def asked(draw: st.DrawFn, question: Callable[[int], st.SearchStrategy[Question]]) -> tuple[int, Question]:
    """A table's seed and a question about it."""
    seed = draw(SEEDS)
    return seed, draw(question(seed))


@given(asked(random_sql.simple))
def test_select_order_limit(oracles: Oracles, case: tuple[int, Question]) -> None:
    seed, question = case
    oracles[seed].check(question)


@given(asked(random_sql.parametrized))
def test_parameters(oracles: Oracles, case: tuple[int, Question]) -> None:
    seed, question = case
    oracles[seed].check(question)


@given(asked(random_sql.nested))
def test_subqueries_with_topk(oracles: Oracles, case: tuple[int, Question]) -> None:
    seed, question = case
    oracles[seed].check(question)


@given(asked(random_sql.grouped))
def test_aggregates(oracles: Oracles, case: tuple[int, Question]) -> None:
    seed, question = case
    oracles[seed].check(question)


@given(asked(random_sql.joined))
def test_joins(oracles: Oracles, case: tuple[int, Question]) -> None:
    seed, question = case
    oracles[seed].check(question)


@given(asked(random_sql.windowed))
def test_windows(oracles: Oracles, case: tuple[int, Question]) -> None:
    seed, question = case
    oracles[seed].check(question)


#: Aggregates are also asked of rows alone, without the statistics that may answer for whole pages.
_AGGREGATION = {**SETTINGS, "no statistics": {"threads": 2, "enable_statistics_aggregation": False}}


@given(asked(random_group.grouped))
def test_groups_and_buckets(oracles: Oracles, case: tuple[int, Question]) -> None:
    seed, question = case
    oracle = oracles[seed]
    if "/*ties" in question.theirs:  # which of several rows counts is ours to say: only a native Aggregate knows
        native = {label: values for label, values in _AGGREGATION.items() if values.get("enable_native_operators", True)}
        if "Aggregate " in explained(oracle.databases[4], question, {}):
            oracle.check(question, native)
    else:
        oracle.check(question, _AGGREGATION)


@given(asked(random_group.newest))
def test_newest_rows(oracles: Oracles, case: tuple[int, Question]) -> None:
    seed, question = case
    oracles[seed].check(question)
