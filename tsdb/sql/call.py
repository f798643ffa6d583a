"""Function calls in the text of a SELECT, and the aggregate functions among them that are native."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tsdb.plan.grouping import Call
from tsdb.plan.predicate import Predicate
from tsdb.sql.nesting import Range, at_top, closing, split, unwrapped
from tsdb.sql.token import NUMBER, STRING, Token
from tsdb_format.schema import Column
from tsdb_format.types import DOUBLE, HUGEINT, INT64, ColumnType, Kind, Role

#: Names in SQL and in a plan, of functions of one column and of two.
_UNARY = {
    "count": "count", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max", "first": "first", "last": "last",
    "stddev": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop", "variance": "var_samp",
    "var_samp": "var_samp", "var_pop": "var_pop", "any_value": "any_value",
}  # fmt: skip
_BINARY = {
    "first_by": "first", "last_by": "last", "arg_min": "arg_min", "arg_max": "arg_max", "argmin": "arg_min", "argmax": "arg_max",
    "min_by": "arg_min", "max_by": "arg_max", "arg_min_null": "first", "arg_max_null": "last",
}  # fmt: skip
_COUNT_IF = frozenset({"count_if", "countif"})
NATIVE = frozenset({*_UNARY, *_BINARY, *_COUNT_IF})
_NUMBERS = frozenset({Kind.INT32, Kind.INT64, Kind.FLOAT, Kind.DOUBLE})
_UNORDERED = frozenset({Kind.BLOB, Kind.VECTOR})
#: Functions that give the value of a row that they choose by another column.
_CHOOSING = frozenset({"first", "last", "arg_min", "arg_max"})
#: Functions that take DISTINCT here, and those of tags and attributes alone.
_DISTINCT = frozenset({"count", "min", "max"})
_OF_TAGS = frozenset({"count_distinct", "any_value"})
#: Words in the parentheses of a call that change what it computes, and words behind them.
_INSIDE = frozenset({"DISTINCT", "ALL", "ORDER", "IGNORE", "RESPECT"})
_BEHIND = frozenset({"OVER", "WITHIN", "IGNORE", "RESPECT", "EXPORT_STATE"})
#: Words that stand before a parenthesis without being functions.
SYNTAX_WORDS = frozenset({
    "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "IS", "CASE", "WHEN", "THEN", "ELSE", "CAST", "TRY_CAST", "EXTRACT",
    "COALESCE", "NULLIF", "IF", "IFNULL", "SUBSTRING", "POSITION", "TRIM", "OVERLAY", "INTERVAL", "EXCLUDE", "REPLACE", "RENAME",
    "ROW", "STRUCT", "MAP", "DECIMAL", "NUMERIC", "VARCHAR", "AS",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class CallText:
    """A call: tokens [start, stop) with its FILTER; ``plain`` where it is nothing but arguments and a condition.

    ``distinct``: DISTINCT stands before its arguments.
    """

    name: str
    start: int
    stop: int
    arguments: tuple[Range, ...]
    condition: Range | None
    plain: bool
    windowed: bool
    distinct: bool


def read_call(tokens: Sequence[Token], at: int, stop: int) -> CallText | None:
    """The call whose name is at ``at``; None where there is none."""
    if at + 1 >= stop or not tokens[at].is_name or not tokens[at + 1].is_symbol("("):
        return None
    close = closing(tokens, at + 1)
    if close >= stop:
        return None
    distinct = tokens[at + 2].upper == "DISTINCT"
    inside = (at + 2 + distinct, close)
    plain = not (at and tokens[at - 1].is_symbol(".")) and not any(tokens[i].upper in _INSIDE for i in at_top(tokens, *inside))
    end, condition = close + 1, None
    if end + 1 < stop and tokens[end].upper == "FILTER" and tokens[end + 1].is_symbol("("):
        last = closing(tokens, end + 1)
        if last >= stop:
            return None
        condition = (end + 2 + (tokens[end + 2].upper == "WHERE"), last)
        end = last + 1
    behind = tokens[end].upper if end < stop else ""
    plain = plain and behind not in _BEHIND
    return CallText(
        tokens[at].text.lower(), at, end, split(tokens, inside), condition, plain and not distinct,
        behind in ("OVER", "IGNORE", "RESPECT"), plain and distinct,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CallReader:
    """Reads native calls over one table: ``column`` resolves an expression that is a column, ``condition`` binds one."""

    tokens: Sequence[Token]
    time: Column
    column: Callable[[Range], Column | None]
    condition: Callable[[Range], Predicate | None]

    def read(self, call: CallText) -> Call | None:
        """The call without a name of its own; None where it is not native."""
        if not (call.plain or (call.distinct and call.name in _DISTINCT)) or call.name not in NATIVE:
            return None
        condition = None
        if call.condition is not None:
            condition = self.condition(call.condition)
            if condition is None:
                return None
        if call.name in _COUNT_IF:
            return self._count_if(call)
        if call.name == "count" and not call.distinct and self._counts_rows(call.arguments):
            return Call("", "count", None, INT64, condition=condition)
        columns = [self.column(argument) for argument in call.arguments]
        if not columns or any(column is None or column.role is Role.SEQUENCE for column in columns):
            return None
        function = (_UNARY if len(columns) == 1 else _BINARY if len(columns) == 2 else {}).get(call.name)
        value, by = columns[0], columns[1] if len(columns) == 2 else None
        assert value is not None
        if call.distinct and function == "count":
            function = "count_distinct"
        if function in _OF_TAGS and value.role not in (Role.TAG, Role.ATTRIBUTE):
            return None
        if function is None or (by is not None and by.type.kind in _UNORDERED):
            return None
        if by is None and function in ("first", "last"):
            by = self.time
        kind = result_type(function, value.type)
        if kind is None:
            return None
        return Call("", function, value.name, kind, None if by is None else by.name, condition)

    def _counts_rows(self, arguments: tuple[Range, ...]) -> bool:
        """``count(*)``, ``count()`` and ``count(1)``."""
        if len(arguments) != 1:
            return not arguments
        start, stop = unwrapped(self.tokens, arguments[0])
        token = self.tokens[start]
        return stop - start == 1 and (token.is_symbol("*") or token.kind in (NUMBER, STRING))

    def _count_if(self, call: CallText) -> Call | None:
        """``count_if(condition)``, which counts where it is true."""
        if len(call.arguments) != 1 or call.condition is not None:
            return None
        condition = self.condition(call.arguments[0])
        return None if condition is None else Call("", "count", None, HUGEINT, condition=condition)


def result_type(function: str, kind: ColumnType) -> ColumnType | None:
    """DuckDB's type of an aggregate of a column of ``kind``; None where it has none, or it is not native."""
    if kind.kind in _UNORDERED and function not in _CHOOSING and (kind.kind is Kind.VECTOR or function != "count"):
        return None
    match function:
        case "count" | "count_distinct":
            return INT64
        case "sum":
            if kind.is_float:
                return DOUBLE
            return HUGEINT if kind.kind in (Kind.INT32, Kind.INT64, Kind.BOOLEAN) else None
        case "min" | "max" | "any_value" | "first" | "last" | "arg_min" | "arg_max":
            return kind
    return DOUBLE if kind.kind in _NUMBERS else None
