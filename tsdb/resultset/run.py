"""Running a multi-query: its result sets level by level, then its queries.

Everything sees one snapshot, as of one moment. The sets of a level run at the same time; each becomes what the next levels, and the
queries, refer to: a set of its members in memory, a table on disk where these are too many, or, where there may be no tables, its
own query again. A set whose filter cannot be true any more is empty without being run, and a query of that kind is answered so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from tsdb.quoting import quoted_name
from tsdb.resultset.deduplication import DeduplicatedSource, SelectedRows
from tsdb.resultset.logic import gives_no_rows
from tsdb.resultset.member_set import Distinct, MemberSet
from tsdb.resultset.request import Declaration, Request, Step, references, resolved
from tsdb.resultset.resolution import Resolution, resolve
from tsdb.resultset.row_vectors import types_of, vectors_of
from tsdb.resultset.set_table import (
    RUN_MEMBERS_MAX,
    Spill,
    memory_members,
    memory_table,
    snapshot_of,
    table_of,
    value_names,
)
from tsdb.sql.environment import bind_parameters, parameter_names
from tsdb.storage import temporary
from tsdb.storage.snapshot import OpenFile
from tsdb_format.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.plan.node import Plan
    from tsdb.result import Source
    from tsdb.session import Session
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.sql.statement import Query
    from tsdb.storage.snapshot import TableSnapshot
    from tsdb.storage.store import Store
    from tsdb_format.types import ColumnType

#: What became of a set: its members are in memory, or in a table; it is empty without a run; or who refers to it runs it again.
Fate: TypeAlias = Literal["inlined", "table", "skipped", "repeated"]
#: The part of ``memory_limit`` that the members of one run of a spilled set may take.
_RUN_MEMORY_SHARE = 16
#: The part of it that the members of a set may take where rows are looked up in it.
_HELD_SHARE = 0.125
_NAME_PREFIX = "__tsdb_set_"


@dataclass(eq=False)
class SetRun:
    """What became of one result set. ``query`` is what was run, or would have been, with its ``plan`` and ``source``."""

    declaration: Declaration
    level: int
    relation_name: str
    query: Query
    fate: Fate
    columns: tuple[str, ...] = ()
    types: tuple[ColumnType, ...] | None = None
    members: MemberSet | None = None
    table: TableSnapshot | None = None
    ran: bool = True
    reason: str = ""
    plan: Plan | None = None
    source: Source | None = None

    @property
    def relation(self) -> str:
        """What ``IN RESULT SET`` of it becomes: a SELECT in parentheses."""
        if self.table is not None:
            return f"(SELECT {', '.join(value_names(len(self.columns)))} FROM {self.relation_name})"
        own = len({name.lower() for name in self.columns}) == len(self.columns)
        names = [quoted_name(name) for name in self.columns] if own else list(value_names(len(self.columns)))
        known = " AND ".join(f"{name} IS NOT NULL" for name in names)
        alias = "" if own else f"({', '.join(names)})"
        return f"(SELECT {', '.join(names)} FROM (\n{self.query.text}\n) AS {self.relation_name}{alias} WHERE {known})"


@dataclass(eq=False)
class QueryRun:
    """One query whose rows are asked for: without having run it is known to have none where ``empty``."""

    step: Step
    query: Query
    plan: Plan
    source: Source
    empty: bool


@dataclass(eq=False)
class Outcome:
    """Everything that became of a request."""

    request: Request
    resolution: Resolution
    sets: list[SetRun] = field(default_factory=list)
    queries: list[QueryRun] = field(default_factory=list)
    #: The tables of the plans, by name.
    tables: dict[str, Table] = field(default_factory=dict)

    def counters(self) -> dict[str, int]:
        """How many sets and statements there were, by the public names."""
        ran = [each for each in self.sets if each.ran]
        return {
            "result_sets_run": len(ran),
            "result_sets_skipped": sum(each.fate == "skipped" for each in self.sets),
            "result_sets_inlined": sum(each.fate == "inlined" for each in self.sets),
            "result_sets_table_backed": sum(each.fate == "table" for each in self.sets),
            "result_sets_repeated": sum(each.fate == "repeated" for each in self.sets),
            "statements": len(ran) + sum(not each.empty for each in self.queries),
        }

    def close(self) -> None:
        """Let go of everything that was opened, and of the disk that the sets' tables take; counters stay."""
        for source in (*(each.source for each in self.sets), *(each.source for each in self.queries)):
            if source is not None:
                source.context.stats.as_dict()  # they are completed from what is open
                source.close()
        for run in self.sets:
            for file in () if run.table is None else run.table.files:
                if isinstance(file, OpenFile):
                    file.file.close()
            run.table = run.members = None


class Run:
    """One execution of a request."""

    def __init__(
        self, store: Store, session: Session, request: Request, settings: Settings, parameters: Parameters = None,
        *, keeps_plans: bool = False,
    ) -> None:  # fmt: skip
        """``keeps_plans``: what the sets were computed from stays open, for whoever wants to show it."""
        self._session = session
        self._settings = settings.changed(request.settings)
        if not isinstance(parameters, Mapping | None):  # whatever the caller's types say
            raise InvalidInput("the parameters of a script are named: $name, and a dictionary of values")
        queries = [each for step in request.steps for each in (step.query, *(made.query for made in step.declares)) if each]
        self._parameters = bind_parameters([token for query in queries for token in query.tokens], parameters)
        self._root = Path(store.path)
        self._storage = store.storage
        self._snapshot = session.pinned()
        self._by_name: dict[str, SetRun] = {}
        self._selected: dict[str, SelectedRows] = {}
        self._keeps_plans = keeps_plans
        self._stopped = threading.Event()
        self._tables: bool | None = None
        self.outcome = Outcome(request, resolve(request))

    def run(self) -> Outcome:
        """Compute the sets and bind the queries, whose rows are read by whoever asks for them."""
        try:
            for number, level in enumerate(self.outcome.resolution.levels, 1):
                self._level(number, level)
            for step in self.outcome.request.steps:
                if step.query is not None:
                    self.outcome.queries.append(self._query(step, step.query))
            self.outcome.tables = {table.name: table for table in self._snapshot.definitions.values()}
        except BaseException:
            self.outcome.close()
            raise
        return self.outcome

    # ------------------------------------------------------------------------------------------------ levels

    def _level(self, number: int, level: Sequence[Declaration]) -> None:
        before = len(self._by_name)
        made = [self._started(each, number, f"{_NAME_PREFIX}{before + at}") for at, each in enumerate(level)]
        self._at_once([partial(self._fill, each) for each in made if each.ran])
        self._by_name |= {each.declaration.name.lower(): each for each in made}
        found = {each.relation_name: (each.table, each.members) for each in made if each.table is not None}
        self._snapshot = self._snapshot.with_sets(found)

    def _started(self, declaration: Declaration, level: int, name: str) -> SetRun:
        """A set bound, and decided as far as that can be done without running it."""
        query = self._resolved(declaration.query, declaration.place)
        run = SetRun(declaration, level, name, query, "repeated")
        self.outcome.sets.append(run)
        run.plan, run.source = self._bind(query, declaration.place)
        run.columns, run.types = tuple(run.source.columns), types_of(run.source)
        if not self._settings.enable_result_set_materialization:
            run.ran, run.reason = False, "enable_result_set_materialization is off"
        elif run.types is None:
            run.ran, run.reason = False, f"no column of a table has the type {', '.join(run.source.types)}"
        elif gives_no_rows(query, self._empty()):
            run.ran, run.fate, run.table = False, "skipped", snapshot_of(table_of(name, run.types), ())
        if not run.ran:
            self._done_with(run)
        return run

    def _done_with(self, run: SetRun) -> None:
        """Let go of a set's query, which is not read again."""
        if run.source is not None and not self._keeps_plans:
            run.source.close()
            run.source = None

    def _at_once(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run tasks at the same time, and stop all where one fails."""
        if len(tasks) <= 1 or self._settings.threads == 1:
            for task in tasks:
                task()
            return
        with ThreadPoolExecutor(min(len(tasks), self._settings.threads), thread_name_prefix="tsdb-set") as pool:
            running = [pool.submit(task) for task in tasks]
            failed = None
            try:
                wait(running, return_when=FIRST_EXCEPTION)
                failed = next((each for each in running if each.done() and each.exception() is not None), None)
                if failed is not None:
                    failed.result()
            except BaseException:
                self._stop()
                for each in running:
                    each.cancel()
                raise
            finally:
                del running, failed  # they keep exceptions, which keep this frame

    def _stop(self) -> None:
        """Have the tasks under way end."""
        from tsdb.exec.duck import DuckRun

        self._stopped.set()
        for source in [each.source for each in self.outcome.sets]:
            if isinstance(source, DuckRun):
                source.interrupt()

    def _fill(self, run: SetRun) -> None:
        """Run the query of a set for its members."""
        try:
            self._collect(run)
        except (InvalidInput, NotFound) as error:
            raise type(error)(f"{_before(run.declaration.place)}{error}") from error
        finally:
            self._done_with(run)

    def _collect(self, run: SetRun) -> None:
        assert run.types is not None
        assert run.source is not None
        table, name = table_of(run.relation_name, run.types), run.declaration.name
        distinct = Distinct(run.types)
        most = self._settings.result_set_materialization_max_size
        with ExitStack() as opened:
            spill: Spill | None = None
            for columns in opened.enter_context(closing(vectors_of(run.source, run.types))):
                if self._stopped.is_set():
                    return
                distinct.add(columns)
                if spill is None and len(distinct) > most:
                    if not self._may_have_tables():
                        run.reason = f"more than {most:,} members, and there can be no temporary table"
                        return
                    spill = opened.enter_context(Spill(table, self._root, self._storage))
                if spill is not None and self._is_full(distinct):
                    spill.add(distinct, self._settings.threads)
                    distinct = Distinct(run.types)
            if spill is None:
                run.fate, run.table = "inlined", memory_table(table, distinct)
                run.members = memory_members(name, distinct) if len(distinct) else None
                return
            if len(distinct):
                spill.add(distinct, self._settings.threads)
            run.fate, run.table, run.members = "table", spill.snapshot(), spill.members(name)
            run.members.is_large = run.members.bytes > self._settings.memory_limit * _HELD_SHARE

    def _is_full(self, distinct: Distinct) -> bool:
        return len(distinct) >= RUN_MEMBERS_MAX or distinct.bytes > self._settings.memory_limit // _RUN_MEMORY_SHARE

    def _may_have_tables(self) -> bool:
        """Whether sets of many members may become tables on disk."""
        if self._tables is None:
            self._tables = self._settings.enable_result_set_tables and temporary.is_possible(self._root)
        return self._tables

    # ------------------------------------------------------------------------------------------------ queries

    def _query(self, step: Step, written: Query) -> QueryRun:
        query = self._resolved(written, step.place)
        empty = self._settings.enable_result_set_materialization and gives_no_rows(query, self._empty())
        plan, source = self._bind(query, step.place, empty=empty)
        if step.key_width:
            types = types_of(source)
            assert types is not None, "columns of a table"
            seen = self._selected.setdefault(step.table or "", SelectedRows(step.key_width))
            source = DeduplicatedSource(source, types, step.key_width, seen)
        return QueryRun(step, query, plan, source, empty)

    def _resolved(self, query: Query, place: str) -> Query:
        """A query with what its sets have become."""
        for reference in references(query):
            run = self._by_name[reference.name.lower()]
            if reference.width not in (None, len(run.columns)):
                count = len(run.columns)
                raise InvalidInput(
                    f"{_before(place)}result set {run.declaration.name!r} has {count} value{'s' if count > 1 else ''}, "
                    f"and {reference.width} {'are' if reference.width > 1 else 'is'} compared with it ({reference.place})"
                )
        return resolved(query, lambda name: self._by_name[name.lower()].relation)

    def _empty(self) -> set[str]:
        """The tables of the sets that have turned out to be empty."""
        return {each.relation_name for each in self._by_name.values() if each.table is not None and each.members is None}

    def _bind(self, query: Query, place: str, *, empty: bool = False) -> tuple[Plan, Source]:
        """The plan of a query and its rows; errors say which one it is, where that is not a place in its text."""
        names = {name for _, name in parameter_names(query.tokens)}
        parameters = {name: value for name, value in self._parameters.items() if name in names}
        try:
            return self._session.bind_over(self._snapshot, query, parameters, self._settings, empty=empty)
        except (InvalidInput, NotFound) as error:
            if not _before(place):
                raise
            raise type(error)(f"{_before(place)}{error}") from error


def _before(place: str) -> str:
    """The beginning of an error about a query of a document; one of a script says its line by itself."""
    return f"{place}: " if place.startswith("queries[") else ""
