"""Binding a SELECT over one table to native nodes, when it is a scan, a filter, columns, an order and a limit.

The result says what of the SELECT is native. Where everything is, it becomes a plan of native nodes; where only the select list
computes something, DuckDB computes it over the native rest; otherwise the SELECT is DuckDB's, with predicates pushed down.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import SortKey
from tsdb.plan.predicate import Predicate
from tsdb.sql.condition import Compute, ConditionBinder, conjuncts, nothing_computed
from tsdb.sql.constant import ConstantKind
from tsdb.sql.distance import Distances
from tsdb.sql.environment import Environment
from tsdb.sql.literal import fold, only
from tsdb.sql.native import COUNT_MAX, UNSORTABLE, NativeSelect, TableReference
from tsdb.sql.statement import Query
from tsdb.sql.tree import is_local, span
from tsdb.suggestion import hint
from tsdb_format.errors import NotFound
from tsdb_format.schema import Column


def plain_table(node: exp.Expr | None) -> exp.Table | None:
    """The table of a FROM item that is a name with an optional alias, and nothing else."""
    if not isinstance(node, exp.Table) or not only(node, "this", "db", "alias") or not isinstance(node.this, exp.Identifier):
        return None
    alias = node.args.get("alias")
    if alias is not None and not (only(alias, "this") and isinstance(alias.this, exp.Identifier)):
        return None
    schema = node.args.get("db")
    return node if schema is None or schema.name.lower() == "main" else None


def refer(node: exp.Table, tables: Mapping[str, Table]) -> TableReference | None:
    """The catalog's table that a plain table node names; ``tables`` is keyed in lower case."""
    table = None if is_local(node) else tables.get(node.name.lower())
    return None if table is None else TableReference(table, node.alias or node.name, node)


def single_table(select: exp.Select, tables: Mapping[str, Table]) -> TableReference | None:
    """The table of a SELECT whose FROM is one of the catalog's, under joins or not."""
    from_ = select.args.get("from_")
    node = plain_table(from_.this) if from_ is not None and only(from_, "this") else None
    return None if node is None else refer(node, tables)


def column_of(node: exp.Column, reference: TableReference) -> Column | None:
    """The table's column that a reference names."""
    qualifier = node.args.get("table")
    if not isinstance(node.this, exp.Identifier) or not only(node, "this", "table"):
        return None
    if qualifier is not None and qualifier.name.lower() != reference.alias.lower():
        return None
    return reference.column(node.this.name)


def bind_select(select: exp.Select, tables: Mapping[str, Table], environment: Environment) -> NativeSelect | None:
    """What of a SELECT can be native; None where its shape is beyond these nodes."""
    if not select.expressions or not only(select, "expressions", "from_", "where", "order", "limit", "offset"):
        return None
    reference = single_table(select, tables)
    if reference is None:
        return None
    return bind_rows(select, reference, environment)


def bind_rows(select: exp.Select, reference: TableReference, environment: Environment) -> NativeSelect:
    """What of the rows that a SELECT filters, sorts, limits and shows can be native, whatever else it does to them."""
    return _Binder(select, reference, environment).bind()


def refuse_unknown_columns(query: Query, select: exp.Select, tables: Mapping[str, Table]) -> None:
    """Raise NotFound, with the nearest name, for a column that a SELECT over one table cannot have."""
    from_ = select.args.get("from_")
    node = plain_table(from_.this) if from_ is not None else None
    reference = None if node is None or select.args.get("joins") or select.args.get("laterals") else refer(node, tables)
    local = (exp.Query, exp.Lambda, exp.Comprehension, exp.Kwarg, exp.PropertyEQ, exp.Columns, exp.Pivot, exp.CTE)
    if reference is None or any(isinstance(part, local) for part in select.walk() if part is not select):
        return
    if any(star.args.get("rename") for star in select.find_all(exp.Star)):
        return
    known = [column.name for column in reference.table.schema]
    shown = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)} | {reference.alias.lower()}
    for column in select.find_all(exp.Column):
        if not isinstance(column.this, exp.Identifier) or not only(column, "this", "table"):
            continue
        name, qualifier = column.this.name, column.args.get("table")
        if reference.column(name) is not None or name.lower().startswith(("current_", "session_")) or name.lower() == "user":
            continue
        if (qualifier is None and name.lower() not in shown) or (
            qualifier is not None and qualifier.name.lower() == reference.alias.lower()
        ):
            at = span(column.this)
            where = f" ({query.place(at[0])})" if at is not None and query.source else ""
            raise NotFound(f"no column {name!r} in table {reference.table.name!r}{where}; {hint(name, known)}")


class _Binder:
    def __init__(self, select: exp.Select, reference: TableReference, environment: Environment) -> None:
        self.select = select
        self.reference = reference
        self.environment = environment
        self.distances = Distances(self.resolve, environment, reference.table.schema.by_name)
        self.aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}

    def bind(self) -> NativeSelect:
        made = NativeSelect(self.reference)
        made.predicates, made.complete = bind_where(self.select, self.reference, self.environment, self.distances.column)
        made.outputs = self._outputs()
        made.keys = self._keys(made.outputs)
        counts = bind_counts(self.select, self.environment)
        made.countable = counts is not None
        made.limit, made.offset = counts or (None, 0)
        made.distances = self.distances.found
        return made

    def resolve(self, node: exp.Column) -> Column | None:
        """The table's column that a reference names."""
        return column_of(node, self.reference)

    def _outputs(self) -> list[tuple[str, str]] | None:
        """(shown name, column) of each item of the select list, or None where one computes something."""
        outputs: list[tuple[str, str]] = []
        for item in self.select.expressions:
            star = self._star(item)
            if star is not None:
                outputs += [(column.name, column.name) for column in star]
                continue
            inner = item.this if isinstance(item, exp.Alias) and only(item, "this", "alias") else item
            column = self._shown(inner, named=inner is not item)
            if column is None:
                return None
            outputs.append((item.alias if isinstance(item, exp.Alias) else column.name, column.name))
        return outputs

    def _item(self, position: int) -> Column | None:
        """The column that the item at a position shows, of a list without stars."""
        items = self.select.expressions
        if not 1 <= position <= len(items) or any(isinstance(item, exp.Columns) or item.find(exp.Star) for item in items):
            return None
        item = items[position - 1]
        return self._shown(item.this if isinstance(item, exp.Alias) else item, named=True)

    def _shown(self, node: exp.Expr, *, named: bool) -> Column | None:
        """The column that an item shows: a table's, or, where it is given a name, a distance."""
        if isinstance(node, exp.Column):
            return self.resolve(node)
        return self.distances.column(node) if named else None

    def _star(self, item: exp.Expr) -> list[Column] | None:
        """The columns of ``*``, ``t.*`` and ``* EXCLUDE (…)``."""
        star = item
        if isinstance(item, exp.Column):
            qualifier = item.args.get("table")
            if not only(item, "this", "table") or qualifier is None or qualifier.name.lower() != self.reference.alias.lower():
                return None
            star = item.this
        if not isinstance(star, exp.Star) or not only(star, "except_"):
            return None
        left_out = set()
        for node in star.args.get("except_") or ():
            column = self.resolve(node) if isinstance(node, exp.Column) else None
            if column is None:
                return None
            left_out.add(column.name)
        return [column for column in self.reference.table.schema if column.name not in left_out]

    def _keys(self, outputs: list[tuple[str, str]] | None) -> tuple[SortKey, ...] | None:
        order = self.select.args.get("order")
        if order is None:
            return ()
        if not only(order, "expressions"):
            return None
        keys: list[SortKey] = []
        for item in order.expressions:
            if not isinstance(item, exp.Ordered) or not only(item, "this", "desc", "nulls_first"):
                return None
            column = self._key_column(item.this, outputs)
            if column is None or column.type.kind in UNSORTABLE:
                return None
            if all(key.column != column.name for key in keys):  # a column sorts once
                keys.append(SortKey(column.name, bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
        return tuple(keys)

    def _key_column(self, node: exp.Expr, outputs: list[tuple[str, str]] | None) -> Column | None:
        """What ORDER BY names: a position, an alias before a column, or a column."""
        while isinstance(node, exp.Paren) and only(node, "this"):
            node = node.this
        if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
            position = int(node.this)
            if outputs is None:
                return self._item(position)
            if not 1 <= position <= len(outputs):
                return None
            return NativeSelect(self.reference, distances=self.distances.found).column(outputs[position - 1][1])
        if not isinstance(node, exp.Column):
            return self.distances.column(node)
        if node.args.get("table") is None and isinstance(node.this, exp.Identifier):
            aliased = self.aliases.get(node.this.name.lower())
            if aliased is not None:
                return self._shown(aliased, named=True)
        return self.resolve(node)


def bind_where(
    select: exp.Select, reference: TableReference, environment: Environment, compute: Compute = nothing_computed
) -> tuple[list[Predicate], bool]:
    """The conjuncts of WHERE that are native, and whether these are all. ``compute`` tells columns that the scan computes."""
    where = select.args.get("where")
    binder = ConditionBinder(lambda node: column_of(node, reference), environment, compute)
    bound = [binder.bind(part) for part in conjuncts(where.this if where is not None else None)]
    return [predicate for predicate in bound if predicate is not None], None not in bound


def bind_counts(select: exp.Select, environment: Environment) -> tuple[int | None, int] | None:
    """LIMIT (or FETCH) and OFFSET; None where they are DuckDB's."""
    limit, offset = select.args.get("limit"), select.args.get("offset")
    nodes: list[exp.Expr | None] = [None, None]
    if isinstance(limit, exp.Fetch):
        nodes[0] = limit.args.get("count")
        first = str(limit.args.get("direction")).upper() in ("FIRST", "NEXT")
        if not only(limit, "direction", "count", "limit_options") or not first or nodes[0] is None:
            return None
    elif limit is not None:
        nodes[0] = limit.expression
        if not only(limit, "expression", "limit_options"):
            return None
    options = None if limit is None else limit.args.get("limit_options")
    if options is not None and not only(options, "rows"):
        return None
    if offset is not None:
        nodes[1] = offset.expression
        if not only(offset, "this", "expression"):
            return None
    try:
        limit_rows, offset_rows = (None if node is None else _count(node, environment) for node in nodes)
    except _NoCount:
        return None
    return limit_rows, offset_rows or 0


class _NoCount(Exception):
    """A row count that is not a plain number."""


def _count(node: exp.Expr, environment: Environment) -> int | None:
    """Fold a row count; NULL and ALL are no limit."""
    if isinstance(node, exp.Var) and str(node.this).upper() == "ALL":
        return None
    constant = fold(node, environment)
    if constant is not None and constant.kind is ConstantKind.NULL:
        return None
    if constant is None or constant.kind is not ConstantKind.INTEGER or not 0 <= constant.value <= COUNT_MAX:
        raise _NoCount
    return int(constant.value)
