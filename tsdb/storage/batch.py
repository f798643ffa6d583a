"""The rows of one commit as they arrive: columns in pieces, checked against the table before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import Column, Schema
from tsdb_format.types import Kind
from tsdb_format.vector import Pool, Vector, concat

#: Rows of one commit: positions are int32.
ROWS_MAX = 2**31 - 1

Pieces = Sequence[Vector]


@dataclass(slots=True)
class RowBatch:
    """Columns by name, each a sequence of vectors end to end. Columns that the batch does not give are absent."""

    schema: Schema
    row_count: int
    columns: dict[str, Pieces]

    def whole(self, name: str) -> Vector:
        """A column as one vector."""
        return concat(self.columns[name])

    def given(self, columns: Sequence[Column]) -> dict[str, Vector]:
        """Those of the columns that the batch gives, each as one vector."""
        return {column.name: self.whole(column.name) for column in columns if column.name in self.columns}


def check_batch(schema: Schema, columns: Mapping[str, Vector | Pieces] | RowBatch) -> RowBatch:
    """A batch of vectors that fit the table; raises InvalidInput or NotFound naming the column, and the row where there is one.

    A batch that was made for this schema is as it should be.
    """
    if isinstance(columns, RowBatch):
        if columns.schema is schema:
            return columns
        columns = columns.columns
    checked: dict[str, Pieces] = {}
    counts: dict[str, int] = {}
    for name, given in columns.items():
        if name not in schema:
            raise NotFound(f"the table has no column {name!r}; it has: {', '.join(schema.by_name)}")
        pieces = (given,) if isinstance(given, Vector) else tuple(given)
        checked[name] = tuple(_checked(schema.by_name[name], piece) for piece in pieces)
        counts[name] = sum(len(piece) for piece in pieces)
    if schema.time.name not in checked:
        raise InvalidInput(f"the rows need values for the TIME column {schema.time.name!r}")
    count = counts[schema.time.name]
    for name, found in counts.items():
        if found != count:
            raise InvalidInput(f"column {name!r} has {found:,} values where {schema.time.name!r} has {count:,}")
    if count > ROWS_MAX:
        raise InvalidInput(f"one write takes at most {ROWS_MAX:,} rows, not {count:,}")
    _require_times(schema.time.name, checked[schema.time.name])
    return RowBatch(schema, count, checked)


def _require_times(name: str, pieces: Pieces) -> None:
    first = 0
    for piece in pieces:
        if piece.validity is not None and not piece.validity.all():
            raise InvalidInput(f"column {name!r}, row {first + int(np.argmin(piece.validity)):,}: the time of a row cannot be NULL")
        first += len(piece)


def _checked(column: Column, vector: Vector) -> Vector:
    """The vector with contiguous arrays, if it is of exactly the column's type and sound; kernels rely on it."""
    if vector.type != column.type:
        raise InvalidInput(f"column {column.name!r} is {column.type}, not {vector.type}")
    values = vector.values
    shape = (len(vector), column.type.width) if column.type.kind is Kind.VECTOR else (len(vector),)
    values = np.ascontiguousarray(values)
    if values.dtype != column.type.physical or values.shape != shape:
        raise InvalidInput(f"column {column.name!r}: {column.type} travels as {column.type.physical}{list(shape)}")
    validity = vector.validity
    if validity is not None:
        validity = np.ascontiguousarray(validity)
        if validity.dtype != np.bool_ or len(validity) != len(values):
            raise InvalidInput(f"column {column.name!r}: validity must be {len(values):,} booleans")
        if validity.all():
            validity = None
    if not column.type.is_pooled:
        return Vector(column.type, values, validity)
    pool = vector.pool if vector.pool is not None and len(vector.pool) else Pool.of([b""])
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= len(pool)):
        wild = (values < 0) | (values >= len(pool))
        if validity is None or (wild & validity).any():
            row = int(np.argmax(wild if validity is None else wild & validity))
            raise InvalidInput(f"column {column.name!r}, row {row:,}: no string has the code {int(values[row])}")
        values = np.where(wild, np.int32(0), values)
    return Vector(column.type, values, validity, pool)
