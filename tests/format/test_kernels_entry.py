"""The kernels that Python calls, as plain Python and by numba: the same bytes and the same rows as in the process's own way."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from support.file_case import same_values
from support.page_case import MODES, make_vector, page_set, ranges, rows_of, run, shapes
from tsdb_format.encoding import encode_chunk, read_pages, search_sorted
from tsdb_format.kernels.registry import KERNELS, Kernel
from tsdb_format.types import BLOB, BOOLEAN, DOUBLE, FLOAT, INT32, INT64, STRING, ColumnType, Kind

MODULES = ("checksum", "compression", "dense", "dictionary", "number", "read", "search", "text")
TYPES = (BOOLEAN, INT32, INT64, FLOAT, DOUBLE, STRING, BLOB, ColumnType(Kind.VECTOR, 3))


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every kernel that ``tsdb_format.encoding`` calls runs in that mode."""
    for name in MODULES:
        module = importlib.import_module(f"tsdb_format.encoding.{name}")
        for key, value in list(vars(module).items()):
            if isinstance(value, Kernel):
                monkeypatch.setattr(module, key, run(value, request.param))
    text = importlib.import_module("tsdb_format.kernels.text")  # which encoding.text calls by module
    own = {key: value for key, value in vars(text).items() if isinstance(value, Kernel) and value.module == text.__name__}
    for key, made in {key: run(value, request.param) for key, value in own.items()}.items():  # they call each other
        monkeypatch.setattr(text, key, made)
    return str(request.param)


def cases() -> list[tuple[Any, int]]:
    """A small column of every type and shape, and its page size."""
    return [
        (make_vector(kind, shape, 90 + number, 0.15 * (number % 3), number), (4, 32, 100)[number % 3])
        for kind in TYPES
        for number, shape in enumerate(shapes(kind))
    ]


def encoded() -> list[tuple[Any, ...]]:
    """What all cases are encoded to."""
    found = []
    for vector, rows_per_page in cases():
        chunk = encode_chunk(vector, rows_per_page)
        tables = (chunk.page_offset, chunk.page_bytes, chunk.page_checksum, chunk.page_encoding, chunk.page_compression)
        found.append((chunk.data.tobytes(), *(table.tolist() for table in tables), chunk.dict_bytes, chunk.dict_checksum))
    return found


@pytest.fixture(scope="module")
def expected() -> list[tuple[Any, ...]]:
    """The same in the process's own way; set up before any kernel is replaced."""
    return encoded()


def test_the_same_bytes(expected: list[tuple[Any, ...]], mode: str) -> None:
    assert encoded() == expected, mode


def test_the_same_rows(mode: str) -> None:
    rng = np.random.default_rng(1)
    for vector, rows_per_page in cases():
        pages = page_set(vector, rows_per_page)
        for starts, stops in ((np.array([0]), np.array([len(vector)])), ranges(rng, len(vector))):
            assert same_values(read_pages(pages, starts, stops), vector.take(rows_of(starts, stops)))


def test_the_same_search(mode: str) -> None:
    for shape in ("counter", "many devices", "runs", "any"):
        vector = make_vector(INT64, shape, 120, 0.0, 3)
        vector.values.sort()
        pages = page_set(vector, 32)
        for key in (*vector.values[::40].tolist(), 0):
            for right in (False, True):
                found = search_sorted(pages, np.array([0, 50]), np.array([120, 90]), key, right)
                side: Any = "right" if right else "left"
                assert found.tolist() == [
                    np.searchsorted(vector.values, key, side),
                    50 + np.searchsorted(vector.values[50:90], key, side),
                ]


def test_kernels_are_named_as_their_modules_say() -> None:
    for name, kernel in KERNELS.items():
        assert name == f"{kernel.module}.{kernel.name}"
        assert kernel.py_func.__doc__
