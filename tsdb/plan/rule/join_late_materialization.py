"""Joins run on keys and row ids, and columns that only the result shows are taken for the rows that are left.

A column is *late* where nothing between its scan and the result looks at it. Of a side that is held in memory every late column is
deferred, since it would be held for the length of the join, unless all are narrow and add up to little; of a side that is streamed
those wide enough that reading them later pays. Where both sides of a join are scans, the one with a BLOB is narrowed, or with a
VECTOR where neither has a BLOB; both where both have one; and neither where none has. The deferred columns come from a ``Take``
above the joins and above what filters, sorts and limits their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tsdb.plan.node import Comparison, DuckQuery, Filter, HashJoin, Limit, Plan, Project, Side, Sort, TableScan, Take, TopK
from tsdb.plan.predicate import columns_of
from tsdb.plan.size import rows_about
from tsdb.settings import Settings
from tsdb.storage.width import value_bytes
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.types import Kind

if TYPE_CHECKING:
    from tsdb.storage.snapshot import Snapshot

#: The row id of the narrowed side; of a second one with a number behind it.
KEY = "__join_late_materialization_key"
#: Bytes of a value from which a streamed side defers it (see docs/joins.md for how this was measured).
WIDE_BYTES = 64.0
#: Bytes that narrow late columns of a side in memory may take: only what adds up to more is worth a second look at the table.
HELD_BYTES = 16 * 2**20


def join_late_materialization(plan: Plan, settings: Settings, snapshot: Snapshot) -> Plan:
    """Defer late columns of the scans under joins."""
    return _Rule(settings, snapshot).rewritten(plan)


def decisions(plan: Plan, settings: Settings, snapshot: Snapshot) -> list[str]:
    """What the rule decides about each side of each join of a plan, and why."""
    rule = _Rule(settings, snapshot)
    rule.rewritten(plan)
    return rule.decisions


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A scan under joins: the sides that lead to it from the topmost join, its late columns with their names above all joins."""

    path: tuple[Side, ...]
    scan: TableScan
    late: dict[str, str]
    held: bool


class _Rule:
    def __init__(self, settings: Settings, snapshot: Snapshot) -> None:
        self.enabled = settings.enable_join_late_materialization
        self.snapshot = snapshot
        self.decisions: list[str] = []

    def rewritten(self, plan: Plan) -> Plan:
        """The plan with the topmost joins of it rewritten."""
        match plan:
            case HashJoin() | Limit() | TopK() | Sort() | Filter() | DuckQuery() if _join_below(plan) is not None:
                return self._deferred(plan)
            case Project(child=child):
                return replace(plan, child=self.rewritten(child))
            case DuckQuery(inputs=inputs):
                return replace(plan, inputs=tuple((name, self.rewritten(child)) for name, child in inputs))
        return plan

    def _deferred(self, top: Plan) -> Plan:
        join = _join_below(top)
        assert join is not None
        if not self.enabled:
            self.decisions.append("declined: enable_join_late_materialization is off")
            return top
        leaves = list(self._leaves(join, (), {name: name for name, _, _ in join.outputs}, _needed(top), held=False))
        takes: list[Take] = []
        for leaf in leaves:
            key = KEY if not takes else f"{KEY}_{len(takes) + 1}"
            top = _narrowed(top, leaf, key)
            columns = tuple((name, column) for column, name in leaf.late.items())
            takes.append(Take(top, leaf.scan.table, columns, key))  # its child is replaced below
        for take in takes:
            top = replace(take, child=top)
        return top

    def _leaves(
        self, join: HashJoin, path: tuple[Side, ...], names: dict[str, str], needed: frozenset[str], *, held: bool
    ) -> Iterator[_Leaf]:
        """The scans to be narrowed. ``names`` are those above all joins by this join's own, ``needed`` those looked at there."""
        found: dict[Side, _Leaf] = {}
        for side, child in _sides(join):
            here = held or join.build == side
            below = {column: names[name] for name, of, column in join.outputs if of == side and name in names}
            looked_at = _looked_at(join, side)
            below = {column: name for column, name in below.items() if column not in looked_at}
            late = {column: name for column, name in below.items() if name not in needed}
            if isinstance(child, HashJoin):
                yield from self._leaves(child, (*path, side), below, needed, held=here)
            elif isinstance(child, TableScan):
                late = {column: name for column, name in late.items() if column not in child.sizes}  # a size is small
                found[side] = _Leaf((*path, side), child, late, here)
            else:
                self.decisions.append(f"{side} side: declined: it is no scan of a table but a {type(child).__name__}")
        for side, leaf in self._chosen(join, found).items():
            late = {column: name for column, name in leaf.late.items() if leaf.held or self._is_wide(leaf.scan, column)}
            if late:
                reason = self._declined(replace(leaf, late=late))
            else:
                reason = "no column is late" if leaf.held else "no late column is wide"
            if reason:
                self._say(leaf.scan, side, join, f"declined: {reason}")
                continue
            self._say(leaf.scan, side, join, f"deferred: {', '.join(late)} ({'held in memory' if leaf.held else 'streamed'})")
            yield replace(leaf, late=late)

    def _chosen(self, join: HashJoin, found: dict[Side, _Leaf]) -> dict[Side, _Leaf]:
        """Of two scans the one whose values are large by their type, both where both have such; a single one as it is."""
        if len(found) < 2:
            return found
        for kind in (Kind.BLOB, Kind.VECTOR):
            chosen = {side: leaf for side, leaf in found.items() if self._has(leaf, kind)}
            if chosen:
                for side in found.keys() - chosen.keys():
                    self._say(found[side].scan, side, join, f"declined: the other side has a {kind.name}")
                return chosen
        for side, leaf in found.items():
            self._say(leaf.scan, side, join, "declined: both sides qualify, and neither has a BLOB or VECTOR that is late")
        return {}

    def _declined(self, leaf: _Leaf) -> str:
        """Why the late columns of a leaf are read at once all the same; empty where they are deferred."""
        if not leaf.held or self._has(leaf, Kind.BLOB) or self._has(leaf, Kind.VECTOR):
            return ""
        table = self.snapshot.tables[leaf.scan.table]
        held_bytes = rows_about(leaf.scan, self.snapshot) * sum(value_bytes(table, column) for column in leaf.late)
        return "" if held_bytes > HELD_BYTES else "its late columns take little memory"

    def _has(self, leaf: _Leaf, kind: Kind) -> bool:
        schema = self.snapshot.tables[leaf.scan.table].table.schema
        return any(column != SEQUENCE_NAME and schema.column(column).type.kind is kind for column in leaf.late)

    def _is_wide(self, scan: TableScan, column: str) -> bool:
        table = self.snapshot.tables[scan.table]
        is_blob = column != SEQUENCE_NAME and table.table.schema.column(column).type.kind is Kind.BLOB
        return is_blob or value_bytes(table, column) >= WIDE_BYTES

    def _say(self, scan: TableScan, side: Side, join: HashJoin, text: str) -> None:
        on = ", ".join(f"{left} = {right}" for left, right in join.keys)
        self.decisions.append(f"{side} side ({scan.table}) of {on}: {text}")


def _join_below(plan: Plan) -> HashJoin | None:
    """The join whose rows a plan filters, sorts and limits, and nothing else."""
    while not isinstance(plan, HashJoin):
        match plan:
            case Limit(child=child) | TopK(child=child) | Sort(child=child) | Filter(child=child):
                plan = child
            case DuckQuery(inputs=((_, child),), looks_at=frozenset()):
                plan = child
            case _:
                return None
    return plan


def _needed(plan: Plan) -> frozenset[str]:
    """Columns that filters and sorts above a join look at."""
    match plan:
        case TopK(child=child, keys=keys) | Sort(child=child, keys=keys):
            return _needed(child) | {key.column for key in keys}
        case Filter(child=child, predicate=predicate):
            return _needed(child) | columns_of(predicate)
        case DuckQuery(inputs=((_, child),), looks_at=frozenset() as looked_at):
            return _needed(child) | looked_at
        case Limit(child=child):
            return _needed(child)
    return frozenset()


def _sides(join: HashJoin) -> Sequence[tuple[Side, Plan]]:
    return ("left", join.left), ("right", join.right)


def _looked_at(join: HashJoin, side: Side) -> set[str]:
    """Columns of a side that decide which rows are joined."""
    found = {left if side == "left" else right for left, right in join.keys}
    for part in join.condition:
        if isinstance(part, Comparison):
            found.add(part.left if side == "left" else part.right)
        elif side == "left":
            found |= columns_of(part)
    return found


def _narrowed(plan: Plan, leaf: _Leaf, key: str) -> Plan:
    """The plan with a leaf's late columns left out, and its row id led to the top instead."""
    if isinstance(plan, DuckQuery):
        ((name, child),) = plan.inputs
        return replace(plan, inputs=((name, _narrowed(child, leaf, key)),))
    if not isinstance(plan, HashJoin):
        assert isinstance(plan, Limit | TopK | Sort | Filter)
        return replace(plan, child=_narrowed(plan.child, leaf, key))
    return _narrowed_join(plan, leaf, leaf.path, set(leaf.late.values()), key)


def _narrowed_join(join: HashJoin, leaf: _Leaf, path: tuple[Side, ...], late: set[str], key: str) -> HashJoin:
    """As ``_narrowed``; ``late`` are the names that this join gives to the late columns."""
    side = path[0]
    outputs = tuple(output for output in join.outputs if output[0] not in late)
    below = {column for name, of, column in join.outputs if name in late and of == side}
    child: Plan = join.left if side == "left" else join.right
    if isinstance(child, HashJoin):
        child = _narrowed_join(child, leaf, path[1:], below, key)
    else:
        assert isinstance(child, TableScan)
        child = replace(child, columns=tuple(column for column in child.columns if column not in below), row_id=key)
    made = replace(join, outputs=(*outputs, (key, side, key)))
    return replace(made, left=child) if side == "left" else replace(made, right=child)
