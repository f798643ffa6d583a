"""What stands inside of parentheses, brackets and braces in a run of tokens, and what outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tsdb.sql.token import Token

#: Tokens [start, stop).
Range: TypeAlias = tuple[int, int]


def nesting(token: Token) -> int:
    """How a token changes the depth of parentheses."""
    return int(token.is_symbol("(", "[", "{")) - int(token.is_symbol(")", "]", "}"))


def at_top(tokens: Sequence[Token], start: int, stop: int) -> Iterator[int]:
    """Positions in [start, stop) outside of parentheses; those of the parentheses themselves are left out."""
    depth = 0
    for at in range(start, stop):
        change = nesting(tokens[at])
        depth += change
        if depth == 0 and change == 0:
            yield at


def split(tokens: Sequence[Token], place: Range) -> tuple[Range, ...]:
    """The parts between commas outside of parentheses; an empty one at the end is left out."""
    parts, start = [], place[0]
    for at in at_top(tokens, *place):
        if tokens[at].is_symbol(","):
            parts.append((start, at))
            start = at + 1
    return (*parts, (start, place[1])) if start < place[1] else tuple(parts)


def closing(tokens: Sequence[Token], opening: int) -> int:
    """The position of what closes the parenthesis, bracket or brace at a position; the end where nothing does."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += nesting(tokens[at])
        if depth == 0:
            return at
    return len(tokens)


def unwrapped(tokens: Sequence[Token], place: Range) -> Range:
    """An expression without the parentheses around all of it."""
    start, stop = place
    while stop - start > 2 and tokens[start].is_symbol("(") and closing(tokens, start) == stop - 1:
        start, stop = start + 1, stop - 1
    return start, stop
