"""The words of time series that our SQL has beyond DuckDB's: one module a word, written out before anything is bound."""

from tsdb.sql.series.word import expand

__all__ = ["expand"]
