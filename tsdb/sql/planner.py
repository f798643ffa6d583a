"""From a query's text to its optimized plan. The parser, a tenth of a second of a fresh process, is loaded with the first query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsdb.catalog.table import Table
from tsdb.plan.node import Plan
from tsdb.plan.optimizer import has_join, optimize
from tsdb.plan.size import held_bytes
from tsdb.settings import Settings
from tsdb.sql.environment import Environment, Parameters, bind_parameters
from tsdb.sql.series import expand
from tsdb.sql.statement import Query

if TYPE_CHECKING:
    from tsdb.sql.binder import TreeBinder
    from tsdb.storage.snapshot import Snapshot

#: The part of ``memory_limit`` that joins may hold.
_HELD_MAX = 0.5


@dataclass(frozen=True)
class BoundQuery:
    """A bound query: the plan as bound, the plan to run, and what the binding rests on.

    ``columns`` are the shown names of a native plan, whose batches hold them in order; None where DuckDB names them. ``volatile``
    says that the plan holds the moment of its binding, the caller's data, or choices by how much is stored, and must not be kept.
    ``remarks`` are about what was left to DuckDB.
    """

    naive: Plan
    plan: Plan
    columns: tuple[str, ...] | None
    volatile: bool
    remarks: tuple[str, ...] = ()


class Planner:
    """Plans one query, any number of times."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._kept: tuple[str, TreeBinder] | None = None

    def bind(
        self,
        parameters: Parameters,
        tables: Mapping[str, Table],
        settings: Settings,
        now_ns: int,
        snapshot: Snapshot | None = None,
    ) -> BoundQuery:
        """Bind over the tables, keyed by lower-case name; raises InvalidInput and NotFound. ``snapshot`` is for physical rules."""
        values = bind_parameters(self.query.tokens, parameters)
        query, kept = expand(self.query, tables), self._kept
        if kept is None or kept[0] != query.text:  # what is written out may depend on the tables
            from tsdb.sql.binder import TreeBinder

            self._kept = kept = query.text, TreeBinder(query)
        environment = Environment(values, now_ns, members={} if snapshot is None else snapshot.members)
        naive, shown = kept[1].bind(tables, settings, environment)
        plan = optimize(naive, settings, snapshot)
        if snapshot is not None and held_bytes(plan, snapshot) > settings.memory_limit * _HELD_MAX:
            environment.native_joins = False
            environment.remarks.append("hash_join: declined: what it would hold is more than memory_limit allows")
            naive, shown = kept[1].bind(tables, settings, environment)
            plan = optimize(naive, settings, snapshot)
        volatile = environment.used_now or environment.used_outside or has_join(naive)
        return BoundQuery(naive, plan, shown, volatile, tuple(dict.fromkeys(environment.remarks)))
