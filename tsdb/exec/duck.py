"""DuckDB as an operator: it runs SQL text over inputs that are scans and plans of ours.

Each input is offered as a dataset whose columns are asked for when DuckDB scans it, so a scan reads what DuckDB's optimizer left of
it, and one that is scanned twice runs twice. There is one DuckDB instance in a process, in memory, without access to Python's
variables; every statement has a connection of its own. Time zone is UTC, as everywhere in tsdb.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from tsdb.exec.arrow import Converter, arrow_schema, vectors_of
from tsdb.exec.batch import Batch
from tsdb.exec.executor import execute
from tsdb.plan.node import DuckQuery, Frame, Plan, Project, TableScan, children
from tsdb.plan.rule.narrow_scan import narrowed
from tsdb.plan.schema import output_schema
from tsdb.quoting import quoted_name
from tsdb_format.errors import Error, InvalidInput, NotFound
from tsdb_format.parallel import pool
from tsdb_format.types import ColumnType, parse_type

if TYPE_CHECKING:
    from tsdb.exec.context import ExecContext
    from tsdb.settings import Settings

#: Rows of the record batches that DuckDB hands out.
BATCH_ROWS = 65_536


class _Instance:
    """The process's DuckDB. Made when first used, and anew in a forked child, whose copy has no threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Any = None
        self.applied: tuple[int, int] | None = None
        self.process = 0

    def cursor(self, settings: Settings | None) -> Any:
        with self.lock:
            if self.connection is None or self.process != os.getpid():
                folder = os.path.join(tempfile.gettempdir(), f"tsdb-duckdb-{os.getpid()}")
                config = {"python_enable_replacements": False, "temp_directory": folder}
                self.connection = duckdb.connect(":memory:", config=config)
                self.connection.execute("SET GLOBAL TimeZone = 'UTC'")
                self.applied, self.process = None, os.getpid()
            if settings is not None and self.applied != (settings.threads, settings.memory_limit):
                self.connection.execute(f"SET GLOBAL threads = {settings.threads}")
                self.connection.execute(f"SET GLOBAL memory_limit = '{max(settings.memory_limit, 2**26)}B'")
                self.applied = (settings.threads, settings.memory_limit)
            return self.connection.cursor()


_INSTANCE = _Instance()


def cursor(settings: Settings | None = None) -> Any:
    """A connection for one statement; close it when done."""
    return _INSTANCE.cursor(settings)


class _Input(pads.Dataset):  # type: ignore[misc]
    """One input as DuckDB sees it: a dataset with a schema, and a scanner per scan.

    It does not keep its run alive: that way leads through DuckDB, where no collector of garbage sees the cycle.
    """

    def __init__(self, plan: Plan, run: DuckRun) -> None:
        self._plan = plan
        self._of_run = weakref.ref(run)
        self._columns = output_schema(plan, run.context.snapshot)
        self._kinds = dict(self._columns)

    @property
    def _run(self) -> DuckRun:
        run = self._of_run()
        assert run is not None, "whoever reads the result keeps its run"
        return run

    @property
    def schema(self) -> Any:
        """The input's Arrow schema."""
        return arrow_schema(self._columns, dictionaries=True)

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> _Scanner:
        """What DuckDB calls for each scan, with the columns it wants and comparisons that it will not repeat."""
        if not self._columns:
            return _Scanner(self._run, self._plan, [], None, [])
        wanted = list(self._kinds) if columns is None else list(columns)
        text = "" if filter is None else str(filter)
        read = [name for name in self._kinds if name in wanted or name in text]
        narrowed = self._narrowed(tuple(read))
        return _Scanner(self._run, narrowed, [(name, self._kinds[name]) for name in read], filter, wanted)

    def _narrowed(self, names: tuple[str, ...]) -> Plan:
        if names == tuple(self._kinds):
            return self._plan
        made = narrowed(self._plan, names)
        if made is None:
            return Project(self._plan, tuple((name, name) for name in names))
        self._run.stand_in(_scan_of(self._plan), _scan_of(made))
        return made


def _scan_of(plan: Plan) -> Plan:
    """The scan at the bottom of a plan of one branch."""
    below = children(plan)
    return _scan_of(below[0]) if below else plan


class _Scanner:
    """One scan of an input."""

    def __init__(self, run: DuckRun, plan: Plan, columns: list[tuple[str, Any]], condition: Any, wanted: list[str]) -> None:
        self._run = run
        self._plan = plan
        self._columns = columns
        self._condition = condition
        self._wanted = wanted

    @property
    def projected_schema(self) -> Any:
        """The schema of what the reader gives."""
        kinds = dict(self._columns)
        return arrow_schema([(name, kinds[name]) for name in self._wanted], dictionaries=True)

    def to_reader(self) -> Any:
        """The rows, as a stream of record batches."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[Any]:
        converter = Converter(self._columns, dictionaries=True)
        try:
            for batch in execute(self._plan, self._run.context):
                made = converter.record_batch(batch)
                for part in [made] if self._condition is None else _filtered(made, self._condition):
                    yield part.select(self._wanted) if self._wanted else part
        except Exception as error:
            self._run.failure = error
            raise


def _filtered(batch: Any, condition: Any) -> list[Any]:
    """The rows of a record batch that satisfy an Arrow expression, in order and on this thread: DuckDB waits for it."""
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    kept = acero.Declaration("filter", acero.FilterNodeOptions(condition), [source]).to_table(use_threads=False)
    parts: list[Any] = kept.to_batches()
    return parts


class DuckRun:
    """One DuckQuery, bound: its columns are known, and it can be run, any number of times, over the same snapshot."""

    def __init__(self, plan: DuckQuery, make_context: Callable[[], ExecContext]) -> None:
        self.plan = plan
        self.failure: Exception | None = None
        self._make_context = make_context
        self.context = make_context()
        self._stand_ins: list[tuple[Plan, Plan]] = []
        self._started = False
        self._parted = False
        self._streams: list[Any] = []
        self.cursor = self._connect()
        self._relation = self._guarded(lambda: self._relate(self.cursor))
        if self._relation is None:
            raise InvalidInput("the statement returns no rows")
        self.columns: list[str] = list(self._relation.columns)
        self.types: list[str] = [str(kind) for kind in self._relation.types]

    def _shown(self, column: str) -> str:
        """A column's name, which may be the text of a subquery, with tables instead of inputs."""
        for name, child in reversed(self.plan.inputs):
            if name in column and name != _scanned(child):
                table = _scanned(child)
                column = column.replace(f"{name} AS {table}", table).replace(name, table)
        return column

    def _connect(self) -> Any:
        """A connection that sees the inputs. A run that streams has one of its own, so that several may be under way."""
        connection = cursor(self.context.settings)
        for name, child in self.plan.inputs:
            connection.register(name, child.value if isinstance(child, Frame) else _Input(child, self))
        return connection

    def _relate(self, connection: Any) -> Any:
        parameters = list(self.plan.parameters) or None
        relation = connection.sql(self.plan.sql, params=parameters)
        if relation is None or all(self._shown(column) == column for column in relation.columns):
            return relation
        names = ", ".join(quoted_name(self._shown(column)) for column in relation.columns)
        return connection.sql(f"SELECT * FROM (\n{self.plan.sql}\n) AS q({names})", params=parameters)

    def stand_in(self, original: Plan, stand_in: Plan) -> None:
        """Remember that a narrower scan runs for one of the plan's, and keep it alive: counters go by identity."""
        self._stand_ins.append((original, stand_in))

    def settle(self) -> None:
        """Have whole counters: run unless that happened, and give those of narrowed scans to the plan's own nodes."""
        if not self._started or self._parted:
            for _ in self.reader():
                pass
        for original, stand_in in self._stand_ins:
            found = self.context.stats.of(stand_in)
            if found is not None:
                self.context.stats.nodes[id(original)] = found

    def _start(self) -> None:
        """A run after the first counts anew."""
        if self._started:
            self.context = self._make_context()
            self._stand_ins.clear()
        self._started, self._parted = True, False

    def _guarded(self, act: Callable[[], Any]) -> Any:
        """Run something of DuckDB's; an error of our own scan is raised as itself, DuckDB's as one of our kinds."""
        self.failure = None
        try:
            return act()
        except duckdb.Error as error:
            failure: Exception | None = self.failure
            if failure is not None:
                raise failure from None
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Error:
        """DuckDB's error as one of ours, speaking of tables rather than of inputs."""
        return translate(error, {name: _scanned(child) for name, child in self.plan.inputs})

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as Python values."""
        self._start()
        return list(self._guarded(self._relation.fetchall))

    def df(self) -> Any:
        """All rows as a pandas frame."""
        self._start()
        return self._guarded(self._relation.df)

    def fetchnumpy(self) -> Any:
        """All rows as numpy columns."""
        self._start()
        return self._guarded(self._relation.fetchnumpy)

    def table(self) -> Any:
        """All rows as an Arrow table."""
        self._start()
        return self._guarded(self._relation.to_arrow_table)

    def reader(self) -> Any:
        """The rows as a stream of record batches."""
        self._start()
        self._parted = True
        connection = self._connect()
        self._streams.append(connection)
        relation = self._guarded(lambda: self._relate(connection))
        made = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        running = self._guarded(lambda: _interruptible(lambda: made(BATCH_ROWS), connection))
        return pa.RecordBatchReader.from_batches(running.schema, self._guarded_batches(running, connection))

    def _guarded_batches(self, running: Any, connection: Any) -> Iterator[Any]:
        """The batches of a reader; Arrow turns every error into a text of its own, here they become themselves again."""
        while True:
            try:
                batch = _interruptible(running.read_next_batch, connection)
            except StopIteration:
                break
            except (pa.ArrowException, duckdb.Error, OSError) as error:
                if self.failure is not None:
                    raise self.failure from None
                raise self._translated(error) from error
            yield batch
        self._parted = False
        if connection in self._streams:
            self._streams.remove(connection)
        connection.close()

    def rows(self, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows as Python values, ``count`` at a time, streaming."""
        self._start()
        self._parted = True
        connection = self._connect()
        try:
            self._guarded(lambda: connection.execute(self.plan.sql, list(self.plan.parameters)))
            while part := self._guarded(lambda: connection.fetchmany(count)):
                yield part
            self._parted = False
        finally:
            connection.close()

    def execute(self, sql: str, parameters: Sequence[object]) -> None:
        """Run another statement on the same connection, which sees the same inputs."""
        self._guarded(lambda: self.cursor.execute(sql, list(parameters)))

    def read(self, sql: str, columns: list[tuple[str, ColumnType]]) -> list[Batch]:
        """The rows of another query on the same connection, whose columns are of our types."""
        relation = self._guarded(lambda: self.cursor.sql(sql))
        return list(vectors_of(self._guarded(lambda: relation.to_arrow_table().to_batches()), columns))

    def close(self) -> None:
        """Give the connections back."""
        for connection in (self.cursor, *self._streams):
            connection.close()


def _interruptible(act: Callable[[], Any], connection: Any) -> Any:
    """Run ``act`` so that Ctrl-C stops it: streams look at no signals, so another thread runs it while this one can be woken."""
    if threading.current_thread() is not threading.main_thread():
        return act()
    running = pool(1).submit(act)
    try:
        return running.result()
    except KeyboardInterrupt:
        connection.interrupt()
        wait([running])
        raise


def _scanned(plan: Plan) -> str:
    """The table that an input reads."""
    scan = _scan_of(plan)
    return scan.table if isinstance(scan, TableScan) else scan.name if isinstance(scan, Frame) else "input"


def translate(error: Exception, tables: Mapping[str, str]) -> Error:
    """An error of DuckDB's as one of our kinds, with the first line of its message; ``tables`` by the names of inputs."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    for name in sorted(tables, key=len, reverse=True):
        message = message.replace(name, tables[name])
    missing = ("No files found", 'Referenced column "', 'Referenced table "', "does not have a column named")
    if isinstance(error, duckdb.CatalogException) or any(words in message for words in missing):
        more = next((line.strip() for line in lines[1:] if line.startswith(("Candidate bindings", "Did you mean"))), "")
        return NotFound(message + (f" {more}" if more else ""))
    if isinstance(error, duckdb.IOException | duckdb.InternalException | duckdb.InterruptException | duckdb.OutOfMemoryException):
        return Error(message)
    return InvalidInput(message)


def run_duck_query(plan: DuckQuery, context: ExecContext) -> Iterator[Batch]:
    """The rows of a DuckQuery as batches, where its types are ours; raises InvalidInput for others."""
    run = DuckRun(plan, lambda: context)
    try:
        columns = [(name, parse_type(kind)) for name, kind in zip(run.columns, run.types, strict=True)]
        yield from vectors_of(run.reader(), columns)
    finally:
        run.settle()
        run.close()
