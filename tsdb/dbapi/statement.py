"""What PEP 249 writes otherwise than tsdb: parameters named with a colon, and one INSERT for many sets of parameters."""

from __future__ import annotations

from collections.abc import Mapping

from tsdb.sql.token import PARAMETER, SYMBOL, WORD, read_tokens, tokenize
from tsdb_format.errors import InvalidInput


def first_word(text: str) -> str:
    """The word that a statement starts with, in upper case."""
    try:
        return next((token.upper for token in read_tokens(text)), "")
    except InvalidInput:
        return ""


def with_named(text: str, names: Mapping[str, object]) -> str:
    """The text with ``:name`` written as ``$name``, for the names given.

    A colon that means something else stays, as one right behind a value does: ``list[1:n]``, ``{'n':n}``.
    """
    try:
        tokens = tokenize(text)
    except InvalidInput:
        return text
    pieces, at = [], 0
    behind = -1  # where a value ends
    for token, following in zip(tokens, tokens[1:], strict=False):
        alone = token.is_symbol(":") and token.start != behind
        behind = token.end if token.kind != SYMBOL or token.is_symbol(")", "]") else -1
        if alone and following.kind == WORD and token.end == following.start and following.text in names:
            pieces += [text[at : token.start], "$"]
            at = token.end
    return "".join(pieces) + text[at:]


def for_rows(text: str, width: int, count: int) -> str | None:
    """``INSERT … VALUES (?, …)`` with its row of ``width`` parameters ``count`` times; None for other statements."""
    try:
        tokens = tokenize(text)
    except InvalidInput:
        return None
    while tokens and tokens[-1].is_symbol(";"):
        tokens.pop()
    start = len(tokens) - 2 * width - 1
    if width == 0 or start < 3 or tokens[0].upper != "INSERT" or tokens[start - 1].upper != "VALUES":
        return None
    row = tokens[start:]
    plain = row[0].is_symbol("(") and row[-1].is_symbol(")") and all(mark.is_symbol(",") for mark in row[2:-1:2])
    if not plain or not all(token.kind == PARAMETER and token.text == "?" for token in row[1::2]):
        return None
    shown = "(" + ", ".join("?" * width) + ")"
    return text[: row[0].start] + ", ".join([shown] * count)
