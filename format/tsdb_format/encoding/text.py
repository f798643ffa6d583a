"""Encode and read strings and blobs: a dictionary per chunk where values repeat, plain cells otherwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsdb_format.encoding.chunk import EncodedChunk, room
from tsdb_format.encoding.compression import compress_pages, open_ranges
from tsdb_format.encoding.dictionary import read_dictionary, write_dictionary
from tsdb_format.encoding.kept import KEPT
from tsdb_format.encoding.number import Choice, Numbers, choose, write_numbers
from tsdb_format.encoding.page_set import JOINED_SLOT, PAGES_PER_CHUNK, Encoding, PageSet, WordArray
from tsdb_format.encoding.read import read_numbers
from tsdb_format.errors import Corruption, InvalidInput
from tsdb_format.kernels import text as kernels
from tsdb_format.pool import copy_strings, take_strings
from tsdb_format.types import Kind
from tsdb_format.vector import BoolArray, IntArray, Pool, Vector, concat, concat_pools

_NO_BOOLS = np.empty(0, np.bool_)
_NO_DOUBLES = np.empty(0, np.float64)
_NO_KINDS = np.empty(0, np.uint8)
_NO_STRING = Pool(np.zeros(2, np.int64), np.empty(0, np.uint8))
_STRING_BYTES_MAX = (1 << 31) - 1
#: A dictionary must take no more than this share of the plain cells, and have no more strings than this share of the rows.
_DICTIONARY_SHARE_MAX = 0.7
_DISTINCT_SHARE_MAX = 0.5
_COMPRESSED_SHARE_MAX = 0.85


def encode_text(vector: Vector, rows_per_page: int) -> EncodedChunk:
    """Encode a chunk of a STRING or BLOB column."""
    pool = vector.pool or _NO_STRING
    validity = _NO_BOOLS if vector.validity is None else np.require(vector.validity, np.bool_, "C")
    codes = np.require(vector.values, np.int32, ["C", "A"])
    valid_codes = codes if vector.validity is None else codes[vector.validity]
    offsets = np.require(pool.offsets, np.int64, ["C", "A"])
    data = np.require(pool.data, np.uint8, ["C", "A"])
    sizes = offsets[valid_codes.astype(np.int64) + 1] - offsets[valid_codes]
    if len(sizes) and int(sizes.max()) > _STRING_BYTES_MAX:
        raise InvalidInput("a string or blob takes at most 2 GiB")
    plain = Pool(offsets, data, None if pool.kinds is None else np.require(pool.kinds, np.uint8, ["C", "A"]))
    total = int(sizes.sum())
    if vector.type.kind is Kind.STRING and len(sizes):
        found = _find_distinct(plain, codes, validity, valid_codes)
        if found is not None:
            numbers, dictionary = found
            code_bits = max(len(dictionary) - 1, 1).bit_length()
            encoded = len(dictionary.data) + 4 * len(dictionary) + code_bits * len(sizes) // 8
            if encoded < _DICTIONARY_SHARE_MAX * (total + len(sizes)) or len(dictionary) == 1:
                return _write_codes(numbers, validity, rows_per_page, dictionary)
    return _write_plain(plain, codes, validity, rows_per_page, total)


def _find_distinct(
    pool: Pool, codes: NDArray[np.int32], validity: BoolArray, valid_codes: NDArray[np.int32]
) -> tuple[WordArray, Pool] | None:
    """Each row's number in a dictionary, and the dictionary; None where it would have too many strings."""
    lowest, highest = int(valid_codes.min()), int(valid_codes.max())
    limit = max(int(_DISTINCT_SHARE_MAX * len(valid_codes)), 1)
    renamed = np.full(highest - lowest + 1, -1, np.int32)
    table = np.full(1 << (2 * limit).bit_length(), -1, np.int32)
    numbers = np.empty(len(codes), np.uint64)
    first = np.empty(limit, np.int64)
    count = kernels.distinct(pool.offsets, pool.data, codes, validity, lowest, limit, renamed, table, numbers, first)
    if count < 0:
        return None
    return numbers, take_strings(pool, first[:count])


def _write_codes(words: WordArray, validity: BoolArray, rows_per_page: int, dictionary: Pool) -> EncodedChunk:
    numbers = Numbers(Kind.STRING, words, _NO_DOUBLES)
    choice = choose(numbers, rows_per_page)
    if choice.encoding is not Encoding.RLE:
        choice = Choice(choice.cost, Encoding.DICTIONARY)
    chunk = write_numbers(numbers, validity, rows_per_page, choice)
    chunk.put_first(*write_dictionary(dictionary))
    return chunk


def _write_plain(pool: Pool, codes: NDArray[np.int32], validity: BoolArray, rows_per_page: int, total: int) -> EncodedChunk:
    rows = len(codes)
    chunk = EncodedChunk.empty(-(-rows // rows_per_page))
    kinds = _NO_KINDS if pool.kinds is None else pool.kinds
    out = room(rows, rows_per_page, total // 8 + 8 * len(chunk.page_offset) + (rows // 8 if len(kinds) else 0))
    size = kernels.encode_text(
        pool.offsets, pool.data, kinds, codes, validity, rows_per_page, out, out.view(np.uint8),
        chunk.page_offset, chunk.page_bytes, chunk.page_checksum, chunk.page_encoding,
    )  # fmt: skip
    chunk.data = out[:size].view(np.uint8)
    compress_pages(chunk, _COMPRESSED_SHARE_MAX)
    return chunk


def read_text(pages: PageSet, starts: IntArray, stops: IntArray) -> Vector:
    """Rows of a STRING or BLOB column: codes into the joined dictionaries of the touched chunks, or into the cells themselves."""
    rows_per_chunk = pages.rows_per_page * PAGES_PER_CHUNK
    if len(starts) and starts[0] // rows_per_chunk == (stops[-1] - 1) // rows_per_chunk:
        chunk = int(starts[0]) // rows_per_chunk
        if pages.dict_bytes[chunk]:
            return _read_codes(pages, starts, stops, np.array([chunk]))
        return _read_plain(pages, starts, stops)
    first, last = starts // rows_per_chunk, (stops - 1) // rows_per_chunk
    edges = np.zeros(len(pages.dict_bytes) + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last + 1, -1)
    touched = np.flatnonzero(np.cumsum(edges[:-1]))
    if len(touched) and (pages.dict_bytes[touched] > 0).all():
        return _read_codes(pages, starts, stops, touched)
    if not (pages.dict_bytes[touched] > 0).any():
        return _read_plain(pages, starts, stops)
    parts = []
    for chunk in touched.tolist():
        inside = (first <= chunk) & (last >= chunk)
        part_starts = np.maximum(starts[inside], chunk * rows_per_chunk)
        part_stops = np.minimum(stops[inside], (chunk + 1) * rows_per_chunk)
        if pages.dict_bytes[chunk]:
            parts.append(_read_codes(pages, part_starts, part_stops, np.array([chunk])))
        else:
            parts.append(_read_plain(pages, part_starts, part_stops))
    return concat(parts)


def _read_codes(pages: PageSet, starts: IntArray, stops: IntArray, touched: IntArray) -> Vector:
    pools = [read_dictionary(pages, chunk) for chunk in touched.tolist()]
    words, validity = read_numbers(pages, starts, stops)
    if len(pools) == 1:
        _check_codes(pages, int(touched[0]), words, pools[0])
        return Vector(pages.type, words.astype(np.int32), validity, pools[0])
    key = touched.tobytes()
    joined = pages.joined_pool  # other threads may replace it meanwhile
    if joined is None or joined[0] != key:
        pages.joined_pool = joined = key, *concat_pools(pools)
        KEPT.note(pages, JOINED_SLOT, joined[1].offsets.nbytes + joined[1].data.nbytes)
    _, pool, shifts = joined
    edges = _positions(starts, stops, (touched + 1) * pages.rows_per_page * PAGES_PER_CHUNK)
    first = 0
    for chunk, own, shift, last in zip(touched.tolist(), pools, shifts, edges.tolist(), strict=True):
        part = words[first:last]
        _check_codes(pages, chunk, part, own)
        part += np.uint64(shift)
        first = last
    return Vector(pages.type, words.astype(np.int32), validity, pool)


def _check_codes(pages: PageSet, chunk: int, codes: WordArray, pool: Pool) -> None:
    if len(codes) and int(codes.max()) >= len(pool):
        raise Corruption("a page names a string that its dictionary lacks", path=pages.path, offset=int(pages.dict_offset[chunk]))


def _positions(starts: IntArray, stops: IntArray, rows: IntArray) -> IntArray:
    """How many of the ranges' rows lie before each of ``rows``."""
    ends = np.concatenate([[0], np.cumsum(stops - starts)])
    before = np.searchsorted(starts, rows)
    beyond = np.concatenate([[0], stops])[before] - rows
    positions: IntArray = ends[before] - np.where(before > 0, np.maximum(beyond, 0), 0)
    return positions


def _read_plain(pages: PageSet, starts: IntArray, stops: IntArray) -> Vector:
    source, starts, stops = open_ranges(pages, starts, stops)
    rows = int(stops.sum() - starts.sum())
    ends = np.empty(min(pages.rows_per_page, pages.row_count), np.uint64)
    place, size = np.empty((2, rows), np.int64)
    validity, kinds = np.empty(rows, np.bool_), np.empty(rows, np.uint8)
    views = ends, ends.view(np.float64), ends.view(np.float32)
    code = kernels.locate_text(*source, starts, stops, *views, place, size, validity, kinds)
    if code < 0:
        raise pages.failure(code)
    pool = copy_strings(source.words.view(np.uint8), place, size)
    if code:
        pool.kinds = kinds
    return Vector(pages.type, np.arange(rows, dtype=np.int32), None if validity.all() else validity, pool)
