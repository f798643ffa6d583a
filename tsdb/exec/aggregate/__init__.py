"""Aggregation: groups of devices and buckets of time, folded from rows or answered from statistics."""
