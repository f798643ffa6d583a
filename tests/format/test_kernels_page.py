"""Writers of page bodies, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.page_case import INTEGERS, MODES, run
from tsdb_format.kernels import page_encode, rare
from tsdb_format.kernels.page import BITMAP, BYTE_SPLIT, MALFORMED, PLAIN_4, RLE, UNKNOWN_ENCODING

words = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=80).map(lambda values: np.array(values, np.uint64))
few = st.lists(st.integers(0, 2), min_size=1, max_size=80).map(lambda values: np.array(values, np.uint64))


@pytest.mark.parametrize("mode", MODES)
@given(values=few)
def test_runs(mode: str, values: np.ndarray) -> None:
    edges = np.flatnonzero(np.diff(values)) + 1
    runs = len(edges) + 1
    assert run(page_encode.count_runs, mode)(values) == runs
    out = np.full(200, 0xAB, np.uint64)
    size = run(page_encode.write_runs, mode)(values, 0, len(values), out, 2)
    assert out[2] == runs
    assert out[3:].view(np.uint32)[:runs].tolist() == [*edges.tolist(), len(values)]
    assert out[3 + (runs + 1) // 2 : 2 + size].tolist() == values[[0, *edges]].tolist()
    for low, high in ((0, len(values)), (len(values) // 2, len(values)), (len(values) - 1, len(values))):
        found = np.zeros(high - low + 1, np.uint64)
        assert run(rare.expand_runs, mode)(out, 2, 2 + size, low, high, found, 1) == 0
        assert found[1:].tolist() == values[low:high].tolist()
        assert run(rare.expand_runs, mode)(out, 2, 1 + size, low, high, found, 1) == MALFORMED


@pytest.mark.parametrize("mode", MODES)
@given(values=words)
def test_small_and_split(mode: str, values: np.ndarray) -> None:
    rows = len(values)
    out = np.full(200, 0xAB, np.uint64)
    size = run(page_encode.write_small, mode)(values, 0, rows, 2, 32, out, 1)
    assert out[1 : 1 + size].view(np.uint32)[:rows].tolist() == (values & np.uint64(2**32 - 1)).tolist()
    check_rare(mode, out, 1, size, PLAIN_4, 4, values & np.uint64(2**32 - 1))
    size = run(page_encode.write_small, mode)(values, 0, rows, 64, 1, out, 1)
    assert np.unpackbits(out[1 : 1 + size].view(np.uint8), bitorder="little")[:rows].tolist() == (values & np.uint64(1)).tolist()
    check_rare(mode, out, 1, size, BITMAP, 8, values & np.uint64(1))
    for item in (4, 8):
        size = run(page_encode.write_split, mode)(values, 0, rows, item, out, 1)
        planes = out[1 : 1 + size].view(np.uint8)[: rows * item].reshape(item, rows)
        assert planes.tolist() == values.view(np.uint8).reshape(rows, 8)[:, :item].T.tolist()
        check_rare(mode, out, 1, size, BYTE_SPLIT, item, values & np.uint64(2 ** (8 * item) - 1))


def check_rare(mode: str, out: np.ndarray, begin: int, size: int, encoding: int, item: int, expected: np.ndarray) -> None:
    page, rows = out[: begin + size].copy(), len(expected)
    for low, high in ((0, rows), (rows // 2, rows)):
        found = np.zeros(high - low, np.uint64)
        call = run(rare.decode_rare, mode)
        assert call(page, page.view(np.uint8), begin, begin + size, encoding, item, rows, low, high, found, 0) == 0
        assert found.tolist() == expected[low:high].tolist()
        assert call(page, page.view(np.uint8), begin, begin + size - 1, encoding, item, rows, low, high, found, 0) == MALFORMED
        assert call(page, page.view(np.uint8), begin, begin + size, 77, item, rows, low, high, found, 0) == UNKNOWN_ENCODING


def test_run_ends_that_do_not_ascend_are_malformed_or_harmless() -> None:
    out = np.zeros(20, np.uint64)
    size = page_encode.write_runs(np.array([1, 1, 2, 2, 3], np.uint64), 0, 5, out, 0)
    found = np.zeros(5, np.uint64)
    for ends in ((0, 0, 0), (5, 4, 3), (2, 2, 2**32 - 1), (9, 0, 1)):
        out[1:3] = np.array([*ends, 0], np.uint32).view(np.uint64)
        assert rare.decode_rare(out, out.view(np.uint8), 0, size, RLE, 8, 5, 0, 5, found, 0) in (0, MALFORMED)
    out[0] = 2**63
    assert rare.expand_runs(out, 0, size, 0, 5, found, 0) == MALFORMED


@pytest.mark.parametrize("mode", MODES)
@given(cells=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40))
def test_fill_nulls(mode: str, cells: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in cells], np.uint64)
    validity = np.array([valid for _, valid in cells])
    run(page_encode.fill_nulls, mode)(values, validity)
    last = next((value for value, valid in cells if valid), 0)
    for found, (value, valid) in zip(values.tolist(), cells, strict=True):
        last = value if valid else last
        assert found == last


@pytest.mark.parametrize("mode", MODES)
def test_write_blocks_is_block_after_block(mode: str) -> None:
    values = INTEGERS["counter"](np.random.default_rng(1), 1100).view(np.uint64)
    scratch = (np.empty(2080, np.uint64), np.empty(1024, np.uint64), np.empty(2048, np.int64))
    doubles = np.empty(0, np.float64)
    out = np.zeros(3000, np.uint64)
    size = run(page_encode.write_blocks, mode)(values, doubles, 0, 1100, 0, 1, 31, out, 2, *scratch)
    entries = out[2:10].reshape(2, 4)
    assert (entries[0, 3] & np.uint64(2**27 - 1)) == 8
    assert entries[:, 0].tolist() == values[[0, 1024]].tolist()
    assert size < 1100
