"""The optimizer: an ordered list of small rules, each a function from plan to plan."""

from __future__ import annotations

from collections.abc import Callable

from tsdb.plan.node import Plan
from tsdb.plan.rule.narrow_scan import narrow_scan
from tsdb.plan.rule.simplify_predicate import simplify_predicate
from tsdb.plan.rule.top_k import top_k
from tsdb.plan.rule.topk_runtime_filter import topk_runtime_filter
from tsdb.settings import Settings

Rule = Callable[[Plan, Settings], Plan]
#: In this order; ``topk_runtime_filter`` stays last, since it marks what every other rule has left in place.
RULES: tuple[Rule, ...] = (simplify_predicate, top_k, narrow_scan, topk_runtime_filter)


def optimize(plan: Plan, settings: Settings) -> Plan:
    """The plan after all rules."""
    for rule in RULES:
        plan = rule(plan, settings)
    return plan


def trace(plan: Plan, settings: Settings) -> list[tuple[str, Plan]]:
    """(rule, plan after it) of the rules that changed something, after ('bind', plan as bound)."""
    steps = [("bind", plan)]
    for rule in RULES:
        made = rule(plan, settings)
        if made != plan:
            steps.append((rule.__name__, made))
        plan = made
    return steps
