"""A sort below a limit keeps only the rows that the limit will show: TopK."""

from __future__ import annotations

from tsdb.plan.node import Limit, Plan, Sort, TopK
from tsdb.plan.transform import transform
from tsdb.settings import Settings


def top_k(plan: Plan, settings: Settings) -> Plan:
    """Limit over Sort becomes TopK; LIMIT 0 needs no order."""
    del settings
    return transform(plan, _visit)


def _visit(node: Plan) -> Plan:
    match node:
        case Limit(child=Sort(child=child), limit=0, offset=offset):
            return Limit(child, 0, offset)
        case Limit(child=Sort(child=child, keys=keys), limit=int() as limit, offset=offset):
            return TopK(child, keys, limit, offset)
        case Sort(child=Limit(limit=0) as empty) | TopK(child=Limit(limit=0) as empty) | Limit(child=Limit(limit=0) as empty):
            return empty
    return node
