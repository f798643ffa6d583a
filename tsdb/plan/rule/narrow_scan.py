"""Scans read the columns that are asked for, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tsdb.plan.node import Comparison, Filter, HashJoin, LastArrived, LastRow, Limit, Plan, Project, Sort, TableScan, TopK, children
from tsdb.plan.predicate import columns_of
from tsdb.plan.transform import transform
from tsdb.settings import Settings


def narrow_scan(plan: Plan, settings: Settings) -> Plan:
    """Push a projection's columns into the scan below it; one over another, or that then changes nothing, goes."""
    del settings
    return transform(plan, _visit)


def _visit(node: Plan) -> Plan:
    if not isinstance(node, Project):
        return node
    if isinstance(node.child, Project):
        below = dict(node.child.outputs)
        node = Project(node.child.child, tuple((name, below[column]) for name, column in node.outputs))
    wanted = tuple(dict.fromkeys(column for _, column in node.outputs))
    child = narrowed(node.child, wanted)
    if child is not None and node.outputs == tuple((name, name) for name in wanted) and _columns(child) == wanted:
        return child
    return node if child is None else replace(node, child=child)


def narrowed(node: Plan, wanted: Sequence[str]) -> Plan | None:
    """A scan with what picks, sorts and limits its rows, reading these columns, and those that rows of it are sorted by; None for
    other plans.
    """
    match node:
        case TableScan():
            return replace(node, columns=tuple(wanted))
        case LastRow(child=scan):
            return replace(node, child=replace(scan, columns=tuple(wanted)))
        case TopK(child=child, keys=keys) | Sort(child=child, keys=keys):
            more = () if isinstance(child, TableScan) else tuple(key.column for key in keys)  # a scan sorts by any column
            made = narrowed(child, tuple(dict.fromkeys((*wanted, *more))))
            return None if made is None else replace(node, child=made)
        case LastArrived(child=Project() as child, keys=keys, arrival=arrival):
            needed = {*wanted, *keys, *arrival}
            made = _visit(Project(child.child, tuple(each for each in child.outputs if each[0] in needed)))
            return replace(node, child=made)
        case Limit(child=child):
            made = narrowed(child, wanted)
            return None if made is None else replace(node, child=made)
        case Filter(child=HashJoin() as child, predicate=predicate):
            made = narrowed(child, tuple(dict.fromkeys((*wanted, *sorted(columns_of(predicate) - {*wanted})))))
            return None if made is None else replace(node, child=made)
        case HashJoin():
            return _narrowed_join(node, wanted)
    return None


def _narrowed_join(node: HashJoin, wanted: Sequence[str]) -> HashJoin:
    """The join with the outputs ``wanted``, over sides narrowed to what these, its keys and its condition need."""
    found = {name: (name, side, column) for name, side, column in node.outputs}
    outputs = tuple(found[name] for name in wanted)
    left, right = [column for column, _ in node.keys], [column for _, column in node.keys]
    for part in node.condition:
        if isinstance(part, Comparison):
            left.append(part.left)
            right.append(part.right)
        else:
            left += sorted(columns_of(part))
    left = list(dict.fromkeys([*(column for _, side, column in outputs if side == "left"), *left]))
    right = list(dict.fromkeys([*(column for _, side, column in outputs if side == "right"), *right]))
    return replace(
        node, left=narrowed(node.left, left) or node.left, right=narrowed(node.right, right) or node.right, outputs=outputs
    )  # fmt: skip


def _columns(node: Plan) -> tuple[str, ...]:
    """The columns of a plan that ``narrowed`` made."""
    if isinstance(node, HashJoin):
        return tuple(name for name, _, _ in node.outputs)
    below = children(node)
    return _columns(below[0]) if below else node.columns if isinstance(node, TableScan) else ()
