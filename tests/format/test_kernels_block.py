"""Blocks: the encoder against a decoder written from the SPEC, the decoder against both, and the search for widths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.page_case import DOUBLES, INTEGERS, MODES, run
from tsdb_format.kernels import block_encode
from tsdb_format.kernels.bitpack import packed_words
from tsdb_format.kernels.block import NO_DECIMALS, POWERS, decode_rows
from tsdb_format.kernels.page import ALP, DOUBLE, FLOAT, HELD, INTEGER, MALFORMED, SCRATCH

Words = NDArray[np.uint64]
MASK = 2**64 - 1


def decode_twin(words: list[int], count: int, kind: int) -> list[int]:
    """A page of one block, as the SPEC says."""
    first, base, scale, layout = words[:4]
    offset, width, patches, exceptions = layout & (2**27 - 1), layout >> 27 & 127, layout >> 34 & 2047, layout >> 45 & 2047
    decimals, delta = layout >> 56 & 31, layout >> 61
    body = words[offset:]
    size = packed_words(count, width)
    lanes = [sum(body[16 * j + lane] << (64 * j) for j in range(size // 16)) for lane in range(16)]
    values = [base + ((lanes[i % 16] >> (i // 16 * width)) & ((1 << width) - 1)) * scale & MASK for i in range(count)]
    listed = patches + exceptions
    positions = [body[size + listed + i // 4] >> (i % 4 * 16) & 0xFFFF for i in range(listed)]
    if delta:
        for i in range(patches):
            values[positions[i]] = body[size + i]
        values[0] = first
        for i in range(1, count):
            values[i] = (values[i] + values[i - 1]) & MASK
    if decimals != NO_DECIMALS:
        signed = np.array(values, np.uint64).view(np.int64)
        doubles = np.array([float(value) / 10.0**decimals for value in signed.tolist()])
        bits = doubles.view(np.uint64) if kind == DOUBLE else doubles.astype(np.float32).view(np.uint32)
        values = bits.tolist()
    for i in range(exceptions):
        values[positions[patches + i]] = body[size + patches + i]
    return values


def encode(mode: str, values: Words, delta: int, decimals: int = NO_DECIMALS, kind: int = INTEGER) -> Words:
    """A page of one block."""
    count = len(values)
    out, exceptional = np.zeros(2440, np.uint64), np.empty(2048, np.int64)
    work, integers, wrong = np.empty(2080, np.uint64), values, 0
    if decimals != NO_DECIMALS:
        doubles = values.view(np.float64) if kind == DOUBLE else values.astype(np.uint32).view(np.float32).astype(np.float64)
        integers = np.empty(1024, np.uint64)
        wrong = run(block_encode.to_decimals, mode)(doubles, values, 0, count, kind, decimals, integers, exceptional)
    size = run(block_encode.encode_block, mode)(
        integers, 0, count, delta, decimals, values, 0, exceptional, wrong, work, out, 0, 0, 4
    )  # fmt: skip
    return out[: 4 + size].copy()


def decode(mode: str, page: Words, count: int, kind: int, low: int, high: int) -> tuple[int, list[int]]:
    """The code and rows ``low`` to ``high``, decoded twice with the same scratch."""
    scratch = np.empty(SCRATCH, np.uint64)
    scratch[HELD] = ~np.uint64(0)
    found = []
    for _ in range(2):
        out = np.full(1030, 0xF00D, np.uint64)
        code = run(decode_rows, mode)(
            page, 0, len(page), ALP, count, kind, low, high, scratch, out, out.view(np.float64), out.view(np.float32), 3
        )  # fmt: skip
        found.append((code, out[3 : 3 + high - low].tolist()))
        assert (out[:3] == 0xF00D).all()
        assert (out[3 + high - low :] == 0xF00D).all()
    assert found[0] == found[1]
    return found[0]


def words_of(shape: str, count: int, seed: int) -> Words:
    with np.errstate(all="ignore"):
        return INTEGERS[shape](np.random.default_rng(seed), count).view(np.uint64)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("delta", [0, 1])
@pytest.mark.parametrize("shape", sorted(INTEGERS))
def test_integers(mode: str, delta: int, shape: str) -> None:
    for count in (1, 2, 17, 100) if mode == "python" else (1, 2, 15, 16, 17, 63, 64, 100, 1023, 1024):
        values = words_of(shape, count, count)
        page = encode(mode, values, delta)
        assert page.tolist() == encode("auto", values, delta).tolist()
        assert len(page) <= 4 + packed_words(count, 64)
        assert decode_twin(page.tolist(), count, INTEGER) == values.tolist()
        for low, high in ((0, count), (count // 2, count), (0, 1), (count // 3, count // 3 + 1)):
            assert decode(mode, page, count, INTEGER, low, high) == (0, values[low:high].tolist())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [DOUBLE, FLOAT])
@pytest.mark.parametrize("shape", sorted(DOUBLES))
def test_decimals(mode: str, kind: int, shape: str) -> None:
    for count, decimals, delta in ((33, 2, 0), (100, 1, 1), (5, 0, 0), (64, 18, 0)):
        with np.errstate(all="ignore"):
            doubles = DOUBLES[shape](np.random.default_rng(count), count)
            values = doubles.view(np.uint64) if kind == DOUBLE else doubles.astype(np.float32).view(np.uint32).astype(np.uint64)
            page = encode(mode, values, delta, decimals, kind)
            assert page.tolist() == encode("auto", values, delta, decimals, kind).tolist()
            assert decode_twin(page.tolist(), count, kind) == values.tolist()
            for low, high in ((0, count), (count // 2, count // 2 + 1)):
                assert decode(mode, page, count, kind, low, high) == (0, values[low:high].tolist())


@given(words=st.lists(st.integers(0, MASK), min_size=1, max_size=200), delta=st.integers(0, 1), noise=st.integers(0, 64))
def test_any_words(words: list[int], delta: int, noise: int) -> None:
    values = np.array(words, np.uint64) >> np.uint64(min(noise, 63))
    page = encode("auto", values, delta)
    assert decode_twin(page.tolist(), len(values), INTEGER) == values.tolist()
    assert decode("auto", page, len(values), INTEGER, 0, len(values)) == (0, values.tolist())


def test_a_few_outliers_cost_their_own_bits_only() -> None:
    rng = np.random.default_rng(2)
    calm = rng.integers(0, 16, 1024).astype(np.uint64)
    wild = calm.copy()
    wild[rng.choice(1024, 10, replace=False)] = rng.integers(0, MASK, 10, dtype=np.uint64)
    assert len(encode("auto", wild, 0)) <= len(encode("auto", calm, 0)) + 10 + 3
    times = np.concatenate([np.arange(100) * 5_000 for _ in range(11)])[:1024].astype(np.uint64)
    assert len(encode("auto", times, 1)) <= 4 + 10 + 3


def test_common_divisors_and_trailing_zeros_cost_nothing() -> None:
    base = np.arange(1024, dtype=np.uint64) % np.uint64(64)
    for factor in (1, 10**9, 2**58, 7919):
        assert len(encode("auto", base * np.uint64(factor), 0)) == 4 + packed_words(1024, 6)


@pytest.mark.parametrize(
    ("field", "value"),
    [(27, 65), (27, 127), (34, 2000), (45, 2000), (56, 23), (56, 30), (56, 2), (61, 2), (61, 4), (0, 2**27 - 1)],
)
def test_impossible_layouts_are_malformed(field: int, value: int) -> None:
    page = encode("auto", words_of("counter", 100, 1), 0)
    layout = int(page[3])
    widths = {0: 27, 27: 7, 34: 11, 45: 11, 56: 5, 61: 3}
    page[3] = (layout & ~(((1 << widths[field]) - 1) << field)) | value << field
    assert decode("auto", page, 100, INTEGER, 0, 100)[0] == MALFORMED
    assert decode("auto", page[:-1].copy(), 100, INTEGER, 0, 100)[0] == MALFORMED


@pytest.mark.parametrize("mode", MODES)
def test_bit_width(mode: str) -> None:
    for value in [0, 1, 2, 3, 255, 256, 2**63, MASK]:
        assert run(block_encode.bit_width, mode)(np.uint64(value)) == value.bit_length()


@pytest.mark.parametrize("mode", MODES)
def test_common_divisor(mode: str) -> None:
    for values in ([0, 0], [6, 0, 9], [5, 7], [2**63, 2**62], [12], [0, 4, 4, 8]):
        found = run(block_encode.common_divisor, mode)(np.array([99, *values], np.uint64), 1, len(values) + 1)
        assert int(found) == (math.gcd(*values) or 1)


@pytest.mark.parametrize("mode", MODES)
@given(seed=st.integers(0, 999), spread=st.integers(0, 50), share=st.sampled_from([0.0, 0.01, 0.1, 0.5]))
def test_the_window_is_never_worse_than_all(mode: str, seed: int, spread: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**spread, 100, dtype=np.uint64)
    values[rng.random(100) < share] = np.uint64(2**60)
    low, high = int(values.min()), int(values.max())
    full = (high - low).bit_length()
    found = np.zeros(2, np.uint64)
    bits = run(block_encode.narrow, mode)(values, 0, 100, np.uint64(low), full, found)
    start = int(found[0])
    kept = sum((int(value) - start) & MASK < 2**bits for value in values)
    assert bits == found[1]
    assert kept * bits + (100 - kept) * (bits + block_encode.OUTLIER_BITS) <= 100 * full
    if bits == full:
        assert start == low


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [DOUBLE, FLOAT])
def test_count_decimals(mode: str, kind: int) -> None:
    texts = ["0", "1", "-7", "0.5", "0.25", "12.34", "-0.001", "1e-5", "123456.789", "1e15", "1e17", "nan", "inf", "-0.0"]
    values = np.array([float(text) for text in texts])
    if kind == FLOAT:
        values = values.astype(np.float32).astype(np.float64)
    bits: Any = values.view(np.uint64) if kind == DOUBLE else values.astype(np.float32).view(np.uint32).astype(np.uint64)
    histogram = np.zeros(20, np.int64)
    run(block_encode.count_decimals, mode)(values, bits, kind, histogram)
    expected = np.zeros(20, np.int64)
    for value, word in zip(values.tolist(), bits.tolist(), strict=True):
        expected[needed(value, word, kind)] += 1
    assert histogram.tolist() == expected.tolist()
    assert histogram[19] >= 4


def needed(value: float, word: int, kind: int) -> int:
    for decimals in range(19):
        if not abs(value * POWERS[decimals]) < 2**51:
            return 19
        whole = float(round(value * POWERS[decimals]))
        back = whole / POWERS[decimals]
        if kind == FLOAT:
            back = float(np.float32(back))
        if back == value and (whole or word == 0):
            return decimals
    return 19
