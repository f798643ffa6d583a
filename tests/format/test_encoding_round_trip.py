"""What is encoded comes back, bit by bit: every type, shape, page size and set of ranges, and every encoding on any bits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.file_case import same_values
from support.page_case import columns, make_vector, page_set, ranges, rows_of, shapes
from tsdb_format.encoding import EncodedChunk, Encoding, encode_chunk, read_pages
from tsdb_format.encoding.number import Choice, as_numbers, write_numbers
from tsdb_format.types import BLOB, BOOLEAN, DATE, DOUBLE, FLOAT, INT32, INT64, STRING, TIMESTAMP_NS, ColumnType, Kind
from tsdb_format.vector import Pool, Vector

TYPES = (BOOLEAN, INT32, INT64, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP_NS, BLOB, ColumnType(Kind.VECTOR, 3))


def check(vector: Vector, rows_per_page: int, **how: Any) -> None:
    """Whole, in ranges, and row by row."""
    pages = page_set(vector, rows_per_page, **how)
    rows = len(vector)
    rng = np.random.default_rng(rows)
    some = ranges(rng, rows)
    few = np.arange(0, rows, 3), np.arange(0, rows, 3) + 1
    for starts, stops in ((np.array([0]), np.array([rows])), some, (some[0], some[0] + 1), few, some):
        found = read_pages(pages, starts, stops)
        assert same_values(found, vector.take(rows_of(starts, stops)))
        assert found.values.flags.c_contiguous
        if found.pool is not None and len(found):
            assert found.values.min() >= 0
            assert found.values.max() < len(found.pool)
    with pytest.raises(IndexError):
        read_pages(pages, np.array([rows - 1]), np.array([rows + 1]))
    assert len(read_pages(pages, np.empty(0, np.int64), np.empty(0, np.int64))) == 0


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(data=st.data())
def test_round_trip(kind: ColumnType, data: st.DataObject) -> None:
    check(*data.draw(columns(kind)))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_shape_in_full_pages(kind: ColumnType) -> None:
    for shape in shapes(kind):
        check(make_vector(kind, shape, 2500, 0.1 if shape > "m" else 0.0, 7), 1024)


@given(words=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=60), page=st.sampled_from([1, 4, 100]))
@pytest.mark.parametrize("kind", [INT64, DOUBLE], ids=str)
def test_any_bits(kind: ColumnType, words: list[int], page: int) -> None:
    check(Vector(kind, np.array(words, np.uint64).view(kind.physical)), page)


@given(words=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=60), page=st.sampled_from([1, 4, 100]))
@pytest.mark.parametrize("kind", [INT32, FLOAT], ids=str)
def test_any_small_bits(kind: ColumnType, words: list[int], page: int) -> None:
    check(Vector(kind, np.array(words, np.uint32).view(kind.physical)), page)


@given(texts=st.lists(st.one_of(st.none(), st.binary(max_size=20)), min_size=1, max_size=40), page=st.sampled_from([1, 4, 100]))
@pytest.mark.parametrize("kind", [STRING, BLOB], ids=str)
def test_any_strings(kind: ColumnType, texts: list[bytes | None], page: int) -> None:
    validity = np.array([text is not None for text in texts])
    vector = Vector(kind, np.arange(len(texts), dtype=np.int32), validity, Pool.of([text or b"" for text in texts]))
    check(vector, page)


FORCED = [
    Choice(0, Encoding.PLAIN), Choice(0, Encoding.FOR), Choice(0, Encoding.DELTA, 1), Choice(0, Encoding.RLE),
    Choice(0, Encoding.BYTE_SPLIT), Choice(0, Encoding.ALP, 0, 0), Choice(0, Encoding.ALP, 1, 2), Choice(0, Encoding.ALP, 0, 18),
    Choice(0, Encoding.PLAIN_4), Choice(0, Encoding.BITMAP),
]  # fmt: skip


def may_hold(kind: ColumnType, encoding: Encoding) -> bool:
    """Whether the SPEC allows the encoding for that type."""
    if encoding is Encoding.ALP:
        return kind.is_float
    if encoding is Encoding.BITMAP:
        return kind is BOOLEAN
    return (encoding is Encoding.PLAIN_4) <= (kind in (INT32, DATE, FLOAT))


@pytest.mark.parametrize("choice", FORCED, ids=lambda choice: f"{choice.encoding.name}-{choice.delta}-{choice.decimals}")
@pytest.mark.parametrize("kind", [BOOLEAN, INT32, INT64, FLOAT, DOUBLE], ids=str)
def test_every_encoding_holds_every_shape(kind: ColumnType, choice: Choice) -> None:
    if not may_hold(kind, choice.encoding):
        return

    def encode(vector: Vector, rows_per_page: int) -> EncodedChunk:
        validity = np.empty(0, np.bool_) if vector.validity is None else vector.validity
        return write_numbers(as_numbers(vector, validity), validity, rows_per_page, choice)

    for number, shape in enumerate(shapes(kind)):
        vector = make_vector(kind, shape, 1300, 0.2 * (number % 2), number)
        check(vector, 1024, encode=encode)
        check(vector.take(slice(0, 90)), 4, encode=encode)


def test_huge_strings_and_one_row() -> None:
    texts = [b"a" * 3_000_000, b"", np.random.default_rng(1).bytes(2_000_000)]
    for kind in (STRING, BLOB):
        check(Vector(kind, np.array([0, 1, 2, 0], np.int32), np.array([True, True, True, False]), Pool.of(texts)), 8192)
        check(Vector(kind, np.array([2], np.int32), None, Pool.of(texts)), 1)


def test_empty_and_null_strings_differ() -> None:
    for texts, codes in (([b""], [0, 0, 0]), ([b"", b"x"], [0, 0, 1])):
        vector = Vector(STRING, np.array(codes, np.int32), np.array([True, False, True]), Pool.of(texts))
        assert read_pages(page_set(vector, 4), np.array([0]), np.array([3])).to_physical_list() == vector.to_physical_list()


def test_all_null_pages_take_no_bytes() -> None:
    for kind in TYPES:
        vector = make_vector(kind, shapes(kind)[0], 10, 1.0, 1)
        chunk = encode_chunk(vector, 4)
        assert not chunk.page_bytes.any()
        assert not len(chunk.data)
        check(vector, 4)


def test_the_given_vector_is_left_alone() -> None:
    for kind in TYPES:
        vector = make_vector(kind, shapes(kind)[1], 300, 0.3, 2)
        before = vector.values.tobytes()
        encode_chunk(vector, 100)
        assert vector.values.tobytes() == before


def test_strided_and_misaligned_vectors() -> None:
    values = np.arange(3000.0)[::3] / 4
    check(Vector(DOUBLE, values, np.arange(2000)[::2] % 5 > 0), 100)
    shifted = np.frombuffer(b"x" + np.arange(100).tobytes(), np.uint8)[1:].view(np.int64)
    check(Vector(INT64, shifted), 100)


def test_threads_share_a_handle() -> None:
    vector = make_vector(STRING, "numbered", 3000, 0.0, 1)
    few = make_vector(STRING, "few", 3000, 0.0, 1)
    for pages, expected in ((page_set(vector, 16), vector), (page_set(few, 16), few)):
        parts = [(np.array([at]), np.array([at + 1500])) for at in range(0, 1500, 50)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda part, pages=pages: read_pages(pages, *part), parts * 4))
        for (starts, stops), part in zip(parts * 4, found, strict=True):
            assert same_values(part, expected.take(rows_of(starts, stops)))


def test_a_page_set_may_lie_in_misaligned_read_only_memory() -> None:
    vector = make_vector(INT64, "counter", 500, 0.0, 1)
    pages = page_set(vector, 100)
    pages.buffer = np.frombuffer(b"x" + pages.buffer.tobytes(), np.uint8)[1:]
    pages.page_offset.flags.writeable = False
    assert same_values(read_pages(pages, np.array([0]), np.array([500])), vector)
