"""DELETE, DELETE DEVICES, TRUNCATE, UPDATE and SHOW DEVICES as text: a table, what to do with it, and a condition.

The condition and the expressions stay as they are written, to be bound as parts of a query (``tsdb.sql.modify``), so that they mean
what they mean there. That they are whole, with every parenthesis of their own, is checked here.
"""

from __future__ import annotations

from tsdb.sql.nesting import nesting
from tsdb.sql.statement import Delete, DeleteDevices, Query, ShowDevices, Update
from tsdb.sql.token import Cursor
from tsdb_format.errors import InvalidInput

#: Words behind a table's name that are no alias of it.
_NO_ALIAS = frozenset({"WHERE", "USING", "SET", "RETURNING", "FROM", "ORDER", "LIMIT", "GROUP", "JOIN", "ON"})
#: Clauses of a query, which a condition ends before; none of them can name a column without quotes.
_CLAUSES = frozenset({
    "EXCEPT", "FETCH", "GROUP", "HAVING", "INTERSECT", "LIMIT", "OFFSET", "ORDER", "QUALIFY", "RETURNING", "UNION", "WHERE",
    "WINDOW",
})  # fmt: skip


def read_delete(query: Query) -> Delete | DeleteDevices:
    """DELETE [DEVICES] FROM t [AS x] [WHERE …]."""
    cursor = _cursor(query)
    cursor.expect("DELETE")
    devices = cursor.accept("DEVICES")
    cursor.expect("FROM")
    table, alias = _read_target(cursor)
    if cursor.word() == "USING":
        raise InvalidInput("USING is not known: name the other table in a subquery, WHERE host IN (SELECT host FROM …)")
    condition = _read_condition(cursor)
    return DeleteDevices(table, alias, condition, query) if devices else Delete(table, alias, condition, query)


def read_truncate(query: Query) -> Delete:
    """TRUNCATE [TABLE] t."""
    cursor = _cursor(query)
    cursor.expect("TRUNCATE")
    cursor.accept("TABLE")
    table = cursor.relation("a table name")
    cursor.end()
    return Delete(table, table, None, query)


def read_update(query: Query) -> Update:
    """UPDATE t [AS x] SET column = expression, … [WHERE …]."""
    cursor = _cursor(query)
    cursor.expect("UPDATE")
    table, alias = _read_target(cursor)
    cursor.expect("SET")
    assignments: dict[str, tuple[str, str]] = {}
    while True:
        column = cursor.name("the name of an attribute")
        if cursor.symbol() == ".":
            raise InvalidInput(f"SET names the column alone, without {column!r}")
        cursor.expect_symbol("=")
        if column.lower() in assignments:
            raise InvalidInput(f"column {column!r} is set twice")
        text = _read_expression(cursor, column)
        assignments[column.lower()] = (column, "NULL" if text.upper() == "DEFAULT" else text)
        if not cursor.accept_symbol(","):
            break
    if cursor.word() == "FROM":
        raise InvalidInput("UPDATE … FROM is not known: name the other table in a subquery, SET a = (SELECT …)")
    return Update(table, alias, tuple(assignments.values()), _read_condition(cursor), query)


def read_show_devices(query: Query) -> ShowDevices:
    """SHOW DEVICES FROM t [AS x] [WHERE …] [LIMIT n] [OFFSET n]."""
    tokens, depth, end = list(query.tokens), 0, len(query.tokens)
    for at, token in enumerate(tokens):
        depth += nesting(token)
        if depth == 0 and token.upper in ("LIMIT", "OFFSET"):
            end = at
            break
    cursor = Cursor(query.text, tokens[:end])
    cursor.expect("SHOW", "DEVICES", "FROM")
    table, alias = _read_target(cursor)
    condition = _read_condition(cursor)
    cursor = Cursor(query.text, tokens[end:])
    limit = _count(cursor) if cursor.accept("LIMIT") else None
    offset = _count(cursor) if cursor.accept("OFFSET") else 0
    cursor.end()
    return ShowDevices(table, alias, condition, query, limit, offset)


def _count(cursor: Cursor) -> int:
    """A number of rows."""
    at = cursor.at
    value = cursor.literal("a number of devices")
    if not isinstance(value, int) or value < 0:
        cursor.at = at
        cursor.fail("a number of devices")
    return value


def _cursor(query: Query) -> Cursor:
    return Cursor(query.text, list(query.tokens))


def _read_target(cursor: Cursor) -> tuple[str, str]:
    """A table's name, and what the condition may call it."""
    table = cursor.relation("a table name")
    if cursor.accept("AS"):
        return table, cursor.name("an alias")
    named = not cursor.done and cursor.tokens[cursor.at].is_name and cursor.word() not in _NO_ALIAS
    return table, cursor.name("an alias") if named else table


def _read_condition(cursor: Cursor) -> str | None:
    """The text behind WHERE, up to the end of the statement."""
    start = None
    if cursor.accept("WHERE"):
        start = cursor.at
        _skip(cursor, frozenset())
        if cursor.at == start:
            cursor.fail("a condition")
    if cursor.word() == "RETURNING":
        raise InvalidInput("RETURNING is not known: the statement answers how much it changed")
    if not cursor.done:
        cursor.fail("WHERE" if start is None else "the end of the condition")
    return None if start is None else _text(cursor, start)


def _read_expression(cursor: Cursor, column: str) -> str:
    start = cursor.at
    _skip(cursor, frozenset({"FROM"}))
    if cursor.at == start:
        cursor.fail(f"a value for {column}")
    return _text(cursor, start)


def _skip(cursor: Cursor, words: frozenset[str]) -> None:
    """Go to the end of an expression: a comma, a clause, one of the words, or a parenthesis that it did not open."""
    depth = 0
    while not cursor.done:
        token = cursor.tokens[cursor.at]
        depth += nesting(token)
        distinct = token.upper == "FROM" and cursor.tokens[cursor.at - 1].upper == "DISTINCT"  # IS DISTINCT FROM
        ends = (token.upper in _CLAUSES or token.upper in words) and not distinct
        if depth < 0 or (depth == 0 and (ends or token.is_symbol(","))):
            return
        cursor.at += 1
    if depth:
        cursor.fail("')'")


def _text(cursor: Cursor, start: int) -> str:
    return cursor.text[cursor.tokens[start].start : cursor.tokens[cursor.at - 1].end]
