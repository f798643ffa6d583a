"""What a live query does to the rows that come: the plan above its live table as a function from batches to batches.

It is made once. What a join holds of a bounded side is read when it is made; what DuckDB computes is bound then and run for each
batch. Nothing here waits for a second batch, so that whoever takes the rows of one has everything that came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tsdb.exec.batch import Batch
from tsdb.exec.executor import execute
from tsdb.exec.hash_join import Join
from tsdb.exec.sort import filtered_rows
from tsdb.plan.node import DuckQuery, Filter, Frame, Given, HashJoin, Plan, Project, children
from tsdb.plan.schema import duckdb_name, output_schema
from tsdb.plan.size import rows_about
from tsdb_format.types import ColumnType

if TYPE_CHECKING:
    from tsdb.exec.context import ExecContext

#: The name of the leaf that stands for the live rows.
ARRIVING = "arriving"
#: Rows of a bounded input of DuckDB's up to which it is read once, and not for each batch.
_HELD_ROWS = 1_000_000

Step: TypeAlias = Callable[[Batch], Iterator[Batch]]


class NativeStage:
    """A plan of native nodes over ``Given(ARRIVING)``. ``schema`` has its columns in batches, ``columns`` are as they are shown."""

    #: Whether bounded tables are read again for each batch.
    reads_on = False

    def __init__(self, plan: Plan, columns: Iterable[str], context: ExecContext) -> None:
        schema = output_schema(plan, context.snapshot)
        self.columns = list(columns)
        self.schema: list[tuple[str, ColumnType]] = schema
        self.types = [duckdb_name(kind) for _, kind in schema]
        self._step = _step(plan, context)

    def run(self, batch: Batch) -> Iterator[Batch]:
        """What becomes of a batch; only batches with rows."""
        return (made for made in self._step(batch) if made.row_count)

    def close(self) -> None:
        """Nothing is held but memory."""


class DuckStage:
    """A DuckQuery over ``Given(ARRIVING)``, and bounded inputs."""

    def __init__(self, plan: DuckQuery, context: ExecContext) -> None:
        from tsdb.exec.duck import DuckRun

        self._context = context
        inputs = tuple((name, child if is_live(child) else _held(name, child, context)) for name, child in plan.inputs)
        #: As for ``NativeStage``.
        self.reads_on = not all(isinstance(child, Given) for _, child in inputs)
        self._run = DuckRun(replace(plan, inputs=inputs), lambda: context)
        self.columns, self.types = self._run.columns, self._run.types

    def run(self, batch: Batch) -> Iterator[Any]:
        """What becomes of a batch, as an Arrow table; none where that has no rows."""
        self._context.given[ARRIVING] = [batch]
        table = self._run.table()
        if table.num_rows:
            yield table

    def close(self) -> None:
        """Give DuckDB's connection back."""
        self._run.close()


Stage: TypeAlias = NativeStage | DuckStage


def stage_of(plan: Plan, columns: Iterable[str] | None, context: ExecContext) -> Stage:
    """The stage of a plan; ``columns`` are the shown names of a native one."""
    if isinstance(plan, DuckQuery):
        return DuckStage(plan, context)
    return NativeStage(plan, columns or (), context)


def is_live(plan: Plan) -> bool:
    """Whether rows that come reach this node."""
    return plan == Given(ARRIVING, plan.columns) if isinstance(plan, Given) else any(map(is_live, children(plan)))


def _step(plan: Plan, context: ExecContext) -> Step:
    """What a native node with live rows below it does to a batch."""
    match plan:
        case Given():
            return lambda batch: iter((batch,))
        case Filter(child=child, predicate=predicate):
            below = _step(child, context)
            return lambda batch: filtered_rows(below(batch), predicate)
        case Project(child=child, outputs=outputs):
            below = _step(child, context)
            return lambda batch: (
                Batch({out: each.vectors[name] for out, name in outputs}, each.row_count) for each in below(batch)
            )
        case HashJoin(left=left, right=right, build=build):
            held, streamed = (left, right) if build == "left" else (right, left)
            join = Join(plan, dict(output_schema(plan, context.snapshot)), execute(held, context))
            below = _step(streamed, context)
            return lambda batch: join.run(lambda: below(batch))
    raise AssertionError(f"no live form of {type(plan).__name__}")


def _held(name: str, plan: Plan, context: ExecContext) -> Plan:
    """A bounded input, read now where it is small."""
    if isinstance(plan, Frame) or rows_about(plan, context.snapshot) > _HELD_ROWS:
        return plan
    context.given[name] = list(execute(plan, context))
    return Given(name, tuple(output_schema(plan, context.snapshot)))
