"""What a live query runs: a driver that brings rows, and a stage that they go through; or windows over such a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tsdb.exec.context import ExecContext
from tsdb.exec.stats import QueryStats
from tsdb.stream.planner import driver_of, plan_live

if TYPE_CHECKING:
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.sql.planner import Planner
    from tsdb.storage.snapshot import Snapshot
    from tsdb.stream.driver import Driver
    from tsdb.stream.feed import Feed
    from tsdb.stream.stage import Stage


class Pipeline(Protocol):
    """What a live query runs, in one thread at a time. ``stage`` is its last one: it has the columns that are shown."""

    @property
    def stage(self) -> Stage:
        """Its last stage."""

    @property
    def position(self) -> dict[str, Any] | None:
        """Where one goes on after what was taken last, as a ``Driver`` says it; None where that is not possible now."""

    @property
    def counters(self) -> dict[str, Any]:
        """Its own counters, by public names."""

    @property
    def seconds_left(self) -> float | None:
        """The seconds until something is due though nothing comes; None where nothing is."""

    def outputs(self) -> Iterator[list[Any]]:
        """What the last stage makes, without an end, until the feed is closed; an empty list wherever its driver pauses."""

    def close(self) -> None:
        """Let go of everything that is held."""


@dataclass(frozen=True, slots=True)
class Stateless:
    """Each row that comes makes its own output."""

    driver: Driver
    stage: Stage

    @property
    def position(self) -> dict[str, Any] | None:
        """See ``Pipeline``."""
        return self.driver.position

    @property
    def counters(self) -> dict[str, Any]:
        """See ``Pipeline``."""
        return self.driver.counters

    @property
    def seconds_left(self) -> float | None:
        """See ``Pipeline``."""
        return None

    def outputs(self) -> Iterator[list[Any]]:
        """See ``Pipeline``."""
        for batch in self.driver.batches():
            made = list(self.stage.run(batch)) if batch.row_count else []
            if made or not batch.row_count:
                yield made

    def close(self) -> None:
        """See ``Pipeline``."""
        self.stage.close()


def pipeline_of(
    planner: Planner, parameters: Parameters, settings: Settings, feed: Feed, stats: QueryStats, position: dict[str, Any] | None
) -> Pipeline:
    """What runs a planner's query from now on, or from the position of an earlier pipeline. Raises as ``plan_live`` does."""
    from tsdb.stream.window.query import windowed_query

    snapshot = feed.snapshot()
    windowed = windowed_query(planner.query, parameters, snapshot.definitions)
    if windowed is not None:
        from tsdb.stream.window.planner import windowed_pipeline

        return windowed_pipeline(windowed, settings, feed, stats, snapshot, position)
    return stateless(planner, parameters, settings, feed, stats, snapshot, position)


def stateless(
    planner: Planner,
    parameters: Parameters,
    settings: Settings,
    feed: Feed,
    stats: QueryStats,
    snapshot: Snapshot,
    position: dict[str, Any] | None,
) -> Stateless:
    """The pipeline of a query whose rows are made one by one."""
    plan = plan_live(planner, parameters, settings, snapshot)
    driver = driver_of(plan, feed, stats, settings, position)
    return Stateless(
        driver, plan.stage(ExecContext(plan.snapshot, settings, settings.threads, stats=QueryStats(), text=planner.query.text))
    )
