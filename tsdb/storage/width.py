"""How many bytes a value of a column takes, measured where that is not known from its type."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tsdb.storage.snapshot import OpenFile
from tsdb_format.blob import blob_sizes
from tsdb_format.errors import Corruption, NotFound
from tsdb_format.schema import SEQUENCE_NAME, Column
from tsdb_format.types import Kind, Role

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableFile, TableSnapshot

#: Files that are looked into: the largest, which say most.
_FILES_MAX = 4


def value_bytes(table: TableSnapshot, name: str) -> float:
    """About the bytes of one value: by type, or of strings and blobs as they are stored.

    Of blobs outside of pages each column of a file counts all of the file's.
    """
    if name == SEQUENCE_NAME:
        return 8.0
    column = table.table.schema.column(name)
    if column.role is not Role.FIELD or not column.type.is_pooled:
        return float(column.type.physical.itemsize * max(column.type.width, 1))
    stored, rows = 0, 0
    for held in sorted(table.files, key=lambda file: -file.row_count)[:_FILES_MAX]:
        with suppress(Corruption, NotFound):  # whoever reads the file says so
            found = _stored_bytes(held, column)
            stored, rows = (stored, rows) if found is None else (stored + found, rows + held.row_count)
    return stored / rows if rows else 0.0


def outside_bytes(table: TableSnapshot, names: Iterable[str]) -> int:
    """Bytes of a table's files that are blobs outside of pages; 0 where none of the columns has blobs."""
    by_name = table.table.schema.by_name
    if not any(name in by_name and by_name[name].type.kind is Kind.BLOB for name in names):
        return 0
    return sum(each.live_bytes for held in table.files if isinstance(held, OpenFile) for each in held.payloads)


def _stored_bytes(held: TableFile, column: Column) -> int | None:
    """Bytes of all of a file's strings or blobs in a column; None where it was written before the column was there."""
    named = next((field.name for field in held.file.schema if field.id == column.id), None)
    if named is None:
        return None
    if not isinstance(held, OpenFile):
        cells = held.file.read_cells(named, np.zeros(1, np.int64), np.array([held.row_count], np.int64))
        return int(blob_sizes(cells).sum())
    outside = sum(each.live_bytes for each in held.payloads) if column.type.kind is Kind.BLOB else 0
    return int(held.file.page_bytes(named).sum()) + outside
