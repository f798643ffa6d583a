"""The sqlglot dialect ``tsdb``: DuckDB's parser with a tokenizer of our own.

sqlglot's ``duckdb`` dialect brings its SQL generator along, a fifth of what sqlglot costs a fresh process; nothing here makes SQL.
Our own statements never come here (``tsdb.sql.reader``), and what this dialect cannot parse, DuckDB runs as it is written.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import tokens
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType


class Tsdb(Dialect):
    """How queries are read: DuckDB's lexical rules, and the switches of its grammar that change a tree."""

    NULL_ORDERING = "nulls_are_last"
    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_INSENSITIVE
    SUPPORTS_USER_DEFINED_TYPES = True
    SUPPORTS_FIXED_SIZE_ARRAYS = True
    SUPPORTS_ORDER_BY_ALL = True
    SUPPORTS_LIMIT_ALL = True
    STRICT_JSON_PATH_SYNTAX = False
    NUMBERS_CAN_BE_UNDERSCORE_SEPARATED = True
    INDEX_OFFSET = 1

    parser_class = DuckDBParser  # type: ignore[assignment]

    class Tokenizer(tokens.Tokenizer):
        """DuckDB's strings, operators and type names."""

        BYTE_STRINGS: ClassVar = [("e'", "'"), ("E'", "'")]
        BYTE_STRING_ESCAPES: ClassVar = ["'", "\\"]
        HEREDOC_STRINGS: ClassVar = ["$"]
        HEREDOC_TAG_IS_IDENTIFIER = True
        HEREDOC_STRING_ALTERNATIVE = TokenType.PARAMETER
        SINGLE_TOKENS: ClassVar = {**tokens.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}
        VAR_SINGLE_TOKENS: ClassVar = {"$"}
        KEYWORDS: ClassVar = {
            **{word: token for word, token in tokens.Tokenizer.KEYWORDS.items() if word not in ("/*+", "SORT BY")},
            "//": TokenType.DIV,
            "**": TokenType.DSTAR,
            "^@": TokenType.CARET_AT,
            "@>": TokenType.AT_GT,
            "<@": TokenType.LT_AT,
            "BINARY": TokenType.VARBINARY,
            "BPCHAR": TokenType.TEXT,
            "CHAR": TokenType.TEXT,
            "DATETIME": TokenType.TIMESTAMPNTZ,
            "INT8": TokenType.BIGINT,
            "LOGICAL": TokenType.BOOLEAN,
            "PIVOT_WIDER": TokenType.PIVOT,
            "POSITIONAL": TokenType.POSITIONAL,
            "ROW": TokenType.STRUCT,
            "SIGNED": TokenType.INT,
            "STRING": TokenType.TEXT,
            "SUMMARIZE": TokenType.SUMMARIZE,
            "TIMESTAMP": TokenType.TIMESTAMPNTZ,
            "TIMESTAMP_MS": TokenType.TIMESTAMP_MS,
            "TIMESTAMP_NS": TokenType.TIMESTAMP_NS,
            "TIMESTAMP_S": TokenType.TIMESTAMP_S,
            "TIMESTAMP_US": TokenType.TIMESTAMP,
            "UBIGINT": TokenType.UBIGINT,
            "UINTEGER": TokenType.UINT,
            "USMALLINT": TokenType.USMALLINT,
            "UTINYINT": TokenType.UTINYINT,
            "VARCHAR": TokenType.TEXT,
        }
