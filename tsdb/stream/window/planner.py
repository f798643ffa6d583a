"""Planning a live query over windows: what its data is and comes from, and the text over the rows of windows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table, TableOptions
from tsdb.exec.context import ExecContext
from tsdb.exec.stats import QueryStats
from tsdb.plan.node import Filter, Given, Plan, Project, TableScan
from tsdb.plan.predicate import Predicate, columns_of, conjunction, conjuncts
from tsdb.plan.transform import transform
from tsdb.sql.duration import parse_duration
from tsdb.sql.planner import Planner
from tsdb.storage.snapshot import LazyTables, Snapshot, TableSnapshot
from tsdb.stream.pipeline import Stateless
from tsdb.stream.planner import LivePlan, driver_of, live_scans, plan_live, with_bounded, with_empty_scans, with_pushed
from tsdb.stream.shape import refuse_two
from tsdb.stream.stage import ARRIVING, DuckStage
from tsdb.stream.window.emission import Emission
from tsdb.stream.window.held import HELD, WINDOW_END, WINDOW_START
from tsdb.stream.window.intake import Intake, column_named, held_columns, held_type
from tsdb.stream.window.lineage import timed_by
from tsdb.stream.window.paced import PacedFeed, SourceTimes
from tsdb.stream.window.pipeline import Windowed
from tsdb.stream.window.reduction import Reduction, reduced_text, with_types
from tsdb.stream.window.shape import group_columns
from tsdb.stream.window.watermark import Watermark
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import Column, Schema
from tsdb_format.types import TIMESTAMP_US, ColumnType, Role

if TYPE_CHECKING:
    from tsdb.settings import Settings
    from tsdb.sql.statement import Query
    from tsdb.stream.feed import Feed
    from tsdb.stream.stage import Stage
    from tsdb.stream.window.query import WindowedQuery

_US = 10**6


def windowed_pipeline(
    query: WindowedQuery, settings: Settings, feed: Feed, stats: QueryStats, snapshot: Snapshot, position: dict[str, Any] | None
) -> Windowed:
    """What runs a query over windows. Raises InvalidInput, NotFound."""
    if position is not None and not {"data", "watermark", "upto"} <= position.keys():
        raise InvalidInput("the resume token is of another kind of query")
    plan = plan_live(Planner(query.data), query.parameters_of(query.data), settings, snapshot)
    context = ExecContext(plan.snapshot, settings, settings.threads, stats=QueryStats(), text=query.data.text)
    below = plan.stage(context)
    columns = held_columns(query, below)
    texts = _Texts(query, settings, snapshot)
    stage, wanted = texts.stage(query.text, _held_table(columns, column_named(columns, query.time)))
    watermark = Watermark(query.windows, _us(settings.watermark_delay), _us(settings.allowed_lateness))
    if position is not None:
        watermark.set(position["watermark"])
    table = timed_by(plan, below.columns, query.time)
    times = None if table is None else SourceTimes(snapshot.definitions[table.lower()], settings)
    paced = PacedFeed(feed, times, watermark, snapshot, -1 if position is None else int(position["upto"]))
    driver = driver_of(plan, paced, stats, settings, None if position is None else position["data"])
    started = driver.position
    if started is not None and started["bound"] is None:
        paced.starts_live()
    intake = Intake(below, columns, column_named(columns, query.time), wanted)
    emission, idle = Emission.of(settings.emit), _idle_seconds(settings.watermark_idle_timeout, watermark)
    reduction = texts.reduction(columns, stage)
    return Windowed(Stateless(driver, below), paced, watermark, intake, stage, reduction, emission, idle, position)


@dataclass(frozen=True, slots=True)
class _Texts:
    """What makes stages of texts over the table of rows of windows."""

    query: WindowedQuery
    settings: Settings
    snapshot: Snapshot

    def stage(self, text: Query, held: TableSnapshot) -> tuple[Stage, Predicate | None]:
        """What runs a text, and what it says of rows that it can use."""
        bounded = with_bounded(self.snapshot)
        tables = LazyTables((*bounded.tables, HELD), lambda name: held if name == HELD else bounded.tables[name])
        whole = replace(bounded, tables=tables, definitions={**bounded.definitions, HELD: held.table})
        given = Given(ARRIVING, tuple((column.name, column.type) for column in held.table.schema))
        settings = self.settings.changed({"enable_join_late_materialization": False})
        parameters = self.query.parameters_of(text)
        for native in (settings.enable_native_operators, False):
            settings = settings.changed({"enable_native_operators": native})
            bound = Planner(text).bind(parameters, whole.definitions, settings, time.time_ns(), whole)
            others = [scan.table for scan in live_scans(bound.plan) if scan.table != HELD]
            if others:
                refuse_two(others)
            pushed = with_pushed(with_empty_scans(bound), settings, whole)
            above = transform(pushed, lambda node: _over_given(node, given))
            if not any(live_scans(above)):  # else an operator that only scans can have below it
                break
        scans = list(live_scans(pushed))
        parts = conjuncts(scans[0].predicate) if len(scans) == 1 else ()
        usable = conjunction(*(part for part in parts if not columns_of(part) & {WINDOW_START, WINDOW_END}))
        plan = LivePlan(scans[0], above, bound.columns, whole)
        stage = plan.stage(ExecContext(whole, settings, settings.threads, stats=QueryStats(), text=text.text))
        return stage, usable

    def reduction(self, columns: dict[str, ColumnType], stage: Stage) -> Reduction | None:
        """How the rows of windows are reduced; None where the text is not one for that."""
        held = _held_table(columns, column_named(columns, self.query.time))
        found = group_columns(self.query.text, {**self.snapshot.definitions, HELD: held.table})
        known = {column.name.lower(): column.name for column in held.table.schema}
        if found is None or not all(name.lower() in known for name in found) or not isinstance(stage, DuckStage):
            return None
        keys = tuple(dict.fromkeys((WINDOW_START, WINDOW_END, *(known[name.lower()] for name in found))))
        reduced = reduced_text(self.query.text, stage.columns, keys)
        if reduced is None:
            return None
        partial, _ = self.stage(reduced.partial, held)
        try:
            kinds = {name: held_type(kind) for name, kind in zip(partial.columns, partial.types, strict=True)}
        except InvalidInput:
            kinds = {}
        typed = with_types(reduced, kinds) if kinds else None
        if typed is None or not isinstance(partial, DuckStage):
            partial.close()
            return None
        made = _held_table({name: kind for name, kind in kinds.items() if name not in (WINDOW_START, WINDOW_END)}, None)
        combining, final = self.stage(typed.combining(kinds), made)[0], self.stage(typed.final, made)[0]
        if isinstance(combining, DuckStage) and isinstance(final, DuckStage) and final.types == stage.types:
            return Reduction(partial, combining, final, kinds)
        for each in (partial, combining, final):
            each.close()
        return None


def _over_given(node: Plan, given: Given) -> Plan:
    """A scan of the table of rows of windows as one of the rows that are given."""
    if not isinstance(node, TableScan) or node.table != HELD:
        return node
    rows = given if node.predicate is None else Filter(given, node.predicate)
    return Project(rows, tuple((name, name) for name in node.columns))


def _held_table(columns: dict[str, ColumnType], time_name: str | None) -> TableSnapshot:
    """The table of rows of windows, in which ``time_name`` (None: the windows' start) is the time."""
    kinds = {**columns, WINDOW_START: TIMESTAMP_US, WINDOW_END: TIMESTAMP_US}
    if len(kinds) != len(columns) + 2:
        raise InvalidInput(f"the data of windows has no columns {WINDOW_START} and {WINDOW_END} of its own")
    made = tuple(
        Column(name, kind, Role.TIME if name == (time_name or WINDOW_START) else Role.FIELD, number)
        for number, (name, kind) in enumerate(kinds.items(), 1)
    )
    table = Table(0, HELD, Schema(made), TableOptions(mode="append"))
    return TableSnapshot(table, (), DeviceTable(table.schema, 1, {}, None), 0, lambda: 0)


def _us(duration: str) -> int:
    return 0 if duration == "0s" else parse_duration(duration) // 1_000


def _idle_seconds(setting: str, watermark: Watermark) -> float | None:
    if setting == "never":
        return None
    if setting != "auto":
        return _us(setting) / _US
    windows = watermark.windows
    longest = windows.size * 31 * 86_400 * _US if windows.months else windows.size
    return (longest + watermark.delay) / _US
