"""Columns in many shapes, and their pages in memory: for tests of encodings without a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tsdb_format.encoding import PAGES_PER_CHUNK, EncodedChunk, PageSet, encode_chunk
from tsdb_format.kernels.registry import Kernel
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import Pool, Vector

INT64 = np.iinfo(np.int64)
PAGE_ROWS = (1, 4, 100, 1000, 1024, 2048)
#: How kernels are run in tests: as the process would, by numba, and as plain Python.
MODES = ("auto", "jit", "python")


def run(kernel: Kernel, mode: str) -> Callable[..., Any]:
    """The kernel in one of ``MODES``; plain Python wraps around as machine code does, without numpy's warnings."""
    resolved = kernel.resolve(mode)

    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return resolved(*args)

    return call


def page_set(
    vector: Vector, rows_per_page: int, encode: Callable[[Vector, int], EncodedChunk] = encode_chunk, gap: int = 24
) -> PageSet:
    """Encode a column chunk by chunk into one buffer, with ``gap`` bytes of noise around the chunks."""
    rows, step = len(vector), rows_per_page * PAGES_PER_CHUNK
    chunks = [encode(vector.take(slice(at, at + step)), rows_per_page) for at in range(0, rows, step)]
    buffer = np.full(gap + sum(len(chunk.data) + gap for chunk in chunks), 0xA5, np.uint8)
    at, starts = gap, []
    for chunk in chunks:
        buffer[at : at + len(chunk.data)] = chunk.data
        starts.append(at)
        at += len(chunk.data) + gap
    valid = vector.valid()
    nulls = [np.count_nonzero(~valid[row : row + rows_per_page]) for row in range(0, rows, rows_per_page)]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(chunk, name) for chunk in chunks])

    offsets = np.concatenate([chunk.page_offset + start for chunk, start in zip(chunks, starts, strict=True)])
    return PageSet(
        vector.type, buffer, rows, rows_per_page, offsets, joined("page_bytes"), joined("page_checksum"), joined("page_encoding"),
        joined("page_compression"), np.array(nulls, np.int64),
        np.array([chunk.dict_offset + start for chunk, start in zip(chunks, starts, strict=True)], np.int64),
        np.array([chunk.dict_bytes for chunk in chunks], np.int64),
        np.array([chunk.dict_checksum for chunk in chunks], np.uint64), np.zeros(len(nulls), np.uint8), "memory",
    )  # fmt: skip


def ranges(rng: np.random.Generator, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Some ascending, non-overlapping, non-empty ranges of rows."""
    count = int(rng.integers(1, 20))
    cuts = np.sort(rng.choice(rows + 1, min(2 * count, (rows + 1) // 2 * 2), replace=False)).astype(np.int64)
    return cuts[::2].copy(), cuts[1::2].copy()


def rows_of(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of ranges, end to end."""
    return np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])


def _cut(values: NDArray[Any], rng: np.random.Generator, share: float, other: Any) -> NDArray[Any]:
    values = values.copy()
    values[rng.random(len(values)) < share] = other
    return values


INTEGERS: dict[str, Callable[[np.random.Generator, int], NDArray[np.int64]]] = {
    "any": lambda rng, n: rng.integers(INT64.min, INT64.max, n, endpoint=True),
    "extremes": lambda rng, n: rng.choice(np.array([INT64.min, INT64.max, 0, -1, 1]), n),
    "counter": lambda rng, n: np.cumsum(rng.integers(-5, 100, n)),
    "even times": lambda rng, n: 1_767_225_600 * 10**9 + np.arange(n) * 5_000_000_000,
    "many devices": lambda rng, n: 10**15 + np.arange(n) % 97 * 1000,
    "constant": lambda rng, n: np.full(n, rng.integers(-9, 9)),
    "runs": lambda rng, n: np.repeat(rng.integers(0, 9, n // 50 + 1), 50)[:n],
    "sentinels": lambda rng, n: _cut(rng.integers(0, 100, n), rng, 0.01, INT64.min),
    "multiples": lambda rng, n: rng.integers(0, 50, n) * 7919 + 3,
    "top": lambda rng, n: INT64.max - rng.integers(0, 1000, n),
    "wrapping steps": lambda rng, n: (np.arange(n, dtype=np.uint64) * np.uint64(0x5851F42D4C957F2D)).view(np.int64),
    "bits": lambda rng, n: rng.integers(0, 2 ** int(rng.integers(1, 62)), n),
}
DOUBLES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "uniform": lambda rng, n: rng.random(n),
    "walk": lambda rng, n: np.round(np.cumsum(rng.normal(0, 1, n)), 2),
    "holes": lambda rng, n: _cut(_cut(_cut(np.round(rng.random(n) * 100, 1), rng, 0.1, np.nan), rng, 0.1, -0.0), rng, 0.1, np.inf),
    "any bits": lambda rng, n: rng.integers(INT64.min, INT64.max, n, endpoint=True).view(np.float64),
    "thousands": lambda rng, n: rng.integers(0, 2**40, n) * 1e3,
    "from floats": lambda rng, n: rng.random(n).astype(np.float32).astype(np.float64),
    "negative zero": lambda rng, n: np.full(n, -0.0),
    "smooth": lambda rng, n: 20 + np.cumsum(rng.normal(0, 1e-9, n)),
    "scaled": lambda rng, n: np.round(rng.random(n), int(rng.integers(0, 16))) * 10.0 ** rng.integers(-20, 200),
}
TEXTS: dict[str, Callable[[np.random.Generator, int], list[bytes]]] = {
    "one": lambda rng, n: [rng.bytes(3)] * n,
    "few": lambda rng, n: [b"name-%d" % i for i in rng.integers(0, 5, n)],
    "numbered": lambda rng, n: [b"request %d of user" % i for i in range(n)],
    "noise": lambda rng, n: [rng.bytes(int(size)) for size in rng.integers(0, 40, n)],
    "mostly empty": lambda rng, n: [b"" if i % 9 else b"\0" * int(i) for i in range(n)],
    "long": lambda rng, n: [b"x" * int(size) for size in rng.integers(0, 3000, n)],
}


def make_vector(kind: ColumnType, shape: str, rows: int, null_share: float, seed: int) -> Vector:
    """A column of a named shape; the same for the same seed. Codes of NULLs are -1."""
    rng = np.random.default_rng(seed)
    validity = rng.random(rows) >= null_share if null_share else None
    with np.errstate(all="ignore"):
        if kind.is_pooled:
            # Twice in the pool under other codes: codes are names, not identities.
            texts = TEXTS[shape](rng, rows)
            values: NDArray[Any] = (np.arange(rows) + rng.integers(0, 2, rows) * rows).astype(np.int32)
            return Vector(kind, values if validity is None else np.where(validity, values, -1), validity, Pool.of(texts * 2))
        if kind.kind is Kind.VECTOR:
            values = np.stack([DOUBLES[shape](rng, rows) for _ in range(kind.width)], 1).astype(np.float32)
        elif kind.is_float:
            values = DOUBLES[shape](rng, rows).astype(kind.physical)
        elif kind.kind is Kind.BOOLEAN:
            values = INTEGERS[shape](rng, rows) % 2 == 0
        else:
            values = INTEGERS[shape](rng, rows).astype(kind.physical)
    return Vector(kind, np.ascontiguousarray(values), validity)


def shapes(kind: ColumnType) -> list[str]:
    """The names of the shapes that a type has."""
    if kind.is_pooled:
        return list(TEXTS)
    return list(DOUBLES) if kind.is_float or kind.kind is Kind.VECTOR else list(INTEGERS)


@st.composite
def columns(draw: st.DrawFn, kind: ColumnType, rows_max: int = 5000) -> tuple[Vector, int]:
    """A column and a page size: at most some chunks, at most ``rows_max`` rows."""
    rows_per_page = draw(st.sampled_from(PAGE_ROWS))
    rows = draw(st.integers(1, min(rows_max, 70 * rows_per_page + 1)))
    null_share = draw(st.sampled_from([0.0, 0.0, 0.02, 0.5, 0.99, 1.0]))
    return make_vector(kind, draw(st.sampled_from(shapes(kind))), rows, null_share, draw(st.integers(0, 2**32))), rows_per_page
