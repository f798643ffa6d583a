"""Checksums in kernels, against the xxhash library."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash

from support.page_case import MODES, run
from tsdb_format.encoding.checksum import EMPTY_CHECKSUM, checksum
from tsdb_format.kernels.checksum import STATE, WORDS_MIN, stored_checksum

WORDS = np.random.default_rng(3).integers(0, 2**64, 20_000, dtype=np.uint64, endpoint=False)


def library(count: int, at: int = 0) -> int:
    return xxhash.xxh3_64_intdigest(WORDS[at : at + count].tobytes().ljust(8 * WORDS_MIN, b"\0"))


@pytest.mark.parametrize("mode", MODES)
def test_long_form(mode: str) -> None:
    lengths = [*range(31, 60), 127, 128, 129, 130, 255, 256, 257] if mode == "python" else [*range(31, 400), 1023, 1024, 19_990]
    for count in lengths:
        assert int(run(stored_checksum, mode)(WORDS, 7, count, np.empty(STATE, np.uint64))) == library(count, 7)


@pytest.mark.parametrize("mode", MODES)
def test_short_units_count_as_padded(mode: str) -> None:
    for count in range(40):
        assert int(run(stored_checksum, mode)(WORDS, 3, count, np.empty(STATE, np.uint64))) == library(count, 3)


def test_of_bytes() -> None:
    assert checksum(b"") == EMPTY_CHECKSUM == library(0)
    assert checksum(WORDS[:500].tobytes()) == library(500)
