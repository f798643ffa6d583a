"""Bringing data in: CSV and Parquet files, and Python objects through Arrow."""
