"""A SELECT over one table whose FROM, WHERE and GROUP BY are one native ``Aggregate``.

The calls and keys in the rest of its text become columns of the Aggregate. Where nothing else is computed, the whole is a plan of
native nodes; otherwise DuckDB runs the user's text over the Aggregate, with these places replaced and HAVING turned into WHERE.
Whatever names a column that is no key, calls an aggregate that is not native, or is in doubt in any other way, leaves the SELECT to
DuckDB as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.grouping import BucketKey, Call, ColumnKey, ExpressionKey
from tsdb.plan.newest import newest_rows
from tsdb.plan.node import Aggregate, Plan, Project, TableScan
from tsdb.plan.predicate import columns_of, conjunction
from tsdb.quoting import quoted_name
from tsdb.sql.call import NATIVE, SYNTAX_WORDS, CallReader, CallText, read_call
from tsdb.sql.clause import Clauses, find_clauses, sort_expression, text_place
from tsdb.sql.condition import reads_result_set
from tsdb.sql.environment import Environment
from tsdb.sql.group import Group, read_group
from tsdb.sql.literal import only
from tsdb.sql.nesting import Range, unwrapped
from tsdb.sql.select import bind_where, single_table
from tsdb.sql.statement import Query
from tsdb.sql.table_text import TableText, word_of
from tsdb.sql.token import NUMBER, WORD
from tsdb_format.types import ColumnType, Kind

_PARTS = (
    "expressions", "from_", "where", "group", "having", "qualify", "windows", "order", "limit", "offset", "distinct", "with_",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the select list: its expression, without an alias, and its alias."""

    place: Range
    alias: str | None


@dataclass
class AggregateSelect:
    """What was found. ``replaced`` are the columns of the Aggregate by the tokens that stand for them; ``taken`` names in use."""

    text: TableText
    select: exp.Select
    clauses: Clauses
    items: tuple[Item, ...]
    groups: list[Group] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    replaced: dict[Range, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    scan: TableScan | None = None

    def aggregate(self) -> Aggregate:
        """The native node; its scan reads what keys and calls need."""
        assert self.scan is not None
        schema = self.text.reference.table.schema
        wanted: dict[str, None] = {}
        for group in self.groups:
            match group.key:
                case ColumnKey(column=column):
                    wanted[column] = None
                case BucketKey():
                    wanted[schema.time.name] = None
                case ExpressionKey(columns=columns):
                    wanted.update(dict.fromkeys(columns))
        for call in self.calls:
            more = () if call.condition is None else sorted(columns_of(call.condition))
            wanted.update(dict.fromkeys(name for name in (call.column, call.by, *more) if name is not None))
        columns = tuple(column.name for column in schema if column.name in wanted)
        return Aggregate(replace(self.scan, columns=columns), tuple(group.key for group in self.groups), tuple(self.calls))

    def source(self) -> Plan:
        """The plan that gives the columns: what only asks for the newest row of devices needs no Aggregate."""
        made = self.aggregate()
        found = newest_rows(made, self.text.reference.table.schema.time.name)
        return made if found is None or found.valued else Project(found.rows, found.outputs)

    def types(self) -> dict[str, ColumnType]:
        """Types of the Aggregate's columns."""
        schema = self.text.reference.table.schema
        keys = [group.key for group in self.groups]
        found = {key.name: schema.column(key.column).type if isinstance(key, ColumnKey) else key.type for key in keys}
        return {**found, **{call.name: call.type for call in self.calls}}

    def place_column(self, place: Range) -> str | None:
        """The column of the Aggregate that an expression is."""
        place = unwrapped(self.text.tokens, place)
        if place in self.replaced:
            return self.replaced[place]
        column = self.text.column(place)
        keys = [group.key for group in self.groups if isinstance(group.key, ColumnKey)]
        return next((key.name for key in keys if column is not None and key.column == column.name), None)

    def column_text(self, name: str) -> str:
        """The Aggregate's column as DuckDB is to read it: its large integers come as decimals."""
        quoted = quoted_name(name)
        return f"CAST({quoted} AS HUGEINT)" if self.types()[name].kind is Kind.HUGEINT else quoted


def bind_aggregate(
    query: Query, select: exp.Select, tables: Mapping[str, Table], environment: Environment
) -> AggregateSelect | None:
    """The SELECT over an Aggregate; None where it is none, or not native."""
    reference = single_table(select, tables)
    distinct = select.args.get("distinct")
    if reference is None or not only(select, *_PARTS) or (distinct is not None and distinct.args.get("on")):
        return None
    if not _may_aggregate(query, select):
        return None
    for name, part in ((name, part) for name, nodes in select.args.items() if name != "with_" for part in _walk(nodes)):
        if isinstance(part, exp.Query) and not (name == "where" and reads_result_set(part, environment)):
            return None
    clauses = find_clauses(query.tokens, select, reference.node)
    items = None if clauses is None else _items(clauses, select)
    if clauses is None or items is None:
        return None
    predicates, complete = bind_where(select, reference, environment)
    if not complete:
        return None
    text = TableText(query, reference, environment)
    made = AggregateSelect(text, select, clauses, items)
    made.scan = TableScan(reference.table.name, (), conjunction(*predicates))
    return made if _Binder(made).bind() else None


def _may_aggregate(query: Query, select: exp.Select) -> bool:
    """Whether it is worth a closer look."""
    if select.args.get("group") is not None or select.args.get("distinct") is not None:
        return True
    return any(token.is_name and token.text.lower() in NATIVE for token in query.tokens)


def _walk(nodes: object) -> Iterator[object]:
    for node in nodes if isinstance(nodes, list) else [nodes]:
        if isinstance(node, exp.Expr):
            yield from node.walk()


def _items(clauses: Clauses, select: exp.Select) -> tuple[Item, ...] | None:
    """The select list; an alias is at the end of its item, behind AS or not."""
    made = []
    for (start, stop), node in zip(clauses.items, select.expressions, strict=True):
        alias = node.alias if isinstance(node, exp.Alias) else None
        if alias is not None:
            if stop - start < 2 or not clauses.tokens[stop - 1].is_name or clauses.tokens[stop - 1].text != alias:
                return None
            stop -= 2 if clauses.tokens[stop - 2].upper == "AS" else 1
        if start >= stop:
            return None
        made.append(Item((start, stop), alias))
    return tuple(made)


class _Binder:
    """Finds keys and calls in the text, and whether anything else in it needs rows of the table."""

    def __init__(self, made: AggregateSelect) -> None:
        self.made = made
        self.text = made.text
        self.tokens = made.text.tokens
        self.aliases = {item.alias.lower(): item for item in made.items if item.alias is not None}
        self.reader = CallReader(self.tokens, self.text.reference.table.schema.time, self.text.column, self.text.condition)
        self.names: dict[Call, str] = {}
        made.taken.update(token.text.lower() for token in self.tokens if token.is_name)
        made.taken.update(column.name.lower() for column in self.text.reference.table.schema)

    def bind(self) -> bool:
        """Fill ``made`` in; False where the SELECT is none of ours."""
        made = self.made
        if not self._bind_groups():
            return False
        for item in made.items:
            if not self._replace(item.place, frozenset()):
                return False
        names = frozenset(self.aliases)
        for word in ("HAVING", "QUALIFY", "WINDOW"):
            place = made.clauses.body(word)
            if place is not None and not self._replace(place, names if word == "HAVING" else frozenset()):
                return False
        for place in made.clauses.orders:
            alone = sort_expression(self.tokens, place)
            named = alone[1] - alone[0] == 1 and self.tokens[alone[0]].text.lower() in self.aliases
            if not named and not self._replace(alone, frozenset()):
                return False
        return bool(made.groups or made.calls)

    def _bind_groups(self) -> bool:
        group = self.made.select.args.get("group")
        if group is None:
            if self.made.select.args.get("distinct") is None or self._aggregates():
                return True
            places: list[Range | None] = [item.place for item in self.made.items]
        elif not only(group, "expressions", "all"):
            return False
        elif group.args.get("all"):
            places = [item.place for item in self.made.items if not self._calls_native(item.place)]
        else:
            places = [self._grouped(place) for place in self.made.clauses.groups]
        for place in places:
            found = None if place is None else read_group(self.text, place)
            if found is None:
                return False
            if all(found.words != other.words for other in self.made.groups):
                if not isinstance(found.key, ColumnKey):
                    found = replace(found, key=replace(found.key, name=self._unused(found.key.name)))
                self.made.groups.append(found)
        return True

    def _aggregates(self) -> bool:
        return any(self._calls_native(item.place) for item in self.made.items)

    def _calls_native(self, place: Range) -> bool:
        """Whether an item holds an aggregate function."""
        for at in range(*place):
            call = read_call(self.tokens, at, place[1])
            if call is not None and call.name in NATIVE and not call.windowed:
                return True
        return False

    def _grouped(self, place: Range) -> Range | None:
        """The expression that an item of GROUP BY means: a position, a column, an alias, or itself."""
        place = unwrapped(self.tokens, place)
        token = self.tokens[place[0]]
        if place[1] - place[0] == 1:
            if token.kind == NUMBER:
                position = int(token.text) if token.text.isdigit() else 0
                return self.made.items[position - 1].place if 1 <= position <= len(self.made.items) else None
            if token.is_name and self.text.column(place) is None and token.text.lower() in self.aliases:
                return self.aliases[token.text.lower()].place
        return place

    def _replace(self, place: Range, known: frozenset[str]) -> bool:
        """Note the keys and calls in a run of tokens; False where it needs anything else. ``known`` may be named beyond keys."""
        at, stop = place
        while at < stop:
            key = self._key_at(at, place)
            if key is not None:
                group, end = key
                if not isinstance(group.key, ColumnKey):
                    self.made.replaced[(at, end)] = group.key.name
                at = end
                continue
            call = read_call(self.tokens, at, stop)
            if call is not None:
                native = self.reader.read(call)
                if native is not None:
                    self.made.replaced[(at, call.stop)] = self._named(native, (at, call.stop))
                    at = call.stop
                    continue
                if not self._harmless(call):
                    return False
            elif not self._foreign(at, place, known):
                return False
            at += 1
        return True

    def _key_at(self, at: int, place: Range) -> tuple[Group, int] | None:
        """The longest key that is written at a position, and where it ends."""
        found = [(group, end) for group in self.made.groups if (end := self._match(group, at, place)) is not None]
        return max(found, key=lambda pair: pair[1], default=None)

    def _match(self, group: Group, at: int, place: Range) -> int | None:
        end = at
        if at > place[0] and self.tokens[at - 1].is_symbol("."):
            return None
        for word in group.words:
            end += 2 * self.text.is_qualifier(end, place[1])
            if end >= place[1] or word_of(self.tokens[end]) != word:
                return None
            end += 1
        if group.atomic:
            return end if end >= place[1] or not self.tokens[end].is_symbol("(") or len(group.words) > 1 else None
        opened = at == place[0] or self.tokens[at - 1].is_symbol("(", ",")
        return end if opened and (end == place[1] or self.tokens[end].is_symbol(")", ",")) else None

    def _harmless(self, call: CallText) -> bool:
        """Whether a call may stay DuckDB's: a function of each row, or one over windows of them."""
        from tsdb.exec.fold import functions

        if call.windowed:
            return True
        token = self.tokens[call.start]
        if call.name in NATIVE:
            return False
        syntax = token.kind == WORD and token.upper in (SYNTAX_WORDS | {"OVER", "BY", "ORDER", "PARTITION", "FILTER"})
        return syntax or call.name in functions(scalar=True)

    def _foreign(self, at: int, place: Range, known: frozenset[str]) -> bool:
        """Whether a token needs nothing of the table's rows: no column that is no key, no star, not the table as a value."""
        token = self.tokens[at]
        if token.is_symbol("#"):
            return False
        if token.is_symbol("*"):
            return at > place[0] and not self.tokens[at - 1].is_symbol("(", ",", ".")
        if not token.is_name or (token.kind == WORD and token.text.lower() in known):
            return True
        name = token.text.lower()
        if token.kind == WORD and token.upper in ("COLUMNS", "SELECT"):
            return False
        if at > place[0] and self.tokens[at - 1].is_symbol("."):
            return True
        if name == "main" and at + 1 < place[1] and self.tokens[at + 1].is_symbol("."):
            return False
        return (name in known or self.text.reference.column(name) is None) and name != self.text.reference.alias.lower()

    def _named(self, call: Call, place: Range) -> str:
        """The column of a call, which is computed once."""
        if call not in self.names:
            self.names[call] = name = self._unused(" ".join(self.text.text(place).split()))
            self.made.calls.append(replace(call, name=name))
        return self.names[call]

    def _unused(self, name: str) -> str:
        """A name that nothing in the statement means."""
        made, number = name, 1
        while made.lower() in self.made.taken:
            number += 1
            made = f"{name}:{number}"
        self.made.taken.add(made.lower())
        return made


def spliced(made: AggregateSelect, place: Range) -> str:
    """A run of tokens with the Aggregate's columns in place of what they compute."""
    start, end = text_place(made.text.tokens, place)
    pieces, at = [], start
    for (first, stop), name in sorted(made.replaced.items()):
        if place[0] <= first and stop <= place[1]:
            left, right = text_place(made.text.tokens, (first, stop))
            pieces += [made.text.query.text[at:left], quoted_name(name)]
            at = right
    return "".join(pieces) + made.text.query.text[at:end]
