"""Made-up files: random sorted rows of any types, with the awkward values that formats stumble over."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.types import INT64, STRING, TIMESTAMP_NS, ColumnType, Kind, Role, parse_type
from tsdb_format.vector import Pool, Vector
from tsdb_format.writer import FileFacts, write_file

#: Every type a FIELD can have.
FIELD_TYPES = (
    "BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "STRING", "DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_US", "TIMESTAMP_NS",
    "BLOB", "VECTOR(3)",
)  # fmt: skip
_FLOATS = [0.0, -0.0, 1.5, -2.25, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 5e-324]
_TEXTS = [b"", b"a", b"a\0", b"a\0b", b"sixteen bytes!!!", b"sixteen bytes!!!x", "żółć".encode(), b"zz" * 20]


@dataclass
class FileCase:
    """What ``write_file`` takes."""

    schema: Schema
    device_tags: dict[str, Vector]
    row_start: NDArray[np.int64]
    columns: dict[str, Vector]
    rows_per_page: int = 8192
    device_number: NDArray[np.int32] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path, **changes: Any) -> FileFacts:
        arguments: dict[str, Any] = {
            "schema": self.schema, "device_tags": self.device_tags, "row_start": self.row_start, "columns": self.columns,
            "rows_per_page": self.rows_per_page, "device_number": self.device_number, "table": "t", "sync": False,
            **self.extra, **changes,
        }  # fmt: skip
        return write_file(str(path), **arguments)

    @property
    def rows(self) -> int:
        return int(self.row_start[-1])


def text_vector(values: list[bytes | None], kind: str = "STRING") -> Vector:
    """A pooled vector; NULL rows carry a code that names nothing."""
    pool = sorted({value for value in values if value is not None}, reverse=True)
    where = {value: code for code, value in enumerate(pool)}
    codes = np.array([-7 if value is None else where[value] for value in values], np.int32)
    valid = np.array([value is not None for value in values], np.bool_)
    return Vector(parse_type(kind), codes, None if valid.all() else valid, Pool.of(pool))


def random_vector(kind: ColumnType, rows: int, rng: np.random.Generator, null_share: float = 0.2) -> Vector:
    """Values of one type: runs, extremes and specials among ordinary ones; NULLs singly and in runs."""
    validity = rng.random(rows) >= null_share
    if null_share and rows > 8:
        validity[rows // 3 : rows // 2] = False
    made = _random_values(kind, rows, rng)
    return Vector(kind, made.values, None if validity.all() else validity, made.pool)


def _random_values(kind: ColumnType, rows: int, rng: np.random.Generator) -> Vector:
    physical = kind.physical
    if kind.is_pooled:
        letters = list(string.ascii_letters)
        words = _TEXTS + ["".join(rng.choice(letters, rng.integers(1, 30))).encode() for _ in range(rows // 3 + 1)]
        texts: list[bytes | None] = [words[i] for i in rng.integers(0, len(words), rows)]
        if kind.kind is Kind.BLOB:
            texts = [None if text is None else text * 3 for text in texts]
        return text_vector(texts, str(kind))
    if kind.kind is Kind.VECTOR:
        return Vector(kind, rng.normal(size=(rows, kind.width)).astype(np.float32))
    if kind.kind is Kind.BOOLEAN:
        return Vector(kind, rng.random(rows) < 0.5)
    if kind.is_float:
        floats = np.round(rng.normal(50, 20, rows), 2)
        special = rng.random(rows) < 0.1
        floats[special] = rng.choice(_FLOATS, int(special.sum()))
        with np.errstate(over="ignore"):
            return Vector(kind, floats.astype(physical))
    limits = np.iinfo(physical)
    values = np.cumsum(rng.integers(-5, 9, rows)).astype(physical)
    special = rng.random(rows) < 0.05
    values[special] = rng.choice([limits.min, limits.max, 0, -1], int(special.sum()))
    return Vector(kind, values)


def random_case(
    seed: int, *, devices: int = 4, rows: int = 100, rows_per_page: int = 16, fields: tuple[str, ...] = FIELD_TYPES,
    tags: tuple[str, ...] = ("STRING", "INT32"), null_share: float = 0.2, time_type: ColumnType = TIMESTAMP_NS,
) -> FileCase:  # fmt: skip
    """A file with ``rows`` rows over ``devices`` devices; the last device's tags are NULL."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(1, rows), devices - 1, replace=False)) if devices > 1 else np.empty(0, np.int64)
    row_start = np.concatenate([[0], cuts, [rows]]).astype(np.int64)
    columns = [Column("time", time_type, Role.TIME, 1)]
    device_tags = {}
    for number, name in enumerate(tags):
        column = Column(f"tag{number}", parse_type(name), Role.TAG, 2 + number)
        columns.append(column)
        device_tags[column.name] = _tag_values(column.type, devices, first=number == 0)
    values = {"time": _times(row_start, time_type, rng)}
    values[SEQUENCE_NAME] = Vector(INT64, rng.integers(1, 9, rows))
    for number, name in enumerate(fields):
        column = Column(f"field{number}", parse_type(name), Role.FIELD, 20 + number)
        columns.append(column)
        values[column.name] = random_vector(column.type, rows, rng, null_share)
    numbers = rng.permutation(devices).astype(np.int32)
    return FileCase(Schema(tuple(columns)), device_tags, row_start, values, rows_per_page, numbers)


def _tag_values(kind: ColumnType, devices: int, first: bool) -> Vector:
    position = np.arange(devices)
    if kind.kind is Kind.STRING:
        names = [f"host-{i if first else i % 2:06d}".encode() for i in range(devices - 1)]
        return text_vector([*names, None])
    validity = position < devices - 1
    values = position if first else position % 2
    return Vector(kind, values.astype(kind.physical), None if validity.all() else validity)


def _times(row_start: NDArray[np.int64], kind: ColumnType, rng: np.random.Generator) -> Vector:
    parts = [np.cumsum(rng.integers(0, 3, stop - start)) for start, stop in zip(row_start[:-1], row_start[1:], strict=True)]
    base = 1_700_000_000 * kind.units_per_second
    return Vector(kind, base + np.concatenate(parts) * kind.units_per_second // 2)


def same_values(found: Vector, expected: Vector) -> bool:
    """Whether two vectors hold the same rows, floats compared by their bits."""
    if found.type != expected.type or len(found) != len(expected):
        return False
    valid = expected.valid()
    if not np.array_equal(found.valid(), valid):
        return False
    if expected.pool is not None:
        mine, theirs = found.take(valid), expected.take(valid)
        return plain_list(mine) == plain_list(theirs)
    left, right = np.ascontiguousarray(found.values[valid]), np.ascontiguousarray(expected.values[valid])
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


def plain_list(vector: Vector) -> list[bytes]:
    """A pooled vector's byte strings; no row may be NULL."""
    assert vector.pool is not None
    texts = vector.pool.tolist()
    return [texts[code] for code in vector.values.tolist()]


def every_encoding_case(rows: int = 150, rows_per_page: int = 128) -> FileCase:
    """One device whose columns make the writer choose every encoding, and zstd where it pays; from formulas, not from chance."""
    at = np.arange(rows)
    mixed = (at.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    some_null = at % 7 != 3
    words = [b"%s-%d" % (word, i) for i, word in enumerate((b"north", b"east", b"south", b"west"))]
    prose = [b"the quick brown fox number %d jumps over the very lazy dog %d" % (i, i * i) for i in range(rows)]
    smooth = 1.0 + mixed.astype(np.float64) / 2**64 / 1000
    ends = (mixed & np.uint64(0xBFEF_0000_0000_FFFF)).view(np.float64)
    pieces = [b"\0\xff" * (i % 9) for i in range(rows)]
    given: dict[str, Vector] = {
        "plain": Vector(parse_type("INT64"), mixed.view(np.int64)),
        "plain_4": Vector(parse_type("INT32"), mixed.astype(np.uint32).view(np.int32), some_null),
        "constant": Vector(parse_type("DOUBLE"), np.full(rows, -0.0)),
        "packed": Vector(parse_type("INT64"), (mixed % np.uint64(1000)).astype(np.int64) * 10 + 10**12, some_null),
        "delta": Vector(parse_type("INT64"), at * 60_000 + (mixed % np.uint64(3)).astype(np.int64)),
        "decimal": Vector(parse_type("DOUBLE"), (mixed % np.uint64(9999)).astype(np.float64) / 100, some_null),
        "runs": Vector(parse_type("INT64"), at // 64),
        "bits": Vector(parse_type("BOOLEAN"), mixed % np.uint64(3) == 0, some_null),
        "split": Vector(parse_type("DOUBLE"), ends),
        "words": Vector(STRING, (mixed % np.uint64(4)).astype(np.int32), some_null, Pool.of(words)),
        "prose": Vector(STRING, (at % (rows // 2)).astype(np.int32), None, Pool.of(prose)),
        "notes": Vector(STRING, at.astype(np.int32), None, Pool.of([b"note %d" % i for i in range(rows)])),
        "blob": Vector(parse_type("BLOB"), at.astype(np.int32) // 2, some_null, Pool.of(pieces)),
        "vector": Vector(parse_type("VECTOR(2)"), np.stack([smooth, smooth * 2], 1).astype(np.float32)),
    }
    columns = [Column("time", TIMESTAMP_NS, Role.TIME, 1), Column("host", STRING, Role.TAG, 2)]
    columns += [Column(name, vector.type, Role.FIELD, 10 + i) for i, (name, vector) in enumerate(given.items())]
    given["time"] = Vector(TIMESTAMP_NS, 1_700_000_000_000_000_000 + at * 5_000_000_000)
    given[SEQUENCE_NAME] = Vector(INT64, np.ones(rows, np.int64))
    return FileCase(
        Schema(tuple(columns)), {"host": text_vector([b"a"])}, np.array([0, rows]), given, rows_per_page, np.array([0], np.int32)
    )  # fmt: skip
