"""Tokens of SQL text, and a cursor over them for the statements that are ours rather than DuckDB's.

The tokenizer is sqlglot's for DuckDB; this module and those that parse queries are imported on first use, never by ``import tsdb``.
"""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from tsdb_format.errors import InvalidInput

#: The one dialect object; it holds no state between calls.
DIALECT = DuckDB()

_QUOTED = frozenset({TokenType.IDENTIFIER})
_VALUES = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.HEREDOC_STRING, TokenType.BYTE_STRING, TokenType.HEX_STRING})
OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})


def tokenize(text: str) -> list[Token]:
    """The tokens of ``text``; raises InvalidInput where a quote or comment does not end."""
    try:
        return list(DIALECT.tokenize(text))
    except TokenError as error:
        raise InvalidInput(f"the statement cannot be read: {str(error).splitlines()[0]}") from None


def is_word(token: Token) -> bool:
    """Whether a token is an unquoted word: a keyword or a name."""
    return token.token_type not in _VALUES and token.token_type not in _QUOTED and (token.text[:1].isalpha() or token.text[:1] == "_")


def is_name(token: Token) -> bool:
    """Whether a token can name something: a word, or a quoted identifier."""
    return token.token_type in _QUOTED or is_word(token)


class Cursor:
    """A position in a statement's tokens. Words are matched in any case; quoted identifiers are never keywords."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0

    @property
    def done(self) -> bool:
        """Whether every token was taken."""
        return self.at >= len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        """The upper-case word at the position, or '' where there is none."""
        at = self.at + ahead
        if at >= len(self.tokens) or not is_word(self.tokens[at]):
            return ""
        return self.tokens[at].text.upper()

    def symbol(self, ahead: int = 0) -> str:
        """The text of the token at the position unless it is a value or a quoted name."""
        at = self.at + ahead
        if at >= len(self.tokens) or self.tokens[at].token_type in _VALUES or self.tokens[at].token_type in _QUOTED:
            return ""
        return self.tokens[at].text

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def accept_symbol(self, symbol: str) -> bool:
        """Take this symbol if it comes next."""
        if self.symbol() == symbol:
            self.at += 1
            return True
        return False

    def expect(self, *words: str) -> None:
        """Take these words, or fail."""
        if not self.accept(*words):
            self.fail(" ".join(words))

    def expect_symbol(self, symbol: str) -> None:
        """Take this symbol, or fail."""
        if not self.accept_symbol(symbol):
            self.fail(repr(symbol))

    def name(self, what: str) -> str:
        """Take a name, quoted or not, as it is written."""
        if self.done or not is_name(self.tokens[self.at]):
            self.fail(what)
        self.at += 1
        return str(self.tokens[self.at - 1].text)

    def string(self, what: str) -> str:
        """Take a string literal."""
        if self.done or self.tokens[self.at].token_type is not TokenType.STRING:
            self.fail(what)
        self.at += 1
        return str(self.tokens[self.at - 1].text)

    def literal(self, what: str) -> object:
        """Take a string, a number with an optional sign, or a word such as true; the last as a string."""
        negative = self.accept_symbol("-")
        if self.done:
            self.fail(what)
        token = self.tokens[self.at]
        if token.token_type is TokenType.NUMBER:
            self.at += 1
            text = token.text.replace("_", "")
            number = int(text) if text.isdigit() else float(text)
            return -number if negative else number
        if negative or not (token.token_type is TokenType.STRING or is_name(token)):
            self.fail(what)
        self.at += 1
        return str(token.text)

    def end(self) -> None:
        """Fail unless every token was taken."""
        if not self.done:
            self.fail("the end of the statement")

    def fail(self, wanted: str) -> None:
        """Raise InvalidInput: what was expected, what stands there instead, and where."""
        if self.done:
            raise InvalidInput(f"expected {wanted} at the end of the statement")
        token = self.tokens[self.at]
        found = self.text[token.start : token.end + 1]
        raise InvalidInput(f"expected {wanted}, not {found!r} (line {token.line}, column {token.start - self._line_start(token) + 1})")

    def _line_start(self, token: Token) -> int:
        return self.text.rfind("\n", 0, token.start) + 1
