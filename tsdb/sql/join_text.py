"""A SELECT over joined tables of which the joins are native, and the rest is DuckDB's: its text over their rows as one input.

The text keeps its select list, GROUP BY, HAVING, windows, ORDER BY and whatever else it has. FROM with all that is joined there,
and the conditions of WHERE that are native, become the input; references to columns become that input's. Conditions that are not
native stay as a WHERE. Where it is not certain what a name means, the whole SELECT stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import Plan, Project
from tsdb.sql.by_time import ordered_by_time
from tsdb.sql.clause import text_place
from tsdb.sql.condition import conjuncts
from tsdb.sql.environment import Environment
from tsdb.sql.join_binder import JoinBinder, Step, surroundings
from tsdb.sql.join_list import NAMING, column_place, list_splices
from tsdb.sql.join_query import Beyond, Surroundings, items_of
from tsdb.sql.join_source import Origin
from tsdb.sql.key import stands_alone
from tsdb.sql.literal import only
from tsdb.sql.statement import Query

Splice = tuple[int, int, str]
_SHAPE = (
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "windows", "order", "limit", "offset", "distinct",
    "with_", "sample",
)  # fmt: skip
#: Clauses whose columns are renamed, besides the select list.
_RENAMED = ("group", "having", "qualify", "windows", "order", "distinct")


@dataclass(frozen=True, slots=True)
class JoinText:
    """The changes of a SELECT's text, the input that it reads then, and what of the tree is in that input, by identity."""

    splices: list[Splice]
    plan: Plan
    covered: frozenset[int]


def bind_join_text(
    query: Query, select: exp.Select, tree: exp.Query, tables: Mapping[str, Table], environment: Environment, name: str
) -> JoinText | None:
    """The SELECT over its joins as the input ``name``; None where these are DuckDB's, for which ``environment`` gets a reason."""
    if not select.args.get("joins") or select.args.get("from_") is None:
        return None
    try:
        if not only(select, *_SHAPE):
            raise Beyond
        return _TextBinder(query, select, surroundings(query, select, tree, tables, environment)).over(name)
    except Beyond as reason:
        names = ", ".join(item.alias_or_name or "…" for item in items_of(select))
        environment.remarks.append(f"hash_join: {names}: declined: {reason.args[0] if reason.args else 'more than is native'}")
        return None


class _TextBinder(JoinBinder):
    def __init__(self, query: Query, select: exp.Select, around: Surroundings) -> None:
        super().__init__(query, select, around)
        self._frames = around.frames
        self._clauses = around.clauses
        #: Conditions that stay in the text, as places of tokens, and their trees.
        self._kept: list[tuple[tuple[int, int], exp.Expr]] = []
        #: Why conditions that are not native are not.
        self._reasons: list[object] = []

    def over(self, name: str) -> JoinText:
        """The SELECT's text over its joins, which are the input ``name``."""
        steps = [self._step(number, join) for number, join in enumerate(self._joins)]
        where, body = self._select.args.get("where"), self._clauses.body("WHERE")
        if where is not None and body is not None and not self._are_native(conjuncts(where.this), steps):
            self._kept.append((body, where.this))
        if not all(step.keys for step in steps):
            raise Beyond(*(self._reasons or ["a side has no equality with those before it"])[:1])
        splices = self._of_list()
        for clause in _RENAMED:
            splices += self._renamed(_nodes(self._select, clause))
        splices += self._of_source(name)
        plan = self._rows(steps, (), None, 0)
        if not self._named:  # a row needs a column to be counted
            (at, key), _ = next(iter(steps[0].keys))
            self._named[f"{self._sources[at].alias}.{key}"] = None
        gone = [*items_of(self._select), *([] if where is None or self._keeps(where.this) else [where])]
        covered = frozenset(id(node) for root in gone for node in root.walk())
        return JoinText(splices, Project(plan, tuple((each, each) for each in self._named)), covered)

    def _stays(self, part: exp.Expr, join: exp.Join, right: int, reason: Beyond) -> bool:
        """The whole of ON stays in the text as a WHERE."""
        self._reasons += reason.args
        place, on = self._around.places[id(join.this)].on, join.args["on"]
        if place is not None and not self._keeps(on):
            self._kept.append((place, on))
        return place is not None

    def _are_native(self, parts: Iterable[exp.Expr], steps: Sequence[Step]) -> bool:
        """Whether all conditions are native; each that is, is applied."""
        found = True
        for part in parts:
            try:
                self._where(part, steps)
            except Beyond:
                found = False
        return found

    def _keeps(self, condition: exp.Expr) -> bool:
        return any(tree is condition for _, tree in self._kept)

    # ------------------------------------------------------------------------------------------------ text

    def _of_source(self, name: str) -> list[Splice]:
        """FROM and WHERE as the input and the conditions that stay."""
        start, end = text_place(self._query.tokens, self._clauses.spans["FROM"])
        splices: list[Splice] = []
        text = f"FROM {name}"
        for number, (place, tree) in enumerate(self._kept):
            splices += self._renamed([tree])
            first, last = text_place(self._query.tokens, place)
            splices.append((start, first, f"{text}{' AND ' if number else ' WHERE '}("))
            text, start = ")", last
        where = self._clauses.place("WHERE")
        return [*splices, (start, max(end, 0 if where is None else where[1]), text)]

    def _of_list(self) -> list[Splice]:
        """The select list."""
        clauses = self._clauses
        if not clauses.items:
            raise Beyond
        place = (clauses.items[0][0], clauses.items[-1][1])
        after = "GROUP BY ALL" if "GROUP" in clauses.spans else ""
        after += f" {self._text(clauses.spans['WINDOW'])}" if "WINDOW" in clauses.spans else ""
        self._refuse_unclear(self._select.expressions)
        splices = list_splices(self._query, self._select, place, self._shown_as(), self._reference, self._all_written, after)
        if splices is None:
            raise Beyond("it is not certain how columns are named")
        for item in clauses.items:
            splices += self._by_time(item)
        for word in ("HAVING", "QUALIFY", "ORDER"):
            body = clauses.body(word)
            splices += [] if body is None else self._by_time(body)
        return splices

    def _text(self, place: tuple[int, int]) -> str:
        start, end = text_place(self._query.tokens, place)
        return self._query.text[start:end]

    def _by_time(self, place: tuple[int, int]) -> list[Splice]:
        """``first`` and ``last`` go by the time of the first table."""
        origin = self._sources[0].origin
        if not isinstance(origin, Origin):
            return []

        def spelt(column: str) -> str:
            found = self._sources[0].column(column)
            assert found is not None
            return self._written(0, found)

        return list(ordered_by_time(self._query.tokens, place, origin.table.schema, spelt))

    def _renamed(self, nodes: Sequence[exp.Expr]) -> list[Splice]:
        self._refuse_unclear(nodes)
        splices: list[Splice] = []
        for column in _own_columns(nodes):
            place, text = column_place(column), self._reference(column)
            if place is None:
                raise Beyond
            if text is not None:
                splices.append((*place, text))
        return splices

    def _refuse_unclear(self, nodes: Sequence[exp.Expr]) -> None:
        """Raise Beyond where names may be others than columns of the sides."""
        for root in nodes:
            for node in root.walk():
                if isinstance(node, NAMING):
                    raise Beyond("a lambda, COLUMNS or the like gives names to what is no column")
                if isinstance(node, exp.Select) and not stands_alone(node, self._tables, self._frames):
                    raise Beyond("a subquery may speak of the sides")


def _nodes(select: exp.Select, clause: str) -> list[exp.Expr]:
    found = select.args.get(clause)
    return found if isinstance(found, list) else [] if found is None else [found]


def _own_columns(nodes: Sequence[exp.Expr]) -> Iterator[exp.Column]:
    """References outside of subqueries."""
    for root in nodes:
        for node in root.walk(prune=lambda each: isinstance(each, exp.Query)):
            if isinstance(node, exp.Column):
                yield node
