"""Joins of a FROM clause as hash joins, when every one has an equality: sides, what names mean, and where conditions go.

Conditions go where they can be answered: those of one side into its scan, equalities between two become keys, other comparisons a
condition of the join, and those on a side that an outer join fills with NULLs stay above it. Whatever does not fit is ``Beyond``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.exec.join_key import are_comparable
from tsdb.plan.node import Comparison, Filter, HashJoin, JoinKind, Limit, Plan, Side, Sort, SortKey
from tsdb.plan.predicate import And, Predicate, columns_of
from tsdb.plan.rename import renamed
from tsdb.quoting import quoted_name
from tsdb.sql.comparison import flipped
from tsdb.sql.condition import OPERATORS, ConditionBinder, conjuncts
from tsdb.sql.environment import Environment
from tsdb.sql.join_list import column_place
from tsdb.sql.join_query import Beyond, Surroundings, items_of
from tsdb.sql.join_source import JoinSource
from tsdb.sql.latest_join import ASOF_FORM, NO_RIGHT_SIDE, ONLY_EQUALITIES, is_latest, refuse
from tsdb.sql.literal import only
from tsdb.sql.outside import frames_named_by
from tsdb.sql.series.bounded import is_bounded
from tsdb.sql.statement import Query
from tsdb_format.schema import Column

_KINDS: dict[tuple[str, str], JoinKind] = {
    ("", ""): "inner", ("", "INNER"): "inner", ("LEFT", ""): "left", ("LEFT", "OUTER"): "left", ("", "SEMI"): "semi",
    ("", "ANTI"): "anti", ("", "CROSS"): "inner", ("RIGHT", ""): "left", ("RIGHT", "OUTER"): "left",
}  # fmt: skip


@dataclass
class Step:
    """One join. Left columns are known by the number of their source, which stands before a key's name and a condition."""

    kind: JoinKind
    keys: dict[tuple[tuple[int, str], str], None] = field(default_factory=dict)
    condition: list[tuple[int, Comparison | Predicate]] = field(default_factory=list)
    #: Whether it is a RIGHT join of the first two sides, which is a LEFT join the other way round.
    mirrored: bool = False


#: A column of a source, by its number.
Found = tuple[int, Column]


def surroundings(
    query: Query, select: exp.Select, tree: exp.Query, tables: Mapping[str, Table], environment: Environment
) -> Surroundings:
    """What the items of FROM may mean; raises Beyond where there is more in it."""
    from_ = select.args.get("from_")
    if from_ is None or not only(from_, "this"):
        raise Beyond
    frames = {frame.name: frame for frame in frames_named_by(query, tree, tables)}
    environment.used_outside |= bool(frames)
    return Surroundings(query, tree, select, tables, frames, environment)


class JoinBinder:
    """The joins of one SELECT. Those who know what is above them go on from here."""

    def __init__(self, query: Query, select: exp.Select, surroundings: Surroundings) -> None:
        self._query = query
        self._select = select
        self._around = surroundings
        self._tables = surroundings.tables
        self._environment = surroundings.environment
        self._joins: list[exp.Join] = select.args["joins"]
        self._sources: list[JoinSource] = []
        for item in items_of(select):
            source = surroundings.source(item)
            if source is None:
                raise Beyond(f"what is known of {item.alias_or_name or 'a side'} is known to DuckDB alone")
            self._sources.append(source)
        names = {source.alias.lower() for source in self._sources}
        if len(names) < len(self._sources) or any("." in name for name in names):  # a name and a column's are joined by one
            raise Beyond("sides have no names that tell them apart")
        #: Columns that USING has made one, by lower-case name: the one that is meant, and the sides that have it.
        self._merged: dict[str, Found] = {}
        self._merged_sides: dict[str, set[int]] = {}
        self._aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        #: Conditions above all joins.
        self._above: list[Predicate] = []
        #: Columns above the joins that DuckDB's text names.
        self._named: dict[str, None] = {}

    def _rows(self, steps: Sequence[Step], keys: tuple[SortKey, ...], limit: int | None, offset: int) -> Plan:
        """The joined rows, filtered, in order and limited."""
        plan = self._joined(steps)
        if self._above:
            plan = Filter(plan, And(tuple(self._above)))
        plan = self._filtered(plan)
        if keys:
            plan = Sort(plan, keys)
        return Limit(plan, limit, offset) if limit is not None or offset else plan

    def _filtered(self, rows: Plan) -> Plan:
        """The joined rows for which the conditions are true that are not native; here there are none."""
        return rows

    def _is_merged(self, at: int, name: str, merged: Mapping[str, Found]) -> bool:
        """Whether a side's column is shown as that of another."""
        return name in merged and at in self._merged_sides[name] and at != merged[name][0]

    def _shown_as(self) -> list[tuple[JoinSource, tuple[str, ...]]]:
        """The sides whose columns can be named, each with the columns that USING has made one with those before."""
        made: list[tuple[JoinSource, tuple[str, ...]]] = []
        for at, source in enumerate(self._sources):
            if not source.hidden:
                merged = tuple(name for name in self._merged if self._is_merged(at, name, self._merged))
                made.append((source, merged))
        return made

    # ------------------------------------------------------------------------------------------------ names

    def _name(self, at: int, column: Column) -> str:
        """The name of a source's column above the joins; it is read then."""
        source = self._sources[at]
        source.used[column.name] = None
        return f"{source.alias}.{column.name}"

    def _written(self, at: int, column: Column) -> str:
        """How DuckDB's text over the joined rows names a source's column."""
        name = self._name(at, column)
        self._named[name] = None
        return quoted_name(name)

    def _reference(self, node: exp.Column) -> str | None:
        """How it names the column that a reference means; None where that is an item of the select list."""
        alias = self._aliases.get(node.name.lower()) if node.args.get("table") is None else None
        if alias is not None and not any(source.column(node.name) for source in self._sources if not source.hidden):
            return None
        found = self._resolve(node, len(self._sources))
        if found is None:
            raise Beyond
        if alias is not None and not _is_column_first(node) and self._resolve(alias, len(self._sources)) != found:
            raise Beyond(f"{node.name} may mean a column or an item of the list")
        return self._written(*found)

    def _all_written(self, item: exp.Expr) -> list[tuple[str, str]]:
        """How it names the columns of a star, with the names shown."""
        return [(self._written(at, column), column.name) for at, column in self._star(item)]

    def _resolve(self, node: exp.Expr | None, count: int) -> Found | None:
        """The column of one of the first ``count`` sources that a reference names; None for other expressions."""
        while isinstance(node, exp.Paren) and only(node, "this"):
            node = node.this
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier) or not only(node, "this", "table"):
            return None
        name, qualifier = node.this.name.lower(), node.args.get("table")
        if qualifier is None and name in self._merged:
            others = (source for at, source in enumerate(self._sources[:count]) if at not in self._merged_sides[name])
            if any(source.column(name) is not None for source in others if not source.hidden):
                raise Beyond
            return self._merged[name]
        found: list[Found] = []
        for at, source in enumerate(self._sources[:count]):
            column = source.column(name)
            if source.hidden or (qualifier is not None and qualifier.name.lower() != source.alias.lower()):
                continue
            if qualifier is None and not source.complete and column is None:
                raise Beyond  # it may have one of another type
            if column is not None:
                found.append((at, column))
        if len(found) != 1:
            raise Beyond
        return found[0]

    # ------------------------------------------------------------------------------------------------ conditions

    def _step(self, number: int, join: exp.Join) -> Step:
        method, side, kind = (str(join.args.get(name) or "").upper() for name in ("method", "side", "kind"))
        right = number + 1
        asof = method == "ASOF" and self._is_live  # elsewhere it is DuckDB's
        if not only(join, "this", "method", "side", "kind", "on", "using") or (method not in ("", "NATURAL") and not asof):
            raise Beyond(f"{method or 'some'} joins are DuckDB's")
        if (side, kind) not in _KINDS:
            raise Beyond(f"{side or kind} joins are DuckDB's")
        if side == "RIGHT" and number:
            raise Beyond("RIGHT joins behind others are DuckDB's")
        if (method == "NATURAL" or join.args.get("using")) and any(map(_is_comma, self._joins[:number])):
            raise Beyond("NATURAL and USING behind a comma, which binds less, are DuckDB's")
        latest = is_latest(self._query, join)
        if number == 0 and (latest or asof) and self._is_live and self._sources[0].origin is None:
            self._sources[0] = self._followed(items_of(self._select)[0])
        made = Step(_KINDS[side, kind], mirrored=side == "RIGHT")
        for name in self._common_names(right) if method == "NATURAL" else [name.name for name in join.args.get("using") or ()]:
            self._using(made, name, right)
        for part in conjuncts(join.args.get("on")):
            if latest and len(self._sides(part, right + 1)) != 2:
                refuse(self._query, join, ONLY_EQUALITIES)
            try:
                self._on(made, part, right)
            except Beyond as reason:
                if str(reason) and (latest or asof) and self._is_live:
                    refuse(self._query, join, f"a live join has keys of one type: {reason}; cast in a subquery")
                if made.kind != "inner" or latest or asof or not self._stays(part, join, right, reason):
                    raise
        if latest:
            self._latest(made, join, right)
        if asof:
            self._asof(made, join, right)
        self._sources[0 if made.mirrored else right].nullable = made.kind == "left"
        self._sources[right].hidden = made.kind in ("semi", "anti")
        return made

    def _stays(self, part: exp.Expr, join: exp.Join, right: int, reason: Beyond) -> bool:
        """Whether a part of an inner join's ON that is not native is computed above, where it filters pairs as a WHERE would."""
        return False

    @property
    def _is_live(self) -> bool:
        """Whether the query is to be followed live."""
        return any(map(is_bounded, self._tables))

    def _followed(self, item: exp.Expr) -> JoinSource:
        """A left side that computes, whose rows tell where those stand that they are computed from."""
        from tsdb.sql.computed_side import ComputedOrigin, computed_side

        found = computed_side(self._query, item, self._tables, self._environment)
        if found is None:
            return self._sources[0]
        assert isinstance(found.origin, ComputedOrigin), "that is how it is made"
        return replace(found, make=found.origin.with_arrival)

    def _latest(self, step: Step, join: exp.Join, right: int) -> None:
        source = self._arriving(join, right)
        if source.origin is None:
            refuse(self._query, join, NO_RIGHT_SIDE)
        if not step.keys or step.condition:
            refuse(self._query, join, ONLY_EQUALITIES)
        source.last_of = tuple(dict.fromkeys(column for _, column in step.keys))

    def _arriving(self, join: exp.Join, right: int) -> JoinSource:
        """The right side of a LATEST or ASOF JOIN, if need be one that computes."""
        source = self._sources[right]
        if source.origin is None:
            from tsdb.sql.computed_side import computed_side

            computed = computed_side(self._query, join.this, self._tables, self._environment)
            source.origin = None if computed is None else computed.origin
        return source

    def _asof(self, step: Step, join: exp.Join, right: int) -> None:
        """A live ASOF JOIN: equalities, and one comparison that looks back."""
        source = self._arriving(join, right)
        parts = [part for _, part in step.condition]
        compared = parts[0] if len(parts) == 1 else None
        if not isinstance(compared, Comparison) or compared.op not in (">", ">=") or not step.keys or source.predicates:
            refuse(self._query, join, ASOF_FORM)
        if source.origin is None:
            refuse(self._query, join, ASOF_FORM)
        source.last_of = tuple(dict.fromkeys(column for _, column in step.keys))
        source.asof = compared.right

    def _common_names(self, right: int) -> list[str]:
        """The columns that NATURAL joins by."""
        before = [source for source in self._sources[:right] if not source.hidden]
        if not all(source.complete for source in (*before, self._sources[right])):
            raise Beyond("not all columns of a NATURAL join have types of ours")
        left = {column.name.lower() for source in before for column in source.columns}
        return [column.name for column in self._sources[right].columns if column.name.lower() in left]

    def _using(self, step: Step, name: str, right: int) -> None:
        left, column = self._resolve(exp.column(name), right), self._sources[right].column(name)
        if left is None or column is None or self._sources[left[0]].nullable:
            raise Beyond
        if not are_comparable(left[1].type, column.type):
            raise Beyond(_other_types(left[1], column))
        self._merged[name.lower()] = (right, column) if step.mirrored else left
        self._merged_sides.setdefault(name.lower(), {left[0]}).add(right)
        step.keys[(left[0], left[1].name), column.name] = None

    def _on(self, step: Step, part: exp.Expr, right: int) -> None:
        sides = self._sides(part, right + 1)
        if len(sides) == 2:
            self._between(step, part, right)
            return
        at = sides.pop()
        predicate = self._predicate(part, at)
        if at == (0 if step.mirrored else right) or (step.kind in ("inner", "semi") and not self._sources[at].nullable):
            self._sources[at].predicates.append(predicate)
        else:
            step.condition.append((at, predicate))

    def _where(self, part: exp.Expr, steps: Sequence[Step]) -> None:
        if isinstance(part, exp.In) and only(part, "this", "query"):
            self._member(part)
            return
        sides = self._sides(part, len(self._sources))
        if len(sides) == 2:
            right = max(sides)
            if steps[right - 1].kind != "inner":
                raise Beyond
            self._between(steps[right - 1], part, right)
            return
        at = sides.pop()
        predicate = self._predicate(part, at)
        if self._sources[at].nullable:
            names = {name: f"{self._sources[at].alias}.{name}" for name in self._use(at, predicate)}
            self._above.append(renamed(predicate, names))
        else:
            self._sources[at].predicates.append(predicate)
            knows_text = self._sources[at].with_conditions is not None
            self._sources[at].texts.append(self._around.condition(part) if knows_text else None)

    def _member(self, part: exp.In) -> None:
        """``column IN (SELECT …)``: a semi join with the column's own side, before it is joined with others."""
        found = self._resolve(part.this, len(self._sources))
        place = column_place(part.this) if isinstance(part.this, exp.Column) else None
        if found is None or place is None or self._sources[found[0]].nullable:
            raise Beyond
        source = self._around.members(part, place)
        if source is None or not source.complete or len(source.columns) != 1:
            raise Beyond
        key = source.columns[0]
        if not are_comparable(found[1].type, key.type):
            raise Beyond(_other_types(found[1], key))
        self._sources[found[0]].members.append((found[1].name, source.make((key.name,)), key.name))

    def _sides(self, part: exp.Expr, count: int) -> set[int]:
        """The sources whose columns a condition names: one or two."""
        if any(isinstance(node, exp.Query) for node in part.walk()):
            raise Beyond
        found = {found[0] for node in part.find_all(exp.Column) if (found := self._resolve(node, count)) is not None}
        if len(found) not in (1, 2):
            raise Beyond
        return found

    def _predicate(self, part: exp.Expr, at: int) -> Predicate:
        def resolve(node: exp.Column) -> Column | None:
            found = self._resolve(node, len(self._sources))
            return None if found is None or found[0] != at else found[1]

        made = ConditionBinder(resolve, self._environment).bind(part)
        if made is None:
            raise Beyond
        return made

    def _between(self, step: Step, part: exp.Expr, right: int) -> None:
        """A comparison of a column of the right side with one of the left."""
        while isinstance(part, exp.Paren) and only(part, "this"):
            part = part.this
        op = OPERATORS.get(type(part)) if only(part, "this", "expression") else None
        if op is None:
            raise Beyond
        left, other = self._resolve(part.this, right + 1), self._resolve(part.args["expression"], right + 1)
        if left is None or other is None or right not in (left[0], other[0]):
            raise Beyond
        if not are_comparable(left[1].type, other[1].type):
            raise Beyond(_other_types(left[1], other[1]))
        if left[0] == right:
            left, other, op = other, left, flipped(op)
        if op == "=":
            step.keys[(left[0], left[1].name), other[1].name] = None
        else:
            step.condition.append((left[0], Comparison(left[1].name, op, other[1].name)))

    # ------------------------------------------------------------------------------------------------ stars

    def _star(self, item: exp.Expr) -> list[Found]:
        """The columns of ``*`` and ``t.*``; of a column that USING has made one, the right one is left out."""
        star, qualifier = item, None
        if isinstance(item, exp.Column):
            star, qualifier = item.this, item.args.get("table")
            if not only(item, "this", "table") or qualifier is None:
                raise Beyond
        left_out = {name.name.lower() for name in star.args.get("except_") or () if isinstance(name, exp.Column | exp.Identifier)}
        if not only(star, "except_") or any(name.args.get("table") for name in star.args.get("except_") or ()):
            raise Beyond
        merged = {} if qualifier is not None else self._merged
        if any(at for at, _ in merged.values()):
            raise Beyond("what * shows of a RIGHT join with USING is DuckDB's")
        made: list[Found] = []
        for at, source in enumerate(self._sources):
            if source.hidden or (qualifier is not None and qualifier.name.lower() != source.alias.lower()):
                continue
            if not source.complete:
                raise Beyond
            made += [(at, column) for column in source.columns if not self._is_merged(at, column.name.lower(), merged)]
        kept = [(at, column) for at, column in made if column.name.lower() not in left_out]
        if not kept or len({column.name.lower() for _, column in made} & left_out) < len(left_out):
            raise Beyond
        return kept

    # ------------------------------------------------------------------------------------------------ plan

    def _joined(self, steps: Sequence[Step]) -> Plan:
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

    def _one_join(self, left: Plan, number: int, step: Step) -> HashJoin:
        right = self._sources[number + 1]

        if step.mirrored:
            return self._mirrored(left, right, step)

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

    def _mirrored(self, supplied: Plan, kept: JoinSource, step: Step) -> HashJoin:
        """The LEFT join that the RIGHT join of the first side, which is filled with NULLs, with the second is."""
        first = self._sources[0]
        condition: list[Comparison | Predicate] = []
        for _, part in step.condition:
            swapped = Comparison(part.right, flipped(part.op), part.left) if isinstance(part, Comparison) else part
            condition.append(swapped)
        outputs: list[tuple[str, Side, str]] = [(f"{first.alias}.{column}", "right", column) for column in first.used]
        outputs += [(f"{kept.alias}.{column}", "left", column) for column in kept.used]
        keys = tuple((other, name) for (_, name), other in step.keys)
        return HashJoin(kept.plan(), supplied, step.kind, keys, tuple(outputs), tuple(condition))


def _is_column_first(node: exp.Column) -> bool:
    """Whether a name that a column and an item of the list have means the column where it stands: in the list, in WHERE and ON."""
    around = node.find_ancestor(exp.Order, exp.Group, exp.Having, exp.Qualify, exp.Where, exp.Join, exp.Select)
    return isinstance(around, exp.Where | exp.Join | exp.Select)


def _is_comma(join: exp.Join) -> bool:
    """Whether a join is a comma in FROM: what stands before it is no side of the joins behind it."""
    return only(join, "this")


def _other_types(left: Column, right: Column) -> str:
    return f"{left.name} and {right.name} are compared after a cast"
