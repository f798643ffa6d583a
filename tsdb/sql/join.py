"""Binding a SELECT over joined tables to hash joins, when every join has an equality and the rest is what native nodes do.

Conditions go where they can be answered: those of one side into its scan, equalities between two become keys, other comparisons a
condition of the join, and those on a side that an outer join fills with NULLs stay above it. Whatever does not fit leaves the whole
SELECT to DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.exec.join_key import are_comparable
from tsdb.plan.node import Comparison, DuckQuery, Filter, HashJoin, JoinKind, Limit, Plan, Project, Side, Sort, SortKey, TableScan
from tsdb.plan.predicate import And, Predicate, columns_of
from tsdb.plan.rename import renamed
from tsdb.plan.transform import transform
from tsdb.sql.blob_size import blob_sizes_asked
from tsdb.sql.clause import text_place
from tsdb.sql.comparison import flipped
from tsdb.sql.condition import OPERATORS, ConditionBinder, conjuncts
from tsdb.sql.environment import Environment
from tsdb.sql.join_list import list_place, list_splices
from tsdb.sql.join_source import Surroundings
from tsdb.sql.latest_join import NO_RIGHT_SIDE, ONLY_EQUALITIES, is_latest, refuse
from tsdb.sql.literal import only
from tsdb.sql.native import UNSORTABLE, unique_names
from tsdb.sql.outside import INPUT_PREFIX, frames_named_by
from tsdb.sql.select import bind_counts
from tsdb.sql.statement import Query
from tsdb_format.schema import Column

_KINDS: dict[tuple[str, str], JoinKind] = {
    ("", ""): "inner", ("", "INNER"): "inner", ("LEFT", ""): "left", ("LEFT", "OUTER"): "left", ("", "SEMI"): "semi",
    ("", "ANTI"): "anti",
}  # fmt: skip


class _Beyond(Exception):
    """Something that is DuckDB's."""


@dataclass
class _Step:
    """One join. Left columns are known by the number of their source, which stands before a key's name and a condition."""

    kind: JoinKind
    keys: dict[tuple[tuple[int, str], str], None] = field(default_factory=dict)
    condition: list[tuple[int, Comparison | Predicate]] = field(default_factory=list)


#: A column of a source, by its number.
Found = tuple[int, Column]


def bind_join(
    query: Query, select: exp.Select, tree: exp.Query, tables: Mapping[str, Table], environment: Environment
) -> tuple[Plan, tuple[str, ...] | None] | None:
    """The plan of a SELECT with joins and the names that it shows (None: DuckDB names them); None where the joins are DuckDB's."""
    shape = ("expressions", "from_", "joins", "where", "order", "limit", "offset", "with_")
    from_ = select.args.get("from_")
    if not environment.native_joins or not select.args.get("joins") or not select.expressions or not only(select, *shape):
        return None
    if from_ is None or not only(from_, "this"):
        return None
    queries = _named_queries(select)
    if queries is None:
        return None
    frames = {frame.name: frame for frame in frames_named_by(query, tree, tables)}
    try:
        made = _JoinBinder(query, select, Surroundings(tables, frames, queries, environment)).bind()
    except _Beyond:
        return None
    environment.used_outside |= bool(frames)
    return made


def _named_queries(select: exp.Select) -> dict[str, exp.Select] | None:
    """The SELECTs of a WITH by lower-case name; None where there are other things in it."""
    clause = select.args.get("with_")
    if clause is None:
        return {}
    found = {cte.alias.lower(): cte.this for cte in clause.expressions if isinstance(cte.this, exp.Select) and _is_plain(cte)}
    return found if only(clause, "expressions") and len(found) == len(clause.expressions) else None


def _is_plain(cte: exp.Expr) -> bool:
    return only(cte, "this", "alias") and only(cte.args["alias"], "this")


class _JoinBinder:
    def __init__(self, query: Query, select: exp.Select, surroundings: Surroundings) -> None:
        self._query = query
        self._select = select
        self._tables = surroundings.tables
        self._environment = surroundings.environment
        self._joins: list[exp.Join] = select.args["joins"]
        items = [select.args["from_"].this, *(join.this for join in self._joins)]
        found = [surroundings.source(item) for item in items]
        if not surroundings.queries.keys() <= {item.name.lower() for item in items if isinstance(item, exp.Table)}:
            raise _Beyond  # DuckDB looks into what nobody names, too
        self._sources = [source for source in found if source is not None]
        names = {source.alias.lower() for source in self._sources}
        if (
            None in found or len(names) < len(items) or any("." in name for name in names)
        ):  # a name and a column's are joined by one
            raise _Beyond
        #: Columns that USING has made one, by lower-case name: the left one is meant.
        self._merged: dict[str, Found] = {}
        self._aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        #: Conditions above all joins.
        self._above: list[Predicate] = []

    def bind(self) -> tuple[Plan, tuple[str, ...] | None]:
        """The plan, and the names that it shows, None where DuckDB computes the list."""
        steps = [self._step(number, join) for number, join in enumerate(self._joins)]
        where = self._select.args.get("where")
        for part in conjuncts(where.this if where is not None else None):
            self._where(part, steps)
        outputs = self._outputs()
        keys = self._sort_keys(outputs)
        counts = bind_counts(self._select, self._environment)
        if counts is None or not all(step.keys for step in steps):
            raise _Beyond
        if outputs is None:
            return self._computed(steps, keys, *counts), None
        for at, column in outputs:
            self._name(at, column)
        names = tuple(self._shown)
        shown = unique_names(list(names))
        columns = tuple((name, self._name(*found)) for name, found in zip(shown, outputs, strict=True))
        return Project(self._rows(steps, keys, *counts), columns), names

    def _rows(self, steps: Sequence[_Step], keys: tuple[SortKey, ...], limit: int | None, offset: int) -> Plan:
        """The joined rows, filtered, in order and limited."""
        plan = self._joined(steps)
        if self._above:
            plan = Filter(plan, And(tuple(self._above)))
        if keys:
            plan = Sort(plan, keys)
        return Limit(plan, limit, offset) if limit is not None or offset else plan

    def _computed(self, steps: Sequence[_Step], keys: tuple[SortKey, ...], limit: int | None, offset: int) -> DuckQuery:
        """The list computed by DuckDB over the joined rows."""
        from tsdb.exec.fold import functions
        from tsdb.sql.rewrite import assemble, computes_rows

        tokens = self._query.tokens
        place = list_place(tokens, self._select.args["from_"].this)
        if place is None or not computes_rows(tokens[slice(*place)], self._select, functions(scalar=True)):
            raise _Beyond
        named: dict[str, None] = {}

        def name(node: exp.Column) -> str:
            found = self._resolve(node, len(self._sources))
            if found is None:
                raise _Beyond
            named[self._name(*found)] = None
            return self._name(*found)

        splices = list_splices(self._query, self._select, place, [each for each in self._sources if not each.hidden], name)
        if splices is None:
            raise _Beyond
        rows = transform(self._rows(steps, keys, limit, offset), self._with_sizes)
        child = Project(rows, tuple((each, each) for each in named))
        start, end = text_place(tokens, place)
        whole = [(0, start, "SELECT "), (end, tokens[-1].end, f" FROM {INPUT_PREFIX}0")]
        return assemble(self._query, [*splices, *whole], ((f"{INPUT_PREFIX}0", child),), self._environment)

    def _with_sizes(self, node: Plan) -> Plan:
        """A scan that gives of some blobs the size alone."""
        if not isinstance(node, TableScan):
            return node
        sizes = blob_sizes_asked(self._query.tokens, self._tables[node.table.lower()], node.columns)
        return replace(node, sizes=sizes) if sizes else node

    # ------------------------------------------------------------------------------------------------ names

    def _name(self, at: int, column: Column) -> str:
        """The name of a source's column above the joins; it is read then."""
        source = self._sources[at]
        source.used[column.name] = None
        return f"{source.alias}.{column.name}"

    def _resolve(self, node: exp.Expr | None, count: int) -> Found | None:
        """The column of one of the first ``count`` sources that a reference names; None for other expressions."""
        while isinstance(node, exp.Paren) and only(node, "this"):
            node = node.this
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier) or not only(node, "this", "table"):
            return None
        name, qualifier = node.this.name.lower(), node.args.get("table")
        if qualifier is None and name in self._merged:
            return self._merged[name]
        found: list[Found] = []
        for at, source in enumerate(self._sources[:count]):
            column = source.column(name)
            if source.hidden or (qualifier is not None and qualifier.name.lower() != source.alias.lower()):
                continue
            if qualifier is None and not source.complete and column is None:
                raise _Beyond  # it may have one of another type
            if column is not None:
                found.append((at, column))
        if len(found) != 1:
            raise _Beyond
        return found[0]

    # ------------------------------------------------------------------------------------------------ conditions

    def _step(self, number: int, join: exp.Join) -> _Step:
        side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
        right = number + 1
        if not only(join, "this", "side", "kind", "on", "using") or (side, kind) not in _KINDS:
            raise _Beyond
        made = _Step(_KINDS[side, kind])
        for name in join.args.get("using") or ():
            self._using(made, name, right)
        latest = is_latest(self._query, join)
        for part in conjuncts(join.args.get("on")):
            if latest and len(self._sides(part, right + 1)) != 2:
                refuse(self._query, join, ONLY_EQUALITIES)
            self._on(made, part, right)
        if latest:
            self._latest(made, join, right)
        self._sources[right].nullable = made.kind == "left"
        self._sources[right].hidden = made.kind in ("semi", "anti")
        return made

    def _latest(self, step: _Step, join: exp.Join, right: int) -> None:
        source = self._sources[right]
        if source.origin is None:
            refuse(self._query, join, NO_RIGHT_SIDE)
        if not step.keys or step.condition:
            refuse(self._query, join, ONLY_EQUALITIES)
        source.last_of = tuple(dict.fromkeys(column for _, column in step.keys))

    def _using(self, step: _Step, name: exp.Expr, right: int) -> None:
        if not isinstance(name, exp.Identifier):
            raise _Beyond
        left, column = self._resolve(exp.column(name.name), right), self._sources[right].column(name.name)
        if left is None or column is None or not are_comparable(left[1].type, column.type) or self._sources[left[0]].nullable:
            raise _Beyond
        self._merged[name.name.lower()] = left
        step.keys[(left[0], left[1].name), column.name] = None

    def _on(self, step: _Step, part: exp.Expr, right: int) -> None:
        sides = self._sides(part, right + 1)
        if len(sides) == 2:
            self._between(step, part, right)
            return
        at = sides.pop()
        predicate = self._predicate(part, at)
        if at == right or (step.kind in ("inner", "semi") and not self._sources[at].nullable):
            self._sources[at].predicates.append(predicate)
        else:
            step.condition.append((at, predicate))

    def _where(self, part: exp.Expr, steps: Sequence[_Step]) -> None:
        sides = self._sides(part, len(self._sources))
        if len(sides) == 2:
            right = max(sides)
            if steps[right - 1].kind != "inner":
                raise _Beyond
            self._between(steps[right - 1], part, right)
            return
        at = sides.pop()
        predicate = self._predicate(part, at)
        if self._sources[at].nullable:
            names = {name: f"{self._sources[at].alias}.{name}" for name in self._use(at, predicate)}
            self._above.append(renamed(predicate, names))
        else:
            self._sources[at].predicates.append(predicate)

    def _sides(self, part: exp.Expr, count: int) -> set[int]:
        """The sources whose columns a condition names: one or two."""
        if any(isinstance(node, exp.Query) for node in part.walk()):
            raise _Beyond
        found = {found[0] for node in part.find_all(exp.Column) if (found := self._resolve(node, count)) is not None}
        if len(found) not in (1, 2):
            raise _Beyond
        return found

    def _predicate(self, part: exp.Expr, at: int) -> Predicate:
        def resolve(node: exp.Column) -> Column | None:
            found = self._resolve(node, len(self._sources))
            return None if found is None or found[0] != at else found[1]

        made = ConditionBinder(resolve, self._environment).bind(part)
        if made is None:
            raise _Beyond
        return made

    def _between(self, step: _Step, part: exp.Expr, right: int) -> None:
        """A comparison of a column of the right side with one of the left."""
        while isinstance(part, exp.Paren) and only(part, "this"):
            part = part.this
        op = OPERATORS.get(type(part)) if only(part, "this", "expression") else None
        if op is None:
            raise _Beyond
        left, other = self._resolve(part.this, right + 1), self._resolve(part.args["expression"], right + 1)
        if left is None or other is None or right not in (left[0], other[0]) or not are_comparable(left[1].type, other[1].type):
            raise _Beyond
        if left[0] == right:
            left, other, op = other, left, flipped(op)
        if op == "=":
            step.keys[(left[0], left[1].name), other[1].name] = None
        else:
            step.condition.append((left[0], Comparison(left[1].name, op, other[1].name)))

    # ------------------------------------------------------------------------------------------------ list and order

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

    def _star(self, item: exp.Expr) -> list[Found]:
        """The columns of ``*`` and ``t.*``; of a column that USING has made one, the right one is left out."""
        star, qualifier = item, None
        if isinstance(item, exp.Column):
            star, qualifier = item.this, item.args.get("table")
            if not only(item, "this", "table") or qualifier is None or self._merged:
                raise _Beyond
        if not only(star):
            raise _Beyond
        made: list[Found] = []
        for at, source in enumerate(self._sources):
            if source.hidden or (qualifier is not None and qualifier.name.lower() != source.alias.lower()):
                continue
            if not source.complete:
                raise _Beyond
            made += [(at, column) for column in source.columns if self._merged.get(column.name.lower(), (at,))[0] == at]
        if not made:
            raise _Beyond
        return made

    def _sort_keys(self, outputs: list[Found] | None) -> tuple[SortKey, ...]:
        order = self._select.args.get("order")
        if order is None:
            return ()
        if not only(order, "expressions"):
            raise _Beyond
        keys: dict[str, SortKey] = {}
        for item in order.expressions:
            if not isinstance(item, exp.Ordered) or not only(item, "this", "desc", "nulls_first"):
                raise _Beyond
            at, column = self._key_column(item.this, outputs)
            if column.type.kind in UNSORTABLE:
                raise _Beyond
            name = self._name(at, column)
            keys.setdefault(name, SortKey(name, bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
        return tuple(keys.values())

    def _key_column(self, node: exp.Expr, outputs: list[Found] | None) -> Found:
        """What ORDER BY names: a position, an alias before a column, or a column."""
        if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
            position = int(node.this)
            if outputs is None or not 1 <= position <= len(outputs):
                raise _Beyond
            return outputs[position - 1]
        found: Found | None = None
        if isinstance(node, exp.Column) and node.args.get("table") is None and isinstance(node.this, exp.Identifier):
            aliased = self._aliases.get(node.this.name.lower())
            found = None if aliased is None else self._resolve(aliased, len(self._sources))
            if aliased is not None and found is None:
                raise _Beyond
        found = found or self._resolve(node, len(self._sources))
        if found is None:
            raise _Beyond
        return found

    # ------------------------------------------------------------------------------------------------ plan

    def _joined(self, steps: Sequence[_Step]) -> Plan:
        """The joins, left to right; each gives all that is used of its sides, of which ``narrow_scan`` leaves what is needed."""
        for number, step in enumerate(steps):
            right = self._sources[number + 1]
            for (at, name), other in step.keys:
                self._sources[at].used[name] = right.used[other] = None
            for at, part in step.condition:
                self._use(at, part)
                if isinstance(part, Comparison):
                    right.used[part.right] = None
        plan = self._sources[0].plan()
        for number, step in enumerate(steps):
            plan = self._one_join(plan, number, step)
        return plan

    def _use(self, at: int, part: Comparison | Predicate) -> list[str]:
        """A source's columns that a condition names; they are read then."""
        names = [part.left] if isinstance(part, Comparison) else sorted(columns_of(part))
        self._sources[at].used.update(dict.fromkeys(names))
        return names

    def _one_join(self, left: Plan, number: int, step: _Step) -> HashJoin:
        right = self._sources[number + 1]

        def named(at: int, column: str) -> str:
            return column if number == 0 else f"{self._sources[at].alias}.{column}"

        condition: list[Comparison | Predicate] = []
        for at, part in step.condition:
            if isinstance(part, Comparison):
                condition.append(replace(part, left=named(at, part.left)))
            else:
                condition.append(renamed(part, {name: named(at, name) for name in columns_of(part)}))
        outputs: list[tuple[str, Side, str]] = []
        for at, source in enumerate(self._sources[: number + 1]):
            if not source.hidden:
                outputs += [(f"{source.alias}.{column}", "left", named(at, column)) for column in source.used]
        if not right.hidden:
            outputs += [(f"{right.alias}.{column}", "right", column) for column in right.used]
        keys = tuple((named(at, name), other) for (at, name), other in step.keys)
        return HashJoin(left, right.plan(), step.kind, keys, tuple(outputs), tuple(condition))
