"""Domains: all that a scan has been told of the keys that its rows must have.

Whoever knows the keys makes them once: a join of the side that it holds, live or not. A scan asks them coarse to fine: shards leave
out files that are never opened, tuples of tags leave out devices, the values of each column leave out devices, pages and rows. They
never refuse a row with one of the keys; at each level they may let others pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tsdb_format.types import Role
from tsdb_format.vector import Vector

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.exec.device_domain import DeviceDomain
    from tsdb.exec.key_domain import KeyDomain
    from tsdb.exec.shard_domain import Shards
    from tsdb.exec.stats import ScanStats
    from tsdb.plan.predicate import Predicate
    from tsdb.storage.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class Domains:
    """What is known of the wanted rows: their shards (None: nothing), their devices, and the values of some columns."""

    shards: Shards | None = None
    devices: tuple[DeviceDomain, ...] = ()
    columns: tuple[KeyDomain, ...] = ()

    @classmethod
    def of(cls, table: Table, columns: Sequence[str], vectors: Sequence[Vector], *, exact_max: int, points_max: int = 0) -> Domains:
        """Those of rows whose ``columns`` have one of the tuples in ``vectors``, of which there are some, without NULLs.

        Up to ``exact_max`` tuples are told apart exactly, and up to ``points_max`` devices are looked up one by one.
        """
        from tsdb.exec.device_domain import DeviceDomain
        from tsdb.exec.key_domain import KeyDomain
        from tsdb.exec.shard_domain import shards_with

        count, by_name = len(vectors[0]), table.schema.by_name
        shards = shards_with(table, dict(zip(columns, vectors, strict=True)))
        if count <= exact_max and all(name in by_name and by_name[name].role is Role.TAG for name in columns):
            return cls(shards, devices=(DeviceDomain(columns, vectors, as_points=count <= points_max),))
        values = vectors if len(vectors) == 1 else [_distinct(vector) for vector in vectors]
        made = (KeyDomain(name, vector, exact_max) for name, vector in zip(columns, values, strict=True))
        return cls(shards, columns=tuple(made))

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return self.shards is not None or bool(self.devices or self.columns)

    def __and__(self, other: Domains) -> Domains:
        """What both know."""
        known = [each.shards for each in (self, other) if each.shards is not None]
        shards = frozenset.intersection(*known) if known else None
        return Domains(shards, (*self.devices, *other.devices), (*self.columns, *other.columns))


NOTHING_KNOWN = Domains()


def wanted_files(table: TableSnapshot, predicate: Predicate | None, domains: Domains, stats: ScanStats) -> TableSnapshot:
    """The table without the files of shards that neither the predicate nor the domains want; what is left out is counted."""
    if not table.table.options.shard_by:
        return table
    from tsdb.exec.shard_domain import in_shards, shards_wanted

    table = in_shards(table, shards_wanted(table.table, predicate), stats, "pruned_by_filter")
    return in_shards(table, domains.shards, stats, "pruned_by_key_domain")


def _distinct(vector: Vector) -> Vector:
    """The different values of one key column of several."""
    if vector.pool is not None:
        return vector
    _, first = np.unique(vector.values, return_index=True)
    return vector.take(np.sort(first))
