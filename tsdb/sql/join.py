"""Binding a SELECT over joined tables to hash joins, when the rest of it is what native nodes do.

Where its list computes each row from that row alone, DuckDB computes the list over the joined, sorted and limited rows. Whatever
does not fit leaves the whole SELECT to ``tsdb.sql.rewrite``, where its joins alone may still be native.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import DuckQuery, Plan, Project, SortKey, TableScan
from tsdb.plan.transform import transform
from tsdb.quoting import quoted_name
from tsdb.sql.blob_size import blob_sizes_asked
from tsdb.sql.clause import text_place
from tsdb.sql.condition import conjuncts
from tsdb.sql.environment import Environment
from tsdb.sql.join_binder import Found, JoinBinder, Step, surroundings
from tsdb.sql.join_list import NAMING, column_place, list_place, list_splices
from tsdb.sql.join_query import Beyond, items_of
from tsdb.sql.literal import only
from tsdb.sql.native import UNSORTABLE, unique_names
from tsdb.sql.outside import INPUT_PREFIX
from tsdb.sql.select import bind_counts
from tsdb.sql.statement import Query


def bind_join(
    query: Query, select: exp.Select, tree: exp.Query, tables: Mapping[str, Table], environment: Environment
) -> tuple[Plan, tuple[str, ...] | None] | None:
    """The plan of a SELECT with joins and the names that it shows (None: DuckDB names them); None where the joins are DuckDB's."""
    shape = ("expressions", "from_", "joins", "where", "order", "limit", "offset", "with_")
    if not environment.native_joins or not select.args.get("joins") or not select.expressions or not only(select, *shape):
        return None
    defined = {cte.alias.lower() for cte in select.args["with_"].expressions} if select.args.get("with_") is not None else set()
    if not defined <= {item.name.lower() for item in items_of(select) if isinstance(item, exp.Table)}:
        return None  # DuckDB looks into what nobody names, too
    try:
        return _SelectBinder(query, select, surroundings(query, select, tree, tables, environment)).bind()
    except Beyond:
        return None


class _SelectBinder(JoinBinder):
    """The joins of a SELECT of which all else is native, but for what the list computes."""

    def bind(self) -> tuple[Plan, tuple[str, ...] | None]:
        """The plan, and the names that it shows, None where DuckDB computes the list."""
        #: Conditions that DuckDB computes, with what they look at.
        self._computing: dict[tuple[int, int], list[tuple[exp.Column, Found]]] = {}
        steps = [self._step(number, join) for number, join in enumerate(self._joins)]
        where = self._select.args.get("where")
        for part in conjuncts(where.this if where is not None else None):
            try:
                self._where(part, steps)
            except Beyond:
                self._compute(part, len(self._sources))
        outputs = self._outputs()
        keys = self._sort_keys(outputs)
        counts = bind_counts(self._select, self._environment)
        if counts is None or not all(step.keys for step in steps):
            raise Beyond
        if outputs is None:
            return self._computed(steps, keys, *counts), None
        self._refuse_narrow(outputs)
        for at, column in outputs:
            self._name(at, column)
        names = tuple(self._shown)
        shown = unique_names(list(names))
        columns = tuple((name, self._name(*found)) for name, found in zip(shown, outputs, strict=True))
        return Project(self._rows(steps, keys, *counts), columns), names

    def _stays(self, part: exp.Expr, join: exp.Join, right: int, reason: Beyond) -> bool:
        self._compute(part, right + 1)
        return True

    def _compute(self, part: exp.Expr, count: int) -> None:
        """Have DuckDB compute a condition on the joined rows, if it speaks of the columns of the first ``count`` sides alone."""
        place = self._around.condition_place(part)
        if place is None or self._is_live or any(isinstance(node, (*NAMING, exp.Query)) for node in part.walk()):
            raise Beyond
        columns = [(node, self._resolve(node, count)) for node in part.find_all(exp.Column)]
        known = [(node, found) for node, found in columns if found is not None]
        if len(known) < len(columns):
            raise Beyond
        for _, found in known:
            self._name(*found)
        self._computing[place] = known

    def _refuse_narrow(self, outputs: Iterable[Found]) -> None:
        """Raise Beyond where DuckDB filters and nothing is gained by sorting and limiting here: no column is wide."""
        if self._computing and not any(column.type.kind in UNSORTABLE for _, column in outputs):
            raise Beyond

    def _filtered(self, rows: Plan) -> Plan:
        if not self._computing:
            return rows
        from tsdb.sql.assembly import assemble

        splices, at, text = [], 0, f"SELECT * FROM {INPUT_PREFIX}0 WHERE ("
        for (start, end), columns in sorted(self._computing.items(), key=lambda item: item[0]):
            splices.append((at, start, text))
            for node, found in columns:
                place = column_place(node)
                if place is None or not start <= place[0] < place[1] <= end:
                    raise Beyond
                splices.append((*place, quoted_name(self._name(*found))))
            at, text = end, ") AND ("
        splices.append((at, self._query.tokens[-1].end, ")"))
        looks_at = frozenset(self._name(*found) for columns in self._computing.values() for _, found in columns)
        return replace(assemble(self._query, splices, ((f"{INPUT_PREFIX}0", rows),), self._environment), looks_at=looks_at)

    def _computed(self, steps: Sequence[Step], keys: tuple[SortKey, ...], limit: int | None, offset: int) -> DuckQuery:
        """The list computed by DuckDB over the joined rows."""
        from tsdb.exec.fold import functions
        from tsdb.sql.assembly import assemble
        from tsdb.sql.rewrite import computes_rows

        tokens = self._query.tokens
        place = list_place(tokens, self._select.args["from_"].this)
        if place is None or not computes_rows(tokens[slice(*place)], self._select, functions(scalar=True)):
            raise Beyond
        splices = list_splices(self._query, self._select, place, self._shown_as(), self._reference, self._all_written)
        if splices is None:
            raise Beyond
        named = {f"{source.alias}.{column.name}": column for source in self._sources for column in source.columns}
        self._refuse_narrow((0, named[name]) for name in self._named if name in named)
        rows = transform(self._rows(steps, keys, limit, offset), self._with_sizes)
        child = Project(rows, tuple((each, each) for each in self._named))
        start, end = text_place(tokens, place)
        whole = [(0, start, "SELECT "), (end, tokens[-1].end, f" FROM {INPUT_PREFIX}0")]
        return assemble(self._query, [*splices, *whole], ((f"{INPUT_PREFIX}0", child),), self._environment)

    def _with_sizes(self, node: Plan) -> Plan:
        """A scan that gives of some blobs the size alone."""
        if not isinstance(node, TableScan):
            return node
        sizes = blob_sizes_asked(self._query.tokens, self._tables[node.table.lower()], node.columns)
        return replace(node, sizes=sizes) if sizes else node

    def _outputs(self) -> list[Found] | None:
        """The column of each item of the select list; None where one computes something."""
        made: list[Found] = []
        self._shown: list[str] = []
        for item in self._select.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                found = self._star(item)
                made += found
                self._shown += [column.name for _, column in found]
                continue
            inner = item.this if isinstance(item, exp.Alias) and only(item, "this", "alias") else item
            one = self._resolve(inner, len(self._sources)) if isinstance(inner, exp.Column) else None
            if one is None:
                return None
            made.append(one)
            self._shown.append(item.alias if isinstance(item, exp.Alias) else one[1].name)
        return made

    def _sort_keys(self, outputs: list[Found] | None) -> tuple[SortKey, ...]:
        order = self._select.args.get("order")
        if order is None:
            return ()
        if not only(order, "expressions"):
            raise Beyond
        keys: dict[str, SortKey] = {}
        for item in order.expressions:
            if not isinstance(item, exp.Ordered) or not only(item, "this", "desc", "nulls_first"):
                raise Beyond
            at, column = self._key_column(item.this, outputs)
            if column.type.kind in UNSORTABLE:
                raise Beyond
            name = self._name(at, column)
            keys.setdefault(name, SortKey(name, bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
        return tuple(keys.values())

    def _key_column(self, node: exp.Expr, outputs: list[Found] | None) -> Found:
        """What ORDER BY names: a position, an alias before a column, or a column."""
        if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
            position = int(node.this)
            if outputs is None or not 1 <= position <= len(outputs):
                raise Beyond
            return outputs[position - 1]
        found: Found | None = None
        if isinstance(node, exp.Column) and node.args.get("table") is None and isinstance(node.this, exp.Identifier):
            aliased = self._aliases.get(node.this.name.lower())
            found = None if aliased is None else self._resolve(aliased, len(self._sources))
            if aliased is not None and found is None:
                raise Beyond
        found = found or self._resolve(node, len(self._sources))
        if found is None:
            raise Beyond
        return found
