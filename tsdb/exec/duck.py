"""DuckDB as an operator: it runs SQL text over inputs that are scans and plans of ours.

Each input is asked for its columns when DuckDB scans it, so a scan reads what DuckDB's optimizer left of it, and one that is
scanned twice runs twice.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from tsdb.exec.arrow import vectors_of
from tsdb.exec.batch import Batch
from tsdb.exec.duck_call import interruptible
from tsdb.exec.duck_error import details, translate
from tsdb.exec.duck_input import scan_of
from tsdb.exec.duck_loan import Loan, borrow
from tsdb.plan.node import DuckQuery, Frame, Plan, TableScan
from tsdb.plan.predicate import Predicate, conjuncts
from tsdb.plan.schema import output_schema
from tsdb.quoting import quoted_name
from tsdb_format.errors import Closed, Error, InvalidInput
from tsdb_format.types import ColumnType, parse_type

if TYPE_CHECKING:
    from tsdb.exec.context import ExecContext

_EXPLAIN = "EXPLAIN "
#: Rows of the record batches that DuckDB hands out.
BATCH_ROWS = 65_536


class DuckRun:
    """One DuckQuery, bound: its columns are known, and it can be run, any number of times, over the same snapshot."""

    def __init__(self, plan: DuckQuery, make_context: Callable[[], ExecContext]) -> None:
        self.plan = plan
        self.failure: BaseException | None = None
        self._make_context = make_context
        self.context = make_context()
        #: Filters that DuckDB's optimizer has brought down to scans, which apply them; by the identity of the scan.
        self.accepted: dict[int, dict[Predicate, None]] = {}
        #: What the keys of subqueries tell scans, by the identity of the scan.
        self.found_keys: dict[int, list[Predicate]] = {}
        self._stand_ins: list[tuple[Plan, Plan]] = []
        self._started = False
        self._parted = False
        self._streams: list[Loan] = []
        self._loan = borrow(self)
        self._return = weakref.finalize(self, self._loan.give_back)
        self._return.atexit = False
        self._loan.relation = self._guarded(lambda: self._relate(self.cursor))
        if self._relation is None:
            raise InvalidInput("the statement returns no rows")
        self.columns: list[str] = list(self._relation.columns)
        self.types: list[str] = [str(kind) for kind in self._relation.types]

    @property
    def cursor(self) -> Any:
        """The run's connection; raises Closed."""
        if not self._return.alive:
            raise Closed("the result was closed")
        return self._loan.connection

    @property
    def _relation(self) -> Any:
        _ = self.cursor
        return self._loan.relation

    def _shown(self, column: str) -> str:
        """A column's name, which may be the text of a subquery, with tables instead of inputs."""
        for name, child in reversed(self.plan.inputs):
            if name in column and name != _scanned(child):
                table = _scanned(child)
                column = column.replace(f"{name} AS {table}", table).replace(name, table)
        return column

    def _relate(self, connection: Any) -> Any:
        parameters = list(self.plan.parameters) or None
        relation = interruptible(lambda: connection.sql(self.plan.sql, params=parameters), connection)  # it asks inputs for rows
        if relation is None or all(self._shown(column) == column for column in relation.columns):
            return relation
        names = ", ".join(quoted_name(self._shown(column)) for column in relation.columns)
        return connection.sql(f"SELECT * FROM (\n{self.plan.sql}\n) AS q({names})", params=parameters)

    def pushed(self) -> dict[int, list[Predicate]]:
        """What scans (by identity) apply besides their own predicates, as DuckDB's optimizer finds it."""
        self._guarded(lambda: self._execute(self.cursor, f"{_EXPLAIN}{self.plan.sql}"))
        made: dict[int, list[Predicate]] = {}
        for _, scan in self.plan.inputs:
            own = conjuncts(scan.predicate) if isinstance(scan, TableScan) else ()
            found = dict.fromkeys(part for predicate in self.accepted.get(id(scan), ()) for part in conjuncts(predicate))
            made[id(scan)] = [part for part in found if part not in own]
        return made

    def stand_in(self, original: Plan, stand_in: Plan) -> None:
        """Remember that a narrower scan runs for one of the plan's, and keep it alive: counters go by identity."""
        self._stand_ins.append((original, stand_in))

    def settle(self) -> None:
        """Have whole counters: run to the end unless that happened, and attribute them."""
        if not self._started or self._parted:
            for _ in self.reader():
                pass
        self.attribute()

    def attribute(self) -> None:
        """Give the counters of narrowed scans, as they are, to the plan's own nodes."""
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
        if self.plan.keys:
            self.find_keys()

    def find_keys(self) -> None:
        """Run the subqueries whose keys tell scans what to leave out."""
        from tsdb.exec.duck_keys import key_predicate

        inputs = dict(self.plan.inputs)
        self.found_keys.clear()
        for keys in self.plan.keys:
            kinds = dict(output_schema(inputs[keys.target], self.context.snapshot))
            found = key_predicate(keys, kinds[keys.column], self.context) if keys.column in kinds else None
            if found is not None:
                self.found_keys.setdefault(id(inputs[keys.target]), []).append(found)

    def _guarded(self, act: Callable[[], Any], *, own_text: bool = True) -> Any:
        """Run something of DuckDB's; an error of our own scan is raised as itself, DuckDB's as one of our kinds.

        ``own_text`` says that it runs the plan's text, in which an error has a place.
        """
        self.failure = None
        try:
            return act()
        except BaseException as error:
            self._loan.spoil()
            failure: BaseException | None = self.failure
            if isinstance(error, duckdb.Error):
                if failure is not None:
                    raise failure from None
                raise (self._translated(error) if own_text else self._spoken(error, None)) from error
            if isinstance(error, RuntimeError) and str(error) == "Query interrupted":  # Ctrl-C, as DuckDB raises it
                raise KeyboardInterrupt from error
            raise

    def _translated(self, error: Exception) -> Error:
        """DuckDB's error as one of ours, speaking of tables rather than of inputs."""
        if not details(error):
            try:  # what only binds does not tell the place
                self._execute(self.cursor, f"{_EXPLAIN}{self.plan.sql}")
            except duckdb.Error as told:
                if details(told):
                    return self._spoken(told, len(_EXPLAIN))
        return self._spoken(error, 0)

    def _spoken(self, error: Exception, before: int | None) -> Error:
        """An error; the plan's text stands behind ``before`` characters of the one that DuckDB read, or (None) nowhere in it."""
        tables = {name: _scanned(child) for name, child in self.plan.inputs}
        found = [self.context.snapshot.definitions.get(name.lower()) for name in tables.values()]
        columns = dict.fromkeys(column.name for table in found if table is not None for column in table.schema)

        def place(position: int) -> str:
            assert self.plan.place is not None
            assert before is not None
            return self.plan.place(len(self.plan.sql.encode()[: position - before].decode(errors="ignore")))

        text = b"" if before is None else b" " * before + self.plan.sql.encode()
        return translate(error, tables, columns, None if self.plan.place is None or before is None else place, text)

    def _run(self, act: Callable[[], Any]) -> Any:
        """One run to the end."""
        self._start()
        with self.context.under_way():
            return self._guarded(lambda: interruptible(act, self.cursor))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as Python values."""
        return list(self._run(self._relation.fetchall))

    def df(self) -> Any:
        """All rows as a pandas frame."""
        return self._run(self._relation.df)

    def fetchnumpy(self) -> Any:
        """All rows as numpy columns."""
        return self._run(self._relation.fetchnumpy)

    def table(self) -> Any:
        """All rows as an Arrow table."""
        return self._run(self._relation.to_arrow_table)

    def reader(self) -> Any:
        """The rows as a stream of record batches."""
        self._start()
        self._parted = True
        loan = borrow(self)
        self._streams.append(loan)
        relation = self._guarded(lambda: self._relate(loan.connection))
        made = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        running = self._guarded(lambda: interruptible(lambda: made(BATCH_ROWS), loan.connection))
        return pa.RecordBatchReader.from_batches(running.schema, self._guarded_batches(running, loan))

    def _guarded_batches(self, running: Any, loan: Loan) -> Iterator[Any]:
        """The batches of a reader; Arrow turns every error into a text of its own, here they become themselves again.

        What is raised where one is waited for is of a signal's handler, and no error of a reading.
        """

        def next_batch() -> Any:
            try:
                return running.read_next_batch()
            except StopIteration:
                return None
            except (pa.ArrowException, duckdb.Error, OSError) as error:
                if self.failure is not None:
                    raise self.failure from None
                raise self._translated(error) from error

        with self.context.under_way():
            while (batch := interruptible(next_batch, loan.connection)) is not None:
                yield batch
        self._parted = False
        if loan in self._streams:
            self._streams.remove(loan)
        loan.connection.close()

    def rows(self, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows as Python values, ``count`` at a time, streaming."""
        self._start()
        self._parted = True
        loan = borrow(self)
        try:
            with self.context.under_way():
                self._guarded(lambda: self._execute(loan.connection, self.plan.sql))
                while part := self._guarded(lambda: interruptible(lambda: loan.connection.fetchmany(count), loan.connection)):
                    yield part
            self._parted = False
        finally:
            loan.connection.close()

    def execute(self, sql: str, parameters: Sequence[object]) -> None:
        """Run another statement on the same connection, which sees the same inputs."""
        self._loan.spoil()
        self._guarded(lambda: interruptible(lambda: self.cursor.execute(sql, list(parameters)), self.cursor), own_text=False)

    def read(self, sql: str, columns: list[tuple[str, ColumnType]]) -> list[Batch]:
        """The rows of another query on the same connection, whose columns are of our types."""
        relation = self._guarded(lambda: self.cursor.sql(sql), own_text=False)
        table = self._guarded(lambda: interruptible(relation.to_arrow_table, self.cursor), own_text=False)
        return list(vectors_of(table.to_batches(), columns))

    def _execute(self, connection: Any, sql: str) -> Any:
        return interruptible(lambda: connection.execute(sql, list(self.plan.parameters)), connection)

    def interrupt(self) -> None:
        """Have what runs in other threads stop."""
        for loan in (*([self._loan] if self._return.alive else []), *self._streams):
            loan.connection.interrupt()

    def close(self) -> None:
        """Give the connections back."""
        self._return()
        for loan in self._streams:
            loan.connection.close()


def _scanned(plan: Plan) -> str:
    """The table that an input reads."""
    scan = scan_of(plan)
    return scan.table if isinstance(scan, TableScan) else scan.name if isinstance(scan, Frame) else "input"


def run_duck_query(plan: DuckQuery, context: ExecContext) -> Iterator[Batch]:
    """The rows of a DuckQuery as batches, where its types are ours; raises InvalidInput for others."""
    run = DuckRun(plan, lambda: context)
    try:
        columns = [(name, parse_type(kind)) for name, kind in zip(run.columns, run.types, strict=True)]
        yield from vectors_of(run.reader(), columns)
    finally:
        run.attribute()  # whoever reads no more wants no more
        run.close()
