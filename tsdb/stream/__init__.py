"""Live queries: rows that are there already, then those that come, without an end."""
