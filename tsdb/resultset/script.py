"""Scripts: a multi-query as SQL.

    RESULT SET hosts AS (SELECT host FROM alarms WHERE level > 3);
    RESULT SET racks AS (SELECT rack FROM machine WHERE host IN RESULT SET hosts);
    SELECT * FROM temperature WHERE rack IN RESULT SET racks ORDER BY time;

A set's members are the rows of its SELECT, which is any SELECT and means what it says, a LIMIT too. Its columns are compared in
order with what stands before IN: ``(rack, slot) IN RESULT SET places``. Every other statement is a query, or SET, which holds for
the whole script.
"""

from __future__ import annotations

from collections.abc import Iterator

from tsdb.resultset.request import Declaration, Request, Step
from tsdb.sql.reader import read_query, read_tokens
from tsdb.sql.statement import SetSetting
from tsdb.sql.token import Cursor, Token, begins_script, place, tokenize
from tsdb_format.errors import InvalidInput


def read_script(text: str) -> Request:
    """A request from SQL; raises InvalidInput with line and column."""
    steps: list[Step] = []
    settings: dict[str, object] = {}
    queries = 0
    for tokens in _statements(tokenize(text)):
        where = place(text, tokens[0].start)
        if begins_script(tokens):
            steps.append(Step("", where, None, (_declaration(text, tokens, where),)))
        elif tokens[0].upper in ("SET", "RESET"):
            statement = read_tokens(text, tokens)
            if not isinstance(statement, SetSetting) or statement.value is None:
                raise InvalidInput(f"a script sets a setting with SET name = value ({where})")
            settings[statement.name] = statement.value
        else:
            queries += 1
            steps.append(Step(f"query_{queries}", where, read_query(text, tokens)))
    if not steps:
        raise InvalidInput("there is no statement to run")
    return Request(tuple(steps), settings)


def _declaration(text: str, tokens: list[Token], where: str) -> Declaration:
    cursor = Cursor(text, tokens)
    cursor.expect("RESULT", "SET")
    name = cursor.name("the name of a result set")
    cursor.expect("AS")
    cursor.expect_symbol("(")
    if not tokens[-1].is_symbol(")") or cursor.at >= len(tokens) - 1:
        raise InvalidInput(f"RESULT SET {name} takes a query in parentheses and nothing behind it ({where})")
    return Declaration(name, read_query(text, tokens[cursor.at : -1]), where)


def _statements(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement."""
    found: list[Token] = []
    for token in tokens:
        if not token.is_symbol(";"):
            found.append(token)
        elif found:
            yield found
            found = []
    if found:
        yield found
