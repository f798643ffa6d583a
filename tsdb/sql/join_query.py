"""All sides of a join: tables and SELECTs of their columns, and any subquery, files, VALUES, functions that give rows.

The columns of the latter are those that DuckDB sees in them. A subquery is bound as a statement of its own, so it is native where
it can be; what DuckDB alone reads is a text of one FROM item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import DuckQuery, Frame, Plan, Project
from tsdb.plan.schema import duckdb_name, output_schema
from tsdb.quoting import quoted_name
from tsdb.sql.clause import Clauses, clauses_around, text_place
from tsdb.sql.condition import conjuncts
from tsdb.sql.environment import Environment
from tsdb.sql.from_item import FromItem, from_items, own_names, parenthesized, with_clause
from tsdb.sql.join_source import JoinSource, frame_source, table_rows
from tsdb.sql.key import is_settled
from tsdb.sql.literal import only
from tsdb.sql.nesting import at_top
from tsdb.sql.select import plain_table
from tsdb.sql.statement import Query
from tsdb.sql.token import tokenize
from tsdb.sql.tree import definition_of, is_local
from tsdb_format.errors import Error, InvalidInput
from tsdb_format.schema import Column
from tsdb_format.types import ColumnType, Kind, Role, parse_type


class Beyond(Exception):
    """Something that is DuckDB's; its text says what, where people may wonder."""


def items_of(select: exp.Select) -> list[exp.Expr]:
    """What stands in FROM, under joins or not."""
    return [select.args["from_"].this, *(join.this for join in select.args["joins"])]


@dataclass
class Surroundings:
    """What an item of FROM may mean: tables by lower-case name, the caller's data by name, and what the query around it defines.

    ``select`` is the SELECT of ``tree`` that has them.
    """

    query: Query
    tree: exp.Query
    select: exp.Select
    tables: Mapping[str, Table]
    frames: Mapping[str, Frame]
    environment: Environment

    @cached_property
    def clauses(self) -> Clauses:
        """Where the clauses of the SELECT are in the text. Raises Beyond where the text does not show them."""
        inside = next((place for item in items_of(self.select) for place in own_names(item)), None)
        found = clauses_around(self.query.tokens, self.select, inside)
        if found is None:
            raise Beyond
        return found

    @cached_property
    def places(self) -> Mapping[int, FromItem]:
        """Where the items of FROM are, by their identity. Raises Beyond where the text does not show them."""
        items = items_of(self.select)
        found = from_items(self.query.tokens, self.clauses.spans["FROM"], items)
        if found is None:
            raise Beyond
        return {id(item): place for item, place in zip(items, found, strict=True)}

    def source(self, node: exp.Expr) -> JoinSource | None:
        """What an item of FROM is; None where its columns are not known here."""
        made = table_rows(node, self.tables, self.environment)
        if made is not None:
            return made
        named = plain_table(node)
        if named is None:
            return self._unnamed(node)
        if is_local(named):
            start, end = self._place(node)
            query = standing_alone(self.query, node, (start, end), self.tree)
            if query is None:
                return None
            defined = part_of(query, 0, len(query.text) - (end - start))
            return self._rows_of(combined(defined, f"SELECT * FROM {quoted_name(named.name)}"), named.alias_or_name, ())
        frame = self.frames.get(named.name)
        if frame is not None:
            return frame_source(frame, named.alias_or_name)
        return self._outside(node, named.alias or Path(named.name).stem)  # as DuckDB calls a file without alias

    def _unnamed(self, node: exp.Expr) -> JoinSource | None:
        """A subquery, VALUES, or a function that gives rows; each has to have an alias."""
        alias = node.args.get("alias")
        if (
            not isinstance(alias, exp.TableAlias)
            or not only(alias, "this", "columns")
            or not isinstance(alias.this, exp.Identifier)
        ):
            return None
        if isinstance(node, exp.Subquery) and only(node, "this", "alias"):
            inside = parenthesized(self.query.tokens, self.places[id(node)].place)
            place = None if inside is None else text_place(self.query.tokens, inside)
            query = None if place is None else standing_alone(self.query, node, place, self.tree)
            names = [name.name for name in alias.args.get("columns") or ()]
            return None if query is None else self._rows_of(query, alias.name, names)
        reads_others = any(isinstance(each, exp.Table | exp.Column | exp.Query) and each is not node for each in node.walk())
        known = isinstance(node, exp.Table | exp.Values | exp.Unnest) and only(node, "this", "alias", "expressions")
        return self._outside(node, alias.name) if known and not reads_others else None

    def members(self, node: exp.In, after: tuple[int, int]) -> JoinSource | None:
        """The rows of the subquery of ``column IN (SELECT …)``, where the column stands at ``after``."""
        tokens, inner = self.query.tokens, node.args["query"]
        at = next((i for i, token in enumerate(tokens) if token.start >= after[1]), len(tokens))
        if at + 1 >= len(tokens) or tokens[at].upper != "IN":
            return None
        inside = parenthesized(tokens, (at + 1, len(tokens)))
        query = None if inside is None else standing_alone(self.query, inner, text_place(tokens, inside), self.tree)
        return None if query is None else self._rows_of(query, "members", ())

    def condition(self, part: exp.Expr) -> Query | None:
        """The text of a conjunct of WHERE; None where it is not found."""
        place = self.condition_place(part)
        return None if place is None else part_of(self.query, *place)

    def condition_place(self, part: exp.Expr) -> tuple[int, int] | None:
        """Where the text of a conjunct of WHERE or of ON is; None where it is not found."""
        around = part.find_ancestor(exp.Where, exp.Join)
        of_join = isinstance(around, exp.Join)
        body = self.places[id(around.this)].on if of_join and around is not None else self.clauses.body("WHERE")
        if around is None or body is None:
            return None
        tokens, nodes = self.query.tokens, list(conjuncts(around.args["on"] if of_join else around.this))
        ends = [at for at in at_top(tokens, *body) if tokens[at].upper == "AND"]
        places = list(zip([body[0], *(end + 1 for end in ends)], [*ends, body[1]], strict=True))
        number = next((at for at, node in enumerate(nodes) if node is part), -1)
        if number < 0 or len(places) != len(nodes):  # BETWEEN has an AND, too
            return None
        return text_place(tokens, places[number])

    def _place(self, node: exp.Expr) -> tuple[int, int]:
        return text_place(self.query.tokens, self.places[id(node)].place)

    def _outside(self, node: exp.Expr, alias: str) -> JoinSource | None:
        return outside_source(part_of(self.query, *self._place(node)), alias, self.environment)

    def _rows_of(self, query: Query, alias: str, names: Sequence[str]) -> JoinSource | None:
        return query_source(query, alias, names, self.tables, self.environment)


class _Definition(NamedTuple):
    table: Table


@dataclass(frozen=True, slots=True)
class _Definitions:
    """What is known of tables while binding."""

    tables: Mapping[str, _Definition]


def part_of(query: Query, start: int, end: int) -> Query:
    """The text of a query at [start, end), as a query."""
    text = query.text[start:end]
    latest = frozenset(place - start for place in query.latest_joins if start <= place < end)
    return Query(text, tuple(tokenize(text)), latest_joins=latest)


def combined(*parts: str | Query) -> Query:
    """One query of several pieces of text."""
    text, latest = "", set[int]()
    for part in parts:
        if isinstance(part, Query):
            latest |= {place + len(text) for place in part.latest_joins}
        text += part if isinstance(part, str) else part.text
    return Query(text, tuple(tokenize(text)), latest_joins=frozenset(latest))


def _where(conditions: Sequence[Query]) -> list[str | Query]:
    pieces: list[str | Query] = []
    for condition in conditions:
        pieces += [" AND (" if pieces else " WHERE (", condition, ")"]
    return pieces


def outside_source(item: Query, alias: str, environment: Environment) -> JoinSource | None:
    """What DuckDB reads for an item of FROM, which names nothing of ours."""
    from tsdb.sql.assembly import assemble

    def of(conditions: Sequence[Query]) -> JoinSource | None:
        whole = combined("SELECT * FROM ", item, *_where(conditions))
        return _duck_source(assemble(whole, [], (), environment), alias, (), {})

    environment.used_outside = True
    made = of(())
    return None if made is None else replace(made, with_conditions=of)


def query_source(
    query: Query, alias: str, names: Sequence[str], tables: Mapping[str, Table], environment: Environment
) -> JoinSource | None:
    """The rows of any query, whose first columns are called ``names``; None where it does not stand on its own."""

    def of(conditions: Sequence[Query]) -> JoinSource | None:
        listed = f"({', '.join(map(quoted_name, names))})" if names else ""
        whole = combined("SELECT * FROM (", query, f"\n) AS {quoted_name(alias)}{listed}", *_where(conditions))
        return _bound_source(whole, alias, (), tables, environment)

    made = _bound_source(query, alias, names, tables, environment)
    return None if made is None else replace(made, with_conditions=of)


def _bound_source(
    query: Query, alias: str, names: Sequence[str], tables: Mapping[str, Table], environment: Environment
) -> JoinSource | None:
    from tsdb.settings import Settings
    from tsdb.sql.binder import TreeBinder

    own = Environment(environment.values, environment.now_ns, members=environment.members, native_joins=environment.native_joins)
    try:
        plan, shown = TreeBinder(query).bind(tables, Settings(), own)
    except Error:  # it is DuckDB's to refuse
        return None
    environment.used_now |= own.used_now
    environment.used_outside |= own.used_outside
    if isinstance(plan, DuckQuery):
        return _duck_source(plan, alias, names, tables)
    schema = output_schema(plan, _definitions(tables))
    kinds = dict(zip(_renamed(tuple(shown or ()), names), (kind for _, kind in schema), strict=True))
    origin = dict(zip(kinds, (name for name, _ in schema), strict=False))
    if len({name.lower() for name in kinds}) < len(schema):
        return None

    def make(wanted: tuple[str, ...]) -> Plan:
        return Project(plan, tuple((name, origin[name]) for name in wanted))

    return _source(alias, kinds, len(schema), make)


def standing_alone(query: Query, node: exp.Expr, place: tuple[int, int], tree: exp.Expr) -> Query | None:
    """The text at ``place``, that of ``node`` in ``tree``, as a query of its own, behind the WITH that defines what it names.

    None where that defines rows that may be others each time they are asked for, and others ask, too.
    """
    named = [found for table in node.find_all(exp.Table) if (found := definition_of(table)) is not None]
    outer = {id(found.parent): found.parent for found in named if not _is_inside(found, node)}
    inner = part_of(query, *place)
    if not outer:
        return inner
    clause = next(iter(outer.values()))
    tokens = with_clause(query.tokens, clause) if isinstance(clause, exp.With) else None
    if len(outer) > 1 or tokens is None or not isinstance(clause, exp.With):
        return None
    references = [definition_of(table) for table in tree.find_all(exp.Table)]
    for cte in clause.expressions:
        repeated = sum(other is cte for other in references) > 1
        if repeated and not (isinstance(cte.this, exp.Select) and is_settled(cte.this, query.tokens[slice(*tokens)])):
            return None
    return combined(part_of(query, *text_place(query.tokens, tokens)), " ", inner)


def _is_inside(node: exp.Expr, outer: exp.Expr) -> bool:
    return node is outer or (node.parent is not None and _is_inside(node.parent, outer))


def _definitions(tables: Mapping[str, Table]) -> _Definitions:
    return _Definitions({table.name: _Definition(table) for table in tables.values()})


def _duck_source(query: DuckQuery, alias: str, names: Sequence[str], tables: Mapping[str, Table]) -> JoinSource | None:
    from tsdb.exec.shown import described

    definitions = _definitions(tables)
    try:
        found = described(query, lambda plan: tuple((n, duckdb_name(kind)) for n, kind in output_schema(plan, definitions)))
    except TypeError:  # an input whose columns only DuckDB knows
        return None
    if found is None:
        return None
    columns, rows = found
    shown = _renamed(tuple(name for name, _ in columns), names)
    if len({name.lower() for name in shown}) < len(shown):
        return None
    kinds: dict[str, ColumnType] = {}
    for name, (_, kind) in zip(shown, columns, strict=True):
        try:
            kinds[name] = parse_type(kind)
        except InvalidInput:  # a type that is not ours
            continue
    listed = ", ".join(map(quoted_name, shown))

    def make(wanted: tuple[str, ...]) -> Plan:
        items = ", ".join(map(quoted_name, wanted)) or "NULL"
        sql = f"SELECT {items} FROM (\n{query.sql}\n) AS q({listed})"
        return replace(query, sql=sql, place=None, columns=tuple((name, kinds[name]) for name in wanted), rows=rows)

    return _source(alias, kinds, len(columns), make)


def _renamed(shown: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    """The names of columns, of which an alias has named the first ones."""
    return (*names, *shown[len(names) :])


def _source(alias: str, kinds: Mapping[str, ColumnType], count: int, make: Callable[[tuple[str, ...]], Plan]) -> JoinSource:
    """A source of such columns as are joined, of ``count`` in all."""
    joined = tuple(Column(name, kind, Role.FIELD, 0) for name, kind in kinds.items() if kind.kind is not Kind.HUGEINT)
    return JoinSource(alias, joined, make, complete=len(joined) == count)
