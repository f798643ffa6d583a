"""Everything that is not native: the statement's own text, with its tables replaced by inputs that we scan.

The text is never generated anew. Names of tables are cut out of it and replaced in place, a parenthesised subquery that is a native
TopK becomes an input as a whole, and parameters are renumbered; so DuckDB reads what the user wrote. Where the tree and the text do
not agree, or sqlglot does not know the syntax, the text stays as it is and every table it may mean is an input under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.node import DuckQuery, Frame, Keys, LastRow, Plan, Project, TableScan
from tsdb.plan.predicate import Predicate, conjunction
from tsdb.plan.transform import transform
from tsdb.quoting import quoted_name
from tsdb.sql.aggregate import AggregateSelect, bind_aggregate
from tsdb.sql.aggregate_plan import duck_splices, native_plan
from tsdb.sql.assembly import Splice, assemble
from tsdb.sql.blob_size import blob_sizes_asked
from tsdb.sql.by_time import by_time_splices
from tsdb.sql.call import SYNTAX_WORDS
from tsdb.sql.environment import Environment
from tsdb.sql.join_text import bind_join_text
from tsdb.sql.key import KEY_KINDS, key_plan
from tsdb.sql.last_row import bind_last_row, reduced_input
from tsdb.sql.latest_input import latest_inputs
from tsdb.sql.latest_join import refuse_unparsed
from tsdb.sql.native import NativeSelect
from tsdb.sql.outside import INPUT_PREFIX, catalog_read_by, frames_maybe_named, frames_named_by
from tsdb.sql.scope import key_subqueries, pushed_predicates
from tsdb.sql.select import bind_select, plain_table, refer
from tsdb.sql.statement import Query
from tsdb.sql.token import Token
from tsdb.sql.tree import is_local, span
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.types import Kind

#: What a SELECT stands in that an input may take the place of.
_WHOLE = (exp.Subquery, exp.CTE, exp.In, exp.Exists)
ScalarCheck = Callable[[Sequence[Token], exp.Select], bool]
#: A table's name after one of these is a whole statement, and takes no alias; PIVOT t, too, and a sample or a PIVOT behind it.
_NO_ALIAS_AFTER = frozenset({"TABLE", "SUMMARIZE", "DESCRIBE", "DESC", "PIVOT", "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER"})


class _Disagreement(Exception):
    """The tree does not say where things are in the text."""


def rewrite(
    query: Query, tree: exp.Query | None, tables: Mapping[str, Table], environment: Environment, *, native: bool
) -> DuckQuery:
    """The DuckQuery of a whole statement. ``native`` allows predicates in scans and native subqueries."""
    frames = frames_maybe_named(query.tokens, tables) if tree is None else frames_named_by(query, tree, tables)
    catalog = catalog_read_by(query.tokens, tables)
    # which tables such a text names is seen by DuckDB alone
    environment.used_outside |= bool(frames or catalog) or tree is None or _names_by_value(query.tokens)
    outside: list[tuple[str, Plan]] = [(frame.name, frame) for frame in frames]
    if tree is not None:
        try:
            return replace(_Rewriter(query, tree, tables, environment, native).run(outside), catalog=catalog)
        except _Disagreement:
            pass
    refuse_unparsed(query)
    named = dict.fromkeys(token.text.lower() for token in query.tokens if token.is_name and token.text.lower() in tables)
    if _names_by_value(query.tokens):
        named = dict.fromkeys(tables)
    sequence = any(token.is_name and token.text.lower() == SEQUENCE_NAME for token in query.tokens)
    made = assemble(query, [], (*_by_own_name((tables[name] for name in named), sequence), *outside), environment)
    return replace(made, catalog=catalog)


def _by_own_name(tables: Iterable[Table], sequence: bool) -> list[tuple[str, Plan]]:
    """Inputs that go by the names of tables, and so need no change of the text."""
    return [(table.name, TableScan(table.name, _all_columns(table, sequence))) for table in tables]


def _names_by_value(tokens: Sequence[Token]) -> bool:
    """Whether a table may be named by a string: query_table('t') and query('FROM t')."""
    pairs = zip(tokens, tokens[1:], strict=False)
    return any(token.text.lower() in ("query", "query_table") and after.is_symbol("(") for token, after in pairs if token.is_name)


def over_core(
    query: Query, select: exp.Select, bound: NativeSelect, environment: Environment, scalar: ScalarCheck
) -> DuckQuery | None:
    """The select list computed by DuckDB over the native rest of the SELECT; None where the list is more than row by row."""
    place = _select_list(query.tokens, span(bound.reference.node.this))
    if place is None or not scalar(query.tokens[place[0] : place[1]], select):
        return None
    tokens = query.tokens[place[0] : place[1]]
    names = {token.text.lower() for token in tokens if token.is_name}
    columns = [column.name for column in bound.reference.table.schema]
    starred = _reads_all(select, tokens)
    if starred and SEQUENCE_NAME in names:
        return None
    wanted = columns if starred else [name for name in (*columns, SEQUENCE_NAME) if name.lower() in names]
    core = bound.core_plan(*(name for name in wanted if name == SEQUENCE_NAME))
    child: Plan = Project(core, tuple((name, name) for name in wanted))
    sizes = frozenset() if starred else blob_sizes_asked(query.tokens, bound.reference.table, wanted)
    if sizes:
        child = transform(child, lambda node: replace(node, sizes=sizes) if isinstance(node, TableScan) else node)
    end = query.tokens[-1].end
    name = f"{INPUT_PREFIX}0"
    splices = [(0, tokens[0].start, "SELECT "), (tokens[-1].end, end, f" FROM {name} AS {quoted_name(bound.reference.alias)}")]
    return assemble(query, splices, ((name, child),), environment)


def _select_list(tokens: Sequence[Token], table: tuple[int, int] | None) -> tuple[int, int] | None:
    """The range of tokens between a leading SELECT and the FROM before the table's name."""
    if table is None or tokens[0].upper != "SELECT" or (len(tokens) > 1 and tokens[1].upper in ("ALL", "DISTINCT")):
        return None
    at = next((i for i, token in enumerate(tokens) if token.start == table[0]), 0)
    while at > 1 and tokens[at].upper != "FROM":
        at -= 1
    return (1, at) if at > 1 else None


def computes_rows(tokens: Sequence[Token], select: exp.Select, scalar_functions: frozenset[str]) -> bool:
    """Whether a select list (its tokens, and its items in the tree) computes each row from that row alone."""
    forbidden = (exp.Query, exp.AggFunc, exp.Window, exp.Explode, exp.Columns, exp.PositionalColumn, exp.Lambda)
    if any(isinstance(node, forbidden) for item in select.expressions for node in item.walk()):
        return False
    for token, following in zip(tokens, tokens[1:], strict=False):
        called = token.is_name and following.is_symbol("(")
        if called and token.upper not in SYNTAX_WORDS and token.text.lower() not in scalar_functions:
            return False
    return not any(token.is_symbol("#") for token in tokens)


class _Rewriter:
    def __init__(self, query: Query, tree: exp.Query, tables: Mapping[str, Table], environment: Environment, native: bool) -> None:
        self.query = query
        self.tree = tree
        self.tables = tables
        self.environment = environment
        self.native = native
        self.inputs: list[tuple[str, Plan]] = []
        self.splices: list[Splice] = []
        self.scans: dict[int, str] = {}
        #: Subqueries that are inputs as they are, by the id of their SELECT.
        self.whole: dict[int, Plan] = {}
        names = {token.text.lower() for token in query.tokens if token.is_name}
        self.names = None if _reads_all(tree, query.tokens) else names
        self.sequence = SEQUENCE_NAME in names
        #: Nodes of FROM clauses that an input stands for, by identity, and the SELECTs that read it.
        self.covered: set[int] = set()

    def run(self, outside: Sequence[tuple[str, Plan]]) -> DuckQuery:
        if self.native and self.environment.native_joins:
            self._replace_joins()
        replaced = self._replace_latest()
        if self.native:
            replaced |= self._replace_native_subqueries() | self._replace_aggregates()
        reduced = self._reduce_inputs() if self.native else {}
        pushed: dict[int, list[Predicate]] = {}
        for select in self._selects():
            pushed.update(pushed_predicates(select, self.tables, self.environment))
            if not self._is_replaced(select, replaced):
                self._go_by_time(select)
        for node in self.tree.find_all(exp.Table):
            named = isinstance(node.this, exp.Identifier) and node.name.lower() in self.tables and not is_local(node)
            named = named and node.text("db").lower() in ("", "main")
            if named and id(node) not in replaced and id(node) not in self.covered:
                self._replace_table(node, pushed.get(id(node), []) if self.native else [], reduced.get(id(node)))
        if self.sequence:
            self._hide_sequence_in_stars()
        if _names_by_value(self.query.tokens):
            taken = {name for name, _ in self.inputs}
            self.inputs += [named for named in _by_own_name(self.tables.values(), self.sequence) if named[0] not in taken]
        made = assemble(self.query, self.splices, (*self.inputs, *outside), self.environment)
        return replace(made, keys=tuple(self._keys({name: plan for name, plan in outside if isinstance(plan, Frame)})))

    def _selects(self) -> Iterator[exp.Select]:
        """The SELECTs whose text still has its FROM."""
        return (select for select in self.tree.find_all(exp.Select) if id(select) not in self.covered)

    def _replace_joins(self) -> None:
        """Have an input stand for all that native joins join in a FROM; outer ones come first, and hold what is within them."""
        for select in self._selects():
            named = _names_column(select)
            name = f"{INPUT_PREFIX}{len(self.inputs)}"
            made = None if named else bind_join_text(self.query, select, self.tree, self.tables, self.environment, name)
            if made is not None:
                self._input(made.plan)
                self.splices += made.splices
                self.covered |= {*made.covered, id(select)}

    def _keys(self, frames: Mapping[str, Frame]) -> Iterator[Keys]:
        """The subqueries that scans may take keys from."""
        if not self.native:
            return
        for select in self._selects():
            for node, column, inner in key_subqueries(select, self.tables):
                from_ = inner.args.get("from_")
                if from_ is not None and from_.this.name in self.environment.members:  # which the condition itself tells the scan
                    continue
                place = (
                    self._parenthesis(span(from_.this.this)) if from_ is not None and plain_table(from_.this) is not None else None
                )
                if id(node) not in self.scans or column.type.kind not in KEY_KINDS or place is None:
                    continue
                plan = self.whole.get(id(inner))
                if plan is None:
                    plan = key_plan(self.query, place, inner, self.tables, frames, self.environment)
                if plan is not None:
                    yield Keys(self.scans[id(node)], column.name, plan)

    def _input(self, plan: Plan) -> str:
        name = f"{INPUT_PREFIX}{len(self.inputs)}"
        self.inputs.append((name, plan))
        return name

    def _replace_table(self, node: exp.Table, predicates: list[Predicate], newest: LastRow | None) -> None:
        table = self.tables[node.name.lower()]
        start, end, takes_alias = self._place(node)
        columns = _all_columns(table, self.sequence)
        if self.names is not None:
            columns = tuple(name for name in columns if name.lower() in self.names)
        if not takes_alias:  # the input goes by the table's own name
            if all(name != table.name for name, _ in self.inputs):
                self.inputs.append((table.name, TableScan(table.name, columns)))
            self.splices.append((start, end, quoted_name(table.name)))
            return
        predicate = conjunction(*predicates)
        plan: Plan = TableScan(table.name, columns, predicate, sizes=self._sizes(table, columns))
        if newest is not None:
            plan = replace(newest, child=replace(newest.child, columns=columns))
        name = self._input(plan)
        if newest is None:
            self.scans[id(node)] = name
        self.splices.append((start, end, name if node.args.get("alias") else f"{name} AS {quoted_name(node.name)}"))

    def _sizes(self, table: Table, columns: Iterable[str]) -> frozenset[str]:
        """The columns of blobs that are asked for their sizes alone."""
        if self.names is None:
            return frozenset()
        return blob_sizes_asked(self.query.tokens, table, columns)

    def _place(self, node: exp.Table) -> tuple[int, int, bool]:
        """Where the table's (qualified) name stands, and whether an alias may follow it; the text there must say that name."""
        found = span(node.this)
        if found is None:
            raise _Disagreement
        tokens = self.query.tokens
        at = next((at for at, token in enumerate(tokens) if (token.start, token.end) == found), None)
        if at is None or tokens[at].text != node.name:
            raise _Disagreement
        first = span(node.args.get("db")) if node.args.get("db") is not None else found
        if first is None or node.args.get("catalog") is not None:
            raise _Disagreement
        aliased = bool(node.args.get("alias")) or (plain_table(node) is not None and tokens[at - 1].upper not in _NO_ALIAS_AFTER)
        return first[0], found[1], at > 0 and aliased

    def _replace_latest(self) -> set[int]:
        """Have the right sides of LATEST JOINs give their last arrived rows; the ids of the table nodes of these sides."""
        replaced: set[int] = set()
        for item, plan in latest_inputs(self.query, self.tree, self.tables, self.environment):
            if id(item) in self.covered:
                continue
            if isinstance(item, exp.Table):
                start, end, _ = self._place(item)
                alias = "" if item.args.get("alias") else f" AS {quoted_name(item.name)}"
                self.splices.append((start, end, f"{self._input(plan)}{alias}"))
            else:
                place = self._parenthesis(span(next(item.find_all(exp.Table)).this))
                if place is None:
                    raise _Disagreement
                self._take_whole(item.this, plan, place)
            replaced |= {id(node) for node in item.find_all(exp.Table)}
        return replaced

    def _replace_native_subqueries(self) -> set[int]:
        """Make inputs of subqueries that are native and limited, or of newest rows; the ids of the table nodes inside them."""
        replaced: set[int] = set()
        for select in self._selects():
            if (
                select is self.tree
                or id(select) in self.whole
                or not any(select.args.get(name) is not None for name in ("limit", "distinct", "qualify"))
                or not isinstance(select.parent, _WHOLE)
            ):
                continue
            bound = bind_select(select, self.tables, self.environment) or bind_last_row(select, self.tables, self.environment)
            if bound is None or not bound.native or bound.outputs is None or (bound.limit is None and bound.newest is None):
                continue
            place = self._parenthesis(span(bound.reference.node.this))
            shown = [name.lower() for name, _ in bound.outputs]
            if place is None or len(set(shown)) < len(shown):
                continue
            self._take_whole(select, bound.plan(), place)
            replaced |= _tables_in(select)
        return replaced

    def _replace_aggregates(self) -> set[int]:
        """Let SELECTs read an Aggregate in place of its table and GROUP BY; the ids of these table nodes."""
        replaced: set[int] = set()
        for select in self._selects():
            if _names_column(select):
                continue
            made = bind_aggregate(self.query, select, self.tables, self.environment)
            if made is not None and self._replace_limited(select, made):
                replaced |= _tables_in(select)
                continue
            splices = None if made is None else duck_splices(made, f"{INPUT_PREFIX}{len(self.inputs)}")
            if made is None or splices is None:
                continue
            self._input(made.source())
            self.splices += splices
            replaced |= {id(made.text.reference.node), *_tables_in(select.args.get("where"))}
        return replaced

    def _replace_limited(self, select: exp.Select, made: AggregateSelect) -> bool:
        """Make an input of a subquery of groups that is native and limited: which of those that tie it gives is ours to say."""
        if select.args.get("limit") is None or not isinstance(select.parent, _WHOLE):
            return False
        planned = native_plan(made)
        place = self._parenthesis(span(made.text.reference.node.this))
        if planned is None or place is None or len({name.lower() for name in planned[1]}) < len(planned[1]):
            return False
        if any(kind.kind is Kind.HUGEINT for kind in made.types().values()):  # which DuckDB would see as decimals
            return False
        self._take_whole(select, planned[0], place)
        return True

    def _take_whole(self, select: exp.Select, plan: Plan, place: tuple[int, int]) -> None:
        """Have a plan stand for a subquery, whose text is at ``place``."""
        self.whole[id(select)] = plan
        self.splices.append((*place, f"FROM {self._input(plan)}"))

    def _is_replaced(self, select: exp.Select, replaced: set[int]) -> bool:
        from_ = select.args.get("from_")
        return from_ is not None and id(from_.this) in replaced

    def _go_by_time(self, select: exp.Select) -> None:
        splices, columns = by_time_splices(self.query, select, self.tables, self.environment)
        self.splices += splices
        if self.names is not None:
            self.names.update(name.lower() for name in columns)

    def _reduce_inputs(self) -> dict[int, LastRow]:
        """The newest rows, by ``id`` of the table nodes for which these are enough."""
        found = [reduced_input(select, self.tables, self.environment) for select in self._selects()]
        return {id(node): rows for node, rows in (pair for pair in found if pair is not None)}

    def _parenthesis(self, inside: tuple[int, int] | None) -> tuple[int, int] | None:
        """The text between the innermost parentheses around a table's name that start with SELECT or FROM."""
        if inside is None:
            return None
        tokens = self.query.tokens
        at = next((i for i, token in enumerate(tokens) if (token.start, token.end) == inside), None)
        depth = 0
        while at is not None and at > 0:
            at -= 1
            depth += tokens[at].is_symbol(")") - tokens[at].is_symbol("(")
            if depth < 0:
                if tokens[at + 1].upper in ("SELECT", "FROM"):
                    return self._closing(at)
                depth = 0
        return None

    def _closing(self, opening: int) -> tuple[int, int] | None:
        tokens, depth = self.query.tokens, 0
        for at in range(opening, len(tokens)):
            depth += tokens[at].is_symbol("(") - tokens[at].is_symbol(")")
            if depth == 0:
                return tokens[opening + 1].start, tokens[at - 1].end
        return None

    def _hide_sequence_in_stars(self) -> None:
        """``*`` never shows the hidden column, also where the input has it because the statement names it elsewhere."""
        for star in self.tree.find_all(exp.Star):
            select = star.find_ancestor(exp.Select)
            place = span(star)
            if isinstance(star.parent, exp.Count) or select is None or id(select) in self.covered:
                continue
            from_ = select.args.get("from_")
            items = [from_.this if from_ is not None else None, *(join.this for join in select.args.get("joins") or ())]
            direct = [node for item in items if (node := plain_table(item)) is not None and refer(node, self.tables) is not None]
            if direct and place is not None and self.query.text[place[0] : place[1]] == "*":
                self.splices += self._excluding_sequence(place[1])

    def _excluding_sequence(self, end: int) -> list[Splice]:
        """EXCLUDE of the hidden column after a star that ends there; where there is one, the column joins its list."""
        after = [token for token in self.query.tokens if token.start >= end]
        if len(after) < 2 or after[0].upper != "EXCLUDE":
            return [(end, end, f" EXCLUDE ({SEQUENCE_NAME})")]
        listed = after[1].is_symbol("(")
        close = next(at for at, token in enumerate(after) if token.is_symbol(")")) if listed else 2
        if any(token.text.lower() == SEQUENCE_NAME for token in after[1:close]):
            return []
        if listed:
            return [(after[1].end, after[1].end, f"{SEQUENCE_NAME}, ")]
        return [(after[1].start, after[1].start, f"({SEQUENCE_NAME}, "), (after[1].end, after[1].end, ")")]


def _tables_in(node: exp.Expr | None) -> set[int]:
    """The ids of the tables in a text that goes, those that stand for result sets too."""
    return set() if node is None else {id(table) for table in node.find_all(exp.Table)}


def _names_column(select: exp.Select) -> bool:
    """Whether a SELECT stands in an item of another's list that DuckDB names by its text."""
    node: exp.Expr = select
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.Select) and node.arg_key == "expressions" and not isinstance(node, exp.Alias):
            return True
        node = parent
    return False


def _all_columns(table: Table, sequence: bool) -> tuple[str, ...]:
    names = tuple(column.name for column in table.schema)
    return (*names, SEQUENCE_NAME) if sequence else names


def _reads_all(tree: exp.Query, tokens: Sequence[Token]) -> bool:
    """Whether columns may be read that the text does not name."""
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return True
    if any(True for _ in tree.find_all(exp.Columns, exp.PositionalColumn, exp.Pivot, exp.Lateral)):
        return True
    if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in tree.find_all(exp.Join)):
        return True
    if any(alias.args.get("columns") for alias in tree.find_all(exp.TableAlias)):  # t(a, b): columns have other names
        return True
    sources = {table.alias_or_name.lower() for table in tree.find_all(exp.Table)}
    if any(isinstance(c.this, exp.Identifier) and c.name.lower() in sources for c in tree.find_all(exp.Column)):
        return True
    return any(token.is_symbol("#") or token.upper in ("COLUMNS", "UNPIVOT", "PIVOT", "SUMMARIZE", "DESCRIBE") for token in tokens)
