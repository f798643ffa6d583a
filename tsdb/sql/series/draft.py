"""A query's text while it is changed: what was written keeps its place in the statement, so that errors can name it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypeAlias

from tsdb.sql.statement import Query
from tsdb.sql.token import Token, tokenize
from tsdb_format.errors import InvalidInput

#: New text, or the range [start, end) of the text that is changed, which comes along with its places.
Part: TypeAlias = str | tuple[int, int]


def joined(texts: Iterable[tuple[Part, ...]], between: str = ", ") -> tuple[Part, ...]:
    """Texts with something between them."""
    made: list[Part] = []
    for text in texts:
        made += [between, *text] if made else text
    return tuple(made)


class Edit(NamedTuple):
    """``parts`` stand where [start, end) of the text stood."""

    start: int
    end: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A text with its tokens. ``origins`` are, by token, which token of the query it is, or which was there where it was put."""

    query: Query
    text: str
    tokens: tuple[Token, ...]
    origins: tuple[int, ...]

    @classmethod
    def of(cls, query: Query) -> Draft:
        """The query as it is written."""
        return cls(query, query.text, query.tokens, tuple(range(len(query.tokens))))

    def edited(self, edits: Sequence[Edit]) -> Draft:
        """The text with some disjoint ranges replaced; those that start at one place in the order given."""
        parts: list[tuple[Part, int]] = []
        at = 0
        for edit in sorted(edits, key=lambda edit: edit.start):
            parts.append(((at, edit.start), 0))
            parts += [(part, edit.start) for part in edit.parts]
            at = edit.end
        parts.append(((at, len(self.text)), 0))
        starts, length = [], 0
        for part, _ in parts:
            starts.append(length)
            length += len(part) if isinstance(part, str) else part[1] - part[0]
        text = "".join(part if isinstance(part, str) else self.text[part[0] : part[1]] for part, _ in parts)
        tokens = tuple(tokenize(text))
        origins = []
        for token in tokens:
            index = bisect_right(starts, token.start) - 1
            part, made_at = parts[index]
            origins.append(self._origin(made_at if isinstance(part, str) else part[0] + token.start - starts[index]))
        return Draft(self.query, text, tokens, tuple(origins))

    def replaced(self, start: int, end: int, edits: Sequence[Edit]) -> tuple[Part, ...]:
        """What the text [start, end) is with the edits inside it made: parts of an edit that puts it elsewhere."""
        parts: list[Part] = []
        at = start
        for edit in sorted(edits, key=lambda edit: edit.start):
            parts += [(at, edit.start), *edit.parts]
            at = edit.end
        return (*parts, (at, end))

    def _origin(self, offset: int) -> int:
        """The origin of the token at an offset or before it."""
        index = bisect_right(self.tokens, offset, key=lambda token: token.start) - 1
        return self.origins[max(index, 0)]

    def place(self, at: int) -> str:
        """Where the token at a position was written, for people."""
        return self.query.place(self.query.tokens[self.origins[min(at, len(self.origins) - 1)]].start)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The range of text that the tokens [start, end) take."""
        return self.tokens[start].start, self.tokens[end - 1].end

    def written(self, start: int, end: int) -> str:
        """The text of the tokens [start, end)."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def fail(self, message: str, at: int) -> NoReturn:
        """Raise InvalidInput about the token at a position."""
        raise InvalidInput(f"{message} ({self.place(at)})")

    def expected(self, wanted: str, at: int) -> NoReturn:
        """Raise InvalidInput: what was expected instead of the token at a position."""
        if at >= len(self.tokens):
            raise InvalidInput(f"expected {wanted} at the end of the statement")
        self.fail(f"expected {wanted}, not {self.written(at, at + 1)!r}", at)
