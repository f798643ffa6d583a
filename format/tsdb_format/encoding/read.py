"""Read row ranges of a stored column."""

from __future__ import annotations

import numpy as np
import xxhash

from tsdb_format.encoding.page_set import Encoding, PageSet
from tsdb_format.errors import Corruption, UnsupportedFormat
from tsdb_format.types import Kind
from tsdb_format.vector import IntArray, Pool, Vector, concat


def _decode(pages: PageSet, page: int) -> Vector:
    kind = pages.type.kind
    rows = min(pages.rows_per_page, pages.row_count - page * pages.rows_per_page)
    start, size = int(pages.page_offset[page]), int(pages.page_bytes[page])
    raw = pages.buffer[start : start + size]
    if not pages.verified[page]:
        if xxhash.xxh3_64_intdigest(raw.tobytes()) != int(pages.page_checksum[page]):
            raise Corruption("page checksum does not match", path=pages.path, offset=start)
        pages.verified[page] = 1
    nulls = int(pages.page_null_count[page])
    width = max(pages.type.width, 1)
    shape = (rows, width) if kind is Kind.VECTOR else (rows,)
    if nulls == rows:
        pool = Pool.of([b""]) if pages.type.is_pooled else None
        return Vector(pages.type, np.zeros(shape, pages.type.physical), np.zeros(rows, np.bool_), pool)
    validity, at = None, 0
    if nulls:
        validity = np.unpackbits(raw[: (rows + 7) // 8], bitorder="little", count=rows).view(np.bool_)
        at = (rows + 63) // 64 * 8
    try:
        values, pool = _decode_values(pages, int(pages.page_encoding[page]), raw[at:].tobytes(), rows)
    except ValueError as error:
        raise Corruption("page body is malformed", path=pages.path, offset=start) from error
    return Vector(pages.type, values.reshape(shape), validity, pool)


def _decode_values(pages: PageSet, encoding: int, body: bytes, rows: int) -> tuple[np.ndarray, Pool | None]:
    physical = pages.type.physical
    if encoding == Encoding.BITMAP:
        return np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little", count=rows).view(np.bool_), None
    if encoding == Encoding.CONSTANT:
        return np.repeat(np.frombuffer(body, physical, 1), rows), None
    if encoding != Encoding.PLAIN:
        raise UnsupportedFormat(f"unknown encoding {encoding}")
    if pages.type.is_pooled:
        offsets = np.zeros(rows + 1, np.int64)
        offsets[1:] = np.frombuffer(body, np.int64, rows)
        return np.arange(rows, dtype=np.int32), Pool(offsets, np.frombuffer(bytearray(body), np.uint8, offset=rows * 8))
    return np.frombuffer(bytearray(body), physical), None


def read_pages(pages: PageSet, starts: IntArray, stops: IntArray) -> Vector:
    """The rows of the given ranges, end to end.

    ``starts`` and ``stops`` are int64 row numbers of the file: ascending, non-overlapping, none empty. Raises Corruption.
    """
    size = pages.rows_per_page
    parts = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        for page in range(start // size, (stop - 1) // size + 1):
            base = page * size
            parts.append(_decode(pages, page).take(slice(max(start - base, 0), stop - base)))
    if parts:
        return concat(parts)
    shape = (0, pages.type.width) if pages.type.kind is Kind.VECTOR else (0,)
    return Vector(pages.type, np.zeros(shape, pages.type.physical), None, Pool.of([]) if pages.type.is_pooled else None)
