"""An input of a DuckQuery as DuckDB sees it: so many rows, and a stream per scan of the columns and rows that the scan wants.

DuckDB offers each comparison of a column with a constant that its optimizer has brought down to the scan. What the predicates of
our scans say exactly is accepted, and DuckDB does not repeat it; so filters get here from wherever they stand in the text. How many
rows there are decides which side of a join is kept in memory.
"""

from __future__ import annotations

import datetime
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tsdb.exec.arrow import Converter, arrow_schema
from tsdb.exec.duck_instance import CalledBack
from tsdb.exec.executor import execute
from tsdb.plan.node import Plan, Project, TableScan, children
from tsdb.plan.predicate import And, Compare, InSet, IsNull, Literal, Not, Or, Predicate, conjunction
from tsdb.plan.rule.narrow_scan import narrowed
from tsdb.plan.size import rows_about
from tsdb_format.types import ColumnType, Kind

try:  # how DuckDB asks a source for columns and rows; elsewhere it takes a stream of everything, and the same rows come out
    from duckdb._sources import ArrowScanSource as _Source
except ImportError:
    _Source = object

if TYPE_CHECKING:
    from tsdb.exec.duck import DuckRun

#: Predicates within predicates that a filter of DuckDB's may have: they are walked, compared and hashed by recursion.
_DEPTH_MAX = 100
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_MICROSECONDS = {Kind.TIMESTAMP_S: 1_000_000, Kind.TIMESTAMP_MS: 1_000, Kind.TIMESTAMP_US: 1}


class DuckInput(_Source):  # type: ignore[misc]
    """One input: the output of a native plan.

    It does not keep its run alive: that way leads through DuckDB, where no collector of garbage sees the cycle.
    """

    schema_is_stable = True

    _plan: Plan
    _of_run: weakref.ref[DuckRun]
    _filters: bool

    def __init__(self, columns: list[tuple[str, ColumnType]]) -> None:
        self.obj = None
        self._columns = columns
        self._kinds = dict(columns)

    def serve(self, plan: Plan, run: DuckRun) -> None:
        """Stand for a plan of these columns, in a run."""
        self._plan = plan
        self._of_run = weakref.ref(run)
        #: Of plans that are more than a scan, DuckDB filters the result; with native operators off, of all.
        self._filters = isinstance(plan, TableScan) and run.context.settings.enable_native_operators

    @property
    def _run(self) -> DuckRun:
        run = self._of_run()
        assert run is not None, "whoever reads the result keeps its run"
        return run

    def __arrow_c_schema__(self) -> Any:
        return arrow_schema(self._columns, dictionaries=True).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.stream(None, ())[0]

    def rows(self) -> int:
        """About how many rows there are."""
        with self._told():
            return rows_about(self._plan, self._run.context.snapshot)

    def accepts(self, predicate: Any) -> bool:
        """Whether the scan can leave out exactly the rows for which a predicate is not true."""
        with self._told():
            found = _predicate(predicate, self._kinds) if self._filters else None
            if found is not None:
                self._run.accepted.setdefault(id(self._plan), {})[found] = None
            return found is not None

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Any]) -> tuple[Any, bool]:
        """The rows that satisfy the accepted filters, with the columns of these indexes in this order."""
        wanted = self._columns if columns is None else [self._columns[at] for at in columns]
        plan = self._narrowed(tuple(name for name, _ in wanted), [_predicate(each, self._kinds) for each in filters])
        schema = arrow_schema(wanted, dictionaries=True)
        return pa.RecordBatchReader.from_batches(schema, self._batches(plan, wanted)).__arrow_c_stream__(), True

    def _narrowed(self, names: tuple[str, ...], predicates: list[Predicate | None]) -> Plan:
        made = self._plan
        more = (*self._run.found_keys.get(id(self._plan), ()), *(each for each in predicates if each is not None))
        if more and isinstance(made, TableScan):
            made = replace(made, predicate=conjunction(made.predicate, *more))
        if names != tuple(self._kinds):
            made = narrowed(made, names) or Project(made, tuple((name, name) for name in names))
        if scan_of(made) is not scan_of(self._plan):
            self._run.stand_in(scan_of(self._plan), scan_of(made))
        return made

    def _batches(self, plan: Plan, columns: list[tuple[str, ColumnType]]) -> Iterator[Any]:
        converter = Converter(columns, dictionaries=True)
        with self._told():
            waited_for = CalledBack()
            batches = execute(plan, replace(self._run.context, feeds=True))
            while True:
                with waited_for:
                    batch = next(batches, None)
                if batch is None:
                    return
                yield converter.record_batch(batch)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A block that DuckDB calls: of an error in it, also one of a signal's handler, it tells no more than a text."""
        run = self._run
        try:
            yield
        except GeneratorExit:  # DuckDB wants no more
            raise
        except BaseException as error:
            run.failure = error
            raise


def scan_of(plan: Plan) -> Plan:
    """The leaf at the bottom of a plan of one branch."""
    below = children(plan)
    return scan_of(below[0]) if below else plan


def _predicate(node: Any, kinds: dict[str, ColumnType]) -> Predicate | None:
    """The predicate that a node of DuckDB's filter is; None where there is none, or it is too deep for whatever walks it."""
    return _translated(node, kinds, _DEPTH_MAX)


def _translated(node: Any, kinds: dict[str, ColumnType], depth: int) -> Predicate | None:
    if depth == 0:
        return None
    match type(node).__name__:
        case "Binary" if node.op in ("AND", "OR"):
            parts = [_translated(each, kinds, depth - 1) for each in _chain(node)]
            each_known = tuple(part for part in parts if part is not None)
            if len(each_known) < len(parts):
                return None
            return And(each_known) if node.op == "AND" else Or(each_known)
        case "Unary" if node.op == "NOT":
            inner = _translated(node.operand, kinds, depth - 1)
            return None if inner is None else Not(inner)
        case "Postfix":
            name = _column(node.operand, kinds)
            if name is None or node.op not in ("IS NULL", "IS NOT NULL"):
                return None
            return IsNull(name) if node.op == "IS NULL" else Not(IsNull(name))
        case "Binary" if node.op in ("=", "!=", "<", "<=", ">", ">="):
            name = _column(node.left, kinds)
            value = None if name is None else _literal(node.right, kinds[name])
            return None if name is None or value is None else Compare(name, node.op, value)
        case "In":
            name = _column(node.operand, kinds)
            if name is None:
                return None
            values = [_literal(each, kinds[name]) for each in node.values]
            known = tuple(dict.fromkeys(value for value in values if value is not None))
            return InSet(name, known) if values and None not in values else None
    return None


def _chain(node: Any) -> list[Any]:
    """The operands of a chain of ANDs or of ORs, however long."""
    parts, op = [], node.op
    while type(node).__name__ == "Binary" and node.op == op:
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _column(node: Any, kinds: dict[str, ColumnType]) -> str | None:
    parts: tuple[str, ...] = getattr(node, "parts", ())
    return parts[0] if len(parts) == 1 and parts[0] in kinds else None


def _literal(node: Any, kind: ColumnType) -> Literal | None:
    """A constant in the column's physical domain; None where it is not surely of it."""
    value = getattr(node, "value", None)
    match kind.kind:
        case Kind.BOOLEAN:
            return value if isinstance(value, bool) else None
        case Kind.INT32 | Kind.INT64:
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case Kind.FLOAT | Kind.DOUBLE:
            return value if isinstance(value, float) else None
        case Kind.STRING:
            return value if isinstance(value, str) else None
        case Kind.DATE:
            plain = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
            return (value - _EPOCH.date()).days if plain and isinstance(value, datetime.date) else None
        case Kind.TIMESTAMP_S | Kind.TIMESTAMP_MS | Kind.TIMESTAMP_US:
            if not isinstance(value, datetime.datetime) or value.tzinfo is not None:
                return None
            ticks, rest = divmod((value - _EPOCH) // _MICROSECOND, _MICROSECONDS[kind.kind])
            return ticks if rest == 0 else None
    return None
