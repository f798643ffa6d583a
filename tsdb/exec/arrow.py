"""The Arrow border: vectors and batches as arrays and record batches. Imported only where somebody asks for Arrow, or DuckDB runs.

Strings go to DuckDB as dictionaries — a host name is then compared once, not once per row — and to users as plain strings, the
types that DuckDB gives them. Numbers share their memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tsdb.exec.batch import Batch
from tsdb_format.parallel import ordered_map
from tsdb_format.pool import repeat_strings, take_strings
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import BoolArray, Pool, Vector

#: A column that stands for rows without columns, as ``count(*)`` asks for them.
ROWS_COLUMN = "__tsdb_rows"
#: Rows of one string, one after the other on average, from which copying runs is faster than looking up each row's.
_RUN_ROWS_MIN = 8
_PLAIN = {
    Kind.BOOLEAN: pa.bool_(), Kind.INT32: pa.int32(), Kind.INT64: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(), Kind.DATE: pa.date32(), Kind.TIMESTAMP_S: pa.timestamp("s"), Kind.TIMESTAMP_MS: pa.timestamp("ms"),
    Kind.TIMESTAMP_US: pa.timestamp("us"), Kind.TIMESTAMP_NS: pa.timestamp("ns"), Kind.BLOB: pa.binary(),
    Kind.HUGEINT: pa.decimal128(38, 0),
}  # fmt: skip


def arrow_type(kind: ColumnType, *, dictionaries: bool = False) -> Any:
    """The Arrow type of a column."""
    if kind.kind is Kind.VECTOR:
        return pa.list_(pa.float32(), kind.width)
    if dictionaries and kind.kind is Kind.STRING:
        return pa.dictionary(pa.int32(), pa.string())
    return _PLAIN[kind.kind]


def arrow_schema(columns: Iterable[tuple[str, ColumnType]], *, dictionaries: bool = False) -> Any:
    """The Arrow schema of named columns; one without columns gets ``ROWS_COLUMN``."""
    fields = [pa.field(name, arrow_type(kind, dictionaries=dictionaries)) for name, kind in columns]
    return pa.schema(fields or [pa.field(ROWS_COLUMN, pa.bool_())])


class Converter:
    """Turns batches of one schema into record batches, keeping the last dictionary of each column for the next batch."""

    def __init__(
        self, columns: Sequence[tuple[str, ColumnType]], keys: Sequence[str] | None = None, *, dictionaries: bool = False
    ) -> None:
        self.schema = arrow_schema(columns, dictionaries=dictionaries)
        self._keys = list(keys) if keys is not None else [name for name, _ in columns]
        self._dictionaries = dictionaries
        self._pools: dict[str, tuple[Pool, Any]] = {}

    def record_batch(self, batch: Batch) -> Any:
        """One batch; its columns are taken by key, in the order of the schema."""
        if not self._keys:
            return pa.record_batch([_fixed_array(pa.bool_(), np.zeros(batch.row_count, np.bool_), None)], schema=self.schema)
        return pa.record_batch([self._array(key, batch.vectors[key]) for key in self._keys], schema=self.schema)

    def reader(self, batches: Iterable[Batch]) -> Any:
        """A record batch reader that pulls from ``batches``."""
        return pa.RecordBatchReader.from_batches(self.schema, (self.record_batch(batch) for batch in batches))

    def table(self, batches: Iterable[Batch], threads: int) -> Any:
        """All batches as a table; several of them are converted at once."""
        return pa.Table.from_batches(list(ordered_map(self.record_batch, batches, threads, first_alone=True)), self.schema)

    def _array(self, key: str, vector: Vector) -> Any:
        if vector.type.kind is Kind.HUGEINT:
            return _wide_array(vector.to_physical_list())
        if vector.pool is None:
            return _plain_array(vector)
        if not (self._dictionaries and vector.type.kind is Kind.STRING) and _is_plain(vector, vector.pool):
            return _whole_pool_array(vector, vector.pool)
        if vector.type.kind is Kind.STRING and not self._dictionaries and _is_repetitive(vector):
            found = repeat_strings(vector.pool, vector.values)
            if found is not None:
                return pa.Array.from_buffers(_PLAIN[Kind.STRING], len(vector), [None, *map(pa.py_buffer, found)])
        codes, values = self._pooled(key, vector)
        made = pa.DictionaryArray.from_arrays(_fixed_array(pa.int32(), codes, vector.validity), values, safe=False)
        return made if self._dictionaries and vector.type.kind is Kind.STRING else made.dictionary_decode()

    def _pooled(self, key: str, vector: Vector) -> tuple[Any, Any]:
        """Codes and dictionary; a pool with more strings than the batch has rows is cut down to those that occur."""
        pool = vector.pool
        assert pool is not None
        codes = vector.values if vector.validity is None else np.where(vector.validity, vector.values, np.int32(0))
        held = self._pools.get(key)
        if held is not None and held[0] is pool:
            return codes, held[1]
        if len(pool) > len(codes):
            used, codes = np.unique(codes, return_inverse=True)
            return codes.astype(np.int32), _pool_array(take_strings(pool, used), vector.type.kind)
        values = _pool_array(pool, vector.type.kind)
        self._pools[key] = (pool, values)
        return codes, values


def _is_repetitive(vector: Vector) -> bool:
    """Whether rows come in runs of one string, as tags do, without a NULL."""
    codes = vector.values
    return vector.validity is None and int(np.count_nonzero(codes[1:] != codes[:-1])) * _RUN_ROWS_MIN < len(codes)


def _is_plain(vector: Vector, pool: Pool) -> bool:
    """Whether the rows' strings are those of the pool, in its order, and all of them fit into a plain array."""
    return len(pool) == len(vector) > 0 and len(pool.data) < 2**31 and bool((vector.values == np.arange(len(pool))).all())


def _whole_pool_array(vector: Vector, pool: Pool) -> Any:
    """A pool's strings or blobs as an array, without a copy of them."""
    offsets, data = pa.py_buffer(pool.offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(pool.data))
    return pa.Array.from_buffers(_PLAIN[vector.type.kind], len(vector), [_bitmap(vector.validity), offsets, data])


def _pool_array(pool: Pool, kind: Kind) -> Any:
    """The pool's strings as an Arrow array; an empty pool still has a string for the codes of NULLs."""
    if len(pool) == 0:
        return pa.Array.from_buffers(_PLAIN[kind], 1, [None, pa.py_buffer(np.zeros(2, np.int32)), pa.py_buffer(b"")])
    base = int(pool.offsets[0])
    size = int(pool.offsets[-1]) - base
    data = pa.py_buffer(np.ascontiguousarray(pool.data[base : base + size]))
    if size < 2**31:
        offsets = pa.py_buffer((pool.offsets - base).astype(np.int32))
        return pa.Array.from_buffers(_PLAIN[kind], len(pool), [None, offsets, data])
    large = pa.large_string() if kind is Kind.STRING else pa.large_binary()
    return pa.Array.from_buffers(large, len(pool), [None, pa.py_buffer(pool.offsets - base), data])


def _plain_array(vector: Vector) -> Any:
    if vector.type.kind is Kind.VECTOR:
        values = np.ascontiguousarray(vector.values).reshape(-1)
        flat = _fixed_array(pa.float32(), values, None)
        return pa.Array.from_buffers(arrow_type(vector.type), len(vector), [_bitmap(vector.validity)], children=[flat])
    return _fixed_array(_PLAIN[vector.type.kind], vector.values, vector.validity)


def _fixed_array(kind: Any, values: NDArray[Any], validity: BoolArray | None) -> Any:
    """Values of a fixed width as an array that shares their memory; ``pa.array`` would import pandas, to ask if they are its."""
    held = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [_bitmap(validity), pa.py_buffer(held)])


def _wide_array(values: list[int | None]) -> Any:
    """Integers of up to 38 digits; raises ArrowInvalid for larger ones."""
    kind = _PLAIN[Kind.HUGEINT]
    numbers = [value or 0 for value in values]
    if max(map(abs, numbers), default=0) >= 10**38:
        return pa.array(values, kind)
    words = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    validity = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return pa.Array.from_buffers(kind, len(values), [_bitmap(validity), pa.py_buffer(words)])


def _bitmap(validity: BoolArray | None) -> Any:
    return None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little"))


def vectors_of(batches: Iterable[Any], columns: Sequence[tuple[str, ColumnType]]) -> Iterator[Batch]:
    """Record batches of exactly our types, by position, as batches; what DuckDB gives back for a query that was cast to them."""
    for batch in batches:
        vectors = {name: vector_of(batch.column(at), kind) for at, (name, kind) in enumerate(columns)}
        yield Batch(vectors, batch.num_rows)


def vector_of(array: Any, kind: ColumnType) -> Vector:
    """One Arrow array of the type that ``arrow_type`` gives, or its dictionary form."""
    validity = None
    if array.null_count:
        validity = np.asarray(array.is_valid())
    if kind.is_pooled:
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        indices = encoded.indices.fill_null(0) if encoded.indices.null_count else encoded.indices
        texts = encoded.dictionary.cast(pa.large_binary())
        pool = _pool_of(texts)
        return Vector(kind, np.asarray(indices).astype(np.int32), validity, pool)
    if kind.kind is Kind.VECTOR:
        flat = np.asarray(array.fill_null([0.0] * kind.width).flatten() if array.null_count else array.flatten())
        return Vector(kind, flat.astype(np.float32).reshape(len(array), kind.width), validity)
    if kind.kind is Kind.BOOLEAN:
        return Vector(kind, np.asarray(array.fill_null(False)).astype(np.bool_), validity)
    if kind.kind is Kind.HUGEINT:
        return Vector(kind, np.array([int(value or 0) for value in array.to_pylist()], object), validity)
    plain = array.view(pa.int64()) if kind.is_time else array.view(pa.int32()) if kind.kind is Kind.DATE else array
    filled = plain.fill_null(0) if plain.null_count else plain
    return Vector(kind, np.array(filled, dtype=kind.physical), validity)


def _pool_of(texts: Any) -> Pool:
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1] if len(texts) else np.zeros(1, np.int64)
    base = int(ends[0])
    size = int(ends[-1]) - base
    raw = np.frombuffer(data, np.uint8)[base : base + size].copy() if size else np.empty(0, np.uint8)
    return Pool((ends - base).astype(np.int64), raw)
