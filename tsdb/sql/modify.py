"""DELETE, DELETE DEVICES, UPDATE and SHOW DEVICES, run: the condition is bound as that of a query, over a stand-in for the table.

The stand-in has a name of its own, so that subqueries see the table as it is, and only the columns that the condition may name. For
a DELETE it is the table, with the rows that its TTL hides; for statements about devices it is one row per device. What its scan
cannot evaluate DuckDB does, as in every query. All of it happens under the writer's lock, on the newest state.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tsdb.catalog.table import Table, TableOptions, require_column, with_ttl
from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.context import ExecContext
from tsdb.exec.deletion import (
    EVERY_DEVICE,
    Deletion,
    Int32Array,
    deletion_of_devices,
    deletion_of_rows,
    deletion_ranges,
    present_devices,
)
from tsdb.exec.executor import execute
from tsdb.exec.newest_version import newest_of, newest_versions
from tsdb.exec.selection import INT64_MAX, INT64_MIN
from tsdb.plan.grouping import Call, ColumnKey
from tsdb.plan.node import Aggregate, Plan, Project, TableScan
from tsdb.plan.schema import duckdb_name
from tsdb.quoting import quoted_name
from tsdb.sql.native import unique_names
from tsdb.sql.outside import INPUT_PREFIX
from tsdb.sql.planner import BoundQuery, Planner
from tsdb.sql.series.qualified import without_schema
from tsdb.sql.statement import Conditional, Delete, DeleteDevices, Query, ShowDevices, Update
from tsdb.sql.token import SYMBOL, Token, tokenize
from tsdb.storage.arrange import SortedRows
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.report import Edit
from tsdb.storage.snapshot import LazyTables, Snapshot, TableSnapshot
from tsdb.storage.tombstone import Tombstones
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.types import INT64, TIMESTAMP_NS, ColumnType, Role
from tsdb_format.vector import IntArray, Vector, null_vector

if TYPE_CHECKING:
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.storage.store import Store

#: The stand-in, and what it has beside tags and attributes where its rows are devices.
_TARGET = f"{INPUT_PREFIX}target"
_DEVICE = f"{INPUT_PREFIX}device"
_TIME = f"{INPUT_PREFIX}time"
_VALUE = f"{INPUT_PREFIX}value_"
_KINDS = {Role.TIME: "the time", Role.TAG: "a tag", Role.FIELD: "a field", Role.ATTRIBUTE: "an attribute"}


def delete(store: Store, statement: Delete, parameters: Parameters, settings: Settings) -> int:
    """Run a DELETE; the number of rows that were visible and no longer are."""
    found = 0

    def select(table: TableSnapshot) -> tuple[Int32Array, IntArray, IntArray]:
        nonlocal found
        table = newest_of(table)
        made = _deletion(_Question(statement, table, _rows_of(table), _newest(store), parameters, settings))
        found = made.row_count
        if table.stored is None:
            return made.device, made.low, made.high
        keys = _keys_in(table, made)  # with every version: no older one comes back
        return keys, np.full(len(keys), INT64_MIN), np.full(len(keys), INT64_MAX)

    store.delete(store.table(statement.table).name, select)
    return found


def _keys_in(table: TableSnapshot, deletion: Deletion) -> Int32Array:
    """The keys of a versioned stream whose newest version a deletion hits."""
    ranges = Tombstones.none().plus(deletion.device, deletion.low, deletion.high, 1)
    keys = [np.empty(0, np.int32)]
    for newest in table.files:
        hit = ranges.index.sequence_at(newest.device_number, newest.file.resource.min_time) > 0
        keys.append(newest.device_number[hit])
    return np.concatenate(keys)


def delete_devices(store: Store, statement: DeleteDevices, parameters: Parameters, settings: Settings) -> int:
    """Run a DELETE DEVICES; the number of devices that had a visible row."""
    found = 0

    def select(table: TableSnapshot) -> Edit:
        nonlocal found
        table = newest_of(table)
        numbers, _ = _devices(_Question(statement, table, _devices_of(table), _newest(store), parameters, settings))
        found = int(np.count_nonzero(present_devices(table)[numbers]))
        every = len(numbers) == table.devices.count > 0
        device = np.full(1, EVERY_DEVICE, np.int32) if every else numbers
        attributes = {c.name: null_vector(c.type, len(numbers)) for c in table.table.schema.attributes}
        if not len(numbers):
            return Edit()
        low, high = np.full(len(device), INT64_MIN), np.full(len(device), INT64_MAX)
        return Edit(device, low, high, numbers if attributes else numbers[:0], attributes)

    store.edit(store.table(statement.table).name, select)
    return found


def update(store: Store, statement: Update, parameters: Parameters, settings: Settings) -> int:
    """Run an UPDATE; the number of devices whose attributes it set."""
    found = 0

    def select(table: TableSnapshot) -> tuple[Int32Array, dict[str, Vector]]:
        nonlocal found
        table = newest_of(table)
        columns = [_attribute(table.table, name) for name, _ in statement.assignments]
        items = [
            f"CAST((\n{text}\n) AS {duckdb_name(column.type)}) AS {_VALUE}{at}"
            for at, (column, (_, text)) in enumerate(zip(columns, statement.assignments, strict=True))
        ]
        question = _Question(statement, table, _devices_of(table), _newest(store), parameters, settings)
        numbers, batch = _devices(question, items)
        kept = np.flatnonzero(present_devices(table)[numbers])
        found = len(kept)
        values = [batch.vectors[f"{_VALUE}{at}"].take(kept) if found else null_vector(c.type, 0) for at, c in enumerate(columns)]
        return numbers[kept], {column.name: vector for column, vector in zip(columns, values, strict=True)}

    store.set_attributes(store.table(statement.table).name, select)
    return found


def show_devices(
    name: str, statement: ShowDevices, parameters: Parameters, settings: Settings, snapshot: Snapshot
) -> tuple[list[tuple[str, ColumnType]], Batch]:
    """The devices with visible rows, in tag order: tags and attributes, the first and last time, and how many rows."""
    table = snapshot.tables[name]
    numbers, _ = _devices(_Question(statement, table, _devices_of(table), snapshot, parameters, settings))
    numbers = numbers[present_devices(table)[numbers]]
    numbers = numbers[np.argsort(table.devices.rank[numbers])]
    numbers = numbers[statement.offset : None if statement.limit is None else statement.offset + statement.limit]
    columns = [column for column in table.table.schema if column.role in (Role.TAG, Role.ATTRIBUTE)]
    vectors = [table.devices.values(column.name).take(numbers) for column in columns]
    kinds = [column.type for column in columns]
    counted = _first_last_count(table, numbers, ExecContext(snapshot, settings, settings.threads))
    names = unique_names([*(column.name for column in columns), *(call.name for call in counted)])
    kinds += [call.type for call in counted]
    return list(zip(names, kinds, strict=True)), Batch(dict(zip(names, [*vectors, *counted.values()], strict=True)), len(numbers))


def _first_last_count(table: TableSnapshot, numbers: Int32Array, context: ExecContext) -> dict[Call, Vector]:
    """The first and last time and the rows of some devices, in their order."""
    schema, time_name = table.table.schema, table.table.schema.time.name
    tags = tuple(column.name for column in schema.tags)
    calls = (
        Call("first_time", "min", time_name, schema.time.type), Call("last_time", "max", time_name, schema.time.type),
        Call("rows", "count", None, INT64),
    )  # fmt: skip
    keys = tuple(ColumnKey(f"{INPUT_PREFIX}{tag}", tag) for tag in tags)
    batches = list(execute(Aggregate(TableScan(table.table.name, (*tags, time_name)), keys, calls), context))
    if not batches or not len(numbers):
        return {call: null_vector(call.type, len(numbers)) for call in calls}
    groups = concat_batches(batches)
    found = np.zeros(groups.row_count, np.int32)
    if keys:
        found = table.devices.find({tag: groups.vectors[f"{INPUT_PREFIX}{tag}"] for tag in tags}, groups.row_count)
    place = np.zeros(table.devices.count, np.int64)
    place[found] = np.arange(groups.row_count)
    return {call: groups.vectors[call.name].take(place[numbers]) for call in calls}


def _newest(store: Store) -> Snapshot:
    """The state that a change is decided by: every commit, also those that wait for their sync and are not visible yet."""
    return newest_versions(store.writer.versions.latest(store.writer.sequence))


def _attribute(table: Table, name: str) -> Column:
    """A column that UPDATE may set."""
    column = require_column(table, name)
    if column.role is Role.ATTRIBUTE:
        return column
    instead = "INSERT INTO overlays the row with the same tags and time"
    if column.role is not Role.FIELD:
        instead = "write the rows again as they should be, and DELETE these"
    raise InvalidInput(f"UPDATE sets attributes, and {column.name!r} is {_KINDS[column.role]} of {table.name!r}: {instead}")


# ---------------------------------------------------------------------------------------------- stand-ins


def _rows_of(table: TableSnapshot) -> TableSnapshot:
    """The table for a DELETE: rows that are not unique are told apart by tags and time alone."""
    columns = table.table.schema.columns
    if table.table.options.mode == "append":
        columns = tuple(column for column in columns if column.role is not Role.FIELD)
    return replace(table, table=with_ttl(replace(table.table, name=_TARGET, schema=Schema(columns)), None))


def _devices_of(table: TableSnapshot) -> TableSnapshot:
    """A table with a row per device: its tags and attributes, and its number as a field."""
    before, devices = table.table, table.devices
    number = Column(_DEVICE, INT64, Role.FIELD, before.next_column_id)
    moment = Column(_TIME, TIMESTAMP_NS, Role.TIME, before.next_column_id + 1)
    kept = (column for column in before.schema if column.role in (Role.TAG, Role.ATTRIBUTE))
    made = Table(before.id, _TARGET, Schema((*kept, number, moment)), TableOptions(), before.next_column_id + 2)
    nothing = np.zeros(devices.count, np.int64)
    columns = {
        _DEVICE: Vector(INT64, devices.by_rank.astype(np.int64)), _TIME: Vector(TIMESTAMP_NS, nothing),
        SEQUENCE_NAME: Vector(INT64, nothing),
    }  # fmt: skip
    rows = SortedRows(devices.by_rank, np.arange(devices.count + 1, dtype=np.int64), columns, 0)
    files = (MemoryRun(made, rows),) if devices.count else ()
    return TableSnapshot(made, files, devices, table.sequence, table.now_ns, table.pin, payloads=table.payloads)


@dataclass(frozen=True)
class _Question:
    """A statement's condition, to be asked of a stand-in for ``table``, which is the newest state."""

    statement: Conditional
    table: TableSnapshot
    stand_in: TableSnapshot
    snapshot: Snapshot
    parameters: Parameters
    settings: Settings

    def bind(self, items: Sequence[str]) -> BoundQuery:
        """A query for these items of the rows that satisfy the condition."""
        condition = self.statement.condition
        where = "" if condition is None else f" WHERE (\n{condition}\n)"
        text = f"SELECT {', '.join(items)} FROM {_TARGET} AS {quoted_name(self.statement.alias)}{where}"
        if self.statement.alias == self.statement.table:
            text = without_schema(text, self.statement.table)
        query = Query(text, tuple(tokenize(text)))
        if self._rows_are_alike and any(token.is_name and token.text.lower() == SEQUENCE_NAME for token in query.tokens):
            self._refuse(SEQUENCE_NAME, "a hidden column")
        tables = {**self.snapshot.definitions, _TARGET: self.stand_in.table}
        with self._named():
            return Planner(query).bind(self.parameters, tables, self.settings, time.time_ns())

    def rows(self, plan: Plan) -> list[Batch]:
        """Run a plan over the stand-in."""

        def make(name: str) -> TableSnapshot:
            return self.stand_in if name == _TARGET else self.snapshot.tables[name]

        seen = replace(self.snapshot, tables=LazyTables((*self.snapshot.tables, _TARGET), make))
        with self._named():
            return list(execute(plan, ExecContext(seen, self.settings, self.settings.threads)))

    @property
    def names_devices_alone(self) -> bool:
        """Whether the condition, if it reads tags and attributes only, is the same for all rows of a device."""
        from tsdb.exec.fold import functions, stable_functions

        tokens = tokenize(self.statement.condition or "")
        changing = functions(scalar=True) - stable_functions()
        for token, following in zip(tokens, [*tokens[1:], Token(SYMBOL, "", 0, 0)], strict=True):
            whole_row = token.is_name and token.text.lower() == self.statement.alias.lower() and not following.is_symbol(".")
            called = token.is_name and token.text.lower() in changing and following.is_symbol("(")
            if whole_row or called or token.is_symbol("#") or token.upper in ("COLUMNS", "SAMPLE", "TABLESAMPLE"):
                return False
        return True

    @property
    def _rows_are_alike(self) -> bool:
        return not isinstance(self.statement, Delete) or self.table.table.options.mode == "append"

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors speak of the table, not of its stand-in; a column that the stand-in lacks and the table has is named."""
        try:
            yield
        except (InvalidInput, NotFound) as error:
            if isinstance(error, NotFound):
                lacking = {c.name.lower(): c for c in self.table.table.schema if c.name not in self.stand_in.table.schema}
                for token in self.statement.query.tokens:
                    if token.is_name and token.text.lower() in lacking:
                        column = lacking[token.text.lower()]
                        self._refuse(column.name, _KINDS[column.role])
            raise type(error)(str(error).replace(_TARGET, self.table.table.name)) from None

    def _refuse(self, name: str, kind: str) -> NoReturn:
        table = self.table.table
        if isinstance(self.statement, Delete):
            raise InvalidInput(
                f"{name!r} is {kind}: rows of {table.name!r} are deleted by tags, attributes and time, as its mode is "
                f"{table.options.mode!r}"
            )
        raise InvalidInput(f"{name!r} is {kind}: of the devices of {table.name!r} only tags and attributes can be named here")


def _deletion(question: _Question) -> Deletion:
    """The rows that a condition is true for."""
    table, schema = question.table, question.table.table.schema
    bound = question.bind([quoted_name(column.name) for column in (*schema.tags, schema.time)])
    match bound.naive:
        case Project(child=TableScan(predicate=predicate)):
            return deletion_ranges(table, predicate, question.settings.threads)
    if question.names_devices_alone:
        with suppress(InvalidInput, NotFound):  # it does not, or only rows can tell
            return deletion_of_devices(table, _devices(replace(question, stand_in=_devices_of(table)))[0])
    batches = question.rows(bound.plan)
    if not batches:
        return Deletion.of((), 0)
    rows = concat_batches(batches)
    tags = {column.name: rows.vectors[column.name] for column in schema.tags}
    numbers = table.devices.find(tags, rows.row_count) if tags else np.zeros(rows.row_count, np.int32)
    return deletion_of_rows(table, numbers, rows.vectors[schema.time.name].values)


def _devices(question: _Question, items: Sequence[str] = ()) -> tuple[Int32Array, Batch]:
    """The numbers of the devices that a condition is true for, and the items computed for each."""
    batches = question.rows(question.bind([_DEVICE, *items]).plan)
    if not batches:
        return np.empty(0, np.int32), Batch({}, 0)
    rows = concat_batches(batches)
    return rows.vectors[_DEVICE].values.astype(np.int32), rows
