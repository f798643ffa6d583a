"""A session: runs statements on a store under a set of settings, and remembers what they mean.

A statement's text is read once. A query's plan is kept with the tables it was bound to, the settings that shape plans and the
values of its parameters, and used again while these are the same; plans that hold the current time are bound for every run.
"""

from __future__ import annotations

import datetime
import decimal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tsdb.catalog.table import Table, create_table_text
from tsdb.exec.batch import Batch
from tsdb.exec.context import ExecContext, Kept
from tsdb.exec.executor import execute
from tsdb.exec.newest_version import newest_versions
from tsdb.exec.under_way import UnderWay
from tsdb.plan.node import DuckQuery, Limit, Plan, Project, Rows, TableScan, Take, TopK, children
from tsdb.plan.schema import duckdb_name, output_schema
from tsdb.result import KEPT_ROWS, NativeSource, Result, Source
from tsdb.settings import Settings, find
from tsdb.sql.reader import read_statement
from tsdb.sql.statement import (
    AlterTable,
    Checkpoint,
    CreateTable,
    CreateView,
    Delete,
    DeleteDevices,
    Describe,
    DropTable,
    DropView,
    Explain,
    Insert,
    Query,
    Script,
    SetSetting,
    ShowCreateTable,
    ShowCreateView,
    ShowDevices,
    ShowFiles,
    ShowQueries,
    ShowSettings,
    ShowTables,
    ShowViews,
    Statement,
    Update,
)
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.types import INT64, STRING, ColumnType

if TYPE_CHECKING:
    from tsdb.listing import Listing
    from tsdb.sql.environment import Parameters
    from tsdb.sql.planner import BoundQuery, Planner
    from tsdb.storage.snapshot import Snapshot, TableSnapshot
    from tsdb.storage.store import Store

_PARAMETRIC = Insert | Explain | Delete | DeleteDevices | Update | ShowDevices | Script
#: Statements and plans kept; when full, all go: dashboards repeat few statements, generated ones never repeat.
_KEPT_MAX = 1_024


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A bound query that may be run again: it stays right while ``tables`` are the snapshot's."""

    bound: BoundQuery
    schema: tuple[tuple[str, ColumnType], ...] | None
    tables: tuple[Table, ...]
    settings: tuple[tuple[str, object], ...]
    bounded: bool
    kept: Kept


class Session:
    """Statements of one database handle. Thread-safe: everything kept is immutable and replaced whole."""

    def __init__(self, store: Store, settings: Settings, under_way: UnderWay | None = None) -> None:
        self._store = store
        self._settings = settings
        self._statements: dict[str, Statement] = {}
        self._planners: dict[object, Planner] = {}
        self._plans: dict[Any, _Prepared] = {}
        self._changing = threading.Lock()
        #: What is under way, for SHOW QUERIES.
        self.under_way = UnderWay() if under_way is None else under_way
        #: Called when a view was created or dropped.
        self.views_changed: Callable[[], None] = lambda: None

    @property
    def settings(self) -> Settings:
        """The session's settings."""
        return self._settings

    def run(self, text: str, parameters: Parameters = None, settings: Mapping[str, object] | None = None) -> Result:
        """Run one statement."""
        snapshot = newest_versions(self._stored())
        chosen = self._settings if settings is None else self._settings.changed(settings)
        key: object = None
        with suppress(TypeError):  # a parameter that cannot be a key
            key = (text, chosen.planning, _parameter_key(parameters))
        prepared = None if key is None else self._plans.get(key)
        if prepared is not None:
            tables = _tables_now(prepared, snapshot)
            if tables is prepared.tables:
                return self._result(prepared, snapshot, chosen, text)
            if tables == prepared.tables:  # another process committed: equal tables, read anew
                return self._result(_remember(self._plans, key, replace(prepared, tables=tables)), snapshot, chosen, text)
        statement = self.statement(text)
        if isinstance(statement, Query):
            return self._query(statement, parameters, chosen, snapshot, key)
        if parameters and not isinstance(statement, _PARAMETRIC):
            raise InvalidInput("only queries, INSERT, UPDATE, DELETE and SHOW DEVICES take parameters")
        return self._other(statement, parameters, chosen, snapshot)

    def statement(self, text: str) -> Statement:
        """What a text asks for. Raises InvalidInput."""
        found = self._statements.get(text)
        return _remember(self._statements, text, read_statement(text)) if found is None else found

    def planner(self, query: Query) -> Planner:
        """What plans a query: it is parsed once."""
        from tsdb.sql.planner import Planner

        written = (query.text, query.source, query.source_start)  # errors name places in what was written
        found = self._planners.get(written)
        return _remember(self._planners, written, Planner(query)) if found is None else found

    def pinned(self) -> Snapshot:
        """The newest state, as of this moment, for several statements that are to see the same."""
        return newest_versions(self._stored().at(time.time_ns()))

    def _stored(self) -> Snapshot:
        return self._store.refresh() if self._store.mode == "r" else self._store.snapshot()

    def bind_over(
        self, snapshot: Snapshot, query: Query, parameters: Parameters, settings: Settings, *, empty: bool = False
    ) -> tuple[Plan, Source]:
        """The plan of a query over a state that is given, and its rows, of which none is read yet.

        ``empty``: it is known that there are none, and nothing will be read for them.
        """
        prepared = self._prepare(query, parameters, settings, snapshot)
        if empty:
            plan = _without_rows(prepared.bound.plan)
            prepared = replace(prepared, bound=replace(prepared.bound, plan=plan))
        source = _source(prepared, snapshot, settings.changed(query.settings), query.text, self.under_way)
        return prepared.bound.plan, source

    def _query(self, query: Query, parameters: Parameters, settings: Settings, snapshot: Snapshot, key: object) -> Result:
        prepared = self._prepare(query, parameters, settings, snapshot)
        if key is not None and not prepared.bound.volatile:
            _remember(self._plans, key, prepared)
        return self._result(prepared, snapshot, settings, query.text)

    def _prepare(self, query: Query, parameters: Parameters, settings: Settings, snapshot: Snapshot) -> _Prepared:
        planner = self.planner(query)
        tables = snapshot.definitions
        now_ns = time.time_ns() if snapshot.now_ns is None else snapshot.now_ns
        bound = planner.bind(parameters, tables, settings.changed(query.settings), now_ns, snapshot)
        schema = None if isinstance(bound.plan, DuckQuery) else tuple(output_schema(bound.plan, snapshot))
        used = tuple({table.name: table for table in _tables_of(bound.plan, tables)}.values())
        return _Prepared(bound, schema, used, query.settings, _is_bounded(bound.plan), Kept())

    def _result(self, prepared: _Prepared, snapshot: Snapshot, settings: Settings, text: str) -> Result:
        """Results of few rows are computed at once; others when they are asked for."""
        if prepared.settings:
            settings = settings.changed(prepared.settings)
        source = _source(prepared, snapshot, settings, text, self.under_way)
        if prepared.bounded:
            source.settle()
        return Result(source)

    def _other(self, statement: Statement, parameters: Parameters, settings: Settings, snapshot: Snapshot) -> Result:
        store = self._store
        match statement:
            case Explain():
                return self._explain(statement, parameters, settings, snapshot)
            case CreateTable(name, schema, options, if_not_exists):
                store.create_table(name, schema, options, if_not_exists=if_not_exists)
                return Result(None)
            case DropTable(name, if_exists):
                self._check_unneeded(name)
                store.drop_table(name, if_exists=if_exists)
                return Result(None)
            case AlterTable():
                return self._alter(statement)
            case Insert():
                return self._insert(statement, parameters, settings, snapshot)
            case Delete() | DeleteDevices() | Update():
                return self._modify(statement, parameters, settings)
            case ShowDevices():
                return self._show_devices(statement, parameters, settings, snapshot)
            case Checkpoint():
                store.flush()
                return Result(None)
            case SetSetting(name, value):
                self._set(name, value)
                return Result(None)
            case CreateView():
                self._create_view(statement, settings)
                return Result(None)
            case DropView(name, if_exists):
                self._drop_view(name, if_exists)
                return Result(None)
            case ShowSettings() | ShowTables() | ShowFiles() | ShowQueries() | ShowViews():
                return _listing(*self._shown(statement, settings, snapshot))
            case ShowCreateView(name):
                view = store.view(name)
                return text_result("sql", [view.statement(store.target(view))])
            case ShowCreateTable(name):
                return text_result("sql", [create_table_text(store.table(name))])
            case Describe(name):
                is_view = name in store.views() and name not in store.tables()
                table = store.target(store.view(name)) if is_view else store.table(name)
                rows = [(c.name, duckdb_name(c.type), c.role.name) for c in table.schema]
                return _listing(("column_name", "column_type", "role"), (STRING, STRING, STRING), rows)
            case Script(text):
                from tsdb.resultset.multi_result import script_result

                return script_result(self._store, self, text, parameters, settings)
            case Query():
                return self._query(statement, parameters, settings, snapshot, None)

    def _shown(
        self, statement: ShowSettings | ShowTables | ShowFiles | ShowQueries | ShowViews, settings: Settings, snapshot: Snapshot
    ) -> Listing:
        from tsdb import listing

        match statement:
            case ShowSettings(name):
                return listing.settings(settings, name, snapshot)
            case ShowTables():
                return listing.tables(snapshot)
            case ShowViews():
                return listing.views(self._store)
            case ShowFiles(table):
                return listing.files(snapshot, None if table is None else self._store.table(table).name)
            case ShowQueries():
                return listing.queries(self.under_way, snapshot.sequence)

    def _create_view(self, statement: CreateView, settings: Settings) -> None:
        from tsdb.stream.view.definition import define

        known = {name.lower() for name in self._store.views()}
        if not (statement.if_not_exists and statement.name.lower() in known):
            define(self._store, statement, settings)
            self.views_changed()

    def _drop_view(self, name: str, if_exists: bool) -> None:
        from tsdb.storage.view import drop_view

        try:
            view = self._store.view(name)
            for table in self._store.tables().values():
                if view.own and table.id == view.target:
                    self._check_unneeded(table.name, view.name)
            drop_view(self._store.writer, name)
        except NotFound:
            if not if_exists:
                raise
        self.views_changed()

    def _check_unneeded(self, table: str, dropped: str = "") -> None:
        """Refuse to drop a table that a materialized view needs, unless that is the one which is ``dropped`` with it."""
        if self._store.mode == "rw" and self._store.views():
            from tsdb.stream.view.definition import refuse_drop

            refuse_drop(self._store, table, dropped)

    def _set(self, name: str, value: object | None) -> None:
        info = find(name)
        with self._changing:
            value = getattr(Settings(), info.name) if value is None else value
            self._settings = self._settings.changed({info.name: value})
            if info.name == "durability" and self._store.mode == "rw":
                self._store.writer.durability = self._settings.durability

    def _insert(self, statement: Insert, parameters: Parameters, settings: Settings, snapshot: Snapshot) -> Result:
        from tsdb.sql.insert import insert

        count = insert(self._store, statement, parameters, settings.changed(statement.query.settings), snapshot)
        return _listing(("Count",), (INT64,), [(count,)])

    def _alter(self, statement: AlterTable) -> Result:
        from tsdb.sql.alter import changed

        try:
            name = self._store.table(statement.name).name
        except NotFound:
            if not statement.if_exists:
                raise
        else:
            self._store.alter_table(name, lambda table: changed(table, statement.change))
        return Result(None)

    def _modify(self, statement: Delete | DeleteDevices | Update, parameters: Parameters, settings: Settings) -> Result:
        from tsdb.sql import modify

        store, settings = self._store, settings.changed(statement.query.settings)
        match statement:
            case Delete():
                count = modify.delete(store, statement, parameters, settings)
            case DeleteDevices():
                count = modify.delete_devices(store, statement, parameters, settings)
            case Update():
                count = modify.update(store, statement, parameters, settings)
        return _listing(("Count",), (INT64,), [(count,)])

    def _show_devices(self, statement: ShowDevices, parameters: Parameters, settings: Settings, snapshot: Snapshot) -> Result:
        from tsdb.sql.modify import show_devices

        settings = settings.changed(statement.query.settings)
        name = self._store.table(statement.table).name
        columns, batch = show_devices(name, statement, parameters, settings, snapshot)
        return _whole(columns, batch)

    def _explain(self, statement: Explain, parameters: Parameters, settings: Settings, snapshot: Snapshot) -> Result:
        from tsdb.plan import explain, optimizer

        prepared = self._prepare(statement.query, parameters, settings, snapshot)
        plan, stats, more = prepared.bound.plan, None, {}
        tables = {table.name: table for table in prepared.tables}
        settings = settings.changed(statement.query.settings)
        source = _source(prepared, snapshot, settings, statement.query.text, self.under_way)
        pushed = source.pushed()  # also raises what the query would raise
        if statement.analyze:
            started = time.perf_counter()
            more["rows"] = sum(len(part) for part in source.rows(65_536))
            source.settle()
            if statement.timings:
                more["microseconds"] = round((time.perf_counter() - started) * 1e6)
            stats = source.context.stats
        source.close()
        if statement.form == "json":
            return text_result("plan", [explain.json_text(plan, tables, stats, more, pushed)])
        lines = explain.lines(plan, tables, stats, pushed)
        if statement.rules:
            steps = optimizer.trace(prepared.bound.naive, settings, snapshot)
            lines = [line for name, step in steps for line in (f"-- {name}", *explain.lines(step, tables))]
        if statement.query.has_word("LATEST") or statement.query.has_word("ASOF"):
            from tsdb.stream.explain import join_remarks

            lines += [f"-- {text}" for text in join_remarks(statement.query, parameters, settings, snapshot)]
        if statement.verbose:
            lines += [f"-- {text}" for text in prepared.bound.remarks]
            lines += optimizer.remarks(prepared.bound.naive, settings, snapshot)
        lines += [f"{name}={value}" for name, value in more.items()]
        return text_result("plan", lines)


def _remember(kept: dict[Any, Any], key: object, value: Any) -> Any:
    if len(kept) >= _KEPT_MAX:
        kept.clear()
    kept[key] = value
    return value


def _parameter_key(parameters: object) -> object:
    """Parameters as a key."""
    if not parameters:
        return None
    if isinstance(parameters, Mapping):
        return tuple((name, *_value_key(value)) for name, value in parameters.items())
    if isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes):
        return tuple(_value_key(value) for value in parameters)
    return object()  # equal to no key; binding refuses it


def _value_key(value: object) -> tuple[object, ...]:
    """A parameter's value so that equal keys are the same constant: 1 is not True, 0.0 not -0.0, 1.0 no decimal 1.00."""
    if value is None or isinstance(value, int | str | bytes):
        return type(value), value
    if isinstance(value, datetime.datetime):
        return type(value), repr(value), value.utcoffset()  # hours that occur twice are equal and not the same
    if isinstance(value, float | decimal.Decimal | datetime.date | np.generic):
        return type(value), repr(value)
    raise TypeError("not a key")


def _tables_now(prepared: _Prepared, snapshot: Snapshot) -> tuple[Table, ...] | None:
    """A snapshot's tables of the same names: the very tuple where none was replaced, None where one is gone."""
    found = []
    same = True
    for table in prepared.tables:
        if table.name not in snapshot.tables:
            return None
        found.append(snapshot.tables[table.name].table)
        same = same and found[-1] is table
    return prepared.tables if same else tuple(found)


def _is_bounded(plan: Plan) -> bool:
    """Whether a native plan returns few rows by its own limit."""
    match plan:
        case TopK(limit=int() as limit) | Limit(limit=int() as limit):
            return limit <= KEPT_ROWS
        case Project(child=child) | Take(child=child):
            return _is_bounded(child)
    return False


def _without_rows(plan: Plan) -> Plan:
    """A plan of the same columns that gives no row and reads nothing."""
    if isinstance(plan, DuckQuery):
        return replace(plan, sql=f"SELECT * FROM (\n{plan.sql}\n) LIMIT 0", place=None)
    return Limit(plan, 0)


def _tables_of(plan: Plan, tables: Mapping[str, Table]) -> Iterator[Table]:
    if isinstance(plan, TableScan):
        yield tables[plan.table.lower()]
    for child in children(plan):
        yield from _tables_of(child, tables)


def _source(prepared: _Prepared, snapshot: Snapshot, settings: Settings, text: str, register: UnderWay) -> Source:
    plan = prepared.bound.plan

    def make_context() -> ExecContext:
        return ExecContext(snapshot, settings, settings.threads, text=text, register=register, kept=prepared.kept)

    if isinstance(plan, DuckQuery):
        from tsdb.exec.duck import DuckRun

        return DuckRun(plan, make_context)

    def run() -> tuple[ExecContext, Iterator[Batch]]:
        context = make_context()
        return context, execute(plan, context)

    def cells(key: str) -> tuple[TableSnapshot, Iterator[Batch]] | None:
        from tsdb.plan.blob_column import compares_blobs, table_of

        table = table_of(plan, key)
        if table is None or compares_blobs(plan, snapshot):
            return None
        context = replace(make_context(), snapshot=snapshot.giving_cells())
        return context.snapshot.tables[table], execute(plan, context)

    assert prepared.schema is not None
    return NativeSource(prepared.bound.columns or (), prepared.schema, run, cells)


def _listing(names: tuple[str, ...], types: tuple[ColumnType, ...], rows: Sequence[tuple[object, ...]]) -> Result:
    """A listing as a result."""
    from tsdb.exec.literal import literal_batch

    return _whole(list(zip(names, types, strict=True)), literal_batch(Rows(names, types, tuple(rows))), "all")


def text_result(name: str, lines: Sequence[str]) -> Result:
    """A text as a result of one column."""
    from tsdb.exec.literal import literal_batch

    rows = Rows((name,), (STRING,), tuple((line,) for line in lines))
    return _whole([(name, STRING)], literal_batch(rows), "text")


def _whole(schema: list[tuple[str, ColumnType]], batch: Batch, shown: Literal["first", "all", "text"] = "first") -> Result:
    """Rows that are there already."""

    def run() -> tuple[ExecContext, Iterator[Batch]]:
        return ExecContext(None, Settings()), iter([batch] if batch.row_count else [])  # type: ignore[arg-type]

    return Result(NativeSource([name for name, _ in schema], schema, run), shown)
