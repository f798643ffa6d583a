"""Fold constants in scan predicates: what is always true goes, and a scan that can match nothing reads nothing."""

from __future__ import annotations

from dataclasses import replace

from tsdb.plan.node import Limit, Plan, TableScan
from tsdb.plan.predicate import And, Constant, Not, Or, Predicate
from tsdb.plan.transform import transform
from tsdb.settings import Settings


def simplify_predicate(plan: Plan, settings: Settings) -> Plan:
    """Simplify every scan's predicate; one that is never true becomes LIMIT 0."""
    del settings
    return transform(plan, _visit)


def _visit(node: Plan) -> Plan:
    if not isinstance(node, TableScan) or node.predicate is None:
        return node
    predicate = simplified(_where(simplified(node.predicate)))
    if isinstance(predicate, Constant):
        plain = replace(node, predicate=None)
        return plain if predicate.value is True else Limit(plain, 0)
    return node if predicate == node.predicate else replace(node, predicate=predicate)


def _where(predicate: Predicate) -> Predicate:
    """As a filter, which keeps what is true: NULL is as good as FALSE wherever no NOT turns it around."""
    match predicate:
        case And(parts):
            return And(tuple(_where(part) for part in parts))
        case Or(parts):
            return Or(tuple(_where(part) for part in parts))
        case Constant(None):
            return Constant(False)
    return predicate


def simplified(predicate: Predicate) -> Predicate:
    """An equal predicate with flat conjunctions and disjunctions, and constants folded. NULL is kept apart from FALSE under NOT."""
    match predicate:
        case Not(inner):
            made = simplified(inner)
            match made:
                case Constant(value):
                    return Constant(None if value is None else not value)
                case Not(twice):
                    return twice
            return Not(made)
        case And(parts):
            return _joined(parts, conjunction=True)
        case Or(parts):
            return _joined(parts, conjunction=False)
    return predicate


def _joined(parts: tuple[Predicate, ...], *, conjunction: bool) -> Predicate:
    kind = And if conjunction else Or
    flat: dict[Predicate, None] = {}
    for part in parts:
        made = simplified(part)
        for leaf in made.parts if isinstance(made, kind) else (made,):
            flat[leaf] = None
    absorbing, neutral = Constant(not conjunction), Constant(conjunction)
    if absorbing in flat:
        return absorbing
    flat.pop(neutral, None)
    if not flat:
        return neutral
    leaves = tuple(flat)
    return leaves[0] if len(leaves) == 1 else kind(leaves)
