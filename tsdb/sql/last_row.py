"""Questions for the newest (or oldest) rows of every device or group of devices, in the forms that SQL has for them.

    SELECT DISTINCT ON (host) … ORDER BY host, time DESC
    SELECT … QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC) <= n
    SELECT … FROM (SELECT …, row_number() OVER (PARTITION BY host ORDER BY time DESC) AS rn FROM t) WHERE rn <= n
    … LATERAL (SELECT … FROM t WHERE t.host = h.host ORDER BY time DESC LIMIT n)

Each can only show rows that a ``LastRow`` over the tags gives, so it may read these in place of its table, whatever else it says of
them. That holds where WHERE is native as a whole, since the newest rows are those of the rows that WHERE leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import LastRow, TableScan
from tsdb.plan.predicate import Predicate, conjunction
from tsdb.sql.condition import ConditionBinder, conjuncts
from tsdb.sql.constant import ConstantKind
from tsdb.sql.environment import Environment
from tsdb.sql.literal import fold, only
from tsdb.sql.native import NativeSelect, Newest, TableReference
from tsdb.sql.scope import OTHER, join_effect
from tsdb.sql.select import bind_counts, bind_rows, column_of, plain_table, single_table
from tsdb_format.schema import Column
from tsdb_format.types import Kind, Role

#: More rows of each device than that are no question for the newest ones.
_ROWS_MAX = 10_000
_ROWWISE = ("expressions", "from_", "where", "order", "limit", "offset")


@dataclass(frozen=True, slots=True)
class _Window:
    """``row_number() OVER (PARTITION BY tags ORDER BY time)``."""

    tags: tuple[str, ...]
    oldest: bool


def bind_last_row(select: exp.Select, tables: Mapping[str, Table], environment: Environment) -> NativeSelect | None:
    """What of a SELECT of the newest rows can be native; None where it asks for anything else."""
    reference = single_table(select, tables)
    newest = None if reference is None or not select.expressions else _newest(select, reference, environment)
    if reference is None or newest is None:
        return None
    made = bind_rows(select, reference, environment)
    made.newest = newest
    return made


def _newest(select: exp.Select, reference: TableReference, environment: Environment) -> Newest | None:
    """The rows that DISTINCT ON, or QUALIFY and nothing but a row number in it, asks for."""
    if select.args.get("distinct") is not None and only(select, *_ROWWISE, "distinct"):
        return _distinct_on(select, reference)
    if select.args.get("qualify") is not None and only(select, *_ROWWISE, "qualify"):
        parts = list(conjuncts(select.args["qualify"].this))
        found = _numbered(parts[0], _windows(select, reference), reference, environment) if len(parts) == 1 else None
        exact = found is not None and (found.limit == 1 or not isinstance(parts[0].unnest(), exp.EQ))
        return found if exact else None  # that number 2 is shown does not mean that number 1 is
    return None


def reduced_input(select: exp.Select, tables: Mapping[str, Table], environment: Environment) -> tuple[exp.Table, LastRow] | None:
    """The table of a SELECT's FROM, and the newest rows that may stand for it; the text stays as it is."""
    reference = single_table(select, tables)
    if reference is None or not _may_reduce(select) or _gathers(select):
        return None
    newest: Newest | None = None
    where = select.args.get("where")
    parts = list(conjuncts(where.this if where is not None else None))
    if only(select, *_ROWWISE, "distinct") and select.args.get("distinct") is not None and _windowless(select):
        newest = _distinct_on(select, reference)
    elif only(select, "expressions", "from_", "where", "qualify", "order", "limit", "offset"):
        windows = _windows(select, reference)
        if windows:
            newest = _qualified(select, windows, reference, environment) or _filtered(select, windows, environment)
        elif _windowless(select):
            newest = _correlated(select, parts, reference, environment)
            parts = [part for part in parts if not _correlation(part, reference)]
    binder = ConditionBinder(lambda column: column_of(column, reference), environment)
    predicates = [binder.bind(part) for part in parts] if newest is not None else []
    if newest is None or None in predicates:
        return None
    columns = tuple(column.name for column in reference.table.schema)
    bound: list[Predicate] = [predicate for predicate in predicates if predicate is not None]
    return reference.node, newest.over(TableScan(reference.table.name, columns, conjunction(*bound)))


def _may_reduce(select: exp.Select) -> bool:
    """Whether it is worth a closer look."""
    if any(select.args.get(name) is not None for name in ("distinct", "qualify")):
        return True
    limited = select.args.get("order") is not None and select.args.get("limit") is not None
    return limited or any(item.find(exp.Window) is not None for item in select.expressions)


def _gathers(select: exp.Select) -> bool:
    """Whether the SELECT computes anything of many rows, but for windows; subqueries are left alone as well."""
    unfit = (exp.AggFunc, exp.Query, exp.Explode, exp.Unnest)
    allowed = (exp.RowNumber,)
    return any(
        isinstance(part, unfit) and not isinstance(part, allowed)
        for name, nodes in select.args.items()
        if name != "with_"
        for node in (nodes if isinstance(nodes, list) else [nodes])
        if isinstance(node, exp.Expr)
        for part in node.walk()
    )


def _windowless(select: exp.Select) -> bool:
    """Whether each item comes of its row alone; a function that the parser does not know may be an aggregate."""
    from tsdb.exec.fold import functions

    if any(True for item in select.expressions for _ in item.find_all(exp.Window)):
        return False
    unknown = [part for item in select.expressions for part in item.find_all(exp.Anonymous)]
    return all(str(part.this).lower() in functions(scalar=True) for part in unknown)


def _distinct_on(select: exp.Select, reference: TableReference) -> Newest | None:
    """DISTINCT ON keeps the first row in the order of ORDER BY, in which only the time tells rows of a group apart."""
    on, order = select.args["distinct"].args.get("on"), select.args.get("order")
    if on is None or order is None or not only(select.args["distinct"], "on") or not only(order, "expressions"):
        return None
    tags = _tags(on.expressions if isinstance(on, exp.Tuple) else [on], reference)
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    if not tags:
        return None
    ordered: list[str] = []
    for item in order.expressions:
        node = item.this
        if not isinstance(node, exp.Column) or (node.args.get("table") is None and node.name.lower() in aliases):
            return None
        column = column_of(node, reference)
        if column is not None and column.name in tags:
            ordered.append(column.name)
            continue
        if column is None or column.role is not Role.TIME or item is not order.expressions[-1]:
            return None
        return Newest(tuple(dict.fromkeys((*ordered, *tags))), 1, not item.args.get("desc"))
    return None


def _tags(nodes: list[exp.Expr], reference: TableReference) -> tuple[str, ...] | None:
    """The names of columns that all are tags or attributes, each once."""
    columns = [column_of(node, reference) if isinstance(node, exp.Column) else None for node in nodes]
    if any(column is None or not _tells_devices(column) for column in columns):
        return None
    return tuple(dict.fromkeys(column.name for column in columns if column is not None))


def _tells_devices(column: Column) -> bool:
    return column.role in (Role.TAG, Role.ATTRIBUTE) and column.type.kind not in (Kind.BLOB, Kind.VECTOR)


def _windows(select: exp.Select, reference: TableReference) -> dict[str, _Window]:
    """Row numbers by the name that they have in the select list, '' without one; empty where any window is another."""
    found: dict[str, _Window] = {}
    for node in select.find_all(exp.Window):
        window = _window(node, reference)
        if window is None:
            return {}
        parent = node.parent
        found[parent.alias.lower() if isinstance(parent, exp.Alias) else ""] = window
    return found if len(set(found.values())) == 1 else {}


def _window(node: exp.Expr, reference: TableReference) -> _Window | None:
    order = node.args.get("order")
    if not isinstance(node.this, exp.RowNumber) or not only(node, "this", "partition_by", "order", "over") or order is None:
        return None
    tags = _tags(node.args.get("partition_by") or [], reference)
    if not tags or len(order.expressions) != 1 or not only(order, "expressions"):
        return None
    item = order.expressions[0]
    column = column_of(item.this, reference) if isinstance(item.this, exp.Column) else None
    if column is None or column.role is not Role.TIME or not only(item, "this", "desc", "nulls_first"):
        return None
    return _Window(tags, not item.args.get("desc"))


def _numbered(
    condition: exp.Expr, windows: Mapping[str, _Window], reference: TableReference, environment: Environment
) -> Newest | None:
    """The newest rows that a condition on a row number, or its alias, leaves."""
    number, limit = _bound(condition, environment)
    if isinstance(number, exp.Column) and number.args.get("table") is None:
        window = windows.get(number.name.lower()) if reference.column(number.name) is None else None
    else:
        window = _window(number, reference) if isinstance(number, exp.Window) else None
    return None if window is None or limit is None else Newest(window.tags, limit, window.oldest)


def _bound(condition: exp.Expr, environment: Environment) -> tuple[exp.Expr | None, int | None]:
    """What a condition bounds from above, and the greatest whole number that it allows, of those from 1."""
    while isinstance(condition, exp.Paren) and only(condition, "this"):
        condition = condition.this
    if not isinstance(condition, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE) or not only(condition, "this", "expression"):
        return None, None
    left, right, strict = condition.this, condition.expression, isinstance(condition, exp.LT | exp.GT)
    if isinstance(condition, exp.GT | exp.GTE) or (isinstance(condition, exp.EQ) and isinstance(left, exp.Literal)):
        left, right = right, left
    constant = fold(right, environment)
    if constant is None or constant.kind is not ConstantKind.INTEGER:
        return None, None
    limit = constant.value - strict
    return left, limit if 1 <= limit <= _ROWS_MAX else None


def _qualified(
    select: exp.Select, windows: Mapping[str, _Window], reference: TableReference, environment: Environment
) -> Newest | None:
    """QUALIFY with a row number among its conditions."""
    qualify = select.args.get("qualify")
    if qualify is None:
        return None
    found = [_numbered(part, windows, reference, environment) for part in conjuncts(qualify.this)]
    return next((newest for newest in found if newest is not None), None)


def _filtered(select: exp.Select, windows: Mapping[str, _Window], environment: Environment) -> Newest | None:
    """Row numbers in a subquery or CTE, and a condition on them in the only SELECT that reads it."""
    if any(select.args.get(name) is not None for name in ("qualify", "limit", "offset")):
        return None
    outer, alias = _reader(select)
    where = None if outer is None else outer.args.get("where")
    if outer is None or where is None or any(join_effect(join) == OTHER for join in outer.args.get("joins") or ()):
        return None
    for part in conjuncts(where.this):
        number, limit = _bound(part, environment)
        if not isinstance(number, exp.Column) or limit is None:
            continue
        qualifier = number.args.get("table")
        window = windows.get(number.name.lower()) if number.name else None
        alone = qualifier is None and not outer.args.get("joins")
        if window is not None and (alone or (qualifier is not None and qualifier.name.lower() == alias)):
            return Newest(window.tags, limit, window.oldest)
    return None


def _reader(select: exp.Select) -> tuple[exp.Select | None, str]:
    """The SELECT that reads a subquery as the first item of its FROM, and what it calls it."""
    parent = select.parent
    if not isinstance(parent, exp.CTE | exp.Subquery) or not only(parent, "this", "alias"):
        return None, ""
    naming = parent.args.get("alias")
    if naming is not None and naming.args.get("columns"):
        return None, ""
    source: exp.Expr | None = parent
    alias = parent.alias.lower()
    if isinstance(parent, exp.CTE):
        reads = [table for table in parent.root().find_all(exp.Table) if table.name.lower() == alias]
        source = plain_table(reads[0]) if len(reads) == 1 else None
        alias = (reads[0].alias or reads[0].name).lower() if source is not None else ""
    from_ = None if source is None else source.parent
    outer = from_.parent if isinstance(from_, exp.From) and only(from_, "this") else None
    return (outer, alias) if isinstance(outer, exp.Select) else (None, "")


def _correlated(select: exp.Select, parts: list[exp.Expr], reference: TableReference, environment: Environment) -> Newest | None:
    """``WHERE t.host = h.host ORDER BY time DESC LIMIT n`` with another query's ``h``."""
    order, counts = select.args.get("order"), bind_counts(select, environment)
    if order is None or counts is None or counts[0] is None or not only(order, "expressions"):
        return None
    tags = tuple(dict.fromkeys(tag for part in parts for tag in _correlation(part, reference)))
    total = counts[0] + counts[1]
    if not tags or not 1 <= total <= _ROWS_MAX:
        return None
    *before, item = order.expressions
    columns = [column_of(each.this, reference) if isinstance(each.this, exp.Column) else None for each in (*before, item)]
    aliases = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
    if any(each.this.name.lower() in aliases for each in order.expressions):
        return None
    *leading, last = columns
    if any(column is None or column.name not in tags for column in leading) or last is None or last.role is not Role.TIME:
        return None
    return Newest(tags, total, not item.args.get("desc"))


def _correlation(part: exp.Expr, reference: TableReference) -> tuple[str, ...]:
    """The tag that a condition equates with a column of an outer query; empty for any other condition."""
    while isinstance(part, exp.Paren) and only(part, "this"):
        part = part.this
    if not isinstance(part, exp.EQ) or not only(part, "this", "expression"):
        return ()
    sides = [side for side in (part.this, part.expression) if isinstance(side, exp.Column)]
    own = [column for side in sides if (column := column_of(side, reference)) is not None]
    foreign = [side for side in sides if column_of(side, reference) is None]
    return (own[0].name,) if len(own) == len(foreign) == 1 and _tells_devices(own[0]) else ()
