"""The clauses of a SELECT as places in its text: where the select list, FROM, GROUP BY and the others stand, item by item.

The tree says what a query means, and keeps places only of names; a text that is to be spliced needs places of everything. Clauses
are found by their keywords outside of parentheses, and believed where the tree has the same ones with as many items, each holding
the names that its text holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tsdb.sql.nesting import Range, closing, nesting, split
from tsdb.sql.token import Token
from tsdb.sql.tree import span

#: Keywords that start a clause, with the word that must follow, and the tree's name of the clause.
_CLAUSES = {
    "SELECT": ("", "expressions"), "FROM": ("", "from_"), "WHERE": ("", "where"), "GROUP": ("BY", "group"),
    "HAVING": ("", "having"), "WINDOW": ("", "windows"), "QUALIFY": ("", "qualify"), "ORDER": ("BY", "order"),
    "LIMIT": ("", "limit"), "FETCH": ("", "limit"), "OFFSET": ("", "offset"), "USING": ("SAMPLE", "sample"),
}  # fmt: skip
_DIRECTIONS = frozenset({"ASC", "DESC", "NULLS", "FIRST", "LAST"})
_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "INTERSECT"})


@dataclass(frozen=True, slots=True)
class Clauses:
    """Places in ``tokens`` of one SELECT; ``spans`` are whole clauses by their first keyword, that keyword included."""

    tokens: Sequence[Token]
    spans: Mapping[str, Range]
    items: tuple[Range, ...]
    groups: tuple[Range, ...]
    orders: tuple[Range, ...]

    def place(self, word: str) -> tuple[int, int] | None:
        """The place [start, end) in the text of a whole clause."""
        found = self.spans.get(word)
        return None if found is None else text_place(self.tokens, found)

    def body(self, word: str) -> Range | None:
        """A clause's tokens behind its keyword."""
        found = self.spans.get(word)
        return None if found is None else (found[0] + 1, found[1])


def text_place(tokens: Sequence[Token], place: Range) -> tuple[int, int]:
    """The place [start, end) in the text of tokens, of which there is one at least."""
    return tokens[place[0]].start, tokens[place[1] - 1].end


def find_clauses(tokens: Sequence[Token], select: exp.Select, table: exp.Table) -> Clauses | None:
    """The clauses of the SELECT whose FROM is ``table``; None where the text does not show what the tree has."""
    return clauses_around(tokens, select, span(table.this))


def clauses_around(tokens: Sequence[Token], select: exp.Select, inside: tuple[int, int] | None) -> Clauses | None:
    """As ``find_clauses``, of the SELECT in whose own text the token at the place ``inside`` stands."""
    at = next((i for i, token in enumerate(tokens) if (token.start, token.end) == inside), None)
    region = None if at is None else _region(tokens, at)
    spans = None if region is None else _spans(tokens, region)
    if spans is None or not _agree(spans, select):
        return None
    items = split(tokens, (_list_start(tokens, spans["SELECT"]), spans["SELECT"][1]))
    groups = split(tokens, (spans["GROUP"][0] + 2, spans["GROUP"][1])) if "GROUP" in spans else ()
    orders = split(tokens, (spans["ORDER"][0] + 2, spans["ORDER"][1])) if "ORDER" in spans else ()
    counts = (len(items), len(groups), len(orders))
    trees = (select.expressions, _listed(select, "group"), _listed(select, "order"))
    if select.args.get("group") is not None and select.args["group"].args.get("all"):
        counts, trees = (counts[0], 0, counts[2]), (trees[0], [], trees[2])
    if counts != tuple(len(tree) for tree in trees):
        return None
    for places, nodes in zip((items, groups, orders), trees, strict=True):
        if not all(_holds(tokens, place, node) for place, node in zip(places, nodes, strict=False)):
            return None
    return Clauses(tokens, spans, items, groups, orders)


def sort_expression(tokens: Sequence[Token], place: Range) -> Range:
    """What an item of ORDER BY sorts by."""
    start, stop = place
    while stop - start > 1 and tokens[stop - 1].upper in _DIRECTIONS:
        stop -= 1
    return start, stop


def _region(tokens: Sequence[Token], at: int) -> Range | None:
    """The SELECT around a table's name in FROM: between parentheses, or set operations."""
    start = stop = at
    depth = 0
    while start > 0:
        before = tokens[start - 1]
        depth -= nesting(before)
        if depth < 0 or (depth == 0 and before.upper in _SET_OPERATIONS):
            break
        start -= 1
    depth = 0
    while stop < len(tokens):
        depth += nesting(tokens[stop])
        if depth < 0 or (depth == 0 and (tokens[stop].upper in _SET_OPERATIONS or tokens[stop].is_symbol(";"))):
            break
        stop += 1
    return start, stop


def _spans(tokens: Sequence[Token], region: Range) -> dict[str, Range] | None:
    """Clauses of a region by keyword; None where one stands twice. What is before the first SELECT or FROM is a WITH."""
    starts: list[tuple[str, int]] = []
    depth = 0
    for at in range(*region):
        token = tokens[at]
        depth += nesting(token)
        if depth or token.upper not in _CLAUSES:
            continue
        following = _CLAUSES[token.upper][0]
        if following and (at + 1 >= region[1] or tokens[at + 1].upper != following):
            continue
        if token.upper == "FROM" and at > region[0] and tokens[at - 1].upper == "DISTINCT":  # IS DISTINCT FROM
            continue
        starts.append((token.upper, at))
    if not starts:
        return None  # TABLE t
    ends = [*(at for _, at in starts[1:]), region[1]]
    spans = {word: (at, end) for (word, at), end in zip(starts, ends, strict=True)}
    return spans if len(spans) == len(starts) and {"SELECT", "FROM"} <= set(spans) else None


def _agree(spans: Mapping[str, Range], select: exp.Select) -> bool:
    """Whether the tree has exactly these clauses."""
    found = {_CLAUSES[word][1] for word in spans}
    return all((name in found) == bool(select.args.get(name)) for _, name in _CLAUSES.values())


def _list_start(tokens: Sequence[Token], clause: Range) -> int:
    """Where the items of a select list begin: behind ALL, DISTINCT and DISTINCT ON (…)."""
    at = clause[0] + 1
    if at < clause[1] and tokens[at].upper in ("ALL", "DISTINCT"):
        at += 1
        if tokens[at - 1].upper == "DISTINCT" and tokens[at].upper == "ON" and tokens[at + 1].is_symbol("("):
            at = closing(tokens, at + 1) + 1
    return at


def _listed(select: exp.Select, name: str) -> Sequence[exp.Expr]:
    node = select.args.get(name)
    return [] if node is None else node.expressions


def _holds(tokens: Sequence[Token], place: Range, node: exp.Expr) -> bool:
    """Whether every name of the tree's item stands in the text's item."""
    if place[0] >= place[1]:
        return False
    start, end = text_place(tokens, place)
    return all(found is None or (start <= found[0] and found[1] <= end) for found in map(span, node.find_all(exp.Identifier)))
