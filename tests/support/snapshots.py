"""Table snapshots made from plain Python rows, and what any query over them must answer by brute force."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table, TableOptions
from tsdb.plan.node import SortKey
from tsdb.plan.predicate import And, Compare, Constant, InSet, IsNull, Like, Not, Or, Predicate
from tsdb.storage.manifest import FileEntry
from tsdb.storage.snapshot import OpenFile, Snapshot, TableSnapshot
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.types import INT64, ColumnType, Kind, Role
from tsdb_format.vector import Pool, Vector
from tsdb_format.writer import write_file

Row = dict[str, Any]


def vector_of(kind: ColumnType, values: Sequence[Any]) -> Vector:
    """Python values (None is NULL) as a vector."""
    validity = np.array([value is not None for value in values], np.bool_)
    pool = None
    if kind.is_pooled:
        texts = [b"" if v is None else v.encode() if isinstance(v, str) else v for v in values]
        distinct = sorted(set(texts)) or [b""]
        place = {text: code for code, text in enumerate(distinct)}
        pool = Pool.of(distinct)
        array = np.array([place[text] for text in texts], np.int32)
    elif kind.kind is Kind.VECTOR:
        array = np.array([[0.0] * kind.width if v is None else v for v in values], np.float32).reshape(len(values), kind.width)
    else:
        array = np.array([0 if v is None else v for v in values], kind.physical)
    return Vector(kind, array, None if validity.all() else validity, pool)


def tag_order(schema: Schema) -> Callable[[Row], tuple[Any, ...]]:
    """The sort key of a row's device: tags ascending, strings bytewise, NULL last."""

    def key(row: Row) -> tuple[Any, ...]:
        tags = (row.get(tag.name) for tag in schema.tags)
        return tuple((value is None, 0 if value is None else value.encode() if isinstance(value, str) else value) for value in tags)

    return key


def overlay(schema: Schema, rows: Sequence[Row], mode: str) -> list[Row]:
    """Rows as a reader sees them: one per (tags, time), newest non-NULL field wins; every row where the table appends."""
    order = tag_order(schema)
    time = schema.time.name
    if mode != "table":
        return sorted(rows, key=lambda row: (order(row), row[time], row[SEQUENCE_NAME]))
    merged: dict[Any, Row] = {}
    for row in rows:
        held = merged.setdefault((order(row), row[time]), {})
        held.update({name: value for name, value in row.items() if value is not None})
    return [merged[key] for key in sorted(merged)]


def build_snapshot(
    folder: Path,
    schema: Schema,
    commits: Sequence[Sequence[Row]],
    *,
    rows_per_page: int = 8192,
    options: TableOptions | None = None,
) -> tuple[Snapshot, list[Row]]:
    """A snapshot of table ``t`` with one file per commit, and all its rows as written, in order, with ``_sn``."""
    options = options or TableOptions(rows_per_page=rows_per_page)
    table = Table(1, "t", schema, options, len(schema) + 1)
    devices = DeviceTable.empty(schema)
    files: list[OpenFile] = []
    written: list[Row] = []
    held: list[DeviceTable] = [devices]
    folder.mkdir(parents=True, exist_ok=True)
    for sequence, commit in enumerate(commits, 1):
        given = [{**row, SEQUENCE_NAME: sequence} for row in commit]
        written += given
        rows = overlay(schema, given, options.mode)
        if not rows:
            continue
        order = tag_order(schema)
        starts = [i for i in range(len(rows)) if i == 0 or order(rows[i]) != order(rows[i - 1])]
        tags = {tag.name: vector_of(tag.type, [rows[i].get(tag.name) for i in starts]) for tag in schema.tags}
        numbers, held[0] = held[0].resolve(tags, len(starts))
        stored = [column for column in schema if column.role in (Role.TIME, Role.FIELD)]
        columns = {column.name: vector_of(column.type, [row.get(column.name) for row in rows]) for column in stored}
        columns[SEQUENCE_NAME] = vector_of(INT64, [sequence] * len(rows))
        name = f"{sequence}.tsf"
        facts = write_file(
            str(folder / name), schema=schema, device_tags=tags, row_start=np.array([*starts, len(rows)], np.int64),
            columns=columns,
            rows_per_page=options.rows_per_page, device_number=numbers, sync=False,
        )  # fmt: skip
        entry = FileEntry(
            name, facts.rows, facts.devices, facts.bytes, facts.min_time, facts.max_time, facts.min_sequence, facts.max_sequence
        )
        files.append(OpenFile(folder, entry, lambda: held[0]))
    snapshot = TableSnapshot(table, tuple(files), held[0], len(commits), lambda: 0)
    return Snapshot(1, len(commits), {"t": snapshot}), written


# -------------------------------------------------------------------------------------------------- brute force


def less(left: Any, right: Any) -> bool:
    """DuckDB's order of values that are not NULL."""
    if isinstance(left, float) and math.isnan(left):
        return False
    if isinstance(right, float) and math.isnan(right):
        return True
    if isinstance(left, str):
        return left.encode() < right.encode()
    return bool(left < right)


def holds(predicate: Predicate, row: Row) -> bool | None:
    """A predicate's three-valued truth for a row."""
    match predicate:
        case Compare(column, op, literal):
            value = row.get(column)
            if value is None:
                return None
            below, above = less(value, literal), less(literal, value)
            return {"=": not below and not above, "!=": below or above, "<": below, "<=": not above, ">": above, ">=": not below}[
                op
            ]
        case InSet(column, literals):
            value = row.get(column)
            return None if value is None else any(not less(value, v) and not less(v, value) for v in literals)
        case IsNull(column):
            return row.get(column) is None
        case Like(column, pattern, fold):
            value = row.get(column)
            if value is None:
                return None
            return like(value.lower() if fold else value, pattern.lower() if fold else pattern)
        case Not(inner):
            truth = holds(inner, row)
            return None if truth is None else not truth
        case And(parts):
            truths = [holds(part, row) for part in parts]
            return False if False in truths else None if None in truths else True
        case Or(parts):
            truths = [holds(part, row) for part in parts]
            return True if True in truths else None if None in truths else False
        case Constant(value):
            return value


def like(text: str, pattern: str) -> bool:
    """LIKE by recursion."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def ordered(schema: Schema, rows: Sequence[Row], keys: Sequence[SortKey]) -> list[Row]:
    """Rows in the total order: keys, then tags, time, sequence number."""
    devices = tag_order(schema)

    def compare(a: Row, b: Row) -> int:
        for key in keys:
            left, right = a.get(key.column), b.get(key.column)
            if left is None or right is None:
                if (left is None) != (right is None):
                    return -1 if (left is None) == key.nulls_first else 1
                continue
            if less(left, right) or less(right, left):
                return -1 if less(left, right) != key.descending else 1
        time = schema.time.name
        mine, other = (devices(a), a[time], a[SEQUENCE_NAME]), (devices(b), b[time], b[SEQUENCE_NAME])
        return -1 if mine < other else int(mine > other)

    return sorted(rows, key=functools.cmp_to_key(compare))


def make_schema(*columns: tuple[str, ColumnType, Role]) -> Schema:
    """A schema numbered from 1."""
    return Schema(tuple(Column(name, kind, role, number) for number, (name, kind, role) in enumerate(columns, 1)))
