"""How many bytes a value of a column takes, measured where that is not known from its type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsdb.storage.snapshot import OpenFile
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.types import Kind, Role

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableSnapshot

#: Files that are looked into: the largest, which say most.
_FILES_MAX = 4


def value_bytes(table: TableSnapshot, name: str) -> float:
    """About the bytes of one value: by type, or of strings and blobs as they are stored, 0 where all are in memory.

    Of blobs outside of pages each column counts all of the file's.
    """
    if name == SEQUENCE_NAME:
        return 8.0
    column = table.table.schema.column(name)
    if column.role is not Role.FIELD or not column.type.is_pooled:
        return float(column.type.physical.itemsize * max(column.type.width, 1))
    stored, rows = 0, 0
    for held in sorted(table.files, key=lambda file: -file.row_count)[:_FILES_MAX]:
        named = next((field.name for field in held.file.schema if field.id == column.id), None)
        if named is not None:
            stored += int(held.file.page_bytes(named).sum())
            rows += held.row_count
            if column.type.kind is Kind.BLOB and isinstance(held, OpenFile):
                stored += sum(each.live_bytes for each in held.payloads)
    return stored / rows if rows else 0.0
