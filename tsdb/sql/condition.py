"""WHERE conditions as predicates that scans evaluate.

A condition is bound only when the predicate means exactly what DuckDB means by the text. Each conjunct stands for itself: one in
doubt is left out and stays DuckDB's work, over a scan that applies the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from tsdb.plan.predicate import And, Compare, IsNull, Like, Member, Not, Or, Predicate, members_in
from tsdb.plan.predicate import Constant as Truth
from tsdb.plan.schema import duckdb_name
from tsdb.quoting import quoted_text
from tsdb.sql import comparison
from tsdb.sql.constant import Constant, ConstantKind
from tsdb.sql.environment import Environment
from tsdb.sql.literal import fold, only
from tsdb_format.schema import Column
from tsdb_format.types import Kind

K = ConstantKind
Resolve = Callable[[exp.Column], Column | None]
Compute = Callable[[exp.Expr], Column | None]
OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip


def nothing_computed(node: exp.Expr) -> Column | None:
    """No expression is a column."""
    del node
    return None


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition that must all be true."""
    return iter(()) if condition is None else operands(condition, exp.And)


def operands(condition: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The operands of a chain of ANDs or ORs in order, through parentheses; chains of thousands are left-deep trees."""
    waiting = [condition]
    while waiting:
        node = inner = waiting.pop()
        while isinstance(inner, exp.Paren) and only(inner, "this"):
            inner = inner.this
        if type(inner) is kind and only(inner, "this", "expression"):
            waiting += [inner.args["expression"], inner.this]
        else:
            yield node


def result_set_of(node: exp.In) -> str | None:
    """The table of ``x IN (SELECT … FROM table)``, which is how result sets are referred to; None where more is said."""
    inner = node.args.get("query")
    inner = inner.this if isinstance(inner, exp.Subquery) and only(inner, "this") else inner
    if not isinstance(inner, exp.Select) or not only(inner, "expressions", "from_"):
        return None
    table = inner.args["from_"].this if inner.args.get("from_") is not None else None
    return table.name if isinstance(table, exp.Table) and only(table, "this") else None


def reads_result_set(node: exp.Expr, environment: Environment) -> bool:
    """Whether a subquery is what stands for a result set after IN."""
    parent = node.parent
    while isinstance(parent, exp.Subquery):
        parent = parent.parent
    return isinstance(parent, exp.In) and result_set_of(parent) in environment.members


def tuple_of(node: exp.Expr) -> list[exp.Expr]:
    """The operands of ``(a, b)``; of anything else, itself."""
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


class ConditionBinder:
    """Binds conditions over the columns that ``resolve`` knows, and those that ``compute`` makes of expressions."""

    def __init__(self, resolve: Resolve, environment: Environment, compute: Compute = nothing_computed) -> None:
        self._resolve = resolve
        self._environment = environment
        self._compute = compute

    def bind(self, node: exp.Expr) -> Predicate | None:
        """The predicate of one condition; None where it is in doubt."""
        match node:
            case exp.Paren() if only(node, "this"):
                return self.bind(node.this)
            case exp.And() | exp.Or() if only(node, "this", "expression"):
                parts: list[Predicate] = []
                for operand in operands(node, type(node)):
                    part = self.bind(operand)
                    if part is None:
                        return None
                    parts.append(part)
                return And(tuple(parts)) if isinstance(node, exp.And) else Or(tuple(parts))
            case exp.Not() if only(node, "this"):
                inner = self.bind(node.this)
                return None if inner is None or any(len(m.columns) > 1 for m in members_in(inner)) else Not(inner)
            case exp.Boolean() | exp.Null():
                return Truth(None if isinstance(node, exp.Null) else bool(node.this))
            case exp.Column():
                return self._flag(node)
            case exp.Between() if only(node, "this", "low", "high"):
                return self._between(node)
            case exp.In() if only(node, "this", "expressions"):
                return self._in(node)
            case exp.In() if only(node, "this", "query"):
                return self._in_result_set(node)
            case exp.Is() if only(node, "this", "expression"):
                return self._is(node)
            case exp.NullSafeEQ() | exp.NullSafeNEQ() if only(node, "this", "expression"):
                return self._distinct(node)
            case exp.Like() if type(node) is exp.Like and only(node, "this", "expression", "negate"):
                return self._like(node)
        if type(node) in OPERATORS and only(node, "this", "expression"):
            return self._compare(node, OPERATORS[type(node)])
        return None

    def _column(self, node: exp.Expr | None) -> Column | None:
        while isinstance(node, exp.Paren) and only(node, "this"):
            node = node.this
        if node is None or isinstance(node, exp.Column):
            return None if node is None else self._resolve(node)
        return self._compute(node)

    def _flag(self, node: exp.Column) -> Predicate | None:
        column = self._resolve(node)
        return Compare(column.name, "=", True) if column is not None and column.type.kind is Kind.BOOLEAN else None

    def _constant(self, node: exp.Expr | None, column: Column) -> Constant | None:
        """A constant as it is compared with ``column``; a text that only DuckDB can read as the column's type is read by it."""
        made = fold(node, self._environment)
        if made is None and node is not None:
            made = self._environment.fold_tree(node)
        if made is None:
            return None
        if made.kind is K.TIMESTAMP and made.zoned and column.type.kind is Kind.TIMESTAMP_NS:
            self._environment.compared_zone = True
        if (
            made.kind is K.TEXT
            and column.type.kind not in (Kind.STRING, Kind.BLOB)
            and comparison.compare(column, "=", made) is None
        ):
            cast = f"CAST({quoted_text(made.value)} AS {duckdb_name(column.type)})"
            return self._environment.fold_text(f"CAST({cast} AS DOUBLE)" if column.type.kind is Kind.FLOAT else cast)
        return made

    def _compare(self, node: exp.Expr, op: str) -> Predicate | None:
        left, right = node.this, node.expression
        column = self._column(left)
        if column is None:
            column, left, right, op = self._column(right), right, left, comparison.flipped(op)
        if column is None:
            return self._compare_constants(node)
        constant = self._constant(right, column)
        return None if constant is None else comparison.compare(column, op, constant)

    def _compare_constants(self, node: exp.Expr) -> Predicate | None:
        """``1 = 1`` and the like."""
        left, right = fold(node.this, self._environment), fold(node.expression, self._environment)
        if left is None or right is None or left.kind is not right.kind or left.kind not in (K.INTEGER, K.TEXT, K.BOOLEAN):
            return None
        a, b = left.value, right.value
        if left.kind is K.TEXT:
            a, b = a.encode(), b.encode()
        outcomes = {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
        return Truth(bool(outcomes[OPERATORS[type(node)]]))

    def _between(self, node: exp.Between) -> Predicate | None:
        column = self._column(node.this)
        if column is None:
            return None
        ends = [fold(node.args[name], self._environment) for name in ("low", "high")]
        if len({end is not None and end.kind is K.TEXT for end in ends if end is None or end.kind is not K.NULL}) > 1:
            return None  # a text takes the type of all three
        low, high = self._constant(node.args["low"], column), self._constant(node.args["high"], column)
        return None if low is None or high is None else comparison.between(column, low, high)

    def _in(self, node: exp.In) -> Predicate | None:
        column = self._column(node.this)
        if column is None or not node.expressions:
            return None
        constants = []
        for item in node.expressions:
            constant = fold(item, self._environment)
            if constant is None:
                return None
            constants.append(constant)
        return comparison.in_list(column, constants)

    def implied(self, node: exp.Expr) -> Predicate | None:
        """What a condition implies that is not bound as it is: of a large result set, that a row may be a member."""
        while isinstance(node, exp.Paren) and only(node, "this"):
            node = node.this
        return self._in_result_set(node, wide=True) if isinstance(node, exp.In) and only(node, "this", "query") else None

    def _in_result_set(self, node: exp.In, *, wide: bool = False) -> Predicate | None:
        """``(columns) IN (SELECT … FROM the table of a result set)``; other subqueries are in doubt."""
        name = result_set_of(node)
        if name is None or name not in self._environment.members:
            return None
        members = self._environment.members[name]
        if members is None:
            return Truth(False)  # also for a NULL
        from tsdb.resultset.member_set import are_members_comparable

        columns = [self._column(operand) for operand in tuple_of(node.this)]
        found = [column for column in columns if column is not None]
        fit = len(found) == len(columns) == len(members.types)
        if not fit or not all(are_members_comparable(c.type, kind) for c, kind in zip(found, members.types, strict=True)):
            return None
        return Member(tuple(column.name for column in found), members) if wide or not members.is_large else None

    def _is(self, node: exp.Is) -> Predicate | None:
        column = self._column(node.this)
        if column is None:
            return None
        if isinstance(node.expression, exp.Null):
            return IsNull(column.name)
        if isinstance(node.expression, exp.Boolean) and column.type.kind is Kind.BOOLEAN:
            return And((Not(IsNull(column.name)), Compare(column.name, "=", bool(node.expression.this))))
        return None

    def _distinct(self, node: exp.Expr) -> Predicate | None:
        """IS [NOT] DISTINCT FROM a constant: never NULL."""
        column, other = self._column(node.this), node.expression
        if column is None:
            column, other = self._column(node.expression), node.this
        constant = None if column is None else self._constant(other, column)
        if column is None or constant is None:
            return None
        if constant.kind is K.NULL:
            same: Predicate = IsNull(column.name)
        else:
            equal = comparison.compare(column, "=", constant)
            if equal is None:
                return None
            same = And((Not(IsNull(column.name)), equal))
        return same if isinstance(node, exp.NullSafeEQ) else Not(same)

    def _like(self, node: exp.Like) -> Predicate | None:
        column, pattern = self._column(node.this), fold(node.expression, self._environment)
        if column is None or pattern is None or column.type.kind is not Kind.STRING or pattern.kind not in (K.TEXT, K.VARCHAR):
            return None
        found = Like(column.name, pattern.value)
        return Not(found) if node.args.get("negate") else found
