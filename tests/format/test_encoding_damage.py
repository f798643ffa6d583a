"""Damaged and hostile pages: right rows or a clear error, whatever the bytes say, checksum right or not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.file_case import same_values
from support.page_case import columns, make_vector, page_set, shapes
from tsdb_format.encoding import Encoding, PageSet, checksum, read_pages, search_sorted
from tsdb_format.errors import Corruption, Error, UnsupportedFormat
from tsdb_format.types import BLOB, BOOLEAN, DOUBLE, FLOAT, INT32, INT64, STRING, ColumnType, Kind
from tsdb_format.vector import Pool, Vector

TYPES = (BOOLEAN, INT32, INT64, FLOAT, DOUBLE, STRING, BLOB, ColumnType(Kind.VECTOR, 3))
NASTY = (0, 1, 1023, 1024, 2**31, 2**32 - 1, 2**62, 2**63, 2**63 - 1, 2**64 - 1)


def units(pages: PageSet) -> list[tuple[int, int, int]]:
    """(offset, bytes, page number or -1 - chunk number) of stored pages and dictionaries."""
    found = [(int(pages.page_offset[i]), int(pages.page_bytes[i]), i) for i in range(pages.page_count)]
    found += [(int(pages.dict_offset[i]), int(pages.dict_bytes[i]), -1 - i) for i in range(len(pages.dict_bytes))]
    return [unit for unit in found if unit[1]]


def fresh(pages: PageSet) -> None:
    """Forget what the handle knows."""
    pages.source = pages.expanded = pages.joined_pool = None
    pages.pools = {}
    pages.verified[:] = 0


def try_all(pages: PageSet) -> str:
    """Read in all ways; the name of the error, or 'read'."""
    rows = pages.row_count
    try:
        for starts, stops in ((np.array([0]), np.array([rows])), (np.arange(0, rows, 7), np.arange(0, rows, 7) + 1)):
            found = read_pages(pages, starts, stops)
            if found.pool is not None:
                assert found.values.min() >= 0
                assert found.values.max() < len(found.pool)
                assert found.pool.offsets[0] == 0
                assert (np.diff(found.pool.offsets) >= 0).all()
                assert found.pool.offsets[-1] == len(found.pool.data)
        if pages.type.is_integer_like:
            search_sorted(pages, np.array([0]), np.array([rows]), 5, False)
    except Error as error:
        return type(error).__name__
    return "read"


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_hostile_pages_under_good_checksums(kind: ColumnType, data: st.DataObject, seed: int) -> None:
    pages = page_set(*data.draw(columns(kind, rows_max=1500)))
    rng = np.random.default_rng(seed)
    good, encodings, nulls = pages.buffer.copy(), pages.page_encoding.copy(), pages.page_null_count.copy()
    places = units(pages)
    for _ in range(12 if places else 0):
        pages.buffer, pages.page_encoding, pages.page_null_count = good.copy(), encodings.copy(), nulls.copy()
        fresh(pages)
        offset, size, _ = places[rng.integers(len(places))]
        way = rng.integers(0, 4)
        for _ in range(rng.integers(1, 4)):
            if way == 0:
                pages.buffer[offset + rng.integers(size)] ^= 1 << rng.integers(8)
            elif way == 1:
                at = offset + 8 * rng.integers(min(size // 8, 12))
                pages.buffer[at : at + 8] = np.array([NASTY[rng.integers(len(NASTY))]], np.uint64).view(np.uint8)
            elif way == 2:
                pages.buffer[offset : offset + rng.integers(1, min(size, 100) + 1)] = rng.integers(0, 256)
            else:
                pages.page_encoding[rng.integers(pages.page_count)] = rng.integers(0, 12)
                pages.page_null_count[rng.integers(pages.page_count)] = rng.integers(0, pages.rows_per_page + 1)
        for offset, size, unit in places:
            digest = checksum(pages.buffer[offset : offset + size].tobytes())
            if unit >= 0:
                pages.page_checksum[unit] = digest
            else:
                pages.dict_checksum[-1 - unit] = digest
        try_all(pages)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_flipped_byte_is_noticed(kind: ColumnType) -> None:
    for shape in shapes(kind)[1:5]:
        vector = make_vector(kind, shape, 70, 0.2, 3)
        pages = page_set(vector, 32)
        for offset, size, _ in units(pages):
            for at in range(offset, offset + size, 5):
                pages.buffer[at] ^= 0x10
                fresh(pages)
                with pytest.raises(Corruption) as caught:
                    read_pages(pages, np.array([0]), np.array([70]))
                assert caught.value.offset == offset
                pages.buffer[at] ^= 0x10
        fresh(pages)
        assert same_values(read_pages(pages, np.array([0]), np.array([70])), vector)


def test_pages_outside_the_file() -> None:
    vector = make_vector(DOUBLE, "uniform", 300, 0.0, 1)
    for name, value in (
        ("page_offset", -8), ("page_offset", 4), ("page_offset", 2**62), ("page_bytes", 2**62), ("page_bytes", 12),
        ("page_bytes", -8), ("page_bytes", 0),
    ):  # fmt: skip
        pages = page_set(vector, 100)
        getattr(pages, name)[1] = value
        assert read_pages(pages, np.array([0]), np.array([100])).values.tolist() == vector.values[:100].tolist()
        with pytest.raises(Corruption):
            read_pages(pages, np.array([0]), np.array([101]))


def test_tables_shorter_than_the_column() -> None:
    pages = page_set(make_vector(INT64, "any", 300, 0.0, 1), 100)
    pages.page_bytes = pages.page_bytes[:2]
    with pytest.raises(Corruption):
        read_pages(pages, np.array([0]), np.array([1]))


def test_unknown_ids_are_refused() -> None:
    for kind, shape in ((INT64, "any"), (STRING, "noise"), (ColumnType(Kind.VECTOR, 2), "uniform")):
        pages = page_set(make_vector(kind, shape, 300, 0.0, 1), 100)
        pages.page_encoding[2] = 99
        with pytest.raises(UnsupportedFormat, match="99"):
            read_pages(pages, np.array([0]), np.array([300]))
        pages = page_set(make_vector(kind, shape, 300, 0.0, 1), 100)
        pages.page_compression[1] = 7
        with pytest.raises(UnsupportedFormat, match="7"):
            read_pages(pages, np.array([0]), np.array([300]))


def test_kinds_of_blobs_that_are_nowhere() -> None:
    pages = page_set(Vector(BLOB, np.arange(9, dtype=np.int32), None, Pool.of([b"x"] * 9)), 16)
    at = int(pages.page_offset[0])
    pages.buffer[at + 16] = 40
    pages.page_checksum[0] = checksum(pages.buffer[at : at + int(pages.page_bytes[0])].tobytes())
    with pytest.raises(Corruption):
        read_pages(pages, np.array([0]), np.array([9]))


def test_frames_that_promise_too_much() -> None:
    vector = make_vector(STRING, "numbered", 400, 0.0, 1)
    pages = page_set(vector, 400)
    assert pages.page_compression[0] == 1
    at = int(pages.page_offset[0])
    for size in (2**60, 2**40, 8, 0, 2**64 - 8):
        pages.buffer[at : at + 8] = np.array([size], np.uint64).view(np.uint8)
        pages.page_checksum[0] = checksum(pages.buffer[at : at + int(pages.page_bytes[0])].tobytes())
        fresh(pages)
        with pytest.raises(Corruption):
            read_pages(pages, np.array([0]), np.array([400]))


def test_the_damage_reaches_the_decoders() -> None:
    """The hostile test above is worth little if every change were refused, or none."""
    pages = page_set(make_vector(INT64, "counter", 1500, 0.0, 1), 1024)
    assert Encoding(pages.page_encoding[0]) in (Encoding.DELTA, Encoding.FOR)
    seen: Counter[str] = Counter()
    offset, size = int(pages.page_offset[0]), int(pages.page_bytes[0])
    for at in range(offset, offset + size, 3):
        pages.buffer[at] ^= 0x80
        pages.page_checksum[0] = checksum(pages.buffer[offset : offset + size].tobytes())
        fresh(pages)
        seen[try_all(pages)] += 1
        pages.buffer[at] ^= 0x80
    assert seen["read"] > 10
    assert seen["Corruption"] > 0
