"""Runs of a statement's tokens, read as expressions over one table: columns, constants, conditions, words to compare."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tsdb.plan.predicate import Predicate
from tsdb.sql.clause import text_place
from tsdb.sql.condition import ConditionBinder
from tsdb.sql.constant import Constant, ConstantKind
from tsdb.sql.environment import Environment
from tsdb.sql.literal import fold
from tsdb.sql.native import TableReference
from tsdb.sql.nesting import Range, unwrapped
from tsdb.sql.select import column_of
from tsdb.sql.statement import Query
from tsdb.sql.token import PARAMETER, QUOTED, STRING, WORD, Token
from tsdb.sql.tree import parse_expression
from tsdb_format.schema import Column

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class TableText:
    """A statement's text as one that speaks of ``reference``."""

    query: Query
    reference: TableReference
    environment: Environment

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The statement's tokens."""
        return self.query.tokens

    def text(self, place: Range) -> str:
        """What is written there."""
        start, end = text_place(self.tokens, place)
        return self.query.text[start:end]

    def is_qualifier(self, at: int, stop: int) -> bool:
        """Whether the table's alias and a point stand at ``at``, before a name."""
        return (
            at + 2 < stop
            and self.tokens[at].is_name
            and self.tokens[at].text.lower() == self.reference.alias.lower()
            and self.tokens[at + 1].is_symbol(".")
            and self.tokens[at + 2].is_name
            and not (at and self.tokens[at - 1].is_symbol("."))
        )

    def column(self, place: Range) -> Column | None:
        """The column that an expression is, in parentheses or not."""
        start, stop = unwrapped(self.tokens, place)
        start += 2 * self.is_qualifier(start, stop)
        return self.reference.column(self.tokens[start].text) if stop - start == 1 and self.tokens[start].is_name else None

    def words(self, place: Range) -> tuple[str, ...]:
        """The tokens as they are compared with others: without case and the table's alias."""
        found: list[str] = []
        at = place[0]
        while at < place[1]:
            at += 2 * self.is_qualifier(at, place[1])
            found.append(word_of(self.tokens[at]))
            at += 1
        return tuple(found)

    def constant(self, place: Range) -> Constant | None:
        """The constant that an expression of literals and parameters is."""
        tree = _constant_tree(self.text(place))
        found = None if tree is None else fold(tree, self.environment)
        if found is not None and found.kind is not ConstantKind.TEXT:
            return found
        if any(token.is_symbol("(") or token.kind == PARAMETER for token in self.tokens[slice(*place)]):
            return None
        return self.environment.fold_text(self.text(place))

    def interval(self, place: Range) -> Constant | None:
        """As ``constant``, where a text is that of an interval."""
        if place[1] - place[0] == 1 and self.tokens[place[0]].kind == STRING:
            return self.environment.fold_text(f"CAST({self.text(place)} AS INTERVAL)")
        return self.constant(place)

    def condition(self, place: Range) -> Predicate | None:
        """The predicate that a condition over the table's columns is."""
        tree = parse_expression(self.text(place))
        if tree is None:
            return None
        return ConditionBinder(lambda node: column_of(node, self.reference), self.environment).bind(tree)


@lru_cache(maxsize=256)
def _constant_tree(text: str) -> exp.Expr | None:
    """As ``parse_expression``, for trees that nobody changes: many texts have the few widths of buckets that people ask for."""
    return parse_expression(text)


def word_of(token: Token) -> str:
    """A token as one compares it: names in lower case, quoted or not."""
    if token.kind in (WORD, QUOTED):
        return token.text.lower()
    return f"'{token.text}'" if token.kind == STRING else token.text
