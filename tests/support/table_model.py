"""A table as plain Python: what its files hold row by row, and what a history of writes should have made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.snapshots import vector_of
from tsdb.storage.snapshot import TableSnapshot
from tsdb_format.reader import TsFile
from tsdb_format.schema import SEQUENCE_NAME, Schema
from tsdb_format.types import Role
from tsdb_format.vector import Vector

Row = dict[str, Any]


def vectors_of(schema: Schema, rows: Sequence[Row], names: Sequence[str] | None = None) -> dict[str, Vector]:
    """Rows as the vectors that ``Store.write_batch`` takes; ``names`` restricts the columns given."""
    return {name: vector_of(schema.column(name).type, [row.get(name) for row in rows]) for name in names or list(schema.by_name)}


def stored_rows(snapshot: TableSnapshot) -> list[Row]:
    """Every row of every file, in file order, checked to be sorted as files must be."""
    schema = snapshot.table.schema
    out: list[Row] = []
    for each in snapshot.files:
        file, devices = each.file, each.device_number
        assert (np.diff(snapshot.devices.rank[devices]) > 0).all(), "devices of a file are in tag order"
        whole = np.zeros(1, np.int64), np.array([file.row_count], np.int64)
        columns: dict[str, list[Any]] = {SEQUENCE_NAME: file.read(SEQUENCE_NAME, *whole).to_physical_list()}
        for column in schema:
            if column.role is Role.TAG:
                by_device = snapshot.devices.tags[column.name].take(devices).to_physical_list()
                if isinstance(file, TsFile):
                    assert by_device == file.device_tags[column.name].to_physical_list()
                columns[column.name] = np.repeat(np.array(by_device, object), np.diff(file.row_start)).tolist()
            elif column.role is not Role.ATTRIBUTE:
                has = file.has_column(column)
                columns[column.name] = file.read(column.name, *whole).to_physical_list() if has else [None] * file.row_count
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        keys = [(*_tag_key(schema, row), row[schema.time.name], row[SEQUENCE_NAME]) for row in rows]
        assert keys == sorted(keys)
        assert (each.min_time, each.max_time) == (min(columns[schema.time.name]), max(columns[schema.time.name]))
        out += rows
    return out


def merged_rows(snapshot: TableSnapshot) -> list[Row]:
    """The rows a query sees, in (tags, time) order: of equal (tags, time) one, the newest value that is not NULL winning."""
    schema = snapshot.table.schema
    rows = sorted(stored_rows(snapshot), key=lambda row: row[SEQUENCE_NAME])
    if snapshot.table.options.mode == "table":
        merged: dict[tuple[Any, ...], Row] = {}
        for row in rows:
            key = (*_tag_key(schema, row), row[schema.time.name])
            known = merged.setdefault(key, row)
            for name, value in row.items():
                if value is not None:
                    known[name] = value
        rows = list(merged.values())
    rows.sort(key=lambda row: (*_tag_key(schema, row), row[schema.time.name]))
    return [{name: value for name, value in row.items() if name != SEQUENCE_NAME} for row in rows]


class TableModel:
    """What a table in mode 'table' holds, written as a dictionary."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.rows: dict[tuple[Any, ...], Row] = {}

    def write(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Apply a batch; (inserted, updated)."""
        inserted = 0
        for row in rows:
            key = (*_tag_key(self.schema, row), row[self.schema.time.name])
            inserted += key not in self.rows
            known = self.rows.setdefault(key, {column.name: None for column in self.schema if column.role is not Role.ATTRIBUTE})
            known.update({name: value for name, value in row.items() if value is not None})
        return inserted, len(rows) - inserted

    def sorted_rows(self) -> list[Row]:
        """All rows in (tags, time) order."""
        return [self.rows[key] for key in sorted(self.rows)]


def _tag_key(schema: Schema, row: Row) -> tuple[Any, ...]:
    values = (row.get(tag.name) for tag in schema.tags)
    return tuple((value is None, 0 if value is None else value.encode() if isinstance(value, str) else value) for value in values)
