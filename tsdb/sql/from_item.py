"""The items of a FROM clause as places in its text: what stands there under one name, and the condition that joins it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tsdb.sql.clause import text_place
from tsdb.sql.nesting import Range, at_top, closing
from tsdb.sql.select import plain_table
from tsdb.sql.token import Token
from tsdb.sql.tree import span

#: Words between two items.
_JOIN_WORDS = frozenset({"NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "SEMI", "ANTI", "ASOF", "CROSS", "POSITIONAL"})


@dataclass(frozen=True, slots=True)
class FromItem:
    """One item: the tokens of it with its alias, and those of the expression behind its ON."""

    place: Range
    on: Range | None


def own_names(item: exp.Expr) -> list[tuple[int, int]]:
    """The places of an item's own name and alias; none where it has neither."""
    alias = item.args.get("alias")
    nodes = [item.this] if plain_table(item) is not None else []
    nodes += [alias.this] if isinstance(alias, exp.TableAlias) else []
    return [found for node in nodes if isinstance(node, exp.Identifier) and (found := span(node)) is not None]


def from_items(tokens: Sequence[Token], clause: Range, nodes: Sequence[exp.Expr]) -> list[FromItem] | None:
    """The items of a FROM clause, its keyword included; None where these are not the items ``nodes`` of the tree."""
    items: list[FromItem] = []
    start, stop, on = clause[0] + 1, -1, -1

    def close(end: int) -> None:
        items.append(FromItem((start, end if stop < 0 else stop), None if on < 0 else (on, end)))

    for at in at_top(tokens, start, clause[1]):
        word = tokens[at].upper
        if word == "JOIN" or tokens[at].is_symbol(","):
            end = at
            while tokens[end - 1].upper in _JOIN_WORDS:
                end -= 1
            close(end)
            start, stop, on = at + 1, -1, -1
        elif word in ("ON", "USING") and stop < 0:
            stop, on = at, at + 1 if word == "ON" else -1
    close(clause[1])
    if len(items) != len(nodes) or any(item.place[0] >= item.place[1] for item in items):
        return None
    for item, node in zip(items, nodes, strict=True):
        begin, end = text_place(tokens, item.place)
        if any(not begin <= first < last <= end for first, last in own_names(node)):
            return None
    return items


def parenthesized(tokens: Sequence[Token], place: Range) -> Range | None:
    """What stands in the parentheses that an item begins with."""
    if not tokens[place[0]].is_symbol("("):
        return None
    return place[0] + 1, closing(tokens, place[0])


def with_clause(tokens: Sequence[Token], clause: exp.With) -> Range | None:
    """The tokens of a WITH, from that word to the last closing parenthesis."""
    first, last = span(clause.expressions[0].args["alias"].this), span(clause.expressions[-1].args["alias"].this)
    at = next((i for i, token in enumerate(tokens) if (token.start, token.end) == first), 0)
    start = at - 1 - (tokens[at - 1].upper == "RECURSIVE")
    end = next((i for i, token in enumerate(tokens) if (token.start, token.end) == last), len(tokens))
    while end < len(tokens) and tokens[end].upper != "AS":
        end = closing(tokens, end) + 1 if tokens[end].is_symbol("(") else end + 1
    while end < len(tokens) and not tokens[end].is_symbol("("):
        end += 1
    stop = closing(tokens, end) + 1 if end < len(tokens) else len(tokens) + 1
    return (start, stop) if start >= 0 and tokens[start].upper == "WITH" and stop <= len(tokens) else None
