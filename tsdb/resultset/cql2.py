"""Filters as CQL2-JSON, written out in SQL.

What is known of the Common Query Language of OGC: ``and or not``, comparisons, ``between in like isNull``, arithmetic, ``casei``,
the temporal predicates ``t_…`` over instants and intervals, and one operator of ours, ``inResultSet``. The text is built from
checked parts alone: names that the table has, quoted, and literals, quoted; so no value can become a condition. Errors say where in
the document, such as ``queries[0].filter.args[1]``.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tsdb.quoting import quoted_name, quoted_text
from tsdb.sql.moment import NS_PER_SECOND, parse_date, parse_moment
from tsdb.suggestion import hint
from tsdb_format.errors import InvalidInput

#: Operators within operators that a filter may have.
_DEPTH_MAX = 100
_COMPARISONS = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_ARITHMETIC = {"+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "div": "//"}
#: For each temporal predicate over a = [a0, a1] and b = [b0, b1] (an instant is both its ends) what must hold; "|": one of both.
_TEMPORAL = {
    "t_after": "a0 > b1", "t_before": "a1 < b0", "t_contains": "a0 < b0 & a1 > b1", "t_disjoint": "a1 < b0 | a0 > b1",
    "t_during": "a0 > b0 & a1 < b1", "t_equals": "a0 = b0 & a1 = b1", "t_finishedby": "a0 < b0 & a1 = b1",
    "t_finishes": "a0 > b0 & a1 = b1", "t_intersects": "a0 <= b1 & a1 >= b0", "t_meets": "a1 = b0", "t_metby": "a0 = b1",
    "t_overlappedby": "a0 > b0 & a0 < b1 & a1 > b1", "t_overlaps": "a0 < b0 & a1 > b0 & a1 < b1",
    "t_startedby": "a0 = b0 & a1 > b1", "t_starts": "a0 = b0 & a1 < b1",
}  # fmt: skip
_MICROSECOND_DIGITS = 6
_OTHERS = ("and", "or", "not", "between", "in", "like", "isNull", "casei", "inResultSet")

#: Finds the column that a property names; raises NotFound at a path.
FindColumn = Callable[[str, str], str]


class Moment(NamedTuple):
    """One end of a period: SQL, or without it the end that is open, before or after everything."""

    sql: str
    open: int = 0


def filter_text(node: Any, path: str, find: FindColumn) -> str:
    """A filter, which stands at ``path``, as a condition of SQL; raises InvalidInput."""
    return _Writer(find).condition(node, path, 0)


def moment_sql(value: Any, path: str) -> str:
    """A date or a timestamp, in UTC unless it says otherwise, as a timestamp of SQL; raises InvalidInput.

    One finer than microseconds stays a text, which takes the type of what it is compared with.
    """
    ns = parse_moment(value, NS_PER_SECOND) if isinstance(value, str) else None
    if ns is None and isinstance(value, str):
        try:
            zoned = datetime.datetime.fromisoformat(value)
        except ValueError:
            zoned = None
        if zoned is not None and zoned.tzinfo is not None:
            ns = (zoned - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1) * 1_000
    if ns is None or not -(2**63) < ns < 2**63:
        _fail(path, f"a time is wanted, such as '2026-01-31T08:00:00Z', not {_shown(value)}")
    text = str(np.datetime64(ns, "ns")).replace("T", " ")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    finer = len(text.partition(".")[2]) > _MICROSECOND_DIGITS
    return quoted_text(text) if finer else f"TIMESTAMP {quoted_text(text)}"


class _Writer:
    def __init__(self, find: FindColumn) -> None:
        self._find = find

    def condition(self, node: Any, path: str, depth: int) -> str:
        """A node that is true or false."""
        if depth > _DEPTH_MAX:
            _fail(path, f"the filter is more than {_DEPTH_MAX} operators deep")
        if isinstance(node, bool):
            return "TRUE" if node else "FALSE"
        if not isinstance(node, dict):
            _fail(path, f"a condition is wanted, an object with 'op' and 'args', not {_shown(node)}")
        if "property" in node:
            return self._property(node, path)
        op, args = _operation(node, path)
        match op:
            case "and" | "or":
                if not args:
                    _fail(f"{path}.args", f"{op!r} takes one condition or more")
                parts = [self.condition(arg, f"{path}.args[{at}]", depth + 1) for at, arg in enumerate(args)]
                return "(" + f" {op.upper()} ".join(parts) + ")"
            case "not":
                _arity(op, args, 1, path)
                return f"(NOT {self.condition(args[0], f'{path}.args[0]', depth + 1)})"
            case "between":
                _arity(op, args, 3, path)
                value, low, high = (self.value(arg, f"{path}.args[{at}]", depth) for at, arg in enumerate(args))
                return f"({value} BETWEEN {low} AND {high})"
            case "in":
                return self._in(args, path, depth)
            case "like":
                return self._like(args, path, depth)
            case "isNull":
                _arity(op, args, 1, path)
                return f"({self.value(args[0], f'{path}.args[0]', depth)} IS NULL)"
            case "inResultSet":
                return self._in_result_set(args, path)
        if op in _COMPARISONS:
            _arity(op, args, 2, path)
            left, right = (self.value(arg, f"{path}.args[{at}]", depth) for at, arg in enumerate(args))
            return f"({left} {_COMPARISONS[op]} {right})"
        if op.lower() in _TEMPORAL:
            _arity(op, args, 2, path)
            return self._temporal(_TEMPORAL[op.lower()], args, path)
        raise InvalidInput(f"{path}.op: no operator {op!r}; {hint(op, [*_OTHERS, *_COMPARISONS, *_TEMPORAL])}")

    def value(self, node: Any, path: str, depth: int) -> str:
        """A node that is compared: a literal, a property, or what is computed of these."""
        if depth > _DEPTH_MAX:
            _fail(path, f"the filter is more than {_DEPTH_MAX} operators deep")
        match node:
            case bool():
                return "TRUE" if node else "FALSE"
            case str():
                return quoted_text(node)
            case int():
                return str(node)
            case float() if math.isfinite(node):
                return repr(node)
            case None:
                _fail(path, "null equals nothing: {'op': 'isNull', 'args': […]} asks for it")
            case {"date": date} if len(node) == 1:
                if not isinstance(date, str) or parse_date(date) is None:
                    _fail(path, f"a date is wanted, such as '2026-01-31', not {_shown(date)}")
                return f"DATE {quoted_text(date)}"
            case {"timestamp": moment} if len(node) == 1:
                return moment_sql(moment, f"{path}.timestamp")
            case {"property": _}:
                return self._property(node, path)
            case {"op": _}:
                op, args = _operation(node, path)
                if op == "casei":
                    _arity(op, args, 1, path)
                    return f"lower({self.value(args[0], f'{path}.args[0]', depth + 1)})"
                if op in _ARITHMETIC:
                    _arity(op, args, 2, path)
                    left, right = (self.value(arg, f"{path}.args[{at}]", depth + 1) for at, arg in enumerate(args))
                    return f"({left} {_ARITHMETIC[op]} {right})"
                return self.condition(node, path, depth + 1)
        raise InvalidInput(f"{path}: a literal, a property or an expression is wanted, not {_shown(node)}")

    def _property(self, node: Any, path: str) -> str:
        name = node.get("property") if isinstance(node, dict) and len(node) == 1 else None
        if not isinstance(name, str):
            _fail(path, f"a property is wanted, such as {{'property': 'host'}}, not {_shown(node)}")
        return quoted_name(self._find(name, path))

    def _in(self, args: list[Any], path: str, depth: int) -> str:
        _arity("in", args, 2, path)
        if not isinstance(args[1], list):
            _fail(f"{path}.args[1]", f"a list is wanted, not {_shown(args[1])}")
        value = self.value(args[0], f"{path}.args[0]", depth)
        members = [self.value(member, f"{path}.args[1][{at}]", depth) for at, member in enumerate(args[1])]
        return f"({value} IN ({', '.join(members)}))" if members else "FALSE"

    def _like(self, args: list[Any], path: str, depth: int) -> str:
        """``%`` and ``_`` stand for any characters and for one, a backslash takes the next character as it is."""
        _arity("like", args, 2, path)
        pattern = self.value(args[1], f"{path}.args[1]", depth)
        escape = " ESCAPE '\\'" if "\\" in pattern else ""
        return f"({self.value(args[0], f'{path}.args[0]', depth)} LIKE {pattern}{escape})"

    def _in_result_set(self, args: list[Any], path: str) -> str:
        _arity("inResultSet", args, 2, path)
        if not isinstance(args[1], str) or not args[1]:
            _fail(f"{path}.args[1]", f"the name of a result set is wanted, not {_shown(args[1])}")
        several = args[0] if isinstance(args[0], list) else [args[0]]
        if not several:
            _fail(f"{path}.args[0]", "a property is wanted, or a list of properties")
        places = [f"{path}.args[0][{at}]" if isinstance(args[0], list) else f"{path}.args[0]" for at in range(len(several))]
        columns = [self._property(each, place) for each, place in zip(several, places, strict=True)]
        operand = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
        return f"({operand} IN RESULT SET {quoted_name(args[1])})"

    # ------------------------------------------------------------------------------------------------ time

    def _temporal(self, rule: str, args: list[Any], path: str) -> str:
        ends = {}
        for letter, at in (("a", 0), ("b", 1)):
            ends[f"{letter}0"], ends[f"{letter}1"] = self._period(args[at], f"{path}.args[{at}]")
        joined, parts = (" OR ", rule.split(" | ")) if "|" in rule else (" AND ", rule.split(" & "))
        compared = [_compared(ends[left], op, ends[right]) for left, op, right in (part.split() for part in parts)]
        return "(" + joined.join(compared) + ")"

    def _period(self, node: Any, path: str) -> tuple[Moment, Moment]:
        """Both ends of an interval, or an instant twice."""
        if isinstance(node, dict) and "interval" in node:
            ends = node["interval"]
            if not isinstance(ends, list) or len(ends) != 2 or len(node) != 1:
                _fail(path, f"an interval is wanted, such as {{'interval': ['2026-01-01', '..']}}, not {_shown(node)}")
            return (
                Moment("", open=-1) if ends[0] == ".." else self._instant(ends[0], f"{path}.interval[0]"),
                Moment("", open=1) if ends[1] == ".." else self._instant(ends[1], f"{path}.interval[1]"),
            )
        one = self._instant(node, path)
        return one, one

    def _instant(self, node: Any, path: str) -> Moment:
        match node:
            case str():
                return Moment(moment_sql(node, path))
            case {"timestamp": value} if len(node) == 1:
                return Moment(moment_sql(value, f"{path}.timestamp"))
            case {"date": value} if len(node) == 1:
                return Moment(moment_sql(value, f"{path}.date"))
            case {"property": _}:
                return Moment(self._property(node, path))
        raise InvalidInput(f"{path}: a property, a timestamp, a date or an interval is wanted, not {_shown(node)}")


def _compared(left: Moment, op: str, right: Moment) -> str:
    """A comparison of two ends; an open one is before or after everything else."""
    if left.open or right.open:
        sign = left.open - right.open
        return "TRUE" if {"<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0, "=": sign == 0}[op] else "FALSE"
    return f"({left.sql} {op} {right.sql})"


def _operation(node: dict[str, Any], path: str) -> tuple[str, list[Any]]:
    op, args = node.get("op"), node.get("args")
    if not isinstance(op, str) or not isinstance(args, list) or len(node) != 2:
        _fail(path, f"an object with 'op' and a list 'args' and nothing else is wanted, not {_shown(node)}")
    return op, args


def _arity(op: str, args: list[Any], count: int, path: str) -> None:
    if len(args) != count:
        _fail(f"{path}.args", f"{op!r} takes {count} argument{'s' if count > 1 else ''}, not {len(args)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _fail(path: str, message: str) -> NoReturn:
    raise InvalidInput(f"{path}: {message}")
