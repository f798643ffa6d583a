"""Blobs on their way in: what is too large for the log and for memory goes to a payload file first, as it arrives.

The commit then holds the blob's place. Until a flush puts that into a data file, no manifest names the payload file: it is *loose*,
and the writer keeps it in mind. What a crash leaves loose and no commit of the log names is removed by the next writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tsdb.catalog.table import Table, TableOptions
from tsdb.storage.batch import Pieces, RowBatch
from tsdb_format.blob import BlobKind, is_located, kinds_of, locate, located_cells, locator, used_codes
from tsdb_format.payload import PART_BYTES
from tsdb_format.section import HEADER
from tsdb_format.types import Kind
from tsdb_format.vector import ByteArray, Pool, Vector, concat_pools

#: Writes a payload file of one payload: its name in its folder, and the payload's size and checksum (see ``Writer.put_blob``).
PutBlob: TypeAlias = Callable[[Iterable[ByteArray | bytes]], tuple[str, int, int]]


def payload_names(table: Table, columns: Iterable[Vector]) -> set[str]:
    """The payload files of a table, by their names in the database, that blobs of some columns are in."""
    found: set[str] = set()
    for vector in columns:
        if vector.type.kind is Kind.BLOB and vector.pool is not None and is_located(vector):
            used = used_codes(vector)
            outside = used[np.isin(kinds_of(vector.pool)[used], (BlobKind.PACKED, BlobKind.DEDICATED))]
            found |= {f"{table.folder}/{name}" for name in locate(vector.pool, outside).names}
    return found


def has_large(columns: Mapping[str, Vector | Pieces] | RowBatch, options: TableOptions) -> bool:
    """Whether some blob is to be in a file of its own."""
    sizes = ((name, options.blob_limits(name).packed_max) for name in _given(columns))
    return any(_is_large(piece, size_max) for name, size_max in sizes for piece in _pieces(_given(columns)[name]))


def without_large(
    columns: Mapping[str, Vector | Pieces] | RowBatch, options: TableOptions, put: PutBlob
) -> Mapping[str, Vector | Pieces] | RowBatch:
    """The columns with the places of blobs that are to be in files of their own, after ``put`` has written these."""
    made: dict[str, Vector | Pieces] = {
        name: tuple(_outside(piece, options.blob_limits(name).packed_max, put) for piece in _pieces(given))
        for name, given in _given(columns).items()
    }
    if isinstance(columns, RowBatch):
        return RowBatch(columns.schema, columns.row_count, {name: _pieces(given) for name, given in made.items()})
    return made


def dedicated_cell(name: str, size: int, checksum: int) -> Pool:
    """The cell of a blob in a payload file of its own."""
    return located_cells(BlobKind.DEDICATED, [name], locator(HEADER.size, size, checksum))


def _given(columns: Mapping[str, Vector | Pieces] | RowBatch) -> Mapping[str, Vector | Pieces]:
    return columns.columns if isinstance(columns, RowBatch) else columns


def _pieces(given: Vector | Pieces) -> Sequence[Vector]:
    return (given,) if isinstance(given, Vector) else given


def _is_large(vector: Vector, size_max: int) -> bool:
    pool = vector.pool
    if vector.type.kind is not Kind.BLOB or pool is None or int(pool.offsets[-1] - pool.offsets[0]) <= size_max:
        return False
    return bool(((np.diff(pool.offsets) > size_max) & (kinds_of(pool) == BlobKind.INLINE)).any())


def _outside(vector: Vector, size_max: int, put: PutBlob) -> Vector:
    pool = vector.pool
    if pool is None or not _is_large(vector, size_max):
        return vector
    used = used_codes(vector)
    sizes, kinds = pool.offsets[used + 1] - pool.offsets[used], kinds_of(pool)[used]
    large = (sizes > size_max) & (kinds == BlobKind.INLINE)
    pools: list[Pool] = []
    for code, moves in zip(used.tolist(), large.tolist(), strict=True):
        raw = pool.data[pool.offsets[code] : pool.offsets[code + 1]]
        if moves:
            pools.append(dedicated_cell(*put(raw[at : at + PART_BYTES] for at in range(0, len(raw), PART_BYTES))))
        else:
            pools.append(Pool(np.array([0, len(raw)]), raw, kinds_of(pool)[code : code + 1]))
    values, valid = np.zeros(len(vector), np.int32), vector.valid()
    renamed = np.zeros(len(pool), np.int32)
    renamed[used] = np.arange(len(used))
    values[valid] = renamed[vector.values[valid]]
    return Vector(vector.type, values, vector.validity, concat_pools(pools)[0])
