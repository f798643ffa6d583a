"""Interleaved bit-packing, against Python's big integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.page_case import MODES, run
from tsdb_format.kernels.bitpack import pack, packed_words, unpack

Words = NDArray[np.uint64]


def pack_twin(values: list[int], width: int) -> list[int]:
    """Each lane is one big integer; its words are dealt out in turn."""
    lanes = [sum(value << (row * width) for row, value in enumerate(values[lane::16])) for lane in range(16)]
    words = packed_words(len(values), width) // 16
    return [(lanes[lane] >> (64 * word)) & (2**64 - 1) for word in range(words) for lane in range(16)]


def random_values(count: int, width: int, seed: int) -> Words:
    values = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64, endpoint=False)
    return values >> np.uint64(64 - width) if width else np.zeros(count, np.uint64)


def padded(values: Words) -> Words:
    return np.concatenate([values, np.zeros(-len(values) % 16, np.uint64)])


def check(mode: str, count: int, width: int, low: int, high: int, seed: int) -> None:
    values = random_values(count, width, seed)
    out = np.full(1100, 0xABAD, np.uint64)
    size = run(pack, mode)(padded(values), count, width, out, 5)
    assert size == packed_words(count, width)
    assert out[5 : 5 + size].tolist() == pack_twin(values.tolist(), width)
    assert (out[:5] == 0xABAD).all()
    assert (out[5 + size :] == 0xABAD).all()
    found = np.full(1024, 0xF00D, np.uint64)
    run(unpack, mode)(out[: 5 + size].copy(), 5, width, low, high, found)
    assert found[low:high].tolist() == values[low:high].tolist()
    first, last = low // 16 * 16, -(-high // 16) * 16
    assert (found[:first] == 0xF00D).all()
    assert (found[last:] == 0xF00D).all()


@pytest.mark.parametrize("mode", MODES)
def test_every_width(mode: str) -> None:
    for width in range(65):
        check(mode, 40 if mode == "python" else 1024, width, 0, 40 if mode == "python" else 1024, width)


shares = st.floats(0, 1)


@given(count=st.integers(1, 1024), width=st.integers(0, 64), cut=st.tuples(shares, shares), seed=st.integers(0, 99))
def test_any_count_and_part(count: int, width: int, cut: tuple[float, float], seed: int) -> None:
    low, high = sorted(int(part * count) for part in cut)
    check("auto", count, width, low, max(high, low + 1) if low < count else count, seed)
