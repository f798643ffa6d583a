"""Optimizer rules: one function from plan to plan in each module. ``tsdb.plan.optimizer`` has their order."""
