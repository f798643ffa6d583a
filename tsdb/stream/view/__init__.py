"""Materialized views: the rows of a live query, written to a table as they come, exactly once."""
