"""Constants that only DuckDB can evaluate: ``date_trunc('day', now())``, ``0.9 * 100``, dates in forms of its own.

A part of a condition without columns is found in the statement's text — a run of tokens beside a comparison that parses to that
very tree — and evaluated by DuckDB, if every function in it is one whose value cannot change within a statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tsdb.sql.constant import Constant
from tsdb.sql.environment import Environment
from tsdb.sql.moment_text import is_now, now_text
from tsdb.sql.statement import Query
from tsdb.sql.token import PARAMETER, Token
from tsdb.sql.tree import parse_expression

_COMPARISONS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=")
_STARTS = frozenset({"BETWEEN", "AND", "FROM"})
_ENDS = frozenset({
    "AND", "OR", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "FETCH", "WINDOW", "QUALIFY", "UNION", "EXCEPT", "INTERSECT",
    "USING", "BETWEEN", "IN", "IS", "LIKE", "NOT", "THEN", "FROM", "WHERE", "JOIN", "LEFT", "RIGHT", "FULL", "CROSS", "SELECT",
})  # fmt: skip


class Folder:
    """Evaluates parts of one statement."""

    def __init__(self, query: Query, environment: Environment) -> None:
        self._query = query
        self._environment = environment

    def fold_tree(self, node: object) -> Constant | None:
        """The constant that a column-free part of the statement is."""
        unfit = (exp.Column, exp.Query, exp.Placeholder, exp.Parameter, exp.Star, exp.AggFunc, exp.Window)
        if not isinstance(node, exp.Expr) or any(isinstance(part, unfit) for part in node.walk()):
            return None
        for start, stop in self._operands():
            tokens = self._query.tokens[start:stop]
            text = self._query.text[tokens[0].start : tokens[-1].end]
            if parse_expression(text) == node:
                return self._evaluate(start, stop)
        return None

    def fold_text(self, text: str) -> Constant | None:
        """The constant that an expression made here is."""
        from tsdb.exec.fold import evaluate

        return evaluate(text)

    def _operands(self) -> Iterator[tuple[int, int]]:
        """Runs of tokens [start, stop) that may be an operand: from behind a comparison to what ends it."""
        tokens = self._query.tokens
        for at, token in enumerate(tokens[:-1]):
            if token.is_symbol(*_COMPARISONS) or token.upper in _STARTS:
                stop = _operand_end(tokens, at + 1)
                if stop > at + 1:
                    yield at + 1, stop

    def _evaluate(self, start: int, stop: int) -> Constant | None:
        from tsdb.exec.fold import evaluate, stable_functions

        tokens = self._query.tokens
        known = stable_functions()
        pieces: list[str] = []
        at, moment = start, False
        while at < stop:
            token, length = tokens[at], is_now(self._query, at)
            if length:
                pieces.append(now_text(token.upper, self._environment, zoned=True))
                moment = True
                at += length
                continue
            called = at + 1 < stop and tokens[at + 1].is_symbol("(")
            if token.kind == PARAMETER or (called and token.is_name and token.text.lower() not in known):
                return None
            pieces.append(self._query.text[token.start : token.end])
            at += 1
        self._environment.used_now = self._environment.used_now or moment
        return evaluate(" ".join(pieces))


def _operand_end(tokens: Sequence[Token], start: int) -> int:
    depth = cases = 0
    for at in range(start, len(tokens)):
        token = tokens[at]
        depth += token.is_symbol("(", "[", "{") - token.is_symbol(")", "]", "}")
        cases += (token.upper == "CASE") - (token.upper == "END")
        if depth < 0 or (depth == 0 and cases <= 0 and (token.upper in _ENDS or token.is_symbol(",", *_COMPARISONS))):
            return at
    return len(tokens)
