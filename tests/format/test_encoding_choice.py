"""Which encoding a chunk gets, and how small it becomes."""

from __future__ import annotations

import numpy as np
import pytest

from support.page_case import make_vector
from tsdb_cli.fleet import PERCENTAGES, Fleet
from tsdb_format.encoding import COMPRESSION_ZSTD, EncodedChunk, Encoding, encode_chunk
from tsdb_format.types import BLOB, BOOLEAN, DOUBLE, FLOAT, INT32, INT64, STRING, TIMESTAMP_NS, ColumnType, Kind
from tsdb_format.vector import Pool, Vector

ROWS = 20_000
RNG = np.random.default_rng(5)


def chosen(chunk: EncodedChunk) -> set[Encoding]:
    return {Encoding(number) for number in chunk.page_encoding.tolist()}


HOSTS = Pool.of([b"host-%d" % i for i in range(12)])
CALLS = Pool.of([b"call %d done" % i for i in range(ROWS)])
CASES = [
    (Vector(INT64, np.full(ROWS, 7)), Encoding.CONSTANT, 0.01),
    (Vector(INT64, RNG.integers(0, 1000, ROWS) * 1000 + 5), Encoding.FOR, 1.4),
    (Vector(INT64, np.cumsum(RNG.integers(0, 100, ROWS))), Encoding.DELTA, 1.0),
    (Vector(INT64, np.repeat(RNG.integers(0, 2**50, ROWS // 500), 500)), Encoding.RLE, 0.05),
    (Vector(INT64, RNG.integers(-(2**63), 2**63 - 1, ROWS)), Encoding.PLAIN, 8.01),
    (Vector(INT32, RNG.integers(-(2**31), 2**31, ROWS).astype(np.int32)), Encoding.PLAIN_4, 4.01),
    (Vector(TIMESTAMP_NS, 10**18 + np.arange(ROWS) * 5_000_000_000), Encoding.DELTA, 0.05),
    (Vector(TIMESTAMP_NS, 10**18 + np.arange(ROWS) % 100 * 5_000_000_000), Encoding.DELTA, 0.15),
    (Vector(DOUBLE, np.round(np.cumsum(RNG.normal(0, 1, ROWS)), 2)), Encoding.ALP, 1.7),
    (Vector(DOUBLE, np.where(RNG.random(ROWS) < 0.03, np.nan, np.round(RNG.random(ROWS) * 100, 1))), Encoding.ALP, 1.8),
    (Vector(DOUBLE, RNG.random(ROWS).astype(np.float32).astype(np.float64)), Encoding.FOR, 4.3),
    (Vector(DOUBLE, np.exp(RNG.normal(0, 40, ROWS))), Encoding.PLAIN, 8.01),
    (Vector(FLOAT, np.round(RNG.random(ROWS) * 100, 1).astype(np.float32)), Encoding.ALP, 1.4),
    (Vector(BOOLEAN, RNG.random(ROWS) < 0.5), Encoding.BITMAP, 0.13),
    (Vector(BOOLEAN, np.arange(ROWS) > 9_000), Encoding.RLE, 0.01),
    (Vector(STRING, RNG.integers(0, 12, ROWS).astype(np.int32), None, HOSTS), Encoding.DICTIONARY, 0.6),
    (Vector(STRING, np.arange(ROWS, dtype=np.int32), None, CALLS), Encoding.PLAIN, 4.0),
    (Vector(BLOB, np.arange(ROWS, dtype=np.int32), None, Pool.of([RNG.bytes(12) for _ in range(ROWS)])), Encoding.PLAIN, 12.1),
]  # fmt: skip


@pytest.mark.parametrize(("vector", "encoding", "bytes_max"), CASES, ids=lambda value: str(getattr(value, "type", value)))
def test_choice_and_size(vector: Vector, encoding: Encoding, bytes_max: float) -> None:
    chunk = encode_chunk(vector, 8192)
    assert encoding in chosen(chunk)
    assert chosen(chunk) <= {encoding, Encoding.CONSTANT}
    assert len(chunk.data) / len(vector) <= bytes_max


def test_compression_is_used_where_it_pays() -> None:
    text = Vector(STRING, np.arange(5000, dtype=np.int32), None, Pool.of([b"the quick brown fox %d" % i for i in range(5000)]))
    assert (encode_chunk(text, 1024).page_compression == COMPRESSION_ZSTD).all()
    noise = Vector(BLOB, np.arange(500, dtype=np.int32), None, Pool.of([RNG.bytes(40) for _ in range(500)]))
    assert not encode_chunk(noise, 1024).page_compression.any()
    smooth = np.repeat(RNG.normal(0, 1, (300, 1)), 16, 1).astype(np.float32)
    vector = encode_chunk(Vector(ColumnType(Kind.VECTOR, 16), smooth), 1024)
    assert (vector.page_compression == COMPRESSION_ZSTD).all()
    assert len(vector.data) < smooth.nbytes / 3


@pytest.mark.parametrize("devices", [10, 1000])
def test_the_fleet_is_small(devices: int) -> None:
    table = next(iter(Fleet(devices, 100_000 // devices).tables()))
    total = 0
    for name in ("time", *PERCENTAGES, "packets"):
        array = table.column(name).combine_chunks().to_numpy(zero_copy_only=False)
        kind = DOUBLE if array.dtype == np.float64 else INT64
        values = array if kind is DOUBLE else array.astype(np.int64)
        total += len(encode_chunk(Vector(kind, values), 8192).data)
    assert total / len(table) < 14


def test_duplicates_in_the_pool_become_one_entry() -> None:
    texts = [b"left", b"right"] * 500
    chunk = encode_chunk(Vector(STRING, np.arange(1000, dtype=np.int32), None, Pool.of(texts)), 1024)
    assert chosen(chunk) == {Encoding.DICTIONARY}
    assert len(chunk.data) < 300


def test_encoding_is_deterministic() -> None:
    for kind in (INT64, DOUBLE, STRING):
        vector = make_vector(kind, "few" if kind is STRING else "walk" if kind is DOUBLE else "counter", 3000, 0.1, 1)
        first, second = encode_chunk(vector, 1024), encode_chunk(vector, 1024)
        assert first.data.tobytes() == second.data.tobytes()
        assert first.page_checksum.tolist() == second.page_checksum.tolist()
