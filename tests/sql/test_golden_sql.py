"""Golden SQL (``tests/golden_sql``): over files, memory and both, at two page sizes, natively and not, as DuckDB has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb
from support.golden_case import FOLDER, PLACES, SETTINGS, build, read_scripts
from support.oracle import Answer, Oracle

FILES = sorted(FOLDER.glob("*.sql"))


@pytest.fixture(scope="session", params=list(PLACES))
def oracle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    made = build(tmp_path_factory.mktemp("golden"), request.param)
    yield made
    made.close()


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_golden_sql(oracle: Oracle, path: Path) -> None:
    wrong = []
    for script in read_scripts(path):
        try:
            oracle.check(script.question, SETTINGS)
        except (AssertionError, tsdb.Error) as error:
            wrong.append(f"{script.place}\n{error}\n")
    assert not wrong, "\n".join(wrong)


def test_golden_sql_says_something(oracle: Oracle) -> None:
    """Enough queries, which DuckDB answers, and which have rows."""
    scripts = [script for path in FILES for script in read_scripts(path)]
    answers = {script.place: oracle.expected(script.question) for script in scripts}
    refused = {place: answer for place, answer in answers.items() if not isinstance(answer, Answer)}
    assert not refused
    empty = [place for place, answer in answers.items() if isinstance(answer, Answer) and not answer.rows]
    assert len(empty) <= len(answers) // 20, empty
    assert len(answers) == len(scripts) >= 550
    assert len({script.question.text for script in scripts}) == len(scripts)
    assert all(script.name for script in scripts)
