"""Calls of functions in a text: where their arguments stand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tsdb.sql.nesting import Range, at_top, closing, split
from tsdb.sql.series.draft import Draft


@dataclass(frozen=True, slots=True)
class Call:
    """A function's name at ``at``, its closing parenthesis at ``close``; arguments by position and by (lower-case) name."""

    draft: Draft
    at: int
    close: int
    arguments: tuple[Range, ...]
    named: dict[str, Range]

    @property
    def name(self) -> str:
        """The name in upper case."""
        return self.draft.tokens[self.at].text.upper()

    @property
    def ordered(self) -> bool:
        """Whether an ORDER BY stands behind the arguments: what looks like more of them are its keys."""
        return any(self.draft.tokens[at].upper == "ORDER" for at in at_top(self.draft.tokens, self.at + 2, self.close))

    @property
    def span(self) -> tuple[int, int]:
        """The range of text from the name to the closing parenthesis."""
        return self.draft.span(self.at, self.close + 1)

    def text(self, part: Range) -> tuple[int, int]:
        """The range of text of an argument."""
        return self.draft.span(*part)

    def argument(self, position: int, name: str) -> Range | None:
        """The argument of that name, or at that position."""
        if name in self.named:
            return self.named[name]
        return self.arguments[position] if position < len(self.arguments) else None

    def require(self, least: int, most: int, form: str) -> None:
        """Fail unless it has so many arguments; ``form`` shows how it is written."""
        count = len(self.arguments) + len(self.named)
        if not least <= count <= most or any(start == end for start, end in self.arguments):
            self.draft.fail(f"{self.draft.tokens[self.at].text} is written {form}", self.at)

    def only(self, names: Collection[str], form: str) -> None:
        """Fail for a named argument that there is none of."""
        for name, part in self.named.items():
            if name not in names:
                self.draft.fail(f"{self.draft.tokens[self.at].text} has no argument {name!r}: it is written {form}", part[0] - 2)

    def __contains__(self, position: int) -> bool:
        return self.at <= position <= self.close


def calls(draft: Draft, names: Collection[str], start: int = 0, end: int | None = None) -> Iterator[Call]:
    """The calls of functions of these (upper-case) names in a range of tokens, outer ones first."""
    tokens = draft.tokens
    stop = len(tokens) if end is None else end
    for at in range(start, stop - 1):
        named = tokens[at].is_name and tokens[at].text.upper() in names and tokens[at + 1].is_symbol("(")
        if named and not (at and tokens[at - 1].is_symbol(".")):
            yield call_at(draft, at)


def call_at(draft: Draft, at: int) -> Call:
    """The call whose name is at a position."""
    tokens = draft.tokens
    close = closing(tokens, at + 1)
    if close == len(tokens):
        draft.fail("the parenthesis does not close", at + 1)
    arguments: list[Range] = []
    named: dict[str, Range] = {}
    for start, end in split(tokens, (at + 2, close)):
        if end - start > 2 and tokens[start].is_name and tokens[start + 1].is_symbol("=>", ":="):
            named[tokens[start].text.lower()] = (start + 2, end)
        else:
            arguments.append((start, end))
    return Call(draft, at, close, tuple(arguments), named)
