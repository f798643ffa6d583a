"""Encode one chunk: the rows of at most 64 pages of one column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from tsdb_format.encoding.page_set import Encoding
from tsdb_format.types import Kind
from tsdb_format.vector import ByteArray, IntArray, Vector


@dataclass(slots=True)
class EncodedChunk:
    """A chunk's bytes and where its pages are. Offsets count from the start of ``data``; the dictionary, if any, comes first."""

    data: ByteArray
    page_offset: IntArray
    page_bytes: IntArray
    page_checksum: NDArray[np.uint64]
    page_encoding: ByteArray
    page_compression: ByteArray
    dict_offset: int
    dict_bytes: int
    dict_checksum: int


def _values(vector: Vector) -> bytes:
    if vector.pool is not None:
        texts = [vector.pool.bytes_at(int(code)) for code in np.where(vector.valid(), vector.values, -1)]
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        return ends.tobytes() + b"".join(texts)
    if vector.type.kind is Kind.BOOLEAN:
        return np.packbits(vector.values, bitorder="little").tobytes()
    return vector.values.tobytes()


def _page(vector: Vector) -> tuple[Encoding, bytes]:
    valid = vector.valid()
    if not valid.any():
        return Encoding.CONSTANT, b""
    source = np.maximum.accumulate(np.where(valid, np.arange(len(vector)), -1))
    source[source < 0] = np.flatnonzero(valid)[0]
    bits = b""
    if not valid.all():
        bits = np.packbits(valid, bitorder="little").tobytes()
        bits += bytes(-len(bits) % 8)
    filled = Vector(vector.type, vector.values[source], None, vector.pool)
    if vector.pool is None and vector.type.kind not in (Kind.VECTOR, Kind.BOOLEAN):
        raw = filled.values.view(f"u{filled.values.itemsize}")
        if (raw == raw[0]).all():
            return Encoding.CONSTANT, bits + raw[:1].tobytes()
    return Encoding.BITMAP if vector.type.kind is Kind.BOOLEAN else Encoding.PLAIN, bits + _values(filled)


def encode_chunk(vector: Vector, rows_per_page: int) -> EncodedChunk:
    """Encode ``vector``, one chunk's rows, into pages of ``rows_per_page``; the last page may be short."""
    starts = range(0, len(vector), rows_per_page)
    count = len(starts)
    chunk = EncodedChunk(
        np.empty(0, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.uint64),
        np.zeros(count, np.uint8), np.zeros(count, np.uint8), 0, 0, 0,
    )  # fmt: skip
    out = bytearray()
    for page, start in enumerate(starts):
        encoding, body = _page(vector.take(slice(start, start + rows_per_page)))
        chunk.page_offset[page] = len(out)
        chunk.page_bytes[page] = len(body)
        chunk.page_checksum[page] = xxhash.xxh3_64_intdigest(body)
        chunk.page_encoding[page] = encoding
        out += body + bytes(-len(body) % 8)
    chunk.data = np.frombuffer(out, np.uint8)
    return chunk
