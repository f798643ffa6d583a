"""One SELECT of a text as ranges of tokens: its clauses, and the items of its list.

Positions are indices of tokens, ranges are half-open. Nothing is understood here beyond words, commas and parentheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tsdb.quoting import quoted_name
from tsdb.sql.nesting import at_top, closing, nesting, split
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.series.width import UNIT_WORDS
from tsdb.sql.token import QUOTED, WORD, Token

_CLAUSES = frozenset({"SELECT", "FROM", "WHERE", "HAVING", "WINDOW", "QUALIFY", "LIMIT", "OFFSET", "FETCH"})
_PAIRED = {
    "GROUP": ("BY",), "ORDER": ("BY",), "LATEST": ("ON", "BY"), "SAMPLE": ("BY",), "USING": ("SAMPLE",),
}  # fmt: skip
#: Clauses that belong to a whole UNION and not to its last SELECT.
_OF_THE_WHOLE = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH"})
_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "INTERSECT"})
#: Words that end an expression without being an alias, and words after which a name is no alias.
_NO_ALIAS = frozenset({"END", "NULL", "TRUE", "FALSE", "UNKNOWN", "PRECISION", "ROW", "NULLS", "NOCASE"})
_NO_ALIAS_AFTER = frozenset(
    {"AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "BETWEEN", "FROM", "AS", "CASE", "WHEN", "THEN", "ELSE", "ZONE", "INTERVAL"}
    | {"COLLATE", "GLOB", "SIMILAR", "TO", "OVER", "DISTINCT", "ALL", "ESCAPE", "AT"}
)
_TYPE_ENDS = frozenset({("WITH", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE")})


class Clause(NamedTuple):
    """The keyword is at ``keyword``; what follows it is [start, end)."""

    keyword: int
    start: int
    end: int


class Item(NamedTuple):
    """An item of a select list: its expression is [start, end), the whole with its alias [first, stop)."""

    first: int
    start: int
    end: int
    stop: int
    alias: str | None


@dataclass(frozen=True, slots=True)
class Block:
    """A SELECT: all of it is [start, end); ``clauses`` go by the first word of their keyword.

    ``outermost`` says that it is the statement's own, and no part of a UNION.
    """

    draft: Draft
    start: int
    end: int
    clauses: dict[str, Clause]
    outermost: bool

    @property
    def grouped(self) -> bool:
        """Whether rows are grouped."""
        return "GROUP" in self.clauses or "SAMPLE" in self.clauses

    def precedes(self, word: str, at: int) -> None:
        """Fail where a clause stands behind the one at a position."""
        clause = self.clauses.get(word)
        if clause is not None and clause.keyword > at:
            self.draft.fail(f"{word} comes before {self.draft.written(at, at + 2).upper()}", clause.keyword)

    def items(self) -> list[Item]:
        """The select list; empty for FROM without SELECT."""
        clause = self.clauses.get("SELECT")
        if clause is None:
            return []
        tokens, start = self.draft.tokens, clause.start
        if start < clause.end and tokens[start].upper in ("DISTINCT", "ALL"):
            distinct_on = start + 1 < clause.end and tokens[start + 1].upper == "ON"
            start = closing(tokens, start + 2) + 1 if distinct_on else start + 1
        return [_item(tokens, *part) for part in split(tokens, (start, clause.end))]

    def keep_name(self, at: int) -> list[Edit]:
        """The edit that has the item around a token keep the name under which it is written, where it has no alias."""
        item = next((item for item in self.items() if item.start <= at < item.end), None)
        if item is None or item.alias is not None:
            return []
        end = self.draft.tokens[item.end - 1].end
        return [Edit(end, end, (f" AS {quoted_name(self.draft.written(item.start, item.end))}",))]


def block_at(draft: Draft, at: int) -> Block | None:
    """The innermost SELECT around the token at a position."""
    inside = at
    while True:
        opening = _opening(draft.tokens, inside)
        end = len(draft.tokens) if opening < 0 else closing(draft.tokens, opening)
        found = _segment(draft, opening + 1, end, inside)
        if found is not None or opening < 0:
            return found
        inside = opening


def _opening(tokens: Sequence[Token], at: int) -> int:
    """The position of the parenthesis around a token; −1 where there is none."""
    depth = 0
    for before in range(at - 1, -1, -1):
        depth += nesting(tokens[before])
        if depth > 0:
            return before
    return -1


def _segment(draft: Draft, start: int, end: int, inside: int) -> Block | None:
    """The SELECT around ``inside`` among those that set operations combine in [start, end)."""
    tokens = draft.tokens
    cuts = [
        at
        for at in at_top(tokens, start, end)
        if tokens[at].upper in _SET_OPERATIONS and at > start and not tokens[at - 1].is_symbol("*")
    ]
    bounds = [start, *cuts, end]
    first, last = next((a, b) for a, b in zip(bounds, bounds[1:], strict=False) if a <= inside < b or b == end)
    clauses: dict[str, Clause] = {}
    name, keyword, body = "", first, first
    for at in at_top(tokens, first, last):
        word = _clause(tokens, at)
        if not word or word in clauses or word == name:
            continue
        if name:
            clauses[name] = Clause(keyword, body, at)
        elif word not in ("SELECT", "FROM"):
            continue
        if cuts and word in _OF_THE_WHOLE:
            last = at
            name = ""
            break
        name, keyword, body = word, at, at + 1 + (word in _PAIRED)
    if name:
        clauses[name] = Clause(keyword, body, last)
    if not clauses:
        return None
    begin = min(clause.keyword for clause in clauses.values())
    outermost = not cuts and start == 0
    return Block(draft, begin, last, clauses, outermost) if begin <= inside < last else None


def _clause(tokens: Sequence[Token], at: int) -> str:
    """The word by which a clause that starts at a position goes, or ''."""
    word = tokens[at].upper
    if word in _PAIRED:
        return word if at + 1 < len(tokens) and tokens[at + 1].upper in _PAIRED[word] else ""
    if word not in _CLAUSES or (at > 0 and tokens[at - 1].is_symbol(".")):
        return ""
    before = tokens[at - 1].upper if at > 0 else ""
    return "" if (word, before) in (("FROM", "DISTINCT"), ("OFFSET", "WITH")) else word


def _item(tokens: Sequence[Token], start: int, end: int) -> Item:
    last, before = tokens[end - 1], tokens[max(end - 2, start)]
    if end - start >= 3 and tokens[start].is_name and tokens[start + 1].is_symbol(":"):
        return Item(start, start + 2, end, end, tokens[start].text)
    if end - start >= 3 and before.upper == "AS" and last.is_name:
        return Item(start, start, end - 2, end, last.text)
    ends = before.kind not in ("symbol", WORD) or before.is_symbol(")", "]", "}")
    ends = ends or (before.kind == WORD and before.upper not in _NO_ALIAS_AFTER)
    if end - start >= 3 and (tokens[end - 3].upper, before.upper, last.upper) in _TYPE_ENDS:
        ends = False
    if end - start >= 3 and tokens[end - 3].upper == "INTERVAL" and last.upper in UNIT_WORDS:
        ends = False
    if end - start >= 2 and last.is_name and ends and (last.kind == QUOTED or last.upper not in _NO_ALIAS):
        return Item(start, start, end - 1, end, last.text)
    return Item(start, start, end, end, None)
