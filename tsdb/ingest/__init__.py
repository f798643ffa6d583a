"""Bringing data in: files through DuckDB, and Python objects through Arrow."""
