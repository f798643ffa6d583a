"""How many bytes a value of a column takes, measured where that is not known from its type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tsdb.storage.snapshot import OpenFile
from tsdb_format.blob import blob_sizes
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.types import Kind, Role

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableSnapshot

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
        named = next((field.name for field in held.file.schema if field.id == column.id), None)
        if named is None:
            continue
        rows += held.row_count
        if not isinstance(held, OpenFile):
            cells = held.file.read_cells(named, np.zeros(1, np.int64), np.array([held.row_count], np.int64))
            stored += int(blob_sizes(cells).sum())
            continue
        stored += int(held.file.page_bytes(named).sum())
        if column.type.kind is Kind.BLOB:
            stored += sum(each.live_bytes for each in held.payloads)
    return stored / rows if rows else 0.0
