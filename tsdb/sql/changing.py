"""What SQL computes otherwise each time it is asked: by the moment, by chance, by a counter.

What is decided once and relied on later, the shard of a row or the keys of a join, must be the same for equal rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.sql.token import Token

#: Words that need no parentheses.
_WORDS = frozenset({
    "TODAY", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_LOCALTIME", "CURRENT_LOCALTIMESTAMP", "LOCALTIME",
    "LOCALTIMESTAMP",
})  # fmt: skip
_FUNCTIONS = frozenset({
    "NOW", "TRANSACTION_TIMESTAMP", "GET_CURRENT_TIMESTAMP", "GET_CURRENT_TIME", "RANDOM", "RAND", "SETSEED", "UUID", "UUIDV4",
    "UUIDV7", "GEN_RANDOM_UUID", "NEXTVAL", "CURRVAL",
    "CURRENT_CONNECTION_ID", "CURRENT_QUERY", "CURRENT_QUERY_ID", "CURRENT_TRANSACTION_ID",
})  # fmt: skip


def changing_token(tokens: Sequence[Token]) -> Token | None:
    """The first token by which a text may be one whose value changes: such a word, or the call of such a function."""
    for at, token in enumerate(tokens):
        called = at + 1 < len(tokens) and tokens[at + 1].is_symbol("(")
        if token.upper in _WORDS or (called and token.upper in _FUNCTIONS):
            return token
    return None
