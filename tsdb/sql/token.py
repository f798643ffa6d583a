"""Tokens of SQL text with their places in it, and a cursor over them for the statements that are ours rather than DuckDB's.

A light reader of DuckDB's lexical rules. It finds statements, clauses and places in the text; what a query means is decided by
sqlglot's tree (``tsdb.sql.tree``) and by DuckDB, never by these tokens alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from tsdb_format.errors import InvalidInput, NotFound

WORD, QUOTED, STRING, NUMBER, PARAMETER, SYMBOL = "word", "quoted", "string", "number", "parameter", "symbol"

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      | (?P<comment>/\*)
      | (?P<string>[eE]'(?:[^'\\]|\\.|'')*'|[xXbB]?'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$)
      | (?P<parameter>\?[0-9]*|\$[0-9]+|\$[A-Za-z_]\w*)
      | (?P<number>0[xX][0-9A-Fa-f_]+|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<symbol><=>|->>|<>|<=|>=|!=|==|::|:=|->|=>|\|\||\*\*|//|!~~\*|!~~|~~\*|~~|!~|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """One token: ``text`` is what it says (a name or string without its quotes), [start, end) its place in the statement."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The word in upper case, '' for anything else."""
        return self.text.upper() if self.kind == WORD else ""

    @property
    def is_name(self) -> bool:
        """Whether the token can name something: a word, or a quoted identifier."""
        return self.kind in (WORD, QUOTED)

    def is_symbol(self, *symbols: str) -> bool:
        """Whether the token is one of these operators or marks."""
        return self.kind == SYMBOL and self.text in symbols


def tokenize(text: str) -> list[Token]:
    """The tokens of ``text``, comments left out; raises InvalidInput where a quote or comment does not end, or it is no UTF-8."""
    return list(read_tokens(text))


def begins_script(tokens: Sequence[Token]) -> bool:
    """Whether RESULT SET is defined first, for a query behind it."""
    return len(tokens) > 1 and tokens[0].upper == "RESULT" and tokens[1].upper == "SET"


def split_statements(text: str) -> Iterator[str]:
    """The statements of a script as they are written; what a quote that does not end hides is one statement.

    Definitions of result sets belong to the query behind them.
    """
    start, filled = 0, False
    first: list[Token] = []
    with suppress(InvalidInput):
        for token in read_tokens(text):
            if not token.is_symbol(";"):
                filled = True
                first += [token] if len(first) < 2 else []
                continue
            if not begins_script(first):
                if filled:
                    yield text[start : token.start].strip()
                start, filled = token.end, False
            first = []
        if not filled:
            return
    yield text[start:].strip()


def is_whole(text: str) -> bool:
    """Whether every statement of a script is ended, by a semicolon outside of quotes and comments, and no query is missing."""
    last = None
    first: list[Token] = []
    with suppress(InvalidInput):
        for token in read_tokens(text):
            if last is not None and last.is_symbol(";"):
                first = []
            first += [token] if len(first) < 2 else []
            last = token
        return last is None or (last.is_symbol(";") and not begins_script(first))
    return False


def read_tokens(text: str) -> Iterator[Token]:
    """As ``tokenize``, one at a time."""
    refuse_surrogates(text)
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None  # the last alternative takes any character
        kind, end, value = found.lastgroup or SYMBOL, found.end(), found[0]
        if kind == "comment":
            at = _comment_end(text, at)
            continue
        if kind == "dollar":
            close = text.find(value, end)
            if close < 0:
                _unterminated(text, at, "string")
            value, end, kind = text[end:close], close + len(value), STRING
        elif kind == STRING:
            value = _string_value(value)
        elif kind == QUOTED:
            value = value[1:-1].replace('""', '"')
        elif value in ("'", '"'):
            _unterminated(text, at, "string" if value == "'" else "quoted name")
        if kind != "space":
            yield Token(kind, value, at, end)
        at = end


def _string_value(raw: str) -> str:
    """The value of a plain string; an escaped, hexadecimal or bit string stays as it is written, for DuckDB to read."""
    return raw[1:-1].replace("''", "'") if raw[0] == "'" else raw


def _comment_end(text: str, at: int) -> int:
    depth, end = 1, at + 2
    while depth:
        mark = _COMMENT_MARK.search(text, end)
        if mark is None:
            _unterminated(text, at, "comment")
        depth += 1 if mark[0] == "/*" else -1
        end = mark.end()
    return end


def refuse_surrogates(text: str) -> None:
    """Raise InvalidInput for text that cannot be UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"half a character, {text[error.start]!r}, is no text ({place(text, error.start)})") from None


def _unterminated(text: str, at: int, what: str) -> NoReturn:
    raise InvalidInput(f"the {what} that starts at {place(text, at)} does not end")


def place(text: str, at: int) -> str:
    """A place in a statement, for people."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"


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
        return self.tokens[at].upper if at < len(self.tokens) else ""

    def symbol(self, ahead: int = 0) -> str:
        """The operator or mark at the position, or '' where there is none."""
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) and self.tokens[at].kind == SYMBOL else ""

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
        for word in words:
            if not self.accept(word):
                self.fail(word)

    def expect_symbol(self, symbol: str) -> None:
        """Take this symbol, or fail."""
        if not self.accept_symbol(symbol):
            self.fail(repr(symbol))

    def name(self, what: str) -> str:
        """Take a name, quoted or not, as it is written."""
        if self.done or not self.tokens[self.at].is_name:
            self.fail(what)
        self.at += 1
        return self.tokens[self.at - 1].text

    def relation(self, what: str) -> str:
        """Take the name of a table or view, behind that of the one schema or not."""
        if not self.done and self.tokens[self.at].is_name and self.symbol(1) == ".":
            schema = self.tokens[self.at]
            if schema.text.lower() != "main":
                raise NotFound(f"no schema {schema.text!r}: a database has one, main ({place(self.text, schema.start)})")
            self.at += 2
        return self.name(what)

    def literal(self, what: str) -> object:
        """Take a string, a number with an optional sign, or a word such as true; the last as a string."""
        negative = self.accept_symbol("-")
        token = Token(SYMBOL, "", 0, 0) if self.done else self.tokens[self.at]
        if token.kind == NUMBER:
            self.at += 1
            text = token.text.replace("_", "")
            number = int(text) if text.isdigit() else float(text)
            return -number if negative else number
        if negative or not (token.kind == STRING or token.is_name):
            self.fail(what)
        self.at += 1
        return token.text

    def end(self) -> None:
        """Fail unless every token was taken."""
        if not self.done:
            self.fail("the end of the statement")

    def fail(self, wanted: str) -> NoReturn:
        """Raise InvalidInput: what was expected, what stands there instead, and where."""
        if self.done:
            raise InvalidInput(f"expected {wanted} at the end of the statement")
        token = self.tokens[self.at]
        raise InvalidInput(f"expected {wanted}, not {self.text[token.start : token.end]!r} ({place(self.text, token.start)})")
