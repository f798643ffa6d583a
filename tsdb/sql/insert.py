"""INSERT: the rows that its VALUES or query give, converted to the table's types by DuckDB's rules, in one commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tsdb.catalog.table import require_column
from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.context import ExecContext
from tsdb.exec.executor import execute
from tsdb.plan.node import DuckQuery, Plan
from tsdb.plan.schema import duckdb_name, output_schema
from tsdb.quoting import quoted_name
from tsdb.sql.planner import Planner
from tsdb.sql.statement import Insert, Query
from tsdb.sql.token import Cursor, Token
from tsdb_format.errors import InvalidInput, ReadOnly
from tsdb_format.schema import Column
from tsdb_format.vector import Vector

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.storage.snapshot import Snapshot
    from tsdb.storage.store import Store

_TARGET = "__tsdb_target"
_SOURCE = "__tsdb_source"


def insert(store: Store, statement: Insert, parameters: Parameters, settings: Settings, snapshot: Snapshot) -> int:
    """Run an INSERT; the number of rows it wrote."""
    if store.mode == "r":
        raise ReadOnly(f"{store.path} was opened for reading")
    table = store.table(statement.table)
    columns, by_name, source = _parts(statement, table)
    bound = Planner(source).bind(parameters, snapshot.definitions, settings, time.time_ns(), snapshot)
    context = ExecContext(snapshot, settings, settings.threads)
    batches = None if by_name else _exact(bound.plan, table, columns, context)
    if batches is None:
        batches = _converted(bound.plan, table, columns, by_name, context)
    if not batches:
        return 0
    batch = concat_batches(batches)
    store.write_batch(table.name, batch.vectors)
    return batch.row_count


def _parts(statement: Insert, table: Table) -> tuple[list[Column], bool, Query]:
    """The columns written, whether they go by name, and the query or VALUES behind them."""
    text, tokens = statement.query.text, list(statement.query.tokens)
    cursor = Cursor(text, tokens)
    while tokens[cursor.at].start != statement.target[0]:
        cursor.at += 1
    cursor.at += 1
    if cursor.accept("AS"):
        cursor.name("an alias")
    columns = list(table.schema)
    if cursor.symbol() == "(" and cursor.word(1) not in ("SELECT", "WITH", "FROM", "VALUES"):
        columns = _listed(cursor, table)
    by_name = cursor.accept("BY", "NAME")
    if not by_name:
        cursor.accept("BY", "POSITION")
    if cursor.done or cursor.word() == "DEFAULT":
        cursor.fail("VALUES or a query")
    for token in tokens[cursor.at :]:
        if token.upper == "RETURNING":
            raise InvalidInput("RETURNING is not known: INSERT answers the number of rows")
    start = tokens[cursor.at].start
    rest = tuple(Token(kind, value, begin - start, stop - start) for kind, value, begin, stop in tokens[cursor.at :])
    whole = statement.query
    query = Query(text[start : tokens[-1].end], rest, (), whole.source, whole.source_start, cursor.at)
    return columns, by_name, query


def _listed(cursor: Cursor, table: Table) -> list[Column]:
    cursor.expect_symbol("(")
    columns: list[Column] = []
    while True:
        name = cursor.name("a column name")
        column = require_column(table, name)
        if column in columns:
            raise InvalidInput(f"column {name!r} is given twice")
        columns.append(column)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return columns


def _given(table: Table, columns: list[Column], count: int) -> list[Column]:
    """The columns that ``count`` values are for: all, or without a time that the table gives. Raises InvalidInput."""
    if count == len(columns) - 1 == len(table.schema) - 1 and table.options.time_is_now:
        return [column for column in columns if column is not table.schema.time]
    if count != len(columns):
        raise InvalidInput(f"INSERT has {len(columns)} columns but {count} values")
    return columns


def _exact(plan: Plan, table: Table, columns: list[Column], context: ExecContext) -> list[Batch] | None:
    """The rows of a native plan whose types are the table's already; None where something must be converted."""
    if isinstance(plan, DuckQuery):
        return None
    schema = output_schema(plan, context.snapshot)
    columns = _given(table, columns, len(schema))
    if any(kind != column.type for (_, kind), column in zip(schema, columns, strict=True)):
        return None
    made = []
    for batch in execute(plan, context):
        vectors: dict[str, Vector] = {column.name: batch.vectors[key] for (key, _), column in zip(schema, columns, strict=True)}
        made.append(Batch(vectors, batch.row_count))
    return made


def _converted(plan: Plan, table: Table, columns: list[Column], by_name: bool, context: ExecContext) -> list[Batch]:
    """The rows as DuckDB inserts them into a table of the same types."""
    from tsdb.exec.duck import DuckRun

    source = plan if isinstance(plan, DuckQuery) else DuckQuery(f"FROM {_SOURCE}", ((_SOURCE, plan),))
    run = DuckRun(source, lambda: context)
    try:
        if not by_name:
            columns = _given(table, columns, len(run.columns))
        written = list(table.schema) if by_name else columns
        shown = ", ".join(f"{quoted_name(c.name)} {duckdb_name(c.type)}" for c in table.schema)
        target = "BY NAME" if by_name else f"({', '.join(quoted_name(c.name) for c in columns)})"
        run.execute(f"CREATE TEMP TABLE {_TARGET} ({shown})", ())
        run.execute(f"INSERT INTO {_TARGET} {target} {source.sql}", source.parameters)
        if by_name:
            given = {name.lower() for name in run.columns}
            written = [column for column in written if column.name.lower() in given]
        listed = ", ".join(quoted_name(c.name) for c in written)
        return run.read(f"SELECT {listed} FROM {_TARGET}", [(c.name, c.type) for c in written])
    finally:
        run.close()
