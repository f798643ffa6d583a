"""The fleets that the micro-benchmarks ask: made once, small where the benchmarks only run as tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tsdb_cli.fleet import CREATE_SQL, Fleet

if TYPE_CHECKING:
    from tsdb.database import Database


@pytest.fixture(scope="session", params=["few devices", "many devices", "equal last times"])
def fleet(request: pytest.FixtureRequest) -> Fleet:
    """The same number of rows in a few devices, in a hundred times as many, and in many whose last times are all equal."""
    # --benchmark-enable overrides the --benchmark-disable of pyproject.toml
    devices, ticks = (400, 10_000) if request.config.getoption("--benchmark-enable") else (10, 4_000)
    if request.param != "few devices":
        devices, ticks = devices * 100, ticks // 100
    return Fleet(devices, ticks, aligned=request.param == "equal last times")


@pytest.fixture(scope="session")
def database(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database with the fleet in table ``cpu``."""
    import tsdb

    folder: Path = tmp_path_factory.mktemp("bench") / "fleet.db"
    with tsdb.open(folder) as db:
        db.sql(CREATE_SQL.format(table="cpu")).fetchall()
        for part in fleet.tables():
            db.write("cpu", part)
        yield db
