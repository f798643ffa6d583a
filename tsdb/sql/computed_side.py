"""A side of a LATEST JOIN as a SELECT that computes: expressions over the rows of one table, with any conditions on them.

DuckDB computes it. Its text gets more items, the columns that tell when a row arrived, so that the last of each key can be found in
what it gives, and each row of the left side has its place. Whatever looks at more than one row at a time is none of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import DuckQuery, LastArrived, Plan, Project
from tsdb.quoting import quoted_name
from tsdb.sql.clause import find_clauses, text_place
from tsdb.sql.environment import Environment
from tsdb.sql.join_source import JoinSource, arrival_columns
from tsdb.sql.literal import only
from tsdb.sql.native import TableReference
from tsdb.sql.select import plain_table, refer
from tsdb.sql.statement import Query
from tsdb.sql.token import tokenize
from tsdb.sql.tree import definition_of
from tsdb_format.schema import Column

_ROWS = (exp.Query, exp.AggFunc, exp.Window)
#: Functions of no row, which are computed for each.
_OF_THE_MOMENT = frozenset({"now", "today", "current_timestamp", "current_date", "random", "uuid"})


@dataclass(frozen=True, slots=True)
class ComputedOrigin:
    """Rows computed from a table's, each with the columns ``arrival`` of the row that it was computed from.

    ``unchanged`` are those that are the table's: (name, its name there).
    """

    source: JoinSource
    arrival: tuple[str, ...]
    unchanged: tuple[tuple[str, str], ...]

    def with_arrival(self, names: tuple[str, ...]) -> Plan:
        """Columns of the rows, of whose plan the lowest node also gives those that tell where they stand."""
        made = self.source.make((*names, *self.arrival))
        if isinstance(made, DuckQuery):
            made = replace(made, unchanged=tuple(pair for pair in self.unchanged if pair[0] in names))
        return Project(made, tuple((name, name) for name in names))

    def last_arrived(self, names: tuple[str, ...], keys: tuple[str, ...], asof: str | None = None) -> LastArrived:
        """As that of ``Origin``."""
        wanted = tuple(dict.fromkeys((*names, *keys, *self.arrival)))
        return LastArrived(self.source.make(wanted), keys, self.arrival, asof)


def computed_side(query: Query, node: exp.Expr, tables: Mapping[str, Table], environment: Environment) -> JoinSource | None:
    """The side that a subquery is, in parentheses or named by WITH; None where it is no such SELECT."""
    from tsdb.exec.fold import functions
    from tsdb.sql.join_query import query_source
    from tsdb.sql.rewrite import computes_rows

    defined = definition_of(node) if isinstance(node, exp.Table) else None
    inside = node if defined is None else defined
    select, alias = inside.this, inside.args.get("alias")
    if not isinstance(select, exp.Select) or not only(inside, "this", "alias") or not isinstance(alias, exp.TableAlias):
        return None
    if not only(alias, "this") or not only(select, "expressions", "from_", "where") or not select.expressions:
        return None
    from_, where = select.args.get("from_"), select.args.get("where")
    table = plain_table(from_.this) if from_ is not None and only(from_, "this") else None
    reference = None if table is None else refer(table, tables)
    clauses = None if table is None or reference is None else find_clauses(query.tokens, select, table)
    if clauses is None or reference is None or (where is not None and any(isinstance(part, _ROWS) for part in where.walk())):
        return None
    tokens, items = query.tokens, clauses.items
    if not computes_rows(tokens[items[0][0] : items[-1][1]], select, functions(scalar=True) | _OF_THE_MOMENT):
        return None
    start, end = text_place(tokens, (clauses.spans["SELECT"][0], max(stop for _, stop in clauses.spans.values())))
    last = text_place(tokens, items[-1])[1]
    arrival = arrival_columns(reference.table)
    more = "".join(f", {quoted_name(reference.alias)}.{quoted_name(column)} AS {name}" for name, column in arrival.items())
    text = f"{query.text[start:last]}{more}{query.text[last:end]}"
    made = query_source(Query(text, tuple(tokenize(text))), node.alias_or_name, (), tables, environment)
    if made is None or any(made.column(name) is None for name in arrival):
        return None
    shown = tuple(column for column in made.columns if column.name not in arrival)
    origin = ComputedOrigin(made, tuple(arrival), tuple(_unchanged(select, reference, shown)))
    return replace(made, columns=shown, origin=origin, with_conditions=None)


def _unchanged(select: exp.Select, reference: TableReference, shown: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """The items that are columns of the table, with their names there; none where an item gives several."""
    if len(shown) != len(select.expressions):
        return
    for item, column in zip(select.expressions, shown, strict=True):
        node = item.this if isinstance(item, exp.Alias) else item
        named = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and only(node, "this", "table")
        if named and node.text("table").lower() in ("", reference.alias.lower()):
            stored = reference.column(node.name)
            if stored is not None:
                yield column.name, stored.name
