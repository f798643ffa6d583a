"""Commits as payloads and back: the same values for every type, and for damaged payloads an error, whatever they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.file_case import FIELD_TYPES, random_vector, text_vector
from support.log_case import plain, random_change, row
from tsdb.storage import log_segment
from tsdb.storage.log_record import Change, decode, encode
from tsdb.storage.log_segment import CHANGE, RECORD_BYTES, read_record
from tsdb_format.errors import Corruption, InvalidInput
from tsdb_format.types import (
    BLOB,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT64,
    STORED_KINDS,
    STRING,
    TIMESTAMP_MS,
    ColumnType,
    Kind,
    parse_type,
)
from tsdb_format.vector import ByteArray, Pool, Vector, null_vector


def payload_of(change: Change) -> ByteArray:
    record = encode(1, change)
    raw = np.frombuffer(record, np.uint8)
    found = read_record(raw.data, 0)
    assert found is not None
    assert (found.kind, found.sequence, found.start, found.stop) == (CHANGE, 1, RECORD_BYTES, len(record))
    return raw[RECORD_BYTES:]


def same(change: Change) -> Change:
    """The commit after a round trip, in which it must not change."""
    payload = payload_of(change)
    assert len(payload) % 8 == 0
    found = decode(payload)
    assert plain(found) == plain(change)
    return found


def one_column(vector: Vector) -> Change:
    return Change(1, numbers=np.zeros(1, np.int32), row_start=np.array([0, len(vector)]), columns={4: vector})


@given(seed=st.integers(0, 2**32), rows=st.sampled_from([0, 1, 2, 31, 32, 33, 200]), null_share=st.sampled_from([0.0, 0.3, 1.0]))
def test_every_part_and_type_comes_back(seed: int, rows: int, null_share: float) -> None:
    same(random_change(seed, rows, null_share))


@pytest.mark.parametrize("name", FIELD_TYPES)
@pytest.mark.parametrize("count", [1, 7, 1_000])
def test_vectors_of_every_type_keep_dtype_and_shape(name: str, count: int) -> None:
    kind = parse_type(name)
    vector = random_vector(kind, count, np.random.default_rng(count))
    found = same(one_column(vector)).columns[4]
    assert found.type == kind
    assert found.values.dtype == kind.physical
    assert found.values.shape == vector.values.shape


def test_floats_keep_their_bits() -> None:
    bits = np.array([0x7FF8000000000001, 0xFFF0DEADBEEF0001, 0x8000000000000000, 0x7FF0000000000000, 1], np.uint64)
    same(one_column(Vector(DOUBLE, bits.view(np.float64))))
    same(one_column(Vector(FLOAT, np.array([0x7FC00001, 0xFFBADBAD, 0x80000000], np.uint32).view(np.float32))))


def test_null_empty_and_text_are_three_things() -> None:
    for kind in ("STRING", "BLOB"):
        found = same(one_column(text_vector([None, b"", b"null", b"a\0", None, b"\xff" * 5_000], kind)))
        assert found.columns[4].valid().tolist() == [False, True, True, True, False, True]


def test_a_commit_may_be_empty() -> None:
    found = same(Change(3))
    assert found.row_count == 0
    assert found.row_start.tolist() == [0]


def test_a_table_without_tags_has_a_device() -> None:
    same(Change(3, new_devices=1))


def test_arrays_are_views_of_the_payload() -> None:
    payload = payload_of(one_column(Vector(INT64, np.arange(10_000))))
    found = decode(payload)
    assert np.shares_memory(found.columns[4].values, payload)
    assert found.columns[4].values.flags.aligned


@pytest.mark.parametrize("rows", [1, 5, 32, 33, 100])
def test_only_the_strings_in_use_are_logged(rows: int) -> None:
    pool = Pool.of([b"string number %06d" % number for number in range(20_000)])
    codes = np.arange(rows, dtype=np.int32)[::-1] * 3 + 9
    validity = np.arange(rows) % 3 != 1
    for vector in (
        Vector(STRING, codes, None, pool),
        Vector(STRING, np.where(validity, codes, -9).astype(np.int32), validity, pool),
    ):
        payload = payload_of(one_column(vector))
        assert len(payload) < 200 + rows * 48
        assert plain(decode(payload)) == plain(one_column(vector))
    none = Vector(STRING, codes, np.zeros(rows, np.bool_), pool)
    assert len(payload_of(one_column(none))) < 200 + rows * 8
    same(one_column(none))


def test_a_pool_that_is_part_of_a_larger_one_is_cut_out() -> None:
    whole = Pool.of([b"x" * 1_000, b"aa", b"", b"bbb", b"y" * 1_000])
    part = Pool(whole.offsets[1:5], whole.data)
    vector = Vector(BLOB, np.array([2, 0, 1, 2], np.int32), None, part)
    assert len(payload_of(one_column(vector))) < 200
    same(one_column(vector))


def test_arrays_that_are_not_contiguous_are_logged_as_they_read() -> None:
    for count in (5, 5_000):
        same(one_column(Vector(INT64, np.arange(2 * count)[::2])))
        same(one_column(Vector(parse_type("VECTOR(3)"), np.arange(6 * count, dtype=np.float32).reshape(3, -1).T)))


def test_arrays_of_another_length_or_type_are_refused() -> None:
    short = Change(1, numbers=np.zeros(1, np.int32), row_start=np.array([0, 2]), columns={1: Vector(INT64, np.arange(1))})
    wide = one_column(Vector(INT64, np.arange(3, dtype=np.int32)))
    starts = Change(1, numbers=np.zeros(2, np.int32), row_start=np.array([0, 1]), columns={1: Vector(INT64, np.arange(1))})
    for change in (short, wide, starts):
        with pytest.raises(ValueError, match="bytes where"):
            encode(1, change)


def test_what_could_not_be_decoded_is_not_encoded() -> None:
    pool = Pool.of([b"a"])
    for vector in (Vector(STRING, np.zeros(2, np.int32)), Vector(INT64, np.zeros(2, np.int64), None, pool)):
        with pytest.raises(ValueError, match="pool"):
            encode(1, one_column(vector))
    late = Change(1, numbers=np.zeros(1, np.int32), row_start=np.array([2, 4]), columns={1: Vector(INT64, np.arange(4))})
    with pytest.raises(ValueError, match="begin at 2"):
        encode(1, late)


def test_a_commit_too_large_for_a_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_segment, "PAYLOAD_BYTES_MAX", 1_000)
    with pytest.raises(InvalidInput, match="too large for the log"):
        encode(1, one_column(Vector(INT64, np.arange(1_000))))


def test_the_bytes_stay_what_they_are() -> None:
    """The record that the docstrings of log_segment and log_record describe, written out."""
    change = Change(
        9,
        first_device=4,
        new_devices=1,
        device_tags={2: text_vector([b"ab"])},
        numbers=np.array([4], np.int32),
        row_start=np.array([0, 2]),
        columns={1: Vector(TIMESTAMP_MS, np.array([5, 6])), 3: Vector(BOOLEAN, np.array([True, False]), np.array([False, True]))},
        deleted_device=np.array([-1], np.int32),
        deleted_low=np.array([-2]),
        deleted_high=np.array([3]),
    )
    words = [
        "09000000 04000000", "01000000 00000000", "01000000 02000000", "01000000 03000000",  # table, devices, rows, counts
        "02000000 06000000", "01000000 02000000",  # column 2, STRING, a tag: 1 string, 2 bytes
        "01000000 09020000", "00000000 00000000",  # column 1, TIMESTAMP_MS, rows
        "03000000 01060000", "00000000 00000000",  # column 3, BOOLEAN, rows, with NULLs
        "04000000 00000000", "00000000 00000000", "02000000 00000000",  # device 4, its rows 0:2
        "ffffffff 00000000", "feffffff ffffffff", "03000000 00000000",  # every device, -2 to 3
        "00000000 00000000", "00000000 00000000", "02000000 00000000", "61620000 00000000",  # code 0, string 0:2, "ab"
        "05000000 00000000", "06000000 00000000",
        "01000000 00000000", "00010000 00000000",
    ]  # fmt: skip
    record = encode(258, change, synced=16)
    assert bytes(record[RECORD_BYTES:]).hex(" ", 4).split() == " ".join(words).split()
    assert bytes(record[8:RECORD_BYTES]).hex(" ", 4) == "c0000000 43484e47 02010000 00000000 10000000 00000000"
    assert bytes(record[:8]).hex() == "41dd47fe62d48103"


def test_a_flipped_bit_under_a_recomputed_checksum_is_an_error_or_another_commit() -> None:
    """What a hostile or faulty writer could do: nothing but Corruption comes out, and what decodes is in bounds."""
    payload = payload_of(random_change(3, rows=9))
    for at in range(len(payload)):
        for flip in (1, 0x80, 0xFF):
            damaged = payload.copy()
            damaged[at] ^= flip
            _harmless(damaged)


@given(seed=st.integers(0, 2**32), edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 2**32 - 1)), max_size=4))
def test_words_put_anywhere_do_no_harm(seed: int, edits: list[tuple[int, int]]) -> None:
    payload = payload_of(random_change(seed % 50, rows=seed % 40)).copy()
    words = payload.view(np.uint32)
    for place, word in edits:
        words[place % min(len(words), 60)] = word
    _harmless(payload)


@given(st.binary(max_size=300))
def test_any_bytes_do_no_harm(raw: bytes) -> None:
    _harmless(np.frombuffer(raw, np.uint8))


def test_a_payload_cut_or_prolonged_is_an_error() -> None:
    payload = payload_of(random_change(5, rows=20))
    for size in range(len(payload)):
        with pytest.raises(Corruption) as caught:
            decode(payload[:size], path="a.log", offset=1_000)
        assert caught.value.path == "a.log"
        assert caught.value.offset >= 1_000
    with pytest.raises(Corruption, match="behind its end"):
        decode(np.append(payload, np.zeros(8, np.uint8)))


def _harmless(payload: ByteArray) -> None:
    try:
        change = decode(payload)
    except Corruption:
        return
    assert len(change.row_start) == len(change.numbers) + 1
    assert (np.diff(change.row_start) >= 0).all()
    counts = {"device_tags": change.new_devices, "attributes": len(change.attribute_devices), "columns": change.row_count}
    for part, count in counts.items():
        for vector in getattr(change, part).values():
            assert len(vector) == count
            vector.to_physical_list() if vector.type.kind is not Kind.STRING else plain(one_column(vector))
    plain(change)


@pytest.mark.parametrize("kind", [ColumnType(kind) for kind in sorted(STORED_KINDS) if kind is not Kind.VECTOR], ids=str)
def test_columns_of_nulls(kind: ColumnType) -> None:
    same(one_column(null_vector(kind, 3)))


def test_one_row_makes_a_small_record() -> None:
    assert len(encode(1, row(3))) <= 224
