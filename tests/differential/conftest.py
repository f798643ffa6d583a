"""Databases that several differential tests ask: made once, never changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fleet_case import fleet_oracle
from support.oracle import Oracle
from support.random_table import random_tables


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """The fleet's tables ``t``, ``u`` and ``d``."""
    made = fleet_oracle(tmp_path_factory.mktemp("case"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Tables of every type: ``t``, ``s``, which appends, and ``d``."""
    made = Oracle.build(tmp_path_factory.mktemp("mixed"), random_tables(5), pages=(4,))
    yield made
    made.close()
