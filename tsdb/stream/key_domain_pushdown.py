"""Key-domain pushdown: the left history of an INNER LATEST JOIN is read through the keys that the join table holds.

After the right side is loaded up to the bound, a left row of the history whose key is not in the join table gives nothing; so the
devices, pages, rows and shards without any of the keys need not be read. All ways of leaving out are decided on together, by one
check: where anything is in doubt nothing is left out, and ``reason`` says why. What comes after the bound is never filtered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tsdb.exec.domains import NOTHING_KNOWN, Domains
from tsdb.exec.stats import ScanStats
from tsdb.plan.node import DuckQuery, HashJoin, Plan, TableScan
from tsdb.plan.schema import output_schema
from tsdb.stream.row_steps import last_arrived_below, steps_of
from tsdb_format.types import Kind
from tsdb_format.vector import IntArray, Vector

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.settings import Settings
    from tsdb.storage.snapshot import Snapshot
    from tsdb.stream.join_table import JoinTable
    from tsdb.stream.version_table import VersionTable

#: Kinds of keys whose equality is that of their stored bytes.
_EXACT = frozenset(
    {Kind.BOOLEAN, Kind.INT32, Kind.INT64, Kind.STRING, Kind.DATE}
    | {Kind.TIMESTAMP_S, Kind.TIMESTAMP_MS, Kind.TIMESTAMP_US, Kind.TIMESTAMP_NS}
)

#: Those whose order is that of the stored integers.
ORDERED = _EXACT - {Kind.STRING, Kind.BOOLEAN}


class _Declined(Exception):
    """Why the plain plan runs."""


@dataclass(frozen=True, slots=True)
class Eligible:
    """A join whose left history may be read through its keys: ``columns`` of the left table, one for each key of the right side."""

    scan: TableScan
    columns: tuple[str, ...]


def eligible(join: HashJoin, right: Plan, snapshot: Snapshot, settings: Settings, *, has_moment: bool) -> Eligible | str:
    """Whether a LATEST JOIN has the shape, or why not; ``right`` are the rows of which the last arrived are joined.

    ``has_moment`` says that the query computes with the time at which it runs.
    """
    try:
        return _eligible(join, right, snapshot, settings, has_moment)
    except _Declined as declined:
        return str(declined)


def _eligible(join: HashJoin, right: Plan, snapshot: Snapshot, settings: Settings, has_moment: bool) -> Eligible:
    if not settings.enable_streaming_join_key_domain_pushdown:
        raise _Declined("enable_streaming_join_key_domain_pushdown is off")
    if join.kind != "inner":
        raise _Declined("a LEFT join keeps left rows without a partner")
    if has_moment:
        raise _Declined("the query computes with the time at which it runs")
    if not isinstance(steps_of(right).bottom, TableScan):
        raise _Declined("the right side is more than columns of a table's rows, with conditions")
    found = [_scanned(join.left, left, settings) for left, _ in join.keys]
    scan = found[0][0]
    if any(other is not scan for other, _ in found):
        raise _Declined("the keys are columns of several left tables")
    table = snapshot.tables[scan.table].table
    types = dict(output_schema(right, snapshot))
    for (_, column), (_, key) in zip(found, join.keys, strict=True):
        _check_type(table, column, types[key].kind)
    columns = tuple(column for _, column in found)
    return Eligible(scan, columns)


def _scanned(plan: Plan, name: str, settings: Settings) -> tuple[TableScan, str]:
    """The left scan and its column that a key is; anything but renames, and conditions where these are let through, is in doubt."""
    steps = steps_of(plan)
    column, bottom = steps.origin(name), steps.bottom
    if steps.conditions and not settings.enable_streaming_join_key_domain_through_filters:
        raise _Declined("enable_streaming_join_key_domain_through_filters is off, and the left side has a condition")
    if isinstance(bottom, HashJoin) and last_arrived_below(bottom.right) is not None:
        side, below = next((side, below) for shown, side, below in bottom.outputs if shown == column)
        if side == "left":
            return _scanned(bottom.left, below, settings)
    if isinstance(bottom, DuckQuery) and (stored := dict(bottom.unchanged).get(column)) is not None:
        if not settings.enable_streaming_join_key_domain_through_filters:
            raise _Declined("enable_streaming_join_key_domain_through_filters is off, and the left side computes")
        return _scanned(bottom.inputs[0][1], stored, settings)
    if not isinstance(bottom, TableScan):
        raise _Declined(f"{name} is no column of the left table as it is stored")
    if bottom.predicate is not None and not settings.enable_streaming_join_key_domain_through_filters:
        raise _Declined("enable_streaming_join_key_domain_through_filters is off, and the left side has a condition")
    return bottom, column


def _check_type(table: Table, column: str, kind: Kind) -> None:
    if column not in table.schema:
        raise _Declined(f"{column} is no stored column")
    stored = table.schema.column(column).type
    if stored.kind in (Kind.FLOAT, Kind.DOUBLE) or kind in (Kind.FLOAT, Kind.DOUBLE):
        raise _Declined(f"{column} is a float: NaN and -0.0 have no one key")
    if stored.kind is not kind or kind not in _EXACT:
        raise _Declined(f"{column} is {stored}, and the right side's key is not")


@dataclass(slots=True)
class Pushdown:
    """What is done for one join of one query: ``domains`` for its left history, or the ``reason`` why there are none.

    ``form`` is 'points', 'set' or 'bloom'. Without ``keys`` no left row of the history has a partner.
    """

    reason: str | None = None
    form: str = ""
    domains: Domains = NOTHING_KNOWN
    columns: tuple[str, ...] = ()
    keys: int = 0
    shards_read: int = 0
    shards_pruned: int = 0
    bound: str = ""

    @property
    def is_on(self) -> bool:
        """Whether left history is read through the keys."""
        return bool(self.columns)

    def counters(self, history: ScanStats) -> dict[str, int]:
        """Counters of what was done, by their public names; ``history`` are those of the left history."""
        counts = history.counts
        units = sum(counts[f"{level}_pruned_by_key_domain"] for level in ("devices", "pages"))
        return {
            "StreamingJoinKeyDomainBuilt": int(self.is_on),
            "StreamingJoinKeyDomainStorageFilterPushed": self.shards_read,
            "StreamingJoinKeyDomainPostFilterApplied": int(self.is_on and bool(self.domains.columns)),
            "StreamingJoinKeyDomainShardPruned": int(self.shards_pruned > 0),
            "StreamingJoinKeyDomainPrimaryKeyPruned": int(self.is_on and units > 0),
        }

    def text(self) -> str:
        """One line for people."""
        if not self.is_on:
            return f"declined: {self.reason}"
        total = self.shards_pruned + self.shards_read
        more = [] if self.domains.shards is None else [f"{self.shards_pruned} of {total} shards left out"]
        more += [self.bound] if self.bound else []
        return ", ".join((f"pushed: {self.keys:,} keys of {', '.join(self.columns)} as {self.form}", *more))


def pushdown(shape: Eligible | str, table: JoinTable | VersionTable, snapshot: Snapshot, settings: Settings) -> Pushdown:
    """What the loaded join table allows: the whole right side is in it, so also a digest of its keys refuses none of them."""
    if isinstance(shape, str):
        return Pushdown(shape)
    if table.has_null:
        return Pushdown("a key of the right side is NULL")
    vectors, count = table.keys(), len(table)
    size = sum(_bytes(vector) for vector in vectors)
    rows_max = settings.streaming_join_key_domain_pushdown_max_rows
    bytes_max = settings.streaming_join_key_domain_pushdown_max_bytes
    too_much = ""
    if count > rows_max:
        too_much = f"{count:,} keys are more than streaming_join_key_domain_pushdown_max_rows = {rows_max:,}"
    elif 0 < bytes_max < size:
        too_much = f"{size:,} bytes of keys are more than streaming_join_key_domain_pushdown_max_bytes = {bytes_max:,}"
    if too_much and not settings.enable_streaming_join_key_domain_bloom_filter:
        return Pushdown(too_much)
    points_max = settings.streaming_join_key_domain_pushdown_disjunctive_filter_max_rows
    form = "bloom" if too_much else "points" if count <= points_max else "set"
    made = Pushdown(None, form, columns=shape.columns, keys=count)
    if not count:
        return made
    table_definition = snapshot.tables[shape.scan.table].table
    options = table_definition.options
    made.domains = Domains.of(table_definition, shape.columns, vectors, exact_max=0 if too_much else count, points_max=points_max)
    if not settings.enable_streaming_join_key_domain_shard_pruning:
        made.domains = replace(made.domains, shards=None)
    shards = options.shards if options.shard_by else 1
    made.shards_read = shards if made.domains.shards is None else len(made.domains.shards)
    made.shards_pruned = shards - made.shards_read
    return made


def _bytes(vector: Vector) -> int:
    """Bytes of the values themselves."""
    if vector.pool is None:
        return int(vector.values.nbytes)
    lengths: IntArray = np.diff(vector.pool.offsets)
    return int(lengths[vector.values].sum())


def described(found: Eligible | str, settings: Settings) -> str:
    """What EXPLAIN says before the keys are known."""
    if isinstance(found, str):
        return f"declined: {found}"
    points = settings.streaming_join_key_domain_pushdown_disjunctive_filter_max_rows
    rows = settings.streaming_join_key_domain_pushdown_max_rows
    forms = [f"points up to {min(points, rows):,} keys", f"a set up to {rows:,}"] if points else [f"a set up to {rows:,} keys"]
    if settings.enable_streaming_join_key_domain_bloom_filter:
        forms.append("a digest of more")
    shards = ", shards left out" if settings.enable_streaming_join_key_domain_shard_pruning else ""
    return f"history of {found.scan.table} by {', '.join(found.columns)}: {', '.join(forms)}{shards}"
