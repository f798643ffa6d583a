"""Scans read the columns that are asked for, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tsdb.plan.node import Limit, Plan, Project, Sort, TableScan, TopK
from tsdb.plan.transform import transform
from tsdb.settings import Settings


def narrow_scan(plan: Plan, settings: Settings) -> Plan:
    """Push a projection's columns into the scan below it; a projection that then changes nothing goes."""
    del settings
    return transform(plan, _visit)


def _visit(node: Plan) -> Plan:
    if not isinstance(node, Project):
        return node
    wanted = tuple(dict.fromkeys(column for _, column in node.outputs))
    child = narrowed(node.child, wanted)
    if child is not None and node.outputs == tuple((name, name) for name in wanted):
        return child
    return node if child is None else replace(node, child=child)


def narrowed(node: Plan, wanted: Sequence[str]) -> Plan | None:
    """A scan with whatever sorts and limits it, reading only these columns; None for other plans."""
    match node:
        case TableScan():
            return replace(node, columns=tuple(wanted))
        case TopK(child=child) | Sort(child=child) | Limit(child=child):
            made = narrowed(child, wanted)
            return None if made is None else replace(node, child=made)
    return None
