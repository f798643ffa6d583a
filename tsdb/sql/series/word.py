"""The words of time series, and whether a query has one of them: what writes them out is loaded with the first."""

from __future__ import annotations

from collections.abc import Mapping

from tsdb.catalog.table import Table
from tsdb.sql.statement import Query

#: All words that are written out, in upper case; a test holds them against those of their modules.
WORDS = frozenset({
    "ARRAY_COSINE_DISTANCE", "ARRAY_COSINE_SIMILARITY", "ARRAY_DISTANCE", "ARRAY_DOT_PRODUCT", "ARRAY_INNER_PRODUCT",
    "ARRAY_NEGATIVE_DOT_PRODUCT", "ARRAY_NEGATIVE_INNER_PRODUCT", "CUMULATE", "DATE_BIN", "DATE_BIN_GAPFILL", "DATE_TRUNC", "DELTA",
    "DERIVATIVE", "DIFF", "DOWNSAMPLE", "FIRST", "FIRST_BY", "HOP", "INCREASE", "INTERPOLATE", "LAST", "LAST_BY", "LATEST", "LOCF",
    "MAIN", "MOVING_AVG", "MOVING_COUNT", "MOVING_MAX", "MOVING_MEDIAN", "MOVING_MIN", "MOVING_STDDEV", "MOVING_SUM", "RATE",
    "SAMPLE", "SESSION", "SHOW", "TABLE", "TIME_BUCKET", "TIME_BUCKET_GAPFILL", "TUMBLE",
})  # fmt: skip


def expand(query: Query, tables: Mapping[str, Table]) -> Query:
    """The query without words of ours; itself where there are none. ``tables`` are keyed in lower case."""
    if WORDS.isdisjoint(token.text.upper() for token in query.tokens if token.is_name):
        return query
    from tsdb.sql.latest_join import without_latest
    from tsdb.sql.series.expansion import written_out

    return without_latest(written_out(query, tables))
