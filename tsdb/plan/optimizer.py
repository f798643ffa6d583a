"""The optimizer: an ordered list of small rules, each a function from plan to plan.

Logical rules know the plan alone. Physical ones also see what is stored, and choose between plans that give the same rows in the
same order; a plan that they have looked at is not kept for the next run. They are loaded with the first join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from tsdb.plan.node import HashJoin, Plan, children
from tsdb.plan.rule.narrow_scan import narrow_scan
from tsdb.plan.rule.simplify_predicate import simplify_predicate
from tsdb.plan.rule.top_k import top_k
from tsdb.plan.rule.topk_runtime_filter import topk_runtime_filter
from tsdb.settings import Settings

if TYPE_CHECKING:
    from tsdb.storage.snapshot import Snapshot

Rule = Callable[[Plan, Settings], Plan]
PhysicalRule = Callable[[Plan, Settings, "Snapshot"], Plan]
LOGICAL: tuple[Rule, ...] = (simplify_predicate, top_k, narrow_scan)
#: ``topk_runtime_filter`` stays last, since it marks what every other rule has left in place.
LAST: tuple[Rule, ...] = (topk_runtime_filter,)


def optimize(plan: Plan, settings: Settings, snapshot: Snapshot | None = None) -> Plan:
    """The plan after all rules; the physical ones need a snapshot."""
    for _, rule in _rules(plan, snapshot):
        plan = rule(plan, settings)
    return plan


def trace(plan: Plan, settings: Settings, snapshot: Snapshot | None = None) -> list[tuple[str, Plan]]:
    """(rule, plan after it) of the rules that changed something, after ('bind', plan as bound)."""
    steps = [("bind", plan)]
    for name, rule in _rules(plan, snapshot):
        made = rule(plan, settings)
        if made != plan:
            steps.append((name, made))
        plan = made
    return steps


def remarks(plan: Plan, settings: Settings, snapshot: Snapshot) -> list[str]:
    """What ``join_late_materialization`` decides about each side of each join, and why."""
    for rule in LOGICAL:
        plan = rule(plan, settings)
    if not has_join(plan):
        return []
    from tsdb.plan.rule.join_build_side import join_build_side
    from tsdb.plan.rule.join_late_materialization import decisions, join_late_materialization

    plan = join_build_side(plan, settings, snapshot)
    return [f"-- {join_late_materialization.__name__}: {text}" for text in decisions(plan, settings, snapshot)]


def has_join(plan: Plan) -> bool:
    """Whether physical rules have something to choose in a plan."""
    return isinstance(plan, HashJoin) or any(map(has_join, children(plan)))


def _rules(plan: Plan, snapshot: Snapshot | None) -> Iterator[tuple[str, Rule]]:
    for rule in LOGICAL:
        yield rule.__name__, rule
    if snapshot is not None and has_join(plan):
        for physical in _physical():
            yield physical.__name__, partial(_over, physical, snapshot)
    for rule in LAST:
        yield rule.__name__, rule


def _physical() -> tuple[PhysicalRule, ...]:
    from tsdb.plan.rule.join_build_side import join_build_side
    from tsdb.plan.rule.join_late_materialization import join_late_materialization

    return join_build_side, join_late_materialization


def _over(rule: PhysicalRule, snapshot: Snapshot, plan: Plan, settings: Settings) -> Plan:
    return rule(plan, settings, snapshot)
