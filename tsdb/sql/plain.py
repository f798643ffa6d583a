"""Binding the plainest SELECTs from their tokens, without a syntax tree.

    SELECT * | column [AS name], …  FROM table  [WHERE comparison AND …]
    [ORDER BY column [ASC | DESC] [NULLS FIRST | LAST], …]  [LIMIT n]  [OFFSET n]

where a comparison is ``column op constant``, BETWEEN, IN or IS NULL. This is most of what dashboards ask, at a tenth of the cost.
Whatever else a statement says — a word in another place, a name that is not a column, a constant in doubt — leaves it to the binder
of trees (``tsdb.sql.binder``), which binds all of these to the same plans.
"""

from __future__ import annotations

from collections.abc import Mapping

from tsdb.catalog.table import Table
from tsdb.plan.node import SortKey
from tsdb.plan.predicate import IsNull, Not, Predicate
from tsdb.sql import arithmetic, comparison
from tsdb.sql.constant import NULL, Constant, ConstantKind, number
from tsdb.sql.environment import Environment
from tsdb.sql.native import COUNT_MAX, UNSORTABLE, NativeSelect, TableReference
from tsdb.sql.statement import Query
from tsdb.sql.token import NUMBER, PARAMETER, QUOTED, STRING, WORD, Cursor, Token
from tsdb_format.schema import Column
from tsdb_format.types import Kind

K = ConstantKind
_OPERATORS = {"=": "=", "==": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
#: Words that are no plain names anywhere, and those that DuckDB reads as a value or call where a column may stand.
_NOT_NAMES = frozenset({
    "ALL", "AND", "ANTI", "ANY", "ARRAY", "AS", "ASC", "ASOF", "BETWEEN", "BOTH", "CASE", "CAST", "CHECK", "COLLATE", "COLUMN",
    "COLUMNS", "CONSTRAINT", "CREATE", "CROSS", "CURRENT_CATALOG", "CURRENT_DATE", "CURRENT_ROLE", "CURRENT_SCHEMA", "CURRENT_TIME",
    "CURRENT_TIMESTAMP", "CURRENT_USER", "DEFAULT", "DEFERRABLE", "DESC", "DESCRIBE", "DISTINCT", "DO", "ELSE", "END", "EXCEPT",
    "FALSE", "FETCH", "FOR", "FOREIGN", "FROM", "FULL", "GLOB", "GRANT", "GROUP", "HAVING", "ILIKE", "IN", "INITIALLY", "INNER",
    "INTERSECT", "INTO", "IS", "ISNULL", "JOIN", "LAMBDA", "LATERAL", "LEADING", "LEFT", "LIKE", "LIMIT", "LOCALTIME",
    "LOCALTIMESTAMP", "NATURAL", "NOT", "NOTNULL", "NULL", "NULLS", "OFFSET", "ON", "ONLY", "OR", "ORDER", "OUTER", "OVERLAPS",
    "PIVOT", "PIVOT_LONGER", "PIVOT_WIDER", "PLACING", "POSITIONAL", "PRIMARY", "QUALIFY", "REFERENCES", "RETURNING", "RIGHT",
    "SELECT", "SEMI", "SESSION_USER", "SHOW", "SIMILAR", "SOME", "SUMMARIZE", "SYMMETRIC", "TABLE", "TABLESAMPLE", "THEN", "TO",
    "TRAILING", "TRUE", "UNION", "UNIQUE", "UNPIVOT", "USER", "USING", "VARIADIC", "VERBOSE", "WHEN", "WHERE", "WINDOW", "WITH",
})  # fmt: skip
_END = Token("end", "", 0, 0)


class _NotPlain(Exception):
    """The statement is for the binder of trees."""


def bind_plain(query: Query, tables: Mapping[str, Table], environment: Environment) -> NativeSelect | None:
    """The whole of a plain SELECT, native; None where it is not so plain."""
    try:
        return _Reader(query, tables, environment).select()
    except _NotPlain:
        return None


class _Reader:
    def __init__(self, query: Query, tables: Mapping[str, Table], environment: Environment) -> None:
        self.text = query.text
        self.cursor = Cursor(query.text, list(query.tokens))
        self.tables = tables
        self.environment = environment

    def select(self) -> NativeSelect:
        """SELECT … FROM …, and the clauses that follow."""
        cursor = self.cursor
        self.take("SELECT")
        items = self.items()
        self.take("FROM")
        table = self.tables.get(self.name().lower())
        if table is None:
            raise _NotPlain
        reference = TableReference(table, table.name)
        made = NativeSelect(reference, outputs=_outputs(items, reference))
        if cursor.accept("WHERE"):
            made.predicates.append(self.condition(reference))
            while cursor.accept("AND"):
                made.predicates.append(self.condition(reference))
        if cursor.accept("ORDER"):
            self.take("BY")
            made.keys = self.keys(made, {shown.lower() for _, shown in items if shown is not None})
        if cursor.accept("LIMIT"):
            made.limit = self.count()
        if cursor.accept("OFFSET"):
            made.offset = self.count()
        if not cursor.done:
            raise _NotPlain
        return made

    def take(self, word: str) -> None:
        """Take a word."""
        if not self.cursor.accept(word):
            raise _NotPlain

    def symbol(self, symbol: str) -> None:
        """Take a mark."""
        if not self.cursor.accept_symbol(symbol):
            raise _NotPlain

    def next(self) -> Token:
        """Take a token."""
        if self.cursor.done:
            return _END
        self.cursor.at += 1
        return self.cursor.tokens[self.cursor.at - 1]

    def name(self) -> str:
        """Take a name that cannot be anything else."""
        token = self.next()
        if token.kind == QUOTED or (token.kind == WORD and token.upper not in _NOT_NAMES):
            return token.text
        raise _NotPlain

    def column(self, reference: TableReference) -> Column:
        """Take the name of a column."""
        found = reference.column(self.name())
        if found is None:
            raise _NotPlain
        return found

    def items(self) -> list[tuple[str | None, str | None]]:
        """(column, name shown if another) of each item; ``*`` alone is (None, None)."""
        if self.cursor.accept_symbol("*"):
            return [(None, None)]
        made: list[tuple[str | None, str | None]] = []
        while True:
            column = self.name()
            made.append((column, self.name() if self.cursor.accept("AS") else None))
            if not self.cursor.accept_symbol(","):
                return made

    def condition(self, reference: TableReference) -> Predicate:
        """One comparison."""
        cursor = self.cursor
        column = self.column(reference)
        made: Predicate | None
        if cursor.accept("IS"):
            negated = cursor.accept("NOT")
            self.take("NULL")
            made = Not(IsNull(column.name)) if negated else IsNull(column.name)
        elif cursor.accept("BETWEEN"):
            low = self.constant(column)
            self.take("AND")
            high = self.constant(column)
            made = comparison.between(column, low, high)
        elif cursor.accept("IN"):
            made = comparison.in_list(column, self.listed(column))
        else:
            operator = _OPERATORS.get(cursor.symbol())
            if operator is None:
                raise _NotPlain
            cursor.at += 1
            made = comparison.compare(column, operator, self.constant(column))
        if made is None:
            raise _NotPlain
        return made

    def listed(self, column: Column) -> list[Constant]:
        """The constants of an IN list."""
        self.symbol("(")
        made = [self.constant(column)]
        while self.cursor.accept_symbol(","):
            made.append(self.constant(column))
        self.symbol(")")
        return made

    def constant(self, column: Column) -> Constant:
        """A literal, a parameter, or now() with intervals added."""
        made = self.term()
        while self.cursor.symbol() in ("+", "-") and made is not None:
            sign = 1 if self.cursor.symbol() == "+" else -1
            self.cursor.at += 1
            self.take("INTERVAL")
            made = arithmetic.plus(made, self.interval(), sign)
        if made is None:
            raise _NotPlain
        if made.kind is K.TIMESTAMP and made.zoned and column.type.kind is Kind.TIMESTAMP_NS:
            self.environment.compared_zone = True
        return made

    def term(self) -> Constant | None:
        """One literal, parameter or now()."""
        token = self.next()
        if token.kind == NUMBER:
            return number(token.text)
        if token.kind == STRING:
            return Constant(K.TEXT, self.plain_text(token))
        if token.kind == PARAMETER:
            return self.environment.parameter(token.text[1:])
        if token.is_symbol("-") and not self.cursor.done and self.cursor.tokens[self.cursor.at].kind == NUMBER:
            return arithmetic.negated(number(self.next().text))
        match token.upper:
            case "TRUE" | "FALSE":
                return Constant(K.BOOLEAN, token.upper == "TRUE")
            case "NULL":
                return NULL
            case "NOW":
                self.symbol("(")
                self.symbol(")")
                return arithmetic.now(self.environment)
            case "TIMESTAMP":
                return arithmetic.to_timestamp(Constant(K.TEXT, self.plain_text(self.next())), 10**6)
            case "DATE":
                return arithmetic.to_date(Constant(K.TEXT, self.plain_text(self.next())))
        raise _NotPlain

    def plain_text(self, token: Token) -> str:
        """The value of a string in single quotes without a prefix."""
        if token.kind != STRING or self.text[token.start] != "'":
            raise _NotPlain
        return token.text

    def interval(self) -> Constant | None:
        """``INTERVAL 1 HOUR`` or ``INTERVAL '1 hour'``."""
        token = self.next()
        if token.kind == NUMBER:
            return arithmetic.interval(token.text, self.name())
        amount, _, unit = self.plain_text(token).strip().partition(" ")
        return arithmetic.interval(amount, unit.strip())

    def keys(self, made: NativeSelect, shown: set[str]) -> tuple[SortKey, ...]:
        """The columns of ORDER BY; a name given in the select list, or a position, is for the binder of trees."""
        keys: list[SortKey] = []
        while True:
            name = self.name()
            column = made.reference.column(name)
            if column is None or name.lower() in shown or column.type.kind in UNSORTABLE:
                raise _NotPlain
            descending = self.cursor.accept("DESC")
            if not descending:
                self.cursor.accept("ASC")
            first = self.cursor.accept("NULLS", "FIRST")
            if not first:
                self.cursor.accept("NULLS", "LAST")
            if all(key.column != column.name for key in keys):
                keys.append(SortKey(column.name, descending, first))
            if not self.cursor.accept_symbol(","):
                return tuple(keys)

    def count(self) -> int:
        """A number of rows, as a literal or a parameter."""
        made = self.term()
        if made is None or made.kind is not K.INTEGER or not 0 <= made.value <= COUNT_MAX:
            raise _NotPlain
        return int(made.value)


def _outputs(items: list[tuple[str | None, str | None]], reference: TableReference) -> list[tuple[str, str]]:
    """(name shown, column) of each item."""
    made: list[tuple[str, str]] = []
    for name, shown in items:
        if name is None:
            made += [(column.name, column.name) for column in reference.table.schema]
            continue
        column = reference.column(name)
        if column is None:
            raise _NotPlain
        made.append((shown or column.name, column.name))
    return made
