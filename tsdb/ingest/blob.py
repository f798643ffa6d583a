"""Blobs given as files: paths, open files, handles of other blobs, and places in files that are not the database's.

Large ones are copied to a payload file part by part before the commit, so that a blob never has to fit into memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import xxhash

from tsdb.blob import ExternalBlob
from tsdb.ingest.arrow import columns_of, match_columns
from tsdb.storage.blob_intake import PutBlob, dedicated_cell
from tsdb.storage.report import WriteReport
from tsdb.storage.store import Store
from tsdb_format.blob import BlobKind, BlobLimits, located_cells, locator
from tsdb_format.errors import InvalidInput
from tsdb_format.payload import PART_BYTES, PayloadFiles
from tsdb_format.schema import Schema
from tsdb_format.section import HEADER
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import Pool, Vector, concat_pools

_BLOB = ColumnType(Kind.BLOB)
#: Bytes of small files that one part of an ingest holds in memory.
_HELD_BYTES_MAX = 64 * 2**20


def blobs_as_files(data: Any, schema: Schema) -> list[str]:
    """The columns of rows or of a dict of lists in which some blob is given as a file."""
    if not any(column.type.kind is Kind.BLOB for column in schema.fields):
        return []
    if isinstance(data, Mapping):
        found = {name: values for name, values in data.items() if isinstance(values, (list, tuple))}
    elif isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        found = {name: [row.get(name) for row in data] for name in dict.fromkeys(name for row in data for name in row)}
    else:
        return []
    return [str(name) for name, values in found.items() if any(map(_is_file, values))]


def write_with_files(store: Store, table: str, data: Any, names: Sequence[str]) -> WriteReport:
    """Write rows of which the blobs in some columns are given as files. Raises as ``Database.write`` does."""
    held = store.table(table)
    columns = match_columns(held.schema, names)
    for column in columns.values():
        if column.type.kind is not Kind.BLOB:
            raise InvalidInput(f"column {column.name!r} is {column.type}: only blobs are taken from files")
    rest: Any
    if isinstance(data, Mapping):
        rest = {name: values for name, values in data.items() if name not in columns}
        given = {name: list(data[name]) for name in names}
    else:
        rest = [{name: value for name, value in row.items() if name not in columns} for row in data]
        given = {name: [row.get(name) for row in data] for name in names}
    with store.writer.blobs(held) as put:
        made = columns_of(rest, held.schema)
        for name, values in given.items():
            packed_max = held.options.blob_limits(columns[name].name).packed_max
            made[columns[name].name] = vector_of(values, packed_max, put, name)
        return store.write_pieces(table, made)


def vector_of(values: Sequence[Any], memory_max: int, put: PutBlob, name: str) -> Vector:
    """Blobs, bytes or given as files; those above ``memory_max`` bytes go where ``put`` writes them."""
    cells: list[Pool] = []
    for row, value in enumerate(values):
        try:
            cells.append(Pool.of([b""]) if value is None else _cell(value, memory_max, put))
        except OSError as error:
            raise InvalidInput(f"column {name!r}, row {row:,}: {error.strerror}: {error.filename}") from error
        except InvalidInput as error:
            raise InvalidInput(f"column {name!r}, row {row:,}: {error}") from None
    valid = np.array([value is not None for value in values], np.bool_)
    return Vector(_BLOB, np.arange(len(values), dtype=np.int32), None if valid.all() else valid, concat_pools(cells)[0])


def _is_file(value: Any) -> bool:
    return isinstance(value, (os.PathLike, ExternalBlob)) or callable(getattr(value, "read", None))


def _cell(value: Any, memory_max: int, put: PutBlob) -> Pool:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Pool.of([bytes(value)])
    if isinstance(value, ExternalBlob):
        return _external(value)
    if isinstance(value, os.PathLike):
        with open(value, "rb", buffering=0) as file:
            return _copied(file, memory_max, put)
    if callable(getattr(value, "read", None)):
        return _copied(value, memory_max, put)
    raise InvalidInput(f"a blob is bytes, a path, an open file or an ExternalBlob, not a {type(value).__name__}")


def _copied(file: Any, memory_max: int, put: PutBlob) -> Pool:
    parts, size = list[bytes](), 0
    reading = _parts(file)
    for part in reading:
        parts.append(part)
        size += len(part)
        if size > memory_max:
            return dedicated_cell(*put(chain(parts, reading)))
    return Pool.of([b"".join(parts)])


def _parts(file: Any) -> Iterator[bytes]:
    while part := file.read(PART_BYTES):
        if not isinstance(part, (bytes, bytearray, memoryview)):
            raise InvalidInput(f"the file gives {type(part).__name__}, not bytes: open it in binary mode")
        yield bytes(part)


def _external(given: ExternalBlob) -> Pool:
    path = os.path.abspath(os.path.expanduser(given.path))
    whole = os.stat(path).st_size
    size = whole - given.position if given.size is None else given.size
    if given.position < 0 or size < 0 or given.position + size > whole:
        raise InvalidInput(f"{path} has {whole:,} bytes, not {size:,} from {given.position:,}")
    hasher = xxhash.xxh3_64()
    for part in PayloadFiles("").parts(path, given.position, size):
        hasher.update(part.data)
    return located_cells(BlobKind.EXTERNAL, [path], locator(given.position, size, hasher.intdigest()))


def blob_columns(schema: Schema, given: Mapping[str, str]) -> dict[str, str]:
    """BLOB columns of a table and the columns of files that name what is in them. Raises NotFound, InvalidInput."""
    found = {}
    for name, column in match_columns(schema, list(given)).items():
        if column.type.kind is not Kind.BLOB:
            raise InvalidInput(f"column {column.name!r} is {column.type}: only blobs are taken from files")
        found[column.name] = given[name]
    return found


def contents_of(paths: Vector, folder: str, limits: BlobLimits, put: PutBlob, name: str) -> Vector:
    """The files that some texts name, from ``folder`` on, as blobs; those too large for pages lie in payload files already, and so
    do those that are too many for memory.

    Raises InvalidInput for a file that cannot be read.
    """
    texts = [None if text is None else os.path.join(folder, text) for text in paths.to_physical_list()]
    known = {path: number for number, path in enumerate(dict.fromkeys(path for path in texts if path is not None))}
    cells: dict[str, Pool] = {}
    packed: dict[str, tuple[int, int, int]] = {}
    path, held = "", 0
    try:
        for path in known:
            size = os.stat(path).st_size
            is_small = size <= limits.inline_max and held + size <= _HELD_BYTES_MAX
            held += size if is_small else 0
            if is_small or size > limits.packed_max:
                with open(path, "rb", buffering=0) as file:
                    cells[path] = _copied(file, limits.packed_max, put)
        rest = [path for path in known if path not in cells]
        if rest:
            source = put(_packing(rest, packed))[0]
            for path in rest:
                cells[path] = located_cells(BlobKind.PACKED, [source], locator(*packed[path]))
    except OSError as error:
        raise InvalidInput(f"column {name!r}: {error.filename or path} cannot be read: {error.strerror}") from error
    pool = concat_pools([cells[path] for path in known])[0] if known else Pool.of([b""])
    return Vector(_BLOB, np.array([known.get(path or "", 0) for path in texts], np.int32), paths.validity, pool)


def _packing(paths: Sequence[str], packed: dict[str, tuple[int, int, int]]) -> Iterator[bytes]:
    """What is in some files, end to end; notes where each one is in a payload file, its size and its checksum."""
    position = HEADER.size
    for path in paths:
        hasher, size = xxhash.xxh3_64(), 0
        with open(path, "rb", buffering=0) as file:
            for part in _parts(file):
                hasher.update(part)
                size += len(part)
                yield part
        packed[path] = position, size, hasher.intdigest()
        position += size
