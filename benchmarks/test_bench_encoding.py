"""Micro-benchmarks: encoding and decoding a chunk of each kind of column, and reading a few rows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from support.page_case import page_set
from tsdb_format.encoding import EncodedChunk, Encoding, PageSet, checksum, encode_chunk, read_pages, search_sorted
from tsdb_format.encoding.number import Choice, as_numbers, choose, write_numbers
from tsdb_format.types import BLOB, BOOLEAN, DOUBLE, FLOAT, INT64, STRING, TIMESTAMP_NS, ColumnType, Kind
from tsdb_format.vector import Pool, Vector

PAGE_ROWS = 8192
Benchmark = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A column and, for numbers, the encoding to measure."""

    vector: Vector
    choice: Choice | None = None

    def encode(self, vector: Vector, rows_per_page: int) -> EncodedChunk:
        """As chosen here, or as the writer would."""
        if self.choice is None:
            return encode_chunk(vector, rows_per_page)
        nothing = np.empty(0, np.bool_)
        return write_numbers(as_numbers(vector, nothing), nothing, rows_per_page, self.choice)

    def pages(self) -> PageSet:
        """The column's pages in memory, checksums verified."""
        pages = page_set(self.vector, PAGE_ROWS, self.encode)
        read_pages(pages, np.array([0]), np.array([len(self.vector)]))
        return pages


def make_cases(rows: int) -> dict[str, Case]:
    """One column per encoding."""
    rng = np.random.default_rng(1)
    integers = rng.integers(0, 1000, rows)
    walk = np.round(np.abs((np.cumsum(rng.normal(0, 0.3, rows)) + 50) % 200 - 100), 2)
    hosts = Pool.of([b"host-%03d" % i for i in range(100)])
    notes = Pool.of([b"request %d took %d ms" % (i, i * 7919 % 997) for i in range(rows)])
    every = np.arange(rows, dtype=np.int32)
    return {
        "plain": Case(Vector(INT64, rng.integers(-(2**63), 2**63 - 1, rows)), Choice(0, Encoding.PLAIN)),
        "for": Case(Vector(INT64, integers), Choice(0, Encoding.FOR)),
        "delta": Case(Vector(INT64, np.cumsum(integers)), Choice(0, Encoding.DELTA, 1)),
        "delta times": Case(Vector(TIMESTAMP_NS, 10**18 + np.arange(rows) % 1000 * 5_000_000_000), Choice(0, Encoding.DELTA, 1)),
        "rle": Case(Vector(INT64, np.repeat(integers, 50)[:rows]), Choice(0, Encoding.RLE)),
        "alp for": Case(Vector(DOUBLE, walk), Choice(0, Encoding.ALP, 0, 2)),
        "alp delta": Case(Vector(DOUBLE, walk), Choice(0, Encoding.ALP, 1, 2)),
        "alp float": Case(Vector(FLOAT, walk.astype(np.float32)), Choice(0, Encoding.ALP, 0, 2)),
        "byte split": Case(Vector(DOUBLE, np.cumsum(rng.normal(0, 1e-6, rows))), Choice(0, Encoding.BYTE_SPLIT)),
        "bitmap": Case(Vector(BOOLEAN, integers % 2 == 0), Choice(0, Encoding.BITMAP)),
        "nulls": Case(Vector(INT64, integers, rng.random(rows) < 0.9)),
        "dictionary": Case(Vector(STRING, (integers % 100).astype(np.int32), None, hosts)),
        "strings": Case(Vector(STRING, every, None, notes)),
        "blobs": Case(Vector(BLOB, every, None, Pool.of([rng.bytes(24) for _ in range(rows)]))),
        "vectors": Case(Vector(ColumnType(Kind.VECTOR, 16), rng.normal(0, 1, (rows, 16)).astype(np.float32))),
    }  # fmt: skip


NAMES = tuple(make_cases(1))


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> dict[str, Case]:
    measured = request.config.getoption("--benchmark-enable")  # overrides the --benchmark-disable of pyproject.toml
    return make_cases(64 * PAGE_ROWS if measured else 5_000)


def per_value(benchmark: Any, rows: int) -> None:
    """Note the rate beside the time, where it was measured."""
    if benchmark.stats is not None:
        benchmark.extra_info["million_rows_per_s"] = round(rows / benchmark.stats.stats.min / 1e6, 1)


@pytest.mark.parametrize("name", NAMES)
def test_encode(benchmark: Any, cases: dict[str, Case], name: str) -> None:
    case = cases[name]
    chunk = benchmark(case.encode, case.vector, PAGE_ROWS)
    benchmark.extra_info["bytes_per_row"] = round(len(chunk.data) / len(case.vector), 3)
    per_value(benchmark, len(case.vector))


@pytest.mark.parametrize("name", NAMES)
def test_decode(benchmark: Any, cases: dict[str, Case], name: str) -> None:
    pages = cases[name].pages()
    found = benchmark(read_pages, pages, np.array([0]), np.array([pages.row_count]))
    assert len(found) == pages.row_count
    per_value(benchmark, pages.row_count)


@pytest.mark.parametrize("name", NAMES)
def test_ten_rows(benchmark: Any, cases: dict[str, Case], name: str) -> None:
    pages = cases[name].pages()
    starts = np.linspace(0, pages.row_count - 1, 10).astype(np.int64)
    assert len(benchmark(read_pages, pages, starts, starts + 1)) == 10


@pytest.mark.parametrize("name", ["for", "alp for", "dictionary"])
def test_choose(benchmark: Any, cases: dict[str, Case], name: str) -> None:
    vector = cases[name].vector
    plain = Vector(INT64, vector.values.astype(np.int64)) if vector.pool else vector
    numbers = as_numbers(plain, np.empty(0, np.bool_))
    assert benchmark(choose, numbers, PAGE_ROWS).cost > 0


def test_search(benchmark: Any, cases: dict[str, Case]) -> None:
    pages = cases["delta times"].pages()
    starts = np.arange(0, pages.row_count, 1000)
    stops = np.minimum(starts + 1000, pages.row_count)
    found = benchmark(search_sorted, pages, starts, stops, 10**18 + 500 * 5_000_000_000, False)
    assert (found - starts)[0] == 500


def test_checksum(benchmark: Any) -> None:
    assert benchmark(checksum, bytes(65_536)) > 0
