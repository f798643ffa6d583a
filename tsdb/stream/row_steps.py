"""What stands between a live scan and a join: columns under other names and conditions, as steps that each row goes through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsdb.exec.batch import Batch
from tsdb.exec.evaluate import evaluate, normalize
from tsdb.plan.node import Filter, LastArrived, Plan, Project
from tsdb.plan.predicate import Predicate, columns_of
from tsdb.stream.arrivals import Arrivals
from tsdb_format.vector import BoolArray

#: The names under which columns go on: (name, column below).
Renaming = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RowSteps:
    """A plan that gives rows of another one by one: ``bottom`` and the steps above it, the lowest first."""

    bottom: Plan
    steps: tuple[Renaming | Predicate, ...]

    @property
    def conditions(self) -> list[Predicate]:
        """The steps that leave rows out."""
        return [step for step in self.steps if not isinstance(step, tuple)]

    def origin(self, name: str) -> str:
        """The bottom's column that goes by ``name`` at the top."""
        for step in reversed(self.steps):
            if isinstance(step, tuple):
                name = dict(step)[name]
        return name

    def without(self, names: Iterable[str]) -> RowSteps:
        """The same rows without some columns at the top."""
        left_out = frozenset(names)
        last = max((at for at, step in enumerate(self.steps) if isinstance(step, tuple)), default=-1)
        kept = tuple(
            tuple(pair for pair in step if pair[0] not in left_out) if at == last and isinstance(step, tuple) else step
            for at, step in enumerate(self.steps)
        )
        return replace(self, steps=kept)

    def with_condition_first(self, predicate: Predicate) -> RowSteps:
        """The same with one more condition below all steps."""
        return replace(self, steps=(predicate, *self.steps))

    def needed(self, top: Sequence[str]) -> tuple[str, ...]:
        """The bottom's columns that the steps, and the columns ``top`` above them, are made of."""
        wanted = dict.fromkeys(top)
        for step in reversed(self.steps):
            if isinstance(step, tuple):
                wanted = dict.fromkeys(column for name, column in step if name in wanted)
            else:
                wanted.update(dict.fromkeys(sorted(columns_of(step))))
        return tuple(wanted)

    def marked(self, rows: Arrivals) -> tuple[Arrivals, BoolArray | None]:
        """The rows as they come out, all of them, and which satisfy the conditions; None: all."""
        batch, mask = rows.batch, None
        for step in self.steps:
            if isinstance(step, tuple):
                batch = Batch({name: batch.vectors[column] for name, column in step if column in batch.vectors}, batch.row_count)
                continue
            vectors = batch.vectors
            true = evaluate(normalize(step), lambda name, vectors=vectors: vectors[name], batch.row_count)  # type: ignore[misc]
            mask = true if mask is None else mask & true
        return replace(rows, batch=batch), mask

    def rows(self, rows: Arrivals) -> Arrivals:
        """The rows that satisfy the conditions, as they come out."""
        made, mask = self.marked(rows)
        return made if mask is None or bool(np.all(mask)) else made.select(mask)


def steps_of(plan: Plan) -> RowSteps:
    """A plan as what is below its projections and filters, and these."""
    steps: list[Renaming | Predicate] = []
    while isinstance(plan, Project | Filter):
        steps.append(plan.outputs if isinstance(plan, Project) else plan.predicate)
        plan = plan.child
    return RowSteps(plan, tuple(reversed(steps)))


def last_arrived_below(plan: Plan) -> tuple[LastArrived, tuple[Predicate, ...]] | None:
    """The right side of a LATEST JOIN, and the conditions on its rows once they are joined; None for other plans."""
    conditions: list[Predicate] = []
    while isinstance(plan, Filter):
        conditions.append(plan.predicate)
        plan = plan.child
    return (plan, tuple(conditions)) if isinstance(plan, LastArrived) else None
