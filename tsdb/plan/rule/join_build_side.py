"""A join keeps the side in memory that takes fewer bytes there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsdb.plan.node import HashJoin, Plan
from tsdb.plan.size import bytes_about
from tsdb.plan.transform import transform
from tsdb.settings import Settings

if TYPE_CHECKING:
    from tsdb.storage.snapshot import Snapshot


def join_build_side(plan: Plan, settings: Settings, snapshot: Snapshot) -> Plan:
    """Hold the smaller side of every join; of equal ones the right."""
    del settings

    def visit(node: Plan) -> Plan:
        if not isinstance(node, HashJoin):
            return node
        smaller = bytes_about(node.left, snapshot) < bytes_about(node.right, snapshot)
        return replace(node, build="left" if smaller else "right")

    return transform(plan, visit)
