"""Let a TopK's threshold prune the scan below it. The last rule: it marks only a TopK directly over a local scan.

Each TopK of a plan gets its own id, and each execution its own filter, so siblings and self-joins never share one.
"""

from __future__ import annotations

from dataclasses import replace

from tsdb.plan.node import Plan, TableScan, TopK
from tsdb.plan.transform import transform
from tsdb.settings import Settings


def topk_runtime_filter(plan: Plan, settings: Settings) -> Plan:
    """Mark every TopK over a TableScan, unless ``enable_topk_runtime_filter`` is off."""
    if not settings.enable_topk_runtime_filter:
        return plan
    ids = 0

    def visit(node: Plan) -> Plan:
        nonlocal ids
        if isinstance(node, TopK) and isinstance(node.child, TableScan):
            ids += 1
            return replace(node, topk_id=ids, child=replace(node.child, topk_id=ids))
        return node

    return transform(plan, visit)
