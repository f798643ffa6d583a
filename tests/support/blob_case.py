"""Files with blobs of every kind: in the page, packed with others, in a file of their own, elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xxhash

from support.file_case import FileCase
from tsdb_format.blob import BlobKind, BlobLimits, located_cells, locator
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_NS, ColumnType, Kind, Role
from tsdb_format.vector import Pool, Vector, concat

BLOB = ColumnType(Kind.BLOB)
#: Small enough that tests need no large payloads.
LIMITS = BlobLimits(inline_max=16, packed_max=200)


def blob_vector(payloads: list[bytes | None]) -> Vector:
    """One string of the pool for each row; NULLs name none."""
    pool = Pool.of([b"" if payload is None else payload for payload in payloads])
    valid = np.array([payload is not None for payload in payloads])
    codes = np.where(valid, np.arange(len(payloads)), -7).astype(np.int32)
    return Vector(BLOB, codes, None if valid.all() else valid, pool)


def external_vector(path: Path, ranges: list[tuple[int, int]]) -> Vector:
    """Ranges (first byte, bytes) of a file as blobs."""
    raw = path.read_bytes()
    entries = [locator(at, size, xxhash.xxh3_64_intdigest(raw[at : at + size])) for at, size in ranges]
    cells = located_cells(BlobKind.EXTERNAL, [str(path)] * len(ranges), np.concatenate(entries))
    return Vector(BLOB, np.arange(len(ranges), dtype=np.int32), None, cells)


def random_payloads(rows: int, seed: int = 0) -> list[bytes | None]:
    """NULLs, empty ones, some of each kind under ``LIMITS``, and some that are there twice."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0, 1, 16, 17, 100, 200, 201, 500], rows)
    payloads: list[bytes | None] = [rng.bytes(int(size)) for size in sizes]
    for row in np.flatnonzero(rng.random(rows) < 0.2).tolist():
        payloads[row] = None
    for row in np.flatnonzero(rng.random(rows) < 0.1).tolist():
        payloads[row] = payloads[0]
    return payloads


def blob_case(blobs: Vector, rows_per_page: int = 16) -> FileCase:
    """One device with these blobs, and a number beside each."""
    rows = len(blobs)
    columns = (
        Column("time", TIMESTAMP_NS, Role.TIME, 1), Column("host", STRING, Role.TAG, 2), Column("image", BLOB, Role.FIELD, 3),
        Column("value", DOUBLE, Role.FIELD, 4),
    )  # fmt: skip
    host = Vector(STRING, np.zeros(1, np.int32), None, Pool.of([b"a"]))
    values = {
        "time": Vector(TIMESTAMP_NS, np.arange(rows, dtype=np.int64)), SEQUENCE_NAME: Vector(INT64, np.ones(rows, np.int64)),
        "image": blobs, "value": Vector(DOUBLE, np.arange(rows) / 2),
    }  # fmt: skip
    row_start, numbers = np.array([0, rows]), np.zeros(1, np.int32)
    return FileCase(Schema(columns), {"host": host}, row_start, values, rows_per_page, numbers, extra={"blobs": {"image": LIMITS}})


def vector_case(blobs: Vector) -> FileCase:
    """Six such rows with vectors, in pages of two: a page of vectors, one of NULLs, one with a vector that is not finite."""
    case = blob_case(blobs, 2)
    kind = ColumnType(Kind.VECTOR, 3)
    values = np.array([[1, 2, 3], [1, 2, 4.5], [0, 0, 0], [0, 0, 0], [0.1, 0.2, 0.3], [np.nan, np.inf, 0]], np.float32)
    validity = np.array([True, True, False, False, True, True])
    case.schema = Schema((*case.schema, Column("embedding", kind, Role.FIELD, 5)))
    case.columns["embedding"] = Vector(kind, values, validity)
    return case


def every_kind(external: Path) -> Vector:
    """Blobs of every kind, NULLs and empty ones."""
    given = blob_vector([b"inline", None, b"", b"packed" * 5, b"dedicated" * 30, b"packed" * 6])
    return concat([given, external_vector(external, [(0, 9), (4, 7)])])
