"""Constants that only DuckDB can evaluate: ``date_trunc('day', now())``, ``0.9 * 100``, dates in forms of its own.

A part of a condition without columns is found in the statement's text — a run of tokens beside a comparison that parses to that
very tree — and evaluated by DuckDB, if every function in it is one whose value lasts, since plans that hold it are kept. Moments
are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tsdb.sql.constant import Constant
from tsdb.sql.environment import Environment
from tsdb.sql.moment_text import TIMES_OF_DAY, is_now, now_text
from tsdb.sql.nesting import nesting
from tsdb.sql.statement import Query
from tsdb.sql.token import PARAMETER, Token
from tsdb.sql.tree import parse_expression

_COMPARISONS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=")
_STARTS = frozenset({"BETWEEN", "AND", "FROM"})
_ENDS = frozenset({
    "AND", "OR", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "FETCH", "WINDOW", "QUALIFY", "UNION", "EXCEPT", "INTERSECT",
    "USING", "BETWEEN", "IN", "IS", "LIKE", "NOT", "THEN", "FROM", "WHERE", "JOIN", "LEFT", "RIGHT", "FULL", "CROSS", "SELECT",
})  # fmt: skip


def fold_tree(query: Query, environment: Environment, node: object) -> Constant | None:
    """The constant that a column-free part of the statement's tree is; a text with a collation is more than its value."""
    unfit = (exp.Column, exp.Query, exp.Placeholder, exp.Parameter, exp.Star, exp.AggFunc, exp.Window, exp.Collate)
    if not isinstance(node, exp.Expr) or any(isinstance(part, unfit) for part in node.walk()):
        return None
    for start, stop in _operands(query.tokens):
        text = query.text[query.tokens[start].start : query.tokens[stop - 1].end]
        if parse_expression(text) == node:
            return _evaluate(query, environment, start, stop)
    return None


def _operands(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Runs of tokens [start, stop) that may be an operand: from behind a comparison to what ends it."""
    for at, token in enumerate(tokens[:-1]):
        if token.is_symbol(*_COMPARISONS) or token.upper in _STARTS:
            stop = _operand_end(tokens, at + 1)
            if stop > at + 1:
                yield at + 1, stop


def _evaluate(query: Query, environment: Environment, start: int, stop: int) -> Constant | None:
    from tsdb.exec.fold import evaluate, lasting_functions

    tokens = query.tokens
    known = lasting_functions()
    pieces: list[str] = []
    at, moment = start, False
    while at < stop:
        token, length = tokens[at], is_now(query, at)
        if length:
            pieces.append(now_text(token.upper, environment, zoned=True))
            moment = True
            at += length
            continue
        called = at + 1 < stop and tokens[at + 1].is_symbol("(")
        unknown = called and token.is_name and token.text.lower() not in known
        if token.kind == PARAMETER or unknown or token.upper in TIMES_OF_DAY:
            return None
        pieces.append(query.text[token.start : token.end])
        at += 1
    environment.used_now = environment.used_now or moment
    return evaluate(" ".join(pieces))


def _operand_end(tokens: Sequence[Token], start: int) -> int:
    depth = cases = 0
    for at in range(start, len(tokens)):
        token = tokens[at]
        depth += nesting(token)
        cases += (token.upper == "CASE") - (token.upper == "END")
        if depth < 0 or (depth == 0 and cases <= 0 and (token.upper in _ENDS or token.is_symbol(",", *_COMPARISONS))):
            return at
    return len(tokens)
