"""Which calls in a text aggregate rows."""

from __future__ import annotations

from tsdb.sql.series.block import closing
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft

#: DuckDB's aggregate functions and macros over them, in upper case; a test holds them against what it lists.
AGGREGATES = frozenset({
    "ANY_VALUE", "APPROX_COUNT_DISTINCT", "APPROX_QUANTILE", "APPROX_TOP_K", "ARBITRARY", "ARGMAX", "ARGMIN", "ARG_MAX",
    "ARG_MAX_NULL", "ARG_MAX_NULLS_LAST", "ARG_MIN", "ARG_MIN_NULL", "ARG_MIN_NULLS_LAST", "ARRAY_AGG", "AVG", "BITSTRING_AGG",
    "BIT_AND", "BIT_OR", "BIT_XOR", "BOOL_AND", "BOOL_OR", "COMBINE_AGGR", "CORR", "COUNT", "COUNTIF", "COUNT_IF",
    "COUNT_STAR", "COVAR_POP", "COVAR_SAMP", "DECIMAL_AVERAGE", "ENTROPY", "FAVG", "FIRST", "FSUM", "GEOMEAN",
    "GEOMETRIC_MEAN", "GROUP_CONCAT", "HISTOGRAM", "HISTOGRAM_EXACT", "KAHAN_SUM", "KURTOSIS", "KURTOSIS_POP", "LAST", "LIST",
    "LISTAGG", "LTTB", "MAD", "MAX", "MAX_BY", "MEAN", "MEDIAN", "MIN", "MIN_BY", "MODE", "PRODUCT", "QUANTILE",
    "QUANTILE_CONT", "QUANTILE_DISC", "REGR_AVGX", "REGR_AVGY", "REGR_COUNT", "REGR_INTERCEPT", "REGR_R2", "REGR_SLOPE",
    "REGR_SXX", "REGR_SXY", "REGR_SYY", "RESERVOIR_QUANTILE", "SEM", "SKEWNESS", "STDDEV", "STDDEV_POP", "STDDEV_SAMP",
    "STRING_AGG", "SUM", "SUMKAHAN", "SUM_NO_OVERFLOW", "VARIANCE", "VARIANT_GROUP_OBJECT", "VAR_POP", "VAR_SAMP", "WAVG",
    "WEIGHTED_AVG",
})  # fmt: skip


def aggregates(draft: Draft, start: int, end: int) -> list[Call]:
    """The calls of aggregate functions in a range of tokens, without those over a window."""
    return [call for call in calls(draft, AGGREGATES, start, end) if not is_window(draft, call.close + 1)]


def is_window(draft: Draft, after: int) -> bool:
    """Whether OVER follows at a position, or behind a FILTER there."""
    tokens = draft.tokens
    if after + 1 < len(tokens) and tokens[after].upper == "FILTER" and tokens[after + 1].is_symbol("("):
        after = closing(tokens, after + 1) + 1
    while after + 1 < len(tokens) and tokens[after].upper in ("IGNORE", "RESPECT") and tokens[after + 1].upper == "NULLS":
        after += 2
    return after < len(tokens) and tokens[after].upper == "OVER"
