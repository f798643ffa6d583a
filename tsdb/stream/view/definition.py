"""Making a materialized view: its query is bound once, and a stream of its columns made where it writes to none that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tsdb.catalog.table import Table
from tsdb.exec.stats import QueryStats
from tsdb.quoting import quoted_name
from tsdb.sql.planner import Planner
from tsdb.sql.reader import read_statement
from tsdb.sql.statement import CreateTable, CreateView, Query
from tsdb.storage.view import create_view
from tsdb.stream.feed import Feed
from tsdb.stream.pipeline import Pipeline, pipeline_of
from tsdb.stream.position import encoded
from tsdb_format.errors import InvalidInput
from tsdb_format.types import TAG_KINDS, ColumnType, Role, parse_type

if TYPE_CHECKING:
    from tsdb.settings import Settings
    from tsdb.storage.manifest import ViewEntry
    from tsdb.storage.store import Store


def define(store: Store, statement: CreateView, settings: Settings) -> ViewEntry:
    """Create a view. Raises InvalidInput, NotFound."""
    feed = Feed(store)
    try:
        query = query_of(statement.text)
        pipeline = view_pipeline(query, settings, feed, None)
        columns, position = dict(zip(pipeline.stage.columns, pipeline.stage.types, strict=True)), pipeline.position
        pipeline.close()
    finally:
        feed.close()
    if len(columns) < len(pipeline.stage.columns):
        raise InvalidInput("a materialized view has two columns of one name: give one another")
    if position is None:
        raise InvalidInput("this query cannot be gone on with where it was interrupted, and so be no materialized view")
    if statement.target is None:
        made = _stream(statement.name, columns, _tags(query, store.tables()))
        return create_view(store.writer, statement.name, statement.text, (made.schema, made.options), encoded(position))
    target = store.table(statement.target)
    if target.name.lower() in _sources(query, store):
        raise InvalidInput(f"a materialized view cannot write to {target.name!r}, which it reads, or a view that it reads from")
    from tsdb.ingest.arrow import match_columns

    match_columns(target.schema, list(columns))
    return create_view(store.writer, statement.name, statement.text, target.name, encoded(position))


def refuse_drop(store: Store, name: str, dropped: str = "") -> None:
    """Raise InvalidInput where a view other than ``dropped`` needs a table, whatever the case of its name."""
    definitions = store.snapshot().definitions
    table = definitions.get(name.lower())
    for view in store.views().values():
        if table is None or view.name == dropped:
            continue
        writes = table.id == view.target
        if writes or name.lower() in _read_by(query_of(view.text), definitions):
            does = "writes to" if writes else "reads"
            instead = f"DROP MATERIALIZED VIEW {quoted_name(view.name)} first"
            raise InvalidInput(f"materialized view {view.name!r} {does} {table.name!r}: {instead}")


def _sources(query: Query, store: Store) -> set[str]:
    """The names of the tables that a query is over and, where views write to them, of all that these come from, in lower case."""
    definitions = store.snapshot().definitions
    views = store.views().values()
    found: set[str] = set()
    left = set(_read_by(query, definitions))
    while left:
        name = left.pop()
        found.add(name)
        for view in views:
            if name in definitions and definitions[name].id == view.target:
                left |= _read_by(query_of(view.text), definitions) - found
    return found


def _read_by(query: Query, definitions: Mapping[str, Table]) -> frozenset[str]:
    """The names of the tables that a query is over, in lower case."""
    from sqlglot import exp

    from tsdb.sql.series import expand
    from tsdb.sql.tree import is_local, parse_query

    tree = parse_query(expand(query, definitions).text)
    if tree is None:
        return frozenset(token.text.lower() for token in query.tokens if token.is_name)
    return frozenset(table.name.lower() for table in tree.find_all(exp.Table) if not is_local(table))


def query_of(text: str) -> Query:
    """The query of a view."""
    query = read_statement(text)
    assert isinstance(query, Query), "it was one when the view was created"
    return query


def view_pipeline(query: Query, settings: Settings, feed: Feed, position: dict[str, Any] | None) -> Pipeline:
    """What makes a view's rows: those that are there first, unless its own settings say otherwise."""
    chosen = settings.changed({"seek_to": "earliest"}).changed(query.settings)
    return pipeline_of(Planner(query), None, chosen, feed, QueryStats(), position)


def _stream(name: str, columns: Mapping[str, str], tags: frozenset[str]) -> CreateTable:
    """The append stream with a view's columns: the first timestamp is its time, and what was a tag is one."""
    kinds = {column: _kind(column, kind) for column, kind in columns.items()}
    time = next((column for column, kind in kinds.items() if kind.is_time), None)
    declared = []
    for column, kind in kinds.items():
        is_tag = column.lower() in tags and kind.kind in TAG_KINDS
        role = Role.TIME if column == time else Role.TAG if is_tag else Role.FIELD
        declared.append(f"{quoted_name(column)} {kind} {role.name}")
    made = read_statement(f"CREATE STREAM {quoted_name(name)} ({', '.join(declared)})")
    assert isinstance(made, CreateTable), "that is its text"
    return made


def _kind(column: str, kind: str) -> ColumnType:
    try:
        found = parse_type(kind)
        read_statement(f"CREATE STREAM s (x {found})")
    except InvalidInput:
        raise InvalidInput(f"column {column!r} of the view is {kind}, which no table holds: cast it") from None
    return found


def _tags(query: Query, tables: Mapping[str, Table]) -> frozenset[str]:
    """The names of the tags of the tables that a query names, in lower case."""
    words = {token.text.lower() for token in query.tokens if token.is_name}
    return frozenset(tag.name.lower() for name, table in tables.items() if name.lower() in words for tag in table.schema.tags)
