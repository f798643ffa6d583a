"""Logical plans: nodes, predicates, and the rules that turn one plan into a better one."""
