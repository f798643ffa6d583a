"""What an ``AggregateSelect`` becomes: a plan of native nodes, or the user's text over the Aggregate."""

from __future__ import annotations

from sqlglot import exp

from tsdb.plan.grouping import ColumnKey
from tsdb.plan.node import Filter, Limit, Plan, Project, Sort, SortKey
from tsdb.plan.predicate import And, Predicate
from tsdb.plan.schema import duckdb_name
from tsdb.quoting import quoted_name
from tsdb.sql.aggregate import AggregateSelect, Item, spliced
from tsdb.sql.clause import sort_expression, text_place
from tsdb.sql.condition import ConditionBinder, conjuncts
from tsdb.sql.literal import only
from tsdb.sql.native import UNSORTABLE, unique_names
from tsdb.sql.nesting import Range, unwrapped
from tsdb.sql.select import bind_counts
from tsdb.sql.token import NUMBER, PARAMETER
from tsdb.sql.tree import parse_expression
from tsdb_format.schema import Column
from tsdb_format.types import Role

Splice = tuple[int, int, str]


def native_plan(made: AggregateSelect) -> tuple[Plan, tuple[str, ...]] | None:
    """The whole SELECT as native nodes, and the names that it shows; None where something is DuckDB's."""
    select = made.select
    if any(select.args.get(name) for name in ("qualify", "windows", "with_")):
        return None
    columns = [made.place_column(item.place) for item in made.items]
    counts = bind_counts(select, made.text.environment)
    if counts is None or None in columns:
        return None
    outputs = [name for name in columns if name is not None]
    if select.args.get("distinct") is not None and {group.key.name for group in made.groups} - set(outputs):
        return None
    having = _having(made)
    keys = _sort_keys(made, outputs)
    names = shown_names(made)
    if having is None or keys is None or names is None:
        return None
    ordered = _ordered(made, keys)
    plan = made.source()
    if having:
        plan = Filter(plan, And(tuple(having)))
    if not ordered:
        plan = Sort(plan, keys)
    limit, offset = counts
    if limit is not None or offset:
        plan = Limit(plan, limit, offset)
    return Project(plan, tuple(zip(unique_names(list(names)), outputs, strict=True))), names


def duck_splices(made: AggregateSelect, name: str) -> list[Splice] | None:
    """The changes that make the SELECT's text one over the input ``name``; None where an unnamed column's name is not known."""
    clauses, tokens = made.clauses, made.text.tokens
    splices: list[Splice] = []
    for place, column in made.replaced.items():
        splices.append((*text_place(tokens, place), made.column_text(column)))
    from_ = clauses.place("FROM")
    assert from_ is not None
    splices.append((*from_, f"FROM {name} AS {quoted_name(made.text.reference.alias)}"))
    for word in ("WHERE", "GROUP"):
        found = clauses.place(word)
        if found is not None:
            splices.append((*found, ""))
    if "HAVING" in clauses.spans:
        keyword = tokens[clauses.spans["HAVING"][0]]
        splices.append((keyword.start, keyword.end, "WHERE"))
    unnamed = [item for item in made.items if item.alias is None and not _is_column(made, item)]
    names = shown_names(made) if unnamed else ()
    if names is None:
        return None
    for item, shown in zip(made.items, names, strict=False):
        if item in unnamed:
            end = text_place(tokens, item.place)[1]
            splices.append((end, end, f" AS {quoted_name(shown)}"))
    return splices


def shown_names(made: AggregateSelect) -> tuple[str, ...] | None:
    """The names that DuckDB would show; it is asked where it makes them up."""
    known = [_known_name(made, item) for item in made.items]
    if all(name is not None for name in known):
        return tuple(name for name in known if name is not None)
    from tsdb.exec.shown import shown_columns

    clauses, tokens = made.clauses, made.text.tokens
    read = [made.text.text(clauses.spans["SELECT"]), made.text.text(clauses.spans["GROUP"]) if "GROUP" in clauses.spans else ""]
    if any(token.kind == PARAMETER for word in ("SELECT", "GROUP") for token in tokens[slice(*clauses.spans.get(word, (0, 0)))]):
        return None
    if "WINDOW" in clauses.spans:
        read[1] += " " + made.text.text(clauses.spans["WINDOW"])
    columns = tuple((column.name, duckdb_name(column.type)) for column in made.text.reference.table.schema)
    shown = shown_columns(read[0] + " FROM", columns, f"AS {quoted_name(made.text.reference.alias)} {read[1]}")
    if shown is None or len(shown) != len(known):
        return None
    return tuple(name for name, _ in shown)


def _known_name(made: AggregateSelect, item: Item) -> str | None:
    if item.alias is not None:
        return item.alias
    column = made.text.column(item.place)
    return None if column is None else column.name


def _is_column(made: AggregateSelect, item: Item) -> bool:
    return made.text.column(item.place) is not None


def _having(made: AggregateSelect) -> list[Predicate] | None:
    """The conjuncts of HAVING as conditions on the Aggregate's columns."""
    place = made.clauses.body("HAVING")
    if place is None:
        return []
    tree = parse_expression(spliced(made, place))
    if tree is None:
        return None
    binder = ConditionBinder(lambda node: _column(made, node), made.text.environment)
    found = []
    for part in conjuncts(tree):
        predicate = binder.bind(part)
        if predicate is None:
            return None
        found.append(predicate)
    return found


def _column(made: AggregateSelect, node: exp.Column) -> Column | None:
    """A column of the Aggregate that a condition names: by its own name, or by an alias of the select list."""
    if not isinstance(node.this, exp.Identifier) or not only(node, "this", "table"):
        return None
    name, qualifier, types = node.this.name, node.args.get("table"), made.types()
    grouped = {key.name.lower(): key.name for group in made.groups if isinstance(key := group.key, ColumnKey)}
    if qualifier is not None and qualifier.name.lower() != made.text.reference.alias.lower():
        return None
    found = name if name in made.replaced.values() else grouped.get(name.lower())
    if found is None and qualifier is None:
        item = next((item for item in made.items if item.alias is not None and item.alias.lower() == name.lower()), None)
        found = None if item is None else made.place_column(item.place)
    return None if found is None else Column(found, types[found], Role.FIELD, 0)


def _ordered(made: AggregateSelect, keys: tuple[SortKey, ...]) -> bool:
    """Whether groups come in this order; they come in that of the group keys, of which the order is free."""
    groups = {group.key.name: group for group in made.groups}
    if any(key.descending or key.nulls_first or key.column not in groups for key in keys):
        return False
    first = [groups[key.column] for key in keys]
    made.groups = [*first, *(group for group in made.groups if group not in first)]
    return True


def _sort_keys(made: AggregateSelect, outputs: list[str]) -> tuple[SortKey, ...] | None:
    """ORDER BY as columns of the Aggregate."""
    order = made.select.args.get("order")
    if order is None:
        return ()
    if not only(order, "expressions"):
        return None
    keys: dict[str, SortKey] = {}
    types = made.types()
    for place, node in zip(made.clauses.orders, order.expressions, strict=True):
        if not isinstance(node, exp.Ordered) or not only(node, "this", "desc", "nulls_first"):
            return None
        start, stop = sort_expression(made.text.tokens, place)
        every = stop - start == 1 and made.text.tokens[start].upper == "ALL"
        for column in outputs if every else [_sorted_column(made, (start, stop), outputs)]:
            if column is None or types[column].kind in UNSORTABLE:
                return None
            keys.setdefault(column, SortKey(column, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return _telling(made, tuple(keys.values()))


def _telling(made: AggregateSelect, keys: tuple[SortKey, ...]) -> tuple[SortKey, ...]:
    """The keys up to where they tell all groups apart."""
    left = {group.key.name for group in made.groups}
    for at, key in enumerate(keys):
        if not left:
            return keys[:at]
        left.discard(key.column)
    return keys


def _sorted_column(made: AggregateSelect, place: Range, outputs: list[str]) -> str | None:
    """The column that an item of ORDER BY names: by position, by alias, or by what it computes."""
    tokens = made.text.tokens
    start, stop = unwrapped(tokens, place)
    token = tokens[start]
    if stop - start == 1:
        if token.kind == NUMBER:
            position = int(token.text) if token.text.isdigit() else 0
            return outputs[position - 1] if 1 <= position <= len(outputs) else None
        aliased = [at for at, item in enumerate(made.items) if item.alias is not None and item.alias.lower() == token.text.lower()]
        if token.is_name and aliased:
            return outputs[aliased[0]]
    return made.place_column((start, stop))
