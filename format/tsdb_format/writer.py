"""Writing a data file: sorted columns in, a sealed ``.tsf`` and its ``.res`` out.

Chunks are encoded by column and chunk group, in threads where asked, and written in one order: the bytes of a file depend on its
rows and on nothing else. The file has its name only once everything is on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format import resource, statistics
from tsdb_format.ball import ball_sections, cut_balls, new_balls
from tsdb_format.blob import DEFAULT_LIMITS, BlobLimits
from tsdb_format.device import device_sections
from tsdb_format.disk import DISK, NewFile, Storage
from tsdb_format.encoding import PAGES_PER_CHUNK, EncodedChunk, check_rows_per_page, encode_chunk
from tsdb_format.errors import InvalidInput
from tsdb_format.parallel import ordered_map
from tsdb_format.payload_table import Payload, payload_sections
from tsdb_format.payload_writer import PayloadWriter
from tsdb_format.schema import SEQUENCE_COLUMN, Column, Schema
from tsdb_format.section import ALIGNMENT, BLOBS_VERSION, append_sections, header_bytes
from tsdb_format.summary import new_summary
from tsdb_format.types import Kind, Role
from tsdb_format.vector import ByteArray, IntArray, Vector

MAGIC = b"tsdbtsf\n"
#: The section of what the writer knew of the table.
DEFINITION = "definition"
#: Rows that int32 positions inside a chunk and numpy's index arithmetic leave far behind; a file is cut long before.
ROWS_MAX = 2**40


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a written file holds. ``bytes`` counts the file and its sidecar; times are in the TIME column's unit.

    ``payloads`` are the files that hold blobs of its rows, and are not counted.
    """

    rows: int
    devices: int
    bytes: int
    min_time: int
    max_time: int
    min_sequence: int
    max_sequence: int
    payloads: tuple[Payload, ...] = ()


def write_file(
    path: str,
    *,
    schema: Schema,
    device_tags: dict[str, Vector],
    row_start: IntArray,
    columns: dict[str, Vector],
    rows_per_page: int = 8192,
    table: str = "",
    device_number: NDArray[np.int32] | None = None,
    threads: int = 1,
    sync: bool = True,
    storage: Storage = DISK,
    blobs: Mapping[str, BlobLimits] = MappingProxyType({}),
    moved: frozenset[str] = frozenset(),
    definition: bytes = b"",
) -> FileFacts:
    """Write rows sorted by (tags, time, ``_sn``) to ``path``, durably unless ``sync`` is off, and its resource beside it.

    ``device_tags`` holds every TAG's value per device in tag order, ``row_start`` the device's first row (and the row count at the
    end), ``columns`` the TIME column, ``_sn`` and any of the FIELDs; a field left out is not in the file. ``device_number`` goes to
    the resource. ``blobs`` says per column which payloads are too large for pages, where that is not as usual; payloads in files
    named in ``moved`` are copied, all others that are outside of pages stay where they are. ``definition`` is what else is known of
    the table, as ``TsFile.definition`` has it then.

    Raises InvalidInput for what no file can hold, OSError where the disk refuses: then there is no new file or, where only making
    its name durable failed, a whole one.
    """
    path = str(path)
    row_start = np.ascontiguousarray(row_start, np.int64)
    _check_layout(rows_per_page, row_start, device_number)
    stored = _stored_columns(schema, columns)
    vectors = [_checked(column, columns[column.name], int(row_start[-1])) for column in stored]
    tags = {column.name: _checked(column, _given(device_tags, column.name), len(row_start) - 1) for column in schema.tags}
    _check_order(vectors[0].values, row_start)
    with PayloadWriter(path, moved=moved, sync=sync, storage=storage) as payloads, NewFile(path, storage) as file:
        outside = _place_blobs(payloads, stored, vectors, blobs, rows_per_page)
        file.write(header_bytes(MAGIC, BLOBS_VERSION if outside else 1))
        arrays = device_sections(schema.tags, tags, row_start) | payload_sections(outside)
        found = _write_columns(file, stored, vectors, row_start, rows_per_page, threads, arrays)
        times, sequences = (_range(each) for each in found[:2])
        if definition:
            arrays[DEFINITION] = np.frombuffer(definition, np.uint8)
        attributes = {
            "table": table,
            "rows": int(row_start[-1]),
            "rows_per_page": rows_per_page,
            "devices": len(row_start) - 1,
            "time": times,
            "sequence": sequences,
            "columns": [[c.id, c.name, int(c.type.kind), c.type.width, int(c.role)] for c in _file_columns(schema, stored)],
        }
        digest = append_sections(file, MAGIC, arrays, attributes)
        by_device = {"min_time": vectors[0].values[row_start[:-1]], "max_time": vectors[0].values[row_start[1:] - 1]}
        sidecar_bytes = resource.write_resource(path, digest, by_device, device_number, sync=sync, storage=storage)
        payloads.keep()  # also where the commit fails: the file may have its name all the same
        try:
            file.commit(sync=sync)
        except OSError:
            with suppress(OSError):
                storage.remove(resource.resource_path(path))
            raise
        size = file.position + sidecar_bytes
    return FileFacts(int(row_start[-1]), len(row_start) - 1, size, *times, *sequences, outside)


def _place_blobs(
    payloads: PayloadWriter, stored: list[Column], vectors: list[Vector], limits: Mapping[str, BlobLimits], rows_per_page: int
) -> tuple[Payload, ...]:
    """Write the payloads that pages are not to have, and put what pages are to have instead into ``vectors``."""
    for index, column in enumerate(stored):
        if column.type.kind is Kind.BLOB:
            vectors[index] = payloads.place(vectors[index], limits.get(column.name, DEFAULT_LIMITS), rows_per_page)
    return payloads.commit()


def _check_layout(rows_per_page: int, row_start: IntArray, device_number: NDArray[np.int32] | None) -> None:
    check_rows_per_page(rows_per_page)
    if len(row_start) < 2 or row_start[0] != 0 or not (row_start[1:] > row_start[:-1]).all():
        raise InvalidInput("a file needs at least one device, and every device at least one row")
    if row_start[-1] > ROWS_MAX:
        raise InvalidInput(f"a file takes at most {ROWS_MAX:,} rows, not {int(row_start[-1]):,}")
    if device_number is not None and len(device_number) != len(row_start) - 1:
        raise InvalidInput(f"{len(device_number):,} device numbers for {len(row_start) - 1:,} devices")


def _stored_columns(schema: Schema, given: Mapping[str, Vector]) -> list[Column]:
    """The columns with pages, in file order: time, ``_sn``, then the fields that are given."""
    stored = [schema.time, SEQUENCE_COLUMN, *(column for column in schema.fields if column.name in given)]
    unknown = given.keys() - {column.name for column in stored}
    if unknown:
        raise InvalidInput(f"not a TIME or FIELD column of the schema: {', '.join(sorted(unknown))}")
    for column in stored[:2]:
        if _given(given, column.name).validity is not None and not given[column.name].valid().all():
            raise InvalidInput(f"column {column.name!r} cannot hold NULL")
    return stored


def _file_columns(schema: Schema, stored: list[Column]) -> list[Column]:
    """What the file's own schema lists: the table's order without the columns that have nothing here, ``_sn`` last."""
    kept = {column.id for column in stored if column is not SEQUENCE_COLUMN}
    return [column for column in schema if column.role is Role.TAG or column.id in kept] + [SEQUENCE_COLUMN]


def _given(vectors: Mapping[str, Vector], name: str) -> Vector:
    if name not in vectors:
        raise InvalidInput(f"column {name!r} is not given")
    return vectors[name]


def _checked(column: Column, vector: Vector, rows: int) -> Vector:
    """The vector with contiguous arrays, after checking all that kernels rely on."""
    if vector.type != column.type or vector.values.dtype != column.type.physical:
        raise InvalidInput(f"column {column.name!r} is {column.type}, not {vector.type} of {vector.values.dtype}")
    shape = (rows, column.type.width) if column.type.kind is Kind.VECTOR else (rows,)
    if vector.values.shape != shape or (vector.validity is not None and vector.validity.shape != (rows,)):
        raise InvalidInput(f"column {column.name!r} has shape {vector.values.shape}, not {shape}")
    validity = vector.validity
    if validity is not None:
        validity = None if validity.all() else np.ascontiguousarray(validity, np.bool_)
    if column.type.is_pooled:
        _check_codes(column, vector, validity)
    return Vector(column.type, np.ascontiguousarray(vector.values), validity, vector.pool)


def _check_codes(column: Column, vector: Vector, validity: NDArray[np.bool_] | None) -> None:
    codes = vector.values if validity is None else vector.values[validity]
    size = -1 if vector.pool is None else len(vector.pool)
    if size < 0 or (len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= size)):
        raise InvalidInput(f"column {column.name!r} has codes beyond its pool")


def _check_order(times: NDArray[Any], row_start: IntArray) -> None:
    falls = times[1:] < times[:-1]
    falls[row_start[1:-1] - 1] = False
    if falls.any():
        raise InvalidInput(f"rows are not sorted by time within their device: row {int(falls.argmax()) + 1:,}")


class _ColumnPages:
    """The page arrays of one column as they fill up."""

    def __init__(self, page_count: int, chunk_count: int) -> None:
        self.long = np.zeros((3, page_count), np.uint64)  # offset, bytes, checksum
        self.dictionary = np.zeros((3, chunk_count), np.uint64)
        self.short = np.zeros((2, page_count), np.uint8)  # encoding, compression

    def add(self, group: int, chunk: EncodedChunk, position: int) -> None:
        pages = slice(group * PAGES_PER_CHUNK, group * PAGES_PER_CHUNK + len(chunk.page_offset))
        self.long[0, pages] = chunk.page_offset + position
        self.long[1, pages] = chunk.page_bytes
        self.long[2, pages] = chunk.page_checksum
        self.short[0, pages] = chunk.page_encoding
        self.short[1, pages] = chunk.page_compression
        if chunk.dict_bytes:
            self.dictionary[:, group] = (chunk.dict_offset + position, chunk.dict_bytes, chunk.dict_checksum)

    def to_bytes(self, column: Column) -> ByteArray:
        parts: list[NDArray[Any]] = [self.long, self.dictionary, self.short] if column.type.is_pooled else [self.long, self.short]
        return np.concatenate([part.reshape(-1).view(np.uint8) for part in parts])


def _write_columns(
    file: NewFile, stored: list[Column], vectors: list[Vector], row_start: IntArray, rows_per_page: int, threads: int,
    arrays: dict[str, NDArray[Any]],
) -> list[statistics.Statistics]:  # fmt: skip
    """Write all chunks, group by group, and add each column's sections to ``arrays``: pages, statistics, balls."""
    rows = len(vectors[0])
    page_count = -(-rows // rows_per_page)
    chunk_count = -(-page_count // PAGES_PER_CHUNK)
    summaries = [new_summary(vector, rows_per_page) for vector in vectors]
    pages = [_ColumnPages(page_count, chunk_count) for _ in stored]
    chunk_rows = rows_per_page * PAGES_PER_CHUNK
    vector_columns = [index for index, column in enumerate(stored) if column.type.kind is Kind.VECTOR]
    ball_start = cut_balls(row_start, rows_per_page) if vector_columns else row_start
    balls = {index: new_balls(ball_start, stored[index].type) for index in vector_columns}

    def encode(task: tuple[int, int]) -> EncodedChunk:
        group, index = task
        part = vectors[index].take(slice(group * chunk_rows, (group + 1) * chunk_rows))
        summaries[index].add(group * PAGES_PER_CHUNK, part)
        if index in balls:
            balls[index].enclose(group * chunk_rows, part)
        return encode_chunk(part, rows_per_page)

    tasks = [(group, index) for group in range(chunk_count) for index in range(len(vectors))]
    for (group, index), chunk in zip(tasks, ordered_map(encode, tasks, threads if len(tasks) > 1 else 1), strict=True):
        file.align(ALIGNMENT)
        pages[index].add(group, chunk, file.position)
        file.write(chunk.data)
    file.align(ALIGNMENT)
    found = [summary.statistics(rows_per_page, PAGES_PER_CHUNK, rows) for summary in summaries]
    for column, column_pages, column_statistics in zip(stored, pages, found, strict=True):
        arrays[f"pages.{column.id}"] = column_pages.to_bytes(column)
        arrays[f"stats.{column.id}"] = statistics.to_bytes(column_statistics)
    arrays |= ball_sections({stored[index].id: each for index, each in balls.items()})
    return found


def _range(found: statistics.Statistics) -> tuple[int, int]:
    assert found.min is not None
    assert found.max is not None
    return int(found.min[-1]), int(found.max[-1])
