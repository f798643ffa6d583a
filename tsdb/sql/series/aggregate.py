"""Which calls in a text aggregate rows."""

from __future__ import annotations

from dataclasses import replace

from tsdb.sql.nesting import closing
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft
from tsdb.sql.token import WORD

#: DuckDB's aggregate functions and macros over them, in upper case; a test holds them against what it lists.
AGGREGATES = frozenset({
    "ANY_VALUE", "APPROX_COUNT_DISTINCT", "APPROX_QUANTILE", "APPROX_TOP_K", "ARBITRARY", "ARGMAX", "ARGMIN", "ARG_MAX",
    "ARG_MAX_NULL", "ARG_MAX_NULLS_LAST", "ARG_MIN", "ARG_MIN_NULL", "ARG_MIN_NULLS_LAST", "ARRAY_AGG", "AVG", "BITSTRING_AGG",
    "BIT_AND", "BIT_OR", "BIT_XOR", "BOOL_AND", "BOOL_OR", "COMBINE_AGGR", "CORR", "COUNT", "COUNTIF", "COUNT_IF",
    "COUNT_STAR", "COVAR_POP", "COVAR_SAMP", "DECIMAL_AVERAGE", "ENTROPY", "FAVG", "FIRST", "FSUM", "GEOMEAN",
    "GEOMETRIC_MEAN", "GROUP_CONCAT", "HISTOGRAM", "HISTOGRAM_EXACT", "KAHAN_SUM", "KURTOSIS", "KURTOSIS_POP", "LAST", "LIST",
    "LISTAGG", "LTTB", "MAD", "MAX", "MAX_BY", "MEAN", "MEDIAN", "MIN", "MIN_BY", "MODE", "PERCENTILE_CONT", "PERCENTILE_DISC",
    "PRODUCT", "QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "REGR_AVGX", "REGR_AVGY", "REGR_COUNT", "REGR_INTERCEPT",
    "REGR_R2", "REGR_SLOPE", "REGR_SXX", "REGR_SXY", "REGR_SYY", "RESERVOIR_QUANTILE", "SEM", "SKEWNESS", "STDDEV",
    "STDDEV_POP", "STDDEV_SAMP", "STRING_AGG", "SUM", "SUMKAHAN", "SUM_NO_OVERFLOW", "VARIANCE", "VARIANT_GROUP_OBJECT",
    "VAR_POP", "VAR_SAMP", "WAVG", "WEIGHTED_AVG",
})  # fmt: skip
#: Those whose value is one of their argument's.
_PASSING = frozenset({"ANY_VALUE", "ARBITRARY", "FIRST", "LAST", "MAX", "MIN", "MODE"})
#: Words of an expression that name no column.
_PLAIN = frozenset({
    "CASE", "WHEN", "THEN", "ELSE", "END", "AND", "OR", "NOT", "IS", "IN", "BETWEEN", "NULL", "TRUE", "FALSE", "INTERVAL", "BIGINT",
    "INTEGER", "INT", "DOUBLE", "FLOAT", "VARCHAR", "AS",
})  # fmt: skip


def aggregates(draft: Draft, start: int, end: int) -> list[Call]:
    """The calls of aggregate functions in a range of tokens, with FILTER and WITHIN GROUP, without those over a window."""
    found = [replace(call, close=last_token(draft, call.close)) for call in calls(draft, AGGREGATES, start, end)]
    return [call for call in found if call.close + 1 == len(draft.tokens) or draft.tokens[call.close + 1].upper != "OVER"]


def passed_on(draft: Draft, start: int, end: int) -> tuple[int, int] | None:
    """The argument of which an item is one of the values, as ``max(x)`` is; None for another item."""
    call = next(calls(draft, _PASSING, start, end), None)
    return call.arguments[0] if call is not None and call.at == start and call.arguments else None


def is_over_aggregates(draft: Draft, start: int, end: int) -> bool:
    """Whether an item is computed from aggregates and constants alone, and is more than one aggregate."""
    found = aggregates(draft, start, end)
    if not found or any((call.at, call.close + 1) == (start, end) for call in found):
        return False
    rest = [at for at in range(start, end) if draft.tokens[at].is_name and not any(at in call for call in found)]
    functions = {at for at in rest if at + 1 < end and draft.tokens[at + 1].is_symbol("(") and draft.tokens[at].upper != "OVER"}
    return all(at in functions or (draft.tokens[at].kind == WORD and draft.tokens[at].upper in _PLAIN) for at in rest)


def last_token(draft: Draft, close: int) -> int:
    """The position where the clauses of an aggregate end whose closing parenthesis is at a position."""
    tokens = draft.tokens
    for word, length in (("WITHIN", 2), ("FILTER", 1)):
        opening = close + 1 + length
        if opening < len(tokens) and tokens[close + 1].upper == word and tokens[opening].is_symbol("("):
            close = min(closing(tokens, opening), len(tokens) - 1)
    return close
