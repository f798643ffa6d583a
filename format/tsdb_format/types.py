"""Column types: what a value means, and the numpy dtype in which its column travels.

A type is a small frozen value. Logical names are those of SQL (DuckDB's spelling); the physical dtype is what kernels see.
STRING and BLOB travel as int32 codes into a ``Pool`` (see ``vector``), VECTOR(n) as a float32 matrix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tsdb_format.errors import InvalidInput


class Kind(IntEnum):
    """Type ids as stored in files; a closed registry, never renumbered. HUGEINT is what sums are, and is stored nowhere."""

    BOOLEAN = 1
    INT32 = 2
    INT64 = 3
    FLOAT = 4
    DOUBLE = 5
    STRING = 6
    DATE = 7
    TIMESTAMP_S = 8
    TIMESTAMP_MS = 9
    TIMESTAMP_US = 10
    TIMESTAMP_NS = 11
    BLOB = 12
    VECTOR = 13
    HUGEINT = 64

    __hash__ = int.__hash__  # an enumeration's own is Python's, and types are looked up for every column of every query


class Role(IntEnum):
    """What a column is for, as stored in files."""

    TIME = 1
    TAG = 2
    FIELD = 3
    ATTRIBUTE = 4
    SEQUENCE = 5  # the hidden column _sn


_PHYSICAL = {
    Kind.BOOLEAN: np.dtype(np.bool_), Kind.INT32: np.dtype(np.int32), Kind.INT64: np.dtype(np.int64),
    Kind.FLOAT: np.dtype(np.float32), Kind.DOUBLE: np.dtype(np.float64), Kind.STRING: np.dtype(np.int32),
    Kind.DATE: np.dtype(np.int32), Kind.TIMESTAMP_S: np.dtype(np.int64), Kind.TIMESTAMP_MS: np.dtype(np.int64),
    Kind.TIMESTAMP_US: np.dtype(np.int64), Kind.TIMESTAMP_NS: np.dtype(np.int64), Kind.BLOB: np.dtype(np.int32),
    Kind.VECTOR: np.dtype(np.float32), Kind.HUGEINT: np.dtype(object),
}  # fmt: skip
_NUMPY_UNITS = {Kind.DATE: "D", Kind.TIMESTAMP_S: "s", Kind.TIMESTAMP_MS: "ms", Kind.TIMESTAMP_US: "us", Kind.TIMESTAMP_NS: "ns"}
_UNITS_PER_SECOND = {Kind.TIMESTAMP_S: 1, Kind.TIMESTAMP_MS: 10**3, Kind.TIMESTAMP_US: 10**6, Kind.TIMESTAMP_NS: 10**9}
_ALIASES = {
    "BOOL": "BOOLEAN", "INTEGER": "INT32", "INT": "INT32", "BIGINT": "INT64", "LONG": "INT64", "REAL": "FLOAT",
    "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "VARCHAR": "STRING", "TEXT": "STRING", "TIMESTAMP": "TIMESTAMP_US", "BYTEA": "BLOB",
}  # fmt: skip
#: Kinds that a column of a table can have.
STORED_KINDS = frozenset(Kind) - {Kind.HUGEINT}
TIME_KINDS = frozenset(_UNITS_PER_SECOND)
TAG_KINDS = frozenset({Kind.STRING, Kind.INT32, Kind.INT64, Kind.BOOLEAN})
POOLED_KINDS = frozenset({Kind.STRING, Kind.BLOB})
FLOAT_KINDS = frozenset({Kind.FLOAT, Kind.DOUBLE})


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A kind and, for VECTOR, its number of float32 elements (0 otherwise)."""

    kind: Kind
    width: int = 0

    def __hash__(self) -> int:
        return self.kind << 16 | self.width

    def __str__(self) -> str:
        return f"VECTOR({self.width})" if self.kind is Kind.VECTOR else self.kind.name

    @property
    def physical(self) -> np.dtype[np.generic]:
        """The dtype of the values array."""
        return _PHYSICAL[self.kind]

    @property
    def is_time(self) -> bool:
        """Whether the type is one of the four timestamps."""
        return self.kind in TIME_KINDS

    @property
    def is_pooled(self) -> bool:
        """Whether values are codes into a pool of byte strings (STRING, BLOB)."""
        return self.kind in POOLED_KINDS

    @property
    def is_float(self) -> bool:
        """Whether values are FLOAT or DOUBLE."""
        return self.kind in FLOAT_KINDS

    @property
    def is_integer_like(self) -> bool:
        """Whether values are integers, dates or timestamps."""
        return self.physical.kind == "i" and not self.is_pooled

    @property
    def units_per_second(self) -> int:
        """Ticks per second of a timestamp type."""
        return _UNITS_PER_SECOND[self.kind]

    @property
    def numpy_unit(self) -> str | None:
        """numpy's name of the unit of a date or timestamp; None for other types."""
        return _NUMPY_UNITS.get(self.kind)


def parse_type(text: str) -> ColumnType:
    """Read the name of a column's type as SQL or ``str(ColumnType)`` has it; raises InvalidInput for one that no column has."""
    name = text.strip().upper()
    vector = re.fullmatch(r"VECTOR\s*\(\s*(\d+)\s*\)", name) or re.fullmatch(r"FLOAT\s*\[\s*(\d+)\s*\]", name)
    if vector:
        width = int(vector[1])
        if not 1 <= width <= 65_535:
            raise InvalidInput(f"VECTOR takes 1 to 65,535 elements, not {width}")
        return ColumnType(Kind.VECTOR, width)
    name = _ALIASES.get(name, name)
    if name in Kind.__members__ and name != "VECTOR" and Kind[name] in STORED_KINDS:
        return ColumnType(Kind[name])
    if name == "SYMBOL":
        raise InvalidInput(f"unknown column type {text!r}: write STRING, and TAG behind it where it names a device")
    known = ", ".join(kind.name for kind in Kind if kind in STORED_KINDS and kind is not Kind.VECTOR)
    raise InvalidInput(f"unknown column type {text!r}; known: {known}, VECTOR(n)")


BOOLEAN = ColumnType(Kind.BOOLEAN)
INT32 = ColumnType(Kind.INT32)
INT64 = ColumnType(Kind.INT64)
FLOAT = ColumnType(Kind.FLOAT)
DOUBLE = ColumnType(Kind.DOUBLE)
STRING = ColumnType(Kind.STRING)
DATE = ColumnType(Kind.DATE)
TIMESTAMP_S = ColumnType(Kind.TIMESTAMP_S)
TIMESTAMP_MS = ColumnType(Kind.TIMESTAMP_MS)
TIMESTAMP_US = ColumnType(Kind.TIMESTAMP_US)
TIMESTAMP_NS = ColumnType(Kind.TIMESTAMP_NS)
BLOB = ColumnType(Kind.BLOB)
#: Whole numbers of up to 128 bits, as an array of Python's: an aggregate's result, never a column of a table.
HUGEINT = ColumnType(Kind.HUGEINT)
